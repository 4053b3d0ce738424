// Where panels lie in planes and in the output.
#ifndef DMLAX_CONVOLUTION_CPU_POSITIONS_H_
#define DMLAX_CONVOLUTION_CPU_POSITIONS_H_

#include <cstdint>

#include "dmlax/_convolution/cpu/kernels.h"
#include "dmlax/_cpu/gemm/panels.h"
#include "dmlax/_cpu/gemm/store.h"

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

struct PanelPosition {
  int64_t image, first;  // the first of its outputs, among all and those past a row's end
  int64_t pixel;         // the same without those
  uint64_t valid;        // which of 64 are outputs

  PanelPosition() = default;

  PanelPosition(const ConvProblem& problem, int64_t panel) {
    const PlaneLayout& layout = problem.layout;
    image = panel / layout.panels;
    first = panel % layout.panels * kPanelWidth;
    const int64_t row = first / layout.pitch, column = first % layout.pitch;
    const int64_t width = problem.shape.width.output;
    pixel = row * width + (column < width ? column : width);
    valid = 0;
    const int64_t left = layout.outputs - first;
    for (int64_t at = -column; at < kPanelWidth && at < left; at += layout.pitch) {
      const int64_t from = at < 0 ? 0 : at;
      const int64_t to = at + width < kPanelWidth ? at + width : kPanelWidth;
      if (from >= to) continue;
      valid |= (~uint64_t{0} >> (64 - (to - from))) << from;
    }
  }
};

inline PanelSource source_of(const PlaneLayout& layout, const PanelPosition& position) {
  return {position.image * layout.image + position.first,
          layout.direct ? layout.outputs - position.first : kPanelWidth};
}

// Calls pack(rows, filled, quad) for four rows of the depth after another, tap by tap.
struct QuadRows {
  const ConvProblem& problem;
  const uint8_t* planes;  // from a group's first channel

  template <typename Pack>
  void operator()(const Pack& pack) const {
    const ConvShape& shape = problem.shape;
    const PlaneLayout& layout = problem.layout;
    int64_t tap = 0, channel = 0;
    for (int64_t quad = 0; kKPack * quad < shape.depth; ++quad) {
      const uint8_t* rows[kKPack];
      int filled = 0;
      for (; filled < kKPack && tap < shape.taps; ++filled) {
        rows[filled] = planes + layout.tap_offsets[tap] + channel * layout.plane;
        if (++channel == shape.channels) channel = 0, ++tap;
      }
      pack(rows, filled, quad);
    }
  }
};

// The output's elements at a panel's first output, of one channel or of channels that come last.
inline int64_t position_in_output(const ConvShape& shape, const PanelPosition& position,
                                  int64_t channel) {
  if (shape.output_last) {
    return (position.image * shape.output_pixels + position.pixel) * shape.output_channels +
           channel;
  }
  return (position.image * shape.output_channels + channel) * shape.output_pixels + position.pixel;
}

inline OutputTile output_tile(const ConvProblem& problem, void* output, uint8_t* tile) {
  return {.params = problem.requantize,
          .output = output,
          .channels_last = problem.shape.output_last,
          .channels = problem.shape.output_channels,
          .tile = tile};
}

// What one thread works in.
struct TileScratch {
  int32_t* acc;
  uint8_t* tile;
  uint8_t* panels;

  explicit TileScratch(uint8_t* scratch)
      : acc(reinterpret_cast<int32_t*>(scratch)),
        tile(scratch + kTileBytes),
        panels(scratch + 3 * kTileBytes) {}
};

}  // namespace
}  // namespace DMLAX_ISA_NAMESPACE
}  // namespace dmlax

#endif  // DMLAX_CONVOLUTION_CPU_POSITIONS_H_
