#pragma once

// The best token of rows of logits, and excerpts to draw from.

#include <cstdint>

#include "backend/cuda/kernels/stream.h"
#include "backend/excerpt.h"

namespace martlet::cuda {

inline constexpr int32_t kChosenRows = 128;              // of one call, at most
inline constexpr int32_t kMostExcerptColumns = 1 << 20;  // of a row

// The largest logit of each row and the smallest token that has it.
struct Best {
  int32_t token;
  int32_t invalid;  // the row holds NaN or +infinity, or nothing but -infinity
};

// What a row's excerpt is to hold. Candidates are taken from the largest logit down, a bin of logits after the other,
// and come in whole bins.
struct Wish {
  enum class Until : int32_t {
    nothing,  // no candidates: the block that the draw falls into
    count,    // there are `amount` of them
    mass,     // they have `amount` of the row's weight
    reach,    // all are there whose logits are no more than `amount` below the largest
  };
  int32_t row;
  Until until;
  double amount;
  double random;  // of the draw, in [0, 1)
  float inverse_temperature;
  float bins;  // of one logit
};

// Of both calls. It starts as zeros, and can be used again.
int64_t choice_scratch_bytes();
void best_token(Stream& stream, const float* logits, int32_t rows, int32_t columns, void* scratch, Best* best);
// Of rows that best_token() was last called for, with that scratch; a row at most once. `candidates`: some are wished
// for. Excerpts of rows that are invalid mean nothing.
void make_excerpts(Stream& stream, const float* logits, int32_t columns, void* scratch, const Wish* wishes,
                   int32_t count, bool candidates, Excerpt* excerpts);

}  // namespace martlet::cuda
