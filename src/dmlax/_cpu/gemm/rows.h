// Multiplies rows of unsigned bytes by panels of signed columns. In a convolution, rows are pixels
// and columns are output channels, so that neither is transposed.
//
// Rows and panels are 32-bit words: kKPack bytes of the depth, or a pair of 16-bit numbers on sets
// that multiply pairs. A panel consists of strips with their whole depth. A strip has as many
// columns as a tile. Columns are in their natural order.
#pragma once

#include "dmlax/_cpu/bits.h"
#include "dmlax/_cpu/gemm/microkernel.h"
#include "dmlax/_cpu/requantize.h"
#include "dmlax/_cpu/simd/transpose.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

template <typename S>
constexpr int64_t kStripWidth = S::kTuning.row_tile_vectors * S::kLanes;

template <typename S>
constexpr int64_t kWordBytes = 4 * kStripWidth<S>;  // a word of every column of a strip

// Whether the set multiplies panels in the order of `PreparedPanels` as they are.
template <typename S>
constexpr bool reads_prepared_panels() {
  if constexpr (S::kMultipliesRows) {
    return S::kWordsOfQuad == 1 && kStripWidth<S> == kPanelWidth;
  }
  return false;
}

// Words of a strip that tiles multiply at once.
template <typename S>
constexpr int64_t kWordsAtOnce = S::kTuning.words_at_once;

// --- packing

// Columns of a panel, or a part of their depth, stored as rows `stride` bytes apart.
struct ColumnRows {
  const int8_t* first;
  int64_t stride, depth, count;

  ColumnRows from(int64_t row) const { return {first + row * stride, stride, depth, count - row}; }
};

// Loads kLanes quads of kLanes rows from quad `at` on, so that a vector has one quad of every row.
// Bytes past the depth and rows past the last are zeros.
template <typename S>
inline void transpose_quads(const ColumnRows& rows, int64_t at, typename S::Int32s* block) {
  const int64_t left = rows.depth - kKPack * at;
  for (int r = 0; r < S::kLanes; ++r) {
    const int8_t* row = rows.first + r * rows.stride + kKPack * at;
    if (r < rows.count && left >= kKPack * S::kLanes) {
      block[r] = S::load(row);
    } else {
      alignas(64) int8_t rest[kKPack * S::kLanes] = {};
      if (r < rows.count && left > 0) __builtin_memcpy(rest, row, static_cast<size_t>(left));
      block[r] = S::load(rest);
    }
  }
  S::transpose_words(block);
}

// Stores a quad of kLanes columns as words of their strip.
template <typename S>
inline void store_quad(const typename S::Int32s& quad, uint8_t* strip) {
  if constexpr (S::kWordsOfQuad == 1) {
    S::store(strip, quad);
  } else {
    typename S::Int32s words[S::kWordsOfQuad];
    S::widen_columns(quad, words);
    for (int w = 0; w < S::kWordsOfQuad; ++w) S::store(strip + w * kWordBytes<S>, words[w]);
  }
}

// Packs kLanes quads of kLanes rows.
template <typename S>
inline void pack_block(const ColumnRows& rows, int64_t at, int64_t quads, uint8_t* strip) {
  typename S::Int32s block[S::kLanes];
  transpose_quads<S>(rows, at, block);
  for (int q = 0; q < quads; ++q) {
    store_quad<S>(block[q], strip + q * S::kWordsOfQuad * kWordBytes<S>);
  }
}

// Packs `quads` of rows as a panel's columns. A strip has `strip_quads`. The processor prefetches
// the kLanes rows of a block as streams.
template <typename S>
inline void pack_columns(const ColumnRows& rows, int64_t quads, int64_t strip_quads,
                         uint8_t* panel) {
  constexpr int64_t kQuad = S::kWordsOfQuad * kWordBytes<S>;
  for (int64_t column = 0; column < kPanelWidth && column < rows.count; column += S::kLanes) {
    const int64_t strip = column / kStripWidth<S>, within = column % kStripWidth<S>;
    uint8_t* target = panel + strip * strip_quads * kQuad + 4 * within;
    for (int64_t q = 0; q < quads; q += S::kLanes) {
      pack_block<S>(rows.from(column), q, least(quads - q, S::kLanes), target + q * kQuad);
    }
  }
}

// Packs up to kPanelWidth columns of a row-major matrix whose rows have `readable` bytes from the
// first column on. `flip` flips the sign bits. Zeros follow the depth.
template <typename S>
inline void pack_matrix(const uint8_t* matrix, int64_t stride, int64_t depth, int64_t readable,
                        uint8_t flip, int64_t quads, uint8_t* panel) {
  constexpr int64_t kQuad = S::kWordsOfQuad * kWordBytes<S>;
  for (int64_t q = 0; q < quads; ++q) {
    const int64_t left = depth - kKPack * q;
    const int filled = static_cast<int>(left < kKPack ? (left < 0 ? 0 : left) : kKPack);
    const uint8_t* rows[kKPack] = {};
    for (int i = 0; i < filled; ++i) rows[i] = matrix + (kKPack * q + i) * stride;
    alignas(64) uint8_t quad[kQuadBytes];
    alignas(64) int32_t words[kPanelWidth];
    S::interleave_rows(rows, filled, readable, flip, quad);
    if constexpr (S::kPermutesBytes && S::kWordsOfQuad == 1) {
      typename S::Int32s columns[kVectors];
      for (int j = 0; j < kVectors; ++j) columns[j] = S::load(quad + kKPack * S::kLanes * j);
      S::to_panel_order(columns);  // the order is its own inverse
      static_assert(kStripWidth<S> == kPanelWidth);
      for (int j = 0; j < kVectors; ++j) {
        S::store(panel + q * kQuad + kKPack * S::kLanes * j, columns[j]);
      }
      continue;
    }
    for (int j = 0; j < kVectors; ++j) {
      S::store_columns(words, j, S::load(quad + kKPack * S::kLanes * j));
    }
    for (int64_t column = 0; column < kPanelWidth && column < readable; column += S::kLanes) {
      const int64_t strip = column / kStripWidth<S>, within = column % kStripWidth<S>;
      store_quad<S>(S::load(words + column), panel + (strip * quads + q) * kQuad + 4 * within);
    }
  }
}

// The sum of a row's numbers.
template <typename S>
inline int32_t sum_row(const uint8_t* row, int64_t words) {
  int32_t sum = 0;
  if constexpr (S::kWordsOfQuad == 1) {
    for (int64_t i = 0; i < 4 * words; ++i) sum += row[i];
  } else {
    const int16_t* pairs = reinterpret_cast<const int16_t*>(row);
    for (int64_t i = 0; i < 2 * words; ++i) sum += pairs[i];
  }
  return sum;
}

// --- products

// `count` rows of `words`, `stride` bytes apart.
struct Rows {
  const uint8_t* first;
  int64_t stride, words;
  int count;
  const uint8_t* const* starts = nullptr;  // starts of rows at other distances
  const int64_t* taps = nullptr;           // offsets of a row's parts; null: one part
  int64_t tap_words = 0;                   // words of a part
  const uint8_t* next_panel = nullptr;     // tiles prefetch it; may be null
  int64_t tiles_before = 0;                // tiles that have prefetched a part of it

  const uint8_t* start(int64_t row) const {
    return starts == nullptr ? first + row * stride : starts[row];
  }
};

// A part of the depth of all rows: `words` at every offset from a row's start.
struct DepthChunk {
  const int64_t* offsets;
  int64_t taps, words;

  int64_t all_words() const { return taps * words; }
};

// Calls run(chunk) for the whole depth. A chunk has at most `most` words.
template <typename Run>
inline void for_each_chunk(const Rows& rows, int64_t most, const Run& run) {
  constexpr int64_t kNoOffset = 0;
  const int64_t* offsets = rows.taps == nullptr ? &kNoOffset : rows.taps;
  const int64_t words = rows.taps == nullptr ? rows.words : rows.tap_words;
  const int64_t taps = rows.taps == nullptr ? 1 : rows.words / words;
  const int64_t together = words == 0 || words > most ? 1 : most / words;
  for (int64_t tap = 0; tap < taps; tap += together) {
    if (words <= most) {
      run(DepthChunk{offsets + tap, taps - tap < together ? taps - tap : together, words});
      continue;
    }
    for (int64_t at = 0; at < words; at += most) {
      const int64_t offset = offsets[tap] + 4 * at;
      run(DepthChunk{&offset, 1, words - at < most ? words - at : most});
    }
  }
}

// The sum of a row's numbers.
template <typename S>
inline int32_t sum_row(const Rows& rows, int64_t row) {
  int32_t sum = 0;
  for_each_chunk(rows, rows.words, [&](const DepthChunk& chunk) {
    for (int64_t i = 0; i < chunk.taps; ++i) {
      sum += sum_row<S>(rows.start(row) + chunk.offsets[i], chunk.words);
    }
  });
  return sum;
}

// Sums `stride` apart. They start at `initial`, which all rows share if its stride is 0.
struct RowSums {
  const int32_t* initial;
  int64_t initial_stride;
  int32_t* acc;
  int64_t stride;
};

// Stores a tile's sums.
struct StoreSums {
  template <typename S, int R, int V>
  __attribute__((always_inline)) void finish(const typename S::Int32s (&sums)[R][V], int64_t first,
                                             const RowSums& to) const {
    int32_t* acc = to.acc + first * to.stride;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) S::store(acc + r * to.stride + j * S::kLanes, sums[r][j]);
    }
  }
};

// The outputs of a panel, rows of bytes `step` apart, and the factors of its columns. Rows near a
// tie set bit r of `near_ties`, and their sums are stored as well.
template <typename S>
struct PanelBytes {
  uint8_t* to;
  int64_t step;
  const float* factors;
  const typename S::ByteConstants* constants;
  uint64_t* near_ties;
};

// Requantizes a tile's sums in registers.
template <typename S, bool may_tie>
struct RequantizeSums {
  const PanelBytes<S>& bytes;

  template <typename, int R, int V>
  __attribute__((always_inline)) void finish(const typename S::Int32s (&sums)[R][V], int64_t first,
                                             const RowSums& to) const {
    uint8_t* row = bytes.to + first * bytes.step;
    const auto not_near_tie = S::load(bytes.constants->not_near_tie);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r, row += bytes.step) {
      typename S::NearTies near_ties(not_near_tie);
      typename S::Int32s all[V], rounded[V];
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) {
        const auto factor = S::load_floats(bytes.factors + j * S::kLanes);
        all[j] = S::in_register(sums[r][j]);
        rounded[j] = may_tie ? S::fixed_product(all[j], factor, near_ties)
                             : S::round_product(all[j], factor);
      }
      S::template store_row<may_tie>(row, rounded, *bytes.constants);
      if (may_tie && __builtin_expect(near_ties.any(), 0)) {
        *bytes.near_ties |= uint64_t{1} << (first + r);
        for (int j = 0; j < V; ++j) {
          S::store(to.acc + (first + r) * to.stride + j * S::kLanes, all[j]);
        }
      }
    }
  }
};

// Lets the first tiles of `count` rows prefetch the next panel. The rows here are those from
// `first` on.
template <typename S>
inline void fetch_next(Rows& rows, const uint8_t* panel, int64_t first, int64_t count) {
  if (count > tuning::kRowsThatFetch) return;
  rows.next_panel = panel;
  rows.tiles_before = first / S::kTuning.row_tile_rows;
}

// The memory that a tile prefetches: a part of the next panel, or the rows of the tile after the
// next one.
struct Fetched {
  const uint8_t* from;
  int64_t step;  // a step for every word of the depth

  template <typename S, int R>
  static Fetched by_tile(const Rows& rows, int64_t first) {
    const int64_t tile = rows.tiles_before + first / R;
    if (rows.next_panel != nullptr && tile < kWordBytes<S> / tuning::kFetchedOfWord) {
      return {rows.next_panel + tile * rows.words * tuning::kFetchedOfWord, tuning::kFetchedOfWord};
    }
    return {rows.start(first) + 2 * R * rows.stride, rows.taps == nullptr ? 4 * R : 4};
  }
};

template <typename S, int R, int V, typename Finish>
inline void multiply_row_tile(const Rows& rows, const DepthChunk& chunk, int64_t first,
                              const uint8_t* strip, const RowSums& to, const Finish& finish) {
  const int32_t* initial = to.initial + first * to.initial_stride;
  typename S::Int32s sums[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      sums[r][j] = S::load(initial + r * to.initial_stride + j * S::kLanes);
    }
  }
  const uint8_t* row[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) row[r] = rows.start(first + r);
  Fetched fetched = S::kPacksRows ? Fetched::by_tile<S, R>(rows, first) : Fetched{};
  for (int64_t tap = 0; tap < chunk.taps; ++tap) {
    const int64_t end = chunk.offsets[tap] + 4 * chunk.words;
    for (int64_t at = chunk.offsets[tap]; at < end; at += 4, strip += kWordBytes<S>) {
      typename S::Int32s columns[V];
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) columns[j] = S::load(strip + j * 4 * S::kLanes);
      if constexpr (S::kPacksRows) {
        __builtin_prefetch(fetched.from);
        fetched.from += fetched.step;
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        int32_t word;
        __builtin_memcpy(&word, row[r] + at, 4);
        const auto words = S::broadcast(word);
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j) S::multiply_words(sums[r][j], words, columns[j]);
      }
    }
  }
  finish.template finish<S, R, V>(sums, first, to);
}

template <typename S, int R, int V, typename Finish>
inline void multiply_last_rows(const Rows& rows, const DepthChunk& chunk, int64_t first,
                               const uint8_t* strip, const RowSums& sums, const Finish& finish) {
  if constexpr (R > 0) {
    if (rows.count - first < R) {
      return multiply_last_rows<S, R - 1, V>(rows, chunk, first, strip, sums, finish);
    }
    multiply_row_tile<S, R, V>(rows, chunk, first, strip, sums, finish);
  }
}

// Multiplies all rows by V vectors of a strip's columns.
template <typename S, int V, typename Finish = StoreSums>
__attribute__((noinline)) void multiply_row_vectors(const Rows& rows, const DepthChunk& chunk,
                                                    const uint8_t* strip, const RowSums& sums,
                                                    const Finish& finish = {}) {
  constexpr int R = V == S::kTuning.row_tile_vectors ? S::kTuning.row_tile_rows : 8;
  int64_t first = 0;
  for (; first + R <= rows.count; first += R) {
    multiply_row_tile<S, R, V>(rows, chunk, first, strip, sums, finish);
  }
  multiply_last_rows<S, R - 1, V>(rows, chunk, first, strip, sums, finish);
}

// Multiplies all rows by a strip. The sums start at `initial`.
template <typename S, int V>
inline void multiply_strip(const Rows& rows, const uint8_t* strip, const int32_t* initial,
                           int32_t* acc, int64_t acc_stride) {
  RowSums sums{initial, 0, acc, acc_stride};
  for_each_chunk(rows, kWordsAtOnce<S>, [&](const DepthChunk& chunk) {
    multiply_row_vectors<S, V>(rows, chunk, strip, sums);
    strip += chunk.all_words() * kWordBytes<S>;
    sums = {acc, acc_stride, acc, acc_stride};
  });
}

// Whether tiles hold the whole depth and the whole panel, so that bytes are made in registers.
template <typename S, typename RowKernel>
constexpr bool requantizes_in_registers() {
  return S::kPacksRows && !RowKernel::kNeedsStride;
}

// Multiplies all rows by a panel that is one strip and stores bytes. `acc` gets the sums of rows
// near a tie, 64 apart.
template <typename S, bool may_tie>
inline void multiply_to_bytes(const Rows& rows, const uint8_t* strip, const int32_t* initial,
                              int32_t* acc, const PanelBytes<S>& bytes) {
  for_each_chunk(rows, kWordsAtOnce<S>, [&](const DepthChunk& chunk) {
    multiply_row_vectors<S, S::kTuning.row_tile_vectors>(rows, chunk, strip,
                                                         RowSums{initial, 0, acc, kPanelWidth},
                                                         RequantizeSums<S, may_tie>{bytes});
  });
}

struct VectorRowMicrokernel {
  static constexpr bool kNeedsStride = false;

  // The words of a row. Bytes past its depth are zeros.
  static int64_t words_of(int64_t depth) { return (depth + kKPack - 1) / kKPack; }

  // Whether padded copies of images are read tap by tap.
  static bool reads_taps(int64_t channels) { return channels % kKPack == 0; }

  // The rows, in whole tiles, that a panel multiplies at once.
  template <typename S>
  static constexpr int64_t kRowsOfBlock =
      kBlockRows / S::kTuning.row_tile_rows * S::kTuning.row_tile_rows;

  // The most rows at once. More sums would leave the first cache before they are requantized.
  template <typename S>
  static constexpr int64_t kMostRows = kRowsOfBlock<S>;

  // The rows at once if rows have so many words.
  template <typename S>
  static constexpr int64_t rows_at_once(int64_t) {
    return kMostRows<S>;
  }

  template <typename S>
  void multiply(const Rows& rows, const uint8_t* panel, int64_t columns, const int32_t* initial,
                int32_t* acc, int64_t acc_stride = kPanelWidth) const {
    constexpr int V = S::kTuning.row_tile_vectors;
    for (int64_t at = 0; at < columns; at += kStripWidth<S>) {
      const uint8_t* strip = panel + at * 4 * rows.words;
      const int64_t vectors = (columns - at + S::kLanes - 1) / S::kLanes;
      if (vectors == 1) {
        multiply_strip<S, 1>(rows, strip, initial + at, acc + at, acc_stride);
      } else if (V > 2 && vectors == 2) {
        multiply_strip<S, 2>(rows, strip, initial + at, acc + at, acc_stride);
      } else {
        multiply_strip<S, V>(rows, strip, initial + at, acc + at, acc_stride);
      }
    }
  }
};

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE

#ifdef __AMX_INT8__
#include "dmlax/_cpu/gemm/amx_rows.h"
#endif

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

#ifdef __AMX_INT8__
using RowMicrokernel = TileRowMicrokernel;
#else
using RowMicrokernel = VectorRowMicrokernel;
#endif

// --- requantization

// 64 output channels of a pixel, from `first` on. Arrays are in the order of the sums' columns:
// natural order, or a panel's.
template <typename S, bool in_order>
struct PixelChannels {
  const RequantizeParams& params;
  int64_t first, count;
  const int32_t* filter_zero;  // null if all are 0
  const float *estimate, *band;
  int64_t width = kPanelWidth;  // a panel has 64 / width pixels
  int64_t distance = 0;         // between the outputs of these pixels

  static int column_of(int i) { return in_order ? i : S::column_of(i / S::kLanes, i % S::kLanes); }

  void subtract_zero_points(const int32_t* row_sums, int32_t* sums) const {
    for (int at = 0; at < kPanelWidth; at += S::kLanes) {
      const auto term = S::multiply(S::load(filter_zero + at), S::load(row_sums + at));
      S::store(sums + at, S::subtract(S::load(sums + at), term));
    }
  }

  void requantize(const int32_t* sums, uint8_t* bytes) const {
    constexpr int kPacked = S::kVectorsPacked;
    const auto low = S::broadcast_float(params.low), high = S::broadcast_float(params.high);
    uint64_t near_ties = 0;
    for (int j = 0; j < kVectors; j += kPacked) {
      typename S::Int32s rounded[kPacked];
#pragma GCC unroll 4
      for (int i = 0; i < kPacked; ++i) {
        const int at = (j + i) * S::kLanes;
        const auto factor = S::load_floats(estimate + at);
        const auto estimates = S::estimate(S::load(sums + at), factor, low, high);
        near_ties |= S::round(estimates, S::load_floats(band + at), rounded[i]) << at;
      }
      if constexpr (in_order) {
        S::store_bytes_in_order(bytes + S::kLanes * j, rounded, params.output_zero,
                                params.output_signed);
      } else {
        S::store_bytes(bytes + S::kLanes * j, rounded, params.output_zero, params.output_signed);
      }
    }
    if (__builtin_expect(near_ties != 0, 0)) resolve_ties(sums, near_ties, bytes);
  }

  // Requantizes rows of sums to bytes `step` apart. If no row may tie, multipliers are below 1.
  void requantize_rows(const int32_t* sums, int64_t rows, uint8_t* to, int64_t step) const {
    for (int64_t at = 0; at < count; at += kPackedColumns) {
      const int64_t columns = least(count - at, kPackedColumns);
      const Packed packed{*this, at, columns};
      if constexpr (S::kKeepsWindows && !in_order) {
        if (width == 32) {
          packed.template requantize<S::kVectorsPacked, 2>(sums, rows, to, step);
          continue;
        }
        if (width == 16) {
          packed.template requantize<S::kVectorsPacked, 4>(sums, rows, to, step);
          continue;
        }
      }
      // In a panel's order, every vector has columns of all parts.
      const int64_t vectors = in_order ? (columns + S::kLanes - 1) / S::kLanes : S::kVectorsPacked;
      if (vectors == 1) {
        packed.template requantize<1>(sums, rows, to, step);
      } else if (vectors == 2) {
        packed.template requantize<2>(sums, rows, to, step);
      } else {
        packed.template requantize<S::kVectorsPacked>(sums, rows, to, step);
      }
    }
  }

  // Whether the sums of a product become bytes in registers.
  bool requantizes_tiles(const Rows& rows) const {
    return params.quantized && (params.may_tie || params.scales_down) && filter_zero == nullptr &&
           count == kPanelWidth && rows.words > 0;
  }

  // Multiplies rows and stores bytes `step` apart.
  void multiply_to_bytes(const Rows& rows, const uint8_t* panel, const int32_t* initial,
                         int32_t* acc, uint8_t* to, int64_t step) const {
    const typename S::ByteConstants constants(params.output_zero, params.output_signed,
                                              params.may_tie);
    uint64_t near_ties = 0;
    if (!params.may_tie) {
      dmlax::DMLAX_ISA_NAMESPACE::multiply_to_bytes<S, false>(
          rows, panel, initial, acc, {to, step, estimate, &constants, &near_ties});
      return;
    }
    alignas(64) float factors[kPanelWidth];
    for (int j = 0; j < kPanelWidth; j += S::kLanes) {
      const auto scale = S::broadcast_float(kFixedScale);
      S::store_floats(factors + j, S::multiply(S::load_floats(estimate + j), scale));
    }
    dmlax::DMLAX_ISA_NAMESPACE::multiply_to_bytes<S, true>(
        rows, panel, initial, acc, {to, step, factors, &constants, &near_ties});
    for (; near_ties != 0; near_ties &= near_ties - 1) {
      const int64_t r = __builtin_ctzll(near_ties);
      requantize(acc + r * kPanelWidth, to + r * step);
    }
  }

 private:
  static constexpr int64_t kPackedColumns = S::kVectorsPacked * S::kLanes;

  // Columns that become one vector of bytes.
  struct Packed {
    const PixelChannels& channels;
    int64_t first, count;

    template <int V, int parts = 1>
    void requantize(const int32_t* sums, int64_t rows, uint8_t* to, int64_t step) const {
      if (channels.params.may_tie) {
        requantize_vectors<V, parts, true>(sums, rows, to, step);
      } else {
        requantize_vectors<V, parts, false>(sums, rows, to, step);
      }
    }

   private:
    // The rows whose vectors become one vector of bytes together.
    template <int V>
    static constexpr int kRowsPacked = in_order && S::kPacksRows ? S::kVectorsPacked / V : 1;

    // Values that stores of bytes might alias, read once.
    struct Constants {
      int32_t zero_point;
      bool is_signed;
      int64_t count, distance;
      typename S::Int32s not_near_tie;
    };

    // Not inlined, because the loops need the registers.
    template <int V, int parts, bool may_tie>
    __attribute__((noinline)) void requantize_vectors(const int32_t* sums, int64_t rows,
                                                      uint8_t* to, int64_t step) const {
      const RequantizeParams& params = channels.params;
      const volatile int32_t not_near_tie = kNotNearTie;  // else GCC 12 broadcasts it for every row
      const Constants constants{params.output_zero, params.output_signed, count, channels.distance,
                                S::broadcast(not_near_tie)};
      typename S::Floats factors[V];
      for (int j = 0; j < V; ++j) {
        factors[j] = S::load_floats(channels.estimate + first + j * S::kLanes);
        if (may_tie) factors[j] = S::multiply(factors[j], S::broadcast_float(kFixedScale));
      }
      constexpr int R = kRowsPacked<V>;
      sums += first;
      to += first;
      int64_t r = 0;
      for (; r + R <= rows; r += R, sums += R * kPanelWidth, to += R * step) {
        requantize_together<V, R, parts, may_tie>(constants, factors, sums, to, step);
      }
      for (; R > 1 && r < rows; ++r, sums += kPanelWidth, to += step) {
        requantize_together<V, 1, parts, may_tie>(constants, factors, sums, to, step);
      }
    }

    template <int V, int R, int parts, bool may_tie>
    __attribute__((always_inline)) void requantize_together(const Constants& constants,
                                                            const typename S::Floats* factors,
                                                            const int32_t* sums, uint8_t* to,
                                                            int64_t step) const {
      const auto [zero_point, is_signed, bytes, distance, not_near_tie] = constants;
      typename S::Int32s rounded[S::kVectorsPacked];
      typename S::NearTies near_ties(not_near_tie);
#pragma GCC unroll 4
      for (int j = 0; j < S::kVectorsPacked; ++j) {
        if (j >= R * V) {
          rounded[j] = rounded[V - 1];
          continue;
        }
        const auto all = S::load(sums + j / V * kPanelWidth + j % V * S::kLanes);
        rounded[j] = may_tie ? S::fixed_product(all, factors[j % V], near_ties)
                             : S::round_product(all, factors[j % V]);
      }
      if (may_tie && __builtin_expect(near_ties.any(), 0)) {
        for (int r = 0; r < R; ++r) requantize_near_tie(sums + r * kPanelWidth, to + r * step);
      } else if constexpr (R > 1) {
        S::template store_rows_in_order<V, may_tie>(to, step, rounded, zero_point, is_signed,
                                                    bytes);
      } else if constexpr (in_order) {
        S::template store_bytes_in_order<may_tie>(to, rounded, zero_point, is_signed, bytes);
      } else if constexpr (parts > 1) {
        S::template store_rows<parts, may_tie>(to, distance, rounded, zero_point, is_signed, bytes);
      } else {
        S::template store_bytes<may_tie>(to, rounded, zero_point, is_signed, bytes);
      }
    }

    __attribute__((noinline)) void requantize_near_tie(const int32_t* sums, uint8_t* to) const {
      alignas(64) uint8_t bytes[kPanelWidth];
      channels.requantize(sums - first, bytes);
      for (int64_t at = 0; at < kPanelWidth; at += channels.width, to += channels.distance) {
        __builtin_memcpy(to, bytes + first + at, static_cast<size_t>(count));
      }
    }
  };

  // Writes the bytes of outputs near a tie. Bit i belongs to sums[i].
  __attribute__((noinline)) void resolve_ties(const int32_t* sums, uint64_t near_ties,
                                              uint8_t* bytes) const {
    for (; near_ties != 0; near_ties &= near_ties - 1) {
      const int i = __builtin_ctzll(near_ties), column = column_of(i);
      const int64_t channel = column % width;
      if (channel >= count) continue;
      const float product = static_cast<float>(sums[i]) * estimate[i];
      const float clamped = product < params.low    ? params.low
                            : product > params.high ? params.high
                                                    : product;
      bytes[column] = resolve_tie(params, first + channel, sums[i], clamped);
    }
  }
};

// Prefetches outputs: rows of `count` bytes that are `step` apart.
inline void prefetch_rows(const uint8_t* to, int64_t rows, int64_t step, int64_t count) {
  for (int64_t r = 0; r < rows; ++r, to += step) {
    __builtin_prefetch(to, 1);
    __builtin_prefetch(to + count - 1, 1);
  }
}

inline void copy_bytes(uint8_t* to, const uint8_t* from, int64_t count) {
  if (count == kPanelWidth) {
    __builtin_memcpy(to, from, kPanelWidth);
  } else {
    __builtin_memcpy(to, from, static_cast<size_t>(count));
  }
}

// Stores a pixel's output channels from element `at` on.
template <typename S, bool in_order>
inline void store_pixel(const PixelChannels<S, in_order>& channels, const int32_t* sums,
                        void* output, int64_t at) {
  const RequantizeParams& params = channels.params;
  if (params.quantized) {
    alignas(64) uint8_t bytes[kPanelWidth];
    channels.requantize(sums, bytes);
    copy_bytes(static_cast<uint8_t*>(output) + at, bytes, channels.count);
    return;
  }
  int32_t* to = static_cast<int32_t*>(output) + at;
  if (in_order) {
    __builtin_memcpy(to, sums, static_cast<size_t>(channels.count) * 4);
  } else {
    alignas(64) int32_t columns[kPanelWidth];
    for (int j = 0; j < kVectors; ++j) S::store_columns(columns, j, S::load(sums + S::kLanes * j));
    __builtin_memcpy(to, columns, static_cast<size_t>(channels.count) * 4);
  }
}

// Stores pixels that are `step` elements apart.
template <typename S, bool in_order>
inline void store_pixels(const PixelChannels<S, in_order>& channels, const int32_t* sums,
                         int64_t rows, void* output, int64_t at, int64_t step) {
  const RequantizeParams& params = channels.params;
  if constexpr (S::kRequantizesRows) {
    if (params.quantized && (params.scales_down || params.may_tie)) {
      return channels.requantize_rows(sums, rows, static_cast<uint8_t*>(output) + at, step);
    }
  }
  for (int64_t r = 0; r < rows; ++r, sums += kPanelWidth, at += step) {
    store_pixel(channels, sums, output, at);
  }
}

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
