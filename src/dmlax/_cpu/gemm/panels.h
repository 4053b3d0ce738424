// Packs panels of 64 columns with their whole depth.
#pragma once

#include "dmlax/_cpu/gemm/microkernel.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// A panel's first column in every row of the depth, and the number of columns that are readable.
struct PanelSource {
  int64_t offset, readable;
};

struct PanelOptions {
  uint8_t flip;      // 128 flips the sign bits of signed bytes
  bool with_sums;    // sums of the columns follow the panel
  bool whole_steps;  // pads the depth with zeros to a whole step
};

inline int32_t* column_sums(const PanelShape& shape, uint8_t* panel) {
  return reinterpret_cast<int32_t*>(panel + shape.padded_depth * kPanelWidth);
}

// Packs `count` panels, `shape.bytes` apart. `for_each_quad(pack)` calls pack(rows, filled, quad)
// for every kKPack rows of the depth; the last call may have fewer rows.
template <typename ForEachQuad>
inline void pack_panels(const PanelShape& shape, const PanelOptions& options,
                        const PanelSource* sources, int64_t count, const ForEachQuad& for_each_quad,
                        uint8_t* panels) {
  for_each_quad([&](const uint8_t* const* rows, int filled, int64_t quad) {
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t* from[kKPack];
      for (int k = 0; k < filled; ++k) from[k] = rows[k] + sources[i].offset;
      uint8_t* target = panels + i * shape.bytes + quad * kQuadBytes;
      if (filled == kKPack) {
        Simd::interleave_rows(from, kKPack, sources[i].readable, options.flip, target);
      } else {
        Simd::interleave_rows(from, filled, sources[i].readable, options.flip, target);
      }
    }
  });
  const int64_t quads = (shape.depth + kKPack - 1) / kKPack, filled = quads * kQuadBytes;
  const int64_t padding = shape.padded_depth * kPanelWidth - filled;
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* panel = panels + i * shape.bytes;
    if (options.whole_steps) __builtin_memset(panel + filled, 0, static_cast<size_t>(padding));
    if (options.with_sums) sum_columns(panel, quads, column_sums(shape, panel));
  }
}

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
