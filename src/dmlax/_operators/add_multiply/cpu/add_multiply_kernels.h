// Kernels of the operators on two tensors, for one instruction set.
#pragma once

#include <cstdint>

namespace dmlax {

// Bytes as 0 to 255 in the order of their values: signed bytes have their sign bits flipped.
struct ByteTensor {
  uint8_t flip;
  int32_t zero;    // the zero point, flipped as well
  uint32_t scale;  // bits of a float32
};

// A sum in fixed point (requantize.h).
struct FixedSum {
  int32_t not_near_tie;  // mask of fractions far from a tie; 0 if the error may be too large
  float a_factor, b_factor, origin;
};

// Parameters that all elements share.
struct BinaryParams {
  ByteTensor a, b;
  uint32_t output_scale;
  bool output_signed;
  int32_t output_zero;
  bool exact;                        // else ONNX Runtime's float32
  bool has_estimate = false;         // false: the scalar path computes every element
  float a_bias = 0, b_bias = 0;      // added to a flipped byte
  float a_factor = 0, b_factor = 0;  // a sum: a * a_factor + (b * b_factor + offset)
  float offset = 0;                  // a product: a * b * a_factor + offset
  float error = 0;                   // largest error of an exact estimate, without zero point
  FixedSum fixed = {};               // an exact sum that has an error
};

// Neighbouring elements. An operand that does not vary has 64 copies of its value and a step of 0.
struct BinarySpan {
  const uint8_t *a, *b;
  uint8_t* output;
  int64_t count;
  bool a_varies, b_varies;
};

struct BinaryKernels {
  void (*add)(const BinaryParams& params, const BinarySpan& span);
  void (*multiply)(const BinaryParams& params, const BinarySpan& span);
};

constexpr int64_t kBinaryGroup = 64;  // elements that a kernel computes at once

}  // namespace dmlax
