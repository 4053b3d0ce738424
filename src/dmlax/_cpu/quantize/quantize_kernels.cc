// Kernels of quantizations and dequantizations, compiled once for each SIMD header: loops over
// groups of elements, which compilers vectorise.
//
// The thread may flush subnormals. Where that could change a result, floats are taken apart as
// integers.
#include "dmlax/_cpu/quantize/quantize_kernels.h"

#include <type_traits>

#include "dmlax/_cpu/requantize.h"
#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// ---- quantize ------------------------------------------------------------------------------
// round(x / scale) + zero point, exact or in ONNX Runtime's float32.

constexpr int64_t kGroup = 64;  // elements; a loop of a fixed length needs no rest

constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

// Widens float16 to float32 exactly, with integers only: subnormals, infinities and NaN included.
void widen_all(const uint16_t* halves, int64_t count, float* floats) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t sign = static_cast<uint32_t>(halves[i] & 0x8000) << 16;
    const int32_t magnitude = halves[i] & 0x7fff;
    const uint32_t is_subnormal = -static_cast<uint32_t>(magnitude < 0x400);
    const uint32_t is_special = -static_cast<uint32_t>(magnitude >= 0x7c00);
    const uint32_t subnormal = bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    const uint32_t normal =
        (static_cast<uint32_t>(magnitude) << 13) + (112u << 23) + (is_special & (112u << 23));
    floats[i] = bit_cast<float>(sign | (is_subnormal & subnormal) | (~is_subnormal & normal));
  }
}

// A quotient in float32 estimates the exact quotient. It rounds wrongly only if it is a tie: ties
// are float32 values, and rounding to float32 is monotonic. An int32 is rounded before it is
// divided, so that its quotient is up to 256 * 2.01 * 2^-24 off, which kBand allows.
//
// If all elements share a scale, they are multiplied by its reciprocal. The reciprocal, the product
// and an int32 are rounded once, by 256 * 3.01 * 2^-24 together, which kBand allows as well. A
// float32 quotient that is a tie is then near a tie, too. The fixed-point numbers of requantize.h
// allow the same errors: one of 2^-24 in the factor, and one in an int32 or a float32 quotient.

// Parameters of neighbouring elements: one for all, or one for each.
template <typename Zero>
struct Parameters {
  const float* scale;
  const Zero* zero;
};

// With at least this scale, the quotient of a subnormal is below one half, as if flushed.
constexpr uint32_t kLeastScale = (127u - 120u) << 23;

// With at most this scale, the reciprocal is normal, and in fixed point, too.
constexpr uint32_t kMostScale = (127u + 110u) << 23;

inline bool is_small(float scale) { return (to_bits(scale) & kMagnitude) < kLeastScale; }

inline bool is_power_of_two(float scale) { return (to_bits(scale) & 0x7fffff) == 0; }

// A float32 as a double. Subnormals are kept.
inline double widen(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & kMagnitude) >= kInfinity) return value;
  return to_double(bits);
}

inline double widen(int32_t value) { return value; }

// Parameters that all groups of a span share.
struct Quantization {
  bool is_signed, exact;
  float band;        // estimates at least this far off an integer are near a tie
  float reciprocal;  // a shared scale's; 0: elements are divided
};

template <bool kOneEach>
inline Simd::Int32s round_quotients(const float* input, const float* scale, int vector,
                                    Simd::Floats band, uint64_t& near_ties) {
  Simd::Floats scales;
  if constexpr (kOneEach) {
    scales = Simd::load_columns(scale, vector);
  } else {
    scales = Simd::broadcast_float(*scale);
  }
  const Simd::Floats quotients = Simd::divide(Simd::load_columns(input, vector), scales);
  const Simd::Floats clamped =
      Simd::clamp(quotients, Simd::broadcast_float(-kLimit), Simd::broadcast_float(kLimit));
  Simd::Int32s rounded;
  near_ties |= Simd::round(clamped, band, rounded);
  return rounded;
}

// Adds zero points to a group's vectors rounded(j) and saturates them.
template <bool kOneEach, typename Rounded>
inline void store_group(const Quantization& all, const uint8_t* zero, uint8_t* bytes,
                        const Rounded& rounded) {
  constexpr int kPacked = Simd::kVectorsPacked;
  const uint8_t flip = all.is_signed ? 0x80 : 0;
  int32_t zeros[kGroup];
  if constexpr (kOneEach) {
    for (int64_t i = 0; i < kGroup; ++i) zeros[i] = (zero[i] ^ flip) - flip;
  }
#pragma GCC unroll 2
  for (int first = 0; first < kVectors; first += kPacked) {
    Simd::Int32s vectors[kPacked];
#pragma GCC unroll 4
    for (int j = 0; j < kPacked; ++j) {
      vectors[j] = rounded(first + j);
      if constexpr (kOneEach) {
        vectors[j] = Simd::add(vectors[j], Simd::load_columns(zeros, first + j));
      }
    }
    Simd::store_bytes(bytes + Simd::kLanes * first, vectors, kOneEach ? 0 : (*zero ^ flip) - flip,
                      all.is_signed);
  }
}

// Corrects estimates that were rounded to a neighbour. Doubles hold every step: the rest is a
// multiple of the last bit of the input or of the scale, and less than the scale. Quotients beyond
// kLimit only move further away, and NaN stays.
template <bool kOneEach, typename Input>
__attribute__((noinline)) void resolve_ties(const Quantization& all, const Input* input,
                                            const float* estimated,
                                            const Parameters<uint8_t>& params, uint8_t* bytes) {
  int32_t rounded[kGroup];
  uint64_t near_ties = 0;
  for (int j = 0; j < kVectors; ++j) {
    const Simd::Floats band = Simd::broadcast_float(kNever);
    Simd::store_columns(rounded, j,
                        round_quotients<kOneEach>(estimated, params.scale, j, band, near_ties));
  }
  for (int64_t i = 0; i < kGroup; ++i) {  // bits instead of branches vectorise
    const double scale = params.scale[kOneEach ? i : 0];
    const double rest = static_cast<double>(input[i]) - rounded[i] * scale;
    const double excess = __builtin_fabs(rest) - 0.5 * __builtin_fabs(scale);
    const uint64_t if_positive = bit_cast<uint64_t>(excess) + (rounded[i] & 1);
    const uint64_t away = (0 - if_positive) >> 63;
    const uint64_t negative = (bit_cast<uint64_t>(rest) ^ bit_cast<uint64_t>(scale)) >> 63;
    rounded[i] += static_cast<int32_t>(away - 2 * (away & negative));
  }
  store_group<kOneEach>(all, params.zero, bytes,
                        [&](int j) { return Simd::load_columns(rounded, j); });
}

// For any scale: a quotient in double is a tie, or too far from one to be rounded wrongly.
template <bool kOneEach, typename Input>
__attribute__((noinline)) void quantize_each(const Quantization& all, const Input* input,
                                             const float* estimated,
                                             const Parameters<uint8_t>& params, uint8_t* bytes) {
  int32_t nearest[kGroup];
  for (int64_t i = 0; i < kGroup; ++i) {
    const double value = all.exact ? widen(input[i]) : widen(estimated[i]);
    const double quotient = value / widen(params.scale[kOneEach ? i : 0]);
    const double raised = quotient > -kLimit ? quotient : -kLimit;
    const double clamped = raised < kLimit ? raised : kLimit;
    const double rounded = all.exact ? clamped : static_cast<float>(clamped);
    nearest[i] = static_cast<int32_t>((rounded + 0x1.8p52) - 0x1.8p52);
  }
  store_group<kOneEach>(all, params.zero, bytes,
                        [&](int j) { return Simd::load_columns(nearest, j); });
}

// Returns whether a quotient is near a tie.
template <bool kOneEach>
inline uint64_t divide_group(const Quantization& all, float band, const float* estimated,
                             const Parameters<uint8_t>& params, uint8_t* bytes) {
  const Simd::Floats bands = Simd::broadcast_float(band);
  uint64_t near_ties = 0;
  store_group<kOneEach>(all, params.zero, bytes, [&](int j) {
    return round_quotients<kOneEach>(estimated, params.scale, j, bands, near_ties);
  });
  return near_ties;
}

// Multiplies by the reciprocal of a shared scale.
inline uint64_t multiply_group(const Quantization& all, const float* estimated,
                               const Parameters<uint8_t>& params, uint8_t* bytes) {
  const Simd::Floats band = Simd::broadcast_float(all.band);
  const Simd::Floats factor = Simd::broadcast_float(all.reciprocal);
  const Simd::Floats low = Simd::broadcast_float(-kLimit), high = Simd::broadcast_float(kLimit);
  uint64_t near_ties = 0;
  store_group<false>(all, params.zero, bytes, [&](int j) {
    const Simd::Floats products = Simd::multiply(Simd::load_columns(estimated, j), factor);
    Simd::Int32s rounded;
    near_ties |= Simd::round(Simd::clamp(products, low, high), band, rounded);
    return rounded;
  });
  return near_ties;
}

template <bool kOneEach>
inline bool is_any_small(const float* scale) {
  if constexpr (!kOneEach) return is_small(*scale);
  uint32_t any = 0;
  for (int64_t i = 0; i < kGroup; ++i) any |= is_small(scale[i]);
  return any != 0;
}

// Quantizes a group with a near tie.
template <bool kOneEach, typename Input>
inline void resolve_group(const Quantization& all, const Input* input, const float* estimated,
                          const Parameters<uint8_t>& params, uint8_t* bytes) {
  if (all.exact) return resolve_ties<kOneEach>(all, input, estimated, params, bytes);
  divide_group<kOneEach>(all, kNever, estimated, params, bytes);
}

// Quantizes a group. `estimated` are the inputs in float32.
template <bool kOneEach, typename Input>
inline void quantize_group(const Quantization& all, const Input* input, const float* estimated,
                           const Parameters<uint8_t>& params, uint8_t* bytes) {
  if (__builtin_expect(is_any_small<kOneEach>(params.scale), 0)) {
    return quantize_each<kOneEach>(all, input, estimated, params, bytes);
  }
  const bool multiplies = !kOneEach && all.reciprocal != 0;
  const uint64_t near_ties = multiplies
                                 ? multiply_group(all, estimated, params, bytes)
                                 : divide_group<kOneEach>(all, all.band, estimated, params, bytes);
  if (__builtin_expect(near_ties == 0, 1)) return;
  resolve_group<kOneEach>(all, input, estimated, params, bytes);
}

// A group in float32: the input, or a copy in `floats`.
inline const float* to_floats(const float* input, float*) { return input; }

inline const float* to_floats(const int32_t* input, float* floats) {
  for (int64_t i = 0; i < kGroup; ++i) floats[i] = static_cast<float>(input[i]);
  return floats;
}

inline const float* to_floats(const uint16_t* input, float* floats) {
  widen_all(input, kGroup, floats);
  return floats;
}

inline const int32_t* exact_of(const int32_t* input, const float*) { return input; }

// Floats are exact in float32.
inline const float* exact_of(const void*, const float* estimated) { return estimated; }

// Copies the last elements and fills up the group.
template <typename T>
inline const T* fill_up(const T* elements, int64_t left, T filling, T* group) {
  for (int64_t i = 0; i < kGroup; ++i) group[i] = filling;
  __builtin_memcpy(group, elements, static_cast<size_t>(left) * sizeof(T));
  return group;
}

// Calls run(inputs, parameters, outputs) for every group. The last group is a padded copy.
template <bool kOneEach, typename Input, typename Zero, typename Output, typename Run>
inline void for_each_group(const Input* input, Parameters<Zero> all, Output* output, int64_t count,
                           const Run& run) {
  int64_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    const int64_t at = kOneEach ? i : 0;
    const Parameters<Zero> params = {all.scale + at, all.zero + at};
    run(input + i, params, output + i);
  }
  const int64_t left = count - i;
  if (left == 0) return;
  Input inputs[kGroup];
  Output outputs[kGroup];
  float scales[kGroup];
  Zero zeros[kGroup];
  Parameters<Zero> params = all;
  if (kOneEach) {
    params = {fill_up(all.scale + i, left, 1.0f, scales),
              fill_up(all.zero + i, left, Zero{0}, zeros)};
  }
  run(fill_up(input + i, left, Input{0}, inputs), params, outputs);
  __builtin_memcpy(output + i, outputs, static_cast<size_t>(left) * sizeof(Output));
}

template <bool kOneEach, typename Input>
void quantize_span(const Quantization& all, const ElementSpan& span) {
  for_each_group<kOneEach>(
      static_cast<const Input*>(span.input),
      Parameters<uint8_t>{span.scale, static_cast<const uint8_t*>(span.zero_point)},
      static_cast<uint8_t*>(span.output), span.count,
      [&](const Input* input, const Parameters<uint8_t>& params, uint8_t* output) {
        float floats[kGroup];
        const float* estimated = to_floats(input, floats);
        quantize_group<kOneEach>(all, exact_of(input, estimated), estimated, params, output);
      });
}

// Multiplies by the reciprocal of a shared scale. Only the numbers of kFixed, in fixed point, may
// be near a tie.
template <bool kFixed, typename Input, typename S = Simd>
void multiply_span(const Quantization& all, const ElementSpan& span) {
  constexpr int kPacked = S::kVectorsPacked;
  constexpr float kUnit = kFixed ? kFixedScale : 1, kOrigin = kFixed ? kFixedOrigin : 0;
  const bool is_signed = all.is_signed;
  const int32_t zero = byte_value(*static_cast<const uint8_t*>(span.zero_point), is_signed);
  const auto factor = S::broadcast_float(all.reciprocal * kUnit);
  const auto origin = S::broadcast_float(kOrigin), not_near_tie = S::broadcast(kNotNearTie);
  const auto low = S::broadcast_float(kOrigin - 255.75f * kUnit);
  const auto high = S::broadcast_float(kOrigin + 255.25f * kUnit);
  for_each_group<false>(
      static_cast<const Input*>(span.input),
      Parameters<uint8_t>{span.scale, static_cast<const uint8_t*>(span.zero_point)},
      static_cast<uint8_t*>(span.output), span.count,
      [=](const Input* input, const Parameters<uint8_t>& params, uint8_t* output) {
        float floats[kGroup];
        const float* estimated = to_floats(input, floats);
        typename S::NearTies near_ties(not_near_tie);
#pragma GCC unroll 2
        for (int first = 0; first < kVectors; first += kPacked) {
          typename S::Int32s rounded[kPacked];
#pragma GCC unroll 4
          for (int j = 0; j < kPacked; ++j) {
            const auto x = S::load_floats(estimated + S::kLanes * (first + j));
            const auto product = S::clamp(S::fused_multiply_add(x, factor, origin), low, high);
            rounded[j] = kFixed ? S::fixed_integer(product, near_ties) : S::to_integers(product);
          }
          S::template store_bytes_in_order<kFixed>(output + S::kLanes * first, rounded, zero,
                                                   is_signed);
        }
        if (kFixed && __builtin_expect(near_ties.any(), 0)) {
          resolve_group<false>(all, exact_of(input, estimated), estimated, params, output);
        }
      });
}

template <typename Input>
void quantize_as(const ElementSpan& span) {
  constexpr bool kIsRounded = std::is_same_v<Input, int32_t>;  // before the division
  Quantization all = {span.is_signed, span.exact, kNever, 0};
  if (span.exact) all.band = kIsRounded ? kBand : 0.5f;
  if (span.one_each) return quantize_span<true, Input>(all, span);
  const uint32_t magnitude = bit_cast<uint32_t>(*span.scale) & kMagnitude;
  if (magnitude >= kLeastScale && magnitude <= kMostScale) {
    all.reciprocal = 1 / *span.scale;
    all.band = kBand;
  }
  if (!kIsRounded && is_power_of_two(*span.scale)) all.band = kNever;
  if constexpr (Simd::kRequantizesRows) {
    if (all.reciprocal != 0 && all.band == kBand) return multiply_span<true, Input>(all, span);
    if (all.reciprocal != 0) return multiply_span<false, Input>(all, span);
  }
  quantize_span<false, Input>(all, span);
}

void quantize(QuantizeInput type, const ElementSpan& span) {
  switch (type) {
    case QuantizeInput::float32:
      return quantize_as<float>(span);
    case QuantizeInput::float16:
      return quantize_as<uint16_t>(span);
    case QuantizeInput::int32:
      return quantize_as<int32_t>(span);
  }
}

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

// ---- range ---------------------------------------------------------------------------------

// Compares floats as integers, because the thread may flush subnormals. The least negative float
// has the greatest bits.
template <typename Signed, typename Bits>
OrderedRange range(const Bits* bits, int64_t count) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  Signed high = 0;
  Bits greatest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Signed value = static_cast<Signed>(bits[i]);
    high = value > high ? value : high;
    greatest = bits[i] > greatest ? bits[i] : greatest;
  }
  const bool has_negative = greatest >= kSign;
  return {has_negative ? static_cast<Signed>(greatest ^ (kSign - 1)) : 0, high};
}

}  // namespace

template <>
const ElementwiseKernels Table<ElementwiseKernels>::kernels = {quantize, dequantize, widen_all,
                                                               range<int32_t>, range<int16_t>};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
