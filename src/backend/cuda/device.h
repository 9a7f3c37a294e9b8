#pragma once

// Memory of the device and pinned memory of the host, owned.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"

namespace martlet::cuda {

// What a call of the runtime said, as an error that names the operation: `memory` when there was none, else `io`.
Status check(cudaError_t result, const char* operation);

// That the first visible device can run the backend. Errors: `io`, "no_device".
Status check_device();

enum class Place { device, pinned };

// Bytes of the device that the driver takes for an allocation of so many, at most: small ones share blocks, and may lie
// in what a large one leaves of its last.
constexpr int64_t taken_bytes(int64_t bytes) {
  constexpr int64_t kSmall = 1 << 20, kSmallUnit = 512, kUnit = 2 << 20;
  const int64_t unit = bytes <= kSmall ? kSmallUnit : kUnit;
  return (bytes + unit - 1) / unit * unit;
}

// Empty, or `size()` bytes, 256-byte aligned.
class Memory {
 public:
  Memory() = default;
  static Result<Memory> allocate(Place place, int64_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept
      : place_(other.place_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  int64_t taken() const { return place_ == Place::device ? taken_bytes(size_) : 0; }  // of the device
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  Place place_ = Place::device;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace martlet::cuda
