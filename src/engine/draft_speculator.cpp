#include "engine/draft_speculator.h"

namespace martlet {

DraftSeat DraftSpeculator::seat(Sequence& sequence) {
  return {sequence.id, sequence.tokens, &sequence.sampler, &sequence.drafting, sequence.most_drafts(), sequence.scope};
}

void DraftSpeculator::propose(std::span<Sequence* const> decoding, const StepOutlook& step) {
  if (decoding.empty()) return;
  seats_.clear();
  int64_t context = 0;
  for (Sequence* sequence : decoding) {
    sequence->drafting.rule = sequence->request.speculation.value_or(rule_);
    sequence->wants_surprise = drafting_.surprises() && sequence->drafting.rule.mode == Speculation::Mode::automatic;
    seats_.push_back(seat(*sequence));
    context += sequence->size();
  }
  const auto mean = static_cast<int32_t>(context / static_cast<int64_t>(decoding.size()));
  // Below the fewest rows that it has seen the cost table can only guess high, and drafts would look free.
  if (measured_.size() <= decoding.size()) measured_.resize(decoding.size() + 1);
  const bool known = measured_[decoding.size()] || step.prompt_rows > 0;
  const auto rows = static_cast<int32_t>(decoding.size()) + step.prompt_rows;
  const CostTable::Line costs = step.costs.line(mean);
  drafting_.propose(seats_, rows, step.spare_rows, [&](int32_t n) { return known ? costs.seconds(n).value_or(0) : 0; });
  bool drafts = false;
  for (Sequence* sequence : decoding) {
    sequence->drafts = sequence->drafting.draft.tokens;
    drafts |= !sequence->drafts.empty();
  }
  if (!drafts && step.prompt_rows == 0) measured_[decoding.size()] = true;
}

void DraftSpeculator::ended(const Sequence& sequence) {
  drafting_.forget(sequence.id);
  drafting_.keep(sequence.scope, std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.prompt_size)));
}

void DraftSpeculator::verified(Sequence& sequence, std::span<const Emitted> emitted, double seconds) {
  // What had no page was cut off after it was proposed.
  sequence.drafting.draft.cut(sequence.drafts.size());
  chosen_.clear();
  for (const Emitted& token : emitted) {
    if (token.prompt) continue;
    chosen_.push_back(token.token);
    if (sequence.wants_surprise) sequence.drafting.surprise.add(-token.logprob);
  }
  sequence.usage.drafts += drafting_.verified(seat(sequence), chosen_, seconds);
}

}  // namespace martlet
