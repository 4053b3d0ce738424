// The sizes that a matrix product is blocked by; plain data, for the kernels and their callers.
//
// A panel has 64 columns (of a convolution: outputs) and all the depth (its taps and channels),
// packed four rows of the depth at a time: K-packing, as the 8-bit product instructions take it.
// A block of rows (a filter's) multiplies one panel after another.
#ifndef DMLAX_CPU_GEMM_SHAPE_H_
#define DMLAX_CPU_GEMM_SHAPE_H_

#include <cstdint>

namespace dmlax {

constexpr int64_t kPanelWidth = 64;  // columns
constexpr int64_t kKPack = 4;        // rows of the depth whose bytes are side by side
constexpr int64_t kQuadBytes = kKPack * kPanelWidth;
constexpr int64_t kBlockRows = 32;   // that are multiplied together
constexpr int64_t kDepthStep = 64;   // a panel's depth is padded to a multiple of this
constexpr int64_t kTileBytes = kBlockRows * kPanelWidth * 4;
constexpr int64_t kPanelsBytes = 3 << 17;  // of the panels that are packed at once
constexpr int64_t kMostPanels = 16;

// A panel is followed by the sums of its columns.
struct PanelShape {
  int64_t depth, padded_depth, bytes;
  int64_t at_once;  // panels that are packed before rows are multiplied
};

namespace {

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

inline PanelShape panel_shape(int64_t depth) {
  const int64_t padded = round_up(depth, kDepthStep);
  const int64_t bytes = padded * kPanelWidth + kPanelWidth * 4;
  const int64_t fit = kPanelsBytes / bytes;
  return {depth, padded, bytes, fit < 1 ? 1 : fit > kMostPanels ? kMostPanels : fit};
}

// For one block of accumulators, two tiles of output and the panels.
inline int64_t scratch_bytes(const PanelShape& panel) {
  return 3 * kTileBytes + panel.at_once * panel.bytes;
}

}  // namespace
}  // namespace dmlax

#endif  // DMLAX_CPU_GEMM_SHAPE_H_
