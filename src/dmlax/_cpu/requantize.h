// Requantization: round(acc * sx * sw / sy), exact or in ONNX Runtime's float32.
//
// The thread may flush subnormals, so scales are taken apart and put together as integers. Every
// instruction set compiles its copy, so all functions have internal linkage.
#pragma once

#include <cstdint>

namespace dmlax {

// The bits of the three float32 scales of a channel.
struct Scales {
  uint32_t input, filter, output;
};

// Parameters from accumulators to outputs. Arrays have one value for each output channel.
struct RequantizeParams {
  bool quantized;  // true for bytes; int32 needs no scales
  bool output_signed;
  int32_t output_zero;
  float low, high;             // the range that estimates are clamped to
  const int32_t* offset;       // bias and the terms of zero points
  const int32_t* filter_zero;  // zero points of the packed values; null if all are 0
  const float* estimate;       // the multiplier in float32
  const float* band;           // estimates so far off an integer are near a tie
  bool may_tie;                // false if every band is kNever
  bool scales_down;            // every multiplier is below 1, so that estimates fit int32
  const uint32_t *input_scale, *filter_scale, *output_scale;
  int64_t filter_scales;  // one, or one per output channel
};

// --- fixed point -------------------------------------------------------------------------

// Estimates of exact outputs, products of sums and multipliers, as fixed-point numbers in a
// float32.
//
// One fused operation gives acc * m / 512 + 1.5 + 2^-10 + 2^-23. If |acc * m| < 256, the result is
// in [1, 2), where floats are 2^-23 apart. Its bits above kFixedShift are an integer, round(acc *
// m) + kFixedZero. The bits below are a fraction, which is 1 at a tie. Products beyond 256 give
// larger or smaller words, which saturate like integers.
//
// The error is less than 1 bit. m and the float32 of acc have relative errors of 2^-24, and m has
// three of 2^-53. Together they are less than 0.4991 for ties between outputs, which are below
// 255.5. The operation rounds by at most 0.5. A fraction of 2 or more is therefore above its tie. A
// fraction below 0, which belongs to the integer before, is below its tie. Both integers are right.
// A fraction of 0 or 1 is near a tie.
//
// A sum of two products is another fixed-point number, with its offset in the origin. Its error is
// up to 2 or 4 bits, so its ties have a fraction of 2 or 4, and fractions below twice that are near
// a tie.
constexpr float kFixedScale = 0x1p-9f;  // scales multipliers exactly
constexpr float kFixedOrigin = 1.5f + 0x1p-10f + 0x1p-23f;
constexpr int kFixedShift = 14;
constexpr int32_t kFixedZero = 0xff00;
constexpr int32_t kNotNearTie = 0x3ffe;  // has a bit of every fraction far from a tie

// --- scales ------------------------------------------------------------------------------

namespace {

inline Scales scales_of(const RequantizeParams& params, int64_t channel) {
  return {*params.input_scale, params.filter_scale[params.filter_scales == 1 ? 0 : channel],
          *params.output_scale};
}

// A float32's magnitude is mantissa * 2^exponent; the mantissa is in [2^23, 2^24), or 0.
struct Unpacked {
  bool negative;
  uint32_t mantissa;
  int exponent;
};

inline Unpacked unpack(uint32_t bits) {
  const uint32_t field = (bits >> 23) & 0xff, fraction = bits & 0x7fffff;
  const bool negative = bits >> 31;
  if (field != 0) return {negative, fraction | 0x800000, static_cast<int>(field) - 150};
  if (fraction == 0) return {negative, 0, 0};
  const int shift = __builtin_clz(fraction) - 8;
  return {negative, fraction << shift, -149 - shift};
}

template <typename To, typename From>
inline To bit_cast(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  __builtin_memcpy(&result, &value, sizeof result);
  return result;
}

inline float from_bits(uint32_t bits) { return bit_cast<float>(bits); }
inline uint32_t to_bits(float value) { return bit_cast<uint32_t>(value); }

// 2^exponent for exponents of normal doubles.
inline double power_of_two(int exponent) {
  return bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// The value of a finite float32 as a double. No subnormal is lost, even if the thread flushes them.
inline double to_double(uint32_t bits) {
  const Unpacked unpacked = unpack(bits);
  const double magnitude = unpacked.mantissa * power_of_two(unpacked.exponent);
  return unpacked.negative ? -magnitude : magnitude;
}

inline int32_t byte_value(uint8_t byte, bool is_signed) {
  return is_signed ? static_cast<int8_t>(byte) : byte;
}

inline int32_t lowest_byte(bool is_signed) { return is_signed ? -128 : 0; }

inline uint8_t saturate(int32_t value, bool is_signed) {
  const int32_t lowest = lowest_byte(is_signed), highest = lowest + 255;
  return static_cast<uint8_t>(value < lowest ? lowest : value > highest ? highest : value);
}

struct FloatFormat {
  int fraction;              // bits of the fraction
  int lowest_unit, highest;  // exponents: a subnormal's last bit; the highest power of 2
  uint32_t sign, infinity;
};

constexpr FloatFormat kFloat32 = {23, -149, 127, 1u << 31, 0x7f800000};
constexpr FloatFormat kFloat16 = {10, -24, 15, 1u << 15, 0x7c00};

// The bits of mantissa * 2^exponent, rounded once. `sticky` stands for a little more.
inline uint32_t pack(bool negative, uint64_t mantissa, int exponent, bool sticky,
                     const FloatFormat& format = kFloat32) {
  const uint32_t sign = negative ? format.sign : 0;
  if (mantissa == 0) return sign;
  const int top = 63 - __builtin_clzll(mantissa) + exponent, last = top - format.fraction;
  const int unit = last < format.lowest_unit ? format.lowest_unit : last;
  const int shift = unit - exponent;
  if (top > format.highest) return sign | format.infinity;
  if (shift > 63) return sign;
  uint64_t kept = shift > 0 ? mantissa >> shift : mantissa << -shift;
  if (shift > 0) {
    const uint64_t half = uint64_t{1} << (shift - 1), rest = mantissa & (2 * half - 1);
    kept += rest > half || (rest == half && (sticky || (kept & 1)));
  }
  const bool subnormal = kept >> format.fraction == 0;
  const uint64_t field = subnormal ? 0 : static_cast<uint64_t>(unit - format.lowest_unit);
  const uint64_t bits = kept + (field << format.fraction);
  return sign | static_cast<uint32_t>(bits < format.infinity ? bits : format.infinity);
}

// (a * b) / c in IEEE float32, rounded after each operation. Subnormals are kept.
inline float multiplier_float32(uint32_t a, uint32_t b, uint32_t c) {
  const Unpacked x = unpack(a), y = unpack(b), divisor = unpack(c);
  const uint64_t product = static_cast<uint64_t>(x.mantissa) * y.mantissa;
  const uint32_t bits = pack(x.negative ^ y.negative, product, x.exponent + y.exponent, false);
  const uint32_t sign = divisor.negative ? 1u << 31 : 0;
  if ((bits & 0x7fffffff) >= 0x7f800000 || divisor.mantissa == 0) return from_bits(bits ^ sign);
  const Unpacked z = unpack(bits);
  const uint64_t dividend = static_cast<uint64_t>(z.mantissa) << 40;
  return from_bits(pack(z.negative ^ divisor.negative, dividend / divisor.mantissa,
                        z.exponent - 40 - divisor.exponent, dividend % divisor.mantissa != 0));
}

// Whether a float32 is normal, so that threads that flush subnormals keep it.
inline bool is_normal(uint32_t bits) {
  const uint32_t exponent = bits & 0x7f800000;
  return exponent != 0 && exponent != 0x7f800000;
}

// Fills `multiplier_float32` of many b. Returns false if an intermediate value is not a normal
// float; the outputs are then unspecified.
inline bool fill_multipliers_float32(uint32_t a, const uint32_t* b, uint32_t c, int64_t count,
                                     float* multipliers) {
  const float factor = from_bits(a), divisor = from_bits(c);
  const auto is_odd = [](uint32_t bits) -> uint32_t { return is_normal(bits) ? 0 : 1; };
  uint32_t odd = is_odd(a) | is_odd(c);
  for (int64_t i = 0; i < count; ++i) {
    const float product = factor * from_bits(b[i]);
    multipliers[i] = product / divisor;
    odd |= is_odd(b[i]) | is_odd(to_bits(product)) | is_odd(to_bits(multipliers[i]));
  }
  return odd == 0;
}

// Estimates at least this far off an integer are near a tie. No other estimate can round wrongly.
//
// The estimate fl(fl(acc) * fl(m)) has three relative errors of 2^-24, and m has three of 2^-53. Up
// to 256 it is therefore less than 256 * 3.01 * 2^-24 < 2^-14.3 off. Beyond 255 every integer
// saturates.
constexpr float kBand = 0.5f - 0x1p-14f;
constexpr float kNever = 1;
constexpr float kLimit = 256;

// |acc * sx * sw / sy| in integers: numerator / (denominator << shift) times |acc|.
struct Ratio {
  uint64_t numerator;
  uint32_t denominator;
  int shift;

  explicit Ratio(const Scales& scales) {
    const Unpacked x = unpack(scales.input), w = unpack(scales.filter), y = unpack(scales.output);
    numerator = static_cast<uint64_t>(x.mantissa) * w.mantissa;
    denominator = y.mantissa;
    shift = y.exponent - x.exponent - w.exponent;
  }

  // Whether it is a power of two.
  bool is_power() const {
    const uint64_t whole = numerator / denominator;
    return whole * denominator == numerator && (whole & (whole - 1)) == 0;
  }
};

// Float32 estimates of sx * sw / sy for many filter scales.
class Estimator {
 public:
  Estimator(uint32_t input, uint32_t output) : input_(input), output_(output) {
    const Unpacked x = unpack(input), y = unpack(output);
    negative_ = x.negative ^ y.negative;
    if (y.mantissa == 0) return;
    factor_ = static_cast<double>(x.mantissa) / y.mantissa * power_of_two(x.exponent - y.exponent);
  }

  // Beyond 2^10 every accumulator but 0 saturates, and below 2^-33 none reaches 0.5, so neither is
  // near a tie. Products with a power of two are not either: they are exact for accumulators of 24
  // bits, and larger ones saturate.
  float estimate(uint32_t filter, float& band) const {
    const Unpacked w = unpack(filter);
    const double magnitude = factor_ * (w.mantissa * power_of_two(w.exponent));
    const bool certain = !(magnitude >= 0x1p-33 && magnitude <= 0x1p10);
    const double clipped = magnitude > 0x1p10 ? 0x1p10 : certain ? 0 : magnitude;
    const float value = static_cast<float>(clipped);
    const bool power = (to_bits(value) & 0x7fffff) == 0 && magnitude >= 0x1p-15 &&
                       (certain || Ratio({input_, filter, output_}).is_power());
    band = certain || power ? kNever : kBand;
    return negative_ ^ w.negative ? -value : value;
  }

  // Estimates many scales. Returns false if one of them needs `estimate`; the outputs are then
  // unspecified.
  bool fill(const uint32_t* filters, int64_t count, float* estimates) const {
    constexpr uint32_t kMagnitude = 0x7fffffff, kFraction = 0x7fffff;
    constexpr uint32_t kLeast = (127 - 33) << 23, kMost = (127 + 10) << 23;
    constexpr uint32_t kLeastNormal = 1 << 23, kMostNormal = 0x7f7fffff;
    const double factor = negative_ ? -factor_ : factor_;
    uint32_t odd = 0;  // its highest bit is set if a difference is negative
    for (int64_t i = 0; i < count; ++i) {
      estimates[i] = static_cast<float>(factor * from_bits(filters[i]));
      const uint32_t magnitude = to_bits(estimates[i]) & kMagnitude;
      const uint32_t filter = filters[i] & kMagnitude;
      odd |= (magnitude - kLeast) | (kMost - magnitude) | ((magnitude & kFraction) - 1);
      odd |= (filter - kLeastNormal) | (kMostNormal - filter);
    }
    return odd >> 31 == 0;
  }

 private:
  uint32_t input_, output_;
  bool negative_;
  double factor_ = 0;
};

// round(acc * sx * sw / sy) to even for an estimate near a tie. acc is a sum of two int32.
inline int32_t round_near_tie(int64_t accumulator, const Scales& scales, float estimate) {
  using Wide = unsigned __int128;
  const Ratio ratio(scales);
  const uint64_t bits = static_cast<uint64_t>(accumulator);
  const uint64_t magnitude = accumulator < 0 ? 0u - bits : bits;
  const uint64_t below = static_cast<uint64_t>(estimate < 0 ? -estimate : estimate);
  const Wide twice = static_cast<Wide>(2 * magnitude) * ratio.numerator;
  const Wide odd = static_cast<Wide>((2 * below + 1) * ratio.denominator) << ratio.shift;
  const int32_t rounded =
      static_cast<int32_t>(below + (twice > odd || (twice == odd && (below & 1))));
  return estimate < 0 ? -rounded : rounded;
}

// round(total * sx * sw / sy) to even for a sum of two int32. Results beyond 255 are unspecified
// beyond 255.
inline int32_t round_wide(int64_t total, const Scales& scales) {
  const Unpacked x = unpack(scales.input), w = unpack(scales.filter), y = unpack(scales.output);
  if (total == 0 || x.mantissa == 0 || w.mantissa == 0 || y.mantissa == 0) return 0;
  const double size = static_cast<double>(total) * x.mantissa * w.mantissa / y.mantissa;
  const int exponent = x.exponent + w.exponent - y.exponent;
  const double estimate = size * power_of_two(exponent < -600  ? -600
                                              : exponent > 600 ? 600
                                                               : exponent);
  const bool negative = (total < 0) ^ x.negative ^ w.negative ^ y.negative;
  const double magnitude = estimate < 0 ? -estimate : estimate;
  if (magnitude < 0.25) return 0;
  if (magnitude > kLimit) return negative ? -255 : 255;
  const float near = static_cast<float>(magnitude);
  return round_near_tie(total, scales, negative ? -near : near);
}

// The byte of an output near a tie.
inline uint8_t resolve_tie(const RequantizeParams& params, int64_t channel, int32_t accumulator,
                           float estimate) {
  const int32_t rounded = round_near_tie(accumulator, scales_of(params, channel), estimate);
  return saturate(rounded + params.output_zero, params.output_signed);
}

// clamp(round(total * sx * sw / sy) + zero point) for a sum of two int32.
inline uint8_t requantize_wide(const RequantizeParams& params, int64_t channel, int64_t total) {
  const bool exact = params.high == kLimit;
  int32_t rounded;
  if (exact) {
    rounded = round_wide(total, scales_of(params, channel));
  } else {
    const float product = static_cast<float>(total) * params.estimate[channel];
    const float raised = product > params.low ? product : params.low;
    rounded =
        static_cast<int32_t>(__builtin_nearbyintf(raised < params.high ? raised : params.high));
  }
  return saturate(rounded + params.output_zero, params.output_signed);
}

}  // namespace
}  // namespace dmlax
