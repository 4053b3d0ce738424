// The multipliers of a requantization, one for each output channel.
#ifndef DMLAX_CPU_MULTIPLIERS_H_
#define DMLAX_CPU_MULTIPLIERS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dmlax/_cpu/gemm/shape.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {

// The bits of float32 scales; the input and the output have one.
struct ScaleArrays {
  const uint32_t *input, *filter, *output;
  int64_t filters;  // one, or one per output channel
};

// With a panel's width of zeros after the last channel, so that vectors may be read from any.
struct Multipliers {
  std::vector<float> estimate, band;

  void fill(const ScaleArrays& scales, int64_t channels, bool exact) {
    estimate.resize(static_cast<size_t>(channels + kPanelWidth));
    const Estimator estimator(*scales.input, *scales.output);
    const int64_t count = scales.filters > 1 ? channels : 1;
    const bool all_may_tie = exact && estimator.fill(scales.filter, count, estimate.data());
    band.assign(static_cast<size_t>(channels + kPanelWidth), all_may_tie ? kBand : kNever);
    if (all_may_tie) {
      std::fill_n(band.begin() + channels, kPanelWidth, kNever);
    } else if (exact || !fill_multipliers_float32(*scales.input, scales.filter, *scales.output,
                                                  count, estimate.data())) {
      for (int64_t k = 0; k < count; ++k) {
        estimate[k] = exact ? estimator.estimate(scales.filter[k], band[k])
                            : multiplier_float32(*scales.input, scales.filter[k], *scales.output);
      }
    }
    for (int64_t k = count; k < channels; ++k) {
      estimate[k] = estimate[0];
      band[k] = band[0];
    }
  }

  bool scale_down(int64_t channels) const {
    constexpr uint32_t kBelowOne = 0x3f7fffff, kMagnitude = 0x7fffffff;
    uint32_t above = 0;
    for (int64_t k = 0; k < channels; ++k) above |= kBelowOne - (to_bits(estimate[k]) & kMagnitude);
    return above >> 31 == 0;
  }

  bool may_tie(int64_t channels) const {
    return std::any_of(band.begin(), band.begin() + channels,
                       [](float each) { return each != kNever; });
  }
};

// The range that estimates are clamped to, for a known output type and zero point, and what an
// epilogue may leave out.
inline void set_multipliers(RequantizeParams& params, const Multipliers& multipliers,
                            int64_t channels, bool exact) {
  params.estimate = multipliers.estimate.data();
  params.band = multipliers.band.data();
  params.scales_down = multipliers.scale_down(channels);
  params.may_tie = multipliers.may_tie(channels);
  const int32_t lowest = params.output_signed ? -128 : 0;
  params.low = exact ? -kLimit : static_cast<float>(lowest - params.output_zero);
  params.high = exact ? kLimit : static_cast<float>(lowest + 255 - params.output_zero);
}

}  // namespace dmlax

#endif  // DMLAX_CPU_MULTIPLIERS_H_
