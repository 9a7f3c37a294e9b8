#include "draft/ngram_drafter.h"

#include <algorithm>

namespace martlet {
namespace {

constexpr int32_t kCandidates = 32;  // of a chain, the latest first

// The longer the match, the surer; a draft token that is right makes the match of the next one longer.
int32_t confidence_of(int32_t length) {
  return std::min(length - SuffixIndex::kShortest, kConfidences - 1);
}

}  // namespace

uint64_t SuffixIndex::key(std::span<const Token> tokens, int32_t end) {
  const auto at = static_cast<size_t>(end);
  return uint64_t{static_cast<uint32_t>(tokens[at - 2])} << 32 | static_cast<uint32_t>(tokens[at - 1]);
}

void SuffixIndex::extend(std::span<const Token> tokens) {
  const auto size = static_cast<int32_t>(tokens.size());
  earlier_.resize(tokens.size() + 1, 0);
  for (; indexed_ < size; ++indexed_) {
    int32_t& latest = latest_[key(tokens, indexed_)];
    earlier_[static_cast<size_t>(indexed_)] = latest;
    latest = indexed_;
  }
}

SuffixIndex::Match SuffixIndex::find(std::span<const Token> tokens) const {
  const auto size = static_cast<int32_t>(tokens.size());
  Match best;
  if (size < kShortest) return best;
  const auto chain = latest_.find(key(tokens, size));
  int32_t next = chain == latest_.end() ? 0 : chain->second;
  for (int32_t i = 0; next > 0 && i < kCandidates; ++i, next = earlier_[static_cast<size_t>(next)]) {
    int32_t length = kShortest;
    while (length < kLongest && length < next &&
           tokens[static_cast<size_t>(next - 1 - length)] == tokens[static_cast<size_t>(size - 1 - length)])
      ++length;
    if (length > best.length) best = {next, length};
    if (length == kLongest) break;
  }
  return best;
}

Status NgramDrafter::draft(std::span<DraftTask> tasks, DraftGate gate) {
  for (size_t t = 0; t < tasks.size(); ++t) {
    DraftTask& task = tasks[t];
    SuffixIndex& index = indices_[task.sequence];
    index.extend(task.tokens);
    const SuffixIndex::Match match = index.find(task.tokens);
    if (match.length == 0) continue;
    Draft& draft = *task.draft;
    for (int32_t i = 0; i < task.length; ++i) {
      const int32_t confidence = confidence_of(match.length + i);
      const Verdict verdict = gate(t, i, confidence);
      if (verdict == Verdict::drop) break;
      // Behind the end of the text stands the draft itself: a match that overlaps its own copy goes round and round.
      const auto from = static_cast<size_t>(match.next + i);
      draft.add(from < task.tokens.size() ? task.tokens[from] : draft.tokens[from - task.tokens.size()], confidence);
      if (verdict == Verdict::last) break;
    }
  }
  return {};
}

}  // namespace martlet
