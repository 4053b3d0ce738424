// Panels that are packed before a call. `_core/panels.py` writes them in the order that
// `gemm/rows.h` reads if a word has four bytes and a panel is one strip.
#pragma once

#include <cstring>

#include "dmlax/_cpu/gemm/shape.h"

namespace dmlax {

struct PreparedPanels {
  int64_t groups, rows, depth;  // `rows` of one group are columns of a product

  int64_t count() const { return groups * panels(); }
  int64_t panel_bytes() const { return round_up(depth, kDepthStep) * kPanelWidth; }
  int64_t row_bytes() const { return groups * rows * depth; }  // of all groups, unpacked

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
  int64_t panels() const { return (rows + kPanelWidth - 1) / kPanelWidth; }  // of one group
};

}  // namespace dmlax
