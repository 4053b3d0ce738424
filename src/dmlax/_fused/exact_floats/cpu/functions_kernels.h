// Kernels of the functions of `_core/float_functions.py`, for one instruction set.
#pragma once

#include <cstdint>

namespace dmlax {

constexpr int kExactFunctions = 12;

struct ExactFunctionKernels {
  // In the order of lowering.py.
  void (*functions[kExactFunctions])(const float* from, int64_t count, float* to);
};

}  // namespace dmlax
