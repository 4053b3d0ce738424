// Kernels of the operators on two tensors, compiled once for each SIMD header.
//
// Float32 estimates an exact element twice, minus and plus the estimate's error. If the two
// estimates round to different bytes, `exact.h` decides. The output may overlap an operand, because
// a group is read before it is stored.
#include "dmlax/_operators/add_multiply/cpu/add_multiply_kernels.h"

#include <cstring>

#include "dmlax/_operators/add_multiply/cpu/exact.h"
#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

constexpr int kPacked = Simd::kVectorsPacked;
constexpr int kPackedBytes = Simd::kLanes * kPacked;

static_assert(kBinaryGroup % kPackedBytes == 0);

using Element = uint8_t (*)(const BinaryParams&, uint8_t, uint8_t);

// Parameters in registers: stores of bytes might alias them.
struct Common {
  const Simd::Floats a_bias, b_bias, a_factor, b_factor, offset, error, two;
  const int32_t zero;
  const uint8_t a_flip, b_flip;
  const bool output_signed;

  // Parameters of estimates that are shifted by `shift`.
  Common(const BinaryParams& params, float more)
      : a_bias(Simd::broadcast_float(params.a_bias)),
        b_bias(Simd::broadcast_float(params.b_bias)),
        a_factor(Simd::broadcast_float(params.a_factor)),
        b_factor(Simd::broadcast_float(params.b_factor)),
        offset(Simd::broadcast_float(params.offset + more)),
        error(Simd::broadcast_float(params.error)),
        two(Simd::broadcast_float(2)),
        zero(params.exact ? params.output_zero : 0),
        a_flip(params.a.flip),
        b_flip(params.b.flip),
        output_signed(params.output_signed) {}
};

struct Sum {
  static constexpr Element kElement = add_one;

  static Simd::Floats estimate(const Common& all, Simd::Floats a, Simd::Floats b) {
    const Simd::Floats inner = Simd::fused_multiply_add(b, all.b_factor, all.offset);
    return Simd::fused_multiply_add(a, all.a_factor, inner);
  }
};

struct Product {
  static constexpr Element kElement = multiply_one;

  static Simd::Floats estimate(const Common& all, Simd::Floats a, Simd::Floats b) {
    return Simd::add(Simd::multiply(Simd::multiply(a, b), all.a_factor), all.offset);
  }
};

// Rounds a group's estimates. If estimates have an error, returns whether a larger estimate, by
// twice the error, rounds differently.
template <typename Formula, bool kHasBias, bool kHasError>
inline bool run_group(const Common& all, const uint8_t* a, const uint8_t* b, uint8_t* bytes) {
  Simd::Int32s changes = Simd::broadcast(0);
#pragma GCC unroll 2
  for (int i = 0; i < kBinaryGroup; i += kPackedBytes) {
    Simd::Int32s x[kPacked], y[kPacked], rounded[kPacked];
    Simd::widen_bytes(a + i, all.a_flip, x);
    Simd::widen_bytes(b + i, all.b_flip, y);
#pragma GCC unroll 4
    for (int j = 0; j < kPacked; ++j) {
      Simd::Floats u = Simd::to_floats(x[j]), v = Simd::to_floats(y[j]);
      if constexpr (kHasBias) {
        u = Simd::add(u, all.a_bias);
        v = Simd::add(v, all.b_bias);
      }
      const Simd::Floats value = Formula::estimate(all, u, v);
      rounded[j] = Simd::to_integers(value);
      if constexpr (kHasError) {
        const Simd::Int32s high =
            Simd::to_integers(Simd::fused_multiply_add(all.error, all.two, value));
        changes = Simd::add(changes, Simd::subtract(high, rounded[j]));  // never negative
      }
    }
    Simd::store_bytes(bytes + i, rounded, all.zero, all.output_signed);
  }
  return kHasError && !Simd::is_zero(changes);
}

template <typename Formula>
__attribute__((noinline)) void resolve_ties(const BinaryParams& params, const uint8_t* a,
                                            const uint8_t* b, uint8_t* low) {
  uint8_t high[kBinaryGroup];
  run_group<Formula, true, true>(Common(params, params.error), a, b, high);
  for (int64_t word = 0; word < kBinaryGroup; word += 8) {
    if (std::memcmp(low + word, high + word, 8) == 0) continue;
    for (int64_t i = word; i < word + 8; ++i) {
      if (low[i] != high[i]) low[i] = Formula::kElement(params, a[i], b[i]);
    }
  }
}

template <typename Formula, bool kHasBias, bool kHasError>
inline void run_whole_group(const BinaryParams& params, const Common& all, const uint8_t* a,
                            const uint8_t* b, uint8_t* output) {
  const bool near_ties = run_group<Formula, kHasBias, kHasError>(all, a, b, output);
  if (near_ties) resolve_ties<Formula>(params, a, b, output);
}

// Calls run(a, b, output) for every group of a span. The last group is padded.
template <typename Run>
inline void for_each_group(const BinarySpan& span, const Run& run) {
  const uint8_t *a = span.a, *b = span.b;
  uint8_t* output = span.output;
  const int64_t a_step = span.a_varies ? kBinaryGroup : 0;
  const int64_t b_step = span.b_varies ? kBinaryGroup : 0;
  int64_t left = span.count;
  for (; left >= kBinaryGroup; left -= kBinaryGroup, a += a_step, b += b_step) {
    run(a, b, output);
    output += kBinaryGroup;
  }
  if (left == 0) return;
  const size_t count = static_cast<size_t>(left);
  uint8_t a_copy[kBinaryGroup] = {}, b_copy[kBinaryGroup] = {}, bytes[kBinaryGroup];
  std::memcpy(a_copy, a, count);
  std::memcpy(b_copy, b, count);
  run(a_copy, b_copy, bytes);
  std::memcpy(output, bytes, count);
}

template <typename Formula, bool kHasBias, bool kHasError>
void run_groups(const BinaryParams& params, const BinarySpan& span) {
  const Common all(params, -params.error);
  for_each_group(span, [&](const uint8_t* a, const uint8_t* b, uint8_t* output) {
    run_whole_group<Formula, kHasBias, kHasError>(params, all, a, b, output);
  });
}

// Exact sums in fixed point. A group with a near tie is estimated again.
template <typename S>
void run_fixed_sums(const BinaryParams& params, const BinarySpan& span) {
  const Common all(params, -params.error);
  const auto not_near_tie = S::broadcast(params.fixed.not_near_tie);
  const auto a_factor = S::broadcast_float(params.fixed.a_factor);
  const auto b_factor = S::broadcast_float(params.fixed.b_factor);
  const auto origin = S::broadcast_float(params.fixed.origin);
  for_each_group(span, [&](const uint8_t* a, const uint8_t* b, uint8_t* output) {
    typename S::NearTies near_ties(not_near_tie);
#pragma GCC unroll 2
    for (int i = 0; i < kBinaryGroup; i += kPackedBytes) {
      typename S::Int32s x[kPacked], y[kPacked], rounded[kPacked];
      S::widen_bytes(a + i, all.a_flip, x);
      S::widen_bytes(b + i, all.b_flip, y);
#pragma GCC unroll 4
      for (int j = 0; j < kPacked; ++j) {
        const auto inner = S::fused_multiply_add(S::to_floats(y[j]), b_factor, origin);
        const auto sum = S::fused_multiply_add(S::to_floats(x[j]), a_factor, inner);
        rounded[j] = S::fixed_integer(sum, near_ties);
      }
      S::template store_bytes<true>(output + i, rounded, all.zero, all.output_signed);
    }
    if (__builtin_expect(near_ties.any(), 0)) {
      run_whole_group<Sum, false, true>(params, all, a, b, output);
    }
  });
}

template <typename Formula, typename S = Simd>
void run(const BinaryParams& params, const BinarySpan& span) {
  if constexpr (S::kRequantizesRows) {
    if (params.fixed.not_near_tie != 0 && params.error != 0) return run_fixed_sums<S>(params, span);
  }
  if (params.has_estimate) {
    const bool has_bias = params.a_bias != 0 || params.b_bias != 0;
    if (params.error != 0) {
      return has_bias ? run_groups<Formula, true, true>(params, span)
                      : run_groups<Formula, false, true>(params, span);
    }
    return has_bias ? run_groups<Formula, true, false>(params, span)
                    : run_groups<Formula, false, false>(params, span);
  }
  for (int64_t i = 0; i < span.count; ++i) {
    span.output[i] =
        Formula::kElement(params, span.a[span.a_varies ? i : 0], span.b[span.b_varies ? i : 0]);
  }
}

}  // namespace

template <>
const BinaryKernels Table<BinaryKernels>::kernels = {.add = run<Sum>, .multiply = run<Product>};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
