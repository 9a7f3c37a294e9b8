#include "cli/bench_model.h"

#include <boost/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "chat/encode_chat.h"
#include "hub/resolve.h"

namespace martlet::cli {
namespace {

constexpr int kJudgedTogether = 4;  // answers, which fill the rows of a step

EngineOptions options_for(int context, int sequences) {
  EngineOptions options;
  options.context = context;
  options.max_sequences = sequences;
  options.prefix_cache = false;
  return options;
}

int32_t rows_of(const EngineOptions& options) {
  return options.prefill_chunk + options.max_sequences;
}

}  // namespace

Result<std::vector<Token>> BenchModel::encode(const std::string& prompt) const {
  return encode_chat(
      *chat_template, *tokenizer,
      {{"messages", boost::json::array{{{"role", "user"}, {"content", prompt}}}}, {"add_generation_prompt", true}});
}

Result<bench::Encoded> BenchModel::encode(const std::string& prompt, const std::string& answer) const {
  bench::Encoded out;
  MARTLET_ASSIGN(out.tokens, encode(prompt));
  out.answer = out.tokens.size();
  tokenizer->encode(answer, {}, out.tokens);
  return out;
}

Result<BenchModel> open_bench_model(const std::string& model) {
  BenchModel out;
  MARTLET_ASSIGN(out.path, resolve_model(model));
  MARTLET_ASSIGN(out.file, ModelFile::open(out.path));
  MARTLET_ASSIGN(out.tokenizer, Tokenizer::create(*out.file));
  MARTLET_ASSIGN(out.chat_template, load_chat_template(*out.file, false));
  return out;
}

Result<std::unique_ptr<Engine>> answering_engine(const BenchModel& model, int context, int streams,
                                                 BackendOptions backend) {
  EngineOptions options = options_for(context, streams);
  options.streams = streams;
  backend.max_rows = rows_of(options);
  MARTLET_ASSIGN(std::unique_ptr<Backend> made, make_backend(backend));
  return Engine::create(model.file, std::move(made), options);
}

Result<std::unique_ptr<Engine>> judging_engine(const BenchModel& model, int context, int threads) {
  EngineOptions options = options_for(context, kJudgedTogether);
  options.cache_type = CacheType::f32;
  // Weights times activations as they are.
  MARTLET_ASSIGN(std::unique_ptr<Backend> exact,
                 make_cpu_backend({.threads = threads, .max_rows = rows_of(options), .f32_activations = true}));
  return Engine::create(model.file, std::move(exact), options);
}

bench::LocalModel local_model(const BenchModel& model, std::unique_ptr<Engine> engine) {
  const auto stops = model.tokenizer->stop_tokens();
  return {std::move(engine),
          [model](const std::string& prompt) { return model.encode(prompt); },
          [tokenizer = model.tokenizer](std::span<const Token> tokens) { return tokenizer->decode(tokens); },
          {stops.begin(), stops.end()}};
}

}  // namespace martlet::cli
