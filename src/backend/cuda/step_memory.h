#pragma once

// Storage of the intermediates of a step: one block of device memory, handed out and taken back in the order in which
// work is queued. One stream runs everything in that order, so a range may be given to the next operator as soon as its
// last reader is queued. A captured graph keeps the addresses: the block stays where it is while there are graphs.

#include <cuda_fp16.h>

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device.h"

namespace martlet::cuda {

class StepMemory;

// A range of the step's memory, given back when it goes.
class Block {
 public:
  Block() = default;
  Block(StepMemory* owner, std::byte* data, int64_t bytes) : owner_(owner), data_(data), bytes_(bytes) {}
  ~Block() { release(); }
  Block(Block&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  explicit operator bool() const { return data_ != nullptr; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  void release();
  Block alias() const { return Block(nullptr, data_, 0); }

 private:
  StepMemory* owner_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// A linear operator that has not run: its reader runs it, fused with its own work where that is worth it.
struct Product {
  Tensor x, residual;
  Weight weight;
  explicit operator bool() const { return static_cast<bool>(weight); }
};

// What the backend keeps for a tensor: values as f32, as halves times `scale` in rows of `stride`, both, or a product
// that gives them. With `squares`, the halves still want the scaling of an RMS norm: rows of `square_tiles` sums of
// squares, of as many values as the tensor has columns; products of up to kFewRows rows do it.
struct Buffer final : Tensor::Storage {
  explicit Buffer(StepMemory* memory) : memory(memory) {}
  void recycle() override;

  StepMemory* memory;
  Block values, halves;
  int32_t stride = 0;
  float scale = 1;
  Block squares;
  int32_t square_tiles = 0;
  float epsilon = 0;
  Product product;

  // The same values, in memory that somebody else owns.
  void alias(const Buffer& other);
};

class StepMemory {
 public:
  StepMemory() = default;
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;

  Status reserve(int64_t bytes);  // nothing may be in use
  int64_t size() const { return memory_.size(); }
  int64_t taken() const { return memory_.taken(); }
  // 256-byte aligned, contents undefined. Throws std::bad_alloc: submit() turns it into an error.
  Block take(int64_t bytes);

  Tensor floats(int64_t rows, int64_t columns);
  Tensor halves(int64_t rows, int64_t columns, float scale);
  // Of memory that is not the tensor's: what a graph left.
  Tensor alias(int64_t rows, int64_t columns, const Buffer& values);
  Tensor defer(int64_t rows, int64_t columns, Product product);

 private:
  friend class Block;
  friend struct Buffer;

  void give_back(std::byte* data, int64_t bytes);
  Buffer* buffer();

  Memory memory_;
  std::map<std::byte*, int64_t> free_;  // bytes of each range; neighbours are joined
  std::deque<Buffer> buffers_;
  std::vector<Buffer*> unused_;
};

inline Buffer& buffer_of(const Tensor& tensor) {
  return *static_cast<Buffer*>(tensor.storage());
}

// Columns of a row of halves, padding included.
inline int32_t padded(int64_t columns) {
  return static_cast<int32_t>((columns + 63) / 64 * 64);
}

}  // namespace martlet::cuda
