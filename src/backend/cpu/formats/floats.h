#pragma once

// F32, F16 and BF16: the weights are the values.

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

template <>
struct Unpacker<Format::F32> {
  static constexpr ActivationKind activations = ActivationKind::f32;
  static constexpr int bytes = 4;
  template <class V, int I>
  MARTLET_INLINE static typename V::Float value(typename V::Int column) {
    return V::as_float(column);
  }
  template <class V>
  MARTLET_INLINE static typename V::Float single(const typename V::Rows& rows) {
    return V::as_float(rows.words(0));
  }
};

template <>
struct Unpacker<Format::F16> {
  static constexpr ActivationKind activations = ActivationKind::f32;
  static constexpr int bytes = 2;
  template <class V, int I>
  MARTLET_INLINE static typename V::Float value(typename V::Int column) {
    return I == 0 ? V::low_half(column) : V::high_half(column);
  }
  template <class V>
  MARTLET_INLINE static typename V::Float single(const typename V::Rows& rows) {
    return V::low_half(rows.halves(0));
  }
};

template <>
struct Unpacker<Format::BF16> {  // the upper half of an f32
  static constexpr ActivationKind activations = ActivationKind::f32;
  static constexpr int bytes = 2;
  template <class V, int I>
  MARTLET_INLINE static typename V::Float value(typename V::Int column) {
    return V::as_float(I == 0 ? V::left(column, 16) : V::left(V::right(column, 16), 16));
  }
  template <class V>
  MARTLET_INLINE static typename V::Float single(const typename V::Rows& rows) {
    return V::as_float(V::left(rows.halves(0), 16));
  }
};

}  // namespace
}  // namespace martlet::cpu
