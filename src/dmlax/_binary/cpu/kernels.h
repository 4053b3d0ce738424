// The parts of the operators on two tensors that depend on the instruction set.
#ifndef DMLAX_BINARY_CPU_KERNELS_H_
#define DMLAX_BINARY_CPU_KERNELS_H_

#include <cstdint>

namespace dmlax {

// Bytes whose sign bit is flipped where they are signed: 0 to 255, in the order of the values.
struct ByteTensor {
  uint8_t flip;
  int32_t zero;     // the zero point, flipped as well
  uint32_t scale;   // bits of a float32
};

// A sum as a number in fixed point (fixed_point.h).
struct FixedSum {
  int32_t not_near_tie;  // the bits of other fractions; 0 where the sum may be too far off
  float a_factor, b_factor, origin;
};

// What all elements have in common.
struct BinaryParams {
  ByteTensor a, b;
  uint32_t output_scale;
  bool output_signed;
  int32_t output_zero;
  bool exact;          // otherwise in ONNX Runtime's float32
  bool has_estimate;   // a vector's float32 decides; otherwise every element is computed by itself
  float a_bias, b_bias;      // added to a flipped byte
  float a_factor, b_factor;  // a sum: a * a_factor + (b * b_factor + offset)
  float offset;              // a product: a * b * a_factor + offset
  float error;               // of an exact estimate, at most, which has no zero point; else 0
  FixedSum fixed;            // of an exact sum that has an error
};

// Neighbouring elements, or one that all have: then 64 copies, and a step of 0.
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

constexpr int64_t kBinaryGroup = 64;  // elements of a kernel's step

}  // namespace dmlax

#endif  // DMLAX_BINARY_CPU_KERNELS_H_
