// The default model against logits computed in f32 on the dequantized weights by another program (numpy): see
// docs/accuracy.md.

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <tuple>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/level.h"
#include "engine/harness.h"
#include "file/model_file.h"
#include "hub/resolve.h"
#include "shared.h"

namespace martlet {
namespace {

constexpr std::chrono::seconds kPatience{280};  // the scalar level is slow

struct Reference {
  std::string name;
  std::vector<Token> ids, greedy;
  std::vector<double> margin;
  std::vector<std::pair<Token, double>> top;
  double nll;
};

std::vector<Reference> read_references() {
  std::ifstream in(shared_path("vectors/models/smollm2-135m-instruct-q4_1.json"));
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  std::vector<Reference> references;
  const boost::json::value document = boost::json::parse(text);
  for (const auto& [name, value] : document.as_object()) {
    const boost::json::object& entry = value.as_object();
    Reference reference{.name = name,
                        .ids = boost::json::value_to<std::vector<Token>>(entry.at("ids")),
                        .greedy = boost::json::value_to<std::vector<Token>>(entry.at("greedy")),
                        .margin = boost::json::value_to<std::vector<double>>(entry.at("margin")),
                        .top = {},
                        .nll = entry.at("nll").to_number<double>()};
    for (const auto& pair : entry.at("top").as_array())
      reference.top.emplace_back(pair.at(0).to_number<Token>(), pair.at(1).to_number<double>());
    references.push_back(std::move(reference));
  }
  return references;
}

std::string find_model() {
  if (const char* path = std::getenv("MARTLET_TEST_MODEL")) return path;
  const Result<std::string> path = resolve_model("");
  return path && std::filesystem::exists(*path) ? *path : "";
}

Reference read_reference(const std::string& name) {
  for (const Reference& reference : read_references())
    if (reference.name == name) return reference;
  ADD_FAILURE() << "no reference named " << name;
  return {};
}

#define NEEDS_MODEL_AND_REFERENCE()                                       \
  MARTLET_NEEDS_SHARED("vectors/models/smollm2-135m-instruct-q4_1.json"); \
  if (find_model().empty()) GTEST_SKIP() << "the default model is not present"

std::unique_ptr<Engine> real_engine(const CpuOptions& cpu, EngineOptions options = {}) {
  options.context = 1024;
  auto file = ModelFile::open(find_model());
  EXPECT_TRUE(file) << file.error().line();
  auto backend = make_cpu_backend(cpu);
  EXPECT_TRUE(backend) << backend.error().line();
  auto engine = Engine::create(*file, std::move(*backend), options);
  EXPECT_TRUE(engine) << engine.error().line();
  return std::move(*engine);
}

std::shared_ptr<RecordingSink> submit(Engine& engine, Request request) {
  auto sink = std::make_shared<RecordingSink>();
  const auto id = engine.submit(std::move(request), sink);
  EXPECT_TRUE(id) << id.error().line();
  return sink;
}

struct Measured {
  double nll = 0;
  std::vector<std::pair<Token, float>> top;  // for the first token after the prompt
  std::vector<Token> greedy;
};

Measured measure(Engine& engine, const Reference& reference, size_t outputs) {
  Request request = greedy(reference.ids, static_cast<int32_t>(outputs));
  request.prompt_logprobs = true;
  request.top_logprobs = 20;
  const auto sink = submit(engine, std::move(request));
  EXPECT_NE(sink->wait(kPatience).reason, FinishReason::error);
  Measured measured;
  for (const Emitted& e : sink->emitted()) {
    if (e.prompt) measured.nll -= e.logprob / static_cast<double>(reference.ids.size() - 1);
    if (!e.prompt && measured.greedy.empty()) measured.top = e.top;
    if (!e.prompt) measured.greedy.push_back(e.token);
  }
  return measured;
}

// Greedy tokens must be equal up to the first place where the reference itself was in doubt.
void expect_same_greedy(const Reference& reference, const std::vector<Token>& tokens, double margin) {
  for (size_t i = 0; i < tokens.size() && reference.margin[i] > margin; ++i)
    EXPECT_EQ(tokens[i], reference.greedy[i]) << reference.name << " token " << i;
}

class F32Reference : public testing::TestWithParam<std::pair<const char*, bool>> {};

TEST_P(F32Reference, LogprobsWithinTwoThousandths) {
  NEEDS_MODEL_AND_REFERENCE();
  const auto& [name, scalar] = GetParam();
  const Reference reference = read_reference(name);
  const auto engine = real_engine({.level = scalar ? cpu::levels().front() : nullptr, .f32_activations = true},
                                  {.cache_type = CacheType::f32});
  const Measured measured = measure(*engine, reference, 1);
  double worst = 0;
  size_t seen = 0;
  for (const auto& [token, logprob] : reference.top) {
    const auto found = std::ranges::find(measured.top, token, &std::pair<Token, float>::first);
    if (found == measured.top.end()) continue;
    worst = std::max(worst, std::abs(found->second - logprob));
    ++seen;
  }
  EXPECT_GE(seen, reference.top.size() - 1) << "the last may change places with the next";
  EXPECT_GE(measured.top.size(), 20u);
  EXPECT_LE(worst, 0.002);
  EXPECT_NEAR(measured.nll, reference.nll, 0.002);
  EXPECT_EQ(measured.greedy, std::vector<Token>(1, reference.greedy.front()));
  std::printf("largest top-20 error %.6f, nll error %.6f\n", worst, std::abs(measured.nll - reference.nll));
}

// All levels give the same bits, so one short prompt is enough for the slowest.
INSTANTIATE_TEST_SUITE_P(ReferenceLogits, F32Reference,
                         testing::Values(std::pair("capital", true), std::pair("capital", false),
                                         std::pair("chat", false), std::pair("code", false), std::pair("list", false),
                                         std::pair("unicode", false), std::pair("long", false)),
                         [](const auto& test) {
                           return test.param.first + std::string(test.param.second ? "Scalar" : "");
                         });

TEST(ReferenceLogits, FastLevelsWithinOnePercentOfNll) {
  NEEDS_MODEL_AND_REFERENCE();
  for (const cpu::Level* level : cpu::levels()) {
    if (!level->available() || level == cpu::levels().front()) continue;
    const auto engine = real_engine({.level = level});
    for (const Reference& reference : read_references()) {
      const Measured measured = measure(*engine, reference, reference.greedy.size());
      EXPECT_NEAR(measured.nll, reference.nll, 0.01 * reference.nll) << level->name << " " << reference.name;
      expect_same_greedy(reference, measured.greedy, 0.7);
      std::printf("%-8s %s: nll %.5f, reference %.5f (%+.2f %%)\n", reference.name.c_str(), level->name.data(),
                  measured.nll, reference.nll, 100 * (measured.nll / reference.nll - 1));
    }
  }
}

// What a cache type costs beside f16, over all prompts: docs/accuracy.md.
TEST(ReferenceLogits, CacheTypesCostLittle) {
  NEEDS_MODEL_AND_REFERENCE();
  const auto nlls = [](CacheType type) {
    const auto engine = real_engine({}, {.cache_type = type});
    std::map<std::string, double> out;
    for (const Reference& reference : read_references()) out[reference.name] = measure(*engine, reference, 1).nll;
    return out;
  };
  const auto f16 = nlls(CacheType::f16);
  for (const auto& [type, mean_limit, limit] :
       {std::tuple{CacheType::bf16, 0.01, 0.02}, {CacheType::q8, 0.01, 0.02}, {CacheType::q4, 0.1, 0.2}}) {
    double sum = 0, sum_f16 = 0;
    for (const auto& [prompt, nll] : nlls(type)) {
      std::printf("%-8s %s: nll %.5f, f16 %.5f (%+.2f %%)\n", prompt.c_str(), name_of(type).data(), nll, f16.at(prompt),
                  100 * (nll / f16.at(prompt) - 1));
      EXPECT_LE(std::abs(nll / f16.at(prompt) - 1), limit) << name_of(type) << " " << prompt;
      sum += nll, sum_f16 += f16.at(prompt);
    }
    std::printf("%s: %+.2f %% in the mean\n", name_of(type).data(), 100 * (sum / sum_f16 - 1));
    EXPECT_LE(std::abs(sum / sum_f16 - 1), mean_limit) << name_of(type);
  }
}

class BitIdentity : public testing::TestWithParam<CacheType> {};
INSTANTIATE_TEST_SUITE_P(CacheOf, BitIdentity, testing::Values(CacheType::f16, CacheType::q8, CacheType::q4),
                         [](const auto& type) { return std::string(name_of(type.param)); });

// Alone, among 32, in other chunks, after a reused prefix: the same tokens, and the same log-probabilities to the bit.
TEST_P(BitIdentity, GreedyOutputDoesNotDependOnWhatElseRuns) {
  NEEDS_MODEL_AND_REFERENCE();
  const std::vector<Reference> references = read_references();
  const auto request = [&](size_t i) {
    const Reference& reference = references[i % references.size()];
    Request r = greedy(reference.ids, 6);
    r.prompt.resize(std::min(r.prompt.size(), 56 - i));  // prompts of many lengths
    r.top_logprobs = 2;
    return r;
  };
  const auto answer = [](RecordingSink& sink) {
    EXPECT_EQ(sink.wait(kPatience).reason, FinishReason::length);
    std::vector<std::pair<Token, float>> values;
    for (const Emitted& e : sink.emitted()) values.emplace_back(e.token, e.logprob);
    return values;
  };
  std::vector<std::vector<std::pair<Token, float>>> alone;
  {
    const auto engine = real_engine({}, {.max_sequences = 1, .cache_type = GetParam()});
    for (size_t i = 0; i < 32; ++i) alone.push_back(answer(*submit(*engine, request(i))));
  }
  for (const int32_t chunk : {512, 23}) {
    const auto engine = real_engine({}, {.max_sequences = 32, .prefill_chunk = chunk, .cache_type = GetParam()});
    for (const char* round : {"fresh", "with reused prefixes"}) {
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (size_t i = 0; i < 32; ++i) sinks.push_back(submit(*engine, request(i)));
      for (size_t i = 0; i < 32; ++i)
        EXPECT_EQ(answer(*sinks[i]), alone[i]) << "request " << i << " chunk " << chunk << " " << round;
    }
  }
}

}  // namespace
}  // namespace martlet
