#pragma once

// One block to floats, for each format that computes: out holds as many values as the block has elements. The products
// and sums are rounded one by one, in the order that the comment of each block states.

#include "tensor/blocks.h"

namespace martlet {

void unpack(const BlockF32& block, float* out);
void unpack(const BlockF16& block, float* out);
void unpack(const BlockBF16& block, float* out);
void unpack(const BlockQ4_0& block, float* out);
void unpack(const BlockQ4_1& block, float* out);
void unpack(const BlockQ5_0& block, float* out);
void unpack(const BlockQ5_1& block, float* out);
void unpack(const BlockQ8_0& block, float* out);
void unpack(const BlockIQ4_NL& block, float* out);
void unpack(const BlockMXFP4& block, float* out);
void unpack(const BlockQ2_K& block, float* out);
void unpack(const BlockQ3_K& block, float* out);
void unpack(const BlockQ4_K& block, float* out);
void unpack(const BlockQ5_K& block, float* out);
void unpack(const BlockQ6_K& block, float* out);
void unpack(const BlockIQ4_XS& block, float* out);

}  // namespace martlet
