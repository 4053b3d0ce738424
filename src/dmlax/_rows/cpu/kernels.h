// The parts of float rows that depend on the instruction set.
#ifndef DMLAX_ROWS_CPU_KERNELS_H_
#define DMLAX_ROWS_CPU_KERNELS_H_

#include <cstdint>

namespace dmlax {

// One row's normalization: `(x - mean) / deviation * scale + bias`.
struct Normalization {
  const float* scale;
  const float* bias;  // null for 0
  float epsilon;      // added to the variance
  bool is_centred;    // false for root mean squares: the mean is taken as 0
};

struct RowKernels {
  void (*normalize)(const Normalization& how, const float* input, int64_t count, float* output);
  void (*softmax)(const float* input, int64_t count, float* output);
};

}  // namespace dmlax

#endif  // DMLAX_ROWS_CPU_KERNELS_H_
