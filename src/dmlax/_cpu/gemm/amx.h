// Multiplies a block of filter rows by a panel on AMX tiles. Few rows and small depths use vectors.
#pragma once

#include <immintrin.h>

#include "dmlax/_cpu/gemm/microkernel.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// The operand of the instruction that shapes the tiles.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, unused[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

// The thread's tile registers, from the first shape until destruction.
class TileRegisters {
 public:
  TileRegisters() = default;
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

  ~TileRegisters() {
    if (rows_ != 0) _tile_release();
  }

  static constexpr int kMostWords = 16;  // words of the depth

  // Shapes the tiles for up to 32 rows of `words` words. Tiles 0 and 1 are the sums of the first 16
  // rows, tiles 2 and 3 the sums of the other rows. Tiles 4 and 5 are the rows, tiles 6 and 7 the
  // columns.
  void shape(int rows, int words = kMostWords) {
    if (rows == rows_ && words == words_) return;
    rows_ = rows;
    words_ = words;
    const int upper = rows < 16 ? rows : 16;
    const uint8_t counts[8] = {u8(upper), u8(upper),        u8(rows - upper), u8(rows - upper),
                               u8(upper), u8(rows - upper), u8(words),        u8(words)};
    TileShapes shapes;
    for (int i = 0; i < 8; ++i) {
      const bool has_rows = i == 4 || i == 5;
      shapes.rows[i] = counts[i];
      shapes.bytes[i] = static_cast<uint16_t>(counts[i] == 0 ? 0 : has_rows ? 4 * words : 64);
    }
    __asm__ volatile("" ::"r"(&shapes) : "memory");  // it reads more than the intrinsic declares
    _tile_loadconfig(&shapes);
  }

 private:
  static uint8_t u8(int value) { return static_cast<uint8_t>(value); }

  int rows_ = 0, words_ = 0;
};

class TileMicrokernel {
 public:
  static constexpr int64_t kMostRows = kBlockRows;
  static constexpr int64_t kMostUnpacked = Simd::kLanes;
  static constexpr bool kNeedsWholeSteps = true;

  // Not inlined, because the loops need the address registers.
  __attribute__((noinline)) void multiply(const uint8_t* panel, const FilterRows& filter,
                                          int32_t* acc) {
    if (filter.count < tuning::kTileFilterRows || filter.depth < tuning::kTileFilterDepth) {
      return VectorMicrokernel::multiply(panel, filter, acc);
    }
    registers_.shape(filter.count);
    __asm__ volatile("" ::: "memory");  // tile loads do not declare that they read memory
    for (int half = 0; half < 2; ++half) {
      if (filter.count > 16) {
        multiply_half<true, true>(panel + 128 * half, filter, acc + 32 * half);
      } else {
        multiply_half<false, true>(panel + 128 * half, filter, acc + 32 * half);
      }
    }
    __asm__ volatile("" ::: "memory");
  }

  // Multiplies a panel's first vector by rows that are read once.
  __attribute__((noinline)) void multiply_vector(const uint8_t* panel, const FilterRows& filter,
                                                 int32_t* acc) {
    if (filter.count <= 16 || filter.depth < tuning::kTileFilterDepth) {
      return VectorMicrokernel::multiply_vector(panel, filter, acc);
    }
    registers_.shape(filter.count);
    __asm__ volatile("" ::: "memory");
    multiply_half<true, false>(panel, filter, acc);
    __asm__ volatile("" ::: "memory");
  }

 private:
  // Multiplies 32 columns, or a vector, by up to 16 or 32 rows. Tiles 0 to 3 are sums, tiles 4 and
  // 5 rows, tiles 6 and 7 columns. Rows that a vector multiplies are read once and prefetched by a
  // block.
  template <bool lower, bool wide>
  static void multiply_half(const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
    const int64_t steps = filter.depth / kDepthStep, stride = filter.depth;
    const int8_t* rows = filter.rows;
    _tile_zero(0);
    if (wide) _tile_zero(1);
    if (lower) _tile_zero(2);
    if (lower && wide) _tile_zero(3);
    const int8_t* next = rows + kBlockRows * stride;
    const auto step = [&](const int8_t* upper_rows, int64_t row_stride) {
      if (!wide) {
#pragma GCC unroll 32
        for (int i = 0; i < kBlockRows; ++i) __builtin_prefetch(next + kDepthStep * i, 0, 2);
        next += kBlockRows * kDepthStep;
      }
      _tile_loadd(6, panel, kQuadBytes);
      if (wide) _tile_loadd(7, panel + 64, kQuadBytes);
      _tile_loadd(4, upper_rows, row_stride);
      _tile_dpbsud(0, 4, 6);
      if (wide) _tile_dpbsud(1, 4, 7);
      if (lower) {
        _tile_loadd(5, upper_rows + 16 * row_stride, row_stride);
        _tile_dpbsud(2, 5, 6);
        if (wide) _tile_dpbsud(3, 5, 7);
      }
      panel += kDepthStep * kPanelWidth;
    };
    for (int64_t i = 0; i < steps; ++i, rows += kDepthStep) step(rows, stride);
    if (filter.depth % kDepthStep != 0) step(filter.tail[0], kDepthStep);
    constexpr int64_t kStride = kPanelWidth * 4;
    int32_t* lower_acc = acc + 16 * kPanelWidth;
    _tile_stored(0, acc, kStride);
    if (wide) _tile_stored(1, acc + 16, kStride);
    if (lower) _tile_stored(2, lower_acc, kStride);
    if (lower && wide) _tile_stored(3, lower_acc + 16, kStride);
  }

  TileRegisters registers_;
};

using Microkernel = TileMicrokernel;

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
