// Kernels of the float32 products and sums of `_core/ordered_products.py`, for one instruction set.
//
// Element i of the depth belongs to lane i % 64. A lane adds its rounded products in turn, and a
// tree adds the lanes. Products and sums up to 2**-126 are 0.
#pragma once

#include <cstdint>
#include <limits>

namespace dmlax {

constexpr int kOrderedLanes = 64;
constexpr int64_t kOrderedColumns = 128;  // columns that a single row multiplies at once

// The lanes in the order in which the tree needs them.
struct LaneOrder {
  struct Step {
    int64_t lane, first, count;  // its elements, and where they are in packed operands
    int64_t additions;           // stored sums that are added to this lane's
  };
  Step steps[kOrderedLanes];
  int64_t count = 0;
  int64_t first_of[kOrderedLanes] = {};  // of a lane

  explicit LaneOrder(int64_t depth) {
    add(depth, 0);
    int64_t first = 0;
    for (int64_t i = 0; i < count; ++i) {
      steps[i].first = first_of[steps[i].lane] = first;
      steps[i].count = (depth - steps[i].lane + kOrderedLanes - 1) / kOrderedLanes;
      first += steps[i].count;
    }
  }

 private:
  // Adds a part of the tree, of lanes that differ from `lane` in the lower levels. Returns false
  // if the depth has none of them.
  bool add(int64_t depth, int64_t lane, int level = 0) {
    constexpr int kHalves[] = {1, 2, 4, 8, 32, 16};
    if (level == 6) {
      if (lane < depth) steps[count++] = {lane, 0, 0, 0};
      return lane < depth;
    }
    const bool low = add(depth, lane, level + 1), high = add(depth, lane + kHalves[level], level + 1);
    if (low && high) ++steps[count - 1].additions;
    return low || high;
  }
};

// The smallest magnitude of some numbers that is not 0, as the bits of a float32.
constexpr uint32_t kNoMagnitude = std::numeric_limits<uint32_t>::max();

// Rows of a matrix, packed for tiles: of a tile, every element of the depth has the tile's rows.
struct OrderedRows {
  const float* packed;
  const uint32_t* least;  // of every tile
  int64_t first, rows;    // whole tiles; the last may be shorter
};

struct OrderedMatrix {
  const float* data;  // rows of the depth
  int64_t columns, depth;
};

struct OrderedProductKernels {
  int64_t tile_rows;      // of a tile
  int64_t panel_columns;  // of a panel

  // Packs a tile of rows, which are `depth` long.
  uint32_t (*pack_rows)(const LaneOrder& order, const float* from, int64_t rows, int64_t depth,
                        float* packed);

  // Multiplies rows by columns [first, last), at most a panel, which is packed to `panel`.
  void (*multiply)(const LaneOrder& order, const OrderedRows& rows, const OrderedMatrix& matrix,
                   int64_t first, int64_t last, float* panel, float* output);

  // Multiplies a row of the depth by columns [first, last), at most kOrderedColumns. The lanes of
  // all columns are in `lanes`, while the matrix is read in its order.
  void (*multiply_row)(const float* x, const OrderedMatrix& matrix, int64_t first, int64_t last,
                       float* lanes, float* output);

  // The sum of a row, in the same order.
  float (*sum_row)(const float* x, int64_t depth);

  // The sums of `count` columns, at most kOrderedColumns; rows are `step` apart.
  void (*sum_columns)(const float* x, int64_t depth, int64_t step, int64_t count, float* lanes,
                      float* output);
};

}  // namespace dmlax
