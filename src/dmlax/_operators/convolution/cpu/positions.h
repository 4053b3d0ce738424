// Positions of panels in planes and in the output.
#pragma once

#include "dmlax/_cpu/gemm/microkernel.h"
#include "dmlax/_cpu/gemm/store.h"
#include "dmlax/_operators/convolution/cpu/convolution_kernels.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

struct PanelPosition {
  int64_t image, first;  // the panel's first output, counting outputs past a row's end
  int64_t pixel;         // the first output's pixel, without those
  uint64_t valid;        // bit i: column i is an output

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

// Calls pack(rows, filled, quad) for every four rows of the depth, tap by tap.
struct QuadRows {
  const ConvProblem& problem;
  const uint8_t* planes;  // a group's first channel

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

// The position in the output of a panel's first output, for one channel.
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

// Layout of a thread's scratch memory.
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
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
