// Vectors of float32 for kernels whose bits are the same on every instruction set: a set's own
// vectors, but at most 16 lanes. They use the compiler's operators.
#pragma once

#include <cstring>

#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

constexpr int kMostLanes = 16;
constexpr int kLanes = Simd::kLanes < kMostLanes ? Simd::kLanes : kMostLanes;
constexpr int kUnit = kMostLanes / kLanes;  // vectors of 16 floats

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));

inline Floats all(float value) { return value - Floats{}; }

inline Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline void store(float* to, Floats value) { std::memcpy(to, &value, sizeof value); }

template <typename S = Simd>
inline Floats load_some(const float* from, int64_t count) {
  if constexpr (S::kMasksFloats) {
    return reinterpret_cast<Floats>(S::load_first_floats(from, count));
  }
  Floats value = {};
  std::memcpy(&value, from, static_cast<size_t>(count) * sizeof(float));
  return value;
}

template <typename S = Simd>
inline void store_some(float* to, Floats value, int64_t count) {
  if constexpr (S::kMasksFloats) {
    return S::store_first_floats(to, reinterpret_cast<typename S::Floats>(value), count);
  }
  std::memcpy(to, &value, static_cast<size_t>(count) * sizeof(float));
}

// a * b + c, rounded once.
template <typename S>
inline Floats fused(Floats a, Floats b, Floats c) {
  if constexpr (S::kLanes == kLanes) {
    typedef typename S::Floats Own;
    return reinterpret_cast<Floats>(S::fused_multiply_add(
        reinterpret_cast<Own>(a), reinterpret_cast<Own>(b), reinterpret_cast<Own>(c)));
  } else {
    for (int i = 0; i < kLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
  }
}

inline Floats clip(Floats y, Floats low, Floats high) {  // NaN stays
  const Floats raised = y < low ? low : y;
  return raised > high ? high : raised;
}

template <size_t count>
inline Floats polynomial(const float (&coefficients)[count], Floats x) {
  Floats value = all(coefficients[0]);
  for (size_t i = 1; i < count; ++i) value = fused<Simd>(value, x, all(coefficients[i]));
  return value;
}

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
