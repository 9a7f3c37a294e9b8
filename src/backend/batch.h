#pragma once

// What one step runs: a flat batch of rows (tokens) of many sequences, and how the next token of each output row is
// chosen. Everything is borrowed for the duration of Backend::submit.

#include <cstdint>
#include <span>

#include "base/ids.h"

namespace martlet {

// Pages of one cache group: sequence s owns pages[starts[s]] .. pages[starts[s + 1]]; its token at position p lies in
// its page p / page_tokens at slot p % page_tokens.
struct PageTable {
  std::span<const int32_t> starts;
  std::span<const Page> pages;
};

// Copy-on-write: the first `tokens` slots of page `from` are copied to page `to` before the step.
struct PageCopy {
  int32_t group;
  Page from, to;
  int32_t tokens;
};

using Slot = int32_t;  // where the cache keeps one recurrent state

// The recurrent state of a sequence as it is after `row`, written to `slot`.
struct StateWrite {
  int32_t row;
  Slot slot;
};

// Sequence s owns rows starts[s] .. starts[s + 1]. Prefill, decode and verification rows mix freely.
struct Batch {
  std::span<const Token> tokens;             // -1 - r: the token that output r of the previous ticket chose
  std::span<const int32_t> positions;        // of each row, from 0
  std::span<const int32_t> starts;           // sequences + 1
  std::span<const int32_t> context_lengths;  // of each sequence after this step: cached tokens + its rows
  std::span<const PageTable> groups;         // one for each paged cache group of the model
  std::span<const PageCopy> copies;          // done before the step
  std::span<const int32_t> outputs;          // rows whose logits are wanted, ascending
  // Of models with a recurrent cache group, else empty. What is read is not written in the same step: a sequence goes
  // on from any state that was written, from that after its last right draft too.
  std::span<const Slot> state_in;         // of each sequence, before its first row; -1: it begins
  std::span<const StateWrite> state_out;  // rows ascending

  int32_t rows() const { return static_cast<int32_t>(tokens.size()); }
  int32_t sequences() const { return static_cast<int32_t>(starts.size()) - 1; }
};

// How a token is drawn. Order of application, everywhere the same: adjustments (penalties, bias), grammar mask,
// temperature, top-k, typical, top-p, min-p, draw. temperature 0 is greedy: the largest adjusted logit, the smallest id
// on a tie, and the filters do not matter.
struct Sampling {
  float temperature = 1.0f;
  int32_t top_k = 0;       // 0: off
  float top_p = 1.0f;      // 1: off
  float min_p = 0.0f;      // 0: off
  float typical_p = 1.0f;  // 1: off
  uint64_t seed = 0;
  uint64_t draw = 0;  // which draw of the sequence: (seed, draw) fixes the random number, whatever shares the batch
};

// 1 / temperature must be a float for the weights; below this every draw is the largest logit.
inline constexpr float kGreedyTemperature = 1e-30f;

// One token's logit is changed: divided by `divide` when positive, else multiplied by it (repetition penalty), then
// `subtract` is taken off (presence, frequency; negative for a bias). -infinity bans.
struct Adjust {
  Token token;
  float divide = 1.0f;
  float subtract = 0.0f;
};

struct TokenProbability {
  Token token;
  float probability;
};

struct Choice {  // for one output row
  Sampling sampling;
  const uint32_t* allowed = nullptr;  // grammar mask, one bit a token; null: all
  std::span<const Adjust> adjust;
  // A draft to verify and the distribution that it was drawn from: tokens ascending, probabilities above 0 that sum
  // to 1. The draft is chosen with probability min(1, p / q), else a token from max(p - q, 0), never the draft; p is
  // the distribution that would be drawn from otherwise. Empty q: no draft. (One that was not drawn at random needs
  // none: it is right where the ordinary draw falls on it, which has probability p.)
  Token draft = -1;
  std::span<const TokenProbability> q;
  Token score = -1;  // >= 0: nothing is drawn; this token's log-probability is wanted (echo, verification)
  int32_t top = -1;  // -1: no log-probability; n >= 0: the chosen token's and the n best
};

// Log-probabilities are those of the unmodified distribution: before adjustments and temperature.
struct TokenLogprob {
  Token token;
  float logprob;
};

struct Chosen {
  Token token = -1;            // or `score`; -1 when mask and adjustments leave no token
  float logprob = 0;           // when Choice::top >= 0
  bool numeric_error = false;  // the logits held NaN or +infinity or were all -infinity: the request must fail
};

}  // namespace martlet
