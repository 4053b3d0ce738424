#include "dmlax/_convolution/cpu/constants.h"

#include <algorithm>

namespace dmlax {
namespace {

int32_t value_of(const uint8_t* byte, bool is_signed) {
  if (byte == nullptr) return 0;
  return is_signed ? static_cast<int8_t>(*byte) : *byte;
}

void add_wrapping(int32_t& sum, uint32_t term) {
  sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + term);
}

// The filter's zero points, as the packed filter has them: signed; none where all are 0.
std::vector<int32_t> packed_zero_points(const Values& values, const ValueTypes& types,
                                        int64_t channels) {
  const int64_t count = values.filter_zeros > 1 ? channels : 1;
  std::vector<int32_t> zeros(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) {
    const uint8_t* zero = values.filter_zeros == 0 ? nullptr : values.filter_zero + k;
    zeros[k] = value_of(zero, types.filter_zero_signed) - (types.filter_unsigned ? 128 : 0);
  }
  if (std::all_of(zeros.begin(), zeros.end(), [](int32_t zero) { return zero == 0; })) return {};
  const int32_t first = zeros[0];
  zeros.resize(static_cast<size_t>(channels), first);
  zeros.resize(static_cast<size_t>(channels + kPanelWidth));
  return zeros;
}

// The sum of a row, modulo 2^32; the sums of a filter that was prepared are given.
uint32_t sum_of(const int8_t* row, int64_t depth) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < depth; ++i) sum += static_cast<uint32_t>(row[i]);
  return sum;
}

// The sums are of x - input_zero times w - filter_zero, where x is unsigned and w signed: this adds
// what the products of bytes lack, modulo 2^32.
void add_offsets(Constants& constants, const ConvShape& shape, const Values& values,
                 const ValueTypes& types, uint32_t input_zero) {
  const int64_t channels = shape.output_channels;
  constants.offset.resize(static_cast<size_t>(channels + kPanelWidth));
  if (input_zero != 0 && values.sums != nullptr) {
    for (int64_t k = 0; k < channels; ++k) {
      add_wrapping(constants.offset[k], 0 - input_zero * static_cast<uint32_t>(values.sums[k]));
    }
  } else if (input_zero != 0) {
    for (int64_t k = 0; k < channels; ++k) {
      const uint32_t sum = sum_of(values.filter + k * shape.depth, shape.depth);
      add_wrapping(constants.offset[k], 0 - input_zero * sum);
    }
  }
  for (int64_t k = 0; values.bias != nullptr && k < channels; ++k) {
    add_wrapping(constants.offset[k], static_cast<uint32_t>(values.bias[k]));
  }
  constants.filter_zero = packed_zero_points(values, types, channels);
  const uint32_t factor = static_cast<uint32_t>(shape.depth) * input_zero;
  for (int64_t k = 0; !constants.filter_zero.empty() && k < channels; ++k) {
    add_wrapping(constants.offset[k], factor * static_cast<uint32_t>(constants.filter_zero[k]));
  }
}

ScaleArrays scales_of(const Values& values) {
  return {values.input_scale, values.filter_scale, values.output_scale, values.filter_scales};
}

}  // namespace

void add_values(ConvProblem& problem, Constants& constants, const Values& values,
                const ValueTypes& types) {
  const bool input_signed = problem.shape.input_signed;
  RequantizeParams& params = problem.requantize;
  const int32_t input_zero = value_of(values.input_zero, input_signed);
  problem.layout.padding = static_cast<uint8_t>(input_zero);
  params.output_zero = value_of(values.output_zero, params.output_signed);
  add_offsets(constants, problem.shape, values, types,
              static_cast<uint32_t>(input_zero + (input_signed ? 128 : 0)));
  if (params.quantized) {
    constants.multipliers.fill(scales_of(values), problem.shape.output_channels, types.exact);
    set_multipliers(params, constants.multipliers, types.exact);
  }
  params.offset = constants.offset.data();
  params.filter_zero = constants.filter_zero.empty() ? nullptr : constants.filter_zero.data();
  params.input_scale = values.input_scale;
  params.filter_scale = values.filter_scale;
  params.output_scale = values.output_scale;
  params.filter_scales = values.filter_scales;
}

}  // namespace dmlax
