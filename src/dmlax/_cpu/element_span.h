// Neighbouring elements that a quantization or a dequantization reads and writes.
#pragma once

#include <cstdint>

namespace dmlax {

enum class QuantizeInput { float32, float16, int32 };

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

}  // namespace dmlax
