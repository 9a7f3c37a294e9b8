#pragma once

// The GGUF file format, versions 2 and 3, little-endian:
//   "GGUF", u32 version, u64 tensor count, u64 key count
//   key count times: string key, u32 type, value   (string: u64 length, bytes; array: u32 type, u64 count, elements)
//   tensor count times: string name, u32 dimensions, u64 for each, u32 format, u64 offset into the data section
//   padding to `general.alignment`, then the data section: each tensor at a multiple of the alignment

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace martlet::gguf {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr uint32_t kOldestVersion = 2, kVersion = 3;
inline constexpr size_t kHeaderBytes = 24;
inline constexpr uint32_t kString = 8, kArray = 9;  // type ids beside those of gguf_numbers.def
inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr uint64_t kDefaultAlignment = 32;
inline constexpr size_t kMaxNameBytes = 63;  // of a tensor
inline constexpr size_t kMaxDimensions = 4;

// Bounds on what an opened file may cost in memory, several times what the largest published models have.
inline constexpr uint64_t kMaxKeys = 1 << 16;
inline constexpr uint64_t kMaxTensors = 1 << 17;
inline constexpr uint64_t kMaxArrayStrings = 1 << 21;  // all arrays together

}  // namespace martlet::gguf
