// Kernels of the pools, for one instruction set.
#pragma once

#include <algorithm>

#include "dmlax/_cpu/tuning.h"

namespace dmlax {

// The windows along one axis.
struct PoolAxis {
  int64_t size, outputs, window, stride, dilation, start;

  int64_t span() const { return (window - 1) * dilation + 1; }

  // The pixels from the start of the first window to the end of the last.
  int64_t extent() const { return (outputs - 1) * stride + span(); }

  // The first pixel of an output's window, which may be padding.
  int64_t first(int64_t output) const { return output * stride - start; }

  // The elements [begin, end) of an output's window inside the image. There are none if end <=
  // begin.
  void inside(int64_t output, int64_t& begin, int64_t& end) const {
    const int64_t pixel = first(output), last = pixel + span() - 1;
    begin = pixel >= 0 ? 0 : (dilation - 1 - pixel) / dilation;
    end = last < size ? window : pixel >= size ? 0 : (size - 1 - pixel) / dilation + 1;
  }

  int64_t count(int64_t output) const {
    int64_t begin, end;
    inside(output, begin, end);
    return std::max<int64_t>(0, end - begin);
  }

  // The outputs [begin, end) whose window has its k-th element inside the image.
  void reached(int64_t k, int64_t& begin, int64_t& end) const {
    const int64_t offset = k * dilation - start;
    begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const int64_t last = size - 1 - offset;
    end = last < 0 ? 0 : std::min(outputs, last / stride + 1);
  }
};

// Planes of depth, height and width. A pixel has `inner` channels if channels are last, else 1.
struct PoolShape {
  PoolAxis depth, height, width;
  int64_t planes, inner;

  int64_t rows() const { return planes * depth.outputs * height.outputs; }
  int64_t input_row() const { return width.size * inner; }
  int64_t output_row() const { return width.outputs * inner; }
  int64_t window() const { return depth.window * height.window * width.window; }

  // The elements of a row with its padding.
  int64_t padded_row() const { return width.extent() * inner; }

  // Whether a row is mostly padding. `maximum` then makes no copy.
  bool is_mostly_padding() const {
    return padded_row() > tuning::kPoolLongRow && padded_row() / 8 > input_row() + output_row();
  }

  // The scratch bytes of a call of `maximum`.
  int64_t scratch_bytes() const { return is_mostly_padding() ? 0 : 2 * (padded_row() + 64); }
};

// One value for all channels, or one for each.
template <typename T>
struct PerChannel {
  const T* values;
  bool one_each;

  T at(int64_t channel) const { return values[one_each ? channel : 0]; }
};

struct AverageParams {
  PerChannel<uint32_t> input_scale, output_scale;  // bits of float32
  PerChannel<uint8_t> input_zero, output_zero;
  int64_t channels;
  bool input_signed, output_signed, include_padding;
  bool exact;      // else ONNX Runtime's float32
  bool is_global;  // the window is the plane
};

struct PoolingKernels {
  // Computes output rows [begin, end).
  void (*maximum)(const PoolShape& shape, bool is_signed, const uint8_t* input, uint8_t* output,
                  int64_t begin, int64_t end, uint8_t* scratch);

  // Computes output rows [begin, end). Returns false if there is no memory.
  bool (*average)(const PoolShape& shape, const AverageParams& params, const uint8_t* input,
                  uint8_t* output, int64_t begin, int64_t end);
};

}  // namespace dmlax
