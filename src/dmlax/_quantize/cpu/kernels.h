// Kernels of the element-wise operators, for one instruction set.
#pragma once

#include "dmlax/_cpu/element_span.h"

namespace dmlax {

struct ElementwiseKernels {
  void (*quantize)(QuantizeInput type, const ElementSpan& span);

  // Inputs and zero points have `bytes` of 1, 2 or 4.
  void (*dequantize)(int64_t bytes, const ElementSpan& span);

  // Widens float16 to float32.
  void (*widen)(const uint16_t* halves, int64_t count, float* floats);
};

}  // namespace dmlax
