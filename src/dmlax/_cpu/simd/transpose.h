// Transposes bytes: 16 by 16 with SSE2 and NEON, which every x86-64 and AArch64 has, one by one
// elsewhere.
#ifndef DMLAX_CPU_SIMD_TRANSPOSE_H_
#define DMLAX_CPU_SIMD_TRANSPOSE_H_

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include <cstdint>

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

#if defined(__SSE2__) || defined(__ARM_NEON)
constexpr int64_t kTransposed = 16;  // rows and columns at once

#ifdef __SSE2__
using Bytes16 = __m128i;

inline Bytes16 load_16(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline void store_16(uint8_t* p, Bytes16 bytes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
inline Bytes16 interleave_low(Bytes16 a, Bytes16 b) { return _mm_unpacklo_epi8(a, b); }
inline Bytes16 interleave_high(Bytes16 a, Bytes16 b) { return _mm_unpackhi_epi8(a, b); }
#else
using Bytes16 = uint8x16_t;

inline Bytes16 load_16(const uint8_t* p) { return vld1q_u8(p); }
inline void store_16(uint8_t* p, Bytes16 bytes) { vst1q_u8(p, bytes); }
inline Bytes16 interleave_low(Bytes16 a, Bytes16 b) { return vzip1q_u8(a, b); }
inline Bytes16 interleave_high(Bytes16 a, Bytes16 b) { return vzip2q_u8(a, b); }
#endif

inline void transpose_block(uint8_t* target, int64_t target_stride, const uint8_t* source,
                            int64_t source_stride) {
  Bytes16 a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = load_16(source + i * source_stride);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = interleave_low(a[i], a[i + 8]);
      b[2 * i + 1] = interleave_high(a[i], a[i + 8]);
    }
    __builtin_memcpy(a, b, sizeof a);
  }
  for (int i = 0; i < 16; ++i) store_16(target + i * target_stride, a[i]);
}
#else
constexpr int64_t kTransposed = 1;

inline void transpose_block(uint8_t* target, int64_t, const uint8_t* source, int64_t) {
  *target = *source;
}
#endif

// target[c * target_stride + r] = source[r * source_stride + c]
inline void transpose(uint8_t* target, int64_t target_stride, const uint8_t* source,
                      int64_t source_stride, int64_t rows, int64_t columns) {
  const int64_t whole_rows = rows - rows % kTransposed;
  const int64_t whole_columns = columns - columns % kTransposed;
  for (int64_t r = 0; r < whole_rows; r += kTransposed) {
    for (int64_t c = 0; c < whole_columns; c += kTransposed) {
      transpose_block(target + c * target_stride + r, target_stride, source + r * source_stride + c,
                      source_stride);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      target[c * target_stride + r] = source[r * source_stride + c];
    }
  }
}

}  // namespace
}  // namespace DMLAX_ISA_NAMESPACE
}  // namespace dmlax

#endif  // DMLAX_CPU_SIMD_TRANSPOSE_H_
