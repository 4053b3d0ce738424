// Turns accumulators into outputs: adds the bias, subtracts zero points, requantizes and stores.
#pragma once

#include "dmlax/_cpu/bits.h"
#include "dmlax/_cpu/requantize.h"
#include "dmlax/_cpu/simd/interface.h"
#include "dmlax/_cpu/simd/transpose.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// An output channel's accumulators of a panel, in lane order, and the sums of its columns or null.
struct AccumulatorRow {
  const int32_t* acc;
  const int32_t* column_sums;
  int64_t channel;
};

// Adds the bias to a vector's sums and subtracts the terms of zero points.
inline Simd::Int32s finish_sums(const RequantizeParams& params, const AccumulatorRow& row,
                                int vector) {
  const Simd::Int32s sums = Simd::add(Simd::load(row.acc + Simd::kLanes * vector),
                                      Simd::broadcast(params.offset[row.channel]));
  if (row.column_sums == nullptr) return sums;
  const Simd::Int32s zero = Simd::broadcast(params.filter_zero[row.channel]);
  const Simd::Int32s column_sums = Simd::load(row.column_sums + Simd::kLanes * vector);
  return Simd::subtract(sums, Simd::multiply(zero, column_sums));
}

inline Simd::Floats estimate(const RequantizeParams& params, const Simd::Int32s& sums,
                             int64_t channel) {
  return Simd::estimate(sums, Simd::broadcast_float(params.estimate[channel]),
                        Simd::broadcast_float(params.low), Simd::broadcast_float(params.high));
}

// Writes the bytes of outputs near a tie. Bit i belongs to lane i of the accumulators.
__attribute__((noinline)) void resolve_ties(const RequantizeParams& params,
                                            const AccumulatorRow& row, uint64_t near_ties,
                                            uint8_t* bytes) {
  constexpr uint64_t kAll = ~uint64_t{0} >> (64 - Simd::kLanes);
  alignas(64) int32_t sums[Simd::kLanes];
  alignas(64) float estimates[Simd::kLanes];
  for (int j = 0; j < kVectors; ++j) {
    uint64_t lanes = (near_ties >> (Simd::kLanes * j)) & kAll;
    if (lanes == 0) continue;
    const Simd::Int32s finished = finish_sums(params, row, j);
    Simd::store(sums, finished);
    Simd::store_floats(estimates, estimate(params, finished, row.channel));
    for (; lanes != 0; lanes &= lanes - 1) {
      const int i = __builtin_ctzll(lanes);
      bytes[Simd::column_of(j, i)] = resolve_tie(params, row.channel, sums[i], estimates[i]);
    }
  }
}

// Requantizes 64 outputs of one channel in fixed point. Returns false if one is near a tie.
template <typename S>
inline bool requantize_fixed(const RequantizeParams& params, const AccumulatorRow& row,
                             uint8_t* bytes) {
  constexpr int kPacked = S::kVectorsPacked;
  const auto factor = S::broadcast_float(params.estimate[row.channel] * kFixedScale);
  typename S::NearTies near_ties(S::broadcast(kNotNearTie));
#pragma GCC unroll 2
  for (int first = 0; first < kVectors; first += kPacked) {
    typename S::Int32s rounded[kPacked];
#pragma GCC unroll 4
    for (int j = 0; j < kPacked; ++j) {
      rounded[j] = S::fixed_product(finish_sums(params, row, first + j), factor, near_ties);
    }
    S::template store_bytes<true>(bytes + S::kLanes * first, rounded, params.output_zero,
                                  params.output_signed);
  }
  return !near_ties.any();
}

// Requantizes 64 outputs of one channel, in the order of their columns.
template <typename S = Simd>
inline void requantize_row(const RequantizeParams& params, const AccumulatorRow& row,
                           uint8_t* bytes) {
  if constexpr (S::kRequantizesRows) {
    const bool fixed = params.band[row.channel] == kBand;
    if (fixed && __builtin_expect(requantize_fixed<S>(params, row, bytes), 1)) return;
  }
  constexpr int kPacked = Simd::kVectorsPacked;
  const Simd::Floats band = Simd::broadcast_float(params.band[row.channel]);
  uint64_t near_ties = 0;
#pragma GCC unroll 2
  for (int first = 0; first < kVectors; first += kPacked) {
    Simd::Int32s rounded[kPacked];
#pragma GCC unroll 4
    for (int j = 0; j < kPacked; ++j) {
      const Simd::Int32s sums = finish_sums(params, row, first + j);
      const Simd::Floats estimates = estimate(params, sums, row.channel);
      const uint64_t near_tie_mask = Simd::round(estimates, band, rounded[j]);
      near_ties |= near_tie_mask << (Simd::kLanes * (first + j));
    }
    Simd::store_bytes(bytes + Simd::kLanes * first, rounded, params.output_zero,
                      params.output_signed);
  }
  if (__builtin_expect(near_ties != 0, 0)) resolve_ties(params, row, near_ties, bytes);
}

// Writes 64 int32 outputs of one channel, in the order of their columns.
inline void accumulate_row(const RequantizeParams& params, const AccumulatorRow& row,
                           int32_t* outputs) {
  for (int j = 0; j < kVectors; ++j) {
    Simd::store_columns(outputs, j, finish_sums(params, row, j));
  }
}

// A panel's outputs of up to kBlockRows channels. Positions count elements of the output.
struct OutputTile {
  const RequantizeParams& params;
  void* output;
  bool channels_last;
  int64_t channels;  // a pixel's, if channels are last
  uint8_t* tile;     // 2 * kTileBytes

  // Stores row r of the tile. Its columns in `valid` are outputs.
  void store_row(const AccumulatorRow& row, int64_t r, uint64_t valid, int64_t at) const {
    if (params.quantized) {
      uint8_t* bytes = tile + r * kPanelWidth;
      requantize_row(params, row, bytes);
      if (!channels_last) Simd::store_selected(bytes, valid, static_cast<uint8_t*>(output) + at);
      return;
    }
    int32_t* values = reinterpret_cast<int32_t*>(tile) + r * kPanelWidth;
    accumulate_row(params, row, values);
    if (channels_last) return;
    int32_t* to = static_cast<int32_t*>(output) + at;
    for_each_run(valid, [&](int first, int count) {
      __builtin_memcpy(to, values + first, static_cast<size_t>(count) * 4);
      to += count;
    });
  }

  // Stores a tile whose rows become columns, because channels are last.
  void store_pixels(int64_t count, uint64_t valid, int64_t at) const {
    if (params.quantized) {
      store_byte_pixels(count, valid, static_cast<uint8_t*>(output) + at);
    } else {
      store_int32_pixels(count, valid, static_cast<int32_t*>(output) + at);
    }
  }

 private:
  void store_byte_pixels(int64_t count, uint64_t valid, uint8_t* to) const {
    uint8_t* pixels = tile + kTileBytes;
    transpose(pixels, kBlockRows, tile, kPanelWidth, count, kPanelWidth);
    for_each_run(valid, [&](int first, int run) {
      const uint8_t* from = pixels + first * kBlockRows;
      for (int i = 0; i < run; ++i, to += channels, from += kBlockRows) {
        if (count == kBlockRows) {
          __builtin_memcpy(to, from, kBlockRows);
        } else {
          __builtin_memcpy(to, from, static_cast<size_t>(count));
        }
      }
    });
  }

  void store_int32_pixels(int64_t count, uint64_t valid, int32_t* to) const {
    const int32_t* values = reinterpret_cast<const int32_t*>(tile);
    for_each_run(valid, [&](int first, int run) {
      for (int column = first; column < first + run; ++column, to += channels) {
        for (int64_t r = 0; r < count; ++r) to[r] = values[r * kPanelWidth + column];
      }
    });
  }
};

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
