// The handler of float32 convolutions and products: it checks operands, splits the work between
// threads and finds the channels that the kernels multiply.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/phases.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/sizes.h"
#include "dmlax/_fused/float_convolution/cpu/float_convolution_kernels.h"

namespace dmlax {
namespace {

enum Operand : size_t { kInput, kFilter, kFactor, kBias, kResidual, kOperands };
using Operands = Inputs<kOperands>;
constexpr int kAxes = 3;

struct FloatAxis {
  int64_t size = 1, output = 1, kernel = 1, stride = 1, dilation = 1, start = 0;
};

struct FloatShape {
  int64_t images, inputs, outputs, groups;  // channels of all groups
  FloatAxis axes[kAxes];
  bool input_last, output_last;
  bool packed, transposed;  // the filter is panels; otherwise its rows are the depth's elements
  int64_t line = 1;         // neighbouring pixels that are one tap
  int64_t phases = 0;       // the lines that a line with every step's pixels is; 0 for pixels

  int64_t channels() const { return inputs / groups; }
  int64_t columns() const { return outputs / groups; }
  int64_t product(int64_t FloatAxis::* of) const {
    return axes[0].*of * axes[1].*of * axes[2].*of;
  }
  int64_t taps() const { return channels() == 0 ? 0 : product(&FloatAxis::kernel); }
  int64_t depth() const { return taps() * channels() * line; }
  int64_t input_pixels() const { return product(&FloatAxis::size); }
  int64_t output_pixels() const { return product(&FloatAxis::output); }
  int64_t pixels() const { return images * output_pixels(); }
  bool is_depthwise() const { return groups > 1 && channels() == 1 && columns() == 1; }
  bool is_product() const {
    return std::all_of(std::begin(axes), std::end(axes), [](const FloatAxis& axis) {
      return axis.kernel == 1 && axis.stride == 1 && axis.start == 0 && axis.size == axis.output;
    });
  }
  // Whether the taps of a line are read as one, of a padded copy: alone they are short.
  bool reads_lines() const {
    const FloatAxis& width = axes[kAxes - 1];
    return groups == 1 && channels() < tuning::kFloatTap && width.kernel > 1 && width.dilation == 1;
  }
  // Whether a vector has pixels of a line of the output: the columns would be zeros for the most.
  bool has_few_columns() const {
    return reads_lines() && columns() <= kMostColumns && (outputs == 1 || !output_last);
  }
  // The shape with lines as taps.
  FloatShape of_lines() const {
    FloatShape lines = *this;
    FloatAxis& width = lines.axes[kAxes - 1];
    width = {(width.output - 1) * width.stride + width.kernel, width.output, 1, width.stride, 1, 0};
    if (has_few_columns()) {
      if (width.output == 1) width.stride = 1;
      width.size = (width.size + width.stride - 1) / width.stride * width.stride;
      lines.phases = width.stride * channels();
    }
    lines.line = axes[kAxes - 1].kernel;
    return lines;
  }
  int64_t line_floats() const { return axes[kAxes - 1].size * inputs; }

  int64_t padded_columns() const {
    return (columns() + kFloatVector - 1) / kFloatVector * kFloatVector;
  }
  int64_t panels() const {
    return ((is_depthwise() ? outputs : columns()) + kFloatPanel - 1) / kFloatPanel;
  }
  int64_t group_floats() const { return depth() * padded_columns(); }
  int64_t filter_floats() const {
    return is_depthwise() ? taps() * outputs : groups * group_floats();
  }
};

// --- packing -----------------------------------------------------------------------------

struct Packing {
  const FloatShape& shape;
  const float* filter;
  float* packed;

  int64_t count() const { return shape.is_depthwise() ? 1 : shape.groups * shape.panels(); }

  // Packs a panel, or the filters of all channels.
  void run(int64_t index) const {
    if (shape.is_depthwise()) {
      for (int64_t tap = 0; tap < shape.taps(); ++tap) {
        for (int64_t c = 0; c < shape.outputs; ++c) {
          packed[tap * shape.outputs + c] = filter[c * shape.taps() + tap];
        }
      }
      return;
    }
    const int64_t group = index / shape.panels(), column = index % shape.panels() * kFloatPanel;
    const int64_t width = std::min(kFloatPanel, shape.padded_columns() - column);
    const int64_t count = std::min(kFloatPanel, shape.columns() - column);
    const int64_t channels = shape.channels(), taps = shape.taps(), depth = shape.depth();
    const int64_t first = group * shape.columns() + column;
    float* to = packed + group * shape.group_floats() + column * depth;
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < channels; ++c, to += width) {
        const int64_t at = c * taps + tap;
        if (shape.transposed) {
          std::memcpy(to, filter + at * shape.outputs + first,
                      static_cast<size_t>(count) * sizeof(float));
        } else {
          for (int64_t i = 0; i < count; ++i) to[i] = filter[(first + i) * depth + at];
        }
        std::fill(to + count, to + width, 0.0f);
      }
    }
  }
};

// --- windows -----------------------------------------------------------------------------

// The windows of output pixels that follow one another.
class Windows {
 public:
  Windows(const FloatShape& shape, const float* input, const float* zeros, int64_t pixel)
      : shape_(shape), zeros_(zeros) {
    const int64_t image = pixel / shape.output_pixels();
    image_ = input + image * shape.input_pixels() * shape.inputs;
    int64_t rest = pixel % shape.output_pixels();
    for (int i = kAxes - 1; i >= 0; --i) {
      place(i, rest % shape.axes[i].output);
      rest /= shape.axes[i].output;
    }
  }

  // Points to the channels of the taps of `count` pixels: [tap][pixel], `pitch` apart.
  void point(int64_t count, const float** taps, int64_t pitch) {
    for (int64_t i = 0; i < count;) {
      const int64_t run = std::max<int64_t>(1, std::min(count - i, whole_pixels()));
      const int64_t step = shape_.axes[kAxes - 1].stride * shape_.inputs;
      for_each_tap([&](int64_t tap, const float* from, bool is_inside) {
        const float** to = taps + tap * pitch + i;
        const int64_t next = is_inside ? step : 0;
        for (int64_t j = 0; j < run; ++j) to[j] = from + j * next;
      });
      i += run;
      advance(run);
    }
  }

 private:
  // Calls run(tap, channels, is_inside) for every tap of a window; those outside are zeros.
  template <typename Run>
  void for_each_tap(const Run& run) const {
    const auto [depth, height, width] = shape_.axes;
    int64_t tap = 0;
    for (int64_t i = 0, z = at_[0]; i < depth.kernel; ++i, z += depth.dilation) {
      for (int64_t j = 0, y = at_[1]; j < height.kernel; ++j, y += height.dilation) {
        const bool is_line = z >= 0 && z < depth.size && y >= 0 && y < height.size;
        const float* line = image_ + (z * height.size + y) * width.size * shape_.inputs;
        for (int64_t k = 0, x = at_[2]; k < width.kernel; ++k, x += width.dilation) {
          const bool is_inside = is_line && x >= 0 && x < width.size;
          run(tap++, is_inside ? line + x * shape_.inputs : zeros_, is_inside);
        }
      }
    }
  }

  // The pixels of the line, from this one on, whose windows are inside along the width: the same
  // lines of their windows are inside.
  int64_t whole_pixels() const {
    if (!whole_[2]) return 0;
    const FloatAxis& width = shape_.axes[kAxes - 1];
    const int64_t last = at_[2] + (width.kernel - 1) * width.dilation;
    return std::min(width.output - index_[2], (width.size - 1 - last) / width.stride + 1);
  }

  // Goes on by pixels of the line.
  void advance(int64_t pixels) {
    place(2, index_[2] + pixels);
    for (int i = kAxes - 1; i >= 0 && index_[i] == shape_.axes[i].output; --i) {
      place(i, 0);
      if (i > 0) {
        place(i - 1, index_[i - 1] + 1);
      } else {
        image_ += shape_.input_pixels() * shape_.inputs;
      }
    }
  }

  void place(int i, int64_t index) {
    const FloatAxis& axis = shape_.axes[i];
    index_[i] = index;
    at_[i] = index * axis.stride - axis.start;
    whole_[i] = at_[i] >= 0 && at_[i] + (axis.kernel - 1) * axis.dilation < axis.size;
  }

  const FloatShape& shape_;
  const float *zeros_, *image_;
  int64_t index_[kAxes], at_[kAxes];  // the output's; the input's, at the window's first tap
  bool whole_[kAxes];                 // the window is inside along an axis
};

// --- running -----------------------------------------------------------------------------

thread_local Scratch shared_scratch;  // the calling thread's; all threads read it
thread_local Scratch task_scratch;

struct FloatBuffers {
  const float *input, *filter;
  float* output;
};

struct FloatCall {
  const FloatShape& shape;
  const FloatConvolutionKernels& kernels;
  FloatBuffers buffers;
  FloatEpilogue epilogue;
  ffi::ThreadPool& pool;

  // Approximate time of one thread.
  double time() const {
    const double products = static_cast<double>(shape.pixels()) *
                            static_cast<double>(shape.depth() * shape.outputs);
    return products / tuning::kFloatProductsPerNs;
  }

  bool run() const {
    const FloatShape lines = shape.reads_lines() ? shape.of_lines() : shape;
    const bool copies = shape.reads_lines();
    const bool from_first =
        !shape.input_last && (copies || (shape.input_pixels() > 1 && shape.inputs > 1));
    const bool to_first = !shape.output_last && shape.output_pixels() > 1 && shape.outputs > 1 &&
                          lines.phases == 0;
    const int64_t beyond = lines.phases == 0 ? 0 : 8 * kFloatVector;  // a tile's pixels
    const int64_t inputs =
        copies || from_first ? shape.images * lines.input_pixels() * shape.inputs + beyond : 0;
    const int64_t outputs = to_first ? shape.pixels() * shape.outputs : 0;
    const int64_t filter = shape.packed ? 0 : shape.filter_floats();
    const int64_t zeros =
        lines.phases == 0 ? shape.inputs * lines.line : lines.line_floats() + beyond;
    const int64_t residuals = epilogue.residual == nullptr ? 0 : outputs;
    auto* memory = reinterpret_cast<float*>(
        shared_scratch.take(4 * (zeros + filter + inputs + outputs + residuals)));
    if (memory == nullptr) return false;
    std::fill(memory, memory + zeros, 0.0f);
    const Copies copied = {.zeros = memory,
                           .filter = memory + zeros,
                           .input = memory + zeros + filter,
                           .output = memory + zeros + filter + inputs,
                           .residual = memory + zeros + filter + inputs + outputs};
    FloatCall call = {lines, kernels, buffers, epilogue, pool};
    if (filter > 0) call.buffers.filter = copied.filter;
    if (inputs > 0) call.buffers.input = copied.input;
    std::fill(copied.output - beyond, copied.output, 0.0f);
    if (outputs > 0) call.buffers.output = copied.output;
    if (residuals > 0) call.epilogue.residual = copied.residual;
    const bool good = call.run_phases_of(*this, copied);
    shared_scratch.give_back();
    return good;
  }

 private:
  // Memory of a call.
  struct Copies {
    float *zeros, *filter, *input, *output, *residual;
  };

  // Ranges of an image's pixels, which a task transposes.
  struct Transposition {
    int64_t images, channels, pixels;

    int64_t step() const {
      const int64_t pixels_of_task = tuning::kTransposeTask / std::max<int64_t>(1, channels);
      return std::max<int64_t>(16, pixels_of_task / 16 * 16);
    }
    int64_t ranges() const { return (pixels + step() - 1) / step(); }
    int64_t count() const { return images * ranges(); }

    void to_last(const FloatConvolutionKernels& kernels, int64_t task, float* target,
                 const float* source) const {
      const int64_t at = task / ranges() * channels * pixels, first = task % ranges() * step();
      kernels.transpose(target + at + first * channels, channels, source + at + first, pixels,
                        channels, std::min(step(), pixels - first));
    }
    void to_first(const FloatConvolutionKernels& kernels, int64_t task, float* target,
                  const float* source) const {
      const int64_t at = task / ranges() * channels * pixels, first = task % ranges() * step();
      kernels.transpose(target + at + first, pixels, source + at + first * channels, channels,
                        std::min(step(), pixels - first), channels);
    }
  };

  // Copies a line of an image with its padding to the lines that the steps of the windows read.
  static void copy_phases(const FloatShape& given, const FloatShape& lines, int64_t line,
                          const float* source, float* target) {
    const FloatAxis& axis = given.axes[kAxes - 1];
    const int64_t channels = given.inputs, step = lines.axes[kAxes - 1].stride;
    const int64_t pitch = lines.axes[kAxes - 1].size / step;
    const int64_t of_image = given.axes[0].size * given.axes[1].size, planes = given.input_pixels();
    const int64_t image = line / of_image * planes * channels, pixel = line % of_image * axis.size;
    const int64_t next = given.input_last ? channels : 1, plane = given.input_last ? 1 : planes;
    const auto steps = [&](int64_t pixels) { return pixels <= 0 ? 0 : (pixels - 1) / step + 1; };
    float* to = target + line * lines.line_floats();
    for (int64_t phase = 0; phase < step; ++phase) {
      const int64_t first = std::min(pitch, steps(axis.start - phase));
      const int64_t last = std::clamp(steps(axis.start + axis.size - phase), first, pitch);
      for (int64_t c = 0; c < channels; ++c, to += pitch) {
        std::fill(to, to + first, 0.0f);
        std::fill(to + last, to + pitch, 0.0f);
        const int64_t from = image + c * plane + (pixel + phase - axis.start) * next;
        for (int64_t i = first; i < last; ++i) to[i] = source[from + i * step * next];
      }
    }
  }

  // Copies a line of an image with its padding.
  static void copy_line(const FloatShape& given, const FloatShape& lines, int64_t line,
                        const float* source, float* target) {
    const int64_t channels = given.inputs, width = lines.axes[kAxes - 1].size;
    const FloatAxis& axis = given.axes[kAxes - 1];
    const int64_t of_image = given.axes[0].size * given.axes[1].size, planes = given.input_pixels();
    const int64_t first = std::clamp<int64_t>(axis.start, 0, width);
    const int64_t last = std::clamp<int64_t>(axis.start + axis.size, first, width);
    target += line * width * channels;
    std::fill(target, target + first * channels, 0.0f);
    std::fill(target + last * channels, target + width * channels, 0.0f);
    const int64_t image = line / of_image * planes * channels;
    const int64_t pixel = line % of_image * axis.size + first - axis.start;
    if (given.input_last) {
      std::copy_n(source + image + pixel * channels, (last - first) * channels,
                  target + first * channels);
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      const float* from = source + image + c * planes + pixel;
      float* to = target + first * channels + c;
      for (int64_t i = 0; i < last - first; ++i) to[i * channels] = from[i];
    }
  }

  bool run_phases_of(const FloatCall& given, const Copies& copies) const {
    const Packing packing = {given.shape, given.buffers.filter, copies.filter};
    const Transposition inputs = {shape.images, shape.inputs, shape.input_pixels()};
    const Transposition outputs = {shape.images, shape.outputs, shape.output_pixels()};
    const int64_t packs = buffers.filter == given.buffers.filter ? 0 : packing.count();
    const bool reads_lines = given.shape.reads_lines();
    const int64_t lines = shape.images * shape.axes[0].size * shape.axes[1].size;
    const bool moved = buffers.input != given.buffers.input;
    const int64_t moves = !moved ? 0 : reads_lines ? lines : inputs.count();
    const bool to_first = buffers.output != given.buffers.output;
    const int64_t residuals = epilogue.residual != given.epilogue.residual ? outputs.count() : 0;
    const bool alone = pool.num_threads() <= 1 || time() < tuning::kSharedProductNs;
    const TaskGrid parts = divide(alone ? 1 : pool.num_threads());
    const int64_t tasks = parts.count();
    const std::array<PhaseTasks, 3> phases = {{{packs + moves + residuals, reads_lines ? 16 : 1},
                                               {tasks, tasks},
                                               {to_first ? outputs.count() : 0, 4}}};
    std::atomic<bool> good{true};
    run_phases(alone ? nullptr : &pool, phases, [&](size_t phase, int64_t first, int64_t last) {
      if (phase == 1) {
        if (!multiply(parts, first, last, copies.zeros)) good = false;
        return;
      }
      for (int64_t i = first; i < last; ++i) {
        if (phase == 2) {
          outputs.to_first(kernels, i, given.buffers.output, copies.output);
        } else if (i < packs) {
          packing.run(i);
        } else if (i >= packs + moves) {
          outputs.to_last(kernels, i - packs - moves, copies.residual, given.epilogue.residual);
        } else if (shape.phases > 0) {
          copy_phases(given.shape, shape, i - packs, given.buffers.input, copies.input);
        } else if (reads_lines) {
          copy_line(given.shape, shape, i - packs, given.buffers.input, copies.input);
        } else {
          inputs.to_last(kernels, i - packs, copies.input, given.buffers.input);
        }
      }
    });
    return good;
  }

  int64_t all_panels() const { return shape.panels() * (shape.is_depthwise() ? 1 : shape.groups); }

  // Splits pixels and panels into ranges. If the panels take more memory than the rows, a thread
  // reads some panels for all pixels.
  TaskGrid divide(int64_t threads) const {
    if (threads == 1) return {};
    const int64_t wanted = tasks_of(time(), threads), steps = (shape.pixels() + 11) / 12;
    const int64_t rows = shape.pixels() * std::min<int64_t>(shape.depth(), 4 * shape.inputs);
    if (shape.filter_floats() > rows || steps < wanted) {
      const int64_t panels = std::min(all_panels(), wanted);
      return {std::clamp<int64_t>(wanted / panels, 1, steps), panels, true};
    }
    return {std::min(steps, wanted), 1};
  }

  // Pixels whose rows stay in the second cache while panels meet them: equal parts of `pixels`. If
  // all panels stay there, few rows at once read and write memory in its order.
  int64_t rows_at_once(int64_t pixels) const {
    if (shape.filter_floats() <= tuning::kFloatsOfPanels) {
      return std::min(tuning::kFewFloatRows, (pixels + 11) / 12 * 12);
    }
    const int64_t floats = shape.inputs * shape.line + 2 * shape.taps();
    const int64_t most =
        std::clamp<int64_t>(tuning::kFloatsOfRows / std::max<int64_t>(1, floats), 12,
                            tuning::kMostFloatRows);
    const int64_t parts = (pixels + most - 1) / most;
    return ((pixels + parts - 1) / parts + 11) / 12 * 12;
  }

  // Multiplies lines of the output by few columns.
  bool multiply_lines(const TaskGrid& parts, int64_t first, int64_t last,
                      const float* zeros) const {
    const FloatFilter filter = {buffers.filter, shape.columns(), shape.taps(),
                                shape.channels() * shape.line};
    const FloatAxis& axis = shape.axes[kAxes - 1];
    return task_scratch.borrow(shape.taps() * 8, [&](uint8_t* memory) {
      auto* taps = reinterpret_cast<const float**>(memory);
      parts.for_each_block(first, last, [&](int64_t, const TaskGrid::Block& block) {
        const int64_t end = shape.pixels() * block.last_row / parts.rows;
        FloatLine line = {taps, shape.phases, axis.size / axis.stride, 0, 0, shape.output_pixels()};
        for (int64_t at = shape.pixels() * block.first_row / parts.rows; at < end;
             at += line.count) {
          line.first = at % axis.output;
          line.count = std::min(end - at, axis.output - line.first);
          Windows(shape, buffers.input, zeros, at - line.first).point(1, taps, 1);
          const int64_t image = at / line.plane;
          const int64_t to = image * (shape.outputs - 1) * line.plane + at;
          FloatEpilogue moved = epilogue;
          if (moved.residual != nullptr) moved.residual += to;
          kernels.multiply_line(line, filter, buffers.output + to, moved);
        }
      });
    });
  }

  bool multiply(const TaskGrid& parts, int64_t first, int64_t last, const float* zeros) const {
    if (shape.phases > 0) return multiply_lines(parts, first, last, zeros);
    const int64_t rows = rows_at_once((shape.pixels() + parts.rows - 1) / parts.rows);
    const int64_t taps = std::max<int64_t>(1, shape.taps());
    const int64_t sums = rows * kFloatPanel * 4;
    const int64_t pointers = rows * taps * 8;
    return task_scratch.borrow(sums + pointers, [&](uint8_t* memory) {
      auto* taps_of = reinterpret_cast<const float**>(memory);
      auto* sums_of = reinterpret_cast<float*>(memory + pointers);
      parts.for_each_block(first, last, [&](int64_t, const TaskGrid::Block& block) {
        const int64_t end = shape.pixels() * block.last_row / parts.rows;
        for (int64_t at = shape.pixels() * block.first_row / parts.rows; at < end; at += rows) {
          const int64_t count = std::min(rows, end - at);
          find(at, count, zeros, taps_of);
          multiply_rows({taps_of, count, count, 0, at},
                        all_panels() * block.first_panel / parts.panels,
                        all_panels() * block.last_panel / parts.panels, sums_of);
        }
      });
    });
  }

  // Finds the channels of every tap of pixels.
  void find(int64_t first, int64_t count, const float* zeros, const float** taps) const {
    if (shape.is_product()) {
      for (int64_t i = 0; i < count; ++i) taps[i] = buffers.input + (first + i) * shape.inputs;
    } else {
      Windows(shape, buffers.input, zeros, first).point(count, taps, count);
    }
  }

  // Multiplies rows by panels of all groups.
  void multiply_rows(FloatRows rows, int64_t first, int64_t last, float* sums) const {
    FloatFilter filter = {buffers.filter, shape.columns(), shape.taps(),
                          shape.channels() * shape.line};
    if (shape.is_depthwise()) {
      filter.columns = shape.outputs;
      return kernels.multiply_channels(rows, filter, {buffers.output, shape.outputs, 0}, epilogue,
                                       first * kFloatPanel,
                                       std::min(shape.outputs, last * kFloatPanel));
    }
    const int64_t panels = shape.panels();
    while (first < last) {
      const int64_t group = first / panels, end = std::min(last, (group + 1) * panels);
      rows.first_channel = group * shape.channels();
      filter.panels = buffers.filter + group * shape.group_floats();
      kernels.multiply(rows, filter, {buffers.output, shape.outputs, group * shape.columns()},
                       epilogue, first - group * panels, end - group * panels, sums);
      first = end;
    }
  }
};

// --- the handler -------------------------------------------------------------------------

// Reads a call's sizes. Returns a refusal or null.
const char* describe(FloatShape& shape, const Operands& inputs, const ffi::AnyBuffer& output,
                     int64_t axes, Sizes windows, int64_t leading) {
  const Sizes of_input = inputs[kInput].dimensions(), of_output = output.dimensions();
  const auto at = [&](Sizes sizes, bool is_last, int64_t axis) {
    const int64_t place = axis == -1 ? (is_last ? axes + 1 : 1) : axis + (is_last ? 1 : 2);
    return sizes[static_cast<size_t>(leading + place)];
  };
  shape.images = of_output[static_cast<size_t>(leading)];
  shape.inputs = at(of_input, shape.input_last, -1);
  shape.outputs = at(of_output, shape.output_last, -1);
  if (of_input[static_cast<size_t>(leading)] != shape.images) return "the batches differ";
  if (!is_size(shape.groups, 1) || shape.inputs % shape.groups != 0 ||
      shape.outputs % shape.groups != 0) {
    return "the groups do not divide the channels";
  }
  for (int64_t i = 0; i < axes; ++i) {
    FloatAxis& axis = shape.axes[kAxes - axes + i];
    const auto window = [&](int64_t row) { return windows[static_cast<size_t>(row * axes + i)]; };
    axis = {at(of_input, shape.input_last, i), at(of_output, shape.output_last, i), window(0),
            window(1), window(2), window(3)};
    if (!is_size(axis.kernel, 1) || !is_size(axis.stride, 1) || !is_size(axis.dilation, 1) ||
        axis.start <= -kMostSize || axis.start >= kMostSize || axis.size >= kMostSize ||
        axis.output >= kMostSize) {
      return "a size of the windows is wrong";
    }
  }
  return nullptr;
}

const char* check_filter(const FloatShape& shape, const ffi::AnyBuffer& filter, int64_t calls) {
  const int64_t elements = element_count(filter);
  if (shape.channels() > 0 &&
      !is_product_within({shape.product(&FloatAxis::kernel) , shape.channels()}, elements)) {
    return "the filter has too few elements";
  }
  const int64_t rows = shape.packed ? shape.filter_floats() : shape.depth() * shape.outputs;
  const int64_t filters = shape.depth() == 0 ? 0 : elements / std::max<int64_t>(1, rows);
  if (rows * filters != elements || (elements == 0 && shape.depth() > 0) ||
      (filters != 0 && filters != 1 && filters != calls)) {
    return "the filter is of another size";
  }
  return nullptr;
}

Outcome convolve(const Call<FloatConvolutionKernels>& call, const Operands& inputs, Output output,
                 int64_t axes, Sizes windows, int64_t groups, bool input_last, bool output_last,
                 bool packed, bool transposed, int64_t activation, float low, float high,
                 bool fuses) {
  if (axes < 0 || axes > kAxes || rank_of(windows) != 4 * axes) return "the windows are wrong";
  const int64_t leading = rank_of(output->dimensions()) - 2 - axes;
  if (leading < 0) return "the output's rank is wrong";
  if (activation < 0 || activation >= static_cast<int64_t>(Activation::count)) {
    return "the activation is not known";
  }
  const Batch batch(output->dimensions(), leading);
  for (size_t i = 0; i < kOperands; ++i) {
    const bool is_image = i == kInput || (i == kResidual && element_count(inputs[i]) > 0);
    if (!is_float32(inputs[i])) return "an operand is not float32";
    if (!batch.fits(inputs[i].dimensions(), is_image ? axes + 2 : i == kFilter ? 2 : 1)) {
      return misfit(i);
    }
  }
  if (!is_float32(*output)) return "the output is not float32";
  if (element_count(*output) == 0) return {};
  FloatShape shape = {};
  shape.groups = groups;
  shape.input_last = input_last, shape.output_last = output_last;
  shape.packed = packed, shape.transposed = transposed;
  if (const char* wrong = describe(shape, inputs, *output, axes, windows, leading)) return wrong;
  const int64_t kernel_limit = std::max<int64_t>(1, element_count(inputs[kFilter]));
  if (shape.channels() > 0 &&
      !is_product_within({shape.axes[0].kernel, shape.axes[1].kernel, shape.axes[2].kernel,
                          shape.channels()},
                         kernel_limit)) {
    return "the filter has too few elements";
  }
  if (const char* wrong = check_filter(shape, inputs[kFilter], batch.count())) return wrong;
  const Sizes residual = inputs[kResidual].dimensions(), result = output->dimensions();
  if (element_count(inputs[kResidual]) > 0 &&
      !std::equal(result.begin() + leading, result.end(), residual.begin() + leading)) {
    return "the residual is not of the output's shape";
  }
  for (size_t i : {kFactor, kBias}) {
    if (!has_count(inputs[i], {0, shape.outputs})) return misfit(i);
  }
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  use_huge_pages(output->untyped_data(), output->size_bytes());
  const bool folds = batch.count() > 1 && batch.folds(inputs) && element_count(inputs[kResidual]) == 0;
  const int64_t calls = folds ? 1 : batch.count();
  if (folds) shape.images *= batch.count();
  const int64_t elements = element_count(*output) / calls;
  for (int64_t i = 0; i < calls; ++i) {
    const auto of = [&](Operand operand) { return batch.elements_of<float>(inputs[operand], i); };
    const FloatBuffers buffers = {of(kInput), of(kFilter), data_of<float>(*output) + i * elements};
    const FloatEpilogue epilogue = {of(kFactor), of(kBias), of(kResidual), Activation{activation},
                                    low,         high,      fuses};
    if (!FloatCall{shape, call.kernels, buffers, epilogue, call.pool}.run()) {
      return Outcome::out_of_memory("no memory for its scratch");
    }
  }
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_float_convolution, "float convolution", convolve, "axes", "windows", "groups",
              "input_last", "output_last", "packed", "transposed", "activation", "low", "high",
              "fuses")
