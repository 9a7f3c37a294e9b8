#pragma once

// A min-heap with eight children a node: a third of the depth of a binary one, and each level is one cache line. That
// is what a queue of millions of candidates costs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace martlet {

inline constexpr size_t kHeapChildren = 8;

inline void push_min(std::vector<uint64_t>& heap, uint64_t entry) {
  size_t at = heap.size();
  heap.push_back(entry);
  for (size_t parent; at > 0 && heap[parent = (at - 1) / kHeapChildren] > entry; at = parent) heap[at] = heap[parent];
  heap[at] = entry;
}

// Takes the least entry out. The heap is not empty.
inline uint64_t pop_min(std::vector<uint64_t>& heap) {
  const uint64_t best = heap.front(), last = heap.back();
  heap.pop_back();
  if (heap.empty()) return best;
  size_t at = 0;
  for (size_t first; (first = at * kHeapChildren + 1) < heap.size();) {
    const size_t count = std::min(kHeapChildren, heap.size() - first);
    const auto least = std::min_element(heap.data() + first, heap.data() + first + count);
    if (*least >= last) break;
    heap[at] = *least;
    at = static_cast<size_t>(least - heap.data());
  }
  heap[at] = last;
  return best;
}

}  // namespace martlet
