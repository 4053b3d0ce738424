// Quantization in C++: round(x / scale) + zero point, exact or in ONNX Runtime's float32. Kernels
// include this once for each instruction set, so that everything is local.
//
// The thread may flush subnormals. They are therefore taken apart as integers wherever one could
// change a result.
#ifndef DMLAX_CPU_QUANTIZE_H_
#define DMLAX_CPU_QUANTIZE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dmlax/_cpu/quantize_span.h"
#include "dmlax/_cpu/requantize.h"
#include "dmlax/_cpu/simd/interface.h"

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

constexpr int64_t kGroup = 64;  // elements: a loop of a fixed length has no rest

template <typename To, typename From>
inline To bit_cast(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  __builtin_memcpy(&result, &value, sizeof result);
  return result;
}

constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

// float16 as float32, exact, with integers only: subnormals, infinities and NaN included.
void widen_all(const uint16_t* halves, int64_t count, float* floats) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t sign = static_cast<uint32_t>(halves[i] & 0x8000) << 16;
    const int32_t magnitude = halves[i] & 0x7fff;
    const uint32_t is_subnormal = -static_cast<uint32_t>(magnitude < 0x400);
    const uint32_t is_special = -static_cast<uint32_t>(magnitude >= 0x7c00);
    const uint32_t subnormal = bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    const uint32_t normal = (static_cast<uint32_t>(magnitude) << 13) + (112u << 23) +
                            (is_special & (112u << 23));
    floats[i] = bit_cast<float>(sign | (is_subnormal & subnormal) | (~is_subnormal & normal));
  }
}

// A quotient in float32 is an estimate of the rational one. It is rounded wrongly only where it is
// a tie itself: ties are float32 values, and rounding to float32 is monotonic. An int32 is rounded
// before it is divided, so that its quotient is up to 256 * 2.01 * 2^-24 off, less than kBand has.
//
// A scale that all elements share is not divided by: its reciprocal, a product with it and an
// int32 are each rounded once, by 256 * 3.01 * 2^-24 together, which is less as well. A quotient in
// float32 that is a tie is so near one, too.

// The parameters of neighbouring elements: one for all, or one each.
template <typename Zero>
struct Parameters {
  const float* scale;
  const Zero* zero;
};

// At least this, a subnormal input's quotient is below one half, as if flushed.
constexpr uint32_t kLeastScale = (127u - 120u) << 23;

// At most this, a reciprocal is normal.
constexpr uint32_t kMostScale = (127u + 120u) << 23;

inline bool is_small(float scale) {
  return (bit_cast<uint32_t>(scale) & kMagnitude) < kLeastScale;
}

inline bool is_power_of_two(float scale) { return (bit_cast<uint32_t>(scale) & 0x7fffff) == 0; }

// A float32 as a double, subnormals kept.
inline double widen(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & kMagnitude) >= kInfinity) return value;
  const Unpacked unpacked = unpack(bits);
  const double magnitude = unpacked.mantissa * power_of_two(unpacked.exponent);
  return unpacked.negative ? -magnitude : magnitude;
}

inline double widen(int32_t value) { return value; }

// What the groups of a span have in common.
struct Quantization {
  bool is_signed, exact;
  float band;        // of estimates near a tie
  float reciprocal;  // of the scale that all share, and multiply instead; 0: they divide
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
  const Simd::Floats clamped = Simd::clamp(quotients, Simd::broadcast_float(-kLimit),
                                           Simd::broadcast_float(kLimit));
  Simd::Int32s rounded;
  near_ties |= Simd::round(clamped, band, rounded);
  return rounded;
}

// Adds zero points to rounded(j), a group's vectors, and saturates them.
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
    Simd::store_bytes(bytes + Simd::kLanes * first, vectors,
                      kOneEach ? 0 : (*zero ^ flip) - flip, all.is_signed);
  }
}

// Rounds again what the estimates may have rounded to a neighbour. Doubles hold every step: the
// rest is a multiple of the last bit of the input or of the scale, and less than the scale.
// Quotients beyond kLimit go further beyond, and NaN stays.
template <bool kOneEach, typename Input>
__attribute__((noinline)) void resolve_ties(const Quantization& all, const Input* input,
                                            const float* estimated,
                                            const Parameters<uint8_t>& own, uint8_t* bytes) {
  int32_t rounded[kGroup];
  uint64_t near_ties = 0;
  for (int j = 0; j < kVectors; ++j) {
    const Simd::Floats band = Simd::broadcast_float(kNever);
    Simd::store_columns(rounded, j,
                        round_quotients<kOneEach>(estimated, own.scale, j, band, near_ties));
  }
  for (int64_t i = 0; i < kGroup; ++i) {  // bits instead of branches, which would not vectorise
    const double scale = own.scale[kOneEach ? i : 0];
    const double rest = static_cast<double>(input[i]) - rounded[i] * scale;
    const double excess = __builtin_fabs(rest) - 0.5 * __builtin_fabs(scale);
    const uint64_t if_positive = bit_cast<uint64_t>(excess) + (rounded[i] & 1);
    const uint64_t away = (0 - if_positive) >> 63;
    const uint64_t negative = (bit_cast<uint64_t>(rest) ^ bit_cast<uint64_t>(scale)) >> 63;
    rounded[i] += static_cast<int32_t>(away - 2 * (away & negative));
  }
  store_group<kOneEach>(all, own.zero, bytes,
                        [&](int j) { return Simd::load_columns(rounded, j); });
}

// For any scale: the quotient in double is a tie, or too far off one to be rounded wrongly.
template <bool kOneEach, typename Input>
__attribute__((noinline)) void quantize_each(const Quantization& all, const Input* input,
                                             const float* estimated,
                                             const Parameters<uint8_t>& own, uint8_t* bytes) {
  int32_t nearest[kGroup];
  for (int64_t i = 0; i < kGroup; ++i) {
    const double value = all.exact ? widen(input[i]) : widen(estimated[i]);
    const double quotient = value / widen(own.scale[kOneEach ? i : 0]);
    const double raised = quotient > -kLimit ? quotient : -kLimit;
    const double clamped = raised < kLimit ? raised : kLimit;
    const double rounded = all.exact ? clamped : static_cast<float>(clamped);
    nearest[i] = static_cast<int32_t>((rounded + 0x1.8p52) - 0x1.8p52);
  }
  store_group<kOneEach>(all, own.zero, bytes,
                        [&](int j) { return Simd::load_columns(nearest, j); });
}

// Returns whether one is near a tie.
template <bool kOneEach>
inline uint64_t divide_group(const Quantization& all, float band, const float* estimated,
                             const Parameters<uint8_t>& own, uint8_t* bytes) {
  const Simd::Floats bands = Simd::broadcast_float(band);
  uint64_t near_ties = 0;
  store_group<kOneEach>(all, own.zero, bytes, [&](int j) {
    return round_quotients<kOneEach>(estimated, own.scale, j, bands, near_ties);
  });
  return near_ties;
}

// By the reciprocal of the scale that all share.
inline uint64_t multiply_group(const Quantization& all, const float* estimated,
                               const Parameters<uint8_t>& own, uint8_t* bytes) {
  const Simd::Floats band = Simd::broadcast_float(all.band);
  const Simd::Floats factor = Simd::broadcast_float(all.reciprocal);
  const Simd::Floats low = Simd::broadcast_float(-kLimit), high = Simd::broadcast_float(kLimit);
  uint64_t near_ties = 0;
  store_group<false>(all, own.zero, bytes, [&](int j) {
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

// `estimated` are the inputs in float32.
template <bool kOneEach, typename Input>
inline void quantize_group(const Quantization& all, const Input* input, const float* estimated,
                           const Parameters<uint8_t>& own, uint8_t* bytes) {
  if (__builtin_expect(is_any_small<kOneEach>(own.scale), 0)) {
    return quantize_each<kOneEach>(all, input, estimated, own, bytes);
  }
  const bool multiplies = !kOneEach && all.reciprocal != 0;
  const uint64_t near_ties = multiplies
                                 ? multiply_group(all, estimated, own, bytes)
                                 : divide_group<kOneEach>(all, all.band, estimated, own, bytes);
  if (__builtin_expect(near_ties == 0, 1)) return;
  if (all.exact) return resolve_ties<kOneEach>(all, input, estimated, own, bytes);
  divide_group<kOneEach>(all, kNever, estimated, own, bytes);
}

inline void to_floats(const int32_t* input, float* floats) {
  for (int64_t i = 0; i < kGroup; ++i) floats[i] = static_cast<float>(input[i]);
}

inline void to_floats(const uint16_t* input, float* floats) { widen_all(input, kGroup, floats); }

// Copies the elements that are left, and fills up the group.
template <typename T>
inline const T* fill_up(const T* elements, int64_t left, T filling, T* group) {
  for (int64_t i = 0; i < kGroup; ++i) group[i] = filling;
  __builtin_memcpy(group, elements, static_cast<size_t>(left) * sizeof(T));
  return group;
}

// run(group of inputs, its parameters, its outputs), the last of them copies.
template <bool kOneEach, typename Input, typename Zero, typename Output, typename Run>
inline void for_each_group(const Input* input, Parameters<Zero> all, Output* output,
                           int64_t count, const Run& run) {
  alignas(64) Output outputs[kGroup];
  int64_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    const int64_t at = kOneEach ? i : 0;
    const Parameters<Zero> own = {all.scale + at, all.zero + at};
    if constexpr (sizeof(Output) > 1) {
      run(input + i, own, output + i);
    } else {  // vectors of bytes are stored where they are aligned
      run(input + i, own, outputs);
      __builtin_memcpy(output + i, outputs, sizeof outputs);
    }
  }
  const int64_t left = count - i;
  if (left == 0) return;
  Input inputs[kGroup];
  float scales[kGroup];
  Zero zeros[kGroup];
  Parameters<Zero> own = all;
  if (kOneEach) {
    own = {fill_up(all.scale + i, left, 1.0f, scales),
           fill_up(all.zero + i, left, Zero{0}, zeros)};
  }
  run(fill_up(input + i, left, Input{0}, inputs), own, outputs);
  __builtin_memcpy(output + i, outputs, static_cast<size_t>(left) * sizeof(Output));
}

template <bool kOneEach, typename Input>
void quantize_span(const Quantization& all, const QuantizeSpan& span) {
  for_each_group<kOneEach>(
      static_cast<const Input*>(span.input), Parameters<uint8_t>{span.scale, span.zero_point},
      span.output, span.count,
      [&](const Input* input, const Parameters<uint8_t>& own, uint8_t* output) {
        if constexpr (std::is_same_v<Input, float>) {
          return quantize_group<kOneEach>(all, input, input, own, output);
        } else {
          float floats[kGroup];
          to_floats(input, floats);
          if constexpr (std::is_same_v<Input, int32_t>) {
            return quantize_group<kOneEach>(all, input, floats, own, output);
          } else {
            return quantize_group<kOneEach>(all, floats, floats, own, output);
          }
        }
      });
}

template <typename Input>
void quantize_as(const QuantizeSpan& span) {
  constexpr bool kIsRounded = std::is_same_v<Input, int32_t>;  // before it is divided
  Quantization all = {span.is_signed, span.exact, kNever, 0};
  if (span.exact) all.band = kIsRounded ? kBand : 0.5f;
  if (span.one_each) return quantize_span<true, Input>(all, span);
  const uint32_t magnitude = bit_cast<uint32_t>(*span.scale) & kMagnitude;
  if (magnitude >= kLeastScale && magnitude <= kMostScale) {
    all.reciprocal = 1 / *span.scale;
    all.band = kBand;
  }
  if (!kIsRounded && is_power_of_two(*span.scale)) all.band = kNever;
  quantize_span<false, Input>(all, span);
}

void quantize(QuantizeInput type, const QuantizeSpan& span) {
  switch (type) {
    case QuantizeInput::float32:
      return quantize_as<float>(span);
    case QuantizeInput::float16:
      return quantize_as<uint16_t>(span);
    case QuantizeInput::int32:
      return quantize_as<int32_t>(span);
  }
}

}  // namespace
}  // namespace DMLAX_ISA_NAMESPACE
}  // namespace dmlax

#endif  // DMLAX_CPU_QUANTIZE_H_
