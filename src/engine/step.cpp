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
  choices.clear();
}

void Step::add_output(int32_t row, Choice choice) {
  outputs_.push_back(row);
  choices.push_back(choice);
}

void Step::add(Sequence& sequence, int32_t rows) {
  const size_t outputs_before = outputs_.size();
  bool last_row_output = false;
  for (int32_t i = 0; i < rows; ++i) {
    const int32_t row = this->rows(), position = sequence.computed + i;
    tokens_.push_back(sequence.tokens[static_cast<size_t>(position)]);
    positions_.push_back(position);
    const bool scores = position + 1 >= sequence.next_score && position + 1 < sequence.prompt_size;
    const bool draws = position + 1 == sequence.size();
    if (scores)
      add_output(row, {.score = sequence.tokens[static_cast<size_t>(position) + 1],
                       .top = std::max(sequence.request.top_logprobs, 0)});
    if (draws) {
      Choice choice = sequence.sampler.next();
      choice.top = sequence.request.top_logprobs;
      add_output(row, choice);
    }
    last_row_output = scores || draws;
  }
  starts_.push_back(this->rows());
  context_lengths_.push_back(sequence.computed + rows);
  pages_.insert(pages_.end(), sequence.pages.begin(), sequence.pages.end());
  page_starts_.push_back(static_cast<int32_t>(pages_.size()));
  entries_.push_back({&sequence, rows, static_cast<int32_t>(outputs_.size() - outputs_before), last_row_output});
}

void Step::seal() {
  table_ = {page_starts_, pages_};
  batch = {.tokens = tokens_,
           .positions = positions_,
           .starts = starts_,
           .context_lengths = context_lengths_,
           .groups = {&table_, 1},
           .copies = {},
           .outputs = outputs_};
  chosen.assign(choices.size(), {});
  size_t wanted = 0;
  for (const Choice& choice : choices) wanted += static_cast<size_t>(std::max(choice.top, 0));
  top.assign(wanted, {});
}

}  // namespace martlet
