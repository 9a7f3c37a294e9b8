#pragma once

// Byte-pair merges by rank, as pairs of token ids.

#include <span>
#include <string_view>
#include <vector>

#include "text/flat_map.h"
#include "text/vocabulary.h"

namespace martlet {

class Merges {
 public:
  // `lines`: "left right", best first. A merge whose result is not a normal token is left out: text never becomes a
  // control token by merging. Errors: "bad_vocab" when a part or the result is no token.
  static Result<Merges> create(const std::vector<std::string_view>& lines, const Vocabulary& vocabulary);

  // Working memory of apply(), kept by the caller from piece to piece.
  struct Scratch {
    std::vector<uint32_t> next, previous;
    std::vector<uint64_t> queue;
  };
  // Merges the symbols of one piece in place, always the best pair first, the leftmost of equals. A symbol of -1 stays
  // apart. O(n log n).
  void apply(std::vector<Token>& symbols, Scratch& scratch) const;

 private:
  struct Merge {
    Token left, right, result;
  };
  static uint64_t key(Token left, Token right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  uint32_t rank(Token left, Token right) const {
    return left < 0 || right < 0 ? FlatMap::kNone : ranks_.find(key(left, right));
  }

  // Adds up to kBatch lines.
  Status add(std::span<const std::string_view> lines, const Vocabulary& vocabulary);

  static constexpr size_t kBatch = 64;
  std::vector<Merge> merges_;  // by rank
  FlatMap ranks_;
};

}  // namespace martlet
