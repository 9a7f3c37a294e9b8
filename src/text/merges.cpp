#include "text/merges.h"

#include <algorithm>
#include <string>
#include <utility>

#include "text/min_heap.h"

namespace martlet {
Result<Merges> Merges::create(const std::vector<std::string_view>& lines, const Vocabulary& vocabulary) {
  if (lines.size() >= FlatMap::kNone) return bad_vocabulary("too many merges");
  Merges merges;
  merges.merges_.reserve(lines.size());
  merges.ranks_ = FlatMap(lines.size());
  for (auto rest = std::span(lines); !rest.empty(); rest = rest.subspan(std::min(kBatch, rest.size()))) {
    MARTLET_TRY(merges.add(rest.first(std::min(kBatch, rest.size())), vocabulary));
  }
  return merges;
}

Status Merges::add(std::span<const std::string_view> lines, const Vocabulary& vocabulary) {
  std::string joined;                    // every line without its space: the results
  std::vector<std::string_view> pieces;  // left and right of every line, then the results
  for (const std::string_view line : lines) {
    const size_t space = line.find(' ', 1);  // from 1: a piece may begin with a space
    if (space == std::string_view::npos) return bad_vocabulary("a merge has no two parts");
    pieces.push_back(line.substr(0, space));
    pieces.push_back(line.substr(space + 1));
    joined.append(pieces.end()[-2]).append(pieces.back());
  }
  size_t at = 0;
  for (const std::string_view line : lines)
    pieces.push_back(std::string_view(joined).substr(std::exchange(at, at + line.size() - 1), line.size() - 1));
  std::vector<Token> tokens(pieces.size());
  vocabulary.find_all(pieces, tokens);
  if (std::ranges::find(tokens, -1) != tokens.end()) {
    return bad_vocabulary("a merge names a piece that is not in the vocabulary");
  }
  for (size_t i = 0; i < lines.size(); ++i) ranks_.prefetch(key(tokens[2 * i], tokens[2 * i + 1]));
  for (size_t i = 0; i < lines.size(); ++i) {
    const Merge merge{tokens[2 * i], tokens[2 * i + 1], tokens[2 * lines.size() + i]};
    if (vocabulary.kind(merge.result) != TokenKind::normal) continue;
    ranks_.insert(key(merge.left, merge.right), static_cast<uint32_t>(merges_.size()));
    merges_.push_back(merge);
  }
  return {};
}

void Merges::apply(std::vector<Token>& symbols, Scratch& scratch) const {
  // Queue entries are rank << 32 | position of the left symbol; they go stale when a neighbour merges first, and are
  // checked against the merge that the rank names when they come up.
  const auto count = static_cast<uint32_t>(symbols.size());
  constexpr uint32_t kEnd = ~uint32_t{0};
  std::vector<uint32_t>&next = scratch.next, &previous = scratch.previous;
  std::vector<uint64_t>& queue = scratch.queue;
  queue.clear();
  for (uint32_t i = 0; i + 1 < count; ++i) {
    if (const uint32_t r = rank(symbols[i], symbols[i + 1]); r != FlatMap::kNone)
      push_min(queue, uint64_t{r} << 32 | i);
  }
  if (queue.empty()) return;
  next.resize(count);
  previous.resize(count);
  for (uint32_t i = 0; i < count; ++i) next[i] = i + 1 < count ? i + 1 : kEnd, previous[i] = i - 1;

  const auto consider = [&](uint32_t left, uint32_t right) {
    if (left == kEnd || right == kEnd) return;
    const uint32_t r = rank(symbols[left], symbols[right]);
    if (r == FlatMap::kNone) return;
    push_min(queue, uint64_t{r} << 32 | left);
  };
  while (!queue.empty()) {
    const uint64_t best = pop_min(queue);
    const Merge& merge = merges_[best >> 32];
    const auto left = static_cast<uint32_t>(best);
    if (symbols[left] != merge.left) continue;
    const uint32_t right = next[left];
    if (right == kEnd || symbols[right] != merge.right) continue;
    symbols[left] = merge.result;
    symbols[right] = -2;  // gone; no merge begins with it
    next[left] = next[right];
    if (next[right] != kEnd) previous[next[right]] = left;
    consider(previous[left], left);
    consider(left, next[left]);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != kEnd; i = next[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace martlet
