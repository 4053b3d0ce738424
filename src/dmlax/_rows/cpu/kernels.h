// Kernels of float rows, for one instruction set.
#pragma once

#include <cstdint>

namespace dmlax {

// The normalization of a row: `(x - mean) / deviation * scale + bias`.
struct Normalization {
  const float* scale;
  const float* bias;  // null: 0
  float epsilon;      // added to the variance
  bool is_centred;    // false: root mean square, with a mean of 0
};

struct RowKernels {
  void (*normalize)(const Normalization& norm, const float* input, int64_t count, float* output);
  void (*softmax)(const float* input, int64_t count, float* output);
};

}  // namespace dmlax
