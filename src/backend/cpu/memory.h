#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace martlet::cpu {

// Anonymous memory straight from the system, zero, taken page by page as it is touched, in huge pages where there are
// any. Empty when the system refused.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(int64_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// The system pages that lie wholly inside `bytes`, part of a Mapping, go back to the system; they are zero when they
// are touched again, or keep what they held.
void give_back(std::span<std::byte> bytes);

}  // namespace martlet::cpu
