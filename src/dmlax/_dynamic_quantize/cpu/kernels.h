// The parts of dynamic quantization that depend on the instruction set.
#ifndef DMLAX_DYNAMIC_QUANTIZE_CPU_KERNELS_H_
#define DMLAX_DYNAMIC_QUANTIZE_CPU_KERNELS_H_

#include <cstdint>

#include "dmlax/_cpu/quantize_span.h"

namespace dmlax {

// The least and the greatest of 0 and some floats, as integers in their order.
struct OrderedRange {
  int32_t low = 0, high = 0;
};

struct DynamicQuantizeKernels {
  OrderedRange (*range_float32)(const uint32_t* bits, int64_t count);
  OrderedRange (*range_float16)(const uint16_t* bits, int64_t count);
  void (*widen)(const uint16_t* halves, int64_t count, float* floats);
  void (*quantize)(QuantizeInput type, const QuantizeSpan& span);
};

}  // namespace dmlax

#endif  // DMLAX_DYNAMIC_QUANTIZE_CPU_KERNELS_H_
