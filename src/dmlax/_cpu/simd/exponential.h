// The exponential of float32 that softmaxes have on every instruction set.
#pragma once

#include <cstdint>
#include <cstring>

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// exp(x) for x up to 0, by a polynomial of the rest of a multiple of log 2. Returns 0 below
// 2**-126.
template <typename Floats>
inline Floats exponential(const Floats& x) {
  constexpr float kLowest = -87.336540f;
  constexpr float kCoefficients[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                     1.6666665459e-1f, 5.0000001201e-1f};
  const auto all = [](float value) { return value - Floats{}; };
  const Floats limited = x < kLowest ? all(kLowest) : x;
  const Floats rounding = all(12582912.0f);  // its last bit is worth 1
  const Floats shifted = limited * 1.44269504f + rounding;
  const Floats times = shifted - rounding;
  const Floats rest = (limited - times * 0.693359375f) + times * 2.12194440e-4f;
  Floats value = all(1.9875691500e-4f);
  for (float coefficient : kCoefficients) value = value * rest + coefficient;
  value = value * rest * rest + rest + 1.0f;
  decltype(x < x) power;
  std::memcpy(&power, &shifted, sizeof power);
  power = (power << 23) + (127 << 23);  // shifts out the bits of `rounding`
  Floats scale;
  std::memcpy(&scale, &power, sizeof scale);
  return x < kLowest ? Floats{} : value * scale;
}

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
