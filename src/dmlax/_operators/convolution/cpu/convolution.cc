// The handler of both convolutions: it checks its operands and runs the kernels.
#include "dmlax/_cpu/product/operands.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/sizes.h"
#include "dmlax/_operators/convolution/cpu/convolution_schedule.h"
#include "dmlax/_operators/convolution/cpu/layout.h"

namespace dmlax {
namespace {

enum Operand {
  kInput,
  kFilter,
  kSums,
  kFilterZero,
  kInputZero,
  kBias,
  kInputScale,
  kFilterScale,
  kOutputScale,
  kOutputZero,
  kOperands
};
using Operands = Inputs<kOperands>;

struct Attributes {
  Sizes windows;  // kernel, strides, dilations, start, end: two values each
  int64_t groups;
  bool panels, input_last, output_last, filter_unsigned, exact;
};

constexpr int64_t kMostImage = int64_t{1} << 62;  // bytes of one image, or of copies of all images

Outcome no_memory() { return Outcome::out_of_memory("no memory for its scratch"); }

// --- checks, which return null or why the operands are refused ---------------------------

const char* check_parameters(const Operands& inputs, const ffi::AnyBuffer& output,
                             int64_t channels) {
  const bool quantized = !is_int32(output);
  const bool types =
      is_int32(inputs[kSums]) && is_int32(inputs[kBias]) && is_float32(inputs[kInputScale]) &&
      is_float32(inputs[kFilterScale]) && is_float32(inputs[kOutputScale]) &&
      have_same_type(inputs[kInputZero], inputs[kInput]) && is_byte(inputs[kFilterZero]) &&
      is_byte(inputs[kOutputZero]) && (!quantized || have_same_type(inputs[kOutputZero], output));
  if (!types) return "a parameter's element type is not the operator's";
  const int64_t scales = quantized ? 1 : 0;
  const bool counts =
      has_count(inputs[kSums], {0, channels}) && has_count(inputs[kBias], {0, channels}) &&
      has_count(inputs[kFilterZero], {0, 1, channels}) && has_count(inputs[kInputZero], {0, 1}) &&
      has_count(inputs[kOutputZero], {0, scales}) && has_count(inputs[kInputScale], {scales}) &&
      has_count(inputs[kOutputScale], {scales}) &&
      has_count(inputs[kFilterScale], {scales, scales * channels});
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
          .output = output};
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

// Describes a call's shape.
const char* describe_shape(ConvShape& shape, const Operands& inputs, const ffi::AnyBuffer& output,
                           const Attributes& attributes) {
  const Sizes input = inputs[kInput].dimensions().last(4), result = output.dimensions().last(4);
  const Sizes filter = inputs[kFilter].dimensions().last(2);
  const size_t input_channel = attributes.input_last ? 3 : 1;
  const size_t output_channel = attributes.output_last ? 3 : 1;
  const size_t height = attributes.input_last ? 1 : 2;
  const size_t output_height = attributes.output_last ? 1 : 2;
  shape.images = input[0];
  shape.groups = attributes.groups;
  const int64_t rows = attributes.panels ? count_of(inputs[kSums]) : filter[0];
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
  shape.input_signed = is_signed_byte(inputs[kInput]);
  shape.input_elements = shape.input_channels * shape.height.size * shape.width.size;
  shape.output_pixels = shape.height.output * shape.width.output;
  shape.output_elements = shape.output_channels * shape.output_pixels;
  return nullptr;
}

// The limits on the factors keep their product from overflowing.
bool has_short_lines(const ConvShape& shape) {
  return shape.rows == 1 && columns_of_line(shape.width) <= tuning::kMostLineScratch &&
         tap_quads(shape) <= tuning::kMostLineScratch &&
         line_scratch_bytes(shape, 1) <= tuning::kMostLineScratch;
}

// Whether rows are faster than planes although both sides are transposed. They are for images of
// few pixels, for filters packed in panels, if taps are whole tiles, and if planes are always slow.
bool repays_transposition(const ConvShape& shape, const ConvolutionKernels& kernels, bool panels) {
  const bool tiles = shape.taps > 1 && shape.channels % kPanelWidth == 0;
  return shape.output_pixels <= tuning::kFewPixels || (panels && kernels.reads_panels) ||
         (tiles && shape.images * shape.output_pixels >= tuning::kManyPixels) ||
         kernels.prefers_channels_last;
}

// Rows, products and lines need channels last. Operands with channels first are transposed.
Path choose_path(const ConvShape& shape, const ConvolutionKernels& kernels, bool panels) {
  const bool last = shape.input_last || shape.output_last;
  if (kernels.multiply_rows == nullptr || !(last || repays_transposition(shape, kernels, panels))) {
    return Path::kPlanes;
  }
  if (is_depthwise(shape)) {
    return has_short_lines(shape) ? Path::kLines : Path::kPlanes;
  }
  if (shape.groups == 1 && is_matrix_product(shape)) return Path::kProduct;
  return shape.groups > 1 && shape.rows < tuning::kFewGroupRows ? Path::kPlanes : Path::kRows;
}

// Whether a kernel row is one tap of the padded copies: pixels have so few channels that a tap of
// one pixel would be less than a word. The filter's words end in zeros.
bool are_kernel_rows_taps(const ConvShape& shape) {
  return shape.groups == 1 && shape.channels < kKPack && shape.width.kernel > 1 &&
         shape.width.dilation == 1;
}

// Describes a problem without a call's values.
const char* describe(ConvProblem& problem, LayoutArrays& arrays, const Operands& inputs,
                     const ffi::AnyBuffer& output, const Attributes& attributes,
                     const ConvolutionKernels& kernels) {
  if (const char* wrong = describe_shape(problem.shape, inputs, output, attributes)) return wrong;
  problem.requantize.quantized = !is_int32(output);
  problem.requantize.output_signed = is_signed_byte(output);
  problem.path = choose_path(problem.shape, kernels, attributes.panels);
  const bool takes_rows = problem.path == Path::kRows || problem.path == Path::kProduct;
  const bool has_filter_zero = count_of(inputs[kFilterZero]) > 0 || attributes.filter_unsigned;
  problem.padded.kernel_rows = problem.path == Path::kRows && kernels.element_bytes == 1 &&
                               !has_filter_zero && are_kernel_rows_taps(problem.shape);
  problem.shape.panels = attributes.panels && takes_rows && kernels.reads_panels;
  if (problem.path == Path::kRows) {
    lay_out_padded(problem, arrays, kernels.element_bytes);
    kernels.lay_out_rows(problem);
  }
  problem.unpacks_filter = attributes.panels && !problem.shape.panels;
  if (problem.path != Path::kPlanes) {
    return check_parameters(inputs, output, problem.shape.output_channels);
  }
  problem.panel = panel_shape(problem.shape.depth);
  if (is_depthwise(problem.shape)) problem.panel.at_once = 1;
  if (!lay_out(problem, arrays, kernels.has_row_kernel)) {
    return "an image's padded planes would take more than 2 GiB";
  }
  return check_parameters(inputs, output, problem.shape.output_channels);
}

bool are_types_known(const Operands& inputs, const ffi::AnyBuffer& output) {
  return is_byte(inputs[kInput]) && inputs[kFilter].element_type() == ffi::DataType::S8 &&
         (is_int32(output) || is_byte(output));
}

// --- constants of a call's requantization ------------------------------------------------

// The arrays that RequantizeParams point to. A panel's width of zeros follows the last output
// channel, so that vectors may be read from any channel.
struct Constants {
  std::vector<int32_t> offset, filter_zero;
  Multipliers multipliers;
};

void add_wrapping(int32_t& sum, uint32_t term) {
  sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + term);
}

// The sum of a filter row, modulo 2^32.
uint32_t sum_of(const int8_t* row, int64_t depth) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < depth; ++i) sum += static_cast<uint32_t>(row[i]);
  return sum;
}

// Reads the operands of one call of a batch.
struct Reader : OperandReader<kOperands> {
  const Attributes& attributes;

  ConvBuffers buffers(void* output) const {
    return {
        .input = elements<uint8_t>(kInput), .filter = elements<int8_t>(kFilter), .output = output};
  }

  void read(ConvProblem& problem, Constants& constants) const {
    const ConvShape& shape = problem.shape;
    RequantizeParams& params = problem.requantize;
    const int32_t input_zero = zero_point(kInputZero, shape.input_signed);
    problem.layout.padding = static_cast<uint8_t>(input_zero);
    constants.filter_zero =
        filter_zeros(kFilterZero, shape.output_channels, attributes.filter_unsigned ? -128 : 0);
    params.filter_zero = constants.filter_zero.empty() ? nullptr : constants.filter_zero.data();
    add_offsets(constants, shape,
                static_cast<uint32_t>(input_zero + (shape.input_signed ? 128 : 0)));
    params.offset = constants.offset.data();
    if (!params.quantized) return;
    read_scales(kInputScale, shape.output_channels, attributes.exact, params,
                constants.multipliers);
  }

 private:
  // The kernels multiply unsigned inputs by signed filters. The offsets add, modulo 2^32, the bias
  // and the terms of (x - input_zero) * (w - filter_zero) that these products lack.
  void add_offsets(Constants& constants, const ConvShape& shape, uint32_t input_zero) const {
    const int64_t channels = shape.output_channels;
    const int32_t *sums = elements<int32_t>(kSums), *bias = elements<int32_t>(kBias);
    const int8_t* filter = elements<int8_t>(kFilter);
    std::vector<int32_t>& offset = constants.offset;
    offset.resize(static_cast<size_t>(channels + kPanelWidth));
    if (bias != nullptr) std::copy_n(bias, channels, offset.begin());
    const int64_t summed = input_zero != 0 ? channels : 0;
    const uint32_t minus_zero = 0 - input_zero;
    for (int64_t k = 0; sums == nullptr && k < summed; ++k) {
      add_wrapping(offset[k], minus_zero * sum_of(filter + k * shape.depth, shape.depth));
    }
    if (sums != nullptr) {
      for (int64_t k = 0; k < summed; ++k) {
        add_wrapping(offset[k], minus_zero * static_cast<uint32_t>(sums[k]));
      }
    }
    const uint32_t factor = static_cast<uint32_t>(shape.depth) * input_zero;
    for (int64_t k = 0; !constants.filter_zero.empty() && k < channels; ++k) {
      add_wrapping(offset[k], factor * static_cast<uint32_t>(constants.filter_zero[k]));
    }
  }
};

// --- running -----------------------------------------------------------------------------

thread_local Scratch unpacked_filter;

// Returns null if there is no memory.
const int8_t* unpack_filter(const ConvShape& shape, const int8_t* filter) {
  const PreparedPanels panels = prepared_panels(shape);
  uint8_t* rows = unpacked_filter.take(panels.row_bytes());
  if (rows != nullptr) panels.unpack(reinterpret_cast<const uint8_t*>(filter), rows);
  return reinterpret_cast<const int8_t*>(rows);
}

// Returns false if there is no memory.
bool run_call(ConvProblem& problem, const Call<ConvolutionKernels>& call, const Reader& reader,
              void* output) {
  Constants constants;
  reader.read(problem, constants);
  ConvBuffers buffers = reader.buffers(output);
  if (problem.unpacks_filter) {
    buffers.filter = unpack_filter(problem.shape, buffers.filter);
    if (buffers.filter == nullptr) return false;
  }
  const auto& run = problem.path == Path::kPlanes ? run_planes : run_channels_last;
  const bool done = run({problem, call.kernels, buffers, call.pool});
  unpacked_filter.give_back();
  return done;
}

Outcome run_calls(ConvProblem& problem, const Call<ConvolutionKernels>& call, const Batch& batch,
                  const Operands& inputs, const Attributes& attributes,
                  const ffi::AnyBuffer& output) {
  const bool folds = batch.folds(inputs);  // batched images are more images
  const int64_t calls = folds ? 1 : batch.count();
  if (folds) problem.shape.images *= batch.count();
  const int64_t image = problem.path == Path::kPlanes ? problem.layout.image : problem.padded.image;
  if (!is_product_within({problem.shape.images, image}, kMostImage)) return no_memory();
  const int64_t bytes = static_cast<int64_t>(output.size_bytes()) / calls;
  for (int64_t i = 0; i < calls; ++i) {
    const Reader reader{{batch, inputs, i}, attributes};
    if (!run_call(problem, call, reader, data_of<uint8_t>(output) + i * bytes)) return no_memory();
  }
  return {};
}

Outcome convolve(const Call<ConvolutionKernels>& call, const Operands& inputs, Output output,
                 Sizes windows, int64_t groups, bool panels, bool input_last, bool output_last,
                 bool filter_unsigned, bool exact) {
  const int64_t axes = rank_of(output->dimensions()) - 4;
  if (axes < 0 || windows.size() != 10) return "the output is not of rank 4";
  const Attributes attributes = {windows,     groups,          panels, input_last,
                                 output_last, filter_unsigned, exact};
  const Batch batch(output->dimensions(), axes);
  for (size_t i = 0; i < kOperands; ++i) {
    const int64_t operand_axes = i == kInput ? 4 : i == kFilter ? 2 : 1;
    if (!batch.fits(inputs[i].dimensions(), operand_axes)) return misfit(i);
  }
  if (!are_types_known(inputs, *output)) {
    return "the input, the filter or the output is of another element type";
  }
  if (output->element_count() == 0) return {};
  ConvProblem problem = {};
  LayoutArrays arrays;
  if (const char* wrong = describe(problem, arrays, inputs, *output, attributes, call.kernels)) {
    return wrong;
  }
  if (is_null(*output)) return "the output is null";
  if (has_null(inputs)) return "an operand is null";
  return run_calls(problem, call, batch, inputs, attributes, *output);
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_convolution, "convolution", convolve, "windows", "groups", "panels",
              "input_last", "output_last", "filter_unsigned", "exact")
