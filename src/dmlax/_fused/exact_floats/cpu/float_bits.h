// The bits of float32 in vectors, which the kernels of exact floats share.
#pragma once

#include "dmlax/_cpu/simd/floats.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

constexpr int kFraction = 23;
constexpr int32_t kLeastNormal = 1 << kFraction, kInfinity = 255 << kFraction;
constexpr int32_t kMagnitude = 0x7fffffff, kSign = ~kMagnitude, kNan = 0x7fc00000;

typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));

inline Ints bits(Floats x) { return reinterpret_cast<Ints>(x); }
inline Floats floats(Ints x) { return reinterpret_cast<Floats>(x); }
inline Ints magnitude_bits(Floats x) { return bits(x) & kMagnitude; }

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
