// Transposes bytes: 16 rows and a vector's columns at a time with SSE2, which every x86-64 has, and
// byte by byte elsewhere.
#pragma once

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

#ifdef __SSE2__

// A vector consists of lanes of 16 bytes, within which bytes are interleaved.
template <typename Bytes>
inline void load_bytes(Bytes& v, const uint8_t* p) {
  __builtin_memcpy(&v, p, sizeof v);
}
inline __m128i interleave_low(__m128i a, __m128i b) { return _mm_unpacklo_epi8(a, b); }
inline __m128i interleave_high(__m128i a, __m128i b) { return _mm_unpackhi_epi8(a, b); }
#if defined(__AVX512BW__)
using WidestBytes = __m512i;
inline __m512i interleave_low(__m512i a, __m512i b) { return _mm512_unpacklo_epi8(a, b); }
inline __m512i interleave_high(__m512i a, __m512i b) { return _mm512_unpackhi_epi8(a, b); }
#elif defined(__AVX2__)
using WidestBytes = __m256i;
inline __m256i interleave_low(__m256i a, __m256i b) { return _mm256_unpacklo_epi8(a, b); }
inline __m256i interleave_high(__m256i a, __m256i b) { return _mm256_unpackhi_epi8(a, b); }
#else
using WidestBytes = __m128i;
#endif

// Transposes 16 rows and a vector's columns.
template <typename Bytes>
inline void transpose_block(uint8_t* target, int64_t target_stride, const uint8_t* source,
                            int64_t source_stride) {
  Bytes a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) load_bytes(a[i], source + i * source_stride);
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = interleave_low(a[i], a[i + 8]);
      b[2 * i + 1] = interleave_high(a[i], a[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) a[i] = b[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    alignas(64) uint8_t lanes[sizeof(Bytes)];
    __builtin_memcpy(lanes, &a[i], sizeof lanes);
#pragma GCC unroll 4
    for (size_t lane = 0; 16 * lane < sizeof(Bytes); ++lane) {
      uint8_t* to = target + static_cast<int64_t>(16 * lane + i) * target_stride;
      __builtin_memcpy(to, lanes + 16 * lane, 16);
    }
  }
}

// Transposes 16 rows. The last block overlaps the block before. Returns false for fewer than 16
// columns.
inline bool transpose_rows(uint8_t* target, int64_t target_stride, const uint8_t* source,
                           int64_t source_stride, int64_t columns) {
  constexpr int64_t kWidest = sizeof(WidestBytes);
  if (columns < 16) return false;
  int64_t c = 0;
  for (; c + kWidest <= columns; c += kWidest) {
    transpose_block<WidestBytes>(target + c * target_stride, target_stride, source + c,
                                 source_stride);
  }
  for (; c < columns; c += 16) {
    const int64_t at = c + 16 <= columns ? c : columns - 16;
    transpose_block<__m128i>(target + at * target_stride, target_stride, source + at,
                             source_stride);
  }
  return true;
}

#else

inline bool transpose_rows(uint8_t*, int64_t, const uint8_t*, int64_t, int64_t) { return false; }

#endif

// Interleaves three rows, such as an image's colours. Returns the number of finished columns.
#ifdef __SSSE3__
inline int64_t interleave_three_rows(uint8_t* target, const uint8_t* source, int64_t source_stride,
                                     int64_t columns) {
  const __m128i three_of_four =
      _mm_set_epi8(-1, -1, -1, -1, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0);
  int64_t c = 0;
  for (; c + 18 <= columns; c += 16) {  // 16 columns read four more bytes
    __m128i a, b, last;
    load_bytes(a, source + c);
    load_bytes(b, source + source_stride + c);
    load_bytes(last, source + 2 * source_stride + c);
    const __m128i low = interleave_low(a, b), high = interleave_high(a, b);
    const __m128i low_last = interleave_low(last, last), high_last = interleave_high(last, last);
    const __m128i words[] = {_mm_unpacklo_epi16(low, low_last), _mm_unpackhi_epi16(low, low_last),
                             _mm_unpacklo_epi16(high, high_last),
                             _mm_unpackhi_epi16(high, high_last)};
    for (int i = 0; i < 4; ++i) {
      uint8_t* to = target + 3 * (c + 4 * i);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(words[i], three_of_four));
    }
  }
  return c;
}
#else
inline int64_t interleave_three_rows(uint8_t*, const uint8_t*, int64_t, int64_t) { return 0; }
#endif

// target[c * target_stride + r] = source[r * source_stride + c]
inline void transpose(uint8_t* target, int64_t target_stride, const uint8_t* source,
                      int64_t source_stride, int64_t rows, int64_t columns) {
  if (rows == 3 && target_stride == 3) {
    const int64_t done = interleave_three_rows(target, source, source_stride, columns);
    target += 3 * done;
    source += done;
    columns -= done;
  }
  for (int64_t r = 0; r < rows; r += 16) {
    const int64_t first = r + 16 <= rows || rows < 16 ? r : rows - 16;  // the last rows overlap
    const uint8_t* from = source + first * source_stride;
    uint8_t* to = target + first;
    if (rows >= 16 && transpose_rows(to, target_stride, from, source_stride, columns)) continue;
    const int64_t count = rows - first < 16 ? rows - first : 16;
    for (int64_t i = 0; i < count; ++i, from += source_stride) {
      for (int64_t c = 0; c < columns; ++c) to[c * target_stride + i] = from[c];
    }
  }
}

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
