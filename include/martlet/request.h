#pragma once

// What a caller asks of the engine and what it gets back. Token ids only: text, templates and stop strings are the
// server's and the command line's business.

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "martlet/speculation.h"

namespace martlet {

using RequestId = uint64_t;

// How tokens are drawn. The order of application is that of backend/batch.h; docs/sampling.md tells users.
struct SamplingParameters {
  float temperature = 1.0f;  // 0: greedy
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;
  float repetition_penalty = 1.0f;  // over the prompt and the output
  float presence_penalty = 0.0f;    // over the output
  float frequency_penalty = 0.0f;
  std::vector<std::pair<Token, float>> logit_bias;
  std::optional<uint64_t> seed;  // absent: drawn fresh for each request
};

struct Request {
  std::vector<Token> prompt;  // not empty
  SamplingParameters sampling;
  int32_t max_tokens = std::numeric_limits<int32_t>::max();  // 0 is allowed with echo: scores the prompt only
  std::vector<Token> stop_tokens;  // end the request; the stop token itself is reported with stop = true
  int32_t top_logprobs = -1;       // -1: none; 0..20
  bool prompt_logprobs = false;    // report each prompt token but the first with its log-probability
  int32_t tenant = 0;              // whose prefixes it may share; 0 or more
  int32_t priority = 0;            // seconds that it goes behind others (negative: before), -kMaxPriority..kMaxPriority
  std::optional<Speculation> speculation;  // absent: the engine's own rule
};

inline constexpr int32_t kMaxPriority = 100;

struct Emitted {
  Token token;
  bool prompt = false;  // a scored prompt token
  bool stop = false;    // a stop token: not part of the text
  float logprob = 0;
  std::vector<std::pair<Token, float>> top;  // best first
};

enum class FinishReason { stop, length, cancelled, error };

// Why a prompt was not taken from the prefix cache further than Usage::cached_tokens.
enum class PrefixMiss {
  none,     // it was, up to the last token, which is always computed
  differs,  // the token at cached_tokens is the first that no cached prefix has
  evicted,  // more of it was there once and made room for others
  scored,   // its rows had to be computed for their log-probabilities
};
inline constexpr size_t kPrefixMisses = 4;

constexpr const char* name(PrefixMiss miss) {
  constexpr const char* kNames[kPrefixMisses] = {"none", "differs", "evicted", "scored"};
  return kNames[static_cast<size_t>(miss)];
}

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, taken from the prefix cache
  PrefixMiss miss = PrefixMiss::none;
  int32_t output_tokens = 0;  // the stop token counts
  int32_t decode_steps = 0;   // steps that added to the output
  DraftCounts drafts;
  double queued_seconds = 0;   // submit to admission
  double prefill_seconds = 0;  // admission to first token
  double decode_seconds = 0;   // first token to last
};

struct Finish {
  FinishReason reason = FinishReason::stop;
  std::optional<Error> error;  // for FinishReason::error
  Usage usage;
};

// Receives a request's tokens. Called on the engine's thread, in order, and must not block; on_finish is the last call.
// A sink that finds no memory throws std::bad_alloc, having done nothing: on_tokens then ends the request with
// `out_of_memory`, on_finish is called again.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void on_tokens(std::span<const Emitted> tokens) = 0;
  virtual void on_finish(const Finish& finish) = 0;
};

}  // namespace martlet
