#pragma once

// Open addressing with linear probing, sized once for a known number of keys: what a vocabulary of a few hundred
// thousand entries needs to be indexed in milliseconds.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace martlet {

inline uint64_t mix_bits(uint64_t value) {
  value *= 0x9e3779b97f4a7c15;
  return value ^ value >> 32;
}

inline uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = bytes.size(), word = 0;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::memcpy(&word, at, 8);
    hash = mix_bits(hash ^ word);
  }
  if (left > 0) {  // an empty view may hold a null pointer
    word = 0;
    std::memcpy(&word, at, left);
    hash = mix_bits(hash ^ word);
  }
  return mix_bits(hash);
}

// Slots for at least `count` keys at a load of at most 2/3; a power of two.
inline size_t slots_for(size_t count) {
  return std::bit_ceil(count + count / 2 + 2);
}

// 64-bit keys to 32-bit values. `kNone` is neither a key nor a value.
class FlatMap {
 public:
  static constexpr uint64_t kNoKey = ~uint64_t{0};
  static constexpr uint32_t kNone = ~uint32_t{0};

  FlatMap() : FlatMap(0) {}
  explicit FlatMap(size_t expected) : slots_(slots_for(expected)), mask_(slots_.size() - 1) {}

  // Adds the key unless it is there; returns the value that stands.
  uint32_t insert(uint64_t key, uint32_t value) {
    if (slots_for(size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[index(key)];
    if (slot.key == key) return slot.value;
    slot = {key, value};
    ++size_;
    return value;
  }
  uint32_t find(uint64_t key) const { return slots_[index(key)].value; }
  void prefetch(uint64_t key) const { __builtin_prefetch(&slots_[mix_bits(key) & mask_]); }

 private:
  struct Slot {
    uint64_t key = kNoKey;
    uint32_t value = kNone;
  };
  size_t index(uint64_t key) const {
    size_t at = mix_bits(key) & mask_;
    while (slots_[at].key != key && slots_[at].key != kNoKey) at = (at + 1) & mask_;
    return at;
  }
  void grow() {
    FlatMap larger(slots_.size());
    for (const Slot& slot : slots_) {
      if (slot.key != kNoKey) larger.slots_[larger.index(slot.key)] = slot;
    }
    slots_.swap(larger.slots_);
    mask_ = slots_.size() - 1;
  }

  std::vector<Slot> slots_;
  size_t mask_, size_ = 0;
};

}  // namespace martlet
