// Scalar epilogue of a matrix product: from int32 sums to bytes or floats.
//
// Doubles estimate. If the error leaves two results, integers decide. Scales may be subnormal, so
// callers must keep subnormals.
#pragma once

#include "dmlax/_cpu/requantize.h"

namespace dmlax {
namespace {

// --- to bytes ----------------------------------------------------------------------------

// Estimates have three relative errors of 2^-53 and are below 2^9, so errors matter only this near
// a tie.
constexpr double kTieBand = 0x1p-40;
constexpr double kRoundShift = 0x1.8p52;  // adding and subtracting it rounds to even

inline double clamp(double value, double low, double high) {
  const double raised = value > low ? value : low;  // NaN gives the lowest value
  return raised < high ? raised : high;
}

// round(total * a * b / y). Returns a nonzero value if the estimate is near a tie.
inline uint32_t round_quickly(double total, float a, float b, float y, double& rounded) {
  const double factor = static_cast<double>(a) * b / y;
  const double estimate = clamp(total * factor, -511, 511);
  rounded = (estimate + kRoundShift) - kRoundShift;
  return __builtin_fabs(estimate - rounded) > 0.5 - kTieBand;
}

// clamp(round(total * a * b / y) + zero point) in ONNX Runtime's float32.
inline uint8_t requantize_float32(int64_t total, float a, float b, float y, int32_t zero_point,
                                  bool is_signed) {
  const int32_t lowest = lowest_byte(is_signed) - zero_point;
  const float product = static_cast<float>(total) * (a * b / y);
  const double clamped = clamp(product, lowest, lowest + 255);
  const double rounded = (clamped + kRoundShift) - kRoundShift;
  return saturate(static_cast<int32_t>(rounded) + zero_point, is_signed);
}

// --- to floats ---------------------------------------------------------------------------

using Wide = unsigned __int128;

// magnitude * 2^exponent with a sign.
struct WideFloat {
  bool negative;
  Wide magnitude;
  int exponent;
};

// `value` is not 0.
inline int count_leading_zeros(Wide value) {
  const uint64_t high = static_cast<uint64_t>(value >> 64);
  return high != 0 ? __builtin_clzll(high) : 64 + __builtin_clzll(static_cast<uint64_t>(value));
}

// Moves the first bit to bit 126, which leaves a bit for a carry.
inline WideFloat normalised(const WideFloat& x) {
  const int shift = count_leading_zeros(x.magnitude) - 1;
  return {x.negative, x.magnitude << shift, x.exponent - shift};
}

// Shifts right. The last bit is also set if a bit was lost.
inline Wide shift_right_sticky(Wide value, int count) {
  if (count >= 127) return value != 0;
  const Wide shifted = value >> count;
  return shifted | static_cast<Wide>((shifted << count) != value);
}

// The bits of x, rounded once. A zero is +0.
inline uint32_t round_to(const WideFloat& x, const FloatFormat& format) {
  if (x.magnitude == 0) return 0;
  constexpr int kMost = 62;  // bits; fewer would reach the half that `pack` drops
  const int extra = 128 - count_leading_zeros(x.magnitude) - kMost;
  const int dropped = extra > 0 ? extra : 0;
  const Wide kept = shift_right_sticky(x.magnitude, dropped);
  return pack(x.negative, static_cast<uint64_t>(kept), x.exponent + dropped, false, format);
}

// x + y rounded once. Both have at most 80 bits, so bits that the smaller one loses decide no
// rounding.
inline uint32_t add_rounded(const WideFloat& x, const WideFloat& y, const FloatFormat& format) {
  if (x.magnitude == 0 || y.magnitude == 0) return round_to(x.magnitude == 0 ? y : x, format);
  WideFloat large = normalised(x), small = normalised(y);
  if (large.exponent < small.exponent ||
      (large.exponent == small.exponent && large.magnitude < small.magnitude)) {
    const WideFloat other = large;
    large = small;
    small = other;
  }
  const Wide addend = shift_right_sticky(small.magnitude, large.exponent - small.exponent);
  const bool minus = large.negative != small.negative;
  const Wide total = minus ? large.magnitude - addend : large.magnitude + addend;
  return round_to({large.negative, total, large.exponent}, format);
}

// A finite float16 or float32 as an integer and an exponent.
inline WideFloat widen(uint32_t bits, const FloatFormat& format) {
  const uint32_t magnitude = bits & (format.sign - 1), field = magnitude >> format.fraction;
  const uint32_t implicit = field == 0 ? 0 : 1u << format.fraction;
  const uint32_t fraction = magnitude & ((1u << format.fraction) - 1);
  const int unit = format.lowest_unit + static_cast<int>(field == 0 ? 0 : field - 1);
  return {(bits & format.sign) != 0, fraction | implicit, unit};
}

// sum * a * b + bias, rounded once. A bias that is not finite is the result.
inline uint32_t scale_exactly(int32_t sum, uint32_t a, uint32_t b, uint32_t bias,
                              const FloatFormat& format) {
  if ((bias & format.infinity) == format.infinity) return bias;  // or NaN
  const Unpacked x = unpack(a), y = unpack(b);
  const uint32_t magnitude = sum < 0 ? 0u - static_cast<uint32_t>(sum) : static_cast<uint32_t>(sum);
  const uint64_t scale = static_cast<uint64_t>(x.mantissa) * y.mantissa;
  const bool negative = (sum < 0) ^ x.negative ^ y.negative;
  return add_rounded({negative, static_cast<Wide>(scale) * magnitude, x.exponent + y.exponent},
                     widen(bias, format), format);
}

// Estimates `scale_exactly` in doubles: the product of the scales is exact, the other two
// operations round. Returns a nonzero value if the error leaves two results or the result is NaN.
inline uint32_t scale_quickly(int32_t sum, float a, float b, float bias, float& result) {
  const double product = static_cast<double>(sum) * (static_cast<double>(a) * b);
  const double total = product + static_cast<double>(bias) + 0.0;  // -0 becomes +0
  const double error = (__builtin_fabs(product) + __builtin_fabs(total)) * 0x1p-51;
  const float low = static_cast<float>(total - error), high = static_cast<float>(total + error);
  result = low;
  return (to_bits(low) ^ to_bits(high)) | (low != low);
}

// sum * a * b in ONNX Runtime's float32, rounded after each operation.
inline float scale_float32(int32_t sum, float a, float b) {
  return static_cast<float>(sum) * (a * b);
}

inline uint32_t float32_of(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & kFloat16.sign) << 16;
  if ((half & kFloat16.infinity) == kFloat16.infinity) {
    return sign | kFloat32.infinity | static_cast<uint32_t>(half & 0x3ff) << 13;
  }
  const WideFloat x = widen(half, kFloat16);
  return pack(x.negative, static_cast<uint64_t>(x.magnitude), x.exponent, false);
}

// Rounds a float32 to float16.
inline uint16_t narrow(uint32_t bits) {
  const uint32_t sign = bits >> 16 & kFloat16.sign, magnitude = bits & ~kFloat32.sign;
  if (magnitude > kFloat32.infinity) {
    return static_cast<uint16_t>(sign | kFloat16.infinity | 0x200 | (magnitude >> 13 & 0x1ff));
  }
  if (magnitude == kFloat32.infinity) return static_cast<uint16_t>(sign | kFloat16.infinity);
  const Unpacked x = unpack(bits);
  return static_cast<uint16_t>(pack(x.negative, x.mantissa, x.exponent, false, kFloat16));
}

}  // namespace
}  // namespace dmlax
