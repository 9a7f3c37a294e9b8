#pragma once

// A set of byte strings with a value each, walked byte by byte.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/flat_map.h"

namespace martlet {

class ByteTrie {
 public:
  static constexpr uint32_t kNone = FlatMap::kNone, kRoot = 0;

  ByteTrie() { root_.fill(kNone); }
  // Adds `key` unless it is there. `key` is not empty; `value` is not kNone.
  void insert(std::string_view key, uint32_t value) {
    uint32_t node = kRoot;
    for (const char c : key) {
      const auto byte = static_cast<uint8_t>(c);
      const auto fresh = static_cast<uint32_t>(values_.size());
      const uint32_t next = node == kRoot ? (root_[byte] == kNone ? root_[byte] = fresh : root_[byte])
                                          : edges_.insert(edge(node, byte), fresh);
      if (next == fresh) values_.push_back(kNone);
      node = next;
    }
    if (values_[node] == kNone) values_[node] = value;
  }
  // The node after `byte`, kNone when no string goes on that way.
  uint32_t child(uint32_t node, uint8_t byte) const {
    return node == kRoot ? root_[byte] : edges_.find(edge(node, byte));
  }
  uint32_t value(uint32_t node) const { return values_[node]; }  // kNone when no string ends here
  size_t nodes() const { return values_.size(); }

 private:
  static uint64_t edge(uint32_t node, uint8_t byte) { return uint64_t{node} << 8 | byte; }
  std::array<uint32_t, 256> root_;
  std::vector<uint32_t> values_ = {kNone};
  FlatMap edges_;
};

}  // namespace martlet
