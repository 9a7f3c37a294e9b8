// What a step holds and what comes of its answers.

#include <algorithm>

#include "engine/scheduler.h"

namespace martlet {
namespace {

// What the coming step costs with rows of a prompt beside those of its streams. Guesses lie close together, so the
// price list of the last one's context is kept.
class PromptPrices {
 public:
  PromptPrices(const CostTable& costs, const Step& step, const Sequence& prompt)
      : costs_(costs),
        streams_(step.rows()),
        attended_(streams_ * int64_t{step.mean_context()}),
        done_(prompt.computed) {}

  // Nothing before the first step of any kind.
  std::optional<double> seconds(int32_t rows) {
    const int64_t attended = attended_ + rows * (done_ + rows / 2);
    const auto mean = static_cast<int32_t>(attended / std::max<int64_t>(1, streams_ + rows));
    const size_t bucket = CostTable::context_bucket(mean);
    if (!line_ || bucket != bucket_) line_ = costs_.line(mean);
    bucket_ = bucket;
    return line_->seconds(static_cast<int32_t>(streams_) + rows);
  }
  // `low` .. `high`; the steps of so many rows that take `limit` at most, or `low`.
  int32_t largest_within(double limit, int32_t low, int32_t high) {
    while (low < high) {
      const int32_t rows = high - (high - low) / 2;
      if (seconds(rows) <= limit)
        low = rows;
      else
        high = rows - 1;
    }
    return low;
  }

 private:
  const CostTable& costs_;
  const int64_t streams_, attended_, done_;  // rows of streams, tokens that these attend to, those of the prompt
  std::optional<CostTable::Line> line_;
  size_t bucket_ = 0;
};

int64_t rows_of_endings(const std::vector<Sequence*>& prompts, int64_t longest) {
  int64_t rows = 0;
  for (const Sequence* prompt : prompts)
    if (prompt->remaining() <= longest) rows += prompt->remaining();
  return rows;
}

}  // namespace

void Scheduler::propose() {
  if (!speculator_ || decoding_.empty()) return;
  // Drafts leave the rows that prompts get at least: or nobody new would be served beside them.
  const int32_t prompt_rows = prompts_.empty() ? 0 : std::min(kLeastPrefill, options_.prefill_chunk);
  int32_t spare = std::max(0, options_.max_rows - static_cast<int32_t>(decoding_.size()) - prompt_rows);
  // Every sequence that runs writes a state, each draft one more.
  if (options_.states > 0) spare = std::min(spare, states_.free() - static_cast<int32_t>(running_.size()));
  speculator_->propose(decoding_, {spare, prompt_rows, costs_});
  for (Sequence* sequence : decoding_) {
    std::vector<Token>& drafts = sequence->drafts;
    drafts.resize(std::min<size_t>(drafts.size(), static_cast<size_t>(std::min(sequence->most_drafts(), spare))));
    // Pages for drafts are taken from the free and the forgettable, never from other sequences.
    while (static_cast<int32_t>(sequence->pages.size()) <
           pages_for(sequence->size() + static_cast<int32_t>(drafts.size())))
      if (!take_page(*sequence)) drafts.pop_back();
    spare -= static_cast<int32_t>(drafts.size());
  }
}

// Decode rows first, so that no running stream waits for another's prompt; then prompts.
void Scheduler::fill() {
  step_.clear();
  decoding_.clear();
  prompts_.clear();
  for (Owned& sequence : running_) {
    release_next_states(*sequence);  // of a step that came to nothing
    (sequence->decoding() ? decoding_ : prompts_).push_back(sequence.get());
  }
  propose();
  for (Sequence* sequence : decoding_) add(*sequence, 1);
  if (!prompts_.empty()) add_prefill(prompts_);
  step_.seal();
}

void Scheduler::add(Sequence& sequence, int32_t rows) {
  take_states(sequence);
  step_.add(sequence, rows);
}

// The first in rank gets at least half of the budget, so that it ends; of the others the shortest are served first, so
// that a short prompt does not wait for a long one.
void Scheduler::add_prefill(std::vector<Sequence*>& prompts) {
  const int32_t budget = prefill_budget(prompts);
  int64_t others = 0;
  for (size_t i = 1; i < prompts.size(); ++i) others += prompts[i]->remaining();
  const int64_t share = std::max<int64_t>((budget + 1) / 2, budget - others);
  int32_t left = budget;
  const auto add = [&](Sequence& sequence, int64_t most) {
    const auto rows = static_cast<int32_t>(std::min<int64_t>({sequence.remaining(), left, most}));
    if (rows <= 0) return;
    this->add(sequence, rows);
    left -= rows;
  };
  add(*prompts.front(), share);
  std::sort(prompts.begin() + 1, prompts.end(),
            [](const Sequence* a, const Sequence* b) { return a->remaining() < b->remaining(); });
  for (size_t i = 1; i < prompts.size(); ++i) add(*prompts[i], left);
}

// The largest chunk of prompts that keeps the step within the time that its streams may be made to wait.
int32_t Scheduler::prefill_budget(const std::vector<Sequence*>& prompts) const {
  const int32_t streams = step_.rows();
  const int32_t most = std::min(options_.prefill_chunk, options_.max_rows - streams);
  if (streams == 0) return most;
  const int32_t least = std::min(kLeastPrefill, most);
  PromptPrices prices(costs_, step_, *prompts.front());
  const std::optional<double> alone = prices.seconds(0);
  if (!alone) return least;
  const double limit = options_.tpot_target > 0 ? options_.tpot_target : kTpotFactor * *alone;
  const int32_t rows = prices.largest_within(limit, least, most);
  if (rows > least) return rows;
  // A prompt that ends is worth one slow step; one that is long would make all of its many steps slow.
  const int32_t bearable =
      prices.largest_within(std::max(limit, kMostTpotFactor * *alone), std::min(kFewestPrefill, least), least);
  return static_cast<int32_t>(std::min<int64_t>(least, bearable + rows_of_endings(prompts, kLeastPrefill)));
}

void Scheduler::commit(Step& step, const Status& status, double seconds) {
  ++stats_.steps;
  stats_.step_seconds.add(seconds);
  stats_.step_rows.add(step.rows());
  stats_.step_sequences.add(static_cast<double>(step.entries().size()));
  if (status) costs_.observe(step.rows(), step.mean_context(), seconds);
  Answers answers{step.choices.data(), step.chosen.data(), step.top.data()};
  for (const Step::Entry& entry : step.entries()) {
    if (!status) {
      finish(*entry.sequence, FinishReason::error, &status.error());
      continue;
    }
    try {
      accept(entry, answers, seconds);
    } catch (const std::bad_alloc&) {
      finish(*entry.sequence, FinishReason::error, &no_memory_);
    }
    answers.skip(entry.outputs);
  }
  std::erase_if(running_, [](const Owned& sequence) { return sequence->finished; });
}

void Scheduler::accept(const Step::Entry& entry, Answers answers, double seconds) {
  Sequence& sequence = *entry.sequence;
  const bool decoded = sequence.decoding();
  sequence.computed += entry.rows;
  release_copy_source(sequence);
  emitted_.clear();
  Status status;
  std::optional<FinishReason> end;
  int32_t accepted = 0;
  for (int32_t i = 0, draft = entry.drafts - entry.outputs; i < entry.outputs; ++i, ++draft, answers.advance()) {
    if (!status || end || accepted < draft) continue;
    if (draft >= 0) {  // its row counts when its token is what the draw before it chose
      if (sequence.tokens.back() != sequence.drafts[static_cast<size_t>(draft)]) continue;
      ++sequence.computed, ++accepted;
    }
    status = accept_one(sequence, answers);
    if (status) end = outcome(sequence);
  }
  keep_state(sequence, accepted);
  if (!emitted_.empty()) sequence.sink->on_tokens(emitted_);
  if (!emitted_.empty() && !emitted_.back().prompt) ++sequence.usage.decode_steps;
  if (speculator_ && decoded) speculator_->verified(sequence, emitted_, seconds);
  sequence.drafts.clear();
  if (!status) return finish(sequence, FinishReason::error, &status.error());
  // Not before a row's logits were seen to be sound: a page that made them NaN must reach nobody else.
  if (entry.last_row_output) sequence.sound = sequence.computed;
  if (!end) end = outcome(sequence);
  if (end) return finish(sequence, *end);
  after_rows(sequence);
}

Status Scheduler::accept_one(Sequence& sequence, const Answers& answers) {
  const Chosen& chosen = *answers.chosen;
  if (chosen.numeric_error)
    return Error{ErrorKind::internal, "numeric_error", "the model computed values that are not numbers", ""};
  if (chosen.token < 0)
    return Error{ErrorKind::request, "no_token_left", "the biases leave no token to choose", "logit_bias"};
  Emitted& token = emitted_.emplace_back();
  token.token = chosen.token;
  token.logprob = chosen.logprob;
  for (int32_t i = 0; i < answers.choice->top; ++i)
    if (answers.top[i].token >= 0) token.top.emplace_back(answers.top[i].token, answers.top[i].logprob);
  token.prompt = answers.choice->score >= 0;
  if (token.prompt) {
    ++sequence.next_score;
    return {};
  }
  const std::vector<Token>& stops = sequence.request.stop_tokens;
  token.stop = std::find(stops.begin(), stops.end(), token.token) != stops.end();
  if (sequence.usage.output_tokens++ == 0) sequence.first_token = Clock::now();
  ++stats_.output_tokens;
  sequence.tokens.push_back(token.token);
  sequence.sampler.add_output(token.token);
  return {};
}

std::optional<FinishReason> Scheduler::outcome(const Sequence& sequence) const {
  if (!emitted_.empty() && emitted_.back().stop) return FinishReason::stop;
  const bool scored = sequence.output_limit == 0 && !sequence.scoring();
  if (scored || (sequence.output_limit > 0 && sequence.usage.output_tokens == sequence.output_limit))
    return FinishReason::length;
  return std::nullopt;
}

// Lets others have the prompt at once and the output page by page, and gives back the pages of rejected drafts.
void Scheduler::after_rows(Sequence& sequence) {
  const int32_t tokens = options_.page_tokens;
  const bool prompt_done = sequence.published < sequence.prompt_size && sequence.sound >= sequence.prompt_size;
  if (prompt_done || sequence.sound / tokens > sequence.published / tokens) publish(sequence);
  while (static_cast<int32_t>(sequence.pages.size()) > pages_for(sequence.size())) {
    pool_.release(sequence.pages.back());
    sequence.pages.pop_back();
  }
}

}  // namespace martlet
