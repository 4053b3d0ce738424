// Numbers of up to 128 bits with an exponent, which are rounded once to a float.
#pragma once

#include <utility>

#include "dmlax/_cpu/requantize.h"

namespace dmlax {
namespace {

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
  if (x.magnitude == 0) return x;
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

// x + y. Both have at most 80 bits, so bits that the smaller one loses decide no rounding; they set
// the last bit.
inline WideFloat add(const WideFloat& x, const WideFloat& y) {
  if (x.magnitude == 0 || y.magnitude == 0) return normalised(x.magnitude == 0 ? y : x);
  WideFloat large = normalised(x), small = normalised(y);
  if (large.exponent < small.exponent ||
      (large.exponent == small.exponent && large.magnitude < small.magnitude)) {
    std::swap(large, small);
  }
  const Wide addend = shift_right_sticky(small.magnitude, large.exponent - small.exponent);
  const bool minus = large.negative != small.negative;
  const Wide total = minus ? large.magnitude - addend : large.magnitude + addend;
  return {large.negative, total, large.exponent};
}

// A finite float16 or float32 as an integer and an exponent.
inline WideFloat widen(uint32_t bits, const FloatFormat& format) {
  const uint32_t magnitude = bits & (format.sign - 1), field = magnitude >> format.fraction;
  const uint32_t implicit = field == 0 ? 0 : 1u << format.fraction;
  const uint32_t fraction = magnitude & ((1u << format.fraction) - 1);
  const int unit = format.lowest_unit + static_cast<int>(field == 0 ? 0 : field - 1);
  return {(bits & format.sign) != 0, fraction | implicit, unit};
}

}  // namespace
}  // namespace dmlax
