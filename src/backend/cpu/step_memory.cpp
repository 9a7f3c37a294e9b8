#include "backend/cpu/step_memory.h"

#include <algorithm>
#include <new>

namespace martlet::cpu {

void Block::release() {
  if (!owner_) return;
  owner_->free_.push_back(std::move(memory_));
  memory_ = Mapping();
  owner_ = nullptr;
}

void Buffer::recycle() {
  values.release();
  for (Block& block : activations) block.release();
  deferred = {};
  memory->unused_.push_back(this);
}

// The smallest free block that is large enough. When none is, the largest free one makes way: the pool then never holds
// more blocks than were in use at once, each no larger than the largest that was asked for.
Block StepMemory::take(int64_t bytes) {
  const auto size_less = [](const Mapping& a, const Mapping& b) { return a.size() < b.size(); };
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->size() >= bytes && (best == free_.end() || size_less(*it, *best))) best = it;
  }
  Mapping memory;
  if (best != free_.end()) {
    memory = std::move(*best);
    free_.erase(best);
  } else {
    free_.reserve(blocks_ + 1);  // for its return: destructors must not allocate
    if (const auto largest = std::max_element(free_.begin(), free_.end(), size_less); largest != free_.end()) {
      allocated_ -= largest->size();
      free_.erase(largest);
      --blocks_;
    }
    memory = Mapping(bytes);
    if (!memory.data()) throw std::bad_alloc();
    ++blocks_;
    allocated_ += memory.size();
  }
  return Block(this, std::move(memory));
}

Buffer* StepMemory::buffer() {
  if (unused_.empty()) {
    unused_.reserve(buffers_.size() + 1);  // for its return, as in take()
    return &buffers_.emplace_back(this);
  }
  Buffer* out = unused_.back();
  unused_.pop_back();
  return out;
}

Tensor StepMemory::tensor(int64_t rows, int64_t columns) {
  Block values = take(rows * columns * static_cast<int64_t>(sizeof(float)));
  Buffer* out = buffer();
  out->values = std::move(values);
  return Tensor(out, rows, columns);
}

Tensor StepMemory::defer(int64_t rows, int64_t columns, Deferred operation) {
  Buffer* out = buffer();
  out->deferred = std::move(operation);
  return Tensor(out, rows, columns);
}

}  // namespace martlet::cpu
