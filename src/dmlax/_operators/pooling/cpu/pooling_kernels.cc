// Kernels of the pools, compiled once for each SIMD header: loops over neighbouring bytes, which
// compilers vectorise.
#include "dmlax/_operators/pooling/cpu/pooling_kernels.h"

#include <memory>
#include <new>
#include <type_traits>

#include "dmlax/_cpu/requantize.h"
#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// The position of an output row.
struct RowPosition {
  int64_t plane, depth, height;

  RowPosition(const PoolShape& shape, int64_t row)
      : plane(row / (shape.depth.outputs * shape.height.outputs)),
        depth(row / shape.height.outputs % shape.depth.outputs),
        height(row % shape.height.outputs) {}
};

// Calls run(row) for the input rows of a window that lie inside the image, in order.
template <typename T, typename Run>
inline void for_each_row(const PoolShape& shape, const RowPosition& at, const T* input,
                         const Run& run) {
  int64_t i, j_begin, i_end, j_end;
  shape.depth.inside(at.depth, i, i_end);
  shape.height.inside(at.height, j_begin, j_end);
  for (; i < i_end; ++i) {
    const int64_t depth = shape.depth.first(at.depth) + i * shape.depth.dilation;
    for (int64_t j = j_begin; j < j_end; ++j) {
      const int64_t height = shape.height.first(at.height) + j * shape.height.dilation;
      const int64_t row = (at.plane * shape.depth.size + depth) * shape.height.size + height;
      run(input + row * shape.input_row());
    }
  }
}

// ---- maxima --------------------------------------------------------------------------------

template <typename T>
inline T larger(T a, T b) {
  return a > b ? a : b;
}

template <typename T>
inline void take_maximum(T* __restrict greatest, const T* __restrict other, int64_t count) {
  for (int64_t i = 0; i < count; ++i) greatest[i] = larger(greatest[i], other[i]);
}

// greatest[i] is the maximum of a window x[i], x[i + step], ...
template <typename T>
inline void maximum_of_steps(T* __restrict greatest, const T* __restrict x, int64_t count,
                             int64_t window, int64_t step) {
  if (window == 2) {
    for (int64_t i = 0; i < count; ++i) greatest[i] = larger(x[i], x[i + step]);
  } else if (window == 3) {
    for (int64_t i = 0; i < count; ++i) {
      greatest[i] = larger(larger(x[i], x[i + step]), x[i + 2 * step]);
    }
  } else {
    __builtin_memcpy(greatest, x, static_cast<size_t>(count) * sizeof(T));
    for (int64_t k = 1; k < window; ++k) take_maximum(greatest, x + k * step, count);
  }
}

// The maximum of a window's rows, between the padding's lowest values.
template <typename T>
inline void maximum_of_rows(const PoolShape& shape, const RowPosition& at, const T* input, T lowest,
                            T* padded) {
  const int64_t before = shape.width.start * shape.inner;
  const int64_t held = shape.padded_row() - before;
  const int64_t row = held < shape.input_row() ? held : shape.input_row();
  const T* rows[3];
  int64_t pending = 0;
  bool is_first = true;
  T* target = padded + before;
  const auto combine = [&] {
    if (pending == 0) return;
    if (is_first && pending == 1) {
      __builtin_memcpy(target, rows[0], static_cast<size_t>(row) * sizeof(T));
    } else if (is_first && pending == 2) {
      const T* __restrict a = rows[0], * __restrict b = rows[1];
      for (int64_t i = 0; i < row; ++i) target[i] = larger(a[i], b[i]);
    } else if (is_first) {
      const T* __restrict a = rows[0], * __restrict b = rows[1], * __restrict c = rows[2];
      for (int64_t i = 0; i < row; ++i) target[i] = larger(larger(a[i], b[i]), c[i]);
    } else {
      for (int64_t k = 0; k < pending; ++k) take_maximum(target, rows[k], row);
    }
    is_first = false;
    pending = 0;
  };
  if (row > 0) {
    for_each_row(shape, at, input, [&](const T* input_row) {
      rows[pending++] = input_row;
      if (pending == 3) combine();
    });
    combine();
  }
  if (is_first) {
    for (int64_t i = 0; i < row; ++i) target[i] = lowest;
  }
}

// Computes an output row from the image itself, so that time and memory do not grow with the
// padding.
template <typename T>
void maximum_without_copy(const PoolShape& shape, const T* input, T lowest, int64_t index, T* row) {
  const PoolAxis& width = shape.width;
  for (int64_t i = 0; i < shape.output_row(); ++i) row[i] = lowest;
  for_each_row(shape, RowPosition(shape, index), input, [&](const T* x) {
    for (int64_t i = 0; i < width.outputs; ++i) {
      int64_t k, end;
      width.inside(i, k, end);
      for (; k < end; ++k) {
        const int64_t pixel = width.first(i) + k * width.dilation;
        take_maximum(row + i * shape.inner, x + pixel * shape.inner, shape.inner);
      }
    }
  });
}

template <typename T>
void maximum_as(const PoolShape& shape, const T* input, T* output, int64_t begin, int64_t end,
                T* scratch) {
  constexpr T kLowest = T(-1) < T(0) ? T(-128) : T(0);
  const PoolAxis& width = shape.width;
  if (shape.is_mostly_padding()) {
    for (int64_t i = begin; i < end; ++i) {
      maximum_without_copy(shape, input, kLowest, i, output + i * shape.output_row());
    }
    return;
  }
  const int64_t padded = shape.padded_row();
  T* greatest = scratch + padded + 64;
  for (int64_t i = 0; i < padded; ++i) scratch[i] = kLowest;
  for (int64_t index = begin; index < end; ++index) {
    maximum_of_rows(shape, RowPosition(shape, index), input, kLowest, scratch);
    T* row = output + index * shape.output_row();
    const int64_t step = width.dilation * shape.inner;
    if (width.stride == 1) {
      maximum_of_steps(row, scratch, shape.output_row(), width.window, step);
    } else if (shape.inner > 1) {
      for (int64_t i = 0; i < width.outputs; ++i) {
        maximum_of_steps(row + i * shape.inner, scratch + i * width.stride * shape.inner,
                         shape.inner, width.window, step);
      }
    } else {
      const int64_t starts = (width.outputs - 1) * width.stride + 1;
      maximum_of_steps(greatest, scratch, starts, width.window, step);
      int64_t i = 0;
      if (width.stride == 2) {
        i = Simd::copy_even(reinterpret_cast<uint8_t*>(row),
                            reinterpret_cast<const uint8_t*>(greatest), width.outputs);
      }
      for (; i < width.outputs; ++i) row[i] = greatest[i * width.stride];
    }
  }
}

void maximum(const PoolShape& shape, bool is_signed, const uint8_t* input, uint8_t* output,
             int64_t begin, int64_t end, uint8_t* scratch) {
  if (!is_signed) return maximum_as(shape, input, output, begin, end, scratch);
  maximum_as(shape, reinterpret_cast<const int8_t*>(input), reinterpret_cast<int8_t*>(output),
             begin, end, reinterpret_cast<int8_t*>(scratch));
}

// ---- averages ------------------------------------------------------------------------------

// An exact average's parameters for a channel.
//
// A quotient in double has three relative errors of 2^-53. Up to 256 it is less than 2^-43 off, so
// a quotient kTieBand or more off a tie rounds correctly.
constexpr double kTieBand = 0x1p-42;
constexpr int64_t kGroup = 64;  // outputs that are rounded at once

struct ChannelParams {
  Unpacked input_scale, output_scale;
  double ratio;           // the ratio of the two scales
  float real_scale, out;  // the scales as floats
  int32_t input_zero, output_zero;

  ChannelParams(const AverageParams& params, int64_t channel)
      : input_scale(unpack(params.input_scale.at(channel))),
        output_scale(unpack(params.output_scale.at(channel))),
        real_scale(from_bits(params.input_scale.at(channel))),
        out(from_bits(params.output_scale.at(channel))) {
    const uint8_t x_flip = params.input_signed ? 0x80 : 0, y_flip = params.output_signed ? 0x80 : 0;
    input_zero = (params.input_zero.at(channel) ^ x_flip) - x_flip;
    output_zero = (params.output_zero.at(channel) ^ y_flip) - y_flip;
    const double size = static_cast<double>(input_scale.mantissa) / output_scale.mantissa *
                        power_of_two(input_scale.exponent - output_scale.exponent);
    ratio = input_scale.negative ^ output_scale.negative ? -size : size;
  }
};

// round(total * sx / (sy * n)) to even for a quotient near a tie.
__attribute__((noinline)) int32_t round_average(int32_t total, int64_t count,
                                                const ChannelParams& channel, double quotient) {
  using Wide = unsigned __int128;
  const uint64_t magnitude = total < 0 ? 0 - static_cast<int64_t>(total) : total;
  const uint64_t below = static_cast<uint64_t>(quotient < 0 ? -quotient : quotient);
  const int shift = channel.input_scale.exponent - channel.output_scale.exponent + 1;
  Wide left = static_cast<Wide>(magnitude) * channel.input_scale.mantissa;
  Wide right = static_cast<Wide>((2 * below + 1) * static_cast<uint64_t>(count)) *
               channel.output_scale.mantissa;
  shift > 0 ? left <<= shift : right <<= -shift;
  const int32_t rounded =
      static_cast<int32_t>(below + (left > right || (left == right && (below & 1))));
  return quotient < 0 ? -rounded : rounded;
}

inline uint8_t quantize_total(const AverageParams& params, const ChannelParams& channel,
                              int32_t total, int64_t divisor) {
  constexpr double kShift = 0x1.8p52;  // adding and subtracting it rounds to even
  const double quotient = static_cast<double>(total) * channel.ratio / static_cast<double>(divisor);
  const double raised = quotient > -kLimit ? quotient : -kLimit;
  const double clamped = raised < kLimit ? raised : kLimit;
  const double nearest = (clamped + kShift) - kShift;
  const double rest = __builtin_fabs(clamped - nearest);
  int32_t rounded = static_cast<int32_t>(nearest);
  if (__builtin_expect(rest > 0.5 - kTieBand, 0)) {
    rounded = round_average(total, divisor, channel, clamped);
  }
  return saturate(rounded + channel.output_zero, params.output_signed);
}

// ONNX Runtime's order: clamps to the range minus the zero point, rounds, adds the zero point. NaN
// gives the lowest value.
inline uint8_t round_float32(bool is_signed, float value, int32_t zero) {
  constexpr float kShift = 0x1.8p23f;
  const int32_t lowest = is_signed ? -128 : 0;
  const float low = static_cast<float>(lowest - zero),
              high = static_cast<float>(lowest + 255 - zero);
  const float raised = value > low ? value : low;
  const float clamped = raised < high ? raised : high;
  return static_cast<uint8_t>(static_cast<int32_t>((clamped + kShift) - kShift) + zero);
}

// The factor of a global average's totals.
inline float global_multiplier(const ChannelParams& channel, int64_t divisor) {
  return channel.real_scale / (channel.out * static_cast<float>(divisor));
}

// Adds the k-th element of every window that a row has.
template <typename T, typename Sum, typename Value>
inline void add_row(const PoolShape& shape, const T* row, int64_t k, Sum* __restrict sums,
                    const Value& value) {
  const PoolAxis& width = shape.width;
  const int64_t inner = shape.inner;
  int64_t begin, end;
  width.reached(k, begin, end);
  if (begin >= end) return;
  const T* first = row + (width.first(begin) + k * width.dilation) * inner;
  Sum* target = sums + begin * inner;
  if (inner == 1) {
    for (int64_t i = 0; i < end - begin; ++i) target[i] += value(first[i * width.stride], 0);
    return;
  }
  for (int64_t i = begin; i < end; ++i, target += inner, first += width.stride * inner) {
    for (int64_t c = 0; c < inner; ++c) target[c] += value(first[c], c);
  }
}

// The parameters of every channel, or one set for all.
class Channels {
 public:
  bool fill(const AverageParams& params, int64_t inner) {
    const bool one_each = params.input_scale.one_each || params.output_scale.one_each ||
                          params.input_zero.one_each || params.output_zero.one_each;
    count_ = one_each ? params.channels : 1;
    last_ = inner > 1;
    of_.reset(static_cast<ChannelParams*>(
        ::operator new(static_cast<size_t>(count_) * sizeof(ChannelParams), std::nothrow)));
    if (!of_) return false;
    for (int64_t i = 0; i < count_; ++i) new (of_.get() + i) ChannelParams(params, i);
    return true;
  }

  bool is_single() const { return count_ == 1; }

  const ChannelParams& of(int64_t plane, int64_t inner_channel) const {
    if (count_ == 1) return of_.get()[0];
    return of_.get()[last_ ? inner_channel : plane % count_];
  }

 private:
  struct Free {
    void operator()(ChannelParams* params) const { ::operator delete(params); }
  };
  std::unique_ptr<ChannelParams, Free> of_;
  int64_t count_ = 0;
  bool last_ = false;
};

template <typename T>
void average_row(const PoolShape& shape, const AverageParams& params, const Channels& channels,
                 const T* input, int64_t index, const int32_t* counts, int32_t* totals,
                 uint8_t* output) {
  const RowPosition at(shape, index);
  const int64_t inner = shape.inner, outputs = shape.width.outputs;
  const int64_t inside_rows = shape.depth.count(at.depth) * shape.height.count(at.height);
  uint8_t* bytes = output + index * shape.output_row();
  if (params.exact) {
    for (int64_t i = 0; i < shape.output_row(); ++i) totals[i] = 0;
    for_each_row(shape, at, input, [&](const T* row) {
      for (int64_t k = 0; k < shape.width.window; ++k) {
        add_row(shape, row, k, totals, [](T x, int64_t) { return static_cast<int32_t>(x); });
      }
    });
    for (int64_t i = 0; i < outputs; ++i) {
      const int64_t inside = inside_rows * counts[i];
      const int64_t counted = params.include_padding ? shape.window() : inside;
      const int64_t divisor = counted > 0 ? counted : 1;
      for (int64_t c = 0; c < inner; ++c) {
        const ChannelParams& channel = channels.of(at.plane, c);
        const int32_t total =
            totals[i * inner + c] - static_cast<int32_t>(inside * channel.input_zero);
        bytes[i * inner + c] = quantize_total(params, channel, total, divisor);
      }
    }
    return;
  }
  float* sums = reinterpret_cast<float*>(totals);
  for (int64_t i = 0; i < shape.output_row(); ++i) sums[i] = 0;
  for_each_row(shape, at, input, [&](const T* row) {
    for (int64_t k = 0; k < shape.width.window; ++k) {
      add_row(shape, row, k, sums, [&](T x, int64_t c) {
        const ChannelParams& channel = channels.of(at.plane, c);
        return static_cast<float>(x - channel.input_zero) * channel.real_scale;
      });
    }
  });
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t inside = inside_rows * counts[i];
    const int64_t counted = params.include_padding ? shape.window() : inside;
    const float divisor = static_cast<float>(counted > 0 ? counted : 1);
    for (int64_t c = 0; c < inner; ++c) {
      const ChannelParams& channel = channels.of(at.plane, c);
      const float quotient = sums[i * inner + c] / divisor / channel.out;
      bytes[i * inner + c] = round_float32(params.output_signed,
                                           quotient + static_cast<float>(channel.output_zero), 0);
    }
  }
}

// ---- averages of whole planes --------------------------------------------------------------

// Two neighbouring bytes; the first are the low ones.
using BytePair = uint16_t __attribute__((may_alias, aligned(1)));

// Sums of pairs, and of their second bytes, modulo 2^16.
struct PairSums {
  uint16_t* __restrict pairs;
  uint16_t* __restrict second;
};

// Adds neighbouring rows of pairs with flipped bits. The sums are read and written once for all
// rows.
template <int rows, uint16_t kFlip>
inline void add_rows(const uint8_t* x, int64_t stride, int64_t count, const PairSums& sums) {
  const BytePair* row[rows];
  for (int r = 0; r < rows; ++r) row[r] = reinterpret_cast<const BytePair*>(x + r * stride);
  for (int64_t i = 0; i < count; ++i) {
    uint16_t pairs = 0, second = 0;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const uint16_t pair = row[r][i] ^ kFlip;
      pairs = static_cast<uint16_t>(pairs + pair);
      second = static_cast<uint16_t>(second + (pair >> 8));
    }
    sums.pairs[i] = static_cast<uint16_t>(sums.pairs[i] + pairs);
    sums.second[i] = static_cast<uint16_t>(sums.second[i] + second);
  }
}

// Adds the sums of up to 256 rows and up to kChannelBlock channels to totals. The sum of second
// bytes then fits 16 bits, and so does the sum of first bytes.
constexpr int64_t kChannelBlock = tuning::kPoolChannels;

template <uint16_t kFlip>
inline void add_block(const uint8_t* x, int64_t rows, int64_t stride, int64_t count,
                      int32_t* __restrict totals) {
  uint16_t pairs[kChannelBlock / 2] = {}, second[kChannelBlock / 2] = {};
  const PairSums sums{pairs, second};
  const int64_t whole = count / 2, offset = kFlip == 0 ? 0 : 128 * rows;
  int64_t i = 0;
  for (; i + tuning::kPoolRows <= rows; i += tuning::kPoolRows) {
    add_rows<tuning::kPoolRows, kFlip>(x + i * stride, stride, whole, sums);
  }
  for (; i < rows; ++i) add_rows<1, kFlip>(x + i * stride, stride, whole, sums);
  for (int64_t c = 0; c < whole; ++c) {
    const uint16_t first = static_cast<uint16_t>(pairs[c] - (second[c] << 8));
    totals[2 * c] += first - static_cast<int32_t>(offset);
    totals[2 * c + 1] += second[c] - static_cast<int32_t>(offset);
  }
  if (count % 2 == 0) return;
  int32_t last = 0;
  for (i = 0; i < rows; ++i) last += x[i * stride + count - 1] ^ (kFlip & 0xff);
  totals[count - 1] += last - static_cast<int32_t>(offset);
}

// Sums every channel of an image with channels last.
template <typename T>
inline void sum_channels(const T* x, int64_t pixels, int64_t inner, int32_t* totals) {
  constexpr uint16_t kFlip = T(-1) < T(0) ? 0x8080 : 0;
  constexpr int64_t kPixels = 256;
  for (int64_t c = 0; c < inner; ++c) totals[c] = 0;
  for (int64_t first = 0; first < inner; first += kChannelBlock) {
    const int64_t count = inner - first < kChannelBlock ? inner - first : kChannelBlock;
    for (int64_t begin = 0; begin < pixels; begin += kPixels) {
      const int64_t rows = pixels - begin < kPixels ? pixels - begin : kPixels;
      const uint8_t* block = reinterpret_cast<const uint8_t*>(x) + begin * inner + first;
      add_block<kFlip>(block, rows, inner, count, totals + first);
    }
  }
}

// Writes the bytes of totals near a tie. Zero points are subtracted already.
__attribute__((noinline)) void resolve_ties(const AverageParams& params,
                                            const ChannelParams& channel, const int32_t* totals,
                                            int64_t divisor, float factor, uint8_t* bytes) {
  for (int64_t i = 0; i < kGroup; ++i) {
    const float estimate = static_cast<float>(totals[i]) * factor;
    const float rest = __builtin_fabsf(estimate - __builtin_nearbyintf(estimate));
    if (!(__builtin_fabsf(estimate) < kLimit) || rest < kBand) continue;
    const int32_t rounded = round_average(totals[i], divisor, channel, estimate);
    bytes[i] = saturate(rounded + channel.output_zero, params.output_signed);
  }
}

// Quantizes neighbouring totals with the same parameters. The estimates have the errors of
// accumulators (requantize.h). Larger factors would also saturate all totals but 0.
void quantize_totals(const AverageParams& params, const ChannelParams& channel,
                     const int32_t* totals, int64_t count, int64_t divisor, uint8_t* output) {
  constexpr int kPacked = Simd::kVectorsPacked;
  constexpr double kMostFactor = 0x1p10;
  static_assert(kGroup == kPanelWidth);
  const double ratio = channel.ratio / static_cast<double>(divisor);
  const double raised = ratio > -kMostFactor ? ratio : -kMostFactor;
  const float factor = static_cast<float>(raised < kMostFactor ? raised : kMostFactor);
  const Simd::Floats factors = Simd::broadcast_float(factor), band = Simd::broadcast_float(kBand);
  const Simd::Floats low = Simd::broadcast_float(-kLimit), high = Simd::broadcast_float(kLimit);
  const int32_t zeros = static_cast<int32_t>(divisor * channel.input_zero);
  for (int64_t first = 0; first < count; first += kGroup) {
    const int64_t group = count - first < kGroup ? count - first : kGroup;
    alignas(64) int32_t total[kGroup];
    alignas(64) uint8_t bytes[kGroup];
    for (int64_t i = 0; i < kGroup; ++i) total[i] = i < group ? totals[first + i] - zeros : 0;
    uint64_t near_ties = 0;
    for (int j = 0; j < kVectors; j += kPacked) {
      Simd::Int32s rounded[kPacked];
#pragma GCC unroll 4
      for (int i = 0; i < kPacked; ++i) {
        const Simd::Int32s totals_of_vector = Simd::load_columns(total, j + i);
        const Simd::Floats estimates = Simd::estimate(totals_of_vector, factors, low, high);
        near_ties |= Simd::round(estimates, band, rounded[i]);
      }
      Simd::store_bytes(bytes + Simd::kLanes * j, rounded, channel.output_zero,
                        params.output_signed);
    }
    if (__builtin_expect(near_ties != 0, 0)) {
      resolve_ties(params, channel, total, divisor, factor, bytes);
    }
    __builtin_memcpy(output + first, bytes, static_cast<size_t>(group));
  }
}

// Quantizes totals in ONNX Runtime's float32.
void quantize_totals_float32(const AverageParams& params, const ChannelParams& channel,
                             const int32_t* totals, int64_t count, int64_t divisor,
                             uint8_t* output) {
  const float multiplier = global_multiplier(channel, divisor);
  const int32_t zeros = static_cast<int32_t>(divisor * channel.input_zero);
  const bool is_signed = params.output_signed;
  const int32_t zero = channel.output_zero;
  for (int64_t i = 0; i < count; ++i) {
    output[i] = round_float32(is_signed, static_cast<float>(totals[i] - zeros) * multiplier, zero);
  }
}

// Quantizes the totals of neighbouring planes, or of a plane's channels.
void quantize_planes(const AverageParams& params, const Channels& channels, int64_t plane,
                     const int32_t* totals, int64_t count, int64_t divisor, uint8_t* output) {
  const auto quantize = params.exact ? quantize_totals : quantize_totals_float32;
  if (channels.is_single()) {
    return quantize(params, channels.of(0, 0), totals, count, divisor, output);
  }
  for (int64_t i = 0; i < count; ++i) {
    const ChannelParams& channel = channels.of(plane + i, i);
    if (params.exact) {
      const int32_t total = totals[i] - static_cast<int32_t>(divisor * channel.input_zero);
      output[i] = quantize_total(params, channel, total, divisor);
    } else {
      quantize_totals_float32(params, channel, totals + i, 1, divisor, output + i);
    }
  }
}

template <typename T>
void average_planes(const PoolShape& shape, const AverageParams& params, const Channels& channels,
                    const T* input, int64_t begin, int64_t end, int32_t* totals, uint8_t* output) {
  constexpr uint8_t kFlip = T(-1) < T(0) ? 0x80 : 0;
  const int64_t inner = shape.inner, pixels = shape.window();
  const T* x = input + begin * pixels * inner;
  if (inner > 1) {
    for (int64_t plane = begin; plane < end; ++plane, x += pixels * inner) {
      sum_channels(x, pixels, inner, totals);
      quantize_planes(params, channels, plane, totals, inner, pixels, output + plane * inner);
    }
    return;
  }
  for (int64_t plane = begin; plane < end; plane += kGroup) {
    const int64_t count = end - plane < kGroup ? end - plane : kGroup;
    int32_t sums[kGroup];
    for (int64_t i = 0; i < count; ++i, x += pixels) {
      const int32_t sum = Simd::sum_bytes(reinterpret_cast<const uint8_t*>(x), pixels, kFlip);
      sums[i] = sum - static_cast<int32_t>(pixels * kFlip);
    }
    quantize_planes(params, channels, plane, sums, count, pixels, output + plane);
  }
}

template <typename T>
bool average_as(const PoolShape& shape, const AverageParams& params, const T* input,
                uint8_t* output, int64_t begin, int64_t end) {
  Channels channels;
  const int64_t outputs = shape.width.outputs;
  std::unique_ptr<int32_t[]> totals(new (std::nothrow) int32_t[outputs * (shape.inner + 1)]);
  if (!totals || !channels.fill(params, shape.inner)) return false;
  int32_t* counts = totals.get() + shape.output_row();
  for (int64_t i = 0; i < outputs; ++i) counts[i] = static_cast<int32_t>(shape.width.count(i));
  if (params.is_global) {
    average_planes(shape, params, channels, input, begin, end, totals.get(), output);
    return true;
  }
  for (int64_t i = begin; i < end; ++i) {
    average_row(shape, params, channels, input, i, counts, totals.get(), output);
  }
  return true;
}

bool average(const PoolShape& shape, const AverageParams& params, const uint8_t* input,
             uint8_t* output, int64_t begin, int64_t end) {
  if (!params.input_signed) return average_as(shape, params, input, output, begin, end);
  return average_as(shape, params, reinterpret_cast<const int8_t*>(input), output, begin, end);
}

}  // namespace

template <>
const PoolingKernels Table<PoolingKernels>::kernels = {maximum, average};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
