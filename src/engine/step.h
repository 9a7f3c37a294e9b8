#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "backend/batch.h"
#include "engine/sequence.h"

namespace martlet {

// One step: the flat batch, what is to be chosen, and the answers. Its vectors are reused from step to step.
//
// A sequence owns consecutive rows: tokens that it has, then its drafts. Outputs stand in the order of rows: scored
// prompt tokens, the draw after the last token, then one draw after each draft. The draw after draft i counts only when
// every draft up to i is what the model chose; Scheduler::commit goes on to the first that is not and rewinds the rest.
class Step {
 public:
  struct Entry {
    Sequence* sequence;
    int32_t rows;          // of tokens that the sequence has
    int32_t drafts;        // rows after them
    int32_t outputs;       // of all its rows
    bool last_row_output;  // the last of `rows` is one of them
  };

  void clear();
  // The sequence's next `rows` rows, and its drafts where these rows reach the last token. Prompt rows whose following
  // token is to be reported score it; the rows of the last token and of drafts draw the next.
  void add(Sequence& sequence, int32_t rows);
  // Points the batch at the vectors; after it, nothing may be added.
  void seal();

  int32_t rows() const { return static_cast<int32_t>(tokens_.size()); }
  const std::vector<Entry>& entries() const { return entries_; }
  // Mean number of tokens that a row attends to.
  int32_t mean_context() const { return rows() == 0 ? 0 : static_cast<int32_t>(attended_ / rows()); }

  Batch batch;
  std::vector<Choice> choices;
  std::vector<Chosen> chosen;     // one a choice
  std::vector<TokenLogprob> top;  // Choice::top entries for each choice that wants them

 private:
  void add_row(Token token, int32_t position);
  void add_output(Choice choice);  // for the last row
  void add_draw(const Sequence& sequence, size_t drafts);

  std::vector<Entry> entries_;
  std::vector<Token> tokens_;
  std::vector<int32_t> positions_, starts_, context_lengths_, page_starts_, outputs_;
  std::vector<Page> pages_;
  std::vector<PageCopy> copies_;
  std::vector<Slot> state_in_;
  std::vector<StateWrite> state_out_;
  std::deque<std::vector<Adjust>> adjust_;  // of choices after drafts
  PageTable table_;
  int64_t attended_ = 0;
};

}  // namespace martlet
