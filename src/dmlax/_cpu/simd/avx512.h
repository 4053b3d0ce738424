// AVX-512 with VNNI, also for AMX, which adds tiles: vectors of 64 bytes.
#pragma once

#include "dmlax/_cpu/simd/x86.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

struct Simd : X86<Simd> {
  static constexpr bool kPacksRows = true, kKeepsWindows = true;
  static constexpr bool kPermutesBytes = true, kExpandsBytes = true, kStoresMasked = true;
  static constexpr bool kInterleavesPanels = true, kMasksFloats = true;

  // --- int32

  static Int32s load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(void* p, Int32s v) { _mm512_storeu_si512(p, v); }

  // Hides a vector from the compiler. Otherwise GCC 12 also keeps a loop's sums in memory if code
  // after the loop seldom stores them.
  static Int32s in_register(Int32s v) {
    __asm__("" : "+v"(v));
    return v;
  }

  static void store_columns(int32_t* columns, int vector, Int32s v) {
    const auto lane = [&](int i) {
      return reinterpret_cast<__m128i*>(columns + column_of(vector, 4 * i));
    };
    _mm_storeu_si128(lane(0), _mm512_castsi512_si128(v));
    _mm_storeu_si128(lane(1), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128(lane(2), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128(lane(3), _mm512_extracti32x4_epi32(v, 3));
  }

  using X86::load_columns;

  static __m512 load_columns(const float* columns, int vector) {
    const auto lane = [&](int i) { return _mm_loadu_ps(columns + column_of(vector, 4 * i)); };
    const __m512 low = _mm512_insertf32x4(_mm512_castps128_ps512(lane(0)), lane(1), 1);
    return _mm512_insertf32x4(_mm512_insertf32x4(low, lane(2), 2), lane(3), 3);
  }

  // --- kMasksFloats

  static __m512 load_first_floats(const float* from, int64_t count) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
  }
  static void store_first_floats(float* to, __m512 f, int64_t count) {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), f);
  }

  // --- products

  // Interleaves three rows to vectors; the fourth row of a quad is unspecified. Flips sign bits if
  // `flips`. A row has `valid` bytes, or two or four parts at `from[part][row]`.
  template <int parts, bool flips>
  static void interleave_three(const uint8_t* const (*from)[3], int64_t valid, Int32s* quads) {
    __m512i r[4];
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      r[i] = load_parts<parts>(from, i, valid);
      if (flips) r[i] = _mm512_xor_si512(r[i], _mm512_set1_epi8(-128));
    }
    r[3] = r[2];
    interleave_quads(r, quads);
  }

  // --- products of rows

  // Lane i of vector j becomes lane j of vector i.
  static void transpose_words(Int32s* v) {
    __m512i a[16], b[16];
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) transpose_lanes(v + i, b + i);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      a[i] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x88);
      a[i + 4] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xdd);
      a[i + 8] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0x88);
      a[i + 12] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0xdd);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      v[i] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0x88);
      v[i + 8] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0xdd);
    }
  }

  // A lane of 128 bits of vector i has the words of block 4 * lane + i.
  static void load_quads(const uint8_t* from, int64_t step, Int32s* words) {
    const auto block = [&](int64_t i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * step));
    };
    __m512i v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i low = _mm512_inserti32x4(_mm512_castsi128_si512(block(i)), block(4 + i), 1);
      v[i] = _mm512_inserti32x4(_mm512_inserti32x4(low, block(8 + i), 2), block(12 + i), 3);
    }
    transpose_lanes(v, words);
  }

  static void pack_row(uint8_t* target, const uint8_t* source, int64_t bytes, uint8_t flip) {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(flip));
    for (int64_t i = 0; i < bytes; i += 64) {
      const __mmask64 mask =
          _bzhi_u64(~uint64_t{0}, static_cast<unsigned>(bytes - i < 64 ? bytes - i : 64));
      const __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, source + i), sign);
      _mm512_mask_storeu_epi8(target + i, mask, x);
    }
  }

  // Stores rows of `count` bytes, `step` apart. A row has `vectors` of the packed vectors.
  template <int vectors, bool fixed = false>
  static void store_rows_in_order(uint8_t* to, int64_t step, const Int32s* rounded,
                                  int32_t zero_point, bool is_signed, int64_t count) {
    const __m512i bytes = put_in_order(pack_bytes<fixed>(rounded, zero_point, is_signed));
    store_parts<4 / vectors>(to, step, bytes, count);
  }

  // Stores rows of vectors in a panel's order. A row is one of the parts.
  template <int parts, bool fixed = false>
  static void store_rows(uint8_t* to, int64_t step, const Int32s* rounded, int32_t zero_point,
                         bool is_signed, int64_t count) {
    store_parts<parts>(to, step, pack_bytes<fixed>(rounded, zero_point, is_signed), count);
  }

  // --- requantization

  class NearTies {
   public:
    explicit NearTies(Int32s others) : bits_(others) {}
    void add(Int32s fixed) { others_ = _mm512_mask_test_epi32_mask(others_, fixed, bits_); }
    bool any() const { return others_ != 0xffff; }

   private:
    Int32s bits_;
    __mmask16 others_ = 0xffff;
  };

  static Int32s nearest(Floats v) { return _mm512_cvt_roundps_epi32(v, kNearest); }

  // A bit for every lane whose magnitude is at least `band`.
  static uint64_t are_beyond(Floats rest, Floats band) {
    return _mm512_cmp_ps_mask(_mm512_abs_ps(rest), band, _CMP_GE_OQ);
  }

  // Constants that pack a row's bytes. They are in memory, because sums fill the registers.
  struct ByteConstants {
    alignas(64) uint8_t not_near_tie[64], zero[64], flipped[64], order[64];

    ByteConstants(int32_t zero_point, bool is_signed, bool fixed) {
      const int32_t unsigned_zero = zero_point + (is_signed ? 128 : 0);
      const int32_t added = fixed ? kFixedZero - unsigned_zero : unsigned_zero;
      store(not_near_tie, broadcast(kNotNearTie));
      store(zero, _mm512_set1_epi16(static_cast<int16_t>(added)));
      store(flipped, _mm512_set1_epi8(is_signed ? -128 : 0));
      store(order, packed_order());
    }
  };

  // Packs and stores 64 bytes in order, as `pack_bytes` does.
  template <bool fixed>
  static void store_row(uint8_t* to, const Int32s* rounded, const ByteConstants& constants) {
    const __m512i zero = load(constants.zero);
    __m512i bytes;
    if constexpr (fixed) {
      bytes = pack_fixed(rounded, zero);
    } else {
      const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(rounded[0], rounded[1]), zero);
      const __m512i second = _mm512_adds_epi16(_mm512_packs_epi32(rounded[2], rounded[3]), zero);
      bytes = _mm512_packus_epi16(first, second);
    }
    bytes = _mm512_xor_si512(bytes, load(constants.flipped));
    store(to, _mm512_permutexvar_epi32(load(constants.order), bytes));
  }

  // Lane i becomes the lane that the last four bits of index i name.
  static Floats permute_floats(Floats v, Int32s indices) {
    return _mm512_permutexvar_ps(indices, v);
  }

  static bool is_zero(Int32s v) { return _mm512_test_epi32_mask(v, v) == 0; }

  // --- bytes

  static void store_selected(const uint8_t* bytes, uint64_t mask, uint8_t* output) {
    if (mask == ~uint64_t{0}) return _mm512_storeu_si512(output, _mm512_load_si512(bytes));
    const unsigned count = static_cast<unsigned>(__builtin_popcountll(mask));
    _mm512_mask_storeu_epi8(output, _bzhi_u64(~uint64_t{0}, count),
                            _mm512_maskz_compress_epi8(mask, _mm512_load_si512(bytes)));
  }

  static int64_t copy_even(uint8_t* target, const uint8_t* source, int64_t count) {
    constexpr uint64_t kEven = 0x5555555555555555;
    int64_t i = 0;
    for (; i < count; i += 32) {
      const int64_t left = count - i;
      const uint64_t mask = left >= 32 ? ~uint64_t{0} : (uint64_t{1} << (2 * left - 1)) - 1;
      const __m512i bytes = _mm512_maskz_loadu_epi8(mask, source + 2 * i);
      const __m512i even = _mm512_maskz_compress_epi8(kEven, bytes);
      const uint32_t kept = left >= 32 ? ~0u : (1u << left) - 1;
      _mm256_mask_storeu_epi8(target + i, kept, _mm512_castsi512_si256(even));
    }
    return count;
  }

  static int32_t sum_bytes(const uint8_t* bytes, int64_t count, uint8_t flip) {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(flip)), zero = _mm512_setzero_si512();
    __m512i sums = zero;
    for (int64_t i = 0; i < count; i += 64) {
      const int64_t left = count - i;
      const uint64_t mask = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
      const __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, bytes + i), sign);
      sums = _mm512_add_epi64(sums, _mm512_sad_epu8(_mm512_maskz_mov_epi8(mask, x), zero));
    }
    return static_cast<int32_t>(_mm512_reduce_add_epi64(sums));
  }

  struct Table {
    __m512i quarters[4];

    explicit Table(const uint8_t* entries) {
      for (int i = 0; i < 4; ++i) quarters[i] = load(entries + 64 * i);
    }
  };

  static constexpr int64_t kTableBytes = 64;

  static void look_up(const Table& table, const uint8_t* input, uint8_t* output) {
    const __m512i x = load(input), *t = table.quarters;
    const __m512i low = _mm512_permutex2var_epi8(t[0], x, t[1]);
    const __m512i high = _mm512_permutex2var_epi8(t[2], x, t[3]);
    _mm512_storeu_si512(output, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high));
  }

  template <typename Element>
  static uint64_t nonzero_bits(const Element* x, Element mask) {
    constexpr int kElements = 64 / sizeof(Element);
    uint64_t word = 0;
    for (int i = 0; i < 64; i += kElements) word |= test_bits(load(x + i), mask) << i;
    return word;
  }

  // One compression of byte indices. Few words of a sparse input have more than 16 bits.
  static int64_t store_set_bits(uint64_t word, uint32_t first, uint32_t* index) {
    const __m512i all = _mm512_set_epi64(0x3f3e3d3c3b3a3938, 0x3736353433323130, 0x2f2e2d2c2b2a2928,
                                         0x2726252423222120, 0x1f1e1d1c1b1a1918, 0x1716151413121110,
                                         0x0f0e0d0c0b0a0908, 0x0706050403020100);
    const __m512i bits = _mm512_maskz_compress_epi8(word, all);
    const __m512i start = broadcast(static_cast<int32_t>(first));
    const auto store_16 = [&](__m128i numbers, int i) {
      _mm512_storeu_si512(index + i, _mm512_add_epi32(_mm512_cvtepu8_epi32(numbers), start));
    };
    const int64_t count = __builtin_popcountll(word);
    store_16(_mm512_castsi512_si128(bits), 0);
    if (count > 16) {
      store_16(_mm512_extracti32x4_epi32(bits, 1), 16);
      store_16(_mm512_extracti32x4_epi32(bits, 2), 32);
      store_16(_mm512_extracti32x4_epi32(bits, 3), 48);
    }
    return count;
  }

  // --- kPermutesBytes

  using Bytes = __m512i;

  static Bytes load_bytes(const uint8_t* p) { return load(p); }
  using X86::broadcast_byte;
  static Bytes flip_bits(Bytes bytes, Bytes mask) { return _mm512_xor_si512(bytes, mask); }
  static Bytes permute_bytes(Bytes order, Bytes bytes) {
    return _mm512_permutexvar_epi8(order, bytes);
  }

  static Int32s first_lanes() {
    return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  }

  static void to_panel_order(Int32s* v) {
    const __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44);
    const __m512i b = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
    const __m512i c = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
    const __m512i d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
    v[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    v[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
    v[2] = _mm512_shuffle_i32x4(b, d, 0x88);
    v[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }

  // --- kExpandsBytes

  // `left` bytes of the source are readable.
  static void expand_bytes(uint8_t* target, const uint8_t* source, int64_t left, uint64_t inside,
                           uint8_t fill) {
    const unsigned wanted = static_cast<unsigned>(left < 64 ? left : 64);
    const __m512i bytes = _mm512_maskz_loadu_epi8(_bzhi_u64(~uint64_t{0}, wanted), source);
    const __m512i filled = _mm512_set1_epi8(static_cast<char>(fill));
    _mm512_storeu_si512(target, _mm512_mask_expand_epi8(filled, inside, bytes));
  }

  // --- kStoresMasked

  using X86::divide;

  // Divides uint32 by Granlund and Montgomery's multiplier and shift.
  static Int32s divide(Int32s x, uint32_t multiplier, uint32_t shift) {
    const __m512i factor = broadcast(static_cast<int32_t>(multiplier));
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(x, factor), 32);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), factor);
    const __m512i high = _mm512_mask_mov_epi32(even, 0xaaaa, odd);
    const __m512i half = _mm512_srli_epi32(_mm512_sub_epi32(x, high), 1);
    const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
    return _mm512_srl_epi32(_mm512_add_epi32(high, half), count);
  }

  // a0 b0 a1 b1 ..., in two vectors.
  static void interleave(Int32s a, Int32s b, Int32s* mixed) {
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    mixed[0] = _mm512_permutex2var_epi32(a, low, b);
    mixed[1] = _mm512_permutex2var_epi32(a, high, b);
  }

  // a0 a1 b0 b1 a2 a3 ..., in two vectors.
  static void interleave_pairs(Int32s a, Int32s b, Int32s* mixed) {
    const __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
    mixed[0] = _mm512_permutex2var_epi64(a, low, b);
    mixed[1] = _mm512_permutex2var_epi64(a, high, b);
  }

  // Stores the first `count` numbers of a vector, at most 16. A negative count stores none.
  static void store_first(uint32_t* values, int64_t count, Int32s x) {
    if (count >= 16) {
      _mm512_storeu_si512(values, x);
    } else if (count > 0) {
      _mm512_mask_storeu_epi32(values, static_cast<__mmask16>((1u << count) - 1), x);
    }
  }

 private:
  friend X86;

  static constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

  static uint64_t test_bits(Int32s x, uint8_t mask) {
    return _mm512_test_epi8_mask(x, _mm512_set1_epi8(static_cast<char>(mask)));
  }
  static uint64_t test_bits(Int32s x, uint16_t mask) {
    return _mm512_test_epi16_mask(x, _mm512_set1_epi16(static_cast<int16_t>(mask)));
  }
  static uint64_t test_bits(Int32s x, uint32_t mask) {
    return _mm512_test_epi32_mask(x, broadcast(static_cast<int32_t>(mask)));
  }
  static uint64_t test_bits(Int32s x, uint64_t mask) {
    return _mm512_test_epi64_mask(x, _mm512_set1_epi64(static_cast<int64_t>(mask)));
  }

  static uint64_t first_bits(int64_t count) {
    return _bzhi_u64(~uint64_t{0}, static_cast<unsigned>(count));
  }

  // Sums vectors whose lanes of 128 bits have summands of four columns.
  static __m512i sum_quarters(const __m512i* v) {
    const auto sum_pairs = [](__m512i a, __m512i b) {
      return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
    };
    return sum_pairs(sum_pairs(v[0], v[1]), sum_pairs(v[2], v[3]));
  }

  // Loads vectors of which `valid` bytes are readable. Zeros follow them.
  static auto load_first(int64_t valid) {
    const __mmask64 mask = valid >= 64 ? ~uint64_t{0} : (uint64_t{1} << valid) - 1;
    return [mask](const uint8_t* bytes) { return _mm512_maskz_loadu_epi8(mask, bytes); };
  }

  static __m512i repeat(__m128i lane) { return _mm512_broadcast_i32x4(lane); }

  static __m512i packed_order() {
    return _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  }

  // Orders packed bytes by their vectors.
  static __m512i put_in_order(__m512i bytes) {
    return _mm512_permutexvar_epi32(packed_order(), bytes);
  }

  static void store_first_bytes(uint8_t* to, __m512i bytes, int64_t count) {
    if (count == kPackedBytes) return store(to, bytes);
    _mm512_mask_storeu_epi8(to, first_bits(count), bytes);
  }

  // Stores parts of a vector to rows.
  template <int parts>
  static void store_parts(uint8_t* to, int64_t step, __m512i bytes, int64_t count) {
    if constexpr (parts == 1) {
      store_first_bytes(to, bytes, count);
    } else if constexpr (parts == 2) {
      store_half(to, _mm512_castsi512_si256(bytes), count);
      store_half(to + step, _mm512_extracti64x4_epi64(bytes, 1), count);
    } else {
      store_quarter(to, _mm512_castsi512_si128(bytes), count);
      store_quarter(to + step, _mm512_extracti32x4_epi32(bytes, 1), count);
      store_quarter(to + 2 * step, _mm512_extracti32x4_epi32(bytes, 2), count);
      store_quarter(to + 3 * step, _mm512_extracti32x4_epi32(bytes, 3), count);
    }
  }

  template <int parts>
  static __m512i load_parts(const uint8_t* const (*from)[3], int row, int64_t valid) {
    if constexpr (parts == 1) {
      return _mm512_maskz_loadu_epi8(first_bits(valid), from[0][row]);
    } else if constexpr (parts == 2) {
      const auto half = [&](int part) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from[part][row]));
      };
      return _mm512_inserti64x4(_mm512_castsi256_si512(half(0)), half(1), 1);
    } else {
      const auto quarter = [&](int part) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from[part][row]));
      };
      const __m512i two = _mm512_inserti32x4(_mm512_castsi128_si512(quarter(0)), quarter(1), 1);
      return _mm512_inserti32x4(_mm512_inserti32x4(two, quarter(2), 2), quarter(3), 3);
    }
  }

  static void store_half(uint8_t* to, __m256i bytes, int64_t count) {
    if (count == 32) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
    _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(first_bits(count)), bytes);
  }

  static void store_quarter(uint8_t* to, __m128i bytes, int64_t count) {
    if (count == 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
    _mm_mask_storeu_epi8(to, static_cast<__mmask16>(first_bits(count)), bytes);
  }
};

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
