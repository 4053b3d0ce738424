// Kernels of float32 convolutions and products, compiled once for each SIMD header.
#include "dmlax/_fused/float_convolution/cpu/float_convolution_kernels.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dmlax/_cpu/simd/floats.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

static_assert(kFloatVector == kMostLanes);

constexpr int64_t kLine = 16;  // floats of a cache line

// --- epilogues ---------------------------------------------------------------------------

// The sigmoid as ONNX Runtime computes it: the quotient of `_core/rational.py`.
inline Floats sigmoid(Floats x) {
  constexpr float kNumerator[] = {4.37031012579801e-11f, 1.15627324459942e-07f,
                                  6.08574864600143e-05f, 8.51377133304701e-03f,
                                  2.48287947061529e-01f};
  constexpr float kDenominator[] = {6.10247389755681e-13f, 5.76102136993427e-09f,
                                    6.29106785017040e-06f, 1.70198817374094e-03f,
                                    1.16817656904453e-01f, 9.93151921023180e-01f};
  x = clip(x, all(-18.0f), all(18.0f));
  const Floats square = x * x;
  const Floats quotient = polynomial(kNumerator, square) * x / polynomial(kDenominator, square);
  return clip(quotient + 0.5f, Floats{}, all(1.0f));
}

template <Activation activation>
inline Floats activate(const FloatEpilogue& e, Floats y) {
  if constexpr (activation == Activation::clip) return clip(y, all(e.low), all(e.high));
  if constexpr (activation == Activation::sigmoid) return sigmoid(y);
  if constexpr (activation == Activation::silu) return y * sigmoid(y);
  if constexpr (activation == Activation::shifted_swish) {
    return y * clip(y + e.low, Floats{}, all(e.high)) / e.high;
  }
  if constexpr (activation == Activation::hard_sigmoid || activation == Activation::hard_swish) {
    const Floats line = e.fuses ? fused<Simd>(y, all(e.low), all(e.high)) : y * e.low + e.high;
    const Floats share = clip(line, Floats{}, all(1.0f));
    return activation == Activation::hard_swish ? y * share : share;
  }
  return y;
}

// Calls run(activation) with a constant.
template <typename Run, int... i>
inline void with_activation(Activation activation, const Run& run,
                            std::integer_sequence<int, i...>) {
  const bool found = ((static_cast<int>(activation) == i
                           ? (run(std::integral_constant<Activation, Activation{i}>{}), true)
                           : false) ||
                      ...);
  static_cast<void>(found);
}

template <typename Run>
inline void with_activation(Activation activation, const Run& run) {
  with_activation(activation, run,
                  std::make_integer_sequence<int, static_cast<int>(Activation::count)>{});
}

// Finishes `count` columns of rows, whose sums are kFloatPanel floats apart.
__attribute__((noinline)) void finish(const FloatEpilogue& e, const FloatOutput& output,
                                      int64_t row, int64_t rows, int64_t column, int64_t count,
                                      const float* sums) {
  with_activation(e.activation, [&](auto activation) {
    const auto part = [&](const float* from, int64_t at, int64_t to, int64_t left) {
      const auto read = [&](const float* p) {
        return left == kLanes ? load(p) : load_some(p, left);
      };
      Floats y = load(from);
      if (e.factor != nullptr) y *= read(e.factor + at);
      if (e.bias != nullptr) y += read(e.bias + at);
      if (e.residual != nullptr) y += read(e.residual + to);
      y = activate<activation()>(e, y);
      left == kLanes ? store(output.data + to, y) : store_some(output.data + to, y, left);
    };
    for (int64_t r = 0; r < rows; ++r, sums += kFloatPanel) {
      const int64_t at = output.first + column, to = (row + r) * output.columns + at;
      int64_t c = 0;
      for (; c + kLanes <= count; c += kLanes) part(sums + c, at + c, to + c, kLanes);
      if (c == count) continue;
      if (count > kLanes) {  // the last vector overlaps the vector before
        c = count - kLanes;
        part(sums + c, at + c, to + c, kLanes);
      } else {
        part(sums + c, at + c, to + c, count - c);
      }
    }
  });
}

// An epilogue of sums in registers: a bias, a residual and a clip. `output` is null for others.
struct End {
  float* output = nullptr;
  const float *bias, *residual;
  int64_t step;  // floats from one row to the next
  float low, high;

  End() = default;
  End(const FloatEpilogue& e, const FloatOutput& output, int64_t row, int64_t column)
      : bias(e.bias), residual(e.residual), step(output.columns), low(e.low), high(e.high) {
    const bool clips = e.activation == Activation::clip;
    if (e.factor != nullptr || !(clips || e.activation == Activation::none)) return;
    if (!clips) low = -__builtin_inff(), high = __builtin_inff();
    this->output = output.data;
    move(row * step + output.first + column);
    if (bias != nullptr) bias += output.first + column;
  }

  void move(int64_t floats) {
    if (output == nullptr) return;
    output += floats;
    if (residual != nullptr) residual += floats;
  }

  // Goes on by columns, of which `left` are there.
  void move_columns(int64_t columns, int64_t count, int64_t left) {
    move(columns);
    if (output != nullptr && bias != nullptr) bias += columns;
    if (count > left) output = nullptr;
  }
};

template <int R, int V>
inline void finish_tile(const Floats (&sums)[R][V], const End& end) {
  const Floats low = all(end.low), high = all(end.high);
  Floats bias[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {  // adding -0 changes nothing
    bias[v] = end.bias == nullptr ? all(-0.0f) : load(end.bias + v * kLanes);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const int64_t at = r * end.step + v * kLanes;
      Floats y = sums[r][v] + bias[v];
      if (end.residual != nullptr) y += load(end.residual + at);
      store(end.output + at, clip(y, low, high));
    }
  }
}

// --- products ----------------------------------------------------------------------------

// A tile's part of the depth: whole taps, or elements of the only tap.
struct Part {
  int64_t first_tap, last_tap, first, length;
  bool resumes;  // sums continue
};

struct Tile {
  const float* const* taps;
  int64_t pitch, channel;
  const float* panel;  // the part's panel
  const float* next;   // what the next part multiplies: a tile fetches one line of each row
  int64_t lines;       // the remaining lines of a row
  int64_t width;
  float* sums;
  End end;
};

template <int R, int V>
__attribute__((noinline)) void multiply_tile(const Tile& tile, const Part& part) {
  Floats sums[R][V] = {};
  if (part.resumes) {
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) sums[r][v] = load(tile.sums + r * kFloatPanel + v * kLanes);
    }
  }
  const float *panel = tile.panel, *next = tile.next;
  const int64_t length = part.length, width = tile.width, from = tile.channel + part.first;
  for (int64_t tap = part.first_tap; tap < part.last_tap; ++tap) {
    const float* const* pointers = tile.taps + tap * tile.pitch;
    const float* row[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) row[r] = pointers[r] + from;
    for (int64_t i = 0; i < length; ++i, panel += width, next += width) {
      __builtin_prefetch(next, 0, 2);
      Floats columns[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) columns[v] = load(panel + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Floats value = all(row[r][i]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[r][v] = fused<Simd>(value, columns[v], sums[r][v]);
      }
    }
  }
  if (tile.end.output != nullptr) return finish_tile(sums, tile.end);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(tile.sums + r * kFloatPanel + v * kLanes, sums[r][v]);
  }
}

// The rows of a tile of V vectors: its sums, a row of columns and a value fill the registers.
constexpr int most_rows(int vectors) {
  constexpr int kRegisters = kLanes == 8 ? 16 : kLanes == Simd::kLanes ? 32 : 4;
  const int most = (kRegisters - 2 - vectors) / vectors;
  return most >= 12 ? 12 : most >= 8 ? 8 : most >= 6 ? 6 : most >= 4 ? 4 : 1;
}

// Multiplies rows by V vectors of columns, as many rows at once as there are registers for. Calls
// done(row, count) after every tile that has no end.
template <int V, int R, typename Done>
inline void multiply_rows(Tile tile, const Part& part, int64_t rows, int64_t sums_step,
                          const Done& done, int64_t row = 0) {
  if constexpr (R > 0) {
    for (; row + R <= rows; row += R, tile.taps += R, tile.sums += R * sums_step) {
      multiply_tile<R, V>(tile, part);
      // The next tile fetches the next line, until all lines of the next panel have come.
      if (--tile.lines > 0) tile.next += kLine;
      if (tile.end.output == nullptr) done(row, int64_t{R});
      tile.end.move(R * tile.end.step);
    }
    constexpr int kNext = R == 12 ? 8 : R == 8 ? 6 : R == 6 ? 4 : R - 1;
    multiply_rows<V, kNext>(tile, part, rows, sums_step, done, row);
  }
}

// Multiplies rows by strips of a panel of `count` columns. Calls done(row, rows, column, columns)
// after every tile that has no end.
template <typename Done>
inline void multiply_strips(const Tile& tile, const Part& part, int64_t rows, int64_t count,
                            int64_t sums_step, const Done& done) {
  constexpr int kMost = kLanes == kFloatVector && kLanes == Simd::kLanes ? 4 : kUnit;
  for (int64_t column = 0; column < tile.width;) {
    const int64_t left = (tile.width - column) / kLanes;
    const int64_t columns = std::min<int64_t>(left, kMost) * kLanes;
    Tile strip = tile;
    strip.panel += column;
    strip.next += column;
    strip.lines = columns / kLine;
    strip.sums += column;
    strip.end.move_columns(column, columns, count - column);
    const auto run = [&]<int V>(std::integral_constant<int, V>) {
      multiply_rows<V, most_rows(V)>(strip, part, rows, sums_step, [&](int64_t row, int64_t rows) {
        done(row, rows, column, columns);
      });
    };
    if constexpr (kMost == 4) {
      if (left >= 4) run(std::integral_constant<int, 4>{});
      if (left == 3) run(std::integral_constant<int, 3>{});
      if (left == 2) run(std::integral_constant<int, 2>{});
      if (left == 1) run(std::integral_constant<int, 1>{});
    } else {
      run(std::integral_constant<int, kUnit>{});
    }
    column += columns;
  }
}

void multiply(const FloatRows& rows, const FloatFilter& filter, const FloatOutput& output,
              const FloatEpilogue& epilogue, int64_t first, int64_t last, float* sums) {
  const int64_t depth = filter.taps * filter.length;
  const int64_t padded = (filter.columns + kFloatVector - 1) / kFloatVector * kFloatVector;
  // Parts of the depth whose panel stays in the second cache while rows meet it.
  const int64_t taps =
      std::max<int64_t>(1, tuning::kFloatDepth / std::max<int64_t>(1, filter.length));
  const int64_t elements = filter.taps == 1 ? tuning::kFloatDepth : filter.length;
  const bool is_whole = filter.taps <= taps && filter.length <= elements;
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t column = panel * kFloatPanel;
    const int64_t width = std::min(kFloatPanel, padded - column);
    const int64_t count = std::min(kFloatPanel, filter.columns - column);
    const float* const panel_of = filter.panels + column * depth;
    Tile tile = {rows.taps, rows.pitch, rows.first_channel, panel_of, panel_of, 1, width, sums, {}};
    Part part = {0, 0, 0, 0, false};
    do {
      part.first_tap = part.last_tap;
      part.last_tap = std::min(filter.taps, part.first_tap + taps);
      part.first = 0;
      do {
        part.length = std::min(elements, filter.length - part.first);
        const bool ends = part.last_tap == filter.taps && part.first + part.length == filter.length;
        tile.next = tile.panel + (part.last_tap - part.first_tap) * part.length * width;
        const int64_t step = is_whole ? 0 : kFloatPanel;
        if (ends) tile.end = End(epilogue, output, rows.first, column);
        const auto end = [&](int64_t row, int64_t tile_rows, int64_t at, int64_t columns) {
          if (!ends) return;
          finish(epilogue, output, rows.first + row, tile_rows, column + at,
                 std::min(columns, count - at), sums + row * step + at);
        };
        multiply_strips(tile, part, rows.rows, count, step, end);
        tile.panel = tile.next;
        part.first += part.length;
        part.resumes = true;
      } while (part.first < filter.length);
    } while (part.last_tap < filter.taps);
  }
}

// --- depthwise ---------------------------------------------------------------------------

// Multiplies V vectors of channels of R rows, and finishes them or stores their sums. If V is 0, it
// is one vector, of which `count` channels are there.
template <int R, int V>
inline void multiply_channels_tile(const FloatRows& rows, const FloatFilter& filter, int64_t row,
                                   int64_t channel, int64_t count, const End& end, float* to) {
  constexpr int kVectors = V == 0 ? 1 : V;
  const auto read = [&](const float* from) { return V == 0 ? load_some(from, count) : load(from); };
  Floats sums[R][kVectors] = {};
  const float* weights = filter.panels + channel;
  for (int64_t tap = 0; tap < filter.taps; ++tap, weights += filter.columns) {
    const float* const* pointers = rows.taps + tap * rows.pitch + row;
    Floats factors[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) factors[v] = read(weights + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const float* from = pointers[r] + channel;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = fused<Simd>(read(from + v * kLanes), factors[v], sums[r][v]);
      }
    }
  }
  if (end.output != nullptr) return finish_tile(sums, end);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(to + r * kFloatPanel + v * kLanes, sums[r][v]);
  }
}

template <int V, int R>
inline void multiply_channels_rows(const FloatRows& rows, const FloatFilter& filter,
                                   const FloatOutput& output, const FloatEpilogue& epilogue,
                                   int64_t channel, int64_t count = V * kLanes, int64_t row = 0) {
  float sums[R * kFloatPanel];
  for (; row + R <= rows.rows; row += R) {
    const End end = V == 0 ? End() : End(epilogue, output, rows.first + row, channel);
    multiply_channels_tile<R, V>(rows, filter, row, channel, count, end, sums);
    if (end.output != nullptr) continue;
    finish(epilogue, output, rows.first + row, R, channel, count, sums);
  }
  if constexpr (R > 1) {
    multiply_channels_rows<V, R / 2>(rows, filter, output, epilogue, channel, count, row);
  }
}

void multiply_channels(const FloatRows& rows, const FloatFilter& filter, const FloatOutput& output,
                       const FloatEpilogue& epilogue, int64_t first, int64_t last) {
  constexpr int kWide = 64 / kLanes < 4 ? 64 / kLanes : 4, kRows = kLanes == 8 ? 4 : 6;
  constexpr int kVectors = kLanes == 8 ? 2 : kWide;
  int64_t channel = first;
  for (; channel + kVectors * kLanes <= last; channel += kVectors * kLanes) {
    multiply_channels_rows<kVectors, kRows>(rows, filter, output, epilogue, channel);
  }
  for (; channel + kLanes <= last; channel += kLanes) {
    multiply_channels_rows<1, kRows>(rows, filter, output, epilogue, channel);
  }
  if (channel == last) return;
  if (last - first >= kLanes) {  // the last vector overlaps the vector before
    return multiply_channels_rows<1, kRows>(rows, filter, output, epilogue, last - kLanes);
  }
  multiply_channels_rows<0, kRows>(rows, filter, output, epilogue, channel, last - channel);
}

// --- lines -------------------------------------------------------------------------------

// Multiplies V vectors of pixels, of which `count` are there, by C columns.
template <int C, int V>
inline void multiply_line_tile(const FloatLine& line, const FloatFilter& filter, float* output,
                               const FloatEpilogue& e, int64_t pixel, int64_t count) {
  Floats sums[C][V] = {};
  const float* weights = filter.panels;
  for (int64_t tap = 0; tap < filter.taps; ++tap) {
    const float* from = line.taps[tap] + line.first + pixel;
    for (int64_t i = 0; i < filter.length; ++from) {
      const int64_t end = std::min(filter.length, i + line.phases);
      for (const float* phase = from; i < end; ++i, phase += line.pitch, weights += kFloatVector) {
        Floats factors[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) factors[c] = all(weights[c]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          const Floats values = load(phase + v * kLanes);
#pragma GCC unroll 4
          for (int c = 0; c < C; ++c) sums[c][v] = fused<Simd>(values, factors[c], sums[c][v]);
        }
      }
    }
  }
  with_activation(e.activation, [&](auto activation) {
    for (int c = 0; c < C; ++c) {
      for (int v = 0; v < V && v * kLanes < count; ++v) {
        const int64_t left = std::min<int64_t>(kLanes, count - v * kLanes);
        const int64_t at = c * line.plane + pixel + v * kLanes;
        Floats y = sums[c][v];
        if (e.factor != nullptr) y *= all(e.factor[c]);
        if (e.bias != nullptr) y += all(e.bias[c]);
        if (e.residual != nullptr) {
          y += left == kLanes ? load(e.residual + at) : load_some(e.residual + at, left);
        }
        y = activate<activation()>(e, y);
        left == kLanes ? store(output + at, y) : store_some(output + at, y, left);
      }
    }
  });
}

template <int C>
inline void multiply_line_by(const FloatLine& line, const FloatFilter& filter, float* output,
                             const FloatEpilogue& epilogue) {
  constexpr int kVectors = 8 / C;
  int64_t pixel = 0;
  for (; pixel + kVectors * kLanes <= line.count; pixel += kVectors * kLanes) {
    multiply_line_tile<C, kVectors>(line, filter, output, epilogue, pixel, kVectors * kLanes);
  }
  for (; pixel < line.count; pixel += kLanes) {
    multiply_line_tile<C, 1>(line, filter, output, epilogue, pixel,
                             std::min<int64_t>(kLanes, line.count - pixel));
  }
}

void multiply_line(const FloatLine& line, const FloatFilter& filter, float* output,
                   const FloatEpilogue& epilogue) {
  static_assert(kMostColumns == 4);
  switch (filter.columns) {
    case 1: return multiply_line_by<1>(line, filter, output, epilogue);
    case 2: return multiply_line_by<2>(line, filter, output, epilogue);
    case 3: return multiply_line_by<3>(line, filter, output, epilogue);
    default: return multiply_line_by<4>(line, filter, output, epilogue);
  }
}

// --- transposes --------------------------------------------------------------------------

// Transposes whole vectors of rows and columns. Returns false if the set has no instructions.
template <typename S>
inline bool transpose_block(float* target, int64_t target_stride, const float* source,
                            int64_t source_stride) {
  if constexpr (S::kMultipliesRows) {
    typename S::Int32s block[S::kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < S::kLanes; ++i) block[i] = S::load(source + i * source_stride);
    S::transpose_words(block);
#pragma GCC unroll 16
    for (int i = 0; i < S::kLanes; ++i) S::store(target + i * target_stride, block[i]);
    return true;
  }
  return false;
}

void transpose(float* target, int64_t target_stride, const float* source, int64_t source_stride,
               int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; r += kLanes) {
    for (int64_t c = 0; c < columns; c += kLanes) {
      const int64_t tall = std::min<int64_t>(kLanes, rows - r);
      const int64_t wide = std::min<int64_t>(kLanes, columns - c);
      float* to = target + c * target_stride + r;
      const float* from = source + r * source_stride + c;
      const bool is_whole = tall == kLanes && wide == kLanes;
      if (is_whole && transpose_block<Simd>(to, target_stride, from, source_stride)) continue;
      for (int64_t i = 0; i < tall; ++i) {
        for (int64_t j = 0; j < wide; ++j) {
          to[j * target_stride + i] = from[i * source_stride + j];
        }
      }
    }
  }
}

}  // namespace

template <>
const FloatConvolutionKernels Table<FloatConvolutionKernels>::kernels = {
    .multiply = multiply, .multiply_channels = multiply_channels,
    .multiply_line = multiply_line, .transpose = transpose};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
