#pragma once

// Checks of attention over the paged cache without a test framework or a backend: the GoogleTest cases and the plain
// program that runs under an emulator (tests/neon) share them.

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/isa/level.h"
#include "martlet/cache_type.h"

namespace martlet::cpu {

// `rows` rows that end a sequence of `context` tokens.
struct AttentionCase {
  CacheType type;
  int32_t heads, kv_heads, key_size, value_size;
  int32_t context, rows;

  std::string name() const;
};

// What the cache makes of one head: quantized as kernels/attention.h says, in double precision.
std::vector<double> as_cached(CacheType type, std::vector<double> head);

// [row][head][value_size] of one level.
std::vector<float> run_attention(const AttentionCase& c, const Level& level);

// Each returns what is wrong, or nothing.
std::string check_against_doubles(const AttentionCase& c);  // at every level, which must agree to the bit
// Every level encodes like the scalar one; tiny and huge values come back; NaN and infinity stay what they are.
std::string check_encoding(CacheType type, const Level& level);

// How far a result may be from the one in doubles.
double attention_tolerance(CacheType type);

std::vector<AttentionCase> attention_cases();
// All of it; calls report(text) for each failure and returns how many checks ran.
int64_t run_all_attention_checks(void (*report)(const std::string& text));

}  // namespace martlet::cpu
