// The handler of both convolutions: checks its operands, and runs the kernels.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "dmlax/_convolution/cpu/constants.h"
#include "dmlax/_convolution/cpu/kernels.h"
#include "dmlax/_convolution/cpu/layout.h"
#include "dmlax/_convolution/cpu/row_schedule.h"
#include "dmlax/_convolution/cpu/schedule.h"
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/sizes.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

#define DMLAX_KERNELS_TYPE ConvolutionKernels
#define DMLAX_KERNELS convolution_kernels
#define DMLAX_KERNELS_MULTIPLY
#include "dmlax/_cpu/choose_kernels.h"

namespace {

namespace ffi = xla::ffi;

ffi::Error invalid(const std::string& what) {
  return ffi::Error::InvalidArgument("convolution: " + what);
}

ffi::Error no_memory() {
  return ffi::Error(ffi::ErrorCode::kResourceExhausted, "convolution: no memory for its scratch");
}

struct Operands {
  ffi::AnyBuffer input, filter, sums, filter_zero, input_zero, bias, input_scale, filter_scale,
      output_scale, output_zero;

  std::array<const ffi::AnyBuffer*, 10> all() const {
    return {&input, &filter,      &sums,         &filter_zero,  &input_zero,
            &bias,  &input_scale, &filter_scale, &output_scale, &output_zero};
  }
};

struct Attributes {
  Sizes windows;  // kernel, strides, dilations, start, end: two each
  int64_t groups;
  bool panels, input_last, output_last, filter_unsigned, exact;
};

constexpr int64_t kMostImage = int64_t{1} << 62;  // bytes, of one image or of copies of all

// --- checks ------------------------------------------------------------------------------
//
// Each returns a sentence's end for the caller's error, or null.

int64_t count_of(const ffi::AnyBuffer& parameter) { return parameter.dimensions().back(); }

const char* check_parameters(const Operands& given, const ffi::AnyBuffer& output,
                             int64_t channels) {
  const auto count_is = [](const ffi::AnyBuffer& buffer, int64_t a, int64_t b, int64_t c) {
    const int64_t count = count_of(buffer);
    return count == a || count == b || count == c;
  };
  const bool quantized = output.element_type() != ffi::DataType::S32;
  const int64_t scale = quantized ? 1 : 0;
  const bool types = given.sums.element_type() == ffi::DataType::S32 &&
                     given.bias.element_type() == ffi::DataType::S32 &&
                     given.input_scale.element_type() == ffi::DataType::F32 &&
                     given.filter_scale.element_type() == ffi::DataType::F32 &&
                     given.output_scale.element_type() == ffi::DataType::F32 &&
                     given.input_zero.element_type() == given.input.element_type() &&
                     is_byte(given.filter_zero) && is_byte(given.output_zero) &&
                     (!quantized || given.output_zero.element_type() == output.element_type());
  if (!types) return "a parameter's element type is not the operator's";
  const bool counts = count_is(given.sums, 0, channels, channels) &&
                      count_is(given.bias, 0, channels, channels) &&
                      count_is(given.filter_zero, 0, 1, channels) &&
                      count_is(given.input_zero, 0, 1, 1) &&
                      count_is(given.output_zero, 0, scale, scale) &&
                      count_is(given.input_scale, scale, scale, scale) &&
                      count_is(given.output_scale, scale, scale, scale) &&
                      count_is(given.filter_scale, scale, scale, scale * channels);
  return counts ? nullptr : "a parameter has neither one value nor one per output channel";
}

// Axis 0 is the height, axis 1 the width.
Axis axis_of(const Sizes& windows, size_t axis, int64_t size, int64_t output) {
  return {.size = size,
          .kernel = windows[axis],
          .stride = windows[2 + axis],
          .dilation = windows[4 + axis],
          .start = windows[6 + axis],
          .end = windows[8 + axis],
          .output = output,
          .shift = 0,
          .phases = 0,
          .phase = nullptr};
}

const char* describe_channels(ConvShape& shape, int64_t channels, int64_t rows) {
  if (shape.groups < 1 || rows < 1 || channels < 1 || rows % shape.groups != 0 ||
      channels % shape.groups != 0) {
    return "the groups do not divide the channels";
  }
  shape.input_channels = channels;
  shape.output_channels = rows;
  shape.channels = channels / shape.groups;
  shape.rows = rows / shape.groups;
  return nullptr;
}

// The shape of a call, or what is wrong with it.
const char* describe_shape(ConvShape& shape, const Operands& given, const ffi::AnyBuffer& output,
                           const Attributes& attributes) {
  const Sizes input = given.input.dimensions().last(4), result = output.dimensions().last(4);
  const Sizes filter = given.filter.dimensions().last(2);
  const size_t input_channel = attributes.input_last ? 3 : 1;
  const size_t output_channel = attributes.output_last ? 3 : 1;
  const size_t height = attributes.input_last ? 1 : 2;
  const size_t output_height = attributes.output_last ? 1 : 2;
  shape.images = input[0];
  shape.groups = attributes.groups;
  const int64_t rows = attributes.panels ? count_of(given.sums) : filter[0];
  if (const char* wrong = describe_channels(shape, input[input_channel], rows)) return wrong;
  if (result[0] != shape.images || result[output_channel] != shape.output_channels) {
    return "the output is not of the input's images and the filter's channels";
  }
  shape.height = axis_of(attributes.windows, 0, input[height], result[output_height]);
  shape.width = axis_of(attributes.windows, 1, input[height + 1], result[output_height + 1]);
  if (!fit_axis(shape.height) || !fit_axis(shape.width)) {
    return "the windows do not fit the input and the output";
  }
  if (__builtin_mul_overflow(shape.height.kernel, shape.width.kernel, &shape.taps) ||
      __builtin_mul_overflow(shape.taps, shape.channels, &shape.depth) ||
      (!attributes.panels && shape.depth != filter[1])) {
    return "the filter's rows are not taps times channels";
  }
  if (attributes.panels && !prepared_panels(shape).fit(filter[0], filter[1])) {
    return "the filter's panels are of other sizes";
  }
  if (!is_product_within({shape.input_channels, shape.height.size, shape.width.size}, kMostImage)) {
    return "an image has too many elements";
  }
  shape.input_last = attributes.input_last;
  shape.output_last = attributes.output_last;
  shape.input_signed = is_signed_byte(given.input);
  shape.input_elements = shape.input_channels * shape.height.size * shape.width.size;
  shape.output_pixels = shape.height.output * shape.width.output;
  shape.output_elements = shape.output_channels * shape.output_pixels;
  return nullptr;
}

constexpr int64_t kMostLineScratch = 1 << 20;

// Each factor first, so that no product of them overflows.
bool has_short_lines(const ConvShape& shape) {
  return shape.rows == 1 && columns_of_line(shape.width) <= kMostLineScratch &&
         tap_quads(shape) <= kMostLineScratch && line_scratch_bytes(shape, 1) <= kMostLineScratch;
}

constexpr int64_t kFewPixels = 32;  // they would fill less than half of a panel's columns
constexpr int64_t kFewRows = 16;    // the same of a group's output channels
constexpr int64_t kManyPixels = 512;  // of all images: they repay packing a filter

// Whether rows are faster than planes though both sides are transposed for them: where an image has
// few pixels, where the filter is packed for rows, where taps are whole tiles, and where planes are
// always slow.
bool repays_transposition(const ConvShape& shape, const ConvolutionKernels& kernels, bool panels) {
  const bool tiles = shape.taps > 1 && shape.channels % kPanelWidth == 0;
  return shape.output_pixels <= kFewPixels || (panels && kernels.reads_panels) ||
         (tiles && shape.images * shape.output_pixels >= kManyPixels) ||
         kernels.prefers_channels_last;
}

// Channels are last but in planes: on one side or both, after a transposition of the other, or of
// both.
Path choose_path(const ConvShape& shape, const ConvolutionKernels& kernels, bool panels) {
  const bool last = shape.input_last || shape.output_last;
  if (kernels.multiply_rows == nullptr || !(last || repays_transposition(shape, kernels, panels))) {
    return Path::kPlanes;
  }
  if (is_depthwise(shape)) {
    return has_short_lines(shape) ? Path::kLines : Path::kPlanes;
  }
  if (shape.groups == 1 && is_matrix_product(shape)) return Path::kMatmul;
  return shape.groups > 1 && shape.rows < kFewRows ? Path::kPlanes : Path::kRows;
}

// Whether padded copies have a row of the kernel as one tap: pixels have so few channels that a tap
// of their own would be less than a word. The words end in zeros of the filter.
bool are_kernel_rows_taps(const ConvShape& shape) {
  return shape.groups == 1 && shape.channels < kKPack && shape.width.kernel > 1 &&
         shape.width.dilation == 1;
}

// A problem without a call's values.
const char* describe(ConvProblem& problem, LayoutArrays& arrays, const Operands& given,
                     const ffi::AnyBuffer& output, const Attributes& attributes,
                     const ConvolutionKernels& kernels) {
  if (const char* wrong = describe_shape(problem.shape, given, output, attributes)) return wrong;
  problem.requantize.quantized = output.element_type() != ffi::DataType::S32;
  problem.requantize.output_signed = is_signed_byte(output);
  problem.path = choose_path(problem.shape, kernels, attributes.panels);
  const bool takes_rows = problem.path == Path::kRows || problem.path == Path::kMatmul;
  const bool has_filter_zero = count_of(given.filter_zero) > 0 || attributes.filter_unsigned;
  problem.padded.kernel_rows = problem.path == Path::kRows && kernels.element_bytes == 1 &&
                               !has_filter_zero && are_kernel_rows_taps(problem.shape);
  problem.shape.panels = attributes.panels && takes_rows && kernels.reads_panels &&
                         !problem.padded.kernel_rows;
  problem.unpacks_filter = attributes.panels && !problem.shape.panels;
  if (problem.path != Path::kPlanes) {
    if (problem.path == Path::kRows) {
      lay_out_padded(problem, arrays, kernels.element_bytes);
      kernels.lay_out_rows(problem);
    }
    return check_parameters(given, output, problem.shape.output_channels);
  }
  problem.panel = panel_shape(problem.shape.depth);
  if (is_depthwise(problem.shape)) problem.panel.at_once = 1;
  if (!lay_out(problem, arrays, kernels.has_row_kernel)) {
    return "an image's padded planes would take more than 2 GiB";
  }
  return check_parameters(given, output, problem.shape.output_channels);
}

bool are_types_known(const Operands& given, const ffi::AnyBuffer& output) {
  return is_byte(given.input) && given.filter.element_type() == ffi::DataType::S8 &&
         (output.element_type() == ffi::DataType::S32 || is_byte(output));
}

// --- running -----------------------------------------------------------------------------

// Batched images are more images, if all have the same filter and parameters.
bool is_one_call(const Batch& batch, const Operands& given) {
  const auto all = given.all();
  return batch.is_whole(given.input.dimensions()) &&
         std::all_of(all.begin() + 1, all.end(), [&](const ffi::AnyBuffer* operand) {
           return batch.is_single(operand->dimensions());
         });
}

Values values_of(const Batch& batch, const Operands& given, int64_t call, void* output) {
  return {.input = batch.elements_of<uint8_t>(given.input, call),
          .input_zero = batch.elements_of<uint8_t>(given.input_zero, call),
          .filter_zero = batch.elements_of<uint8_t>(given.filter_zero, call),
          .output_zero = batch.elements_of<uint8_t>(given.output_zero, call),
          .filter = batch.elements_of<int8_t>(given.filter, call),
          .sums = batch.elements_of<int32_t>(given.sums, call),
          .bias = batch.elements_of<int32_t>(given.bias, call),
          .input_scale = batch.elements_of<uint32_t>(given.input_scale, call),
          .filter_scale = batch.elements_of<uint32_t>(given.filter_scale, call),
          .output_scale = batch.elements_of<uint32_t>(given.output_scale, call),
          .filter_zeros = count_of(given.filter_zero),
          .filter_scales = count_of(given.filter_scale),
          .output = output};
}

thread_local Scratch unpacked_filter;

// Null if there is no memory for it.
const int8_t* unpack_filter(const ConvShape& shape, const int8_t* filter) {
  const PreparedPanels panels = prepared_panels(shape);
  uint8_t* rows = unpacked_filter.take(panels.row_bytes());
  if (rows != nullptr) panels.unpack(reinterpret_cast<const uint8_t*>(filter), rows);
  return reinterpret_cast<const int8_t*>(rows);
}

bool run_call(ConvProblem problem, const ConvolutionKernels& kernels, const Values& values,
              const ValueTypes& types, ffi::ThreadPool& pool) {
  Constants constants;
  add_values(problem, constants, values, types);
  ConvBuffers buffers{.input = values.input, .filter = values.filter, .output = values.output};
  if (problem.unpacks_filter) {
    buffers.filter = unpack_filter(problem.shape, values.filter);
    if (buffers.filter == nullptr) return false;
  }
  const bool good = problem.path == Path::kPlanes
                        ? run_convolution(problem, kernels, buffers, pool)
                        : run_channels_last(problem, kernels, buffers, pool);
  unpacked_filter.give_back();
  return good;
}

ffi::Error run_calls(ConvProblem& problem, const ConvolutionKernels& kernels, const Batch& batch,
                     const Operands& given, const Attributes& attributes, ffi::AnyBuffer output,
                     ffi::ThreadPool& pool) {
  const bool fold = is_one_call(batch, given);
  const int64_t calls = fold ? 1 : batch.count();
  if (fold) problem.shape.images *= batch.count();
  const int64_t image = problem.path == Path::kPlanes ? problem.layout.image : problem.padded.image;
  if (!is_product_within({problem.shape.images, image}, kMostImage)) return no_memory();
  const ValueTypes types{.filter_unsigned = attributes.filter_unsigned,
                         .filter_zero_signed = is_signed_byte(given.filter_zero),
                         .exact = attributes.exact};
  const int64_t bytes = static_cast<int64_t>(output.size_bytes()) / calls;
  for (int64_t i = 0; i < calls; ++i) {
    void* result = static_cast<uint8_t*>(output.untyped_data()) + i * bytes;
    const Values values = values_of(batch, given, i, result);
    if (!run_call(problem, kernels, values, types, pool)) return no_memory();
  }
  return ffi::Error::Success();
}

ffi::Error convolve(ffi::ThreadPool pool, const Operands& given, ffi::AnyBuffer output,
                    const Attributes& attributes) {
  const ConvolutionKernels* kernels = chosen_kernels();
  if (kernels == nullptr) return invalid(kNoInstructionSet);
  const int64_t axes = static_cast<int64_t>(output.dimensions().size()) - 4;
  if (axes < 0 || attributes.windows.size() != 10) return invalid("the output is not of rank 4");
  const Batch batch(output.dimensions(), axes);
  constexpr int64_t kOwnAxes[] = {4, 2, 1, 1, 1, 1, 1, 1, 1, 1};
  const auto all = given.all();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!batch.fits(all[i]->dimensions(), kOwnAxes[i])) {
      return invalid("operand " + std::to_string(i) + " is not of the batch's shape");
    }
  }
  if (!are_types_known(given, output)) {
    return invalid("the input, the filter or the output is of another element type");
  }
  if (output.element_count() == 0) return ffi::Error::Success();
  ConvProblem problem = {};
  LayoutArrays arrays;
  if (const char* wrong =
          describe(problem, arrays, given, output, attributes, *kernels)) {
    return invalid(wrong);
  }
  if (is_null(output)) return invalid("the output is null");
  if (std::any_of(all.begin(), all.end(), [](const auto* operand) { return is_null(*operand); })) {
    return invalid("an operand is null");
  }
  return run_calls(problem, *kernels, batch, given, attributes, output, pool);
}

ffi::Error convolution(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::AnyBuffer filter,
                       ffi::AnyBuffer sums, ffi::AnyBuffer filter_zero, ffi::AnyBuffer input_zero,
                       ffi::AnyBuffer bias, ffi::AnyBuffer input_scale,
                       ffi::AnyBuffer filter_scale, ffi::AnyBuffer output_scale,
                       ffi::AnyBuffer output_zero, ffi::Result<ffi::AnyBuffer> output,
                       Sizes windows, int64_t groups, bool panels, bool input_last,
                       bool output_last, bool filter_unsigned, bool exact) {
  return convolve(pool,
                  {.input = input,
                   .filter = filter,
                   .sums = sums,
                   .filter_zero = filter_zero,
                   .input_zero = input_zero,
                   .bias = bias,
                   .input_scale = input_scale,
                   .filter_scale = filter_scale,
                   .output_scale = output_scale,
                   .output_zero = output_zero},
                  *output,
                  {.windows = windows,
                   .groups = groups,
                   .panels = panels,
                   .input_last = input_last,
                   .output_last = output_last,
                   .filter_unsigned = filter_unsigned,
                   .exact = exact});
}

}  // namespace
}  // namespace dmlax

DMLAX_DEFINE_HANDLER(dmlax_convolution, dmlax::convolution,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>()
                         .Attr<xla::ffi::Span<const int64_t>>("windows")
                         .Attr<int64_t>("groups")
                         .Attr<bool>("panels")
                         .Attr<bool>("input_last")
                         .Attr<bool>("output_last")
                         .Attr<bool>("filter_unsigned")
                         .Attr<bool>("exact"));
