#pragma once

// Storage of the intermediates of a step. Blocks return to a pool when their tensors go, and are reused by the next:
// after the first steps of a size nothing is allocated any more.

#include <array>
#include <deque>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/memory.h"

namespace martlet::cpu {

inline constexpr size_t kActivationKinds = static_cast<size_t>(ActivationKind::q8_256) + 1;

class StepMemory;

// A block from the pool, returned when it goes.
class Block {
 public:
  Block() = default;
  Block(StepMemory* owner, Mapping memory) : owner_(owner), memory_(std::move(memory)) {}
  ~Block() { release(); }
  Block(Block&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), memory_(std::move(other.memory_)) {}
  Block& operator=(Block&& other) noexcept {
    release();
    owner_ = std::exchange(other.owner_, nullptr);
    memory_ = std::move(other.memory_);
    return *this;
  }

  explicit operator bool() const { return owner_ != nullptr; }
  std::byte* bytes() const { return memory_.data(); }
  float* floats() const { return reinterpret_cast<float*>(memory_.data()); }
  void release();

 private:
  StepMemory* owner_ = nullptr;
  Mapping memory_;
};

// An operator that has not run: its reader runs it, fused with its own work where that is worth it.
struct Deferred {
  enum class Kind { none, norm, linear } kind = Kind::none;
  Tensor x, residual;
  Norm norm;
  Weight weight;
};

// What the CPU backend keeps for a tensor: values unless the operator is deferred, and the forms that kernels of
// linear() want them in, once something asked for those.
struct Buffer final : Tensor::Storage {
  explicit Buffer(StepMemory* memory) : memory(memory) {}
  void recycle() override;

  StepMemory* memory;
  Block values;
  Deferred deferred;
  std::array<Block, kActivationKinds> activations;
};

class StepMemory {
 public:
  StepMemory() = default;
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;

  // At least `bytes`, 64-byte aligned, contents undefined. Throws std::bad_alloc: submit() turns it into an error.
  Block take(int64_t bytes);
  Tensor tensor(int64_t rows, int64_t columns);                     // with values
  Tensor defer(int64_t rows, int64_t columns, Deferred operation);  // without
  int64_t allocated() const { return allocated_; }                  // bytes held, used or not

 private:
  friend class Block;
  friend struct Buffer;

  Buffer* buffer();

  // With room for every block and every buffer that there is.
  std::vector<Mapping> free_;
  std::vector<Buffer*> unused_;
  std::deque<Buffer> buffers_;
  int64_t allocated_ = 0;
  size_t blocks_ = 0;  // that are there, used or not
};

inline Buffer& buffer_of(const Tensor& tensor) {
  return *static_cast<Buffer*>(tensor.storage());
}

}  // namespace martlet::cpu
