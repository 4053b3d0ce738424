// Depthwise convolution on planes: packs a small panel of taps for every panel of outputs. A set
// that permutes bytes needs no panel if the taps are close together.
#pragma once

#include "dmlax/_operators/convolution/cpu/positions.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// A channel's weights, one word for each kernel row; empty if the row kernel does not run.
struct TapWords {
  int32_t weights[kMostTapRows], ones[kMostTapRows];
  int count = 0;

  explicit TapWords(const ConvProblem& problem) {
    if (!problem.layout.taps_fit_one_load) return;
    count = static_cast<int>(problem.shape.height.kernel);
    for (int i = 0; i < count; ++i) ones[i] = 0x01010101 & mask(problem);
  }

  void load(const ConvProblem& problem, const int8_t* filter) {
    const int64_t row_taps = problem.shape.width.kernel;
    for (int i = 0; i < count; ++i) {
      const int64_t left = problem.shape.depth - i * row_taps;
      uint32_t bits = 0;
      if (left >= 4) {
        __builtin_memcpy(&bits, filter + i * row_taps, 4);
      } else {
        for (int64_t k = 0; k < left; ++k) {
          bits |= static_cast<uint32_t>(static_cast<uint8_t>(filter[i * row_taps + k])) << (8 * k);
        }
      }
      weights[i] = static_cast<int32_t>(bits) & mask(problem);
    }
  }

 private:
  static int32_t mask(const ConvProblem& problem) {
    return static_cast<int32_t>(~uint32_t{0} >> (32 - 8 * problem.shape.width.kernel));
  }
};

// The positions of every output's taps in the next 64 bytes of a plane's row.
template <typename S>
inline typename S::Bytes order_of_taps(const ConvProblem& problem) {
  const int step = static_cast<int>(problem.layout.step);
  const int taps = static_cast<int>(problem.shape.width.dilation) * 0x03020100;
  const auto first = S::multiply(S::first_lanes(), S::broadcast(step * 0x01010101));
  return S::add(first, S::broadcast(taps));
}

// 64 outputs of a channel: sums of taps times weights, and of taps. A word has up to four taps of
// one kernel row.
template <typename S, bool kWithSums>
inline void multiply_tap_rows(const ConvProblem& problem, const TapWords& words,
                              const uint8_t* plane, int32_t* acc, int32_t* column_sums) {
  const auto sign = S::broadcast_byte(problem.shape.input_signed ? 128 : 0);
  const auto order = order_of_taps<S>(problem);
  const int64_t step = S::kLanes * problem.layout.step;
  typename S::Int32s a[kVectors] = {}, s[kVectors] = {};
  for (int i = 0; i < words.count; ++i) {
    const int64_t tap = i * problem.shape.width.kernel;
    const uint8_t* row = plane + problem.layout.tap_offsets[tap];
    const typename S::Weights weights(words.weights[i]), ones(words.ones[i]);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const auto bytes = S::flip_bits(S::load_bytes(row + step * j), sign);
      const typename S::Columns taps(S::permute_bytes(order, bytes));
      S::multiply_add(a[j], taps, weights);
      if (kWithSums) S::multiply_add(s[j], taps, ones);
    }
  }
  S::to_panel_order(a);
  if (kWithSums) S::to_panel_order(s);
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) {
    S::store(acc + S::kLanes * j, a[j]);
    if (kWithSums) S::store(column_sums + S::kLanes * j, s[j]);
  }
}

// Returns false if the row kernel does not run.
template <typename S>
inline bool run_row_kernel(const ConvProblem& problem, const TapWords& words, const uint8_t* plane,
                           int32_t* acc, int32_t* column_sums) {
  if (words.count == 0) return false;
  if (column_sums != nullptr) {
    multiply_tap_rows<S, true>(problem, words, plane, acc, column_sums);
  } else {
    multiply_tap_rows<S, false>(problem, words, plane, acc, column_sums);
  }
  return true;
}

struct DepthwiseRange {
  const ConvProblem& problem;
  const TileRange& range;
  const TileScratch scratch{range.scratch};
  const OutputTile tile = output_tile(problem, range.output, scratch.tile);
  int32_t* sums = problem.requantize.filter_zero == nullptr
                      ? nullptr
                      : column_sums(problem.panel, scratch.panels);

  const int8_t* filter(int64_t row) const { return range.filter + row * problem.shape.depth; }

  // The plane of the first image that an output channel reads.
  const uint8_t* plane(int64_t channel) const {
    const int64_t rows = problem.shape.rows;
    return range.planes + (rows == 1 ? channel : channel / rows) * problem.layout.plane;
  }

  void multiply(const PanelPosition& position, const TapWords& words, int64_t row) const {
    const PlaneLayout& layout = problem.layout;
    if constexpr (Simd::kPermutesBytes) {
      const int64_t offset = position.image * layout.image + position.first * layout.step;
      if (run_row_kernel<Simd>(problem, words, plane(row) + offset, scratch.acc, sums)) return;
    }
    const PanelSource source = source_of(layout, position);
    const PanelOptions options{.flip = static_cast<uint8_t>(problem.shape.input_signed ? 128 : 0),
                               .with_sums = sums != nullptr,
                               .whole_steps = false};
    pack_panels(problem.panel, options, &source, 1, QuadRows{problem, plane(row)}, scratch.panels);
    VectorMicrokernel::multiply(scratch.panels, FilterRows(filter(row), problem.shape.depth, 1),
                                scratch.acc);
  }

  // Runs row r of the block that begins with channel `first`.
  void run_row(const PanelPosition& position, const TapWords& words, int64_t first,
               int64_t r) const {
    multiply(position, words, first + r);
    tile.store_row({scratch.acc, sums, first + r}, r, position.valid,
                   position_in_output(problem.shape, position, first + r));
  }

  // Runs a block of rows. All panels share the weights of a row.
  void run_rows(const PanelPosition* positions, int64_t count, TapWords& words, int64_t first,
                int64_t rows) const {
    for (int64_t r = 0; r < rows; ++r) {
      words.load(problem, filter(first + r));
      for (int64_t i = 0; i < count; ++i) run_row(positions[i], words, first, r);
    }
  }

  // Runs a block of rows whose channels are last, so that a panel needs the whole block.
  void run_pixels(const PanelPosition* positions, int64_t count, TapWords& words, int64_t first,
                  int64_t rows) const {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t r = 0; r < rows; ++r) {
        words.load(problem, filter(first + r));
        run_row(positions[i], words, first, r);
      }
      tile.store_pixels(rows, positions[i].valid,
                        position_in_output(problem.shape, positions[i], first));
    }
  }
};

inline void depthwise(const ConvProblem& problem, const TileRange& range) {
  const DepthwiseRange work{problem, range};
  TapWords words(problem);
  constexpr int64_t kMost = 128;
  PanelPosition positions[kMost];
  for (int64_t panel = range.first_panel; panel < range.last_panel; panel += kMost) {
    const int64_t count = least(range.last_panel - panel, kMost);
    for (int64_t i = 0; i < count; ++i) positions[i] = PanelPosition(problem, panel + i);
    for (int64_t row = range.first_row; row < range.last_row; row += kBlockRows) {
      const int64_t rows = least(range.last_row - row, kBlockRows);
      if (problem.shape.output_last) {
        work.run_pixels(positions, count, words, row, rows);
      } else {
        work.run_rows(positions, count, words, row, rows);
      }
    }
  }
}

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
