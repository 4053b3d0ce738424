// Packs panels of 64 columns with their whole depth, and multiplies a block of filter rows by a
// panel, in vector registers or in AMX tiles.
#pragma once

#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// Up to kBlockRows rows of `depth` bytes.
struct FilterRows {
  const int8_t* rows;
  int64_t depth;
  int count;
  // The depth past the last whole step, padded with zeros; set only if there is a rest.
  alignas(64) int8_t tail[kBlockRows][kDepthStep];

  FilterRows(const int8_t* first, int64_t depth, int64_t count)
      : rows(first), depth(depth), count(static_cast<int>(count)) {
    const int64_t rest = depth % kDepthStep;
    if (rest == 0) return;
    for (int64_t r = 0; r < count; ++r) {
      __builtin_memset(tail[r], 0, kDepthStep);
      __builtin_memcpy(tail[r], first + (r + 1) * depth - rest, static_cast<size_t>(rest));
    }
  }
};

// Loads four weights of the depth.
inline int32_t word_at(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return word;
}

// Multiplies R rows by V vectors of columns. One loop runs over the whole steps of the depth and
// then over the tail, so that there is one copy of the step. GCC 12 spills accumulators if there
// are two.
template <int R, int V>
inline void multiply_tile(const uint8_t* panel, const FilterRows& filter, int first, int32_t* acc) {
  Simd::Int32s sums[R][V] = {};
  const int64_t depth = filter.depth;
  const int8_t* weights = filter.rows + first * depth;
  int64_t stride = depth, quads = depth / kDepthStep * (kDepthStep / kKPack);
  const int64_t all_quads = (depth + kKPack - 1) / kKPack;
  const uint8_t* const end = panel + all_quads * kQuadBytes;
  for (;;) {
    for (const uint8_t* stop = panel + quads * kQuadBytes; panel != stop; panel += kQuadBytes) {
      Simd::Columns columns[V];
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) columns[j] = Simd::Columns(panel + j * kKPack * Simd::kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Simd::Weights word(word_at(weights + r * stride));
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j) Simd::multiply_add(sums[r][j], columns[j], word);
      }
      weights += kKPack;
    }
    if (panel == end) break;
    weights = filter.tail[first];
    stride = kDepthStep;
    quads = (end - panel) / kQuadBytes;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      Simd::store(acc + r * kPanelWidth + j * Simd::kLanes, sums[r][j]);
    }
  }
}

// Multiplies the last rows, fewer than a tile has.
template <int R, int V>
inline void multiply_rest(int count, const uint8_t* panel, const FilterRows& filter, int first,
                          int32_t* acc) {
  if constexpr (R > 0) {
    if (count < R) return multiply_rest<R - 1, V>(count, panel, filter, first, acc);
    multiply_tile<R, V>(panel, filter, first, acc);
  }
}

inline void prefetch(const int8_t* first, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(first + i, 0, 2);
}

// Multiplies all rows by V vectors of columns. Rows that are read once are prefetched by a tile,
// also across blocks.
template <int V, bool read_once>
inline void multiply_vectors(const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
  constexpr int R = V == Simd::kTuning.tile_vectors ? Simd::kTuning.tile_rows : 8;
  int first = 0;
  for (; first + R <= filter.count; first += R) {
    if (read_once) prefetch(filter.rows + (first + R) * filter.depth, R * filter.depth);
    multiply_tile<R, V>(panel, filter, first, acc + first * kPanelWidth);
  }
  multiply_rest<R - 1, V>(filter.count - first, panel, filter, first, acc + first * kPanelWidth);
}

struct VectorMicrokernel {
  // The most rows of A for which B's columns are read in place. With AVX-512, packing them is
  // faster.
  static constexpr int64_t kMostUnpacked = Simd::kPermutesBytes ? 0 : Simd::kLanes;
  static constexpr int64_t kMostRows =
      kBlockRows / Simd::kTuning.tile_rows * Simd::kTuning.tile_rows;
  static constexpr bool kNeedsWholeSteps = false;  // whole steps of a panel's depth

  // acc[r * kPanelWidth + lane] is the sum of row r and of a panel's column, in lane order.
  static void multiply(const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
    for (int j = 0; j < kVectors; j += Simd::kTuning.tile_vectors) {
      multiply_vectors<Simd::kTuning.tile_vectors, false>(panel + j * kKPack * Simd::kLanes, filter,
                                                          acc + j * Simd::kLanes);
    }
  }

  // Multiplies a panel's first vector by rows that are read once.
  static void multiply_vector(const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
    multiply_vectors<1, true>(panel, filter, acc);
  }
};

// Sums every column over the depth.
inline void sum_columns(const uint8_t* panel, int64_t quads, int32_t* sums) {
  constexpr int V = Simd::kTuning.tile_vectors;
  const Simd::Weights ones(0x01010101);
  for (int j = 0; j < kVectors; j += V) {
    Simd::Int32s totals[V] = {};
    const uint8_t* quad = panel + j * kKPack * Simd::kLanes;
    for (int64_t q = 0; q < quads; ++q, quad += kQuadBytes) {
#pragma GCC unroll 8
      for (int i = 0; i < V; ++i) {
        Simd::multiply_add(totals[i], Simd::Columns(quad + i * kKPack * Simd::kLanes), ones);
      }
    }
    for (int i = 0; i < V; ++i) Simd::store(sums + (j + i) * Simd::kLanes, totals[i]);
  }
}

// --- packing

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

#ifdef __AMX_INT8__
#include "dmlax/_cpu/gemm/amx.h"
#else
namespace dmlax::DMLAX_ISA_NAMESPACE {
using Microkernel = VectorMicrokernel;
}
#endif
