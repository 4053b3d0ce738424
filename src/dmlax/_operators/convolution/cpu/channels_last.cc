#include "dmlax/_operators/convolution/cpu/convolution_schedule.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "dmlax/_cpu/phases.h"
#include "dmlax/_cpu/product/product_schedule.h"
#include "dmlax/_cpu/scratch.h"

namespace dmlax {
namespace {

thread_local Scratch shared_scratch;  // the calling thread's; all threads read it
thread_local Scratch input_scratch, output_scratch;
thread_local Scratch task_scratch, padded_scratch;

struct RowSchedule : ConvCall {
  const RowLayout& rows = problem.rows;

  int64_t pixels() const { return shape.images * shape.output_pixels; }
  int64_t steps() const { return rows.images * steps_of_image(rows); }
  int64_t all_panels() const { return shape.groups * rows.panels; }

  // Approximate time of one thread.
  double time() const {
    const double depth = static_cast<double>(shape.depth * shape.output_channels);
    const double outputs = static_cast<double>(pixels() * all_panels());
    return static_cast<double>(pixels()) * depth / kernels.products_per_ns +
           (shape.panels ? 0 : depth / tuning::kPackedFilterBytesPerNs) +
           outputs * kernels.requantize_row_ns;
  }

  bool run() const {
    const int64_t threads = pool.num_threads();
    const bool alone = threads <= 1 || time() < tuning::kSharedProductNs;
    Operands operands;
    const bool good = take_memory(operands) && run_tasks(operands, alone ? 1 : threads);
    shared_scratch.give_back();
    padded_scratch.give_back();
    return good;
  }

 private:
  // Memory that a call packs and copies into, or the operands as they are.
  struct Operands {
    uint8_t *packed, *copies;
    const uint8_t *panels, *input;
  };

  // A task packs or copies about kPackedOfTask bytes.
  int64_t panels_of_pack() const {
    return std::max<int64_t>(1, tuning::kPackedOfTask / rows.panel_bytes);
  }
  int64_t lines_of_copy() const {
    return std::max<int64_t>(1, tuning::kPackedOfTask / problem.padded.row_bytes);
  }

  int64_t packs() const {
    return shape.panels ? 0 : (all_panels() + panels_of_pack() - 1) / panels_of_pack();
  }

  // The number of rows of padded copies.
  int64_t lines() const {
    const PaddedLayout& padded = problem.padded;
    return rows.padded ? shape.images * padded.image / padded.row_bytes : 0;
  }

  bool take_memory(Operands& operands) const {
    operands = {nullptr, nullptr, reinterpret_cast<const uint8_t*>(buffers.filter), buffers.input};
    if (!shape.panels) {
      operands.packed = shared_scratch.take(all_panels() * rows.panel_bytes);
      operands.panels = operands.packed;
    }
    if (rows.padded) {
      operands.copies = padded_scratch.take(shape.images * problem.padded.image + kSlack);
      operands.input = operands.copies;
    }
    return operands.panels != nullptr && operands.input != nullptr;
  }

  bool run_tasks(const Operands& operands, int64_t threads) const {
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

  // Packs a task's panels, or copies its lines.
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

  // Splits pixels and panels into ranges. If panels take much more memory than images, a thread
  // reads some panels for all pixels.
  TaskGrid divide(int64_t threads) const {
    if (threads == 1) return {};
    const int64_t wanted = tasks_of(time(), threads);
    const int64_t bytes = all_panels() * rows.panel_bytes;
    if (shape.panels && bytes > tuning::kFilterReadByAll &&
        bytes > 4 * shape.images * shape.input_elements) {
      const int64_t panels = std::min(all_panels(), wanted);
      return {std::min(steps(), wanted / panels), panels, true};
    }
    const int64_t pixels =
        std::clamp<int64_t>(steps() / (shape.panels ? 1 : tuning::kStepsOfTask), 1, wanted);
    return {pixels, pixels >= wanted / 2 ? 1 : std::min(all_panels(), wanted / pixels)};
  }

  bool multiply(const TaskGrid& parts, int64_t first, int64_t last,
                const Operands& operands) const {
    return task_scratch.borrow(row_scratch_bytes(rows), [&](uint8_t* memory) {
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
    });
  }
};

struct LineSchedule : ConvCall {
  bool is_small() const {
    const double pixels = static_cast<double>(shape.images * shape.output_pixels * blocks());
    const double columns = static_cast<double>(tap_quads(shape) * (shape.width.kernel + 2));
    return pixels * (kernels.requantize_row_ns + columns * tuning::kColumnNs) <
           tuning::kSharedProductNs;
  }

  bool run() const {
    const int64_t lines = shape.images * shape.height.output;
    const int64_t threads = is_small() ? 1 : pool.num_threads();
    const TaskGrid parts = divide(lines, threads);
    return parallel_all(threads == 1 ? nullptr : &pool, parts.count(), [&](int64_t task) {
      const int64_t part = task % parts.rows, block = task / parts.rows;
      const int64_t first = block * blocks() / parts.panels;
      const int64_t last = (block + 1) * blocks() / parts.panels;
      return task_scratch.borrow(line_scratch_bytes(shape, last - first), [&](uint8_t* memory) {
        kernels.multiply_lines(problem, {.input = buffers.input,
                                         .filter = buffers.filter,
                                         .output = buffers.output,
                                         .scratch = memory,
                                         .first_line = part * lines / parts.rows,
                                         .last_line = (part + 1) * lines / parts.rows,
                                         .first_block = first,
                                         .last_block = last});
      });
    });
  }

 private:
  // Splits lines and blocks into ranges: the grid's rows and panels. All blocks of a few lines read
  // the same input.
  TaskGrid divide(int64_t all_lines, int64_t threads) const {
    if (threads == 1) return {};
    const int64_t wanted = threads * tuning::kTasksOfThread;
    const int64_t few = std::clamp<int64_t>(all_lines / tuning::kFewLines, 1, wanted);
    const int64_t parts = std::min(blocks(), (wanted + few - 1) / few);
    if (few * parts >= wanted) return {few, parts};
    return {std::min(all_lines, (wanted + parts - 1) / parts), parts};
  }

  int64_t blocks() const { return (shape.output_channels + kPanelWidth - 1) / kPanelWidth; }
};

// Calls run(problem, call) for parts of at most `most` images. Returns false as soon as a call
// does.
template <typename Run>
bool for_each_part(const ConvCall& call, int64_t most, const Run& run) {
  const ConvShape& shape = call.shape;
  const int64_t count = std::clamp<int64_t>(most, 1, shape.images);
  for (int64_t first = 0; first < shape.images; first += count) {
    ConvProblem part = call.problem;
    part.shape.images = std::min(count, shape.images - first);
    const int64_t output = first * shape.output_elements * output_bytes(part);
    const ConvBuffers images = {.input = call.buffers.input + first * shape.input_elements,
                                .filter = call.buffers.filter,
                                .output = static_cast<uint8_t*>(call.buffers.output) + output};
    if (!run(part, ConvCall{part, call.kernels, images, call.pool})) return false;
  }
  return true;
}

// A row of A is a pixel, a column of B an output channel.
bool run_product(const ConvCall& call) {
  const ConvShape& shape = call.shape;
  const ConvBuffers& buffers = call.buffers;
  ProductProblem product = {};
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
  product.requantize = call.problem.requantize;  // its offsets include the input zero point's terms
  return run_products({product}, call.pool);
}

void count_rows(ConvProblem& problem) {
  const ConvShape& shape = problem.shape;
  RowLayout& rows = problem.rows;
  rows.images = rows.by_image ? shape.images : 1;
  rows.pitch = rows.by_image ? problem.padded.columns : shape.images * shape.output_pixels;
  rows.width = rows.by_image ? shape.width.output : rows.pitch;
  rows.rows = rows.by_image ? (shape.height.output - 1) * rows.pitch + rows.width : rows.pitch;
}

// Runs as many images at once as keep padded copies within their memory.
bool run_rows(const ConvCall& call) {
  const ConvProblem& problem = call.problem;
  const int64_t most =
      problem.rows.padded ? tuning::kPaddedImages / problem.padded.image : call.shape.images;
  return for_each_part(call, most, [&](ConvProblem& part, const ConvCall& images) {
    count_rows(part);
    return RowSchedule{images}.run();
  });
}

bool run_path(const ConvCall& call) {
  if (call.problem.path == Path::kProduct) return run_product(call);
  if (call.problem.path == Path::kLines) return LineSchedule{call}.run();
  return run_rows(call);
}

// Does what `transpose` does, for int32.
void transpose_int32(int32_t* target, int64_t target_stride, const int32_t* source,
                     int64_t source_stride, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      target[c * target_stride + r] = source[r * source_stride + c];
    }
  }
}

// Copies images between channels first and channels last.
struct Transposition : ConvCall {
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
  // Calls run(image, first, count) for ranges of an image's columns, which become rows.
  template <typename Run>
  void for_each_range(int64_t columns, int64_t rows, const Run& run) const {
    const int64_t step = std::max<int64_t>(64, tuning::kTransposeTask / rows / 64 * 64);
    const int64_t ranges = (columns + step - 1) / step;
    const bool is_small = shape.images * columns * rows <= tuning::kTransposeTask;
    parallel_for(is_small ? nullptr : &pool, shape.images * ranges, [&](int64_t task) {
      const int64_t first = task % ranges * step;
      run(task / ranges, first, std::min(step, columns - first));
    });
  }
};

// Transposes the input, the output or both.
bool run_transposed(const ConvCall& call, bool input, bool output) {
  const ConvShape& shape = call.shape;
  const Transposition transposition{call};
  ConvCall last = call;
  if (input) {
    uint8_t* copies = input_scratch.take(shape.images * shape.input_elements);
    if (copies == nullptr) return false;
    transposition.input(copies, call.buffers.input);
    last.buffers.input = copies;
  }
  if (!output) return run_path(last);
  void*& copies = last.buffers.output;
  copies = output_scratch.take(shape.images * shape.output_elements * output_bytes(call.problem));
  if (copies == nullptr || !run_path(last)) return false;
  transposition.output(call.buffers.output, copies);
  return true;
}

}  // namespace

bool run_channels_last(const ConvCall& call) {
  const ConvShape& shape = call.shape;
  const bool input = !shape.input_last && shape.height.size * shape.width.size > 1;
  const bool output = !shape.output_last && shape.output_pixels > 1;
  if (!input && !output) return run_path(call);
  const int64_t image = shape.input_elements + shape.output_elements * output_bytes(call.problem);
  const bool good = for_each_part(call, tuning::kTransposedImages / image,
                                  [&](const ConvProblem&, const ConvCall& images) {
                                    return run_transposed(images, input, output);
                                  });
  input_scratch.give_back();
  output_scratch.give_back();
  return good;
}

}  // namespace dmlax
