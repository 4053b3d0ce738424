// The operands of a product or a convolution: zero points, scales and multipliers of channels.
#pragma once

#include <algorithm>
#include <vector>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/gemm/shape.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {

// The arrays of a requantization's multipliers, one for each output channel.
// A panel's width of zeros follows the last channel, so that vectors may be read from any channel.
struct Multipliers {
  std::vector<float> estimate, band;

  // Sets the multipliers of `channels`, the range that estimates are clamped to, and flags that let
  // an epilogue skip steps.
  void fill(RequantizeParams& params, int64_t channels, bool exact) {
    const int64_t count = params.filter_scales > 1 ? channels : std::min<int64_t>(channels, 1);
    estimate.resize(static_cast<size_t>(channels + kPanelWidth));
    band.assign(static_cast<size_t>(channels + kPanelWidth), kNever);
    params.may_tie = exact && fill_exact(params, count);
    if (!exact) fill_float32(params, count);
    params.scales_down = are_below_one(count);
    if (count == 1) {
      std::fill_n(estimate.begin(), channels, estimate[0]);
      if (params.may_tie) std::fill_n(band.begin(), channels, band[0]);
    }
    params.estimate = estimate.data();
    params.band = band.data();
    const int32_t lowest = lowest_byte(params.output_signed);
    params.low = exact ? -kLimit : static_cast<float>(lowest - params.output_zero);
    params.high = exact ? kLimit : static_cast<float>(lowest + 255 - params.output_zero);
  }

 private:
  // Returns whether a product may be near a tie.
  bool fill_exact(const RequantizeParams& params, int64_t count) {
    const Estimator estimator(*params.input_scale, *params.output_scale);
    if (estimator.fill(params.filter_scale, count, estimate.data())) {
      std::fill_n(band.begin(), count, kBand);
      return count > 0;
    }
    bool any = false;
    for (int64_t k = 0; k < count; ++k) {
      estimate[k] = estimator.estimate(params.filter_scale[k], band[k]);
      any |= band[k] != kNever;
    }
    return any;
  }

  void fill_float32(const RequantizeParams& params, int64_t count) {
    const uint32_t input = *params.input_scale, output = *params.output_scale;
    const uint32_t* filter = params.filter_scale;
    if (fill_multipliers_float32(input, filter, output, count, estimate.data())) return;
    for (int64_t k = 0; k < count; ++k) {
      estimate[k] = multiplier_float32(input, filter[k], output);
    }
  }

  bool are_below_one(int64_t count) const {
    constexpr uint32_t kBelowOne = 0x3f7fffff, kMagnitude = 0x7fffffff;
    uint32_t above = 0;
    for (int64_t k = 0; k < count; ++k) above |= kBelowOne - (to_bits(estimate[k]) & kMagnitude);
    return above >> 31 == 0;
  }
};

// Reads the operands of one call of a batch.
template <size_t operands>
struct OperandReader {
  const Batch& batch;
  const Inputs<operands>& inputs;
  int64_t call;

  // Null if the operand has no elements.
  template <typename T>
  const T* elements(size_t operand) const {
    return batch.elements_of<T>(inputs[operand], call);
  }

  // An operand's only zero point, or 0.
  int32_t zero_point(size_t operand, bool is_signed) const {
    const uint8_t* zero = elements<uint8_t>(operand);
    return zero == nullptr ? 0 : byte_value(*zero, is_signed);
  }

  // The zero points of bytes that are moved by `offset`.
  std::vector<int32_t> zero_points(size_t operand, int64_t count, bool is_signed,
                                   int32_t offset) const {
    const uint8_t* zeros = elements<uint8_t>(operand);
    std::vector<int32_t> values(static_cast<size_t>(count), offset);
    for (int64_t i = 0; zeros != nullptr && i < count; ++i) {
      values[i] += byte_value(zeros[i], is_signed);
    }
    return values;
  }

  // The zero points of a filter's channels and a panel's width of zeros; empty if all are 0.
  std::vector<int32_t> filter_zeros(size_t operand, int64_t channels, int32_t offset) const {
    const int64_t count = std::min(channels, std::max<int64_t>(1, count_of(inputs[operand])));
    std::vector<int32_t> zeros =
        zero_points(operand, count, is_signed_byte(inputs[operand]), offset);
    if (are_zeros(zeros)) return {};
    zeros.resize(static_cast<size_t>(channels), int32_t{zeros[0]});
    zeros.resize(static_cast<size_t>(channels + kPanelWidth));
    return zeros;
  }

  // Reads the scales and the output's zero point, which are four operands from `first` on.
  void read_scales(size_t first, int64_t channels, bool exact, RequantizeParams& params,
                   Multipliers& multipliers) const {
    params.input_scale = elements<uint32_t>(first);
    params.filter_scale = elements<uint32_t>(first + 1);
    params.output_scale = elements<uint32_t>(first + 2);
    params.filter_scales = count_of(inputs[first + 1]);
    params.output_zero = zero_point(first + 3, params.output_signed);
    multipliers.fill(params, channels, exact);
  }

  static bool are_zeros(const std::vector<int32_t>& values) {
    return std::all_of(values.begin(), values.end(), [](int32_t value) { return value == 0; });
  }
};

}  // namespace dmlax
