// Kernels of rows times columns of 4-bit integers in blocks, for one instruction set.
#pragma once

#include <cstdint>

namespace dmlax {

struct BlockMatrix {
  const uint8_t* held;  // two integers a byte, the first in the low bits; a row for every column
  const float* scale;   // a scale for every block of every column
  const float* zero_point;
  int64_t columns;
  int64_t bytes, blocks;  // bytes and blocks of a column
  bool one_zero_point;    // all blocks share it
};

struct BlockKernels {
  // Orders the elements of rows as `multiply` reads them.
  void (*pack)(const float* row, int64_t count, float* packed);

  // Multiplies columns [first, last), a multiple of four, by packed rows.
  void (*multiply)(const BlockMatrix& matrix, const float* packed, int64_t rows, int64_t first,
                   int64_t last, float* output);
};

}  // namespace dmlax
