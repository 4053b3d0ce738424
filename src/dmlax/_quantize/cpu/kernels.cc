// Kernels of the element-wise operators, compiled once for each SIMD header: loops over groups of
// elements, which compilers vectorise. Functions of headers have internal linkage, so that the
// linker never takes one from another instruction set.
//
// The thread may flush subnormals. Where that could change a result, floats are taken apart as
// integers.
#include "dmlax/_quantize/cpu/kernels.h"

#include <type_traits>

#include "dmlax/_cpu/quantize.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// ---- dequantize ----------------------------------------------------------------------------
// A difference of 8 or 16 bits is a float32. Its product with a normal scale is rounded once and is
// not subnormal. A difference of 32 bits and its product, up to 2^29, are doubles. Every product
// with a float16 scale is a double.

constexpr double kMostExact = 0x1p29;

inline bool is_normal(float scale) {
  const uint32_t field = bit_cast<uint32_t>(scale) & kInfinity;
  return field != 0 && field != kInfinity;
}

// Rounds a double that is not NaN to nearest, ties to even.
inline uint16_t round_to_float16(double value) {
  const double magnitude = __builtin_fabs(value);
  const int64_t exponent = static_cast<int64_t>(bit_cast<uint64_t>(magnitude) >> 52) - 1023;
  const int64_t unit = exponent < -14 ? -24 : exponent - 10;  // exponent of the last bit
  const double shift = bit_cast<double>(static_cast<uint64_t>(unit + 52 + 1023) << 52);
  const uint64_t fraction = bit_cast<uint64_t>(magnitude + shift) & 0xfff;  // at most 2^11
  const uint64_t bits = (static_cast<uint64_t>(unit + 24) << 10) + fraction;
  return static_cast<uint16_t>((bits < 0x7c00 ? bits : 0x7c00) | (value < 0 ? 0x8000 : 0));
}

// The difference of integers. `flip` turns sign bits so that they compare as unsigned.
template <typename Exact, typename Integer>
inline Exact subtract(Integer input, Integer zero, Integer flip) {
  constexpr Integer kSign = sizeof(Integer) < 4 ? 0 : static_cast<Integer>(0x80000000);
  const Integer a = input ^ flip ^ kSign, b = zero ^ flip ^ kSign;
  const int32_t signed_a = static_cast<int32_t>(a), signed_b = static_cast<int32_t>(b);
  if constexpr (sizeof(Integer) < 4) {
    return static_cast<Exact>(signed_a - signed_b);
  } else {
    return static_cast<Exact>(signed_a) - static_cast<Exact>(signed_b);
  }
}

// Dequantizes a group with any scale.
template <bool kOneEach, typename Integer>
__attribute__((noinline)) void dequantize_each(Integer flip, const Integer* input,
                                               const Parameters<Integer>& params, float* output) {
  for (int64_t i = 0; i < kGroup; ++i) {
    const int64_t at = kOneEach ? i : 0;
    const int64_t difference = static_cast<int64_t>(static_cast<Integer>(input[i] ^ flip)) -
                               static_cast<int64_t>(static_cast<Integer>(params.zero[at] ^ flip));
    const Unpacked scale = unpack(bit_cast<uint32_t>(params.scale[at]));
    const uint64_t magnitude = static_cast<uint64_t>(difference < 0 ? -difference : difference);
    const bool negative = difference != 0 && (difference < 0) != scale.negative;
    const uint32_t bits = pack(negative, magnitude * scale.mantissa, scale.exponent, false);
    __builtin_memcpy(&output[i], &bits, sizeof bits);
  }
}

template <bool kOneEach, typename Integer>
inline void dequantize_group(Integer flip, const Integer* input, const Parameters<Integer>& params,
                             float* __restrict output) {
  using Exact = std::conditional_t<sizeof(Integer) < 4, float, double>;
  const float first_scale = *params.scale;
  const Integer first_zero = *params.zero;
  uint32_t any_other = kOneEach ? 0 : !is_normal(first_scale);
  for (int64_t i = 0; i < kGroup; ++i) {
    const float scale = kOneEach ? params.scale[i] : first_scale;
    if (kOneEach) any_other |= !is_normal(scale);
    const Integer zero = kOneEach ? params.zero[i] : first_zero;
    const Exact difference = subtract<Exact>(input[i], zero, flip);
    if (sizeof(Integer) == 4) any_other |= __builtin_fabs(difference) > kMostExact;
    output[i] = static_cast<float>(difference * static_cast<Exact>(scale)) + 0.0f;
  }
  if (__builtin_expect(any_other != 0, 0)) {
    dequantize_each<kOneEach>(flip, input, params, output);
  }
}

template <bool kOneEach, typename Integer>
inline void dequantize_group(Integer flip, const Integer* input, const Parameters<Integer>& params,
                             uint16_t* output) {
  for (int64_t i = 0; i < kGroup; ++i) {
    const int64_t at = kOneEach ? i : 0;
    const double difference = subtract<double>(input[i], params.zero[at], flip);
    output[i] = round_to_float16(difference * static_cast<double>(params.scale[at]));
  }
}

template <bool kOneEach, typename Integer, typename Output>
void dequantize_span(const ElementSpan& span) {
  constexpr Integer kSign = static_cast<Integer>(Integer{1} << (8 * sizeof(Integer) - 1));
  const Integer flip = span.is_signed ? kSign : 0;
  const Parameters<Integer> all = {span.scale, static_cast<const Integer*>(span.zero_point)};
  for_each_group<kOneEach>(
      static_cast<const Integer*>(span.input), all, static_cast<Output*>(span.output), span.count,
      [&](const Integer* input, const Parameters<Integer>& params, Output* output) {
        dequantize_group<kOneEach>(flip, input, params, output);
      });
}

template <bool kOneEach, typename Integer>
void dequantize_to(const ElementSpan& span) {
  return span.to_float16 ? dequantize_span<kOneEach, Integer, uint16_t>(span)
                         : dequantize_span<kOneEach, Integer, float>(span);
}

template <typename Integer>
void dequantize_as(const ElementSpan& span) {
  return span.one_each ? dequantize_to<true, Integer>(span) : dequantize_to<false, Integer>(span);
}

void dequantize(int64_t bytes, const ElementSpan& span) {
  switch (bytes) {
    case 1:
      return dequantize_as<uint8_t>(span);
    case 2:
      return dequantize_as<uint16_t>(span);
    default:
      return dequantize_as<uint32_t>(span);
  }
}

}  // namespace

extern const ElementwiseKernels elementwise_kernels;
const ElementwiseKernels elementwise_kernels = {quantize, dequantize, widen_all};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
