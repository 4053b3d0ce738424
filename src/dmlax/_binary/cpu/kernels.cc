// The kernels of the operators on two tensors, compiled once for each instruction set.
//
// An exact element is estimated in float32, less and plus the estimate's error. Where the two round
// to different bytes, `exact.h` decides.
#include "dmlax/_binary/cpu/kernels.h"

#include <cstring>

#include "dmlax/_binary/cpu/exact.h"
#include "dmlax/_cpu/simd/interface.h"

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

constexpr int kPacked = Simd::kVectorsPacked;
constexpr int kPackedBytes = Simd::kLanes * kPacked;
constexpr float kLimit = 1024;  // beyond it every estimate saturates

static_assert(kBinaryGroup % kPackedBytes == 0);

using Element = uint8_t (*)(const BinaryParams&, uint8_t, uint8_t);

struct Sum {
  static constexpr Element kElement = add_one;
  static constexpr bool kHasBias = false;  // of an exact estimate: the offset has it

  const Simd::Floats a_factor, b_factor, offset;

  explicit Sum(const BinaryParams& params, float less)
      : a_factor(Simd::broadcast_float(params.a_factor)),
        b_factor(Simd::broadcast_float(params.b_factor)),
        offset(Simd::broadcast_float(params.offset - less)) {}

  Simd::Floats estimate(Simd::Floats a, Simd::Floats b) const {
    return Simd::fused_multiply_add(a, a_factor, Simd::fused_multiply_add(b, b_factor, offset));
  }
};

struct Product {
  static constexpr Element kElement = multiply_one;
  static constexpr bool kHasBias = true;

  const Simd::Floats factor, offset;

  explicit Product(const BinaryParams& params, float less)
      : factor(Simd::broadcast_float(params.a_factor)),
        offset(Simd::broadcast_float(params.offset - less)) {}

  Simd::Floats estimate(Simd::Floats a, Simd::Floats b) const {
    return Simd::add(Simd::multiply(Simd::multiply(a, b), factor), offset);
  }
};

// A group's estimates, rounded; and, of exact ones, those with twice the error more.
template <typename Formula, bool kExact>
inline void run_group(const BinaryParams& params, const Formula& formula, const uint8_t* a,
                      const uint8_t* b, uint8_t* low, uint8_t* high) {
  constexpr bool kHasBias = Formula::kHasBias || !kExact;
  const Simd::Floats a_bias = Simd::broadcast_float(params.a_bias);
  const Simd::Floats b_bias = Simd::broadcast_float(params.b_bias);
  const Simd::Floats lowest = Simd::broadcast_float(-kLimit);
  const Simd::Floats highest = Simd::broadcast_float(kLimit);
  const Simd::Floats twice_error = Simd::broadcast_float(2 * params.error);
  const int32_t zero = kExact ? params.output_zero : 0;
#pragma GCC unroll 1
  for (int i = 0; i < kBinaryGroup; i += kPackedBytes) {
    Simd::Int32s x[kPacked], y[kPacked], rounded[kPacked], rounded_high[kPacked];
    Simd::widen_bytes(a + i, params.a.flip, x);
    Simd::widen_bytes(b + i, params.b.flip, y);
#pragma GCC unroll 4
    for (int j = 0; j < kPacked; ++j) {
      Simd::Floats u = Simd::to_floats(x[j]), v = Simd::to_floats(y[j]);
      if constexpr (kHasBias) {
        u = Simd::add(u, a_bias);
        v = Simd::add(v, b_bias);
      }
      Simd::Floats value = formula.estimate(u, v);
      if constexpr (kHasBias) value = Simd::clamp(value, lowest, highest);
      rounded[j] = Simd::to_integers(value);
      if constexpr (kExact) rounded_high[j] = Simd::to_integers(Simd::add(value, twice_error));
    }
    Simd::store_bytes(low + i, rounded, zero, params.output_signed);
    if constexpr (kExact) Simd::store_bytes(high + i, rounded_high, zero, params.output_signed);
  }
}

inline bool differ(const uint8_t* a, const uint8_t* b) {
  uint64_t x[kBinaryGroup / 8], y[kBinaryGroup / 8], any = 0;
  std::memcpy(x, a, sizeof x);
  std::memcpy(y, b, sizeof y);
  for (int64_t i = 0; i < kBinaryGroup / 8; ++i) any |= x[i] ^ y[i];
  return any != 0;
}

template <typename Formula>
__attribute__((noinline)) void resolve_ties(const BinaryParams& params, const uint8_t* a,
                                            const uint8_t* b, const uint8_t* high, uint8_t* low) {
  for (int64_t i = 0; i < kBinaryGroup; ++i) {
    if (low[i] != high[i]) low[i] = Formula::kElement(params, a[i], b[i]);
  }
}

template <typename Formula, bool kExact>
void run_groups(const BinaryParams& params, const BinarySpan& span) {
  const Formula formula(params, kExact ? params.error : 0);
  alignas(64) uint8_t low[kBinaryGroup], high[kBinaryGroup];
  uint8_t a_copy[kBinaryGroup] = {}, b_copy[kBinaryGroup] = {};
  for (int64_t i = 0; i < span.count; i += kBinaryGroup) {
    const int64_t left = span.count - i, count = left < kBinaryGroup ? left : kBinaryGroup;
    const uint8_t* a = span.a + (span.a_varies ? i : 0);
    const uint8_t* b = span.b + (span.b_varies ? i : 0);
    if (count < kBinaryGroup) {
      a = static_cast<const uint8_t*>(std::memcpy(a_copy, a, static_cast<size_t>(count)));
      b = static_cast<const uint8_t*>(std::memcpy(b_copy, b, static_cast<size_t>(count)));
    }
    run_group<Formula, kExact>(params, formula, a, b, low, high);
    if (kExact && differ(low, high)) resolve_ties<Formula>(params, a, b, high, low);
    std::memcpy(span.output + i, low, static_cast<size_t>(count));
  }
}

template <typename Formula>
void run(const BinaryParams& params, const BinarySpan& span) {
  if (params.has_estimate) {
    return params.exact ? run_groups<Formula, true>(params, span)
                        : run_groups<Formula, false>(params, span);
  }
  for (int64_t i = 0; i < span.count; ++i) {
    span.output[i] = Formula::kElement(params, span.a[span.a_varies ? i : 0],
                                       span.b[span.b_varies ? i : 0]);
  }
}

}  // namespace

extern const BinaryKernels binary_kernels;
const BinaryKernels binary_kernels = {.add = run<Sum>, .multiply = run<Product>};

}  // namespace DMLAX_ISA_NAMESPACE
}  // namespace dmlax
