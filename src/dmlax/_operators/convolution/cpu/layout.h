// Lays out planes and padded copies of images.
#pragma once

#include <vector>

#include "dmlax/_operators/convolution/cpu/convolution_kernels.h"

namespace dmlax {

constexpr int64_t kMostPlanes = int64_t{1} << 31;  // bytes of one image's planes

// The arrays that a layout points to.
struct LayoutArrays {
  std::vector<int64_t> vertical_phases, horizontal_phases, tap_offsets;
};

// Completes an axis that has its sizes and its window. Returns false if they do not fit.
bool fit_axis(Axis& axis);

// Lays out padded copies of images. An element of the input takes `element_bytes`. The size of a
// copy is 0 if it would take too much memory.
void lay_out_padded(ConvProblem& problem, LayoutArrays& arrays, int64_t element_bytes);

// Lays out the planes for a shape. Returns false if an image's planes would take too much memory.
bool lay_out(ConvProblem& problem, LayoutArrays& arrays, bool has_row_kernel);

}  // namespace dmlax
