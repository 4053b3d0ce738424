// What AVX2 and AVX-512 share, over vectors of either width.
//
// Bytes are interleaved within 128-bit lanes. Four neighbouring vectors of a panel have the columns
// of as many bytes as a vector has. Vector j of them holds, in lane L, the columns 16 L + 4 j to
// 16 L + 4 j + 3. Packing four such vectors of sums to bytes restores the order.
#pragma once

#include <immintrin.h>

#include "dmlax/_cpu/requantize.h"

#ifdef __AVX512BW__
#define MM(name) _mm512_##name
#define MM_XOR _mm512_xor_si512
#define MM_AND _mm512_and_si512
#define MM_DPBUSD _mm512_dpbusd_epi32
#else
#define MM(name) _mm256_##name
#define MM_XOR _mm256_xor_si256
#define MM_AND _mm256_and_si256
#define MM_DPBUSD _mm256_dpbusd_avx_epi32
#endif

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

#ifdef __AVX512BW__
using Vector = __m512i;
using FloatVector = __m512;
#else
using Vector = __m256i;
using FloatVector = __m256;
#endif

// `S` is the set's struct, which adds the instructions that differ.
template <typename S>
struct X86 : OptionalFeatures {
  static constexpr tuning::InstructionSet kTuning = tuning::DMLAX_ISA_NAMESPACE;
  static constexpr int kLanes = sizeof(Vector) / 4;
  static constexpr int kVectorsPacked = 4;
  static constexpr bool kMultipliesRows = true, kRequantizesRows = true;
  static constexpr bool kMultipliesQuads = true;

  static constexpr int column_of(int vector, int lane) {
    return vector / 4 * 4 * kLanes + lane / 4 * 16 + vector % 4 * 4 + lane % 4;
  }

  // --- int32

  using Int32s = Vector;

  static Int32s broadcast(int32_t value) { return MM(set1_epi32)(value); }
  static Int32s add(Int32s a, Int32s b) { return MM(add_epi32)(a, b); }
  static Int32s subtract(Int32s a, Int32s b) { return MM(sub_epi32)(a, b); }
  static Int32s multiply(Int32s a, Int32s b) { return MM(mullo_epi32)(a, b); }

  static Int32s load_columns(const int32_t* columns, int vector) {
    return reinterpret_cast<Int32s>(
        S::load_columns(reinterpret_cast<const float*>(columns), vector));
  }

  // --- products

  static void interleave_rows(const uint8_t* const* rows, int count, int64_t valid, uint8_t flip,
                              uint8_t* quad) {
    for (int column = 0; column < kPanelWidth; column += kPackedBytes) {
      Vector quads[4];
      interleave_vectors(rows, column, count, valid, flip, quads);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i, quad += kPackedBytes) S::store(quad, quads[i]);
    }
  }

  // Interleaves a vector of every row, from a column on.
  static void interleave_vectors(const uint8_t* const* rows, int column, int count, int64_t valid,
                                 uint8_t flip, Vector* quads) {
    const Vector sign = broadcast_byte(flip);
    const auto load = S::load_first(valid - column);
    Vector r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      r[i] = i < count ? MM_XOR(load(rows[i] + column), sign) : Vector{};
    }
    interleave_quads(r, quads);
  }

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)

  struct Columns {
    Vector quads;
    Columns() = default;
    explicit Columns(const void* p) : quads(S::load(p)) {}
    explicit Columns(Vector bytes) : quads(bytes) {}
  };

  struct Weights {
    Vector quads;
    explicit Weights(int32_t word) : quads(broadcast(word)) {}
  };

  static void multiply_add(Int32s& sums, const Columns& columns, const Weights& weights) {
    sums = MM_DPBUSD(sums, columns.quads, weights.quads);
  }

  static constexpr int kWordsOfQuad = 1;

  static void multiply_words(Int32s& sums, Int32s row, Int32s columns) {
    sums = MM_DPBUSD(sums, row, columns);
  }

  static constexpr bool kHalvesBytes = false;

  template <int bits>
  static void multiply_quads(Int32s& sums, const Int32s* quads, const uint8_t* levels) {
#pragma GCC unroll 8
    for (int i = 0; i < 32 / bits; ++i) {
      sums = MM_DPBUSD(sums, quads[i], S::load(levels + i * sizeof(Vector)));
    }
  }

#endif

  static Int32s low_half_bytes(Int32s v) { return MM_AND(v, broadcast_byte(15)); }
  static Int32s high_half_bytes(Int32s v) { return low_half_bytes(MM(srli_epi32)(v, 4)); }

  // Sums the lanes of kLanes vectors: lane i is the sum of vector i.
  static Int32s sum_lanes(const Int32s* v) {
    Int32s fours[kLanes / 4];
#pragma GCC unroll 4
    for (int i = 0; i < kLanes / 4; ++i) {
      Int32s pairs[2];
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const Int32s a = v[4 * i + 2 * j], b = v[4 * i + 2 * j + 1];
        pairs[j] = add(MM(unpacklo_epi32)(a, b), MM(unpackhi_epi32)(a, b));
      }
      fours[i] =
          add(MM(unpacklo_epi64)(pairs[0], pairs[1]), MM(unpackhi_epi64)(pairs[0], pairs[1]));
    }
    return S::sum_quarters(fours);
  }

  template <bool fixed = false>
  static void store_bytes_in_order(uint8_t* bytes, const Int32s* rounded, int32_t zero_point,
                                   bool is_signed, int64_t count = kPackedBytes) {
    const Vector packed = pack_bytes<fixed>(rounded, zero_point, is_signed);
    S::store_first_bytes(bytes, S::put_in_order(packed), count);
  }

  // --- requantization

  using Floats = FloatVector;

  static Floats broadcast_float(float value) { return MM(set1_ps)(value); }
  static Floats load_floats(const float* p) { return MM(loadu_ps)(p); }
  static void store_floats(float* p, Floats v) { MM(storeu_ps)(p, v); }
  static Floats divide(Floats a, Floats b) { return MM(div_ps)(a, b); }

  static Floats clamp(Floats v, Floats low, Floats high) {
    return MM(min_ps)(MM(max_ps)(v, low), high);
  }

  static Floats estimate(Int32s sums, Floats factor, Floats low, Floats high) {
    return clamp(multiply(to_floats(sums), factor), low, high);
  }

  static Int32s round_product(Int32s sums, Floats factor) {
    return S::nearest(multiply(to_floats(sums), factor));
  }

  template <typename NearTies>
  static Int32s fixed_integer(Floats number, NearTies& near_ties) {
    const Vector fixed = reinterpret_cast<Vector>(number);
    near_ties.add(fixed);
    return MM(srai_epi32)(fixed, kFixedShift);
  }

  template <typename NearTies>
  static Int32s fixed_product(Int32s sums, Floats factor, NearTies& near_ties) {
    const Floats origin = broadcast_float(kFixedOrigin);
    return fixed_integer(fused_multiply_add(to_floats(sums), factor, origin), near_ties);
  }

  static uint64_t round(Floats v, Floats band, Int32s& rounded) {
    rounded = S::nearest(v);
    return S::are_beyond(MM(sub_ps)(v, to_floats(rounded)), band);
  }

  template <bool fixed = false>
  static void store_bytes(uint8_t* bytes, const Int32s* rounded, int32_t zero_point, bool is_signed,
                          int64_t count = kPackedBytes) {
    S::store_first_bytes(bytes, pack_bytes<fixed>(rounded, zero_point, is_signed), count);
  }

  // --- arithmetic of bytes

  static void widen_bytes(const uint8_t* bytes, uint8_t flip, Int32s* v) {
    const Vector flipped = MM_XOR(S::load(bytes), broadcast_byte(flip));
    // Bytes 4 j to 4 j + 3 of each lane of 128 bits. A position with its high bit set gives 0.
    const Vector first =
        S::repeat(_mm_set_epi32(static_cast<int>(0x80808003), static_cast<int>(0x80808002),
                                static_cast<int>(0x80808001), static_cast<int>(0x80808000)));
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) v[j] = MM(shuffle_epi8)(flipped, add(first, broadcast(4 * j)));
  }

  static Floats to_floats(Int32s v) { return MM(cvtepi32_ps)(v); }
  static Int32s to_integers(Floats v) { return MM(cvtps_epi32)(v); }
  static Floats add(Floats a, Floats b) { return MM(add_ps)(a, b); }
  static Floats multiply(Floats a, Floats b) { return MM(mul_ps)(a, b); }
  static Floats fused_multiply_add(Floats a, Floats b, Floats c) { return MM(fmadd_ps)(a, b, c); }

 protected:
  static constexpr int64_t kPackedBytes = sizeof(Vector);

  static Vector broadcast_byte(uint8_t value) { return MM(set1_epi8)(static_cast<char>(value)); }
  static Vector broadcast_word(int32_t value) {
    return MM(set1_epi16)(static_cast<int16_t>(value));
  }

  static void interleave_quads(const Vector* rows, Vector* quads) {
    const Vector low01 = MM(unpacklo_epi8)(rows[0], rows[1]);
    const Vector low23 = MM(unpacklo_epi8)(rows[2], rows[3]);
    const Vector high01 = MM(unpackhi_epi8)(rows[0], rows[1]);
    const Vector high23 = MM(unpackhi_epi8)(rows[2], rows[3]);
    quads[0] = MM(unpacklo_epi16)(low01, low23);
    quads[1] = MM(unpackhi_epi16)(low01, low23);
    quads[2] = MM(unpacklo_epi16)(high01, high23);
    quads[3] = MM(unpackhi_epi16)(high01, high23);
  }

  // Transposes four vectors of words within every lane of 128 bits.
  static void transpose_lanes(const Vector* v, Vector* transposed) {
    const Vector low01 = MM(unpacklo_epi32)(v[0], v[1]), low23 = MM(unpacklo_epi32)(v[2], v[3]);
    const Vector high01 = MM(unpackhi_epi32)(v[0], v[1]), high23 = MM(unpackhi_epi32)(v[2], v[3]);
    transposed[0] = MM(unpacklo_epi64)(low01, low23);
    transposed[1] = MM(unpackhi_epi64)(low01, low23);
    transposed[2] = MM(unpacklo_epi64)(high01, high23);
    transposed[3] = MM(unpackhi_epi64)(high01, high23);
  }

  template <bool fixed>
  static Vector pack_bytes(const Int32s* rounded, int32_t zero_point, bool is_signed) {
    if constexpr (fixed) {  // unsigned words and bytes, 128 higher if bytes are signed
      const Vector lowest = broadcast_word(kFixedZero - zero_point - (is_signed ? 128 : 0));
      const Vector bytes = pack_fixed(rounded, lowest);
      return is_signed ? MM_XOR(bytes, broadcast_byte(128)) : bytes;
    }
    const Vector zero = broadcast_word(zero_point);
    const Vector low = MM(adds_epi16)(MM(packs_epi32)(rounded[0], rounded[1]), zero);
    const Vector high = MM(adds_epi16)(MM(packs_epi32)(rounded[2], rounded[3]), zero);
    return is_signed ? MM(packs_epi16)(low, high) : MM(packus_epi16)(low, high);
  }

  static Vector pack_fixed(const Int32s* rounded, Vector lowest) {
    const Vector first = MM(packus_epi32)(rounded[0], rounded[1]);
    const Vector second = MM(packus_epi32)(rounded[2], rounded[3]);
    return MM(packus_epi16)(MM(subs_epu16)(first, lowest), MM(subs_epu16)(second, lowest));
  }
};

#undef MM
#undef MM_XOR
#undef MM_AND
#undef MM_DPBUSD

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
