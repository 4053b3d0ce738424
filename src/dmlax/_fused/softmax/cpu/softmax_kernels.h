// Kernel of the softmax of 8 bits, for one instruction set.
#pragma once

#include <cstdint>

namespace dmlax {

struct ByteSoftmax {
  const float* terms;  // 256 exponentials, the largest last
  float multiplier;    // multiplies a quotient of sums
  int32_t zero_point;  // the output's
  bool is_signed;
};

struct SoftmaxKernels {
  void (*run)(const ByteSoftmax& softmax, const uint8_t* input, int64_t rows, int64_t count,
              uint8_t* output);
};

}  // namespace dmlax
