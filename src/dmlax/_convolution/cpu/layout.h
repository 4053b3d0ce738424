// Lays out an image's planes.
#ifndef DMLAX_CONVOLUTION_CPU_LAYOUT_H_
#define DMLAX_CONVOLUTION_CPU_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "dmlax/_convolution/cpu/kernels.h"

namespace dmlax {

constexpr int64_t kMostPlanes = int64_t{1} << 31;  // bytes of one image's planes

// The arrays that a layout points to.
struct LayoutArrays {
  std::vector<int64_t> vertical_phases, horizontal_phases, tap_offsets;
};

// Completes an axis that has its sizes and its window; false if they do not fit one another.
bool fit_axis(Axis& axis);

// Lays padded copies of images out, of so many bytes for one of the input's. Their size is 0 if an
// image's would take too much memory.
void lay_out_padded(ConvProblem& problem, LayoutArrays& arrays, int64_t element_bytes);

// Lays the planes out for a shape; false if an image's would take too much memory.
bool lay_out(ConvProblem& problem, LayoutArrays& arrays, bool has_row_kernel);

}  // namespace dmlax

#endif  // DMLAX_CONVOLUTION_CPU_LAYOUT_H_
