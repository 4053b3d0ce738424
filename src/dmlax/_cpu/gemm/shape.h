// Block sizes of products, for the kernels and their callers.
//
// A panel has 64 columns (a convolution's outputs) with their whole depth (its taps and channels),
// packed four rows of the depth at a time, as the 8-bit product instructions need them. A block of
// rows (a filter's) multiplies one panel after another.
#pragma once

#include <cstring>

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
// Panels that are packed before a call. `_core/panels.py` writes them in the order that `rows.h`
// reads if a word has four bytes and a panel is one strip.
struct PreparedPanels {
  int64_t groups, rows, depth;  // `rows` of one group are columns of a product

  int64_t count() const { return groups * panels(); }
  int64_t panel_bytes() const { return round_up(depth, kDepthStep) * kPanelWidth; }
  int64_t row_bytes() const { return groups * rows * depth; }  // all groups, unpacked

  // Whether a buffer of these sizes holds the panels.
  bool fit(int64_t count_, int64_t bytes) const {
    constexpr int64_t kMostDepth = int64_t{1} << 48;
    return depth < kMostDepth && count_ == count() && bytes == panel_bytes();
  }

  // Unpacks panels for kernels that read rows.
  void unpack(const uint8_t* packed, uint8_t* target) const {
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t row = 0; row < rows; ++row, target += depth) {
        const int64_t panel = group * panels() + row / kPanelWidth;
        const uint8_t* from = packed + panel * panel_bytes() + row % kPanelWidth * kKPack;
        for (int64_t k = 0; k < depth; k += kKPack, from += kQuadBytes) {
          std::memcpy(target + k, from, static_cast<size_t>(least(depth - k, kKPack)));
        }
      }
    }
  }

 private:
  int64_t panels() const { return (rows + kPanelWidth - 1) / kPanelWidth; }  // panels of one group
};

}  // namespace dmlax
