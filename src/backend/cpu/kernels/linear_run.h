#pragma once

// Drives the kernels of all formats: few rows straight from the file's blocks, more rows through a panel that is
// unpacked once. Both use the same arithmetic, so their results have the same bits.

#include "backend/cpu/formats/formats.h"
#include "backend/cpu/isa/unroll.h"
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/kernels/linear_256.h"
#include "backend/cpu/kernels/linear_32.h"
#include "backend/cpu/kernels/linear_float.h"
#include "backend/cpu/kernels/peak.h"
#include "backend/cpu/kernels/quantize.h"

namespace martlet::cpu {
namespace {

// Eight rows straight from the blocks are a tenth faster than from a panel (AVX2, Q4_K_M).
inline constexpr int64_t kDirectRows = 8;

template <class V, class U>
using LinearKernel = std::conditional_t<
    U::activations == ActivationKind::q8_32, Linear32<V, U>,
    std::conditional_t<U::activations == ActivationKind::q8_256, Linear256<V, U>, LinearFloat<V, U>>>;

// A row vector that would cross the end of the matrix is moved back; only its lanes [from, to) are new.
struct Place {
  int64_t first;
  int from, to;
};

template <class V>
Place place(int64_t n, int64_t end) {
  int64_t first = std::max<int64_t>(0, std::min(n, end - V::lanes));
  return {first, static_cast<int>(std::min<int64_t>(n - first, V::lanes)),
          static_cast<int>(std::min<int64_t>(end - first, V::lanes))};
}

// Bias and residual are added in this order.
template <class V>
MARTLET_INLINE void store_outputs(const LinearJob& job, int64_t row, const Place& at, typename V::Float y) {
  float* out = job.y + row * job.y_stride + at.first;
  const float* residual = job.residual ? job.residual + row * job.residual_stride + at.first : nullptr;
  if (at.from == 0 && at.to == V::lanes) {
    if (job.bias) y = V::add(y, V::load(job.bias + at.first));
    if (residual) y = V::add(y, V::load(residual));
    V::store(out, y);
    return;
  }
  float values[V::lanes];
  V::store(values, y);
  for (int i = at.from; i < at.to; ++i) {
    float value = values[i];
    if (job.bias) value += job.bias[at.first + i];
    if (residual) value += residual[i];
    out[i] = value;
  }
}

// body(T) with the smallest T from Least up (1, 2, 4, 6, 8 ...) that holds `tokens`, or Most. Unused places repeat the
// last token.
template <int Most, int Least, class Body>
MARTLET_INLINE void with_tokens(int64_t tokens, Body body) {
  if constexpr (Least < Most) {
    if (tokens > Least) return with_tokens<Most, std::min(Most, Least + (Least > 1 ? 2 : 1))>(tokens, body);
  }
  body(std::integral_constant<int, Least>{});
}

// Bytes of `lanes` rows in the widest format, f32.
template <class V>
int64_t narrow_bytes(int64_t columns) {
  return (V::lanes * columns * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
}

template <class V, class U>
struct LinearRun {
  using Kernel = LinearKernel<V, U>;
  using Activation = typename Kernel::Activation;
  using Float = typename V::Float;

  template <int T>
  MARTLET_INLINE static void token_rows(const LinearJob& job, int64_t t0, const Activation* (&x)[T]) {
    unroll<T>([&](auto t) MARTLET_INLINED {
      int64_t row = std::min<int64_t>(t0 + t, job.rows - 1);
      x[t] = reinterpret_cast<const Activation*>(job.activations + row * job.activation_row_bytes);
    });
  }

  template <int R, int T>
  MARTLET_INLINE static void store(const LinearJob& job, int64_t t0, const Place (&at)[R], const Float (&y)[R][T]) {
    unroll<T>([&](auto t) MARTLET_INLINED {
      if (t0 + t >= job.rows) return;
      unroll<R>([&](auto r) MARTLET_INLINED { store_outputs<V>(job, t0 + t, at[r], y[r][t]); });
    });
  }

  // Where the prefetch of these rows starts. Behind the end it would fetch what nobody needs: then it finds its own
  // rows.
  static const std::byte* ahead_of(const LinearJob& job, const std::byte* first, int64_t bytes, int64_t distance) {
    return job.weights_end - first >= distance + bytes ? first + distance : first;
  }

  // Rows that are read side by side: a quarter more than their own bytes ahead, and at least the level's distance.
  static int64_t side_by_side(int64_t bytes) { return std::max(bytes + bytes / 4, V::least_ahead); }

  template <int T>
  static void direct(const LinearJob& job, int64_t n, int64_t end, int64_t t0) {
    constexpr int R = Kernel::template direct_vectors<T>;
    Place at[R];
    const std::byte* first[R];
    unroll<R>([&](auto r) MARTLET_INLINED {
      at[r] = place<V>(n + r * V::lanes, end);
      first[r] = job.weights + at[r].first * job.weight_row_bytes;
    });
    const Activation* x[T];
    token_rows<T>(job, t0, x);
    Float y[R][T];
    const int64_t bytes = R * V::lanes * job.weight_row_bytes;
    int64_t distance = side_by_side(bytes);
    if constexpr (requires { Kernel::template row_by_row<T>(0); }) {
      if (Kernel::template row_by_row<T>(job.columns)) distance = Kernel::along_ahead;
    }
    const std::byte* ahead = ahead_of(job, first[0], bytes, distance);
    Kernel::template direct<T>(first, job.weight_row_bytes, job.columns, x, ahead, y);
    store<R, T>(job, t0, at, y);
  }

  static void direct_rows(const LinearJob& job, int64_t begin, int64_t end) {
    const int64_t passes = (job.rows + V::direct_tokens - 1) / V::direct_tokens;
    const int64_t share = (job.rows + passes - 1) / passes;
    for (int64_t t0 = 0; t0 < job.rows; t0 += share) {
      with_tokens<V::direct_tokens, 1>(share, [&](auto t) MARTLET_INLINED {
        constexpr int T = t;
        for (int64_t n = begin; n < end; n += Kernel::template direct_vectors<T> * V::lanes) direct<T>(job, n, end, t0);
      });
    }
  }

  template <int T>
  static void sweep(const LinearJob& job, const typename Kernel::Panel* panel, const Place (&at)[V::panel_vectors],
                    int64_t t0) {
    const Activation* x[T];
    token_rows<T>(job, t0, x);
    Float y[V::panel_vectors][T];
    Kernel::template sweep<T>(panel, job.columns, x, y);
    store<V::panel_vectors, T>(job, t0, at, y);
  }

  static void panel_rows(const LinearJob& job, int64_t begin, int64_t end, std::byte* scratch) {
    auto* panel = reinterpret_cast<typename Kernel::Panel*>(scratch);
    for (int64_t n = begin; n < end; n += V::panel_vectors * V::lanes) {
      Place at[V::panel_vectors];
      for (int r = 0; r < V::panel_vectors; ++r) {
        at[r] = place<V>(n + r * V::lanes, end);
        const std::byte* first = job.weights + at[r].first * job.weight_row_bytes;
        const int64_t bytes = V::lanes * job.weight_row_bytes;
        const std::byte* ahead = ahead_of(job, first, bytes, side_by_side(bytes));
        Kernel::fill_panel(first, job.weight_row_bytes, job.columns, r, ahead, panel);
      }
      constexpr int least = std::max(2, V::panel_tokens - 2);
      for (int64_t t0 = 0; t0 < job.rows;) {
        int64_t left = job.rows - t0;
        with_tokens<V::panel_tokens, least>(left > V::panel_tokens && left <= 2 * least ? least : left,
                                            [&](auto t) MARTLET_INLINED {
                                              sweep<t>(job, panel, at, t0);
                                              t0 += t;
                                            });
      }
    }
  }

  static void run(const LinearJob& job, int64_t begin, int64_t end, std::byte* scratch) {
    if (end < V::lanes) return run_narrow(job, begin, end, scratch);
    if (job.rows <= kDirectRows) return direct_rows(job, begin, end);
    panel_rows(job, begin, end, scratch);
  }

  // Fewer rows than lanes: a copy in `scratch` has rows enough.
  static void run_narrow(const LinearJob& job, int64_t begin, int64_t end, std::byte* scratch) {
    LinearJob copy = job;
    copy.weights = scratch;
    copy.weights_end = scratch + V::lanes * job.weight_row_bytes;
    for (int64_t i = 0; i < V::lanes; ++i) {
      std::memcpy(scratch + i * job.weight_row_bytes, job.weights + std::min(i, end - 1) * job.weight_row_bytes,
                  static_cast<size_t>(job.weight_row_bytes));
    }
    if (job.rows <= kDirectRows) return direct_rows(copy, begin, end);
    panel_rows(copy, begin, end, scratch + narrow_bytes<V>(job.columns));
  }

  static int64_t panel_bytes(int64_t columns) {
    return Kernel::blocks(columns) * static_cast<int64_t>(sizeof(typename Kernel::Panel));
  }
};

using RunLinear = void (*)(const LinearJob&, int64_t, int64_t, std::byte*);
using PanelBytes = int64_t (*)(int64_t);

template <class V, Format F, bool computes>
constexpr RunLinear run_linear() {
  if constexpr (computes) return &LinearRun<V, Unpacker<F>>::run;
  return nullptr;
}

template <class V, Format F, bool computes>
constexpr PanelBytes panel_bytes() {
  if constexpr (computes) return &LinearRun<V, Unpacker<F>>::panel_bytes;
  return nullptr;
}

// One entry a format, in the order of formats.def; null where a format does not compute.
template <class V>
constexpr RunLinear kRunLinear[] = {
#define MARTLET_FORMAT(name, id, elements, bytes, computes) run_linear<V, Format::name, computes>(),
#include "tensor/formats.def"
#undef MARTLET_FORMAT
};

template <class V>
constexpr PanelBytes kPanelBytes[] = {
#define MARTLET_FORMAT(name, id, elements, bytes, computes) panel_bytes<V, Format::name, computes>(),
#include "tensor/formats.def"
#undef MARTLET_FORMAT
};

template <class V>
void run_any(const LinearJob& job, int64_t begin, int64_t end, std::byte* scratch) {
  kRunLinear<V>[static_cast<size_t>(job.format)](job, begin, end, scratch);
}

template <class V>
int64_t scratch_bytes(int64_t columns) {
  int64_t most = 0;
  for (PanelBytes bytes : kPanelBytes<V>) {
    if (bytes) most = std::max(most, bytes(columns));
  }
  return narrow_bytes<V>(columns) + (most + 63) / 64 * 64;
}

template <class V>
constexpr LinearKernels linear_kernels = {&quantize<V>, &run_any<V>, &scratch_bytes<V>, &run_peak<V>};

}  // namespace
}  // namespace martlet::cpu
