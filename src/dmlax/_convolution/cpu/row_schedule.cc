#include "dmlax/_convolution/cpu/row_schedule.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "dmlax/_cpu/matmul/schedule.h"
#include "dmlax/_cpu/phases.h"
#include "dmlax/_cpu/scratch.h"

namespace dmlax {
namespace {

constexpr double kPackedBytesPerNs = 16;    // of a filter
constexpr int64_t kReadByAll = 1 << 20;     // bytes of panels that each second cache holds
constexpr int64_t kTransposedAtOnce = 1 << 24;  // bytes of images and outputs
constexpr int64_t kPaddedAtOnce = 1 << 25;      // bytes of padded copies

thread_local Scratch call_scratch;  // of a call's first thread, for all of them
thread_local Scratch input_scratch, output_scratch;
thread_local Scratch own_scratch, padded_scratch;

struct RowSchedule {
  const ConvProblem& problem;
  const ConvShape& shape = problem.shape;
  const RowLayout& rows = problem.rows;
  const ConvolutionKernels& kernels;
  const ConvBuffers& buffers;

  int64_t pixels() const { return shape.images * shape.output_pixels; }
  int64_t steps() const { return rows.images * steps_of_image(rows); }
  int64_t all_panels() const { return shape.groups * rows.panels; }

  // Of one thread, roughly.
  double time() const {
    const double depth = static_cast<double>(shape.depth * shape.output_channels);
    const double outputs = static_cast<double>(pixels() * all_panels());
    return static_cast<double>(pixels()) * depth / kernels.products_per_ns +
           (shape.panels ? 0 : depth / kPackedBytesPerNs) + outputs * kernels.requantize_row_ns;
  }

  bool run(xla::ffi::ThreadPool& pool) const {
    const int64_t threads = pool.num_threads();
    const bool alone = threads <= 1 || time() < kSharedProductNs;
    Operands operands;
    const bool good = take_memory(operands) && run_tasks(operands, alone ? 1 : threads, pool);
    call_scratch.give_back();
    padded_scratch.give_back();
    return good;
  }

 private:
  // Memory for what a call packs and copies, else what it was given.
  struct Operands {
    uint8_t *packed, *copies;
    const uint8_t *panels, *input;
  };

  // A task packs or copies about as many bytes as kPackedOfTask.
  int64_t panels_of_pack() const { return std::max<int64_t>(1, kPackedOfTask / rows.panel_bytes); }
  int64_t lines_of_copy() const {
    return std::max<int64_t>(1, kPackedOfTask / problem.padded.row_bytes);
  }

  int64_t packs() const {
    return shape.panels ? 0 : (all_panels() + panels_of_pack() - 1) / panels_of_pack();
  }

  // Rows of padded copies.
  int64_t lines() const {
    const PaddedLayout& padded = problem.padded;
    return rows.padded ? shape.images * padded.image / padded.row_bytes : 0;
  }

  bool take_memory(Operands& operands) const {
    operands = {nullptr, nullptr, reinterpret_cast<const uint8_t*>(buffers.filter), buffers.input};
    if (!shape.panels) {
      operands.packed = call_scratch.take(all_panels() * rows.panel_bytes);
      operands.panels = operands.packed;
    }
    if (rows.padded) {
      operands.copies = padded_scratch.take(shape.images * problem.padded.image + kSlack);
      operands.input = operands.copies;
    }
    return operands.panels != nullptr && operands.input != nullptr;
  }

  bool run_tasks(const Operands& operands, int64_t threads, xla::ffi::ThreadPool& pool) const {
    const TaskGrid parts = divide(threads);
    const int64_t copies = lines() == 0 ? 0 : (lines() + lines_of_copy() - 1) / lines_of_copy();
    const int64_t tasks = parts.count();
    const std::array<PhaseTasks, 2> all = {{{packs() + copies, 1}, {tasks, tasks}}};
    std::atomic<bool> good{true};
    const auto task = [&](size_t phase, int64_t first, int64_t last) {
      if (phase == 1) {
        if (!multiply(parts, first, last, operands)) good = false;
        return;
      }
      for (int64_t i = first; i < last; ++i) prepare(i, operands);
    };
    run_phases(threads == 1 ? nullptr : &pool, all, task);
    return good;
  }

  // Packs some panels, or copies some lines.
  void prepare(int64_t task, const Operands& operands) const {
    if (task < packs()) {
      const int64_t first = task * panels_of_pack();
      kernels.pack_filter(problem, buffers.filter, first,
                          std::min(all_panels(), first + panels_of_pack()), operands.packed);
    } else {
      const int64_t first = (task - packs()) * lines_of_copy();
      kernels.pad(problem, buffers.input, first, std::min(lines(), first + lines_of_copy()),
                  operands.copies);
    }
  }

  // Into how many ranges of pixels and of panels. Where panels take much more memory than images, a
  // thread reads some of them for all pixels.
  TaskGrid divide(int64_t threads) const {
    if (threads == 1) return {};
    const int64_t wanted = tasks_of(time(), threads);
    const int64_t bytes = all_panels() * rows.panel_bytes;
    if (shape.panels && bytes > kReadByAll && bytes > 4 * shape.images * shape.input_elements) {
      const int64_t panels = std::min(all_panels(), wanted);
      return {std::min(steps(), wanted / panels), panels, true};
    }
    const int64_t pixels = std::clamp<int64_t>(steps() / (shape.panels ? 1 : kStepsOfTask), 1, wanted);
    return {pixels, pixels >= wanted / 2 ? 1 : std::min(all_panels(), wanted / pixels)};
  }

  bool multiply(const TaskGrid& parts, int64_t first, int64_t last,
                const Operands& operands) const {
    uint8_t* memory = own_scratch.take(row_scratch_bytes(rows));
    if (memory == nullptr) return false;
    parts.for_each_block(first, last, [&](int64_t, const TaskGrid::Block& block) {
      kernels.multiply_rows(problem,
                            {.input = operands.input,
                             .panels = operands.panels,
                             .output = buffers.output,
                             .scratch = memory,
                             .first_step = steps() * block.first_row / parts.rows,
                             .last_step = steps() * block.last_row / parts.rows,
                             .first_panel = block.first_panel * all_panels() / parts.panels,
                             .last_panel = block.last_panel * all_panels() / parts.panels});
    });
    own_scratch.give_back();
    return true;
  }
};

struct LineSchedule {
  const ConvProblem& problem;
  const ConvShape& shape = problem.shape;
  const ConvolutionKernels& kernels;
  const ConvBuffers& buffers;

  bool is_small() const {
    const double pixels = static_cast<double>(shape.images * shape.output_pixels * blocks());
    const double columns = static_cast<double>(tap_quads(shape) * (shape.width.kernel + 2));
    return pixels * (kernels.requantize_row_ns + columns * kColumnNs) < kSharedProductNs;
  }

  bool run(xla::ffi::ThreadPool& pool) const {
    const int64_t lines = shape.images * shape.height.output;
    const int64_t threads = is_small() ? 1 : pool.num_threads();
    const Parts parts(lines, blocks(), threads);
    std::atomic<bool> good{true};
    const auto task = [&](int64_t i) {
      const int64_t part = i % parts.lines, first = i / parts.lines * blocks() / parts.blocks;
      const int64_t last = (i / parts.lines + 1) * blocks() / parts.blocks;
      uint8_t* memory = own_scratch.take(line_scratch_bytes(shape, last - first));
      if (memory == nullptr) {
        good = false;
        return;
      }
      kernels.multiply_lines(problem, {.input = buffers.input,
                                       .filter = buffers.filter,
                                       .output = buffers.output,
                                       .scratch = memory,
                                       .first_line = part * lines / parts.lines,
                                       .last_line = (part + 1) * lines / parts.lines,
                                       .first_block = first,
                                       .last_block = last});
      own_scratch.give_back();
    };
    if (threads == 1) {
      task(0);
    } else {
      parallel_for(pool, parts.lines * parts.blocks, task);
    }
    return good;
  }

 private:
  static constexpr double kColumnNs = 4;  // to interleave or multiply four taps of 64 channels

  // How many ranges of lines and of blocks tasks have. All blocks of a few lines read the same
  // input.
  struct Parts {
    int64_t lines = 1, blocks = 1;

    Parts(int64_t all_lines, int64_t all_blocks, int64_t threads) {
      if (threads == 1) return;
      constexpr int64_t kFewLines = 4;
      const int64_t wanted = threads * kTasksOfThread;
      lines = std::clamp<int64_t>(all_lines / kFewLines, 1, wanted);
      blocks = std::min(all_blocks, (wanted + lines - 1) / lines);
      if (lines * blocks < wanted) lines = std::min(all_lines, (wanted + blocks - 1) / blocks);
    }
  };

  int64_t blocks() const { return (shape.output_channels + kPanelWidth - 1) / kPanelWidth; }
};

ConvBuffers from_image(const ConvProblem& problem, const ConvBuffers& buffers, int64_t image) {
  const ConvShape& shape = problem.shape;
  const int64_t output = image * shape.output_elements * output_bytes(problem);
  return {.input = buffers.input + image * shape.input_elements,
          .filter = buffers.filter,
          .output = static_cast<uint8_t*>(buffers.output) + output};
}

// A row of A is a pixel, a column of B an output channel.
bool run_product(const ConvProblem& problem, const ConvBuffers& buffers,
                 xla::ffi::ThreadPool& pool) {
  const ConvShape& shape = problem.shape;
  MatmulProblem product = {};
  product.shape = {.rows = shape.images * shape.output_pixels,
                   .depth = shape.depth,
                   .columns = shape.output_channels,
                   .a_signed = shape.input_signed,
                   .b_signed = true,
                   .b_transposed = !shape.panels,
                   .b_panels = shape.panels};
  lay_out_product(product, reinterpret_cast<const uint8_t*>(buffers.filter),
                  shape.depth * shape.output_channels);
  product.a = buffers.input;
  product.b = reinterpret_cast<const uint8_t*>(buffers.filter);
  product.output = buffers.output;
  product.requantize = problem.requantize;  // whose offsets have the input zero point's terms
  return run_products({product}, pool);
}

void count_rows(ConvProblem& problem) {
  const ConvShape& shape = problem.shape;
  RowLayout& rows = problem.rows;
  rows.images = rows.by_image ? shape.images : 1;
  rows.pitch = rows.by_image ? problem.padded.columns : shape.images * shape.output_pixels;
  rows.width = rows.by_image ? shape.width.output : rows.pitch;
  rows.rows = rows.by_image ? (shape.height.output - 1) * rows.pitch + rows.width : rows.pitch;
}

// Of padded copies, so many images at once as keep within their memory.
bool run_rows(const ConvProblem& problem, const ConvolutionKernels& kernels,
              const ConvBuffers& buffers, xla::ffi::ThreadPool& pool) {
  const ConvShape& shape = problem.shape;
  const int64_t most = problem.rows.padded ? kPaddedAtOnce / problem.padded.image : shape.images;
  const int64_t at_once = std::clamp<int64_t>(most, 1, shape.images);
  bool good = true;
  for (int64_t first = 0; good && first < shape.images; first += at_once) {
    ConvProblem part = problem;
    part.shape.images = std::min(at_once, shape.images - first);
    count_rows(part);
    const ConvBuffers images = from_image(problem, buffers, first);
    good = RowSchedule{.problem = part, .kernels = kernels, .buffers = images}.run(pool);
  }
  return good;
}

bool run_path(const ConvProblem& problem, const ConvolutionKernels& kernels,
              const ConvBuffers& buffers, xla::ffi::ThreadPool& pool) {
  if (problem.path == Path::kMatmul) return run_product(problem, buffers, pool);
  if (problem.path == Path::kLines) {
    return LineSchedule{.problem = problem, .kernels = kernels, .buffers = buffers}.run(pool);
  }
  return run_rows(problem, kernels, buffers, pool);
}

// As `transpose`.
void transpose_int32(int32_t* target, int64_t target_stride, const int32_t* source,
                     int64_t source_stride, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      target[c * target_stride + r] = source[r * source_stride + c];
    }
  }
}

// Images whose channels come first, and copies of them whose channels come last.
struct Transposition {
  const ConvProblem& problem;
  const ConvShape& shape = problem.shape;
  const ConvolutionKernels& kernels;
  xla::ffi::ThreadPool& pool;

  void input(uint8_t* target, const uint8_t* source) const {
    const int64_t channels = shape.input_channels, pixels = shape.input_elements / channels;
    for_each_range(pixels, channels, [&](int64_t image, int64_t first, int64_t count) {
      const int64_t at = image * shape.input_elements;
      kernels.transpose(target + at + first * channels, channels, source + at + first, pixels,
                        channels, count);
    });
  }

  void output(void* target, const void* source) const {
    const int64_t channels = shape.output_channels, pixels = shape.output_pixels;
    for_each_range(channels, pixels, [&](int64_t image, int64_t first, int64_t count) {
      const int64_t at = image * shape.output_elements, to = at + first * pixels;
      if (problem.requantize.quantized) {
        kernels.transpose(static_cast<uint8_t*>(target) + to, pixels,
                          static_cast<const uint8_t*>(source) + at + first, channels, pixels,
                          count);
      } else {
        transpose_int32(static_cast<int32_t*>(target) + to, pixels,
                        static_cast<const int32_t*>(source) + at + first, channels, pixels, count);
      }
    });
  }

 private:
  static constexpr int64_t kElementsOfTask = 1 << 15;

  // Calls each(image, first, count) for ranges of an image's columns, which become rows.
  template <typename Each>
  void for_each_range(int64_t columns, int64_t rows, const Each& each) const {
    const int64_t step = std::max<int64_t>(64, kElementsOfTask / rows / 64 * 64);
    const int64_t ranges = (columns + step - 1) / step;
    const auto task = [&](int64_t i) {
      const int64_t first = i % ranges * step;
      each(i / ranges, first, std::min(step, columns - first));
    };
    if (shape.images * columns * rows <= kElementsOfTask) {
      for (int64_t i = 0; i < shape.images * ranges; ++i) task(i);
    } else {
      parallel_for(pool, shape.images * ranges, task);
    }
  }
};

// The input, the output or both are transposed.
bool run_transposed(const ConvProblem& problem, const ConvolutionKernels& kernels,
                    const ConvBuffers& buffers, xla::ffi::ThreadPool& pool, bool input,
                    bool output) {
  const ConvShape& shape = problem.shape;
  const Transposition transposition{.problem = problem, .kernels = kernels, .pool = pool};
  ConvBuffers last = buffers;
  if (input) {
    uint8_t* copies = input_scratch.take(shape.images * shape.input_elements);
    if (copies == nullptr) return false;
    transposition.input(copies, buffers.input);
    last.input = copies;
  }
  if (!output) return run_path(problem, kernels, last, pool);
  last.output = output_scratch.take(shape.images * shape.output_elements * output_bytes(problem));
  if (last.output == nullptr || !run_path(problem, kernels, last, pool)) return false;
  transposition.output(buffers.output, last.output);
  return true;
}

}  // namespace

bool run_channels_last(const ConvProblem& problem, const ConvolutionKernels& kernels,
                       const ConvBuffers& buffers, xla::ffi::ThreadPool& pool) {
  const ConvShape& shape = problem.shape;
  const bool input = !shape.input_last && shape.height.size * shape.width.size > 1;
  const bool output = !shape.output_last && shape.output_pixels > 1;
  if (!input && !output) return run_path(problem, kernels, buffers, pool);
  const int64_t image = shape.input_elements + shape.output_elements * output_bytes(problem);
  const int64_t at_once = std::clamp<int64_t>(kTransposedAtOnce / image, 1, shape.images);
  bool good = true;
  for (int64_t first = 0; good && first < shape.images; first += at_once) {
    ConvProblem part = problem;
    part.shape.images = std::min(at_once, shape.images - first);
    const ConvBuffers images = from_image(problem, buffers, first);
    good = run_transposed(part, kernels, images, pool, input, output);
  }
  input_scratch.give_back();
  output_scratch.give_back();
  return good;
}

}  // namespace dmlax
