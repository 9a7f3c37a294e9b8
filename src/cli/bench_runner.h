#pragma once

// Measures prefill and decode speed by driving the model's steps directly: no scheduler, no tokenizer, nobody to wait
// for.

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "model/model.h"

namespace martlet::cli {

struct Speed {
  double tokens_per_s = 0;  // mean over the repeats
  double stddev = 0;
};

// One open model with cache pages for `sequences` sequences of `tokens` tokens, side by side; steps take `chunk` rows
// of a prompt at most.
class BenchRunner {
 public:
  static Result<std::unique_ptr<BenchRunner>> open(const std::shared_ptr<const ModelFile>& file, Backend& backend,
                                                   int32_t sequences, int32_t tokens, CacheType cache_type,
                                                   int32_t chunk);
  ~BenchRunner() { backend_.close(model_->id()); }
  BenchRunner(const BenchRunner&) = delete;
  BenchRunner& operator=(const BenchRunner&) = delete;

  // A prompt of random tokens in the largest chunks that a step takes; only the last row's logits are wanted.
  Result<Speed> prefill(int32_t tokens, int32_t repeats);
  // Brings `context` tokens into the cache of each of `batch` sequences.
  Status fill_contexts(int32_t batch, int32_t context);
  // `tokens` steps of `batch` sequences, each a token after `context` tokens that lie in the cache, drawn as `sampling`
  // says but for its seed.
  Result<Speed> decode(int32_t batch, int32_t context, int32_t tokens, int32_t repeats,
                       const Sampling& sampling = kGreedy);

 private:
  BenchRunner(Backend& backend, std::unique_ptr<Model> model, int32_t pages_each, int32_t chunk)
      : backend_(backend), model_(std::move(model)), pages_each_(pages_each), chunk_(chunk) {}

  static constexpr Sampling kGreedy = {.temperature = 0};

  // Rows `first` .. `first + rows` of each of `batch` sequences, whose tokens lie one sequence after the other; the
  // last row of each is an output, and its chosen token goes to `chosen_`.
  Status step(std::span<const Token> tokens, int32_t batch, int32_t first, int32_t rows,
              const Sampling& sampling = kGreedy);
  Status fill(int32_t tokens);
  Token random_token();
  Result<Speed> repeat(int32_t repeats, int64_t tokens, const std::function<Status()>& once);

  Backend& backend_;
  std::unique_ptr<Model> model_;
  const int32_t pages_each_;
  const int32_t chunk_;  // rows of a prompt in one step at most
  std::mt19937 random_{1};
  std::vector<Chosen> chosen_;
};

}  // namespace martlet::cli
