#include "dmlax/_operators/convolution/cpu/layout.h"

#include <algorithm>

#include "dmlax/_cpu/sizes.h"

namespace dmlax {
namespace {

std::vector<int64_t> phases_of(const Axis& axis) {
  std::vector<int64_t> phases;
  for (int64_t tap = 0; tap < axis.kernel && tap < axis.stride; ++tap) {
    phases.push_back(tap * axis.dilation % axis.stride);
  }
  std::sort(phases.begin(), phases.end());
  phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  return phases;
}

int64_t phase_index(const std::vector<int64_t>& phases, const Axis& axis, int64_t tap) {
  const auto position =
      std::lower_bound(phases.begin(), phases.end(), tap * axis.dilation % axis.stride);
  return position - phases.begin();
}

// Whether one load of 64 bytes has the taps of a kernel row for 16 outputs.
bool do_taps_fit_one_load(const ConvShape& shape) {
  const Axis& width = shape.width;
  return width.dilation <= 16 && width.kernel <= 4 &&
         15 * width.stride + (width.kernel - 1) * width.dilation <= 63 &&
         shape.height.kernel <= kMostTapRows;
}

// Chooses the columns of planes and the bytes between pixels.
void choose_columns(ConvProblem& problem, LayoutArrays& arrays, bool has_row_kernel) {
  const Axis& width = problem.shape.width;
  PlaneLayout& layout = problem.layout;
  arrays.horizontal_phases = phases_of(width);
  // Planes leave out columns that no tap reads.
  const bool all_met = static_cast<int64_t>(arrays.horizontal_phases.size()) == width.stride;
  layout.taps_fit_one_load = has_row_kernel && is_depthwise(problem.shape) && !layout.direct &&
                             all_met && do_taps_fit_one_load(problem.shape);
  layout.columns = width;
  layout.step = 1;
  if (layout.taps_fit_one_load) {
    layout.step = width.stride;
    layout.columns.stride = 1;
    arrays.horizontal_phases = {0};
  }
  layout.columns.phases = static_cast<int64_t>(arrays.horizontal_phases.size());
  layout.columns.phase = arrays.horizontal_phases.data();
}

void size_rows(const ConvShape& shape, PlaneLayout& layout) {
  const Axis& width = shape.width;
  // If pixels are neighbours, the padding after a row also precedes the next row.
  const int64_t shared = width.size + std::max(width.start, width.end);
  layout.pitch = width.output + width.shift;
  if (width.stride == 1) layout.pitch = std::min(layout.pitch, std::max(shared, width.output));
  layout.row_bytes = layout.pitch * layout.step;
}

// Runs after size_planes: planes that fit in memory have as many outputs as bytes at most.
void count_outputs(const ConvShape& shape, PlaneLayout& layout) {
  layout.outputs = (shape.height.output - 1) * layout.pitch + shape.width.output;
  layout.panels = (layout.outputs + kPanelWidth - 1) / kPanelWidth;
}

// Returns false if the planes would take too much memory.
bool size_planes(const ConvShape& shape, PlaneLayout& layout) {
  const int64_t sub_images = shape.height.phases * layout.columns.phases;
  const __int128 rows = shape.height.output + shape.height.shift;
  const __int128 bytes = rows * layout.row_bytes + shape.width.start;
  if (bytes * sub_images * shape.input_channels > kMostPlanes) return false;
  layout.sub_image = static_cast<int64_t>(bytes);
  layout.plane = (layout.sub_image * sub_images + 63) / 64 * 64;
  if (layout.plane % 4096 == 0) layout.plane += 64;
  layout.image = shape.input_channels * layout.plane;
  return true;
}

// Appends the taps' offsets from an output's first pixel: `columns` of them for each row of the
// kernel, in sub-images whose pixels are `step` bytes apart.
template <typename Layout>
void find_taps(const Axis& height, const Axis& width, int64_t columns, int64_t phases, int64_t step,
               const Layout& layout, LayoutArrays& arrays) {
  for (int64_t i = 0; i < height.kernel; ++i) {
    const int64_t row = phase_index(arrays.vertical_phases, height, i) * phases;
    const int64_t line = i * height.dilation / height.stride * layout.row_bytes;
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t sub_image = row + phase_index(arrays.horizontal_phases, width, j);
      const int64_t column = j * width.dilation / width.stride * step;
      arrays.tap_offsets.push_back(sub_image * layout.sub_image + line + column);
    }
  }
}

void use_phases(Axis& axis, const std::vector<int64_t>& phases) {
  axis.phases = static_cast<int64_t>(phases.size());
  axis.phase = phases.data();
}

}  // namespace

void lay_out_padded(ConvProblem& problem, LayoutArrays& arrays, int64_t element_bytes) {
  ConvShape& shape = problem.shape;
  PaddedLayout& layout = problem.padded;
  arrays.vertical_phases = phases_of(shape.height);
  arrays.horizontal_phases = phases_of(shape.width);
  use_phases(shape.height, arrays.vertical_phases);
  layout.width = shape.width;
  layout.taps = shape.taps;
  layout.tap_depth = shape.channels;
  layout.pixel_bytes = shape.input_channels * element_bytes;
  layout.step = layout.pixel_bytes;
  if (layout.kernel_rows) {
    arrays.horizontal_phases = {0};
    layout.width.stride = 1;
    layout.taps = shape.height.kernel;
    layout.tap_depth *= shape.width.kernel;
    layout.step *= shape.width.stride;
  }
  use_phases(layout.width, arrays.horizontal_phases);
  layout.rows = shape.height.output + shape.height.shift;
  layout.columns = shape.width.output + shape.width.shift;
  const __int128 steps = static_cast<__int128>(layout.rows) * layout.columns;
  const __int128 bytes = steps * layout.step * shape.height.phases * layout.width.phases;
  layout.image = 0;
  if (bytes > kMostPlanes) return;
  layout.row_bytes = layout.columns * layout.step;
  layout.sub_image = layout.rows * layout.row_bytes;
  layout.image = static_cast<int64_t>(bytes);
  find_taps(shape.height, shape.width, layout.taps / shape.height.kernel, layout.width.phases,
            layout.step, layout, arrays);
  layout.tap_offsets = arrays.tap_offsets.data();
}

bool fit_axis(Axis& axis) {
  for (int64_t value : {axis.kernel, axis.stride, axis.dilation}) {
    if (!is_size(value, 1)) return false;
  }
  for (int64_t value : {axis.size, axis.start, axis.end}) {
    if (!is_size(value, 0)) return false;
  }
  const int64_t room = axis.size + axis.start + axis.end;
  const int64_t reach = (axis.kernel - 1) * axis.dilation;
  if (reach >= room || axis.output != (room - reach - 1) / axis.stride + 1) return false;
  axis.shift = reach / axis.stride;
  return true;
}

bool lay_out(ConvProblem& problem, LayoutArrays& arrays, bool has_row_kernel) {
  ConvShape& shape = problem.shape;
  PlaneLayout& layout = problem.layout;
  layout.direct = is_matrix_product(shape) && !shape.input_last;
  choose_columns(problem, arrays, has_row_kernel);
  arrays.vertical_phases = phases_of(shape.height);
  use_phases(shape.height, arrays.vertical_phases);
  size_rows(shape, layout);
  if (layout.direct) {
    count_outputs(shape, layout);
    layout.plane = layout.outputs;
    layout.image = shape.input_channels * layout.plane;
    arrays.tap_offsets = {0};
  } else {
    if (!size_planes(shape, layout)) return false;
    count_outputs(shape, layout);
    const Axis& columns = layout.columns;
    find_taps(shape.height, columns, columns.kernel, columns.phases, 1, layout, arrays);
  }
  layout.tap_offsets = arrays.tap_offsets.data();
  return true;
}

}  // namespace dmlax
