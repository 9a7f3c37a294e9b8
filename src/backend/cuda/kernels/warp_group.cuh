#pragma once

// Matrix products of a warp group, four warps that have sixteen rows each: instructions of sm_90a alone. The second
// operand lies in shared memory: rows of 64 values, halves, that belong to one column of the result, with chunks
// swapped about in each row as swapped() says.

#include <cstdint>

namespace martlet::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ constexpr bool has_warp_groups() {
  return true;
}
#else
__device__ constexpr bool has_warp_groups() {
  return false;
}
#endif

// Where 16-byte chunk `chunk` of a row of 128 bytes lies in that row. Rows begin at multiples of their size, eight of
// them at one of 1024: then no eight lanes that read a chunk of eight rows meet in a bank.
__device__ inline int swapped(int row, int chunk) {
  return chunk ^ (row & 7);
}

// Of rows of 128 bytes (64 values of K) from `first` on, where chunk 0 of a row 8i is. What is added counts chunks.
__device__ inline uint64_t operand_at(const void* first) {
  constexpr uint64_t kEightRows = 8 * 128 / 16, kSwapped = 1;
  const uint64_t address = (__cvta_generic_to_shared(first) >> 4) & 0x3fff;
  return address | uint64_t{1} << 16 | kEightRows << 32 | kSwapped << 62;
}

// What this thread wrote to shared memory shall be seen by products, once a barrier has been passed.
__device__ inline void publish_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// What is computed of them is computed here: the compiler moves nothing of it past an instruction that follows.
template <int kCount>
__device__ void settle(float (&registers)[kCount][4]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n)
    asm volatile(""
                 : "+f"(registers[n][0]), "+f"(registers[n][1]), "+f"(registers[n][2]),
                   "+f"(registers[n][3])::"memory");
}
template <int kCount>
__device__ void settle(uint32_t (&registers)[kCount][4]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n)
    asm volatile(""
                 : "+r"(registers[n][0]), "+r"(registers[n][1]), "+r"(registers[n][2]),
                   "+r"(registers[n][3])::"memory");
}

// Products read and write registers on their own until finish_products(): `a` and `sums` are theirs from here on.
template <int kOperands, int kCount>
__device__ void begin_products(uint32_t (&a)[kOperands][4], float (&sums)[kCount][4]) {
  settle(a);
  settle(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

template <int kCount>
__device__ void finish_products(float (&sums)[kCount][4]) {
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
  settle(sums);
}

// sums (+)= a * b: a is 64 x 16 halves (a warp's rows as mma's first operand), b 16 x 8 kCount. Tile n of sums has
// columns 8n .. 8n + 7, as mma's result. Without `add` the sums begin anew.
__device__ inline void multiply_group(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %21, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, p, 1, 1, 0;\n\t}"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),
        "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]),
        "+f"(d[3][2]), "+f"(d[3][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

__device__ inline void multiply_group(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %37, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;\n\t}"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),
        "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]),
        "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]),
        "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

__device__ inline void multiply_group(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %69, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"
      "%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, p, 1, 1, 0;\n\t}"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),
        "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]),
        "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]),
        "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]),
        "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]),
        "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), "+f"(d[12][0]),
        "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]),
        "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]),
        "+f"(d[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

}  // namespace martlet::cuda
