#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/batch.h"
#include "base/ids.h"
#include "draft/drafting.h"
#include "engine/mailbox.h"
#include "martlet/request.h"
#include "sample/sampler.h"

namespace martlet {

// A request as the scheduler runs it. A preempted sequence keeps its tokens and its sampler and computes its pages
// anew.
struct Sequence {
  Sequence(Submission&& submission, int32_t context, uint64_t fresh_seed, int64_t prefix_scope)
      : id(submission.id),
        request(std::move(submission.request)),
        sink(std::move(submission.sink)),
        prompt_size(static_cast<int32_t>(request.prompt.size())),
        output_limit(std::min(request.max_tokens, context - prompt_size)),
        rank(submission.submitted + std::chrono::seconds(request.priority)),
        scope(prefix_scope),
        tokens(std::move(request.prompt)),
        next_score(request.prompt_logprobs ? 1 : prompt_size),
        sampler(request.sampling, fresh_seed),
        submitted(submission.submitted) {
    sampler.add_prompt(tokens);
    usage.prompt_tokens = prompt_size;
  }

  int32_t size() const { return static_cast<int32_t>(tokens.size()); }
  // Rows to compute until the next token can be drawn, or until the prompt is scored where none is.
  int32_t remaining() const { return size() - (output_limit == 0 ? 1 : 0) - computed; }
  bool scoring() const { return next_score < prompt_size; }
  bool decoding() const { return remaining() == 1; }
  // Tokens that a draft can be worth: with all of them accepted, one more is drawn.
  int32_t most_drafts() const { return decoding() ? std::max(output_limit - usage.output_tokens - 1, 0) : 0; }

  const RequestId id;
  Request request;  // its prompt moved to `tokens`
  std::shared_ptr<RequestSink> sink;
  const int32_t prompt_size;
  const int32_t output_limit;    // tokens to draw at most
  const Clock::time_point rank;  // who comes first: by arrival, moved by `priority` seconds
  const int64_t scope;           // of the prefix tree: the tenant, or the request alone; model and adapter are one

  std::vector<Token> tokens;    // prompt, then output
  std::vector<Token> drafts;    // proposed to follow `tokens`; the next step computes and verifies them
  DraftState drafting;          // with the distributions that drafts were drawn from
  bool wants_surprise = false;  // log-probabilities of its tokens are wanted, whether or not the request asks
  int32_t computed = 0;         // leading tokens whose keys and values lie in `pages`
  std::vector<Page> pages;
  Slot state = -1;                // of recurrent layers after `computed` tokens; -1: none yet
  std::vector<Slot> next_states;  // that the step writes: after its tokens, then after each draft
  std::optional<PageCopy> copy;   // to be done before the first of its rows; its source is retained until then
  int32_t sound = 0;              // leading tokens whose values were seen to give sound logits
  int32_t published = 0;          // leading tokens that the prefix tree knows
  int32_t next_score;             // position of the next prompt token to report; prompt_size: none
  Sampler sampler;

  Usage usage;
  Clock::time_point submitted, admitted, first_token;
  bool was_admitted = false;
  bool held = false;  // not to be admitted in this step
  bool finished = false;
};

}  // namespace martlet
