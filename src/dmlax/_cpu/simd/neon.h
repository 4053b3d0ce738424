// NEON on AArch64, with the dot products of Armv8.2 and of i8mm if the compiler's flags have them:
// vectors of 16 bytes.
//
// Stores that interleave four vectors put a panel's columns in order: vector j holds the columns 4
// j to 4 j + 3.
#pragma once

#include <arm_neon.h>

#include "dmlax/_cpu/bits.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

struct Simd : OptionalFeatures, ScalarBits {
  static constexpr tuning::InstructionSet kTuning = tuning::DMLAX_ISA_NAMESPACE;
  static constexpr int kLanes = 4;
  static constexpr int kVectorsPacked = 4;
  static constexpr bool kMultipliesQuads = true;

  static constexpr int column_of(int vector, int lane) { return vector * kLanes + lane; }

  // --- int32

  using Int32s = int32x4_t;

  static Int32s load(const void* p) { return vld1q_s32(static_cast<const int32_t*>(p)); }
  static void store(void* p, Int32s v) { vst1q_s32(static_cast<int32_t*>(p), v); }
  static Int32s broadcast(int32_t value) { return vdupq_n_s32(value); }
  static Int32s add(Int32s a, Int32s b) { return vaddq_s32(a, b); }
  static Int32s subtract(Int32s a, Int32s b) { return vsubq_s32(a, b); }
  static Int32s multiply(Int32s a, Int32s b) { return vmulq_s32(a, b); }

  static void store_columns(int32_t* columns, int vector, Int32s v) {
    store(columns + column_of(vector, 0), v);
  }

  static Int32s load_columns(const int32_t* columns, int vector) {
    return load(columns + column_of(vector, 0));
  }

  static float32x4_t load_columns(const float* columns, int vector) {
    return vld1q_f32(columns + column_of(vector, 0));
  }

  // --- products

  static void interleave_rows(const uint8_t* const* rows, int count, int64_t valid, uint8_t flip,
                              uint8_t* quad) {
    uint8_t copies[kKPack][kPanelWidth];
    const uint8_t* from[kKPack];
    for (int i = 0; i < count; ++i) {
      from[i] = rows[i];
      if (valid < kPanelWidth) {
        __builtin_memset(copies[i], 0, kPanelWidth);
        __builtin_memcpy(copies[i], rows[i], static_cast<size_t>(valid));
        from[i] = copies[i];
      }
    }
    const uint8x16_t sign = vdupq_n_u8(flip);
    for (int column = 0; column < kPanelWidth; column += 16, quad += 16 * kKPack) {
      uint8x16x4_t r;
#pragma GCC unroll 4
      for (int i = 0; i < kKPack; ++i) {
        r.val[i] = i < count ? veorq_u8(vld1q_u8(from[i] + column), sign) : vdupq_n_u8(0);
      }
      vst4q_u8(quad, r);
    }
  }

#if defined(__ARM_FEATURE_MATMUL_INT8)

  // usdot multiplies four unsigned bytes by signed ones for each sum. usmmla multiplies two rows by
  // two columns of eight bytes, which would need another order of panels and of sums.
  struct Columns {
    uint8x16_t quads;
    Columns() = default;
    explicit Columns(const uint8_t* p) : quads(vld1q_u8(p)) {}
  };

  struct Weights {
    int8x16_t quads;
    explicit Weights(int32_t word) : quads(vreinterpretq_s8_s32(vdupq_n_s32(word))) {}
  };

  static void multiply_add(Int32s& sums, const Columns& columns, const Weights& weights) {
    sums = vusdotq_s32(sums, columns.quads, weights.quads);
  }

#elif defined(__ARM_FEATURE_DOTPROD)

  // sdot multiplies signed bytes only. A column c becomes c - 128 by flipping its sign bit, and 128
  // times the sum of the weights is added. The sum is exact and the same for every column.
  // Splitting columns into two signed parts would take as many instructions and more registers.
  struct Columns {
    int8x16_t quads;
    Columns() = default;
    explicit Columns(const uint8_t* p)
        : quads(vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p), vdupq_n_u8(128)))) {}
  };

  struct Weights {
    int8x16_t quads;
    int32x4_t correction;  // -128 times the sum of the weights
    explicit Weights(int32_t word)
        : quads(vreinterpretq_s8_s32(vdupq_n_s32(word))),
          correction(vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(-128), quads)) {}
  };

  static void multiply_add(Int32s& sums, const Columns& columns, const Weights& weights) {
    sums = vdotq_s32(vsubq_s32(sums, weights.correction), columns.quads, weights.quads);
  }

#else

  // 16-bit numbers, whose products fit 32 bits.
  struct Columns {
    int16x8_t low, high;
    Columns() = default;
    explicit Columns(const uint8_t* p) {
      const uint8x16_t quads = vld1q_u8(p);
      low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(quads)));
      high = vreinterpretq_s16_u16(vmovl_high_u8(quads));
    }
  };

  struct Weights {
    int16x4_t quad;
    explicit Weights(int32_t word)
        : quad(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(word))))) {}
  };

  static void multiply_add(Int32s& sums, const Columns& columns, const Weights& weights) {
    const int32x4_t first = vmull_s16(vget_low_s16(columns.low), weights.quad);
    const int32x4_t second = vmull_s16(vget_high_s16(columns.low), weights.quad);
    const int32x4_t third = vmull_s16(vget_low_s16(columns.high), weights.quad);
    const int32x4_t fourth = vmull_s16(vget_high_s16(columns.high), weights.quad);
    const int32x4_t pairs = vpaddq_s32(first, second), other_pairs = vpaddq_s32(third, fourth);
    sums = vaddq_s32(sums, vpaddq_s32(pairs, other_pairs));
  }

#endif

  // --- kMultipliesQuads

  static void load_quads(const uint8_t* from, int64_t step, Int32s* words) {
    for (int i = 0; i < 4; ++i) words[i] = load(from + i * step);
    transpose_words(words);
  }

  // Lane i of vector j becomes lane j of vector i.
  static void transpose_words(Int32s* v) {
    const int32x4_t low02 = vzip1q_s32(v[0], v[2]), high02 = vzip2q_s32(v[0], v[2]);
    const int32x4_t low13 = vzip1q_s32(v[1], v[3]), high13 = vzip2q_s32(v[1], v[3]);
    v[0] = vzip1q_s32(low02, low13);
    v[1] = vzip2q_s32(low02, low13);
    v[2] = vzip1q_s32(high02, high13);
    v[3] = vzip2q_s32(high02, high13);
  }

  static Int32s low_half_bytes(Int32s v) {
    return vandq_s32(v, vreinterpretq_s32_u8(vdupq_n_u8(15)));
  }
  static Int32s high_half_bytes(Int32s v) {
    return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(v), 4));
  }

#if defined(__ARM_FEATURE_MATMUL_INT8)
  static constexpr bool kHalvesBytes = false;

  template <int bits>
  static void multiply_quads(Int32s& sums, const Int32s* quads, const uint8_t* levels) {
    for (int i = 0; i < 32 / bits; ++i) {
      sums = vusdotq_s32(sums, vreinterpretq_u8_s32(quads[i]), signed_bytes(levels + 16 * i));
    }
  }
#else
  static constexpr bool kHalvesBytes = true;

  template <int bits>
  static void multiply_quads(Int32s& sums, const Int32s* halves, const uint8_t* levels) {
    int32x4_t high = vdupq_n_s32(0);
    for (int i = 0; i < 4; ++i) {
      sums = multiply_halves(sums, halves[i], levels + 16 * i);
      high = multiply_halves(high, halves[4 + i], levels + 16 * (bits == 4 ? 4 + i : i));
    }
    sums = vaddq_s32(sums, bits == 4 ? high : vshlq_n_s32(high, 4));
  }
#endif

  // --- requantization

  using Floats = float32x4_t;

  static Floats broadcast_float(float value) { return vdupq_n_f32(value); }
  static Floats load_floats(const float* p) { return vld1q_f32(p); }
  static void store_floats(float* p, Floats v) { vst1q_f32(p, v); }

  static Floats divide(Floats a, Floats b) { return vdivq_f32(a, b); }

  // maxnm returns the number if the other operand is NaN.
  static Floats clamp(Floats v, Floats low, Floats high) {
    return vminnmq_f32(vmaxnmq_f32(v, low), high);
  }

  static Floats estimate(Int32s sums, Floats factor, Floats low, Floats high) {
    return clamp(vmulq_f32(vcvtq_f32_s32(sums), factor), low, high);
  }

  static uint64_t round(Floats v, Floats band, Int32s& rounded) {
    constexpr uint32_t kBits[kLanes] = {1, 2, 4, 8};
    rounded = vcvtnq_s32_f32(v);
    const uint32x4_t off = vcgeq_f32(vabdq_f32(v, vcvtq_f32_s32(rounded)), band);
    return vaddvq_u32(vandq_u32(off, vld1q_u32(kBits)));
  }

  static void store_bytes(uint8_t* bytes, const Int32s* rounded, int32_t zero_point,
                          bool is_signed) {
    const int16x8_t zero = vdupq_n_s16(static_cast<int16_t>(zero_point));
    const int16x8_t low = vqaddq_s16(narrow(rounded[0], rounded[1]), zero);
    const int16x8_t high = vqaddq_s16(narrow(rounded[2], rounded[3]), zero);
    vst1q_u8(bytes, is_signed ? vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(low), high))
                              : vqmovun_high_s16(vqmovun_s16(low), high));
  }

  // --- arithmetic of bytes

  static void widen_bytes(const uint8_t* bytes, uint8_t flip, Int32s* v) {
    const uint8x16_t flipped = veorq_u8(vld1q_u8(bytes), vdupq_n_u8(flip));
    const uint16x8_t low = vmovl_u8(vget_low_u8(flipped)), high = vmovl_high_u8(flipped);
    v[0] = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low)));
    v[1] = vreinterpretq_s32_u32(vmovl_high_u16(low));
    v[2] = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high)));
    v[3] = vreinterpretq_s32_u32(vmovl_high_u16(high));
  }

  static bool is_zero(Int32s v) { return vmaxvq_u32(vreinterpretq_u32_s32(v)) == 0; }
  static Floats to_floats(Int32s v) { return vcvtq_f32_s32(v); }
  static Int32s to_integers(Floats v) { return vcvtnq_s32_f32(v); }
  static Floats add(Floats a, Floats b) { return vaddq_f32(a, b); }
  static Floats multiply(Floats a, Floats b) { return vmulq_f32(a, b); }
  static Floats fused_multiply_add(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }

  // --- bytes

  static int64_t copy_even(uint8_t* target, const uint8_t* source, int64_t count) {
    int64_t i = 0;
    for (; i + 17 <= count; i += 16) {  // the last byte read follows the last byte taken
      vst1q_u8(target + i, vld2q_u8(source + 2 * i).val[0]);
    }
    return i;
  }

  static int32_t sum_bytes(const uint8_t* bytes, int64_t count, uint8_t flip) {
    uint32_t sum = 0;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
      sum += vaddlvq_u8(veorq_u8(vld1q_u8(bytes + i), vdupq_n_u8(flip)));
    }
    for (; i < count; ++i) sum += bytes[i] ^ flip;
    return static_cast<int32_t>(sum);
  }

  struct Table {
    uint8x16x4_t quarters[4];

    explicit Table(const uint8_t* entries) {
      for (int i = 0; i < 4; ++i) quarters[i] = vld1q_u8_x4(entries + 64 * i);
    }
  };

  static constexpr int64_t kTableBytes = 16;

  // An index beyond a quarter keeps the earlier result.
  static void look_up(const Table& table, const uint8_t* input, uint8_t* output) {
    uint8x16_t x = vld1q_u8(input), entries = vqtbl4q_u8(table.quarters[0], x);
    for (int i = 1; i < 4; ++i) {
      x = vsubq_u8(x, vdupq_n_u8(64));
      entries = vqtbx4q_u8(entries, table.quarters[i], x);
    }
    vst1q_u8(output, entries);
  }

  template <typename Element>
  static uint64_t nonzero_bits(const Element* x, Element mask) {
    constexpr int kPerVector = 16 / static_cast<int>(sizeof(Element));
    uint8x16_t tests[64 / kPerVector];
    for (int i = 0; i < 64 / kPerVector; ++i) tests[i] = test_bits(x + kPerVector * i, mask);
    for (int left = 32 / kPerVector; left >= 4; left /= 2) {  // every second byte of each vector
      for (int i = 0; i < left; ++i) tests[i] = vuzp1q_u8(tests[2 * i], tests[2 * i + 1]);
    }
    return first_bits(tests);
  }

 private:
  static int8x16_t signed_bytes(const uint8_t* p) { return vreinterpretq_s8_u8(vld1q_u8(p)); }

  // Adds the products of half bytes and signed bytes, four to a lane.
  static int32x4_t multiply_halves(Int32s sums, Int32s halves, const uint8_t* levels) {
    const int8x16_t a = vreinterpretq_s8_s32(halves), b = signed_bytes(levels);
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(sums, a, b);
#else
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    return vaddq_s32(sums, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
  }

  static int16x8_t narrow(Int32s a, Int32s b) { return vqmovn_high_s32(vqmovn_s32(a), b); }

  // Sets all bits of an element that has a bit of the mask.
  static uint8x16_t test_bits(const uint8_t* x, uint8_t mask) {
    return vtstq_u8(vld1q_u8(x), vdupq_n_u8(mask));
  }
  static uint8x16_t test_bits(const uint16_t* x, uint16_t mask) {
    return vreinterpretq_u8_u16(vtstq_u16(vld1q_u16(x), vdupq_n_u16(mask)));
  }
  static uint8x16_t test_bits(const uint32_t* x, uint32_t mask) {
    return vreinterpretq_u8_u32(vtstq_u32(vld1q_u32(x), vdupq_n_u32(mask)));
  }
  static uint8x16_t test_bits(const uint64_t* x, uint64_t mask) {
    return vreinterpretq_u8_u64(vtstq_u64(vld1q_u64(x), vdupq_n_u64(mask)));
  }

  // A bit for each of 64 bytes, which are 0 or 255.
  static uint64_t first_bits(const uint8x16_t* bytes) {
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    const uint8x16_t a = vpaddq_u8(vandq_u8(bytes[0], bits), vandq_u8(bytes[1], bits));
    const uint8x16_t b = vpaddq_u8(vandq_u8(bytes[2], bits), vandq_u8(bytes[3], bits));
    const uint8x16_t pairs = vpaddq_u8(a, b);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)), 0);
  }
};

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
