// The handler of the softmax of 8 bits: it checks its operands and runs the kernel.
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_fused/softmax/cpu/softmax_kernels.h"

namespace dmlax {
namespace {

constexpr size_t kTerms = 256;

// vmap puts its axes before those of the input, whose rows are its last axis.
Outcome softmax(const Call<SoftmaxKernels>& call, const Inputs<2>& inputs, Output output,
                float multiplier, int64_t zero_point) {
  const auto& [input, terms] = inputs;
  if (!is_byte(input) || !have_same_type(input, *output) || !is_float32(terms)) {
    return "an element type is none of the operator's";
  }
  const Sizes sizes = output->dimensions(), input_sizes = input.dimensions();
  if (sizes.size() < 1 || terms.element_count() != kTerms ||
      !std::equal(sizes.begin(), sizes.end(), input_sizes.begin(), input_sizes.end())) {
    return "a size is wrong";
  }
  const int64_t lowest = is_signed_byte(input) ? -128 : 0;
  if (zero_point < lowest || zero_point > lowest + 255) return "the zero point is not of the type";
  if (output->element_count() == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  const ByteSoftmax softmax = {.terms = data_of<float>(terms),
                               .multiplier = multiplier,
                               .zero_point = static_cast<int32_t>(zero_point),
                               .is_signed = is_signed_byte(input)};
  const int64_t size = sizes.back();
  parallel_for_ranges(call.pool, element_count(*output) / size, tuning::kFloatRows.of_rows(size),
                      [&](int64_t first, int64_t last) {
                        call.kernels.run(softmax, data_of<uint8_t>(input) + first * size,
                                         last - first, size,
                                         data_of<uint8_t>(*output) + first * size);
                      });
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_quantized_softmax, "quantized_softmax", softmax, "multiplier", "zero_point")
