#pragma once

// Pages of one head in shared memory, as halves.

#include "backend/cuda/kernels/attend_page.cuh"
#include "backend/cuda/kernels/warp_group.cuh"

namespace martlet::cuda {

// Keys of a page in shared memory. Chunks of eight halves are swapped about inside a row so that no two lanes of a
// quarter warp meet in a bank.
struct SharedKeys {
  const __half* keys;
  int size, stride;
  static __device__ int place(int token, int chunk) { return chunk ^ (token & 7); }
  __device__ void load(int token, int first, uint32_t* out) const {
    const uint4* row = reinterpret_cast<const uint4*>(keys + token * stride);
    const int chunk = min(first, size - 16) / 8;
    const uint4 a = row[place(token, chunk)], b = row[place(token, chunk + 1)];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  }
};

// Sixteen bytes on their way into shared memory.
__device__ inline void copy_later(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from));
}

// Pages in shared memory as halves, keys in rows of `stride` or, kGroups, both as products of warp groups want them:
// keys in columns of 64 values, one behind the other. Where the cache has halves they come there themselves and the
// next page comes beside the one that is read; else it comes as it is cached and is unpacked once all have read.
template <class Type, bool kGroups>
struct SharedPages {
  static constexpr bool kPlain = Type::kType == CacheType::f16;
  __half* shared;
  int key_size, value_size, stride;

  __host__ __device__ static int stride_of(int key_size) { return (key_size + 63) / 64 * 64; }
  __host__ __device__ static int halves(int key_size, int value_size) {
    return kPageTokens * (stride_of(key_size) + value_size);
  }
  static int bytes(int key_size, int value_size) {
    const int unpacked = halves(key_size, value_size) * static_cast<int>(sizeof(__half));
    return unpacked + (kPlain ? unpacked : static_cast<int>(format_of(Type::kType).head_bytes(key_size, value_size)));
  }

  __device__ __half* keys(int p) const { return shared + (kPlain ? p % 2 * halves(key_size, value_size) : 0); }
  __device__ __half* values(int p) const { return keys(p) + kPageTokens * stride; }
  __device__ CachedHead<Type> packed() const {
    return {reinterpret_cast<std::byte*>(shared + halves(key_size, value_size)), key_size, value_size};
  }
  // Where chunk i of a page's keys goes, eight halves.
  __device__ __half* key_chunk(int p, int i) const {
    const int token = i / (key_size / 8), chunk = i % (key_size / 8);
    if (kGroups) return keys(p) + (chunk / 8 * kPageTokens + token) * 64 + swapped<128>(token, chunk % 8) * 8;
    return keys(p) + token * stride + SharedKeys::place(token, chunk) * 8;
  }
  // The same of its values: eight tokens of one.
  __device__ __half* value_chunk(int p, int i) const {
    const int value = i / 4, chunk = i % 4;
    return values(p) + value * kPageTokens + (kGroups ? swapped<64>(value, chunk) : chunk) * 8;
  }

  __device__ void fetch(int p, const CachedHead<Type>& from) const {
    if constexpr (kPlain) {
      for (int i = threadIdx.x; i < kPageTokens * key_size / 8; i += blockDim.x)
        copy_later(key_chunk(p, i), from.key(0) + i * 8);
      for (int i = threadIdx.x; i < kPageTokens * value_size / 8; i += blockDim.x)
        copy_later(value_chunk(p, i), from.value(0, 0) + i * 8);
    } else {
      const auto bytes = static_cast<int>(from.bytes());
      for (int i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16) copy_later(packed().data + i, from.data + i);
    }
    asm volatile("cp.async.commit_group;");
  }

  // Page p is there for all when this returns, and nobody reads the one before it any more.
  __device__ void await(int p) const {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    if (kGroups && kPlain) publish_to_products();
    __syncthreads();
    if constexpr (!kPlain) {
      const CachedHead<Type> page = packed();
      const int chunks = key_size / 16;
      for (int i = threadIdx.x; i < kPageTokens * chunks; i += blockDim.x) {
        uint32_t k[8];
        page.load_key(i / chunks, i % chunks * 16, k);
        *reinterpret_cast<uint4*>(key_chunk(p, 2 * i)) = {k[0], k[1], k[2], k[3]};
        *reinterpret_cast<uint4*>(key_chunk(p, 2 * i + 1)) = {k[4], k[5], k[6], k[7]};
      }
      for (int i = threadIdx.x; i < kPageTokens / 8 * value_size; i += blockDim.x) {
        const int value = i / 4, token = i % 4 * 8;
        *reinterpret_cast<uint4*>(value_chunk(p, i)) =
            Type::halves(page.load_value(value, token), page.load_value_scales(value, token));
      }
      if (kGroups) publish_to_products();
      __syncthreads();
    }
  }

  // Zeros for the values of tokens from `valid` on, which may be anything, also NaN. Called by all.
  __device__ void keep(int p, int valid) const {
    for (int i = threadIdx.x; i < kPageTokens / 8 * value_size; i += blockDim.x) {
      auto& eight = *reinterpret_cast<uint4*>(value_chunk(p, i));
      const uint4 kept = kept_tokens(i % 4 * 8, valid);
      eight = {eight.x & kept.x, eight.y & kept.y, eight.z & kept.z, eight.w & kept.w};
    }
    publish_to_products();
    __syncthreads();
  }
};

}  // namespace martlet::cuda
