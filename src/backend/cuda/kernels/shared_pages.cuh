#pragma once

// Pages of one head in shared memory, as halves.

#include "backend/cuda/kernels/attend_page.cuh"
#include "backend/cuda/kernels/warp_group.cuh"

namespace martlet::cuda {

// Keys of a page in shared memory, as they are read by one warp.
struct SharedKeys {
  const __half* keys;
  int size, stride;
  __device__ void load(int token, int first, uint32_t* out) const {
    const uint4* row = reinterpret_cast<const uint4*>(keys + token * stride);
    const int chunk = min(first, size - 16) / 8;
    const uint4 a = row[swapped(token, chunk)], b = row[swapped(token, chunk + 1)];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  }
};

// Sixteen bytes on their way into shared memory.
__device__ inline void copy_later(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from));
}

// Calls f(i) for i = 0 .. count - 1, each in one of the block's threads.
template <class Function>
__device__ void share_out(int count, Function&& f) {
  constexpr int kThreads = kWarps * 32;
#pragma unroll 4
  for (int first = 0; first < count; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (count % kThreads == 0 || i < count) f(i);
  }
}

// The pages of a head one strip after another: a page or, kGroups, two as products of warp groups want them, keys in
// columns of 64 values one behind the other. Where the cache has halves they come there themselves and the next strip
// comes beside the one that is read; else it comes as it is cached and is unpacked once all have read.
template <class Type, bool kGroups>
struct SharedPages {
  static constexpr bool kPlain = Type::kType == CacheType::f16;
  static constexpr int kPages = kGroups ? 2 : 1, kTokens = kPages * kPageTokens;  // of a strip
  __half* shared;
  int key_size, value_size;
  int tokens;  // of all pages: those behind are not read

  __host__ __device__ static int stride_of(int key_size) { return (key_size + 63) / 64 * 64; }
  __host__ __device__ static int halves(int key_size, int value_size) {
    return kTokens * (stride_of(key_size) + value_size);
  }
  static int bytes(int key_size, int value_size) {
    const int unpacked = halves(key_size, value_size) * static_cast<int>(sizeof(__half));
    const auto packed = static_cast<int>(format_of(Type::kType).head_bytes(key_size, value_size));
    return unpacked + (kPlain ? unpacked : kPages * packed);
  }

  __device__ __half* keys(int strip) const { return shared + (kPlain ? strip % 2 * halves(key_size, value_size) : 0); }
  __device__ __half* values(int strip) const { return keys(strip) + kTokens * stride_of(key_size); }
  __device__ CachedHead<Type> packed(int page) const {
    CachedHead<Type> out{reinterpret_cast<std::byte*>(shared + halves(key_size, value_size)), key_size, value_size};
    out.data += page * out.bytes();
    return out;
  }
  // Where chunk i of the keys of a strip's page goes, eight halves.
  __device__ __half* key_chunk(int strip, int page, int i) const {
    const int token = page * kPageTokens + i / (key_size / 8), chunk = i % (key_size / 8);
    if (kGroups) return keys(strip) + (chunk / 8 * kTokens + token) * 64 + swapped(token, chunk % 8) * 8;
    return keys(strip) + token * stride_of(key_size) + swapped(token, chunk) * 8;
  }
  // The same of its values: eight tokens of one.
  __device__ __half* value_chunk(int strip, int page, int i) const {
    const int value = i / 4, chunk = page * 4 + i % 4;
    return values(strip) + value * kTokens + (kGroups ? swapped(value, chunk) : chunk) * 8;
  }

  // Calls f with the number of each page of the strip that has tokens.
  template <class Function>
  __device__ void each_page(int strip, Function&& f) const {
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      if (page == 0 || strip * kTokens + page * kPageTokens < tokens) f(page);
    }
  }

  // `page_at` gives the head in page i of the sequence.
  template <class PageAt>
  __device__ void fetch(int strip, const PageAt& page_at) const {
    each_page(strip, [&](int page) {
      const CachedHead<Type> from = page_at(strip * kPages + page);
      if constexpr (kPlain) {
        share_out(kPageTokens * key_size / 8,
                  [&](int i) { copy_later(key_chunk(strip, page, i), from.key(0) + i * 8); });
        share_out(kPageTokens * value_size / 8,
                  [&](int i) { copy_later(value_chunk(strip, page, i), from.value(0, 0) + i * 8); });
      } else {
        std::byte* to = packed(page).data;
        share_out(static_cast<int>(from.bytes()) / 16, [&](int i) { copy_later(to + i * 16, from.data + i * 16); });
      }
    });
    asm volatile("cp.async.commit_group;");
  }

  // The strip is there for all when this returns, and nobody reads the one before it any more.
  __device__ void await(int strip) const {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    if (kGroups && kPlain) publish_to_products();
    __syncthreads();
    if constexpr (!kPlain) unpack(strip);
    if (kGroups && (strip + 1) * kTokens > tokens) clear_behind(strip);
  }

 private:
  __device__ void unpack(int strip) const {
    each_page(strip, [&](int page) {
      const CachedHead<Type> from = packed(page);
      const int chunks = key_size / 16;
      share_out(kPageTokens * chunks, [&](int i) {
        uint32_t k[8];
        from.load_key(i / chunks, i % chunks * 16, k);
        *reinterpret_cast<uint4*>(key_chunk(strip, page, 2 * i)) = {k[0], k[1], k[2], k[3]};
        *reinterpret_cast<uint4*>(key_chunk(strip, page, 2 * i + 1)) = {k[4], k[5], k[6], k[7]};
      });
      share_out(kPageTokens / 8 * value_size, [&](int i) {
        const int value = i / 4, token = i % 4 * 8;
        *reinterpret_cast<uint4*>(value_chunk(strip, page, i)) =
            Type::halves(from.load_value(value, token), from.load_value_scales(value, token));
      });
    });
    if (kGroups) publish_to_products();
    __syncthreads();
  }

  // Zeros for the values of tokens behind the last one, which may be anything, also NaN.
  __device__ void clear_behind(int strip) const {
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      const int valid = tokens - strip * kTokens - page * kPageTokens;
      share_out(kPageTokens / 8 * value_size, [&](int i) {
        auto& eight = *reinterpret_cast<uint4*>(value_chunk(strip, page, i));
        const uint4 kept = kept_tokens(i % 4 * 8, valid);
        eight = {eight.x & kept.x, eight.y & kept.y, eight.z & kept.z, eight.w & kept.w};
      });
    }
    publish_to_products();
    __syncthreads();
  }
};

}  // namespace martlet::cuda
