#pragma once

#include <cstdint>
#include <vector>

#include "backend/batch.h"
#include "engine/sequence.h"

namespace martlet {

// One step: the flat batch, what is to be chosen, and the answers. Its vectors are reused from step to step.
class Step {
 public:
  struct Entry {
    Sequence* sequence;
    int32_t rows;
    int32_t outputs;       // of its rows
    bool last_row_output;  // its last row is one of them
  };

  void clear();
  // The sequence's next `rows` rows. Prompt rows whose following token is to be reported score it; the row of the last
  // token draws the next.
  void add(Sequence& sequence, int32_t rows);
  // Points the batch at the vectors; after it, nothing may be added.
  void seal();

  int32_t rows() const { return static_cast<int32_t>(tokens_.size()); }
  const std::vector<Entry>& entries() const { return entries_; }

  Batch batch;
  std::vector<Choice> choices;
  std::vector<Chosen> chosen;     // one a choice
  std::vector<TokenLogprob> top;  // Choice::top entries for each choice that wants them

 private:
  void add_output(int32_t row, Choice choice);

  std::vector<Entry> entries_;
  std::vector<Token> tokens_;
  std::vector<int32_t> positions_, starts_, context_lengths_, page_starts_, outputs_;
  std::vector<Page> pages_;
  PageTable table_;
};

}  // namespace martlet
