// gpu_measure MODEL [prefill=512,4096] [decode=1,8] [depth=0,8192] [generate=64] [copies=1] [temperature=0,80]
// [top_k=40] [top_p=95] [cache=f16] [invariant=0]: speed of one model, as one JSON object. Decoding is measured at each
// temperature, in hundredths as top_p; top_k and top_p count above 0.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "backend/cuda/cuda_backend.h"
#include "cli/bench_runner.h"
#include "file/model_file.h"

namespace {

using namespace martlet;

template <class T>
T value_of(Result<T> result) {
  if (!result) std::printf("%s\n", result.error().line().c_str()), std::exit(1);
  return std::move(*result);
}

std::string text_of(int count, char** arguments, const char* name, const char* otherwise) {
  std::string text = otherwise;
  for (int i = 2; i < count; ++i) {
    if (std::strncmp(arguments[i], name, std::strlen(name)) == 0 && arguments[i][std::strlen(name)] == '=')
      text = arguments[i] + std::strlen(name) + 1;
  }
  return text;
}

std::vector<int32_t> option(int count, char** arguments, const char* name, const char* otherwise) {
  const std::string text = text_of(count, arguments, name, otherwise);
  std::vector<int32_t> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) out.push_back(std::atoi(part.c_str()));
  return out;
}

}  // namespace

int main(int count, char** arguments) {
  using Clock = std::chrono::steady_clock;
  if (count < 2) return 2;
  const auto prompts = option(count, arguments, "prefill", "512"), batches = option(count, arguments, "decode", "1");
  const auto depths = option(count, arguments, "depth", "0"), heats = option(count, arguments, "temperature", "0");
  const float top_p = static_cast<float>(option(count, arguments, "top_p", "100")[0]) / 100;
  const int32_t top_k = option(count, arguments, "top_k", "0")[0];
  const int32_t generate = option(count, arguments, "generate", "64")[0];
  int32_t tokens = generate, sequences = 1, rows = 512;
  for (const int32_t depth : depths) tokens = std::max(tokens, depth + generate);
  for (const int32_t prompt : prompts) tokens = std::max(tokens, prompt), rows = std::max(rows, prompt);
  for (const int32_t batch : batches) sequences = std::max(sequences, batch);
  const auto file = value_of(ModelFile::open(arguments[1]));
  const auto backend =
      value_of(make_cuda_backend({.max_rows = rows, .invariant = option(count, arguments, "invariant", "0")[0] != 0}));
  backend->spare(option(count, arguments, "copies", "1")[0] ? backend->device_memory()->free / 2 : 0);
  const auto named = std::ranges::find(kCacheTypeNames, text_of(count, arguments, "cache", "f16"));
  const auto cache = static_cast<CacheType>(named - std::begin(kCacheTypeNames));
  const auto begin = Clock::now();
  const auto runner = value_of(cli::BenchRunner::open(file, *backend, sequences, tokens, cache, backend->max_rows()));
  const double load = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf(
      "{\"model\": \"%s\", \"cache\": \"%s\", \"device\": \"%s\", \"load_s\": %.3f, \"bytes_per_token\": %lld,\n "
      "\"prefill\": [",
      arguments[1], std::string(name_of(cache)).c_str(), backend->device().c_str(), load,
      static_cast<long long>(bytes_read_per_token(*file)));
  const char* comma = "";
  for (const int32_t prompt : prompts) {
    if (prompt == 0) continue;
    value_of(runner->prefill(prompt, 2));
    const cli::Speed speed = value_of(runner->prefill(prompt, 5));
    std::printf("%s{\"tokens\": %d, \"tokens_per_s\": %.1f, \"stddev\": %.1f}", comma, prompt, speed.tokens_per_s,
                speed.stddev);
    comma = ", ";
  }
  std::printf("],\n \"decode\": [");
  comma = "";
  for (const int32_t depth : depths) {
    for (const int32_t batch : batches) {
      for (const int32_t heat : heats) {
        const float temperature = static_cast<float>(heat) / 100;
        const Sampling sampling = {.temperature = temperature, .top_k = top_k, .top_p = top_p};
        value_of(runner->decode(batch, depth, generate, 1, sampling));
        const cli::Speed speed = value_of(runner->decode(batch, depth, generate, 5, sampling));
        std::printf(
            "%s{\"batch\": %d, \"context\": %d, \"temperature\": %.2f, \"tokens_per_s\": %.1f, \"stddev\": %.1f}",
            comma, batch, depth, temperature, speed.tokens_per_s, speed.stddev);
        comma = ", ";
      }
    }
  }
  std::printf("],\n \"shape_compilations\": %lld}\n", static_cast<long long>(backend->shape_compilations()));
  return 0;
}
