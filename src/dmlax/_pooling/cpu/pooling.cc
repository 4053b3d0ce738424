// The handlers of the pools: check their operands, and share the output's rows between threads.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/ieee_mode.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/parallel_for.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/sizes.h"
#include "dmlax/_pooling/cpu/kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

#define DMLAX_KERNELS_TYPE PoolingKernels
#define DMLAX_KERNELS pooling_kernels
#include "dmlax/_cpu/choose_kernels.h"

namespace {

namespace ffi = xla::ffi;

constexpr int64_t kAxes = 5;             // N, C and three spatial ones
constexpr int64_t kSerialWork = 1 << 17;  // bytes to read: up to these a second thread is no help
constexpr int64_t kTaskWork = 1 << 15;
constexpr int64_t kGlobalSpeed = 4;  // a global average's, of bytes
constexpr int64_t kMostSummed = (kMostSize - 1) / 255;  // elements of a window whose sum fits int32

ffi::Error invalid(const std::string& what) {
  return ffi::Error::InvalidArgument("pooling: " + what);
}

ffi::Error no_memory() {
  return ffi::Error(ffi::ErrorCode::kResourceExhausted, "pooling: no memory");
}

// run(first row, last row); returns false where one of them did.
template <typename Run>
bool share_rows(ffi::ThreadPool& pool, int64_t rows, int64_t row_work, const Run& run) {
  const int64_t work = std::max<int64_t>(1, row_work);
  std::atomic<bool> done{true};
  parallel_for_ranges(pool, rows, kSerialWork / work, std::max<int64_t>(1, kTaskWork / work),
                      [&](int64_t first, int64_t last) {
                        if (!run(first, last)) done = false;
                      });
  return done;
}

// The product of two counts, which are at least 1, without overflow. A count beyond one task's work
// is cut there: it takes several tasks anyway.
int64_t work_of(int64_t a, int64_t b) {
  return std::min(a, kSerialWork + 1) * std::min(b, kSerialWork + 1);
}

// Null, or what is wrong. `windows` has a window, a stride, a dilation and padding for each axis.
const char* describe(PoolShape& shape, const Batch& batch, Sizes input, Sizes output, Sizes windows,
                     bool channels_last) {
  if (windows.size() != 12) return "there are not three axes of windows";
  const int64_t own = batch.axes();
  const int64_t first = own + (channels_last ? 1 : 2), channel = own + (channels_last ? 4 : 1);
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
  if (input[own] != output[own] || input[channel] != output[channel]) {
    return "the output has other images or channels";
  }
  if (!is_size(input[channel], 1)) return "there are too many channels";
  shape.inner = channels_last ? input[channel] : 1;
  shape.planes = input[own] * (channels_last ? 1 : input[channel]);
  return nullptr;
}

ffi::Error maximum(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::Result<ffi::AnyBuffer> output,
                   Sizes windows, bool channels_last) {
  const PoolingKernels* kernels = chosen_kernels();
  if (kernels == nullptr) return invalid(kNoInstructionSet);
  const int64_t axes = static_cast<int64_t>(output->dimensions().size()) - kAxes;
  if (axes < 0) return invalid("the output has fewer than 5 axes");
  const Batch batch(output->dimensions(), axes);
  if (!batch.fits(input.dimensions(), kAxes) || !batch.is_whole(input.dimensions())) {
    return invalid("the input is not of the batch's shape");
  }
  if (!is_byte(input) || input.element_type() != output->element_type()) {
    return invalid("the input or the output is of another element type");
  }
  if (output->element_count() == 0) return ffi::Error::Success();
  PoolShape shape;
  const char* wrong = describe(shape, batch, input.dimensions(), output->dimensions(), windows,
                               channels_last);
  if (wrong) return invalid(wrong);
  if (is_null(input) || is_null(*output)) return invalid("a buffer is null");
  shape.planes *= batch.count();
  const auto* from = static_cast<const uint8_t*>(input.untyped_data());
  auto* to = static_cast<uint8_t*>(output->untyped_data());
  const int64_t work = work_of(shape.input_row(), std::min<int64_t>(shape.height.window, 4));
  const bool done = share_rows(pool, shape.rows(), work, [&](int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    uint8_t* memory = scratch.take(shape.scratch_bytes());
    if (memory == nullptr) return false;
    kernels->maximum(shape, is_signed_byte(input), from, to, begin, end, memory);
    scratch.give_back();
    return true;
  });
  return done ? ffi::Error::Success() : no_memory();
}

struct AverageOperands {
  const ffi::AnyBuffer &input, &input_scale, &input_zero, &output_scale, &output_zero;
};

template <typename T>
PerChannel<T> parameter_of(const Batch& batch, const ffi::AnyBuffer& buffer, int64_t index) {
  return {batch.elements_of<T>(buffer, index), buffer.dimensions().back() != 1};
}

// Null, or what is wrong.
const char* check_parameters(const Batch& batch, const AverageOperands& given,
                             const ffi::AnyBuffer& output, int64_t channels) {
  for (const ffi::AnyBuffer* each :
       {&given.input_scale, &given.output_scale, &given.input_zero, &given.output_zero}) {
    if (!batch.fits(each->dimensions(), 1)) return "a parameter is not of the batch's shape";
    const int64_t size = each->dimensions().back();
    if (size != 1 && size != channels) return "a parameter has neither one value nor the channels'";
  }
  if (!is_byte(given.input) || !is_byte(output) ||
      given.input_zero.element_type() != given.input.element_type() ||
      given.output_zero.element_type() != output.element_type() ||
      given.input_scale.element_type() != ffi::DataType::F32 ||
      given.output_scale.element_type() != ffi::DataType::F32) {
    return "an operand is of another element type";
  }
  return nullptr;
}

ffi::Error average(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::AnyBuffer input_scale,
                   ffi::AnyBuffer input_zero, ffi::AnyBuffer output_scale,
                   ffi::AnyBuffer output_zero, ffi::Result<ffi::AnyBuffer> output, Sizes windows,
                   bool channels_last, bool include_padding, bool exact, bool is_global) {
  const PoolingKernels* kernels = chosen_kernels();
  if (kernels == nullptr) return invalid(kNoInstructionSet);
  const int64_t axes = static_cast<int64_t>(output->dimensions().size()) - kAxes;
  if (axes < 0) return invalid("the output has fewer than 5 axes");
  const Batch batch(output->dimensions(), axes);
  const AverageOperands given = {input, input_scale, input_zero, output_scale, output_zero};
  if (!batch.fits(input.dimensions(), kAxes)) {
    return invalid("the input is not of the batch's shape");
  }
  if (output->element_count() == 0) return ffi::Error::Success();
  PoolShape shape;
  const char* wrong = describe(shape, batch, input.dimensions(), output->dimensions(), windows,
                               channels_last);
  if (wrong) return invalid(wrong);
  if (!is_product_within({shape.depth.window, shape.height.window, shape.width.window},
                         kMostSummed)) {
    return invalid("a window has too many elements");
  }
  const int64_t channels = input.dimensions()[axes + (channels_last ? 4 : 1)];
  if ((wrong = check_parameters(batch, given, *output, channels))) return invalid(wrong);
  const auto is_image = [](const PoolAxis& axis) {
    return axis.window == axis.size && axis.outputs == 1;
  };
  if (is_global && !(is_image(shape.depth) && is_image(shape.height) && is_image(shape.width))) {
    return invalid("the window is not the image");
  }
  if (is_null(input) || is_null(input_scale) || is_null(input_zero) || is_null(output_scale) ||
      is_null(output_zero) || is_null(*output)) {
    return invalid("a buffer is null");
  }
  const bool fold = batch.is_whole(input.dimensions()) &&
                    batch.is_single(input_scale.dimensions()) &&
                    batch.is_single(input_zero.dimensions()) &&
                    batch.is_single(output_scale.dimensions()) &&
                    batch.is_single(output_zero.dimensions());
  const int64_t calls = fold ? 1 : batch.count();
  if (fold) shape.planes *= batch.count();
  const int64_t bytes = static_cast<int64_t>(output->size_bytes()) / calls;
  for (int64_t i = 0; i < calls; ++i) {
    const AverageParams params = {
        .input_scale = parameter_of<uint32_t>(batch, input_scale, i),
        .output_scale = parameter_of<uint32_t>(batch, output_scale, i),
        .input_zero = parameter_of<uint8_t>(batch, input_zero, i),
        .output_zero = parameter_of<uint8_t>(batch, output_zero, i),
        .channels = channels,
        .input_signed = is_signed_byte(input),
        .output_signed = is_signed_byte(*output),
        .include_padding = include_padding,
        .exact = exact,
        .is_global = is_global};
    const uint8_t* from = batch.elements_of<uint8_t>(input, i);
    uint8_t* to = static_cast<uint8_t*>(output->untyped_data()) + i * bytes;
    const int64_t row_work = is_global ? shape.window() * shape.inner / kGlobalSpeed
                                       : work_of(shape.output_row(), shape.window() + 8);
    const bool done = share_rows(pool, shape.rows(), row_work, [&](int64_t begin, int64_t end) {
      const IeeeMode mode;
      return kernels->average(shape, params, from, to, begin, end);
    });
    if (!done) return no_memory();
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace dmlax

DMLAX_DEFINE_HANDLER(dmlax_max_pooling, dmlax::maximum,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>()
                         .Attr<xla::ffi::Span<const int64_t>>("windows")
                         .Attr<bool>("channels_last"));

DMLAX_DEFINE_HANDLER(dmlax_average_pooling, dmlax::average,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>()
                         .Attr<xla::ffi::Span<const int64_t>>("windows")
                         .Attr<bool>("channels_last")
                         .Attr<bool>("include_padding")
                         .Attr<bool>("exact")
                         .Attr<bool>("is_global"));
