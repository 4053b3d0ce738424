// Transposes bytes: 16 by 16 with SSE2, which every x86-64 has, one by one elsewhere.
#ifndef DMLAX_CPU_SIMD_TRANSPOSE_H_
#define DMLAX_CPU_SIMD_TRANSPOSE_H_

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstdint>

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

#ifdef __SSE2__
constexpr int64_t kTransposed = 16;  // rows and columns at once

inline void transpose_block(uint8_t* target, int64_t target_stride, const uint8_t* source,
                            int64_t source_stride) {
  __m128i a[16], b[16];
  for (int i = 0; i < 16; ++i) {
    a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i * source_stride));
  }
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
      b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
    }
    __builtin_memcpy(a, b, sizeof a);
  }
  for (int i = 0; i < 16; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i * target_stride), a[i]);
  }
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
