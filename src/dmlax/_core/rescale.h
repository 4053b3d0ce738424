// The native kernels' rescale: round(acc * sx * sw / sy), exact or in ONNX Runtime's float32.
//
// Scales are taken apart as integers and put together as integers, since the thread may flush
// subnormals. Kernels include this once for each instruction set, so that everything is local.
#ifndef DMLAX_CORE_RESCALE_H_
#define DMLAX_CORE_RESCALE_H_

#include <cstdint>

namespace dmlax {

// |sx * sw / sy| = numerator / (denominator << shift), wherever `beside_half` is ever asked.
struct Ratio {
  uint64_t numerator;
  uint32_t denominator;
  int shift;
};

namespace {

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

// The bits of mantissa * 2^exponent, and a little more if `sticky`, rounded once to float32.
inline uint32_t pack(bool negative, uint64_t mantissa, int exponent, bool sticky) {
  const uint32_t sign = negative ? 1u << 31 : 0;
  if (mantissa == 0) return sign;
  const int top = 63 - __builtin_clzll(mantissa) + exponent;
  const int unit = top - 23 < -149 ? -149 : top - 23;
  const int shift = unit - exponent;
  if (top > 127) return sign | 0x7f800000;
  if (shift > 63) return sign;
  uint64_t kept = shift > 0 ? mantissa >> shift : mantissa << -shift;
  if (shift > 0) {
    const uint64_t half = uint64_t{1} << (shift - 1), rest = mantissa & (2 * half - 1);
    kept += rest > half || (rest == half && (sticky || (kept & 1)));
  }
  const bool subnormal = kept < 0x800000;
  const uint64_t bits = kept + (subnormal ? 0 : static_cast<uint64_t>(unit + 149) << 23);
  return sign | static_cast<uint32_t>(bits < 0x7f800000 ? bits : 0x7f800000);
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

// No rounding is in doubt unless the estimate is this near a half.
//
// The estimate fl(fl(acc) * fl(m)) has three relative errors of 2^-24 and m's of 2^-53, so up to
// 256 it is less than 256 * 3.01 * 2^-24 < 2^-14.3 off. Beyond 255 every integer saturates.
constexpr float kBand = 0.5f - 0x1p-14f;
constexpr float kNever = 1;
constexpr float kLimit = 256;

struct Multiplier {
  float estimate;
  float band;
  Ratio ratio;
};

// Beyond 2^10 any accumulator saturates, below 2^-33 none reaches a half; neither is in doubt.
inline Multiplier multiplier_exact(uint32_t a, uint32_t b, uint32_t c) {
  const Unpacked x = unpack(a), y = unpack(b), z = unpack(c);
  const bool negative = x.negative ^ y.negative ^ z.negative;
  const uint64_t numerator = static_cast<uint64_t>(x.mantissa) * y.mantissa;
  const int exponent = x.exponent + y.exponent - z.exponent;
  if (numerator == 0 || z.mantissa == 0) return {0, kNever, {0, 1, 0}};
  const double quotient = static_cast<double>(numerator) / z.mantissa;  // in (2^22, 2^25)
  if (exponent < -60) return {0, kNever, {0, 1, 0}};
  const double power = exponent < 0 ? 1.0 / static_cast<double>(uint64_t{1} << -exponent) : 1;
  const double magnitude = exponent < 0 ? quotient * power : 0x1p11;
  if (magnitude < 0x1p-33) return {0, kNever, {0, 1, 0}};
  if (magnitude > 0x1p10) return {negative ? -1024.f : 1024.f, kNever, {0, 1, 0}};
  const float estimate = static_cast<float>(negative ? -magnitude : magnitude);
  // Products with a power of two are exact, for accumulators of 24 bits; larger ones saturate.
  uint32_t bits;
  __builtin_memcpy(&bits, &estimate, sizeof bits);
  const bool exact = (bits & 0x7fffff) == 0 && magnitude >= 0x1p-15 &&
                     numerator == (numerator / z.mantissa) * z.mantissa &&
                     static_cast<double>(estimate) == (negative ? -magnitude : magnitude);
  return {estimate, exact ? kNever : kBand, {numerator, z.mantissa, -exponent}};
}

// round(acc * m) to even, where |estimate| is at most kBand's error from a half below 256.
inline int32_t beside_half(int32_t accumulator, const Ratio& ratio, float estimate) {
  using Wide = unsigned __int128;
  const uint32_t bits = static_cast<uint32_t>(accumulator);
  const uint64_t magnitude = accumulator < 0 ? 0u - bits : bits;
  const int32_t below = static_cast<int32_t>(estimate < 0 ? -estimate : estimate);
  const Wide twice = static_cast<Wide>(2 * magnitude) * ratio.numerator;
  const Wide odd = static_cast<Wide>(static_cast<uint64_t>(2 * below + 1) * ratio.denominator)
                   << ratio.shift;
  const int32_t rounded = below + (twice > odd || (twice == odd && (below & 1)));
  return estimate < 0 ? -rounded : rounded;
}

}  // namespace
}  // namespace dmlax

#endif  // DMLAX_CORE_RESCALE_H_
