// Kernels of ordered float32 products and sums, compiled once for each SIMD header. A vector has the sums of
// neighbouring columns, so all lanes of the order run one after another and no vector is folded.
#include "dmlax/_fused/exact_floats/cpu/ordered_product_kernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "dmlax/_fused/exact_floats/cpu/float_bits.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

constexpr int kStored = 6;  // sums that wait for the rest of the tree

constexpr int kTileRows = kLanes == Simd::kLanes && kLanes == 16 ? 12 : 4;
constexpr int kTileVectors = 2;

inline Floats zero_where(Ints mask, Floats x) {
  return floats(bits(x) & ~mask);
}

// Zero up to 2**-126. Without `settles` no such number comes.
template <bool settles>
inline Floats settle(Floats x) {
  if constexpr (!settles) return x;
  return zero_where(magnitude_bits(x) <= kLeastNormal, x);
}

// Zero for subnormal numbers.
template <bool flushes>
inline Floats flush_if(Floats x) {
  if constexpr (!flushes) return x;
  return zero_where(magnitude_bits(x) < kLeastNormal, x);
}

// A result: no negative zero, and one NaN.
inline Floats finish(Floats x) {
  const Ints size = magnitude_bits(x);
  const Ints kept = bits(x) & ~(size <= kLeastNormal);
  const Ints is_nan = size > kInfinity;
  return floats((kept & ~is_nan) | (is_nan & kNan));
}

// Subnormal numbers become 0.
void flush(float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    int32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    if ((bits & kMagnitude) < kLeastNormal) bits = 0;
    std::memcpy(x + i, &bits, sizeof bits);
  }
}

// Magnitudes less 1, so that zero becomes the greatest.
inline Words magnitude_less_one(Floats x) { return (reinterpret_cast<Words>(x) & kMagnitude) - 1; }

inline Words min_of(Words x, Words y) { return x < y ? x : y; }

inline uint32_t least_of(Words less_one) {
  uint32_t least = kNoMagnitude;
  for (int lane = 0; lane < kLanes; ++lane) least = std::min(least, less_one[lane]);
  return least == kNoMagnitude ? least : least + 1;
}

// The smallest magnitude but 0.
uint32_t find_least(const float* x, int64_t count) {
  Words least = Words{} + kNoMagnitude;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Floats some = i + kLanes <= count ? load(x + i) : load_some(x + i, count - i);
    least = min_of(least, magnitude_less_one(some));
  }
  return least_of(least);
}

double to_magnitude(uint32_t bits) {
  if (bits == kNoMagnitude) return 1.0;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Whether a product or a sum may be within 2**-126 of 0, but not 0. If all products are at least
// 2**-101, all are multiples of 2**-124, and so is every sum.
bool needs_settling(uint32_t x, uint32_t y) {
  const uint32_t normal = kLeastNormal;
  return x < normal || y < normal || to_magnitude(x) * to_magnitude(y) < 0x1p-101;
}

template <int R, int V, bool settles>
__attribute__((noinline)) void multiply_tile(const LaneOrder& order, const float* rows,
                                             const float* panel, int64_t columns, float* output,
                                             int64_t output_step) {
  float stored[kStored * R * V * kLanes];
  float* top = stored;
  Floats sums[R][V];
  for (int64_t i = 0; i < order.count; ++i) {
    const LaneOrder::Step& lane = order.steps[i];
    const float* x = rows + lane.first * R;
    const float* y = panel + lane.first * V * kLanes;
    Floats column[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) column[v] = load(y + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[r][v] = settle<settles>(all(x[r]) * column[v]);
    }
    for (int64_t k = 1; k < lane.count; ++k) {
      x += R, y += V * kLanes;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) column[v] = load(y + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          sums[r][v] = settle<settles>(sums[r][v] + settle<settles>(all(x[r]) * column[v]));
        }
      }
    }
    for (int64_t k = 0; k < lane.additions; ++k) {
      top -= R * V * kLanes;
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          sums[r][v] = settle<settles>(load(top + (r * V + v) * kLanes) + sums[r][v]);
        }
      }
    }
    if (i + 1 == order.count) break;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) store(top + (r * V + v) * kLanes, sums[r][v]);
    }
    top += R * V * kLanes;
  }
  const bool is_whole = columns == V * kLanes;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      float* to = is_whole ? output + r * output_step + v * kLanes : stored + v * kLanes;
      store(to, finish(sums[r][v]));
    }
    if (is_whole) continue;
    std::memcpy(output + r * output_step, stored,
                static_cast<size_t>(columns) * sizeof(float));
  }
}

template <int R, int V>
inline void multiply_tile(bool settles, const LaneOrder& order, const float* rows,
                          const float* panel, int64_t columns, float* output,
                          int64_t output_step) {
  if (settles) {
    multiply_tile<R, V, true>(order, rows, panel, columns, output, output_step);
  } else {
    multiply_tile<R, V, false>(order, rows, panel, columns, output, output_step);
  }
}

template <int R>
void pack_tile(const LaneOrder& order, const float* from, int64_t depth, float* packed) {
  for (int64_t k = 0; k < depth; ++k) {
    float* to = packed + (order.first_of[k % kOrderedLanes] + k / kOrderedLanes) * R;
    for (int r = 0; r < R; ++r) to[r] = from[r * depth + k];
  }
}

// Calls run(R, row) for the tiles of up to kTileRows rows.
template <int R = kTileRows, typename Run>
inline void for_tiles(int64_t rows, const Run& run, int64_t row = 0) {
  if constexpr (R > 0) {
    for (; row + R <= rows; row += R) run(std::integral_constant<int, R>{}, row);
    for_tiles<R == 12 ? 8 : R / 2>(rows, run, row);
  }
}

uint32_t pack_rows(const LaneOrder& order, const float* from, int64_t rows, int64_t depth,
                   float* packed) {
  for_tiles(rows, [&](auto r, int64_t row) {
    pack_tile<r()>(order, from + row * depth, depth, packed + row * depth);
  });
  const uint32_t least = find_least(from, rows * depth);
  if (least < static_cast<uint32_t>(kLeastNormal)) flush(packed, rows * depth);
  return least;
}

// Packs columns, and zeros up to `width`.
void pack_columns(const LaneOrder& order, const OrderedMatrix& matrix, int64_t first, int64_t count,
                  int64_t width, float* panel) {
  for (int64_t k = 0; k < matrix.depth; ++k) {
    float* to = panel + (order.first_of[k % kOrderedLanes] + k / kOrderedLanes) * width;
    std::memcpy(to, matrix.data + k * matrix.columns + first,
                static_cast<size_t>(count) * sizeof(float));
    std::fill(to + count, to + width, 0.0f);
  }
}

// Adds lanes of `width` floats to the first, of which `present` are there.
template <bool settles>
void add_lanes(float* lanes, int64_t width, int64_t present) {
  const auto add = [&](int64_t to, int64_t from) {
    if (from >= present) return;
    for (int64_t c = 0; c < width; c += kLanes) {
      float* at = lanes + to * width + c;
      store(at, settle<settles>(load(at) + load(lanes + from * width + c)));
    }
  };
  for (int64_t i = 0; i < 16; ++i) add(i, i + 16), add(i + 32, i + 48), add(i, i + 32);
  present = std::min<int64_t>(present, 16);
  for (int64_t half = 8; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) add(i, i + half);
    present = std::min(present, half);
  }
}

// Adds the products of a row with `count` columns to the lanes. Returns the least magnitude of the
// columns.
template <bool settles>
uint32_t multiply_row(const float* x, const OrderedMatrix& matrix, int64_t first, int64_t count,
                      float* lanes, int64_t width) {
  Words least = Words{} + kNoMagnitude;
  for (int64_t k = 0; k < matrix.depth; ++k) {
    const float* from = matrix.data + k * matrix.columns + first;
    float* to = lanes + k % kOrderedLanes * width;
    const bool begins = k < kOrderedLanes;
    const Floats value = flush_if<settles>(all(x[k]));
    for (int64_t c = 0; c < count; c += kLanes) {
      Floats y = c + kLanes <= count ? load(from + c) : load_some(from + c, count - c);
      least = min_of(least, magnitude_less_one(y));
      const Floats product = settle<settles>(value * flush_if<settles>(y));
      store(to + c, begins ? product : settle<settles>(load(to + c) + product));
    }
  }
  add_lanes<settles>(lanes, width, std::min<int64_t>(matrix.depth, kOrderedLanes));
  return least_of(least);
}

void multiply_row(const float* x, const OrderedMatrix& matrix, int64_t first, int64_t last,
                  float* lanes, float* output) {
  const int64_t count = last - first, width = (count + kLanes - 1) / kLanes * kLanes;
  const uint32_t of_row = find_least(x, matrix.depth);
  const uint32_t least = multiply_row<false>(x, matrix, first, count, lanes, width);
  if (needs_settling(of_row, least)) multiply_row<true>(x, matrix, first, count, lanes, width);
  for (int64_t c = 0; c < count; c += kLanes) {
    store_some(output + c, finish(load(lanes + c)), std::min<int64_t>(kLanes, count - c));
  }
}

float sum_row(const float* x, int64_t depth) {
  constexpr int kVectors = kOrderedLanes / kLanes;
  Floats sums[kVectors] = {};
  for (int64_t i = 0; i < depth; i += kOrderedLanes) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = i + v * kLanes, left = depth - at;
      if (left <= 0) break;
      const Floats term = left < kLanes ? load_some(x + at, left) : load(x + at);
      sums[v] = settle<true>(sums[v] + flush_if<true>(term));
    }
  }
  float last[2 * kMostLanes] = {};
  for (int u = 0; u < kUnit; ++u) {
    const Floats low = settle<true>(sums[u] + sums[u + kUnit]);
    const Floats high = settle<true>(sums[u + 2 * kUnit] + sums[u + 3 * kUnit]);
    store(last + u * kLanes, settle<true>(low + high));
  }
  for (int half = kMostLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i += kLanes) {
      store(last + i, settle<true>(load(last + i) + load(last + i + half)));
    }
  }
  return finish(load(last))[0];
}

void sum_columns(const float* x, int64_t depth, int64_t step, int64_t count, float* lanes,
                 float* output) {
  const int64_t width = (count + kLanes - 1) / kLanes * kLanes;
  for (int64_t k = 0; k < depth; ++k, x += step) {
    float* to = lanes + k % kOrderedLanes * width;
    for (int64_t c = 0; c < count; c += kLanes) {
      const Floats term =
          flush_if<true>(c + kLanes <= count ? load(x + c) : load_some(x + c, count - c));
      store(to + c, settle<true>(k < kOrderedLanes ? term : load(to + c) + term));
    }
  }
  add_lanes<true>(lanes, width, std::min<int64_t>(depth, kOrderedLanes));
  for (int64_t c = 0; c < count; c += kLanes) {
    store_some(output + c, finish(load(lanes + c)), std::min<int64_t>(kLanes, count - c));
  }
}

void multiply(const LaneOrder& order, const OrderedRows& rows, const OrderedMatrix& matrix,
              int64_t first, int64_t last, float* panel, float* output) {
  constexpr int64_t kWidth = kTileVectors * kLanes;
  const int64_t count = last - first;
  pack_columns(order, matrix, first, count, kWidth, panel);
  const uint32_t least = find_least(panel, matrix.depth * kWidth);
  if (least < static_cast<uint32_t>(kLeastNormal)) flush(panel, matrix.depth * kWidth);
  for_tiles(rows.rows, [&](auto r, int64_t row) {
    const bool settles = needs_settling(rows.least[row / kTileRows], least);
    multiply_tile<r(), kTileVectors>(settles, order, rows.packed + row * matrix.depth, panel,
                                     count, output + (rows.first + row) * matrix.columns + first,
                                     matrix.columns);
  });
}

}  // namespace

template <>
const OrderedProductKernels Table<OrderedProductKernels>::kernels = {
    .tile_rows = kTileRows,
    .panel_columns = kTileVectors * kLanes,
    .pack_rows = pack_rows,
    .multiply = multiply,
    .multiply_row = multiply_row,
    .sum_row = sum_row,
    .sum_columns = sum_columns};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
