// Kernels of rows of 8-bit levels times columns of integers in blocks, for one instruction set.
//
// A row is rounded in blocks: `rint(x * 127 / top)`, where `top` is the block's largest magnitude.
// A block's sum of integers is multiplied by `top / 127` times the weights' scale. Sixteen blocks
// are the lanes of a vector, and sums of vectors are in the order of `sums.IN_ROWS`.
#pragma once

#include <cstdint>

namespace dmlax {

constexpr int64_t kLevelBlocks = 16;   // blocks of a group
constexpr int64_t kLevelColumns = 16;  // columns of a panel
constexpr int64_t kMostLevelBlock = 256;

struct LevelMatrix {
  const uint8_t* held;        // integers of 4 or 8 bits, the first in the low bits; a row a column
  const float* scale;         // one for every `parts` blocks of a column
  const uint8_t* zero_point;  // as `held`, one for every scale; null: all are `zero`
  int32_t zero;
  int64_t columns, bits;
  int64_t block, blocks, parts;  // elements of a block; a column's blocks; blocks that share a scale
};

// The packed form of a row: for each group of blocks its steps, the negative sums of its levels,
// times `zero` if all zero points are that, and its levels.
struct LevelLayout {
  int64_t block_bytes, quads;  // bytes of a block's weights, and its units of four words
  int64_t groups, group_bytes, row_bytes;
  int64_t column_bytes;  // bytes of a column
  int64_t parameters;    // scales of a column
};

struct LevelKernels {
  double products_per_ns;  // approximate throughput of a thread

  void (*pack)(const LevelMatrix& matrix, const float* row, uint8_t* packed);

  // Multiplies panels [first, last) by packed rows.
  void (*multiply)(const LevelMatrix& matrix, const uint8_t* packed, int64_t rows, int64_t first,
                   int64_t last, uint8_t* scratch, float* output);

  // The bytes of `scratch`, which is aligned to 64.
  int64_t (*scratch_bytes)(const LevelMatrix& matrix, int64_t rows);
};

namespace {

inline LevelLayout layout_of(const LevelMatrix& matrix) {
  LevelLayout layout;
  layout.block_bytes = matrix.block * matrix.bits / 8;
  layout.quads = (layout.block_bytes + 15) / 16;
  layout.groups = (matrix.blocks + kLevelBlocks - 1) / kLevelBlocks;
  layout.group_bytes = kLevelBlocks * (8 + layout.quads * 128 / matrix.bits);
  layout.row_bytes = layout.groups * layout.group_bytes;
  layout.column_bytes = matrix.blocks * layout.block_bytes;
  layout.parameters = matrix.blocks / matrix.parts;
  return layout;
}

}  // namespace
}  // namespace dmlax
