// The handler of functions of float32 that are fixed sequences.
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_fused/exact_floats/cpu/functions_kernels.h"

namespace dmlax {
namespace {

Outcome apply_function(const Call<ExactFunctionKernels>& call, const Inputs<1>& inputs,
                       Output output, int64_t function) {
  if (!is_float32(inputs[0]) || !is_float32(*output)) return "an element type is not float32";
  if (function < 0 || function >= kExactFunctions) return "there is no such function";
  const Sizes sizes = output->dimensions(), input_sizes = inputs[0].dimensions();
  if (!std::equal(sizes.begin(), sizes.end(), input_sizes.begin(), input_sizes.end())) {
    return "a size is wrong";
  }
  if (output->element_count() == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  const float* from = data_of<const float>(inputs[0]);
  float* to = data_of<float>(*output);
  parallel_for_ranges(call.pool, element_count(*output), tuning::kFunctions,
                      [&](int64_t first, int64_t last) {
                        call.kernels.functions[function](from + first, last - first, to + first);
                      });
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_exact_function, "exact function", apply_function, "function")
