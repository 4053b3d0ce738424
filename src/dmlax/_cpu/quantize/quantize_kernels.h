// Kernels of quantizations and dequantizations, for one instruction set.
#pragma once

#include <cstdint>

namespace dmlax {

enum class QuantizeInput { float32, float16, int32 };

// Neighbouring elements that a quantization or a dequantization reads and writes.
struct ElementSpan {
  const void* input;
  const float* scale;
  const void* zero_point;
  void* output;
  int64_t count;
  bool one_each;    // every element has a scale and a zero point; else all elements share them
  bool is_signed;   // integers, except a quantization's input
  bool exact;       // else a quantization rounds the quotient to float32 first
  bool to_float16;  // a dequantization; else to float32
};

// The minimum and the maximum of 0 and some floats, as integers in their order.
struct OrderedRange {
  int32_t low = 0, high = 0;
};

struct ElementwiseKernels {
  void (*quantize)(QuantizeInput type, const ElementSpan& span);

  // Inputs and zero points have `bytes` of 1, 2 or 4.
  void (*dequantize)(int64_t bytes, const ElementSpan& span);

  // Widens float16 to float32.
  void (*widen)(const uint16_t* halves, int64_t count, float* floats);

  OrderedRange (*range_float32)(const uint32_t* bits, int64_t count);
  OrderedRange (*range_float16)(const uint16_t* bits, int64_t count);
};

}  // namespace dmlax
