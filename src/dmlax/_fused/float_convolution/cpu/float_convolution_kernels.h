// Kernels of float32 convolutions and products with channels last, for one instruction set.
//
// A sum is one chain of fused multiplications and additions, which begins at 0 and takes the taps
// in their order and the channels of a tap in theirs. Nothing else decides its bits.
#pragma once

#include <cstdint>

namespace dmlax {

constexpr int64_t kFloatPanel = 64;   // columns of a panel
constexpr int64_t kFloatVector = 16;  // the last panel has a multiple of this number of columns
constexpr int64_t kMostColumns = 4;   // of a product whose vectors are pixels

// The functions that end an epilogue. The numbers are those of `ACTIVATIONS` in plan.py.
enum class Activation : int64_t { none, clip, hard_sigmoid, hard_swish, sigmoid, silu, shifted_swish, count };

// Output = activation(sum * factor + bias + residual), rounded after every operation.
struct FloatEpilogue {
  const float* factor;    // a factor for every column, or null
  const float* bias;      // an addend for every column, or null
  const float* residual;  // an addend for every output, or null
  Activation activation;
  float low, high;  // a clip's limits; a hard sigmoid's slope and offset; a shift and limit
  bool fuses;       // the slope's product is not rounded
};

// Pixels of the output that follow one another, or rows of a matrix.
struct FloatRows {
  const float* const* taps;  // where each row's channels are: [tap][row]
  int64_t pitch;             // rows from one tap to the next
  int64_t rows;
  int64_t first_channel;  // is added to every pointer
  int64_t first;          // the output's row
};

struct FloatFilter {
  const float* panels;   // a group's: each has `width` floats for every element of the depth
  int64_t columns;       // columns of a group
  int64_t taps, length;  // the depth is taps * length
};

struct FloatOutput {
  float* data;
  int64_t columns;  // columns of all groups
  int64_t first;    // column of the group
};

// Pixels of a line of the output, whose columns are planes. Element e of a tap is that of the pixel
// `e / phases` of the line `e % phases`, which has every pixel that a step of the windows skips to.
struct FloatLine {
  const float* const* taps;  // where each tap's lines are, `pitch` apart
  int64_t phases, pitch;
  int64_t first, count;  // pixels
  int64_t plane;         // the output's floats from one column to the next
};

struct FloatConvolutionKernels {
  // Multiplies rows by the panels [first, last) of a group. `sums` holds kFloatPanel floats a row.
  void (*multiply)(const FloatRows& rows, const FloatFilter& filter, const FloatOutput& output,
                   const FloatEpilogue& epilogue, int64_t first, int64_t last, float* sums);

  // Multiplies the channels [first, last) of rows, each by its filter of `columns` channels.
  void (*multiply_channels)(const FloatRows& rows, const FloatFilter& filter,
                            const FloatOutput& output, const FloatEpilogue& epilogue, int64_t first,
                            int64_t last);

  // Multiplies a line by kMostColumns columns or fewer: its vectors are pixels. Lines may be read a
  // vector's floats beyond their end.
  void (*multiply_line)(const FloatLine& line, const FloatFilter& filter, float* output,
                        const FloatEpilogue& epilogue);

  // target[c * target_stride + r] = source[r * source_stride + c]
  void (*transpose)(float* target, int64_t target_stride, const float* source,
                    int64_t source_stride, int64_t rows, int64_t columns);
};

}  // namespace dmlax
