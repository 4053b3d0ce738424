// The parts of the element-wise operators that depend on the instruction set.
#ifndef DMLAX_ELEMENTWISE_CPU_KERNELS_H_
#define DMLAX_ELEMENTWISE_CPU_KERNELS_H_

#include <cstdint>

#include "dmlax/_cpu/quantize_span.h"

namespace dmlax {

struct DequantizeSpan {
  const void* input;
  const float* scale;
  const void* zero_point;
  void* output;
  int64_t count;
  bool one_each;
  bool is_signed;   // inputs and zero points
  bool to_float16;  // otherwise float32
};

struct ElementwiseKernels {
  void (*quantize)(QuantizeInput type, const QuantizeSpan& span);

  // Inputs and zero points have 1, 2 or 4 bytes.
  void (*dequantize)(int64_t bytes, const DequantizeSpan& span);

  // float16 to float32.
  void (*widen)(const uint16_t* halves, int64_t count, float* floats);
};

}  // namespace dmlax

#endif  // DMLAX_ELEMENTWISE_CPU_KERNELS_H_
