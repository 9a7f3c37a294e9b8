#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "file/model_file.h"

namespace martlet {
namespace {

template <class Stored>
Stored load(std::span<const std::byte> bytes, size_t index) {  // arrays lie at any address
  Stored value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

// What an int64_t cannot hold becomes the nearest value that it can, NaN zero.
template <class Stored>
int64_t to_integer(Stored value) {
  if constexpr (std::is_floating_point_v<Stored>) {
    if (std::isnan(value)) return 0;
    if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
    if (value < -0x1p63) return std::numeric_limits<int64_t>::min();
  }
  if constexpr (std::is_same_v<Stored, uint64_t>) {
    if (value > INT64_MAX) return INT64_MAX;
  }
  return static_cast<int64_t>(value);
}

}  // namespace

int64_t NumberArray::integer(size_t index) const {
  assert(index < size);
  switch (type) {
#define MARTLET_GGUF_NUMBER(name, id, stored, kept) \
  case Type::name:                                  \
    return to_integer(load<stored>(bytes, index));
#include "file/gguf_numbers.def"
#undef MARTLET_GGUF_NUMBER
  }
  return 0;
}

double NumberArray::number(size_t index) const {
  assert(index < size);
  switch (type) {
#define MARTLET_GGUF_NUMBER(name, id, stored, kept) \
  case Type::name:                                  \
    return static_cast<double>(load<stored>(bytes, index));
#include "file/gguf_numbers.def"
#undef MARTLET_GGUF_NUMBER
  }
  return 0;
}

}  // namespace martlet
