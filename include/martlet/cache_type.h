#pragma once

// How the cache stores keys and values. Half the bytes a value, twice the tokens that fit, and at depth nearly twice
// the speed; what each type costs in accuracy is in docs/accuracy.md.

#include <cstdint>
#include <string_view>

namespace martlet {

enum class CacheType : uint8_t { f32, f16, bf16, q8, q4, fp8 };

inline constexpr std::string_view kCacheTypeNames[] = {"f32", "f16", "bf16", "q8", "q4", "fp8"};

constexpr std::string_view name_of(CacheType type) {
  return kCacheTypeNames[static_cast<size_t>(type)];
}

}  // namespace martlet
