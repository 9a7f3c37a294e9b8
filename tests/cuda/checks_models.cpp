#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "backend/choose.h"
#include "checks.h"
#include "file/model_file.h"
#include "model/model.h"

namespace martlet::gpu {
namespace {

[[noreturn]] void stop(const Error& error) {
  std::printf("%s\n", error.line().c_str());
  std::exit(1);
}

// A model with pages for `sequences` sequences of `tokens` tokens.
class Loaded {
 public:
  Loaded(const std::string& path, Backend& backend, int32_t sequences, int32_t tokens, CacheType type = CacheType::f16)
      : backend_(backend) {
    const auto file = ModelFile::open(path);
    if (!file) stop(file.error());
    const auto h = read_hyperparameters(**file);
    if (!h) stop(h.error());
    each_ = (tokens + backend.page_tokens() - 1) / backend.page_tokens();
    auto model = Model::create(*file, *h, backend, sequences * each_, type);
    if (!model) stop(model.error());
    model_ = std::move(*model);
  }
  ~Loaded() { backend_.close(model_->id()); }

  int32_t vocabulary() const { return model_->hyperparameters().vocabulary; }

  // Rows first .. of sequences with the same tokens; returns the logits of all rows.
  std::vector<float> run(std::span<const Token> tokens, int32_t first, int32_t sequences,
                         const Sampling& sampling = {.temperature = 0}) {
    Rows rows;
    for (int32_t s = 0; s < sequences; ++s) {
      std::vector<Page> pages(static_cast<size_t>(each_));
      std::iota(pages.rbegin(), pages.rend(), s * each_);
      rows.add(tokens, first, pages);
    }
    const PageTable table = rows.page_table();
    const Batch batch = rows.batch(table);
    std::vector<Choice> choices(rows.outputs.size(), {.sampling = sampling});
    for (size_t i = 0; i < choices.size(); ++i) choices[i].sampling.draw = i;
    chosen.resize(choices.size());
    const Ticket ticket = backend_.submit(model_->id(), batch, choices, [&] { return model_->forward(backend_); });
    if (const Status status = backend_.wait(ticket, chosen, {}); !status) stop(status.error());
    return logits_of(backend_, ticket);
  }

  std::vector<Chosen> chosen;

 private:
  Backend& backend_;
  std::unique_ptr<Model> model_;
  int32_t each_ = 0;
};

std::vector<double> log_softmax(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  std::vector<double> out(logits.begin(), logits.end());
  for (double& x : out) x -= largest + std::log(sum);
  return out;
}

// Draws of a step are those of the host from the step's logits.
void check_draws_of(Loaded& model, std::span<const Token> tokens, int32_t first, int32_t sequences, Tally& tally) {
  Chooser chooser;
  size_t same = 0, all = 0;
  for (const Sampling& sampling : {Sampling{.temperature = 0.8f, .seed = 1}, Sampling{.top_k = 40, .seed = 2},
                                   Sampling{.temperature = 0.5f, .top_p = 0.9f, .seed = 3},
                                   Sampling{.temperature = 0.7f, .min_p = 0.1f, .seed = 4}}) {
    const std::vector<float> logits = model.run(tokens, first, sequences, sampling);
    const auto vocabulary = static_cast<size_t>(model.vocabulary());
    for (size_t i = 0; i < model.chosen.size(); ++i, ++all) {
      Choice choice{.sampling = sampling};
      choice.sampling.draw = i;
      const std::span<const float> row = std::span(logits).subspan(i * vocabulary, vocabulary);
      same += chooser.choose(row, choice, {}).token == model.chosen[i].token ? 1 : 0;
    }
  }
  tally.expect(same == all && all > 0, "draws of " + std::to_string(all / 4) + " rows of a model",
               std::to_string(same) + " of " + std::to_string(all) + " as the host draws them");
}

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", value);
  return text;
}

}  // namespace

// The tiny models of tests/golden/models: logits of 40 tokens, whole and in chunks.
void check_golden(const std::string& folder, Backend& cuda, Tally& tally) {
  constexpr int32_t kVocabulary = 64, kPrompt = 40;
  for (const char* name :
       {"llama", "llama-biases", "llama-factors", "llama-linear", "qwen2", "qwen2-yarn", "qwen3", "qwen3-partial"}) {
    std::vector<float> golden(kPrompt + 2 * kPrompt * kVocabulary);
    std::ifstream in(folder + "/" + name + ".f32", std::ios::binary);
    in.read(reinterpret_cast<char*>(golden.data()), static_cast<std::streamsize>(golden.size() * sizeof(float)));
    if (!in) stop({ErrorKind::io, "not_found", "the golden logits cannot be read", folder});
    const std::vector<Token> tokens(golden.begin(), golden.begin() + kPrompt);
    const std::span<const float> expected = std::span(golden).subspan(kPrompt + kPrompt * kVocabulary);
    Loaded model(folder + "/" + name + ".gguf", cuda, 1, kPrompt);
    for (const int32_t chunk : {kPrompt, 7, 1}) {
      double worst = 0;
      for (int32_t first = 0; first < kPrompt; first += chunk) {
        const int32_t rows = std::min(chunk, kPrompt - first);
        const std::vector<float> logits =
            model.run(std::span(tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(rows)), first, 1);
        const double error = relative_error(logits, expected.subspan(static_cast<size_t>(first * kVocabulary),
                                                                     static_cast<size_t>(rows * kVocabulary)));
        worst = error <= worst ? worst : error;  // NaN is worst
      }
      // Rounding the activations of all products to halves costs 0.0010 to 0.0018 of a whole prompt's logits (computed
      // in numpy), and up to four times that of a single row's.
      tally.expect(worst < 0.01, std::string("golden ") + name + " in chunks of " + std::to_string(chunk),
                   "relative error " + fixed(worst));
    }
  }
}

// The greedy tokens of f16 are held to the reference's, of all types the mean nll. Lines: name; ids; greedy tokens;
// margins of those; twenty best tokens and their log-probabilities; mean nll.
void check_reference(const std::string& path, const std::string& reference, CacheType type, Backend& cuda,
                     Tally& tally) {
  std::ifstream in(reference);
  Loaded model(path, cuda, 1, 1024, type);
  const auto list = [&](auto value) {
    std::vector<decltype(value)> out;
    size_t count = 0;
    in >> count;
    for (size_t i = 0; i < count && in >> value; ++i) out.push_back(value);
    return out;
  };
  for (std::string name; in >> name;) {
    const std::vector<Token> ids = list(Token()), greedy = list(Token());
    const std::vector<double> margin = list(double());
    const std::vector<Token> best = list(Token());
    const std::vector<double> logprobs = list(double());
    double expected_nll = 0;
    in >> expected_nll;
    const auto vocabulary = static_cast<size_t>(model.vocabulary());
    const std::vector<float> logits = model.run(ids, 0, 1);
    double nll = 0, worst = 0;
    std::vector<double> last;
    for (size_t i = 0; i < ids.size(); ++i) {
      last = log_softmax(std::span(logits).subspan(i * vocabulary, vocabulary));
      if (i + 1 < ids.size()) nll -= last[static_cast<size_t>(ids[i + 1])] / static_cast<double>(ids.size() - 1);
    }
    for (size_t i = 0; i < best.size(); ++i)
      worst = std::max(worst, std::abs(last[static_cast<size_t>(best[i])] - logprobs[i]));
    Token next = model.chosen.back().token;
    size_t same = 0;
    for (; same < greedy.size() && next == greedy[same]; ++same) {
      model.run({&next, 1}, static_cast<int32_t>(ids.size() + same), 1);
      next = model.chosen.back().token;
    }
    // Equal up to the first place where the reference itself was in doubt.
    const bool doubt = same == greedy.size() || margin[same] < 0.7 || type != CacheType::f16;
    const double tolerance = type == CacheType::fp8 ? 0.03 : 0.01;
    tally.expect(std::abs(nll - expected_nll) < tolerance * expected_nll && doubt,
                 "reference " + name + ", " + std::string(name_of(type)),
                 "nll " + fixed(nll) + " (" + fixed(expected_nll) + "), top-20 error " + fixed(worst) + ", " +
                     std::to_string(same) + " of " + std::to_string(greedy.size()) + " greedy tokens");
  }
}

void check_model(const std::string& path, Backend& cpu, Backend& cuda, Tally& tally) {
  std::mt19937 random(1);
  std::vector<Token> prompt(300);
  Loaded model(path, cuda, 40, 400);
  for (Token& token : prompt) token = static_cast<Token>(random() % static_cast<uint32_t>(model.vocabulary()));
  {
    Loaded other(path, cpu, 1, 400);
    const double whole = relative_error(model.run(prompt, 0, 1), other.run(prompt, 0, 1));
    tally.expect(whole < 0.03, "prompt of 300 beside the CPU", "relative error " + fixed(whole));
    const Token next = 5;
    const double one = relative_error(model.run({&next, 1}, 300, 1), other.run({&next, 1}, 300, 1));
    tally.expect(one < 0.03, "one token beside the CPU", "relative error " + fixed(one));
  }
  for (const int32_t sequences : {2, 3, 8, 17, 32}) {
    const std::span<const Token> shorter = std::span(prompt).first(25);
    for (int32_t i = 0; i < 3; ++i) {
      const std::vector<float> alone = model.run(shorter.subspan(static_cast<size_t>(i), 1), i, 1);
      const std::vector<float> together = model.run(shorter.subspan(static_cast<size_t>(i), 1), i, sequences);
      const bool same = std::equal(alone.begin(), alone.end(), together.end() - static_cast<int64_t>(alone.size()));
      if (i == 2) tally.expect(same, "the same bits alone and among " + std::to_string(sequences), "decoding");
    }
  }
  check_draws_of(model, prompt, 0, 1, tally);
  for (const int32_t sequences : {1, 32}) check_draws_of(model, std::span(prompt).subspan(25, 1), 25, sequences, tally);
  const int64_t before = cuda.shape_compilations();
  const Token next = 7;
  for (const int32_t sequences : {1, 5, 33}) model.run({&next, 1}, 3, sequences);
  tally.expect(cuda.shape_compilations() == before, "no graph is made after start-up",
               std::to_string(before) + " graphs");
}

void check_invariance(const std::string& path, Backend& cuda, Tally& tally) {
  constexpr int32_t kPrompt = 300;
  std::mt19937 random(1);
  Loaded model(path, cuda, 40, kPrompt);
  std::vector<Token> prompt(kPrompt);
  for (Token& token : prompt) token = static_cast<Token>(random() % static_cast<uint32_t>(model.vocabulary()));
  const std::vector<float> whole = model.run(prompt, 0, 1);
  const std::vector<Chosen> chosen = model.chosen;
  struct Cut {
    int32_t sequences, chunk;
  };
  for (const auto [sequences, chunk] :
       {Cut{1, 1}, {1, 2}, {1, 7}, {1, 33}, {1, 150}, {2, 1}, {3, kPrompt}, {5, 3}, {33, 1}, {40, 1}, {40, 23}}) {
    size_t same = 0;
    for (int32_t first = 0; first < kPrompt; first += chunk) {
      const auto rows = static_cast<size_t>(std::min(chunk, kPrompt - first)), at = static_cast<size_t>(first);
      const std::vector<float> logits = model.run(std::span(prompt).subspan(at, rows), first, sequences);
      const auto row = static_cast<size_t>(model.vocabulary());
      for (size_t i = 0; i < model.chosen.size(); ++i) {
        const float *left = &logits[i * row], *right = &whole[(at + i % rows) * row];
        same += std::equal(left, left + row, right) && model.chosen[i].token == chosen[at + i % rows].token ? 1 : 0;
      }
    }
    const auto all = static_cast<size_t>(sequences * kPrompt);
    tally.expect(same == all,
                 "invariant, " + std::to_string(sequences) + " sequences in chunks of " + std::to_string(chunk),
                 std::to_string(same) + " of " + std::to_string(all) + " rows have the bits of one whole prompt");
  }
}

}  // namespace martlet::gpu
