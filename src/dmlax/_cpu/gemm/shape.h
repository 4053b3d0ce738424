// Block sizes of products, for the kernels and their callers.
//
// A panel has 64 columns (a convolution's outputs) with their whole depth (its taps and channels),
// packed four rows of the depth at a time, as the 8-bit product instructions need them. A block of
// rows (a filter's) multiplies one panel after another.
#pragma once

#include "dmlax/_cpu/tuning.h"

namespace dmlax {

constexpr int64_t kPanelWidth = 64;  // columns
constexpr int64_t kKPack = 4;        // rows of the depth whose bytes are neighbours
constexpr int64_t kQuadBytes = kKPack * kPanelWidth;
constexpr int64_t kBlockRows = 32;  // rows that are multiplied together
constexpr int64_t kDepthStep = 64;  // a panel's depth is padded to a multiple of this
constexpr int64_t kTileBytes = kBlockRows * kPanelWidth * 4;
constexpr int64_t kMostPanels = 16;

// The sums of its columns follow a panel.
struct PanelShape {
  int64_t depth, padded_depth, bytes;
  int64_t at_once;  // panels that are packed before rows are multiplied
};

namespace {

// std::min is a template, which the linker might take from another instruction set.
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

inline PanelShape panel_shape(int64_t depth) {
  const int64_t padded = round_up(depth, kDepthStep);
  const int64_t bytes = padded * kPanelWidth + kPanelWidth * 4;
  const int64_t fit = tuning::kPackedPanels / bytes;
  return {depth, padded, bytes, fit < 1 ? 1 : fit > kMostPanels ? kMostPanels : fit};
}

// The bytes for one block of accumulators, two tiles of output and the panels.
inline int64_t scratch_bytes(const PanelShape& panel) {
  return 3 * kTileBytes + panel.at_once * panel.bytes;
}

}  // namespace
}  // namespace dmlax
