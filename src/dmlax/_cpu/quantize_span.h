// What a quantization reads and writes.
#ifndef DMLAX_CPU_QUANTIZE_SPAN_H_
#define DMLAX_CPU_QUANTIZE_SPAN_H_

#include <cstdint>

namespace dmlax {

enum class QuantizeInput { float32, float16, int32 };

// Neighbouring elements, and their parameters: one of each for all, or one an element.
struct QuantizeSpan {
  const void* input;
  const float* scale;
  const uint8_t* zero_point;
  uint8_t* output;
  int64_t count;
  bool one_each;    // a scale and a zero point an element
  bool is_signed;   // int8 zero points and outputs: otherwise uint8
  bool exact;       // otherwise the quotient is rounded to float32 first
};

}  // namespace dmlax

#endif  // DMLAX_CPU_QUANTIZE_SPAN_H_
