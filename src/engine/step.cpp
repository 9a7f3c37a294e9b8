#include "engine/step.h"

#include <algorithm>

namespace martlet {

void Step::clear() {
  entries_.clear();
  tokens_.clear();
  positions_.clear();
  starts_.assign(1, 0);
  context_lengths_.clear();
  page_starts_.assign(1, 0);
  outputs_.clear();
  pages_.clear();
  copies_.clear();
  state_in_.clear();
  state_out_.clear();
  choices.clear();
  adjust_.clear();
  attended_ = 0;
}

void Step::add_row(Token token, int32_t position) {
  tokens_.push_back(token);
  positions_.push_back(position);
  attended_ += position + 1;
}

void Step::add_output(Choice choice) {
  outputs_.push_back(rows() - 1);
  choices.push_back(choice);
}

// The draw after the sequence's tokens and its first `drafts` drafts; it verifies the next draft, if there is one.
void Step::add_draw(const Sequence& sequence, size_t drafts) {
  Choice choice = sequence.sampler.after(std::span(sequence.drafts).first(drafts), adjust_.emplace_back());
  choice.top = std::max(sequence.request.top_logprobs, sequence.wants_surprise ? 0 : -1);
  if (drafts < sequence.drafts.size() && drafts < sequence.drafting.draft.q.size()) {
    choice.draft = sequence.drafts[drafts];
    choice.q = sequence.drafting.draft.q[drafts];
  }
  add_output(choice);
}

void Step::add(Sequence& sequence, int32_t rows) {
  const size_t outputs_before = outputs_.size();
  bool last_row_output = false, draws = false;
  for (int32_t i = 0; i < rows; ++i) {
    const int32_t position = sequence.computed + i;
    add_row(sequence.tokens[static_cast<size_t>(position)], position);
    const bool scores = position + 1 >= sequence.next_score && position + 1 < sequence.prompt_size;
    draws = position + 1 == sequence.size();
    if (scores)
      add_output({.score = sequence.tokens[static_cast<size_t>(position) + 1],
                  .top = std::max(sequence.request.top_logprobs, 0)});
    if (draws) {
      add_draw(sequence, 0);
    }
    last_row_output = scores || draws;
  }
  const auto drafts = draws ? static_cast<int32_t>(sequence.drafts.size()) : 0;
  for (int32_t i = 0; i < drafts; ++i) {
    add_row(sequence.drafts[static_cast<size_t>(i)], sequence.size() + i);
    add_draw(sequence, static_cast<size_t>(i) + 1);
  }
  if (sequence.copy) copies_.push_back(*sequence.copy);
  if (!sequence.next_states.empty()) state_in_.push_back(sequence.state);
  for (size_t i = 0; i < sequence.next_states.size(); ++i)
    state_out_.push_back({this->rows() - 1 - drafts + static_cast<int32_t>(i), sequence.next_states[i]});
  starts_.push_back(this->rows());
  context_lengths_.push_back(sequence.computed + rows + drafts);
  pages_.insert(pages_.end(), sequence.pages.begin(), sequence.pages.end());
  page_starts_.push_back(static_cast<int32_t>(pages_.size()));
  entries_.push_back(
      {&sequence, rows, drafts, static_cast<int32_t>(outputs_.size() - outputs_before), last_row_output});
}

void Step::seal() {
  table_ = {page_starts_, pages_};
  batch = {.tokens = tokens_,
           .positions = positions_,
           .starts = starts_,
           .context_lengths = context_lengths_,
           .groups = {&table_, 1},
           .copies = copies_,
           .outputs = outputs_,
           .state_in = state_in_,
           .state_out = state_out_};
  chosen.assign(choices.size(), {});
  size_t wanted = 0;
  for (const Choice& choice : choices) wanted += static_cast<size_t>(std::max(choice.top, 0));
  top.assign(wanted, {});
}

}  // namespace martlet
