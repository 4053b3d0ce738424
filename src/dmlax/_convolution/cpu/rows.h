// The implicit GEMM whose rows are pixels: im2col of a few rows at a time, times a filter's panels.
#ifndef DMLAX_CONVOLUTION_CPU_ROWS_H_
#define DMLAX_CONVOLUTION_CPU_ROWS_H_

#include <cstdint>

#include "dmlax/_convolution/cpu/kernels.h"
#include "dmlax/_cpu/gemm/rows.h"
#include "dmlax/_cpu/simd/interface.h"

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

constexpr int64_t kGatheredBytes = 1 << 18;  // of rows, at once

// An output's position, one after another.
struct OutputPixel {
  const ConvShape& shape;
  int64_t image, y, x;

  OutputPixel(const ConvShape& shape, int64_t pixel)
      : shape(shape),
        image(pixel / shape.output_pixels),
        y(pixel % shape.output_pixels / shape.width.output),
        x(pixel % shape.width.output) {}

  void advance() {
    if (++x < shape.width.output) return;
    x = 0;
    if (++y < shape.height.output) return;
    y = 0;
    ++image;
  }
};

// Most are short: a call would take longer.
inline void copy_short(uint8_t* to, const uint8_t* from, int64_t bytes) {
  if (bytes < 16) {
    for (int64_t i = 0; i < bytes; ++i) to[i] = from[i];
    return;
  }
  int64_t i = 0;
  for (; i + 64 <= bytes; i += 64) __builtin_memcpy(to + i, from + i, 64);
  for (; i + 16 < bytes; i += 16) __builtin_memcpy(to + i, from + i, 16);
  __builtin_memcpy(to + bytes - 16, from + bytes - 16, 16);
}

// Copies an output pixel's window: its taps, one after another, each with a group's channels.
struct Im2col {
  const ConvProblem& problem;
  const uint8_t* input;  // of the first image, from a group's first channel

  void copy(const OutputPixel& pixel, uint8_t* row) const {
    const ConvShape& shape = problem.shape;
    const Axis &height = shape.height, &width = shape.width;
    const uint8_t* from = input + pixel.image * shape.input_elements;
    const int64_t left = pixel.x * width.stride - width.start;
    const int64_t line_bytes = width.kernel * shape.channels;
    const bool whole = shape.groups == 1 && width.dilation == 1 && left >= 0 &&
                       left + width.kernel <= width.size;
    int64_t line = pixel.y * height.stride - height.start;
    for (int64_t i = 0; i < height.kernel; ++i, line += height.dilation, row += line_bytes) {
      const uint8_t* source = from + line * width.size * shape.input_channels;
      if (line < 0 || line >= height.size) {
        fill(row, width.kernel);
      } else if (whole) {
        copy_short(row, source + left * shape.channels, line_bytes);
      } else {
        copy_taps(source, left, row);
      }
    }
  }

 private:
  void fill(uint8_t* to, int64_t taps) const {
    const size_t bytes = static_cast<size_t>(taps * problem.shape.channels);
    __builtin_memset(to, problem.layout.padding, bytes);
  }

  void copy_taps(const uint8_t* line, int64_t left, uint8_t* to) const {
    const ConvShape& shape = problem.shape;
    for (int64_t j = 0; j < shape.width.kernel; ++j, to += shape.channels) {
      const int64_t column = left + j * shape.width.dilation;
      if (column < 0 || column >= shape.width.size) {
        fill(to, 1);
      } else {
        copy_short(to, line + column * shape.input_channels, shape.channels);
      }
    }
  }
};

// The rows of a block of pixels, gathered or as they are.
template <typename S>
struct RowBlock {
  const ConvProblem& problem;
  const uint8_t* first;
  int64_t stride;

  RowBlock(const ConvProblem& problem, const RowRange& range, int64_t group, int64_t pixel,
           int64_t count)
      : problem(problem) {
    const ConvShape& shape = problem.shape;
    const uint8_t* input = range.input + group * shape.channels;
    if (problem.rows.direct) {
      first = input + pixel * shape.input_channels;
      stride = shape.input_channels;
      return;
    }
    first = range.scratch;
    stride = problem.rows.row_bytes;
    gather({problem, input}, pixel, count, range.scratch);
  }

  Rows rows(int64_t begin, int64_t count) const {
    return {first + begin * stride, stride, problem.rows.words, static_cast<int>(count)};
  }

 private:
  void gather(const Im2col& im2col, int64_t pixel, int64_t count, uint8_t* to) const {
    const ConvShape& shape = problem.shape;
    const bool as_is = S::kWordsOfQuad == 1 && !shape.input_signed;
    uint8_t* const spare = to + problem.rows.rows_at_once * stride;
    const size_t padding =
        static_cast<size_t>(4 * problem.rows.words - S::kWordsOfQuad * shape.depth);
    OutputPixel at(shape, pixel);
    for (int64_t i = 0; i < count; ++i, to += stride, at.advance()) {
      im2col.copy(at, as_is ? to : spare);
      if (!as_is) S::pack_row(to, spare, shape.depth, shape.input_signed ? 128 : 0);
      if (S::kWordsOfQuad == 1) __builtin_memset(to + shape.depth, 0, padding);
    }
  }
};

template <typename S>
struct RowKernels {
  static void lay_out(ConvProblem& problem) {
    const ConvShape& shape = problem.shape;
    RowLayout& rows = problem.rows;
    const int64_t quads = round_up(shape.depth, RowMicrokernel::kDepthStep) / kKPack;
    rows.words = quads * S::kWordsOfQuad;
    rows.direct = is_matrix_product(shape) && S::kWordsOfQuad == 1 && !shape.input_signed &&
                  shape.depth % RowMicrokernel::kDepthStep == 0;
    rows.row_bytes = round_up(4 * rows.words, 64);
    if (rows.row_bytes % 1024 == 0) rows.row_bytes += 64;  // else rows meet in few cache sets
    rows.panel_bytes = rows.words * 4 * kPanelWidth;
    if (shape.panels) rows.panel_bytes = prepared_panels(shape).panel_bytes();
    rows.panels = (shape.rows + kPanelWidth - 1) / kPanelWidth;
    rows.step = kRows;
    const int64_t fit = kGatheredBytes / rows.row_bytes / kRows * kRows;
    rows.rows_at_once = fit < kRows ? kRows : fit > 16 * kRows ? 16 * kRows : fit;
  }

  static void pack_filter(const ConvProblem& problem, const int8_t* filter, int64_t first,
                          int64_t last, uint8_t* panels) {
    const ConvShape& shape = problem.shape;
    for (int64_t panel = first; panel < last; ++panel) {
      const int64_t group = panel / problem.rows.panels;
      const int64_t row = panel % problem.rows.panels * kPanelWidth;
      pack_columns<S>(filter + (group * shape.rows + row) * shape.depth, shape.depth,
                      columns_of(problem, row), problem.rows.words / S::kWordsOfQuad,
                      panels + panel * problem.rows.panel_bytes);
    }
  }

  static void multiply(const ConvProblem& problem, const RowRange& range) {
    const int64_t step = problem.rows.rows_at_once;
    for (int64_t pixel = range.first_pixel; pixel < range.last_pixel; pixel += step) {
      const int64_t left = range.last_pixel - pixel;
      for (int64_t panel = range.first_panel; panel < range.last_panel;) {
        const int64_t group = panel / problem.rows.panels;
        const int64_t end = (group + 1) * problem.rows.panels;
        const int64_t last = end < range.last_panel ? end : range.last_panel;
        multiply_block(problem, range, pixel, left < step ? left : step, panel, last);
        panel = last;
      }
    }
  }

 private:
  // Rows that are multiplied before their sums are requantized: whole tiles.
  static constexpr int64_t kRows = RowMicrokernel::rows_of_block<S>();

  static int64_t columns_of(const ConvProblem& problem, int64_t row) {
    const int64_t left = problem.shape.rows - row;
    return left < kPanelWidth ? left : kPanelWidth;
  }

  // Panels [panel, last), of one group.
  static void multiply_block(const ConvProblem& problem, const RowRange& range, int64_t pixel,
                             int64_t count, int64_t panel, int64_t last) {
    const RowLayout& layout = problem.rows;
    const RequantizeParams& params = problem.requantize;
    const int64_t group = panel / layout.panels;
    uint8_t* memory = range.scratch + (layout.rows_at_once + 1) * layout.row_bytes;
    int32_t* acc = reinterpret_cast<int32_t*>(memory);
    const RowBlock<S> block(problem, range, group, pixel, count);
    RowMicrokernel microkernel;
    for (; panel < last; ++panel) {
      const int64_t row = panel % layout.panels * kPanelWidth;
      const int64_t channel = group * problem.shape.rows + row;
      const PixelChannels<S, true> channels{
          params,
          channel,
          columns_of(problem, row),
          params.filter_zero == nullptr ? nullptr : params.filter_zero + channel,
          params.estimate + channel,
          params.band + channel};
      for (int64_t at = 0; at < count; at += kRows) {
        const Rows rows = block.rows(at, count - at < kRows ? count - at : kRows);
        microkernel.template multiply<S>(rows, range.panels + panel * layout.panel_bytes,
                                         channels.count, params.offset + channel, acc);
        for (int r = 0; r < rows.count; ++r) {
          store_row(channels, rows, r, acc + r * kPanelWidth, range.output,
                    (pixel + at + r) * problem.shape.output_channels + channel);
        }
      }
    }
  }

  static void store_row(const PixelChannels<S, true>& channels, const Rows& rows, int r,
                        int32_t* sums, void* output, int64_t at) {
    alignas(64) int32_t row_sums[kPanelWidth];
    if (channels.filter_zero != nullptr) {
      const int32_t sum = sum_row<S>(rows.first + r * rows.stride, rows.words);
      for (int32_t& each : row_sums) each = sum;
    }
    store_pixel(channels, row_sums, sums, output, at);
  }
};

}  // namespace
}  // namespace DMLAX_ISA_NAMESPACE
}  // namespace dmlax

#endif  // DMLAX_CONVOLUTION_CPU_ROWS_H_
