// A block of pixels' rows times a panel on AMX tiles.
#ifndef DMLAX_CPU_GEMM_AMX_ROWS_H_
#define DMLAX_CPU_GEMM_AMX_ROWS_H_

#include <immintrin.h>

#include <cstdint>

#include "dmlax/_cpu/gemm/amx.h"
#include "dmlax/_cpu/gemm/rows.h"

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

class TileRowMicrokernel {
 public:
  static constexpr int64_t kDepthStep = 64;

  template <typename S>
  static constexpr int64_t rows_of_block() {
    return kBlockRows;
  }

  // Not inlined: its loops need the address registers.
  template <typename S>
  __attribute__((noinline)) void multiply(const Rows& rows, const uint8_t* panel, int64_t columns,
                                          const int32_t* initial, int32_t* acc,
                                          int64_t acc_stride = kPanelWidth) {
    if (rows.count < 4) {
      return VectorRowMicrokernel().multiply<S>(rows, panel, columns, initial, acc, acc_stride);
    }
    static_assert(kStripWidth<S> == kPanelWidth);
    registers_.shape(rows.count);
    __asm__ volatile("" ::: "memory");  // tile loads do not say that they read memory
    for (int64_t at = 0; at < columns; at += 32) {
      if (rows.count > 16) {
        multiply_columns<true>(rows, panel + 4 * at, initial + at, acc + at, acc_stride);
      } else {
        multiply_columns<false>(rows, panel + 4 * at, initial + at, acc + at, acc_stride);
      }
    }
    __asm__ volatile("" ::: "memory");
  }

 private:
  // 32 columns times up to 16 rows, or up to 32: tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7
  // columns.
  template <bool lower>
  static void multiply_columns(const Rows& rows, const uint8_t* panel, const int32_t* initial,
                               int32_t* acc, int64_t acc_stride) {
    _tile_loadd(0, initial, 0);
    _tile_loadd(1, initial + 16, 0);
    if (lower) {
      _tile_loadd(2, initial, 0);
      _tile_loadd(3, initial + 16, 0);
    }
    constexpr int64_t kBytes = 4 * kPanelWidth;  // a panel is one strip
    const uint8_t* upper_rows = rows.first;
    for (int64_t left = rows.words; left > 0; left -= 16) {
      _tile_loadd(6, panel, kBytes);
      _tile_loadd(7, panel + 64, kBytes);
      _tile_loadd(4, upper_rows, rows.stride);
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
      if (lower) {
        _tile_loadd(5, upper_rows + 16 * rows.stride, rows.stride);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
      }
      panel += 16 * kBytes;
      upper_rows += 64;
    }
    const int64_t bytes = 4 * acc_stride;
    _tile_stored(0, acc, bytes);
    _tile_stored(1, acc + 16, bytes);
    if (lower) {
      _tile_stored(2, acc + 16 * acc_stride, bytes);
      _tile_stored(3, acc + 16 * acc_stride + 16, bytes);
    }
  }

  TileRegisters registers_;
};

}  // namespace
}  // namespace DMLAX_ISA_NAMESPACE
}  // namespace dmlax

#endif  // DMLAX_CPU_GEMM_AMX_ROWS_H_
