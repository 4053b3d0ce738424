// The convolution's kernels, compiled once for each instruction set.

#include "dmlax/_operators/convolution/cpu/depthwise.h"
#include "dmlax/_operators/convolution/cpu/lines.h"
#include "dmlax/_operators/convolution/cpu/planes.h"
#include "dmlax/_operators/convolution/cpu/positions.h"
#include "dmlax/_operators/convolution/cpu/implicit_gemm.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// Multiplies a block of filter rows by packed panels.
struct DenseBlock {
  const ConvProblem& problem;
  const TileScratch& scratch;
  const OutputTile& tile;
  const FilterRows& rows;
  int64_t channel;

  void run(Microkernel& microkernel, const PanelPosition& position, uint8_t* panel) const {
    microkernel.multiply(panel, rows, scratch.acc);
    const int32_t* sums =
        problem.requantize.filter_zero == nullptr ? nullptr : column_sums(problem.panel, panel);
    for (int64_t r = 0; r < rows.count; ++r) {
      tile.store_row({scratch.acc + r * kPanelWidth, sums, channel + r}, r, position.valid,
                     position_in_output(problem.shape, position, channel + r));
    }
    if (problem.shape.output_last) {
      tile.store_pixels(rows.count, position.valid,
                        position_in_output(problem.shape, position, channel));
    }
  }
};

void pack_group(const ConvProblem& problem, const TileRange& range, const PanelPosition* positions,
                int64_t count, uint8_t* panels) {
  const PlaneLayout& layout = problem.layout;
  const uint8_t* group = range.planes + range.group * problem.shape.channels * layout.plane;
  PanelSource sources[kMostPanels];
  for (int64_t i = 0; i < count; ++i) sources[i] = source_of(layout, positions[i]);
  const PanelOptions options{.flip = static_cast<uint8_t>(problem.shape.input_signed ? 128 : 0),
                             .with_sums = problem.requantize.filter_zero != nullptr,
                             .whole_steps = Microkernel::kNeedsWholeSteps};
  pack_panels(problem.panel, options, sources, count, QuadRows{problem, group}, panels);
}

void dense(const ConvProblem& problem, const TileRange& range) {
  const ConvShape& shape = problem.shape;
  const TileScratch scratch(range.scratch);
  const OutputTile tile = output_tile(problem, range.output, scratch.tile);
  const int64_t most = problem.panel.at_once;
  const int8_t* filter = range.filter + range.group * shape.rows * shape.depth;
  Microkernel microkernel;
  for (int64_t panel = range.first_panel; panel < range.last_panel; panel += most) {
    const int64_t count = least(range.last_panel - panel, most);
    PanelPosition positions[kMostPanels];
    for (int64_t i = 0; i < count; ++i) positions[i] = PanelPosition(problem, panel + i);
    pack_group(problem, range, positions, count, scratch.panels);
    for (int64_t row = range.first_row; row < range.last_row; row += Microkernel::kMostRows) {
      const FilterRows rows(filter + row * shape.depth, shape.depth,
                            least(range.last_row - row, Microkernel::kMostRows));
      const DenseBlock block{problem, scratch, tile, rows, range.group * shape.rows + row};
      for (int64_t i = 0; i < count; ++i) {
        block.run(microkernel, positions[i], scratch.panels + i * problem.panel.bytes);
      }
    }
  }
}

template <typename S>
constexpr ConvolutionKernels all_kernels() {
  ConvolutionKernels kernels = {.products_per_ns = S::kTuning.products_per_ns,
                                .requantize_row_ns = S::kTuning.requantize_row_ns,
                                .has_row_kernel = S::kPermutesBytes,
                                .prefers_channels_last = !S::kPermutesBytes,
                                .reads_panels = reads_prepared_panels<S>(),
                                .pack = pack,
                                .dense = dense,
                                .depthwise = depthwise,
                                .transpose = transpose};
  if constexpr (S::kMultipliesRows) {
    kernels.element_bytes = S::kWordsOfQuad;
    kernels.lay_out_rows = RowKernels<S>::lay_out;
    kernels.pad = PaddedRows<S>::copy;
    kernels.pack_filter = RowKernels<S>::pack_filter;
    kernels.multiply_rows = RowKernels<S>::multiply;
    kernels.multiply_lines = multiply_lines<S>;
  }
  return kernels;
}

}  // namespace

template <>
const ConvolutionKernels Table<ConvolutionKernels>::kernels = all_kernels<Simd>();

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
