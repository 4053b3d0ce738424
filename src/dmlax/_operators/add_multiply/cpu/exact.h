// Scalar sums and products, rounded exactly or by ONNX Runtime's float32.
//
// The thread may flush subnormals. Scales therefore become doubles by their bits; no value of these
// formulas is then subnormal.
#pragma once

#include "dmlax/_operators/add_multiply/cpu/add_multiply_kernels.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {
namespace {

// round((a * sa + b * sb) / sy) to even. Quotients beyond 511 return 511 or -511.
//
// Doubles hold both products and 2 q + 1 times a scale. The rounded sum is on the same side of a
// tie as the exact sum, or equals the tie. Then the rounding error decides.
inline int32_t round_sum(int32_t a, double a_scale, int32_t b, double b_scale,
                         double output_scale) {
  const double x = a * a_scale, y = b * b_scale, sum = x + y;
  const double from_y = sum - x;
  const double lost = (x - (sum - from_y)) + (y - from_y);
  const double size = sum < 0 ? -sum : sum, unit = output_scale < 0 ? -output_scale : output_scale;
  const double beyond = sum < 0 ? -lost : lost;
  const double quotient = size / unit;
  if (!(quotient < 511)) return (sum < 0) ^ (output_scale < 0) ? -511 : 511;
  const int32_t below = static_cast<int32_t>(quotient);
  const double tie = (2 * below + 1) * (0.5 * unit);
  const bool up = size > tie || (size == tie && (beyond > 0 || (beyond == 0 && (below & 1))));
  const int32_t rounded = below + up;
  return (sum < 0) ^ (output_scale < 0) ? -rounded : rounded;
}

// ONNX Runtime's conversion: values that no int32 holds become the lowest byte.
inline uint8_t round_float32(float value, bool is_signed) {
  const int32_t lowest = is_signed ? -128 : 0;
  if (!(value < 0x1p31f)) return static_cast<uint8_t>(lowest);
  constexpr float kShift = 0x1.8p23f;  // adding and subtracting it rounds to even
  const float clamped = value < -512 ? -512 : value > 512 ? 512 : value;
  return saturate(static_cast<int32_t>((clamped + kShift) - kShift), is_signed);
}

inline uint8_t add_one(const BinaryParams& params, uint8_t a, uint8_t b) {
  const uint8_t x = a ^ params.a.flip, y = b ^ params.b.flip;
  if (params.exact) {
    const int32_t rounded =
        round_sum(x - params.a.zero, to_double(params.a.scale), y - params.b.zero,
                  to_double(params.b.scale), to_double(params.output_scale));
    return saturate(rounded + params.output_zero, params.output_signed);
  }
  const float inner = __builtin_fmaf(y + params.b_bias, params.b_factor, params.offset);
  return round_float32(__builtin_fmaf(x + params.a_bias, params.a_factor, inner),
                       params.output_signed);
}

inline uint8_t multiply_one(const BinaryParams& params, uint8_t a, uint8_t b) {
  const int32_t x = (a ^ params.a.flip) - params.a.zero, y = (b ^ params.b.flip) - params.b.zero;
  const float product = static_cast<float>(x * y) * params.a_factor;
  if (!params.exact) return round_float32(product + params.offset, params.output_signed);
  if (!(product > -512 && product < 512)) {
    return saturate(product < 0 ? -512 : 512, params.output_signed);
  }
  if (__builtin_fabsf(product) < 0.25f) return saturate(params.output_zero, params.output_signed);
  const Scales scales = {params.a.scale, params.b.scale, params.output_scale};
  return saturate(round_near_tie(x * y, scales, product) + params.output_zero,
                  params.output_signed);
}

}  // namespace
}  // namespace dmlax
