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

constexpr int64_t kAverages = 16;  // channels that are averaged together

struct RowKernels {
  void (*normalize)(const Normalization& norm, const float* input, int64_t count, float* output);
  void (*softmax)(const float* input, int64_t count, float* output);

  // Averages the table's entries of `width` channels, at most kAverages, over `count` pixels, which
  // are `step` bytes apart. Four sums take turns, as in ONNX Runtime.
  void (*average)(const float* table, const uint8_t* input, int64_t count, int64_t step,
                  int64_t width, float* output);

  // Averages kAverages channels of float pixels, or fewer; a pixel is `step` floats.
  void (*average_floats)(const float* input, int64_t count, int64_t step, int64_t width,
                         float* output);
};

}  // namespace dmlax
