// Handlers of float rows: they check operands and run the kernels.
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_fused/rows/cpu/rows_kernels.h"

namespace dmlax {
namespace {

// Calls run(row) for every row of `size` elements.
template <typename Run>
void for_each_row(ffi::ThreadPool& pool, int64_t rows, int64_t size, const Run& run) {
  parallel_for_ranges(pool, rows, tuning::kFloatRows.of_rows(size),
                      [&](int64_t first, int64_t last) {
                        for (int64_t row = first; row < last; ++row) run(row);
                      });
}

template <size_t count>
bool are_floats(const Inputs<count>& inputs, const ffi::AnyBuffer& output) {
  return std::all_of(inputs.begin(), inputs.end(), is_float32) && is_float32(output);
}

// vmap puts its axes before the axes of each operand. A bias without elements adds nothing.
Outcome normalize(const Call<RowKernels>& call, const Inputs<3>& inputs, Output output,
                  float epsilon, bool is_centred) {
  const auto& [input, scale, bias] = inputs;
  if (!are_floats(inputs, *output)) return "an element type is not float32";
  const Sizes sizes = output->dimensions();
  const int64_t axes = rank_of(scale.dimensions()) - 1, input_axes = rank_of(sizes) - axes;
  if (axes < 0 || input_axes < 1) return "a rank is wrong";
  const Batch batch(sizes, axes);
  if (!batch.fits(input.dimensions(), input_axes) || !batch.fits(scale.dimensions(), 1) ||
      !batch.fits(bias.dimensions(), 1) || count_of(scale) != sizes.back() ||
      (bias.element_count() > 0 && count_of(bias) != sizes.back()) ||
      !std::equal(sizes.end() - input_axes, sizes.end(), input.dimensions().end() - input_axes)) {
    return "a size is wrong";
  }
  if (output->element_count() == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  const int64_t size = sizes.back(), count = batch.count();
  const int64_t rows = element_count(*output) / size / count;
  for (int64_t i = 0; i < count; ++i) {
    const Normalization normalization = {.scale = batch.elements_of<float>(scale, i),
                                         .bias = batch.elements_of<float>(bias, i),
                                         .epsilon = epsilon,
                                         .is_centred = is_centred};
    const float* from = batch.elements_of<float>(input, i);
    float* to = data_of<float>(*output) + i * rows * size;
    for_each_row(call.pool, rows, size, [&](int64_t row) {
      call.kernels.normalize(normalization, from + row * size, size, to + row * size);
    });
  }
  return {};
}

Outcome softmax(const Call<RowKernels>& call, const Inputs<1>& inputs, Output output) {
  if (!are_floats(inputs, *output)) return "an element type is not float32";
  const Sizes sizes = output->dimensions(), input_sizes = inputs[0].dimensions();
  if (sizes.size() < 1 ||
      !std::equal(sizes.begin(), sizes.end(), input_sizes.begin(), input_sizes.end())) {
    return "a size is wrong";
  }
  if (output->element_count() == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  const int64_t size = sizes.back();
  const float* from = data_of<const float>(inputs[0]);
  float* to = data_of<float>(*output);
  for_each_row(call.pool, element_count(*output) / size, size, [&](int64_t row) {
    call.kernels.softmax(from + row * size, size, to + row * size);
  });
  return {};
}

// vmap puts its axes before those of the input, whose last axes are pixels and channels. Floats have
// an empty table.
Outcome average(const Call<RowKernels>& call, const Inputs<2>& inputs, Output output) {
  const auto& [input, table] = inputs;
  const bool is_float = is_float32(input);
  if (!(is_float || is_byte(input)) || !is_float32(table) || !is_float32(*output)) {
    return "an element type is none of the operator's";
  }
  const Sizes sizes = output->dimensions(), of_input = input.dimensions();
  if (sizes.size() < 1 || of_input.size() != sizes.size() + 1 || element_count(table) != (is_float ? 0 : 256) ||
      of_input.back() != sizes.back() ||
      !std::equal(sizes.begin(), sizes.end() - 1, of_input.begin())) {
    return "a size is wrong";
  }
  if (output->element_count() == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  const int64_t channels = sizes.back(), pixels = of_input[sizes.size() - 1];
  const int64_t blocks = (channels + kAverages - 1) / kAverages;
  for_each_row(call.pool, element_count(*output) / channels * blocks, pixels * kAverages,
               [&](int64_t task) {
                 const int64_t image = task / blocks, first = task % blocks * kAverages;
                 const int64_t at = image * pixels * channels + first;
                 const int64_t width = std::min(channels - first, kAverages);
                 float* to = data_of<float>(*output) + image * channels + first;
                 if (is_float) {
                   call.kernels.average_floats(data_of<float>(input) + at, pixels, channels, width,
                                               to);
                 } else {
                   call.kernels.average(data_of<float>(table), data_of<uint8_t>(input) + at, pixels,
                                        channels, width, to);
                 }
               });
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_average_bytes, "rows", average)

DMLAX_HANDLER(dmlax_normalize_rows, "rows", normalize, "epsilon", "is_centred")

DMLAX_HANDLER(dmlax_softmax_rows, "rows", softmax)
