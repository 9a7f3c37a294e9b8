#include "backend/cuda/step_memory.h"

#include <iterator>
#include <new>

namespace martlet::cuda {
namespace {

constexpr int64_t kAlignment = 256;

}  // namespace

void Block::release() {
  if (owner_) owner_->give_back(data_, bytes_);
  owner_ = nullptr;
  data_ = nullptr;
}

void Buffer::recycle() {
  values.release();
  halves.release();
  squares.release();
  product = {};
  memory->unused_.push_back(this);
}

void Buffer::alias(const Buffer& other) {
  values = other.values.alias();
  halves = other.halves.alias();
  squares = other.squares.alias();
  stride = other.stride;
  scale = other.scale;
  square_tiles = other.square_tiles;
  epsilon = other.epsilon;
}

Status StepMemory::reserve(int64_t bytes) {
  if (bytes <= memory_.size()) return {};
  free_.clear();
  memory_ = Memory();
  MARTLET_ASSIGN(memory_, Memory::allocate(Place::device, bytes));
  free_.emplace(memory_.data(), memory_.size() / kAlignment * kAlignment);
  return {};
}

Block StepMemory::take(int64_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < bytes) continue;
    std::byte* data = range->first;
    const int64_t left = range->second - bytes;
    free_.erase(range);
    if (left > 0) free_.emplace(data + bytes, left);
    return Block(this, data, bytes);
  }
  throw std::bad_alloc();
}

void StepMemory::give_back(std::byte* data, int64_t bytes) {
  auto at = free_.emplace(data, bytes).first;
  if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  if (const auto before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    free_.erase(at);
  }
}

Buffer* StepMemory::buffer() {
  if (unused_.empty()) return &buffers_.emplace_back(this);
  Buffer* out = unused_.back();
  unused_.pop_back();
  return out;
}

Tensor StepMemory::floats(int64_t rows, int64_t columns) {
  Block values = take(rows * columns * static_cast<int64_t>(sizeof(float)));
  Buffer* out = buffer();
  out->values = std::move(values);
  return Tensor(out, rows, columns);
}

Tensor StepMemory::halves(int64_t rows, int64_t columns, float scale) {
  Block halves = take(rows * padded(columns) * static_cast<int64_t>(sizeof(__half)));
  Buffer* out = buffer();
  out->halves = std::move(halves);
  out->stride = padded(columns);
  out->scale = scale;
  return Tensor(out, rows, columns);
}

Tensor StepMemory::alias(int64_t rows, int64_t columns, const Buffer& values) {
  Buffer* out = buffer();
  out->alias(values);
  return Tensor(out, rows, columns);
}

Tensor StepMemory::defer(int64_t rows, int64_t columns, Product product) {
  Buffer* out = buffer();
  out->product = std::move(product);
  return Tensor(out, rows, columns);
}

}  // namespace martlet::cuda
