// Multiplies a block of pixel rows by a panel on AMX tiles.
#pragma once

#include <immintrin.h>

#include "dmlax/_cpu/gemm/amx.h"
#include "dmlax/_cpu/gemm/rows.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

class TileRowMicrokernel {
 public:
  static constexpr bool kNeedsStride = true;  // the distance between rows is constant
  template <typename S>
  static constexpr int64_t kRowsOfBlock = kBlockRows;
  template <typename S>
  static constexpr int64_t kMostRows = tuning::kTileRowBlocks * kBlockRows;

  // If rows have few words, all columns stay in the first cache, and the sums of a block do too.
  template <typename S>
  static constexpr int64_t rows_at_once(int64_t words) {
    return words <= tuning::kTileFewWords ? kBlockRows : kMostRows<S>;
  }

  // The words of a row, padded with zeros to whole tiles.
  static int64_t words_of(int64_t depth) {
    const int64_t words = (depth + kKPack - 1) / kKPack;
    return round_up(words, words_of_tile(words));
  }

  // Whether tiles can read a tap in place.
  static bool reads_taps(int64_t channels) {
    return channels % kKPack == 0 && words_of(channels) * kKPack == channels &&
           words_of_tile(channels / kKPack) >= tuning::kTileLeastWords;
  }

  template <typename S>
  void multiply(const Rows& rows, const uint8_t* panel, int64_t columns, const int32_t* initial,
                int32_t* acc, int64_t acc_stride = kPanelWidth) {
    static_assert(kStripWidth<S> == kPanelWidth);
    if (rows.words < tuning::kTileLeastProduct) {
      return VectorRowMicrokernel().multiply<S>(rows, panel, columns, initial, acc, acc_stride);
    }
    const int rest = rows.count % kBlockRows, few = rest < tuning::kTileLeastRest ? rest : 0;
    Rows tiled = rows, last = rows;
    tiled.count -= few;
    if (few > 0) {
      last.first += tiled.count * rows.stride;
      last.count = few;
      VectorRowMicrokernel().multiply<S>(last, panel, columns, initial,
                                         acc + tiled.count * acc_stride, acc_stride);
    }
    const int64_t words = words_of_tile(rows.taps == nullptr ? rows.words : rows.tap_words);
    for (int64_t at = 0; tiled.count > 0 && at < columns; at += kColumnsAtOnce) {
      multiply_columns(tiled, words, panel + 4 * at, {initial + at, 0, acc + at, acc_stride});
    }
  }

 private:
  static constexpr int64_t kColumnsAtOnce = 32;
  static constexpr int64_t kWordBytes = 4 * kPanelWidth;  // a panel is one strip

  // The words of a row that a tile has: equal parts of the row if there are few such parts, so that
  // rows are read in place.
  static constexpr int64_t words_of_tile(int64_t words) {
    constexpr int64_t kMost = TileRegisters::kMostWords;
    if (words <= kMost) return words < 1 ? 1 : words;
    const int64_t parts = (words + kMost - 1) / kMost;
    for (int64_t more = parts; more <= 2 * parts; ++more) {
      if (words % more == 0) return words / more;
    }
    return (words + parts - 1) / parts;
  }

  // Multiplies a part of the columns' depth by all rows, then the next part. Not inlined, because
  // the loops need the address registers.
  __attribute__((noinline)) void multiply_columns(const Rows& rows, int64_t words,
                                                  const uint8_t* panel, RowSums sums) {
    __asm__ volatile("" ::: "memory");  // tile loads do not declare that they read memory
    for_each_chunk(rows, tuning::kTileWordsAtOnce / words * words, [&](const DepthChunk& chunk) {
      for (int first = 0; first < rows.count; first += kBlockRows) {
        const int count = rows.count - first < kBlockRows ? rows.count - first : kBlockRows;
        registers_.shape(count, static_cast<int>(words));
        if (count > 16) {
          multiply_block<true>(rows, chunk, words, first, panel, sums);
        } else {
          multiply_block<false>(rows, chunk, words, first, panel, sums);
        }
      }
      panel += chunk.all_words() * kWordBytes;
      sums = {sums.acc, sums.stride, sums.acc, sums.stride};
    });
    __asm__ volatile("" ::: "memory");
  }

  // Multiplies 32 columns by up to 16 or 32 rows. Tiles 0 to 3 are sums, tiles 4 and 5 rows, tiles
  // 6 and 7 columns.
  template <bool lower>
  static void multiply_block(const Rows& rows, const DepthChunk& chunk, int64_t words,
                             int64_t first, const uint8_t* panel, const RowSums& sums) {
    const int64_t initial_bytes = 4 * sums.initial_stride, bytes = 4 * sums.stride;
    const int32_t* initial = sums.initial + first * sums.initial_stride;
    const int32_t* lower_initial = initial + 16 * sums.initial_stride;
    _tile_loadd(0, initial, initial_bytes);
    _tile_loadd(1, initial + 16, initial_bytes);
    if (lower) {
      _tile_loadd(2, lower_initial, initial_bytes);
      _tile_loadd(3, lower_initial + 16, initial_bytes);
    }
    const uint8_t* const start = rows.first + first * rows.stride;
    for (int64_t tap = 0; tap < chunk.taps; ++tap) {
      const uint8_t* upper_rows = start + chunk.offsets[tap];
      for (int64_t left = chunk.words; left > 0; left -= words) {
        _tile_loadd(6, panel, kWordBytes);
        _tile_loadd(7, panel + 64, kWordBytes);
        _tile_loadd(4, upper_rows, rows.stride);
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        if (lower) {
          _tile_loadd(5, upper_rows + 16 * rows.stride, rows.stride);
          _tile_dpbusd(2, 5, 6);
          _tile_dpbusd(3, 5, 7);
        }
        panel += words * kWordBytes;
        upper_rows += 4 * words;
      }
    }
    int32_t* acc = sums.acc + first * sums.stride;
    _tile_stored(0, acc, bytes);
    _tile_stored(1, acc + 16, bytes);
    if (lower) {
      _tile_stored(2, acc + 16 * sums.stride, bytes);
      _tile_stored(3, acc + 16 * sums.stride + 16, bytes);
    }
  }

  TileRegisters registers_;
};

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
