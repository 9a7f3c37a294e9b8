#pragma once

// The arithmetic of attention over cached keys and values, one set for each instruction level. Each result is one chain
// of fused multiply-adds in ascending order, so it has the same bits at every level and however the work is cut.

#include <cstddef>
#include <cstdint>

namespace martlet::cpu {

// Attention of one query over one span of tokens, before the division by `sum`.
struct Softmax {
  float largest;  // score
  float sum;      // of exp(score - largest)
};

struct AttentionKernels {
  // c[i][j] = a[i][0] * b[0][j] + a[i][1] * b[1][j] ... added to c[i][j] as it is (`add`) or to zero.
  // i < rows, j < columns, a multiple of 16; strides in elements. b is f32, or halves: then as many bytes from `next`
  // on are fetched meanwhile, at the pace of the work.
  void (*multiply)(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const float* b, int64_t b_stride,
                   int64_t columns, float* c, int64_t c_stride, bool add);
  void (*multiply_halves)(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const uint16_t* b,
                          int64_t b_stride, int64_t columns, float* c, int64_t c_stride, bool add,
                          const std::byte* next);
  void (*widen)(const uint16_t* from, int64_t count, float* to);   // halves to f32; count is a multiple of 16
  void (*narrow)(const float* from, int64_t count, uint16_t* to);  // f32 to halves, nearest even; likewise

  // scores[0 .. count) become exp(score - largest); what follows up to a multiple of 16 is overwritten.
  Softmax (*soften)(float* scores, int64_t count);
  // Brings two spans to one: `out` and `state` take in `other_out`; size is a multiple of 16.
  void (*merge)(Softmax& state, float* out, const Softmax& other, const float* other_out, int64_t size);
  void (*divide)(const float* x, float divisor, int64_t size, float* out);  // size is a multiple of 16
};

}  // namespace martlet::cpu
