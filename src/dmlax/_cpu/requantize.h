// Requantization in C++: round(acc * sx * sw / sy), exact or in ONNX Runtime's float32.
//
// Scales are taken apart as integers and put together as integers, since the thread may flush
// subnormals. Kernels include this once for each instruction set, so that everything is local.
#ifndef DMLAX_CPU_REQUANTIZE_H_
#define DMLAX_CPU_REQUANTIZE_H_

#include <cstdint>

namespace dmlax {

// The bits of three float32 scales, of one channel.
struct Scales {
  uint32_t input, filter, output;
};

// From accumulators to outputs; arrays have a value per output channel.
struct RequantizeParams {
  bool quantized;              // to bytes: otherwise int32, which needs no scales
  bool output_signed;
  int32_t output_zero;
  float low, high;             // the range that estimates are clamped to
  const int32_t* offset;       // bias and the zero points' terms
  const int32_t* filter_zero;  // of the packed values; null where all are 0
  const float* estimate;       // the multiplier, in float32
  const float* band;           // how far off an integer an estimate is near a tie
  bool may_tie;                // false where every band is kNever
  bool scales_down;            // every multiplier is below 1: no estimate leaves int32
  const uint32_t *input_scale, *filter_scale, *output_scale;
  int64_t filter_scales;       // one, or one per output channel
};

namespace {

inline Scales scales_of(const RequantizeParams& params, int64_t channel) {
  return {*params.input_scale, params.filter_scale[params.filter_scales == 1 ? 0 : channel],
          *params.output_scale};
}

// A float32's magnitude is mantissa * 2^exponent, the mantissa in [2^23, 2^24), or 0.
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

inline float from_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t to_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

struct FloatFormat {
  int fraction;                   // its bits
  int lowest_unit, highest;       // exponents of a subnormal's last bit and of the highest power of 2
  uint32_t sign, infinity;
};

constexpr FloatFormat kFloat32 = {23, -149, 127, 1u << 31, 0x7f800000};
constexpr FloatFormat kFloat16 = {10, -24, 15, 1u << 15, 0x7c00};

// The bits of mantissa * 2^exponent, and a little more if `sticky`, rounded once.
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

// IEEE float32 (a * b) / c, each rounded, subnormals kept.
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

// The bits of a normal float32, which a thread that flushes subnormals keeps.
inline bool is_normal(uint32_t bits) {
  const uint32_t exponent = bits & 0x7f800000;
  return exponent != 0 && exponent != 0x7f800000;
}

// `multiplier_float32` of many b at once; false, and nothing of use, if a number on the way to one
// of them is not normal.
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

// An estimate is near a tie if it is at least this far off an integer; no other one can round
// wrongly.
//
// The estimate fl(fl(acc) * fl(m)) has three relative errors of 2^-24, and m three of 2^-53, so up
// to 256 it is less than 256 * 3.01 * 2^-24 < 2^-14.3 off. Beyond 255 every integer saturates.
constexpr float kBand = 0.5f - 0x1p-14f;
constexpr float kNever = 1;
constexpr float kLimit = 256;

// 2^exponent for exponents of normal doubles.
inline double power_of_two(int exponent) {
  const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// |acc * sx * sw / sy| as integers: numerator / (denominator << shift) times |acc|.
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

// sx * sw / sy as float32 estimates, one filter scale after another.
class Estimator {
 public:
  Estimator(uint32_t input, uint32_t output) : input_(input), output_(output) {
    const Unpacked x = unpack(input), y = unpack(output);
    negative_ = x.negative ^ y.negative;
    if (y.mantissa == 0) return;
    factor_ = static_cast<double>(x.mantissa) / y.mantissa * power_of_two(x.exponent - y.exponent);
  }

  // Beyond 2^10 any accumulator saturates, below 2^-33 none reaches 0.5: neither is near a tie.
  // Nor is a product with a power of two: exact for accumulators of 24 bits, which larger ones
  // are too large for.
  float estimate(uint32_t filter, float& band) const {
    const Unpacked w = unpack(filter);
    const double magnitude = factor_ * (w.mantissa * power_of_two(w.exponent));
    const bool certain = !(magnitude >= 0x1p-33 && magnitude <= 0x1p10);
    const double clipped = magnitude > 0x1p10 ? 0x1p10 : certain ? 0 : magnitude;
    const float value = static_cast<float>(clipped);
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    const bool power = (bits & 0x7fffff) == 0 && magnitude >= 0x1p-15 &&
                       (certain || Ratio({input_, filter, output_}).is_power());
    band = certain || power ? kNever : kBand;
    return negative_ ^ w.negative ? -value : value;
  }

  // The same of many scales at once; false, and nothing of use, if one of them needs `estimate`.
  bool fill(const uint32_t* filters, int64_t count, float* estimates) const {
    constexpr uint32_t kMagnitude = 0x7fffffff, kFraction = 0x7fffff;
    constexpr uint32_t kLeast = (127 - 33) << 23, kMost = (127 + 10) << 23;
    constexpr uint32_t kLeastNormal = 1 << 23, kMostNormal = 0x7f7fffff;
    const double factor = negative_ ? -factor_ : factor_;
    uint32_t odd = 0;  // its highest bit is that of every difference that is below 0
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

// round(acc * sx * sw / sy) to even, where the estimate is near a tie; acc is a sum of two int32.
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

// round(total * sx * sw / sy) to even, for a sum of two int32; beyond 255 any value from it on.
inline int32_t round_wide(int64_t total, const Scales& scales) {
  const Unpacked x = unpack(scales.input), w = unpack(scales.filter), y = unpack(scales.output);
  if (total == 0 || x.mantissa == 0 || w.mantissa == 0 || y.mantissa == 0) return 0;
  const double size = static_cast<double>(total) * x.mantissa * w.mantissa / y.mantissa;
  const int exponent = x.exponent + w.exponent - y.exponent;
  const double estimate = size * power_of_two(exponent < -600 ? -600 : exponent > 600 ? 600 : exponent);
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
  const int32_t lowest = params.output_signed ? -128 : 0, highest = lowest + 255;
  const int32_t value =
      round_near_tie(accumulator, scales_of(params, channel), estimate) + params.output_zero;
  return static_cast<uint8_t>(value < lowest ? lowest : value > highest ? highest : value);
}

// clamp(round(total * sx * sw / sy) + zero point) for a sum of two int32, one element at a time.
inline uint8_t requantize_wide(const RequantizeParams& params, int64_t channel, int64_t total) {
  const int32_t lowest = params.output_signed ? -128 : 0, highest = lowest + 255;
  const bool exact = params.high == kLimit;
  int32_t rounded;
  if (exact) {
    rounded = round_wide(total, scales_of(params, channel));
  } else {
    const float product = static_cast<float>(total) * params.estimate[channel];
    const float clamped = product > params.low ? product : params.low;
    rounded = static_cast<int32_t>(__builtin_nearbyintf(clamped < params.high ? clamped
                                                                              : params.high));
  }
  const int32_t value = rounded + params.output_zero;
  return static_cast<uint8_t>(value < lowest ? lowest : value > highest ? highest : value);
}

}  // namespace
}  // namespace dmlax

#endif  // DMLAX_CPU_REQUANTIZE_H_
