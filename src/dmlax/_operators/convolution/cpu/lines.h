// Depthwise convolution with channels last, 64 channels at a time. The taps of a kernel column,
// four rows interleaved, are one operand of a product. A column is interleaved once for all outputs
// of a line that read it.
#pragma once

#include "dmlax/_operators/convolution/cpu/implicit_gemm.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// Parameters of 64 channels, in the order of a panel's columns.
template <typename S>
struct ChannelBlock {
  alignas(64) int32_t offset[kPanelWidth], filter_zero[kPanelWidth];
  alignas(64) float estimate[kPanelWidth], band[kPanelWidth];
  int64_t first, count;
  int64_t width;  // channels after which the block repeats, a power of two

  void fill(const ConvProblem& problem, int64_t block) {
    const RequantizeParams& params = problem.requantize;
    first = block * kPanelWidth;
    count = least(problem.shape.output_channels - first, kPanelWidth);
    width = S::kKeepsWindows && (count == 16 || count == 32) ? count : kPanelWidth;
    for (int i = 0; i < kPanelWidth; ++i) {
      const int64_t channel = first + (S::column_of(i / S::kLanes, i % S::kLanes) & (width - 1));
      offset[i] = params.offset[channel];
      filter_zero[i] = params.filter_zero == nullptr ? 0 : params.filter_zero[channel];
      if (!params.quantized) continue;
      estimate[i] = params.estimate[channel];
      band[i] = params.band[channel];
    }
  }
};

// The number of vectors, in a panel's order, that hold so many first columns.
template <typename S>
constexpr int vectors_of(int64_t columns) {
  constexpr int64_t kPackedColumns = S::kVectorsPacked * S::kLanes;
  return static_cast<int>(round_up(columns, kPackedColumns) / S::kLanes);
}

// The bytes of a column's taps of kKPack kernel rows, for 64 channels.
template <typename S>
constexpr int64_t kTapBytes = S::kWordsOfQuad * kQuadBytes;

// Stores quads as words.
template <typename S, typename Widen>
inline void store_words(const uint8_t* quad, int vectors, const Widen& widen, uint8_t* target) {
  for (int j = 0; j < vectors; ++j) {
    typename S::Int32s words[S::kWordsOfQuad];
    widen(S::load(quad + j * 4 * S::kLanes), words);
    for (int w = 0; w < S::kWordsOfQuad; ++w) {
      S::store(target + w * kQuadBytes + j * 4 * S::kLanes, words[w]);
    }
  }
}

// Packs four rows' taps of a kernel column. Rows past the kernel are zeros.
inline uint32_t tap_word(const int8_t* taps, int64_t step, int64_t rows) {
  const auto byte = [&](int64_t row) { return uint32_t{static_cast<uint8_t>(taps[row * step])}; };
  if (rows >= kKPack) return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  if (rows == 3) return byte(0) | byte(1) << 8 | byte(2) << 16;  // most kernels
  uint32_t word = 0;
  for (int64_t row = 0; row < kKPack && row < rows; ++row) word |= byte(row) << (8 * row);
  return word;
}

// Loads a block's weights as [column][quad][word][64 channels].
template <typename S>
inline void load_weights(const ConvProblem& problem, const int8_t* filter,
                         const ChannelBlock<S>& block, uint8_t* weights) {
  const ConvShape& shape = problem.shape;
  const int64_t quads = tap_quads(shape), columns = shape.width.kernel;
  const int vectors = S::kKeepsWindows ? kVectors : vectors_of<S>(block.count);
  const int lanes = vectors * static_cast<int>(S::kLanes);
  int64_t starts[kPanelWidth];  // where the channels' filters start
  for (int i = 0; i < lanes; ++i) {
    const int64_t channel = S::column_of(i / S::kLanes, i % S::kLanes) & (block.width - 1);
    starts[i] = (block.first + (channel < block.count ? channel : 0)) * shape.depth;
  }
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t quad = 0; quad < quads; ++quad, weights += kTapBytes<S>) {
      const int8_t* taps = filter + kKPack * quad * columns + column;
      const int64_t rows = shape.height.kernel - kKPack * quad;
      alignas(64) uint32_t words[kPanelWidth];
      for (int i = 0; i < lanes; ++i) words[i] = tap_word(taps + starts[i], columns, rows);
      if constexpr (S::kWordsOfQuad == 1) {
        __builtin_memcpy(weights, words, static_cast<size_t>(4 * lanes));
      } else {
        store_words<S>(reinterpret_cast<const uint8_t*>(words), vectors, S::widen_columns, weights);
      }
    }
  }
}

// The input rows of one quad of the kernel, from column 0 on. The step of a row of padding is 0.
struct TapRows {
  const uint8_t* first[kKPack];
  int64_t step[kKPack];
  int count;
};

// Computes outputs of one line for a block of channels.
template <typename S>
struct Line {
  const ConvProblem& problem;
  const LineRange& range;
  const ChannelBlock<S>& block;
  const uint8_t* weights;
  uint8_t* columns;  // interleaved: [column][quad][word][64 channels]

  // Computes outputs [first, last) of the line.
  void run(int64_t line, int64_t first, int64_t last) const {
    const Axis& width = problem.shape.width;
    const int64_t outputs = last - first, left = first * width.stride - width.start;
    if constexpr (S::kKeepsWindows) {
      if (keeps_windows()) return run_windows(line, first, outputs, left);
    }
    interleave(line, left, (outputs - 1) * width.stride + (width.kernel - 1) * width.dilation + 1);
    const RequantizeParams& params = problem.requantize;
    const PixelChannels<S, false> channels{
        params,         block.first, block.count, params.filter_zero ? block.filter_zero : nullptr,
        block.estimate, block.band};
    const uint8_t* taps = columns;
    const int64_t step = problem.shape.output_channels;
    int64_t at = (line * width.output + first) * step + block.first;
    for (int64_t i = 0; i < outputs; i += kPixelsTogether, at += kPixelsTogether * step) {
      const int64_t count = least(outputs - i, kPixelsTogether);
      alignas(64) int32_t sums[kPixelsTogether][kPanelWidth], tap_sums[kPanelWidth];
      for (int64_t pixel = 0; pixel < count; ++pixel, taps += width.stride * column_bytes()) {
        multiply<false>(taps, sums[pixel]);
        if (channels.filter_zero == nullptr) continue;
        multiply<true>(taps, tap_sums);
        channels.subtract_zero_points(tap_sums, sums[pixel]);
      }
      store_pixels(channels, sums[0], count, range.output, at, step);
    }
  }

 private:
  // Pixels that are multiplied, then requantized.
  static constexpr int64_t kPixelsTogether = S::kRequantizesRows ? tuning::kPixelsTogether : 1;

  // --- three by three, where the registers hold a window's columns and the weights

  bool keeps_windows() const {
    const Axis &height = problem.shape.height, &width = problem.shape.width;
    return height.kernel == 3 && width.kernel == 3 && width.dilation == 1 && width.stride <= 2 &&
           problem.requantize.filter_zero == nullptr;
  }

  // Multiplies a block of few channels with several pixels at once, one for each part of the line,
  // so that the vectors are full.
  void run_windows(int64_t line, int64_t first, int64_t outputs, int64_t left) const {
    const RequantizeParams& params = problem.requantize;
    const Axis& width = problem.shape.width;
    const int64_t parts = kPanelWidth / block.width, count = outputs / parts;
    const int64_t distance = count * width.stride;
    // Only the first part begins, and only the last part ends, outside the image.
    const bool inside = count > 0 && left + distance >= 0 &&
                        left + (parts - 1) * distance + width.kernel - width.stride <= width.size;
    const bool splits = parts > 1 && inside && params.quantized &&
                        (params.scales_down || params.may_tie) && !problem.shape.input_signed;
    if (!splits) return run_parts<1>(line, first, outputs, left);
    if (parts == 2) {
      run_parts<2>(line, first, count, left);
    } else {
      run_parts<4>(line, first, count, left);
    }
    const int64_t done = count * parts;
    if (done == outputs) return;
    run_parts<1>(line, first + done, outputs - done, left + done * width.stride);
  }

  // Computes `count` outputs of every part.
  template <int parts>
  void run_parts(int64_t line, int64_t first, int64_t count, int64_t left) const {
    const ConvShape& shape = problem.shape;
    const int64_t step = shape.output_channels, stride = shape.width.stride;
    const PixelChannels<S, false> channels{problem.requantize,
                                           block.first,
                                           block.count,
                                           nullptr,
                                           block.estimate,
                                           block.band,
                                           parts > 1 ? block.width : kPanelWidth,
                                           count * step};
    alignas(64) uint8_t padding[kPanelWidth];
    __builtin_memset(padding, problem.layout.padding, sizeof padding);
    const TapRows rows = tap_rows(line, 0, padding);
    int64_t at = (line * shape.width.output + first) * step + block.first;
    for (int64_t i = 0; i < count; i += tuning::kWindowsTogether) {
      const int64_t together = least(count - i, tuning::kWindowsTogether);
      alignas(64) int32_t sums[tuning::kWindowsTogether * kPanelWidth];
      if (problem.requantize.quantized) prefetch<parts>(at + i * step, together, count * step);
      const WindowRange windows{&rows, padding, left + i * stride, count * stride, together};
      if (stride == 1) {
        sum_windows<1, parts>(windows, sums);
      } else {
        sum_windows<2, parts>(windows, sums);
      }
      store_pixels(channels, sums, together, range.output, at + i * step, step);
    }
  }

  // Prefetches the outputs of all parts.
  template <int parts>
  void prefetch(int64_t at, int64_t count, int64_t distance) const {
    const uint8_t* to = static_cast<const uint8_t*>(range.output) + at;
    for (int part = 0; part < parts; ++part, to += distance) {
      prefetch_rows(to, count, problem.shape.output_channels, block.count);
    }
  }

  // Windows from column `left` on. Windows of the next part begin `distance` columns later.
  struct WindowRange {
    const TapRows* rows;
    const uint8_t* padding;
    int64_t left, distance, count;
  };

  template <int stride, int parts>
  void sum_windows(const WindowRange& windows, int32_t* sums) const {
    if constexpr (parts == 1) {
      if (problem.shape.input_signed) return sum_windows<stride, parts, true>(windows, sums);
    }
    sum_windows<stride, parts, false>(windows, sums);
  }

  // Three rows of a column, interleaved.
  struct Column {
    typename S::Int32s quads[kVectors];
  };

  // Reads the columns of a line's windows in turn.
  template <int parts, bool flips>
  struct ColumnReader {
    const uint8_t *first[3], *padding;
    int64_t step[3], at[3], x, distance, size, valid;

    ColumnReader(const WindowRange& windows, int64_t size, int64_t valid)
        : padding(windows.padding),
          x(windows.left),
          distance(windows.distance),
          size(size),
          valid(valid) {
      for (int k = 0; k < 3; ++k) {
        first[k] = windows.rows->first[k];
        step[k] = windows.rows->step[k];
        at[k] = x * step[k];
      }
    }

    __attribute__((always_inline)) Column next() {
      const uint8_t* from[parts][3];
#pragma GCC unroll 4
      for (int part = 0; part < parts; ++part) {
        const int64_t here = x + part * distance;
        const bool may_be_outside = part == 0 || part == parts - 1;
        const bool inside =
            !may_be_outside || static_cast<uint64_t>(here) < static_cast<uint64_t>(size);
#pragma GCC unroll 3
        for (int k = 0; k < 3; ++k) {
          from[part][k] = inside ? first[k] + (at[k] + part * distance * step[k]) : padding;
        }
      }
      Column column;
      S::template interleave_three<parts, flips>(from, valid, column.quads);
#pragma GCC unroll 3
      for (int k = 0; k < 3; ++k) at[k] += step[k];
      ++x;
      return column;
    }
  };

  // Not inlined, because the loop needs the registers.
  template <int stride, int parts, bool flips>
  __attribute__((noinline)) void sum_windows(const WindowRange& windows, int32_t* sums) const {
    Column taps[3];
#pragma GCC unroll 3
    for (int c = 0; c < 3; ++c) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        taps[c].quads[j] = S::load(weights + c * kQuadBytes + j * 4 * S::kLanes);
      }
    }
    ColumnReader<parts, flips> reader(windows, problem.shape.width.size, block.count);
    Column first = reader.next(), second;
    if (stride == 1) second = reader.next();
    for (int64_t i = 0; i < windows.count; ++i, sums += kPanelWidth) {
      if (stride == 2) second = reader.next();
      typename S::Int32s a[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        a[j] = S::load(block.offset + j * S::kLanes);
        S::multiply_words(a[j], first.quads[j], taps[0].quads[j]);
        S::multiply_words(a[j], second.quads[j], taps[1].quads[j]);
      }
      const Column third = reader.next();
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        S::multiply_words(a[j], third.quads[j], taps[2].quads[j]);
        S::store(sums + j * S::kLanes, a[j]);
      }
      first = stride == 1 ? second : third;
      if (stride == 1) second = third;
    }
  }

  // --- any kernel

  int vectors() const { return vectors_of<S>(block.count); }
  int64_t column_bytes() const { return tap_quads(problem.shape) * kTapBytes<S>; }

  // Interleaves the kernel's rows of `count` columns from `left` on, padding included.
  void interleave(int64_t line, int64_t left, int64_t count) const {
    const ConvShape& shape = problem.shape;
    alignas(64) uint8_t padding[kPanelWidth];
    __builtin_memset(padding, problem.layout.padding, sizeof padding);
    for (int64_t quad = 0; quad < tap_quads(shape); ++quad) {
      const TapRows rows = tap_rows(line, kKPack * quad, padding);
      const TapRows outside = {{padding, padding, padding, padding}, {}, rows.count};
      for (int64_t i = 0; i < count; ++i) {
        const int64_t x = left + i;
        const bool inside = x >= 0 && x < shape.width.size;
        interleave_column(inside ? rows : outside, x,
                          columns + i * column_bytes() + quad * kTapBytes<S>);
      }
    }
  }

  TapRows tap_rows(int64_t line, int64_t first, const uint8_t* padding) const {
    const ConvShape& shape = problem.shape;
    const Axis& height = shape.height;
    const uint8_t* image = range.input + line / height.output * shape.input_elements + block.first;
    const int64_t top = line % height.output * height.stride - height.start;
    TapRows rows = {{}, {}, static_cast<int>(least(height.kernel - first, kKPack))};
    for (int k = 0; k < rows.count; ++k) {
      const int64_t y = top + (first + k) * height.dilation;
      const bool inside = y >= 0 && y < height.size;
      rows.first[k] = inside ? image + y * shape.width.size * shape.input_channels : padding;
      rows.step[k] = inside ? shape.input_channels : 0;
    }
    return rows;
  }

  void interleave_column(const TapRows& rows, int64_t x, uint8_t* target) const {
    const uint8_t* from[kKPack];
    for (int k = 0; k < rows.count; ++k) from[k] = rows.first[k] + x * rows.step[k];
    const uint8_t flip = problem.shape.input_signed ? 128 : 0;
    if constexpr (S::kWordsOfQuad == 1) {
      interleave_taps(from, rows.count, flip, target);
    } else {
      alignas(64) uint8_t quad[kQuadBytes];
      interleave_taps(from, rows.count, flip, quad);
      store_words<S>(quad, vectors(), S::widen_pixels, target);
    }
  }

  void interleave_taps(const uint8_t* const* from, int count, uint8_t flip, uint8_t* quad) const {
    if (count == 3) {
      S::interleave_rows(from, 3, block.count, flip, quad);
    } else {
      S::interleave_rows(from, count, block.count, flip, quad);
    }
  }

  // Multiplies taps by the weights, or by ones. Rows past the kernel are zeros.
  template <bool by_ones>
  void multiply(const uint8_t* taps, int32_t* sums) const {
    const Axis& width = problem.shape.width;
    const int64_t bytes = column_bytes(), step = width.dilation * bytes;
    const auto ones = S::broadcast(S::kWordsOfQuad == 1 ? 0x01010101 : 0x00010001);
    constexpr int kAtOnce = 4;  // vectors
    for (int j = 0; j < vectors(); j += kAtOnce) {
      typename S::Int32s a[kAtOnce];
#pragma GCC unroll 4
      for (int v = 0; v < kAtOnce; ++v) {
        a[v] = by_ones ? S::broadcast(0) : S::load(block.offset + (j + v) * S::kLanes);
      }
      const uint8_t* from = taps + j * 4 * S::kLanes;
      const uint8_t* weight = weights + j * 4 * S::kLanes;
      for (int64_t column = 0; column < width.kernel; ++column, from += step, weight += bytes) {
        for (int64_t at = 0; at < bytes; at += kQuadBytes) {
#pragma GCC unroll 4
          for (int v = 0; v < kAtOnce; ++v) {
            const int64_t lanes = at + v * 4 * S::kLanes;
            S::multiply_words(a[v], S::load(from + lanes),
                              by_ones ? ones : S::load(weight + lanes));
          }
        }
      }
#pragma GCC unroll 4
      for (int v = 0; v < kAtOnce; ++v) S::store(sums + (j + v) * S::kLanes, a[v]);
    }
  }
};

// All blocks process a few lines before the next ones, so that these stay in the second cache.
template <typename S>
void multiply_lines(const ConvProblem& problem, const LineRange& range) {
  const ConvShape& shape = problem.shape;
  const int64_t count = range.last_block - range.first_block;
  const int64_t weight_bytes = line_weight_bytes(shape);
  auto* blocks = reinterpret_cast<ChannelBlock<S>*>(range.scratch);
  uint8_t* weights = range.scratch + count * static_cast<int64_t>(sizeof(ChannelBlock<S>));
  uint8_t* columns = weights + count * weight_bytes;
  for (int64_t i = 0; i < count; ++i) {
    blocks[i].fill(problem, range.first_block + i);
    load_weights<S>(problem, range.filter, blocks[i], weights + i * weight_bytes);
  }
  const int64_t line_bytes = shape.width.size * shape.input_channels * shape.height.stride;
  const int64_t fit = tuning::kLineInput / line_bytes, lines = fit < 1 ? 1 : fit;
  for (int64_t first = range.first_line; first < range.last_line; first += lines) {
    const int64_t last = first + least(range.last_line - first, lines);
    for (int64_t i = 0; i < count; ++i) {
      const Line<S> line{problem, range, blocks[i], weights + i * weight_bytes, columns};
      for (int64_t y = first; y < last; ++y) {
        for (int64_t x = 0; x < shape.width.output; x += kOutputsOfLine) {
          line.run(y, x, x + least(shape.width.output - x, kOutputsOfLine));
        }
      }
    }
  }
}

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
