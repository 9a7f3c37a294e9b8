#pragma once

// Sizes that come from outside pass through Checked: arithmetic that remembers an overflow instead of wrapping.

#include <concepts>
#include <cstdint>
#include <optional>

namespace martlet {

class Checked {
 public:
  constexpr Checked(std::unsigned_integral auto value) : value_(value) {}

  friend constexpr Checked operator+(Checked a, Checked b) {
    return combine(a, b, [](uint64_t x, uint64_t y, uint64_t* r) { return __builtin_add_overflow(x, y, r); });
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    return combine(a, b, [](uint64_t x, uint64_t y, uint64_t* r) { return __builtin_sub_overflow(x, y, r); });
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    return combine(a, b, [](uint64_t x, uint64_t y, uint64_t* r) { return __builtin_mul_overflow(x, y, r); });
  }

  // The value, or nothing when any step overflowed 64 bits.
  constexpr std::optional<uint64_t> get() const { return overflow_ ? std::nullopt : std::optional(value_); }
  // True when the value is known and at most `limit`.
  constexpr bool within(uint64_t limit) const { return !overflow_ && value_ <= limit; }

 private:
  template <class Operation>
  static constexpr Checked combine(Checked a, Checked b, Operation operation) {
    Checked out(uint64_t{0});
    out.overflow_ = operation(a.value_, b.value_, &out.value_) || a.overflow_ || b.overflow_;
    return out;
  }

  uint64_t value_ = 0;
  bool overflow_ = false;
};

}  // namespace martlet
