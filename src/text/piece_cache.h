#pragma once

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "text/flat_map.h"
#include "text/tokenizer.h"

namespace martlet {

// Remembers, during one call of encode, where in the output the tokens of a piece already stand: text repeats its
// words. Pieces are views of one text, which outlives the cache. One slot a hash; a newcomer replaces.
class PieceCache {
 public:
  explicit PieceCache(size_t text_size) : slots_(std::bit_ceil(std::clamp<size_t>(text_size / 8, 16, 8192))) {}

  // Appends the tokens of a piece seen before; false when it is not known.
  bool repeat(std::string_view piece, std::vector<Token>& out) {
    slot_ = &slots_[hash_bytes(piece) & (slots_.size() - 1)];
    if (slot_->piece != piece || piece.empty()) return false;
    for (size_t i = 0; i < slot_->count; ++i) out.push_back(out[slot_->begin + i]);
    return true;
  }
  // After repeat(piece) was false: its tokens now stand in the output at `begin`.
  void remember(std::string_view piece, size_t begin, size_t count) { *slot_ = {piece, begin, count}; }

 private:
  struct Slot {
    std::string_view piece;
    size_t begin = 0, count = 0;
  };
  std::vector<Slot> slots_;
  Slot* slot_ = nullptr;
};

}  // namespace martlet
