// AVX2, and AVX-VNNI if the compiler's flags have it: vectors of 32 bytes.
#pragma once

#include "dmlax/_cpu/bits.h"
#include "dmlax/_cpu/simd/x86.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

struct Simd : X86<Simd>, ScalarBits {
#ifndef __AVXVNNI__
  static constexpr bool kMultipliesNarrowRows = true;
  struct Narrow;
#endif

  // --- int32

  static Int32s load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store(void* p, Int32s v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

  static void store_columns(int32_t* columns, int vector, Int32s v) {
    __m128i* low = reinterpret_cast<__m128i*>(columns + column_of(vector, 0));
    __m128i* high = reinterpret_cast<__m128i*>(columns + column_of(vector, 4));
    _mm_storeu_si128(low, _mm256_castsi256_si128(v));
    _mm_storeu_si128(high, _mm256_extracti128_si256(v, 1));
  }

  using X86::load_columns;

  static __m256 load_columns(const float* columns, int vector) {
    return _mm256_loadu2_m128(columns + column_of(vector, 4), columns + column_of(vector, 0));
  }

  // --- kMasksFloats

  static constexpr bool kMasksFloats = true;

  static __m256i first_words(int64_t count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lanes);
  }
  static __m256 load_first_floats(const float* from, int64_t count) {
    return _mm256_maskload_ps(from, first_words(count));
  }
  static void store_first_floats(float* to, __m256 f, int64_t count) {
    _mm256_maskstore_ps(to, first_words(count), f);
  }

  // --- the first bytes of a vector

  // Loads vectors of which `valid` bytes are readable. Zeros follow them. Whole words are read
  // under a mask: a copy on the stack would be loaded before its stores are done, which waits for
  // them.
  static auto load_first(int64_t valid) {
    return [valid](const uint8_t* bytes) {
      if (valid >= 32) return load(bytes);
      const int64_t words = valid / 4;
      uint32_t rest = 0;
      for (int64_t i = 4 * words; i < valid; ++i) rest |= uint32_t{bytes[i]} << (8 * (i % 4));
      const __m256i whole =
          _mm256_maskload_epi32(reinterpret_cast<const int*>(bytes), first_words(words));
      const __m256i next = _mm256_andnot_si256(first_words(words), first_words(words + 1));
      return _mm256_or_si256(whole, _mm256_and_si256(next, broadcast(static_cast<int32_t>(rest))));
    };
  }

  // A mask of a vector's first bytes, of 31 or fewer.
  static __m256i first_bytes(int64_t count) {
    const __m256i at = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
                                        17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    return _mm256_cmpgt_epi8(_mm256_set1_epi8(static_cast<char>(count)), at);
  }

#ifndef __AVXVNNI__

  // --- products

  // 16-bit pairs: sums of two byte products saturate 16 bits, while sums of two 16-bit products fit
  // 32.
  struct Columns {
    __m256i even, odd;
    Columns() = default;
    explicit Columns(const void* p)
        : even(_mm256_srli_epi16(_mm256_slli_epi16(load(p), 8), 8)),  // a mask takes a register
          odd(_mm256_srli_epi16(load(p), 8)) {}
  };

  struct Weights {
    __m256i even, odd;
    explicit Weights(int32_t word)
        : even(_mm256_srai_epi16(_mm256_slli_epi16(_mm256_set1_epi32(word), 8), 8)),
          odd(_mm256_srai_epi16(_mm256_set1_epi32(word), 8)) {}
  };

  static void multiply_add(Int32s& sums, const Columns& columns, const Weights& weights) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(columns.even, weights.even));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(columns.odd, weights.odd));
  }

#endif

  // --- products of rows

  // Lane i of vector j becomes lane j of vector i.
  static void transpose_words(Int32s* v) {
    __m256i b[8];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) transpose_lanes(v + i, b + i);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
      v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
  }

  // A lane of 128 bits of vector i has the words of block 4 * lane + i.
  static void load_quads(const uint8_t* from, int64_t step, Int32s* words) {
    __m256i v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto block = [&](int64_t j) {
        return reinterpret_cast<const __m128i*>(from + j * step);
      };
      v[i] = _mm256_loadu2_m128i(block(4 + i), block(i));
    }
    transpose_lanes(v, words);
  }

#ifdef __AVXVNNI__

  static void pack_row(uint8_t* target, const uint8_t* source, int64_t bytes, uint8_t flip) {
    for (int64_t i = 0; i < bytes; ++i) target[i] = source[i] ^ flip;
  }

#else

  // Words are 16-bit pairs, widened once, because the product has no instruction for bytes. A
  // quad's first word has bytes 0 and 2, its second word bytes 1 and 3.
  static constexpr int kWordsOfQuad = 2;

  static void multiply_words(Int32s& sums, Int32s row, Int32s columns) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(row, columns));
  }

  static void pack_row(uint8_t* target, const uint8_t* source, int64_t bytes, uint8_t flip) {
    __m256i sign = _mm256_set1_epi8(static_cast<char>(flip));
    for (int64_t i = 0; i < bytes; i += 32, target += 64) {
      const int64_t left = bytes - i;
      if (left < 32) sign = _mm256_and_si256(sign, first_bytes(left));  // zeros follow the row
      Int32s words[2];
      widen_pixels(_mm256_xor_si256(load_first(left)(source + i), sign), words);
      const __m256i low = _mm256_unpacklo_epi32(words[0], words[1]);
      const __m256i high = _mm256_unpackhi_epi32(words[0], words[1]);
      store(target, _mm256_permute2x128_si256(low, high, 0x20));
      store(target + 32, _mm256_permute2x128_si256(low, high, 0x31));
    }
  }

  // The number of products of half a byte and a signed byte that 16-bit sums can hold.
  static constexpr int64_t kHalfByteSteps = 8;

  static void multiply_half_bytes(Int32s& sums, Int32s row, Int32s columns) {
    sums = _mm256_add_epi16(sums, _mm256_maddubs_epi16(row, columns));
  }

  static void add_half_bytes(Int32s& sums, Int32s low, Int32s high) {
    const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16);
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(low, ones));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(high, sixteens));
  }

  // Sums of 16 bits hold the products of eight half bytes.
  static constexpr bool kHalvesBytes = true;

  template <int bits>
  static void multiply_quads(Int32s& sums, const Int32s* halves, const uint8_t* levels) {
    Int32s low = _mm256_setzero_si256(), high = low;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      multiply_half_bytes(low, halves[i], load(levels + 32 * i));
      multiply_half_bytes(high, halves[4 + i], load(levels + 32 * (bits == 4 ? 4 + i : i)));
    }
    if constexpr (bits == 4) {
      multiply_words(sums, _mm256_add_epi16(low, high), _mm256_set1_epi16(1));
    } else {
      add_half_bytes(sums, low, high);
    }
  }

  // Widens quads of signed bytes to words.
  static void widen_columns(Int32s quads, Int32s* words) {
    words[0] = _mm256_srai_epi16(_mm256_slli_epi16(quads, 8), 8);
    words[1] = _mm256_srai_epi16(quads, 8);
  }

  // Widens quads of unsigned bytes to words.
  static void widen_pixels(Int32s quads, Int32s* words) {
    words[0] = _mm256_and_si256(quads, _mm256_set1_epi16(0xff));
    words[1] = _mm256_srli_epi16(quads, 8);
  }

#endif

  // --- requantization

  class NearTies {
   public:
    explicit NearTies(Int32s others) : bits_(others) {}
    void add(Int32s fixed) { least_ = _mm256_min_epu32(least_, _mm256_and_si256(fixed, bits_)); }
    bool any() const {
      return _mm256_movemask_epi8(_mm256_cmpeq_epi32(least_, _mm256_setzero_si256())) != 0;
    }

   private:
    Int32s bits_, least_ = _mm256_set1_epi32(-1);
  };

  static Int32s nearest(Floats v) { return _mm256_cvtps_epi32(v); }  // the control word says how

  // A bit for every lane whose magnitude is at least `band`.
  static uint64_t are_beyond(Floats rest, Floats band) {
    const __m256 magnitude = _mm256_and_ps(rest, _mm256_castsi256_ps(broadcast(0x7fffffff)));
    const int mask = _mm256_movemask_ps(_mm256_cmp_ps(magnitude, band, _CMP_GE_OQ));
    return static_cast<unsigned>(mask);
  }

  static bool is_zero(Int32s v) { return _mm256_testz_si256(v, v) != 0; }

  // --- bytes

  static int64_t copy_even(uint8_t* target, const uint8_t* source, int64_t count) {
    const __m256i low = _mm256_set1_epi16(0xff);
    int64_t i = 0;
    for (; i + 33 <= count; i += 32) {  // the last byte read follows the last byte taken
      const __m256i first = _mm256_and_si256(load(source + 2 * i), low);
      const __m256i second = _mm256_and_si256(load(source + 2 * i + 32), low);
      const __m256i even = _mm256_packus_epi16(first, second);
      store(target + i, _mm256_permute4x64_epi64(even, 0xd8));
    }
    return i;
  }

  static int32_t sum_bytes(const uint8_t* bytes, int64_t count, uint8_t flip) {
    if (count < 32) {
      int32_t sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += bytes[i] ^ flip;
      return sum;
    }
    // Zeros, then ones: masks bytes of the last vector that were added before.
    alignas(64) static constexpr uint64_t kMasks[8] = {0, 0, 0, 0, ~0ull, ~0ull, ~0ull, ~0ull};
    const __m256i sign = _mm256_set1_epi8(static_cast<char>(flip)), zero = _mm256_setzero_si256();
    const int64_t rest = count % 32;
    const __m256i mask = load(reinterpret_cast<const uint8_t*>(kMasks) + rest);
    const __m256i last = _mm256_and_si256(_mm256_xor_si256(load(bytes + count - 32), sign), mask);
    __m256i sums = _mm256_sad_epu8(last, zero);
    for (int64_t i = 0; i + 32 <= count; i += 32) {
      sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_xor_si256(load(bytes + i), sign), zero));
    }
    const __m128i pairs =
        _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return _mm_cvtsi128_si32(_mm_add_epi64(pairs, _mm_unpackhi_epi64(pairs, pairs)));
  }

  // Two halves of eight rows of 16 entries. All rows but the first hold the difference from the row
  // before. A byte less 16 i has its high bit clear until row i is past the byte's row, and a set
  // high bit gives 0. So the differences up to the byte's row add up to its entry.
  struct Table {
    __m256i rows[16];

    explicit Table(const uint8_t* entries) {
      for (int i = 0; i < 16; ++i) {
        const __m128i* row = reinterpret_cast<const __m128i*>(entries + 16 * i);
        __m128i difference = _mm_loadu_si128(row);
        if (i % 8 != 0) difference = _mm_xor_si128(difference, _mm_loadu_si128(row - 1));
        rows[i] = _mm256_broadcastsi128_si256(difference);
      }
    }
  };

  static constexpr int64_t kTableBytes = 64;

  static void look_up(const Table& table, const uint8_t* input, uint8_t* output) {
    const __m256i step = _mm256_set1_epi8(16), high = _mm256_set1_epi8(static_cast<char>(0x80));
    __m256i x[2], y[2], entries[2];
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      x[j] = load(input + 32 * j);
      y[j] = _mm256_xor_si256(x[j], high);
      entries[j] = _mm256_setzero_si256();
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        entries[j] = _mm256_xor_si256(entries[j], _mm256_shuffle_epi8(table.rows[i], x[j]));
        entries[j] = _mm256_xor_si256(entries[j], _mm256_shuffle_epi8(table.rows[8 + i], y[j]));
        x[j] = _mm256_subs_epi8(x[j], step);
        y[j] = _mm256_subs_epi8(y[j], step);
      }
    }
    for (int j = 0; j < 2; ++j) store(output + 32 * j, entries[j]);
  }

  template <typename Element>
  static uint64_t nonzero_bits(const Element* x, Element mask) {
    constexpr int kElements = sizeof(Element) == 2 ? 32 : 32 / sizeof(Element);
    uint64_t zeros = 0;
    for (int i = 0; i < 64; i += kElements) zeros |= zero_bits(x + i, mask) << i;
    return ~zeros;
  }

 private:
  friend X86;

  // Sums vectors whose lanes of 128 bits have summands of four columns.
  static __m256i sum_quarters(const __m256i* v) {
    return _mm256_add_epi32(_mm256_permute2x128_si256(v[0], v[1], 0x20),
                            _mm256_permute2x128_si256(v[0], v[1], 0x31));
  }

  static __m256i repeat(__m128i lane) { return _mm256_broadcastsi128_si256(lane); }

  // Orders packed bytes by their vectors.
  static __m256i put_in_order(__m256i bytes) {
    return _mm256_permutevar8x32_epi32(bytes, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
  }

  static void store_first_bytes(uint8_t* to, __m256i bytes, int64_t count) {
    if (count == kPackedBytes) return store(to, bytes);
    alignas(32) uint8_t all[kPackedBytes];
    store(all, bytes);
    copy_short(to, all, count);
  }

  // A bit for every element of a vector (16-bit elements: two vectors) without a bit of the mask.
  static uint64_t zero_bits(const uint8_t* x, uint8_t mask) {
    const __m256i masked = _mm256_and_si256(load(x), _mm256_set1_epi8(static_cast<char>(mask)));
    return high_bits(_mm256_cmpeq_epi8(masked, _mm256_setzero_si256()));
  }
  static uint64_t zero_bits(const uint16_t* x, uint16_t mask) {
    const __m256i masks = _mm256_set1_epi16(static_cast<int16_t>(mask));
    const __m256i zero = _mm256_setzero_si256();
    const __m256i low = _mm256_cmpeq_epi16(_mm256_and_si256(load(x), masks), zero);
    const __m256i high = _mm256_cmpeq_epi16(_mm256_and_si256(load(x + 16), masks), zero);
    const __m256i mixed = _mm256_packs_epi16(low, high);  // halves of 128 bits interleave
    return high_bits(_mm256_permute4x64_epi64(mixed, 0xd8));
  }
  static uint64_t zero_bits(const uint32_t* x, uint32_t mask) {
    const __m256i masked = _mm256_and_si256(load(x), broadcast(static_cast<int32_t>(mask)));
    const __m256i is_zero = _mm256_cmpeq_epi32(masked, _mm256_setzero_si256());
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(is_zero)));
  }
  static uint64_t zero_bits(const uint64_t* x, uint64_t mask) {
    const __m256i masked =
        _mm256_and_si256(load(x), _mm256_set1_epi64x(static_cast<int64_t>(mask)));
    const __m256i is_zero = _mm256_cmpeq_epi64(masked, _mm256_setzero_si256());
    return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(is_zero)));
  }

  static uint64_t high_bits(__m256i bytes) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
  }
};

#ifndef __AVXVNNI__

// Products with columns within -64 to 64. Two of them fit 16 bits, so bytes are not widened.
struct Simd::Narrow : Simd {
  static constexpr int kWordsOfQuad = 1;
  static constexpr tuning::InstructionSet kTuning = tuning::avx2_narrow;

  static void multiply_words(Int32s& sums, Int32s row, Int32s columns) {
    const __m256i pairs = _mm256_maddubs_epi16(row, columns);
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }

  static void pack_row(uint8_t* target, const uint8_t* source, int64_t bytes, uint8_t flip) {
    for (int64_t i = 0; i < bytes; ++i) target[i] = source[i] ^ flip;
  }
};

#endif

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
