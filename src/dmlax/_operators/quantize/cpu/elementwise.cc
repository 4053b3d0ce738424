// Handlers of both element-wise operators: they check operands, broadcast parameters and run the
// kernels.
#include <memory>
#include <new>

#include "dmlax/_cpu/broadcast.h"
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/quantize/quantize_kernels.h"

namespace dmlax {
namespace {

enum Operand { kInput, kScale, kZeroPoint, kOperands };
using Axes = BroadcastAxes<kOperands>;
using Cursor = BroadcastCursor<kOperands>;

using tuning::kPiece;

// --- one kernel call ---------------------------------------------------------------------

// Properties of a call that do not depend on shapes.
struct Operation {
  const ElementwiseKernels& kernels;
  bool is_quantize;
  QuantizeInput type;  // the input of a quantization
  bool is_signed;      // integers, except a quantization's input
  bool exact;
  bool is_scale_float16;
  int64_t input_bytes, zero_bytes, output_bytes;
};

struct Buffers {
  const char* input;
  const char* scale;
  const char* zero_point;
  char* output;
};

void run_span(const Operation& operation, const char* input, const float* scale,
              const char* zero_point, char* output, int64_t count, bool one_each) {
  const ElementSpan span = {.input = input,
                            .scale = scale,
                            .zero_point = zero_point,
                            .output = output,
                            .count = count,
                            .one_each = one_each,
                            .is_signed = operation.is_signed,
                            .exact = operation.exact,
                            .to_float16 = operation.is_scale_float16};
  if (operation.is_quantize) return operation.kernels.quantize(operation.type, span);
  operation.kernels.dequantize(operation.input_bytes, span);
}

// --- parameters --------------------------------------------------------------------------

// Elements along axes where the input varies, and the axes of their parameters.
struct Problem {
  const Operation& operation;
  Buffers buffers;
  const Axes& axes;
  int axis_count;
  int64_t elements;

  const char* input(int64_t at) const { return buffers.input + at * operation.input_bytes; }
  char* output(int64_t at) const { return buffers.output + at * operation.output_bytes; }

  // The number of elements after which parameters repeat.
  int64_t period() const {
    int outermost = axis_count;
    while (outermost > 0 && !axes.varies(outermost - 1, kScale) &&
           !axes.varies(outermost - 1, kZeroPoint)) {
      --outermost;
    }
    return axes.elements(outermost);
  }

  void expand_scales(int64_t begin, int64_t count, float* scales) const {
    if (!operation.is_scale_float16) {
      const float* data = reinterpret_cast<const float*>(buffers.scale);
      return expand(axes, axis_count, kScale, data, begin, count, scales);
    }
    const uint16_t* data = reinterpret_cast<const uint16_t*>(buffers.scale);
    uint16_t halves[kPiece];
    for (int64_t i = 0; i < count; i += kPiece) {
      const int64_t piece = std::min(kPiece, count - i);
      expand(axes, axis_count, kScale, data, begin + i, piece, halves);
      operation.kernels.widen(halves, piece, scales + i);
    }
  }

  void expand_zero_points(int64_t begin, int64_t count, char* zero_points) const {
    switch (operation.zero_bytes) {
      case 1:
        return expand_as<uint8_t>(begin, count, zero_points);
      case 2:
        return expand_as<uint16_t>(begin, count, zero_points);
      default:
        return expand_as<uint32_t>(begin, count, zero_points);
    }
  }

 private:
  template <typename T>
  void expand_as(int64_t begin, int64_t count, char* zero_points) const {
    expand(axes, axis_count, kZeroPoint, reinterpret_cast<const T*>(buffers.zero_point), begin,
           count, reinterpret_cast<T*>(zero_points));
  }
};

// Runs rows that share one scale and one zero point.
void run_rows(const Problem& problem, int64_t begin, int64_t end) {
  const Operation& operation = problem.operation;
  const int64_t row = problem.axis_count == 0 ? 1 : problem.axes.size[0];
  Cursor cursor(problem.axes, std::min(1, problem.axis_count), problem.axis_count, begin / row);
  for (int64_t at = begin, left = row - begin % row; at < end; at += left, left = row) {
    left = std::min(left, end - at);
    const int64_t scale_at = cursor.offset(kScale);
    float scale;
    if (operation.is_scale_float16) {
      const uint16_t* halves = reinterpret_cast<const uint16_t*>(problem.buffers.scale);
      operation.kernels.widen(halves + scale_at, 1, &scale);
    } else {
      scale = reinterpret_cast<const float*>(problem.buffers.scale)[scale_at];
    }
    const char* zero_point =
        problem.buffers.zero_point + cursor.offset(kZeroPoint) * operation.zero_bytes;
    run_span(operation, problem.input(at), &scale, zero_point, problem.output(at), left, false);
    cursor.next();
  }
}

// Parameters that repeat soon, expanded once for all threads.
struct Tile {
  std::unique_ptr<float[]> scales;
  std::unique_ptr<char[]> zero_points;
  int64_t period, count;

  // Returns false if there is no memory.
  bool fill(const Problem& problem) {
    count = period * (kPiece / period + 1);
    const int64_t bytes = problem.operation.zero_bytes;
    scales.reset(new (std::nothrow) float[count]);
    zero_points.reset(new (std::nothrow) char[count * bytes]);
    if (!scales || !zero_points) return false;
    problem.expand_scales(0, period, scales.get());
    problem.expand_zero_points(0, period, zero_points.get());
    for (int64_t i = period; i < count; i += period) {
      std::copy_n(scales.get(), period, scales.get() + i);
      std::copy_n(zero_points.get(), period * bytes, zero_points.get() + i * bytes);
    }
    return true;
  }
};

void run_tiled(const Problem& problem, const Tile& tile, int64_t begin, int64_t end) {
  const int64_t bytes = problem.operation.zero_bytes;
  for (int64_t at = begin, count; at < end; at += count) {
    const int64_t first = at % tile.period;
    count = std::min({kPiece, end - at, tile.count - first});
    run_span(problem.operation, problem.input(at), tile.scales.get() + first,
             tile.zero_points.get() + first * bytes, problem.output(at), count, true);
  }
}

void run_expanded(const Problem& problem, int64_t begin, int64_t end) {
  float scales[kPiece];
  alignas(uint32_t) char zero_points[kPiece * sizeof(uint32_t)];
  for (int64_t at = begin, count; at < end; at += count) {
    count = std::min(kPiece, end - at);
    problem.expand_scales(at, count, scales);
    problem.expand_zero_points(at, count, zero_points);
    run_span(problem.operation, problem.input(at), scales, zero_points, problem.output(at), count,
             true);
  }
}

// --- running -----------------------------------------------------------------------------

// Returns false if there is no memory.
bool run_problem(const Problem& problem, ffi::ThreadPool& pool) {
  const Axes& axes = problem.axes;
  const int64_t elements = problem.elements;
  const auto share = [&](const auto& run) {
    parallel_for_ranges(pool, elements, tuning::kBytes, run);
  };
  const bool has_rows =
      problem.axis_count == 0 || (!axes.varies(0, kScale) && !axes.varies(0, kZeroPoint));
  if (has_rows && (problem.axis_count <= 1 || axes.size[0] >= tuning::kLongRow)) {
    share([&](int64_t begin, int64_t end) { run_rows(problem, begin, end); });
    return true;
  }
  Tile tile = {.scales = {}, .zero_points = {}, .period = problem.period(), .count = 0};
  if (tile.period == elements || tile.period > tuning::kMostTiled) {
    share([&](int64_t begin, int64_t end) { run_expanded(problem, begin, end); });
    return true;
  }
  if (!tile.fill(problem)) return false;
  share([&](int64_t begin, int64_t end) { run_tiled(problem, tile, begin, end); });
  return true;
}

// vmap may broadcast the input too. Every copy of it is a problem.
bool run_problems(const Operation& operation, const Buffers& buffers, const Axes& axes,
                  ffi::ThreadPool& pool) {
  const int inner = axes.inner_axes([&](int axis) { return !axes.varies(axis, kInput); });
  const int64_t elements = axes.elements(inner), copies = axes.elements(axes.count) / elements;
  Cursor cursor(axes, inner, axes.count, 0);
  for (int64_t i = 0; i < copies; ++i, cursor.next()) {
    const int64_t scale_bytes = operation.is_scale_float16 ? 2 : 4;
    const Buffers operands = {
        .input = buffers.input + cursor.offset(kInput) * operation.input_bytes,
        .scale = buffers.scale + cursor.offset(kScale) * scale_bytes,
        .zero_point = buffers.zero_point + cursor.offset(kZeroPoint) * operation.zero_bytes,
        .output = buffers.output + i * elements * operation.output_bytes};
    const Problem problem = {.operation = operation,
                             .buffers = operands,
                             .axes = axes,
                             .axis_count = inner,
                             .elements = elements};
    if (!run_problem(problem, pool)) return false;
  }
  return true;
}

Outcome run(const Operation& operation, const Inputs<kOperands>& inputs,
            const ffi::AnyBuffer& output, ffi::ThreadPool& pool) {
  if (output.element_count() == 0) return {};
  Axes axes;
  if (const char* wrong = broadcast(axes, inputs, output)) return wrong;
  const Buffers buffers = {.input = data_of<const char>(inputs[kInput]),
                           .scale = data_of<const char>(inputs[kScale]),
                           .zero_point = data_of<const char>(inputs[kZeroPoint]),
                           .output = data_of<char>(output)};
  if (run_problems(operation, buffers, axes, pool)) return {};
  return Outcome::out_of_memory("no memory for parameters");
}

// --- element types -----------------------------------------------------------------------

bool is_signed(ffi::DataType type) {
  return type == ffi::DataType::S8 || type == ffi::DataType::S16 || type == ffi::DataType::S32;
}

Outcome quantize(const Call<ElementwiseKernels>& call, const Inputs<kOperands>& inputs,
                 Output output, bool exact) {
  const ffi::DataType type = inputs[kInput].element_type();
  const bool is_float16 = type == ffi::DataType::F16, is_float32 = type == ffi::DataType::F32;
  const ffi::DataType scale_type = is_float16 ? ffi::DataType::F16 : ffi::DataType::F32;
  if ((!is_float16 && !is_float32 && type != ffi::DataType::S32) ||
      inputs[kScale].element_type() != scale_type || !is_byte(*output) ||
      !have_same_type(inputs[kZeroPoint], *output)) {
    return "an element type is none of a quantization's";
  }
  const Operation operation = {.kernels = call.kernels,
                               .is_quantize = true,
                               .type = is_float32   ? QuantizeInput::float32
                                       : is_float16 ? QuantizeInput::float16
                                                    : QuantizeInput::int32,
                               .is_signed = is_signed(output->element_type()),
                               .exact = exact,
                               .is_scale_float16 = is_float16,
                               .input_bytes = is_float16 ? 2 : 4,
                               .zero_bytes = 1,
                               .output_bytes = 1};
  return run(operation, inputs, *output, call.pool);
}

Outcome dequantize(const Call<ElementwiseKernels>& call, const Inputs<kOperands>& inputs,
                   Output output) {
  const ffi::DataType type = inputs[kInput].element_type();
  const int64_t bytes = integer_bytes(type);
  const bool to_float16 = output->element_type() == ffi::DataType::F16;
  if (bytes == 0 || !have_same_type(inputs[kZeroPoint], inputs[kInput]) ||
      (!to_float16 && !is_float32(*output)) || !have_same_type(inputs[kScale], *output)) {
    return "an element type is none of a dequantization's";
  }
  const Operation operation = {.kernels = call.kernels,
                               .is_quantize = false,
                               .type = {},
                               .is_signed = is_signed(type),
                               .exact = true,
                               .is_scale_float16 = to_float16,
                               .input_bytes = bytes,
                               .zero_bytes = bytes,
                               .output_bytes = to_float16 ? 2 : 4};
  return run(operation, inputs, *output, call.pool);
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_quantize_linear, "element_wise", quantize, "exact")

DMLAX_HANDLER(dmlax_dequantize_linear, "element_wise", dequantize)
