#pragma once

// What one request of the benchmark looked like from the client's side, and the figures that follow from it.

#include <string>
#include <vector>

#include "bench/statistics.h"

namespace martlet::bench {

// Times in seconds since the run began, as the client saw them. `offered`: when the request was there to be answered;
// `sent`: when an instance took it, later where requests wait for a free one. Tokens count from the first piece of text
// that is not empty.
struct Measurement {
  double offered = 0, sent = 0, first_token = 0, last_token = 0;
  int prompt = 0;             // index of its prompt in the contract
  int instance = 0;           // which of several processes answered
  int prompt_tokens = 0;      // as the engine counts them
  int output_tokens = 0;      // likewise
  int cached_tokens = 0;      // of the prompt, where the engine tells
  std::string text;           // the answer
  std::string finish_reason;  // "length", "stop" ...
  std::string error;          // empty: it was answered

  bool ok() const { return error.empty() && output_tokens > 0; }
};

// Time to the first token that shows, from sending; and from offering, with the wait for an instance in it.
double ttft(const Measurement& m);
double queued_ttft(const Measurement& m);
// Time per output token after the first, (total - TTFT) / (n - 1). 0 for an answer of one token.
double tpot(const Measurement& m);
// Output tokens over the whole time, prefill included.
double effective_rate(const Measurement& m);
// Wall time from the first offer to the last token of all that were answered; 0 when none was.
double wall_time(const std::vector<Measurement>& all);
// Output tokens of all answers over their wall time. 0 when none was answered.
double aggregate_rate(const std::vector<Measurement>& all);

struct Figures {
  Summary ttft, queued_ttft, tpot;  // seconds
  Summary effective_rate;           // tokens/s of one request
  double aggregate_rate = 0;        // tokens/s of all
  int failed = 0;                   // requests that were not answered: in no other figure
};
Figures figures(const std::vector<Measurement>& all);

}  // namespace martlet::bench
