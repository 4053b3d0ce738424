// Kernels of dynamic quantization, for one instruction set.
#pragma once

#include "dmlax/_cpu/element_span.h"

namespace dmlax {

// The minimum and the maximum of 0 and some floats, as integers in their order.
struct OrderedRange {
  int32_t low = 0, high = 0;
};

struct DynamicQuantizeKernels {
  OrderedRange (*range_float32)(const uint32_t* bits, int64_t count);
  OrderedRange (*range_float16)(const uint16_t* bits, int64_t count);
  void (*widen)(const uint16_t* halves, int64_t count, float* floats);
  void (*quantize)(QuantizeInput type, const ElementSpan& span);
};

}  // namespace dmlax
