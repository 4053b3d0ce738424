// Multipliers of a requantization, one for each output channel.
#pragma once

#include <algorithm>
#include <vector>

#include "dmlax/_cpu/gemm/shape.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {

// The bits of float32 scales. The input and the output have one scale.
struct ScaleArrays {
  const uint32_t *input, *filter, *output;
  int64_t filters;  // one, or one for each output channel
};

// A panel's width of zeros follows the last channel, so that vectors may be read from any channel.
struct Multipliers {
  std::vector<float> estimate, band;
  bool scales_down, may_tie;  // all are below 1; a product may be near a tie

  void fill(const ScaleArrays& scales, int64_t channels, bool exact) {
    const int64_t count = scales.filters > 1 ? channels : std::min<int64_t>(channels, 1);
    estimate.resize(static_cast<size_t>(channels + kPanelWidth));
    band.assign(static_cast<size_t>(channels + kPanelWidth), kNever);
    may_tie = exact && fill_exact(scales, count);
    if (!exact) fill_float32(scales, count);
    scales_down = are_below_one(count);
    if (count == 1) {
      std::fill_n(estimate.begin(), channels, estimate[0]);
      if (may_tie) std::fill_n(band.begin(), channels, band[0]);
    }
  }

 private:
  // Returns whether a product may be near a tie.
  bool fill_exact(const ScaleArrays& scales, int64_t count) {
    const Estimator estimator(*scales.input, *scales.output);
    if (estimator.fill(scales.filter, count, estimate.data())) {
      std::fill_n(band.begin(), count, kBand);
      return count > 0;
    }
    bool any = false;
    for (int64_t k = 0; k < count; ++k) {
      estimate[k] = estimator.estimate(scales.filter[k], band[k]);
      any |= band[k] != kNever;
    }
    return any;
  }

  void fill_float32(const ScaleArrays& scales, int64_t count) {
    const uint32_t input = *scales.input, output = *scales.output;
    if (fill_multipliers_float32(input, scales.filter, output, count, estimate.data())) return;
    for (int64_t k = 0; k < count; ++k) {
      estimate[k] = multiplier_float32(input, scales.filter[k], output);
    }
  }

  bool are_below_one(int64_t count) const {
    constexpr uint32_t kBelowOne = 0x3f7fffff, kMagnitude = 0x7fffffff;
    uint32_t above = 0;
    for (int64_t k = 0; k < count; ++k) above |= kBelowOne - (to_bits(estimate[k]) & kMagnitude);
    return above >> 31 == 0;
  }
};

// Sets the range that estimates are clamped to, and flags that let an epilogue skip steps.
inline void set_multipliers(RequantizeParams& params, const Multipliers& multipliers, bool exact) {
  params.estimate = multipliers.estimate.data();
  params.band = multipliers.band.data();
  params.scales_down = multipliers.scales_down;
  params.may_tie = multipliers.may_tie;
  const int32_t lowest = lowest_byte(params.output_signed);
  params.low = exact ? -kLimit : static_cast<float>(lowest - params.output_zero);
  params.high = exact ? kLimit : static_cast<float>(lowest + 255 - params.output_zero);
}

}  // namespace dmlax
