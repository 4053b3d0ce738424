// Handlers of the pools: they check operands and share the output's rows between threads.
#include <atomic>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/ieee_mode.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/sizes.h"
#include "dmlax/_operators/pooling/cpu/pooling_kernels.h"

namespace dmlax {
namespace {

constexpr int64_t kAxes = 5;                            // N, C and three spatial axes
constexpr int64_t kMostSummed = (kMostSize - 1) / 255;  // elements of a window whose sum fits int32

// Calls run(first row, last row) for ranges of rows. Fails if a call returns false.
template <typename Run>
Outcome share_rows(ffi::ThreadPool& pool, int64_t rows, int64_t row_work, const Run& run) {
  std::atomic<bool> done{true};
  const tuning::Sharing sharing = tuning::kPooling.of_rows(std::max<int64_t>(1, row_work));
  parallel_for_ranges(pool, rows, sharing, [&](int64_t first, int64_t last) {
    if (!run(first, last)) done = false;
  });
  return done ? Outcome() : Outcome::out_of_memory("no memory");
}

// The product of two counts, which are at least 1, without overflow. Counts beyond one thread's
// work are cut, because they take several tasks anyway.
int64_t work_of(int64_t a, int64_t b) {
  const int64_t most = tuning::kPooling.serial + 1;
  return std::min(a, most) * std::min(b, most);
}

// Returns null, or why sizes are refused. `windows` has a window, a stride, a dilation and padding
// for every axis.
const char* describe(PoolShape& shape, const Batch& batch, Sizes input, Sizes output, Sizes windows,
                     bool channels_last) {
  if (windows.size() != 12) return "there are not three axes of windows";
  const int64_t images = batch.axes();
  const int64_t first = images + (channels_last ? 1 : 2),
                channel = images + (channels_last ? 4 : 1);
  PoolAxis* const axes[] = {&shape.depth, &shape.height, &shape.width};
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t *values = windows.begin() + 4 * i, size = input[first + i];
    *axes[i] = {.size = size,
                .outputs = output[first + i],
                .window = values[0],
                .stride = values[1],
                .dilation = values[2],
                .start = values[3]};
    const PoolAxis& axis = *axes[i];
    const bool sizes = is_size(axis.size, 1) && is_size(axis.outputs, 1) &&
                       is_size(axis.window, 1) && is_size(axis.stride, 1) &&
                       is_size(axis.dilation, 1) && is_size(axis.start, 0);
    if (!sizes || !is_size(axis.extent(), 1)) {
      return "a size, a window, a stride, a dilation or padding is out of range";
    }
  }
  if (input[images] != output[images] || input[channel] != output[channel]) {
    return "the output has other images or channels";
  }
  if (!is_size(input[channel], 1)) return "there are too many channels";
  shape.inner = channels_last ? input[channel] : 1;
  shape.planes = input[images] * (channels_last ? 1 : input[channel]);
  return nullptr;
}

Outcome maximum(const Call<PoolingKernels>& call, const Inputs<1>& inputs, Output output,
                Sizes windows, bool channels_last) {
  const ffi::AnyBuffer& input = inputs[0];
  const int64_t axes = rank_of(output->dimensions()) - kAxes;
  if (axes < 0) return "the output has fewer than 5 axes";
  const Batch batch(output->dimensions(), axes);
  if (!batch.fits(input.dimensions(), kAxes) || !batch.is_whole(input)) {
    return "the input is not of the batch's shape";
  }
  if (!is_byte(input) || !have_same_type(input, *output)) {
    return "the input or the output is of another element type";
  }
  if (output->element_count() == 0) return {};
  PoolShape shape;
  if (const char* wrong = describe(shape, batch, input.dimensions(), output->dimensions(), windows,
                                   channels_last)) {
    return wrong;
  }
  if (is_null(input) || is_null(*output)) return "a buffer is null";
  shape.planes *= batch.count();
  const auto* from = data_of<const uint8_t>(input);
  auto* to = data_of<uint8_t>(*output);
  const int64_t work = work_of(shape.input_row(), std::min<int64_t>(shape.height.window, 4));
  return share_rows(call.pool, shape.rows(), work, [&](int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    return scratch.borrow(shape.scratch_bytes(), [&](uint8_t* memory) {
      call.kernels.maximum(shape, is_signed_byte(input), from, to, begin, end, memory);
    });
  });
}

enum AverageOperand { kInput, kInputScale, kInputZero, kOutputScale, kOutputZero, kOperands };

template <typename T>
PerChannel<T> parameter_of(const Batch& batch, const ffi::AnyBuffer& buffer, int64_t index) {
  return {batch.elements_of<T>(buffer, index), count_of(buffer) != 1};
}

// Returns null, or why the operands are refused.
const char* check_parameters(const Batch& batch, const Inputs<kOperands>& inputs,
                             const ffi::AnyBuffer& output, int64_t channels) {
  for (int i = kInputScale; i < kOperands; ++i) {
    if (!batch.fits(inputs[i].dimensions(), 1)) return "a parameter is not of the batch's shape";
    const int64_t size = count_of(inputs[i]);
    if (size != 1 && size != channels) return "a parameter has neither one value nor the channels'";
  }
  const bool types = is_byte(inputs[kInput]) && is_byte(output) &&
                     is_float32(inputs[kInputScale]) && is_float32(inputs[kOutputScale]) &&
                     have_same_type(inputs[kInputZero], inputs[kInput]) &&
                     have_same_type(inputs[kOutputZero], output);
  return types ? nullptr : "an operand is of another element type";
}

// The shape of an average, whose window may not overflow a sum. Returns null, or why the operands
// are refused.
const char* describe_average(PoolShape& shape, const Batch& batch, const Inputs<kOperands>& inputs,
                             const ffi::AnyBuffer& output, Sizes windows, bool channels_last,
                             bool is_global) {
  const Sizes input = inputs[kInput].dimensions();
  if (const char* wrong =
          describe(shape, batch, input, output.dimensions(), windows, channels_last)) {
    return wrong;
  }
  if (!is_product_within({shape.depth.window, shape.height.window, shape.width.window},
                         kMostSummed)) {
    return "a window has too many elements";
  }
  const int64_t channels = input[batch.axes() + (channels_last ? 4 : 1)];
  if (const char* wrong = check_parameters(batch, inputs, output, channels)) return wrong;
  const auto is_image = [](const PoolAxis& axis) {
    return axis.window == axis.size && axis.outputs == 1;
  };
  if (is_global && !(is_image(shape.depth) && is_image(shape.height) && is_image(shape.width))) {
    return "the window is not the image";
  }
  return has_null(inputs) || is_null(output) ? "a buffer is null" : nullptr;
}

Outcome average(const Call<PoolingKernels>& call, const Inputs<kOperands>& inputs, Output output,
                Sizes windows, bool channels_last, bool include_padding, bool exact,
                bool is_global) {
  const ffi::AnyBuffer& input = inputs[kInput];
  const int64_t axes = rank_of(output->dimensions()) - kAxes;
  if (axes < 0) return "the output has fewer than 5 axes";
  const Batch batch(output->dimensions(), axes);
  if (!batch.fits(input.dimensions(), kAxes)) return "the input is not of the batch's shape";
  if (output->element_count() == 0) return {};
  PoolShape shape;
  if (const char* wrong =
          describe_average(shape, batch, inputs, *output, windows, channels_last, is_global)) {
    return wrong;
  }
  const bool folds = batch.folds(inputs);
  const int64_t calls = folds ? 1 : batch.count();
  if (folds) shape.planes *= batch.count();
  const int64_t bytes = static_cast<int64_t>(output->size_bytes()) / calls;
  const int64_t row_work = is_global ? shape.window() * shape.inner / tuning::kGlobalAverageSpeed
                                     : work_of(shape.output_row(), shape.window() + 8);
  for (int64_t i = 0; i < calls; ++i) {
    const AverageParams params = {
        .input_scale = parameter_of<uint32_t>(batch, inputs[kInputScale], i),
        .output_scale = parameter_of<uint32_t>(batch, inputs[kOutputScale], i),
        .input_zero = parameter_of<uint8_t>(batch, inputs[kInputZero], i),
        .output_zero = parameter_of<uint8_t>(batch, inputs[kOutputZero], i),
        .channels = input.dimensions()[axes + (channels_last ? 4 : 1)],
        .input_signed = is_signed_byte(input),
        .output_signed = is_signed_byte(*output),
        .include_padding = include_padding,
        .exact = exact,
        .is_global = is_global};
    const uint8_t* from = batch.elements_of<uint8_t>(input, i);
    uint8_t* to = data_of<uint8_t>(*output) + i * bytes;
    Outcome outcome =
        share_rows(call.pool, shape.rows(), row_work, [&](int64_t begin, int64_t end) {
          const IeeeMode mode;
          return call.kernels.average(shape, params, from, to, begin, end);
        });
    if (outcome.failed()) return outcome;
  }
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_max_pooling, "pooling", maximum, "windows", "channels_last")

DMLAX_HANDLER(dmlax_average_pooling, "pooling", average, "windows", "channels_last",
              "include_padding", "exact", "is_global")
