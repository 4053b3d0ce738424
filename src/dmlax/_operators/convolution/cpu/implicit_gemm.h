// The implicit GEMM whose rows are pixels: gathers a few rows at a time and multiplies a filter's
// panels.
#pragma once

#include "dmlax/_cpu/gemm/rows.h"
#include "dmlax/_operators/convolution/cpu/convolution_kernels.h"
#include "dmlax/_operators/convolution/cpu/planes.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// The position of an output pixel.
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

// Copies an output pixel's window tap by tap, with the channels of a group. It may write up to
// kCopied bytes past the window.
struct Im2col {
  static constexpr int64_t kCopied = 32;

  const ConvProblem& problem;
  const uint8_t* input;  // the first image from a group's first channel on

  void copy(const OutputPixel& pixel, uint8_t* row) const {
    const ConvShape& shape = problem.shape;
    const Axis &height = shape.height, &width = shape.width;
    const uint8_t* from = input + pixel.image * shape.input_elements;
    const int64_t left = pixel.x * width.stride - width.start;
    const int64_t line_bytes = width.kernel * shape.channels;
    const int64_t pitch = width.size * shape.input_channels;
    const bool whole =
        shape.groups == 1 && width.dilation == 1 && left >= 0 && left + width.kernel <= width.size;
    int64_t line = pixel.y * height.stride - height.start;
    if (whole && line_bytes <= kCopied && line >= 0 &&
        copy_lines(from + line * pitch + left * shape.channels, pitch, line, row)) {
      return;
    }
    for (int64_t i = 0; i < height.kernel; ++i, line += height.dilation, row += line_bytes) {
      const uint8_t* source = from + line * pitch;
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
  // Copies short lines as whole vectors. Returns false if a vector would leave the image or its
  // memory.
  bool copy_lines(const uint8_t* from, int64_t pitch, int64_t line, uint8_t* row) const {
    const ConvShape& shape = problem.shape;
    const Axis& height = shape.height;
    const int64_t line_bytes = shape.width.kernel * shape.channels;
    const int64_t reach = (height.kernel - 1) * height.dilation;
    const uint8_t* const end = input + shape.images * shape.input_elements;
    if (line + reach >= height.size || end - from < reach * pitch + kCopied) return false;
    for (int64_t i = 0; i < height.kernel; ++i, row += line_bytes) {
      __builtin_memcpy(row, from + i * height.dilation * pitch, kCopied);
    }
    return true;
  }

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

// Padded copies of images, as unsigned bytes or as the 16-bit numbers of words.
template <typename S>
struct PaddedRows {
  static void copy(const ConvProblem& problem, const uint8_t* input, int64_t first, int64_t last,
                   uint8_t* padded) {
    const ConvShape& shape = problem.shape;
    const PaddedLayout& layout = problem.padded;
    const int64_t sub_images = shape.height.phases * layout.width.phases;
    for (int64_t row = first; row < last; ++row) {
      const int64_t sub = row / layout.rows % sub_images;
      const int64_t phase = shape.height.phase[sub / layout.width.phases];
      const int64_t line = row % layout.rows * shape.height.stride + phase - shape.height.start;
      const bool inside = line >= 0 && line < shape.height.size;
      const uint8_t* image = input + row / layout.rows / sub_images * shape.input_elements;
      copy_line(problem, inside ? image + line * shape.width.size * shape.input_channels : nullptr,
                layout.width.phase[sub % layout.width.phases], padded + row * layout.row_bytes);
    }
  }

 private:
  // Copies a line of the input, or padding if `line` is null.
  static void copy_line(const ConvProblem& problem, const uint8_t* line, int64_t phase,
                        uint8_t* to) {
    const PaddedLayout& layout = problem.padded;
    const Axis& width = layout.width;
    const int64_t pixels = layout.row_bytes / layout.pixel_bytes;
    if (line == nullptr) return fill(problem, pixels, to);
    const Span columns(width, phase, pixels);
    fill(problem, columns.first, to);
    to += columns.first * layout.pixel_bytes;
    const int64_t count = columns.last - columns.first, channels = problem.shape.input_channels;
    const int64_t at_once = width.stride == 1 && count > 0 ? count : 1;
    for (int64_t i = 0; i < count; i += at_once, to += at_once * layout.pixel_bytes) {
      const uint8_t* from = line + (columns.source + i * width.stride) * channels;
      copy_bytes(to, from, at_once * channels, problem.shape.input_signed ? 128 : 0);
    }
    fill(problem, pixels - columns.last, to);
  }

  static void copy_bytes(uint8_t* to, const uint8_t* from, int64_t count, uint8_t flip) {
    if (S::kWordsOfQuad == 1) {
      if (flip == 0) return copy_short(to, from, count);
      return S::pack_row(to, from, count, flip);
    }
    const int64_t rest = count % 32;  // `pack_row` writes whole vectors
    S::pack_row(to, from, count - rest, flip);
    if (rest == 0) return;
    alignas(64) uint8_t last[128];
    S::pack_row(last, from + count - rest, rest, flip);
    __builtin_memcpy(to + (count - rest) * S::kWordsOfQuad, last,
                     static_cast<size_t>(rest * S::kWordsOfQuad));
  }

  static void fill(const ConvProblem& problem, int64_t pixels, uint8_t* to) {
    const uint8_t padding = problem.layout.padding ^ (problem.shape.input_signed ? 128 : 0);
    const int64_t bytes = pixels * problem.padded.pixel_bytes;
    if (S::kWordsOfQuad == 1) {
      __builtin_memset(to, padding, static_cast<size_t>(bytes));
      return;
    }
    uint16_t* numbers = reinterpret_cast<uint16_t*>(to);
    for (int64_t i = 0; i < bytes / 2; ++i) numbers[i] = padding;
  }
};

// A block of rows: in place, in padded copies, or gathered.
template <typename S>
class RowBlock {
 public:
  RowBlock(const ConvProblem& problem, const RowRange& range, int64_t group, int64_t first,
           int64_t count)
      : problem_(problem) {
    const ConvShape& shape = problem.shape;
    const uint8_t* input = range.input + group * shape.channels * input_bytes();
    rows_.words = problem.rows.words;
    rows_.first = input;
    if (problem.rows.padded) {
      rows_.taps = problem.padded.tap_offsets;
      rows_.tap_words = problem.rows.tap_words;
      rows_.stride = problem.padded.step;
      if (!RowMicrokernel::kNeedsStride) {
        find_starts(input, first, count, reinterpret_cast<const uint8_t**>(range.scratch));
      }
    } else if (problem.rows.direct) {
      rows_.stride = shape.input_channels;
      rows_.first += first * rows_.stride;
    } else {
      rows_.first = range.scratch;
      rows_.stride = problem.rows.row_bytes;
      gather({problem, input}, first, count, range.scratch);
    }
  }

  // Rows of an image from row `begin` on. If all images count as one, rows are counted from the
  // block's first row.
  Rows rows(int64_t image, int64_t begin, int64_t count) const {
    Rows rows = rows_;
    rows.first += image * problem_.padded.image + begin * rows.stride;
    if (rows.starts != nullptr) rows.starts += begin;
    rows.count = static_cast<int>(count);
    return rows;
  }

 private:
  int64_t input_bytes() const { return problem_.rows.padded ? S::kWordsOfQuad : 1; }

  void find_starts(const uint8_t* input, int64_t first, int64_t count, const uint8_t** starts) {
    const PaddedLayout& layout = problem_.padded;
    OutputPixel pixel(problem_.shape, first);
    for (int64_t i = 0; i < count; ++i, pixel.advance()) {
      starts[i] =
          input + pixel.image * layout.image + pixel.y * layout.row_bytes + pixel.x * layout.step;
    }
    rows_.starts = starts;
  }

  void gather(const Im2col& im2col, int64_t pixel, int64_t count, uint8_t* to) const {
    const ConvShape& shape = problem_.shape;
    const bool as_is = S::kWordsOfQuad == 1 && !shape.input_signed;
    uint8_t* const spare = to + problem_.rows.rows_at_once * rows_.stride;
    const size_t padding =
        static_cast<size_t>(4 * problem_.rows.words - S::kWordsOfQuad * shape.depth);
    OutputPixel at(shape, pixel);
    for (int64_t i = 0; i < count; ++i, to += rows_.stride, at.advance()) {
      im2col.copy(at, as_is ? to : spare);
      if (!as_is) S::pack_row(to, spare, shape.depth, shape.input_signed ? 128 : 0);
      if (S::kWordsOfQuad == 1) __builtin_memset(to + shape.depth, 0, padding);
    }
  }

  const ConvProblem& problem_;
  Rows rows_ = {};
};

template <typename S>
struct RowKernels {
  static void lay_out(ConvProblem& problem) {
    const ConvShape& shape = problem.shape;
    RowLayout& rows = problem.rows;
    const PaddedLayout& padded = problem.padded;
    const int64_t quads = RowMicrokernel::words_of(shape.depth);
    rows.direct = is_matrix_product(shape) && S::kWordsOfQuad == 1 && !shape.input_signed &&
                  shape.depth == kKPack * quads;
    rows.padded = !rows.direct && padded.image > 0 && reads_copies(problem);
    rows.tap_words = RowMicrokernel::words_of(padded.tap_depth) * S::kWordsOfQuad;
    rows.words = rows.padded ? padded.taps * rows.tap_words : quads * S::kWordsOfQuad;
    rows.row_bytes = round_up(4 * rows.words, 64);
    if (rows.row_bytes % 1024 == 0) rows.row_bytes += 64;  // avoids cache conflicts between rows
    rows.panel_bytes = rows.words * 4 * kPanelWidth;
    if (rows.padded && padded.kernel_rows && kKPack * rows.words != shape.depth) {
      problem.shape.panels = false;  // zeros follow the kernel rows, but not in prepared panels
    }
    if (shape.panels) rows.panel_bytes = prepared_panels(shape).panel_bytes();
    rows.panels = (shape.rows + kPanelWidth - 1) / kPanelWidth;
    rows.step = RowMicrokernel::kRowsOfBlock<S>;
    rows.by_image = rows.padded && RowMicrokernel::kNeedsStride;
    const int64_t bytes = rows.padded ? padded.step : rows.row_bytes;
    const int64_t fit =
        (rows.padded ? tuning::kPaddedRows : tuning::kGatheredRows) / bytes / kRows * kRows;
    rows.rows_at_once = fit < kRows ? kRows : fit > kMostAtOnce ? kMostAtOnce : fit;
    rows.block_bytes = rows.padded ? rows.rows_at_once * static_cast<int64_t>(sizeof(uint8_t*))
                                   : (rows.rows_at_once + 1) * rows.row_bytes;
    rows.block_bytes = round_up(rows.block_bytes, 64);
  }

  static void pack_filter(const ConvProblem& problem, const int8_t* filter, int64_t first,
                          int64_t last, uint8_t* panels) {
    const ConvShape& shape = problem.shape;
    for (int64_t panel = first; panel < last; ++panel) {
      const int64_t group = panel / problem.rows.panels;
      const int64_t row = panel % problem.rows.panels * kPanelWidth;
      const int8_t* from = filter + (group * shape.rows + row) * shape.depth;
      uint8_t* to = panels + panel * problem.rows.panel_bytes;
      const ColumnRows columns{from, shape.depth, shape.depth, columns_of(problem, row)};
      const int64_t quads = problem.rows.words / S::kWordsOfQuad;
      if (problem.rows.padded && problem.padded.kernel_rows) {
        pack_kernel_rows(problem.padded, columns, quads, to);
      } else {
        pack_columns<S>(columns, quads, quads, to);
      }
    }
  }

  static void multiply(const ConvProblem& problem, const RowRange& range) {
    const RowLayout& rows = problem.rows;
    const int64_t most = rows.rows_at_once / rows.step;
    for (int64_t step = range.first_step; step < range.last_step; step += most) {
      const int64_t end = step + least(range.last_step - step, most);
      for (int64_t panel = range.first_panel; panel < range.last_panel;) {
        const int64_t end_of_group = (panel / rows.panels + 1) * rows.panels;
        const int64_t last = end_of_group < range.last_panel ? end_of_group : range.last_panel;
        multiply_block(problem, range, step, end, panel, last);
        panel = last;
      }
    }
  }

 private:
  // Rows of a panel's sums that are requantized together.
  static constexpr int64_t kRows = RowMicrokernel::kMostRows<S>;
  static constexpr int64_t kMostAtOnce = tuning::kMostRowBlocks * kRows;

  // Whether copying images is cheaper than gathering windows: taps must be whole words, and most
  // rows of a tile must be outputs.
  static bool reads_copies(const ConvProblem& problem) {
    const ConvShape& shape = problem.shape;
    const bool fewer = shape.taps / shape.height.stride / shape.width.stride >= 4;
    const bool fits = 2 * problem.padded.columns <= 3 * shape.width.output;
    const bool good =
        problem.padded.kernel_rows || (fewer && RowMicrokernel::reads_taps(shape.channels));
    return good && (fits || !RowMicrokernel::kNeedsStride);
  }

  // Packs a filter with zeros after every kernel row, because a row of pixels continues there.
  static void pack_kernel_rows(const PaddedLayout& padded, ColumnRows columns, int64_t quads,
                               uint8_t* panel) {
    constexpr int64_t kQuad = S::kWordsOfQuad * kWordBytes<S>;
    const int64_t quads_of_tap = quads / padded.taps;
    columns.depth = padded.tap_depth;
    for (int64_t tap = 0; tap < padded.taps; ++tap, columns.first += columns.depth) {
      pack_columns<S>(columns, quads_of_tap, quads, panel + tap * quads_of_tap * kQuad);
    }
  }

  static int64_t columns_of(const ConvProblem& problem, int64_t row) {
    return least(problem.shape.rows - row, kPanelWidth);
  }

  // Multiplies steps [first, end) of rows by panels [panel, last) of one group. A panel comes to
  // the second cache once for all of these rows.
  static void multiply_block(const ConvProblem& problem, const RowRange& range, int64_t first,
                             int64_t end, int64_t panel, int64_t last) {
    const RowLayout& layout = problem.rows;
    const RequantizeParams& params = problem.requantize;
    const int64_t group = panel / layout.panels, steps = steps_of_image(layout);
    const int64_t base = layout.by_image ? 0 : first * layout.step;
    int32_t* acc = reinterpret_cast<int32_t*>(range.scratch + layout.block_bytes);
    const RowBlock<S> all(problem, range, group, base,
                          layout.by_image ? 0 : rows_of(layout, first, end));
    RowMicrokernel microkernel;
    const int64_t together = RowMicrokernel::rows_at_once<S>(layout.words) / layout.step;
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
      for (int64_t step = first, stop; step < end; step = stop) {
        const int64_t image = step / steps, at = (step - image * steps) * layout.step;
        stop = step + together;
        if (stop > end) stop = end;
        if (stop > (image + 1) * steps) stop = (image + 1) * steps;
        Rows rows = all.rows(image, at - base, rows_of(layout, step, stop));
        if constexpr (requantizes_in_registers<S, RowMicrokernel>()) {
          if (panel + 1 < last) {
            fetch_next<S>(rows, range.panels + (panel + 1) * layout.panel_bytes,
                          (step - first) * layout.step, (end - first) * layout.step);
          }
          if (channels.requantizes_tiles(rows)) {
            const int64_t pitch = problem.shape.output_channels;  // all images count as one
            uint8_t* to = static_cast<uint8_t*>(range.output) + at * pitch + channel;
            channels.multiply_to_bytes(rows, range.panels + panel * layout.panel_bytes,
                                       params.offset + channel, acc, to, pitch);
            continue;
          }
        }
        microkernel.template multiply<S>(rows, range.panels + panel * layout.panel_bytes,
                                         channels.count, params.offset + channel, acc);
        store_rows(problem, channels, rows, image, at, acc, range.output);
      }
    }
  }

  // The number of rows in steps [first, end) of one image.
  static int64_t rows_of(const RowLayout& layout, int64_t first, int64_t end) {
    const int64_t at = first % steps_of_image(layout) * layout.step;
    const int64_t left = layout.rows - at, rows = (end - first) * layout.step;
    return rows < left ? rows : left;
  }

  // Requantizes and stores the rows of sums that are outputs.
  static void store_rows(const ConvProblem& problem, const PixelChannels<S, true>& channels,
                         const Rows& rows, int64_t image, int64_t first, int32_t* sums,
                         void* output) {
    const RowLayout& layout = problem.rows;
    const int64_t pixel = image * problem.shape.output_pixels;  // 0 if all images count as one
    const int64_t channels_of_pixel = problem.shape.output_channels;
    int64_t y = first / layout.pitch, x = first % layout.pitch;
    for (int64_t r = 0; r < rows.count; x = 0, ++y) {
      const int64_t left = rows.count - r;
      const int64_t inside = layout.width - x < left ? layout.width - x : left;
      if (inside > 0) {
        const int64_t at = (pixel + y * layout.width + x) * channels_of_pixel + channels.first;
        store_run(channels, rows, r, inside, sums + r * kPanelWidth, output, at, channels_of_pixel);
      }
      r += layout.pitch - x;
    }
  }

  // Stores `count` rows of neighbouring pixels, from row r on.
  static void store_run(const PixelChannels<S, true>& channels, const Rows& rows, int64_t r,
                        int64_t count, int32_t* sums, void* output, int64_t at, int64_t step) {
    for (int64_t i = 0; channels.filter_zero != nullptr && i < count; ++i) {
      alignas(64) int32_t row_sums[kPanelWidth];
      const int32_t sum = sum_row<S>(rows, r + i);
      for (int32_t& value : row_sums) value = sum;
      channels.subtract_zero_points(row_sums, sums + i * kPanelWidth);
    }
    store_pixels(channels, sums, count, output, at, step);
  }
};

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
