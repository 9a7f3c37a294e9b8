#include "draft/ngram_drafter.h"

#include <algorithm>

namespace martlet {
namespace {

constexpr int32_t kCandidates = 32;  // of a chain, the latest first

// The longer the match, the surer; a draft token that is right makes the match of the next one longer.
int32_t confidence_of(int32_t length) {
  return std::min(length - SuffixIndex::kShortest, kConfidences - 1);
}

// The longest piece of `text` that `tokens` end in, the latest of several: `next` and the positions that `earlier`
// leads to are those after pieces of two tokens that are the last two.
SuffixIndex::Match longest(int32_t next, const std::vector<int32_t>& earlier, std::span<const Token> text,
                           std::span<const Token> tokens) {
  const auto size = static_cast<int32_t>(tokens.size());
  SuffixIndex::Match best;
  for (int32_t i = 0; next > 0 && i < kCandidates; ++i, next = earlier[static_cast<size_t>(next)]) {
    int32_t length = SuffixIndex::kShortest;
    while (length < SuffixIndex::kLongest && length < std::min(next, size) &&
           text[static_cast<size_t>(next - 1 - length)] == tokens[static_cast<size_t>(size - 1 - length)])
      ++length;
    if (length > best.length) best = {next, length};
    if (length == SuffixIndex::kLongest) break;
  }
  return best;
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
  if (size < kShortest) return {};
  const auto chain = latest_.find(key(tokens, size));
  return longest(chain == latest_.end() ? 0 : chain->second, earlier_, tokens, tokens);
}

size_t AnswerIndex::Hash::operator()(const Key& key) const {
  uint64_t hash = uint64_t{static_cast<uint32_t>(key.first)} << 32 | static_cast<uint32_t>(key.second);
  hash ^= static_cast<uint64_t>(key.scope) * 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio: Fibonacci hashing
  return static_cast<size_t>(hash * 0x9e3779b97f4a7c15 >> 16);
}

void AnswerIndex::add(int64_t scope, std::span<const Token> answer) {
  answer = answer.last(std::min(answer.size(), static_cast<size_t>(limit_)));
  if (text_.size() + answer.size() > 2 * static_cast<size_t>(limit_)) {
    AnswerIndex young(limit_);
    size_t from = text_.size() - std::min(text_.size(), static_cast<size_t>(limit_));
    size_t begin = 0;
    for (const auto& [whose, end] : answers_) {
      if (begin >= from) young.append(whose, std::span(text_).subspan(begin, static_cast<size_t>(end) - 1 - begin));
      begin = static_cast<size_t>(end);
    }
    text_ = std::move(young.text_), answers_ = std::move(young.answers_);
    latest_ = std::move(young.latest_), earlier_ = std::move(young.earlier_);
  }
  append(scope, answer);
}

void AnswerIndex::append(int64_t scope, std::span<const Token> answer) {
  const size_t begin = text_.size();
  text_.insert(text_.end(), answer.begin(), answer.end());
  text_.push_back(kEnd);
  earlier_.resize(text_.size() + 1, 0);
  for (size_t end = begin + SuffixIndex::kShortest; end + 1 < text_.size(); ++end) {
    int32_t& latest = latest_[{scope, text_[end - 2], text_[end - 1]}];
    earlier_[end] = latest;
    latest = static_cast<int32_t>(end);
  }
  answers_.emplace_back(scope, static_cast<int32_t>(text_.size()));
}

SuffixIndex::Match AnswerIndex::find(int64_t scope, std::span<const Token> tokens) const {
  if (tokens.size() < static_cast<size_t>(SuffixIndex::kShortest)) return {};
  const auto chain = latest_.find({scope, tokens[tokens.size() - 2], tokens.back()});
  return longest(chain == latest_.end() ? 0 : chain->second, earlier_, text_, tokens);
}

std::span<const Token> AnswerIndex::after(const SuffixIndex::Match& match) const {
  const auto rest = std::span(text_).subspan(static_cast<size_t>(match.next));
  return rest.first(static_cast<size_t>(std::find(rest.begin(), rest.end(), kEnd) - rest.begin()));
}

Status NgramDrafter::draft(std::span<DraftTask> tasks, DraftGate gate, double) {
  for (size_t t = 0; t < tasks.size(); ++t) {
    DraftTask& task = tasks[t];
    SuffixIndex& index = indices_[task.sequence];
    index.extend(task.tokens);
    const SuffixIndex::Match own = index.find(task.tokens), other = answers_.find(task.scope, task.tokens);
    const bool earlier = other.length > own.length;
    const int32_t length = earlier ? other.length : own.length;
    if (length == 0) continue;
    const auto after = earlier ? answers_.after(other) : task.tokens.subspan(static_cast<size_t>(own.next));
    Draft& draft = *task.draft;
    for (int32_t i = 0; i < task.length; ++i) {
      const auto at = static_cast<size_t>(i);
      if (earlier && at >= after.size()) break;
      const int32_t confidence = confidence_of(length + i);
      const Verdict verdict = gate(t, i, confidence);
      if (verdict == Verdict::drop) break;
      // Behind the end of the text stands the draft itself: a match that overlaps its own copy goes round and round.
      draft.add(at < after.size() ? after[at] : draft.tokens[at - after.size()], confidence);
      if (verdict == Verdict::last) break;
    }
  }
  return {};
}

}  // namespace martlet
