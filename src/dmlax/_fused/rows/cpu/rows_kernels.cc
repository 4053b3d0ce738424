// Kernels of float rows, compiled once for each SIMD header. All of them sum in the same order, so
// that results have the same bits.
#include "dmlax/_fused/rows/cpu/rows_kernels.h"

#include <cmath>
#include <cstring>

#include "dmlax/_cpu/simd/exponential.h"
#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

constexpr int kLanes = 16, kSums = 4;  // several sums hide an addition's latency

typedef float Floats __attribute__((vector_size(4 * kLanes)));

inline Floats all(float value) { return value - Floats{}; }

inline Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Loads the last elements of a row. The other lanes are `fill`.
inline Floats load_some(const float* from, int64_t count, float fill) {
  Floats value = all(fill);
  std::memcpy(&value, from, static_cast<size_t>(count) * sizeof(float));
  return value;
}

inline void store(Floats value, int64_t count, float* to) {
  std::memcpy(to, &value, static_cast<size_t>(count) * sizeof(float));
}

inline float total(const Floats* sums) {
  const Floats four = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float lanes[kLanes];
  std::memcpy(lanes, &four, sizeof lanes);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

// Sums `value(i, elements)` along a row. `fill` stands for elements past the end, whose value must
// be 0.
template <typename Value>
inline float sum(const float* row, int64_t count, float fill, const Value& value) {
  Floats sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * kLanes <= count; i += kSums * kLanes) {
    for (int j = 0; j < kSums; ++j) {
      sums[j] += value(i + j * kLanes, load(row + i + j * kLanes), kLanes);
    }
  }
  for (int j = 0; i < count; ++j, i += kLanes) {
    const int64_t left = count - i < kLanes ? count - i : kLanes;
    const Floats elements = left == kLanes ? load(row + i) : load_some(row + i, left, fill);
    sums[j] += value(i, elements, left);
  }
  return total(sums);
}

// Calls run(i, elements, count) along a row.
template <typename Run>
inline void for_each(const float* row, int64_t count, float fill, const Run& run) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) run(i, load(row + i), kLanes);
  if (i < count) run(i, load_some(row + i, count - i, fill), count - i);
}

void normalize(const Normalization& norm, const float* input, int64_t count, float* output) {
  const float size = static_cast<float>(count);
  float mean = 0;
  if (norm.is_centred) {
    mean = sum(input, count, 0, [](int64_t, Floats x, int64_t) { return x; }) / size;
  }
  const float squares =
      sum(input, count, mean, [&](int64_t, Floats x, int64_t) { return (x - mean) * (x - mean); });
  const float inverse = 1 / std::sqrt(squares / size + norm.epsilon);
  for_each(input, count, 0, [&](int64_t i, Floats x, int64_t left) {
    const bool is_whole = left == kLanes;
    const auto of = [&](const float* row) {
      return is_whole ? load(row + i) : load_some(row + i, left, 0);
    };
    Floats y = (x - mean) * inverse * of(norm.scale);
    if (norm.bias != nullptr) y += of(norm.bias);
    is_whole ? store(y, kLanes, output + i) : store(y, left, output + i);
  });
}

void softmax(const float* input, int64_t count, float* output) {
  constexpr float kInfinity = __builtin_inff();
  Floats most = all(-kInfinity);
  for_each(input, count, -kInfinity,
           [&](int64_t, Floats x, int64_t) { most = most > x ? most : x; });
  float highest = most[0];
  for (int i = 1; i < kLanes; ++i) highest = highest > most[i] ? highest : most[i];
  const float whole = sum(input, count, -kInfinity, [&](int64_t i, Floats x, int64_t left) {
    const Floats y = exponential(x - highest);
    left == kLanes ? store(y, kLanes, output + i) : store(y, left, output + i);
    return y;
  });
  const float inverse = 1 / whole;
  for (int64_t i = 0; i < count; ++i) output[i] *= inverse;
}

// Calls add(pixel, sums) for every pixel: four sums take turns.
template <typename Add>
inline void average_pixels(int64_t count, int64_t width, float* output, const Add& add) {
  constexpr int kTurns = 4;
  float sums[kTurns][kAverages] = {}, totals[kAverages] = {};
  const int64_t rest = count / kTurns * kTurns;
  for (int64_t pixel = 0; pixel < rest; ++pixel) add(pixel, sums[pixel % kTurns]);
  for (int64_t c = 0; c < width; ++c) {
    totals[c] = (sums[0][c] + sums[2][c]) + (sums[1][c] + sums[3][c]);
  }
  for (int64_t pixel = rest; pixel < count; ++pixel) add(pixel, totals);
  for (int64_t c = 0; c < width; ++c) output[c] = totals[c] / static_cast<float>(count);
}

void average(const float* table, const uint8_t* input, int64_t count, int64_t step, int64_t width,
             float* output) {
  average_pixels(count, width, output, [&](int64_t pixel, float* to) {
    for (int64_t c = 0; c < width; ++c) to[c] += table[input[pixel * step + c]];
  });
}

void average_floats(const float* input, int64_t count, int64_t step, int64_t width, float* output) {
  average_pixels(count, width, output, [&](int64_t pixel, float* to) {
    const float* from = input + pixel * step;
    if (width == kAverages) {
      for (int64_t c = 0; c < kAverages; ++c) to[c] += from[c];
    } else {
      for (int64_t c = 0; c < width; ++c) to[c] += from[c];
    }
  });
}

}  // namespace

template <>
const RowKernels Table<RowKernels>::kernels = {normalize, softmax, average, average_floats};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
