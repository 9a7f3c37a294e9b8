#include "backend/cpu/kernels/linear.h"

#include "backend/cpu/isa/portable.h"

#include "backend/cpu/formats/formats.h"
#include "backend/cpu/kernels/activations.h"

namespace martlet::cpu {
namespace {

template <Format F, bool computes>
constexpr ActivationKind kind_of() {
  if constexpr (computes) return Unpacker<F>::activations;
  return ActivationKind::f32;
}

constexpr ActivationKind kKinds[] = {
#define MARTLET_FORMAT(name, id, elements, bytes, computes) kind_of<Format::name, computes>(),
#include "tensor/formats.def"
#undef MARTLET_FORMAT
};

int64_t row_bytes(ActivationKind kind, int64_t columns) {
  switch (kind) {
    case ActivationKind::f32:
      return columns * static_cast<int64_t>(sizeof(float));
    case ActivationKind::q8_32:
      return columns / 32 * static_cast<int64_t>(sizeof(Activation32));
    case ActivationKind::q8_256:
      return columns / 256 * static_cast<int64_t>(sizeof(Activation256));
  }
  return 0;
}

}  // namespace

ActivationKind activation_kind(Format format) {
  return kKinds[static_cast<size_t>(format)];
}

int64_t activation_bytes(ActivationKind kind, int64_t columns) {
  return (row_bytes(kind, columns) + 63) / 64 * 64;
}

}  // namespace martlet::cpu
