// The constants of a call's requantization.
#ifndef DMLAX_CONVOLUTION_CPU_CONSTANTS_H_
#define DMLAX_CONVOLUTION_CPU_CONSTANTS_H_

#include <cstdint>
#include <vector>

#include "dmlax/_convolution/cpu/kernels.h"
#include "dmlax/_cpu/multipliers.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {

// One call's operands; absent parameters are null.
struct Values {
  const uint8_t *input, *input_zero, *filter_zero, *output_zero;
  const int8_t* filter;
  const int32_t *sums, *bias;
  const uint32_t *input_scale, *filter_scale, *output_scale;
  int64_t filter_zeros, filter_scales;  // how many there are
  void* output;
};

// How values are to be read.
struct ValueTypes {
  bool filter_unsigned, filter_zero_signed;
  bool exact;  // or ONNX Runtime's float32
};

// The arrays that RequantizeParams point to, each with a panel's width of zeros after its last
// output channel, so that vectors may be read from any.
struct Constants {
  std::vector<int32_t> offset, filter_zero;
  Multipliers multipliers;
};

// Adds a call's values to a problem whose shape, layout and output type are known.
void add_values(ConvProblem& problem, Constants& constants, const Values& values,
                const ValueTypes& types);

}  // namespace dmlax

#endif  // DMLAX_CONVOLUTION_CPU_CONSTANTS_H_
