// The parts of the pools that depend on the instruction set.
#ifndef DMLAX_POOLING_CPU_KERNELS_H_
#define DMLAX_POOLING_CPU_KERNELS_H_

#include <algorithm>
#include <cstdint>

namespace dmlax {

// The windows along one axis.
struct PoolAxis {
  int64_t size, outputs, window, stride, dilation, start;

  int64_t span() const { return (window - 1) * dilation + 1; }

  // The pixels from the first window's first to the last one's last.
  int64_t extent() const { return (outputs - 1) * stride + span(); }

  // The first pixel of an output's window, which padding may hold.
  int64_t first(int64_t output) const { return output * stride - start; }

  // The elements of an output's window inside the image: from `begin` to `end`, none if these are
  // the other way round.
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

  // The outputs whose window has its k-th element inside the image: from `begin` to `end`.
  void reached(int64_t k, int64_t& begin, int64_t& end) const {
    const int64_t offset = k * dilation - start;
    begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const int64_t last = size - 1 - offset;
    end = last < 0 ? 0 : std::min(outputs, last / stride + 1);
  }
};

// Planes of depth, height and width; of channels that are last, `inner` belong to a pixel.
struct PoolShape {
  PoolAxis depth, height, width;
  int64_t planes, inner;

  int64_t rows() const { return planes * depth.outputs * height.outputs; }
  int64_t input_row() const { return width.size * inner; }
  int64_t output_row() const { return width.outputs * inner; }
  int64_t window() const { return depth.window * height.window * width.window; }

  // The bytes of a row with its padding.
  int64_t padded_row() const { return width.extent() * inner; }

  // Whether a row is mostly padding, of which `maximum` then makes no copy.
  bool is_mostly_padding() const {
    constexpr int64_t kLong = 1 << 16;
    return padded_row() > kLong && padded_row() / 8 > input_row() + output_row();
  }

  // Bytes that a call of `maximum` needs.
  int64_t scratch_bytes() const { return is_mostly_padding() ? 0 : 2 * (padded_row() + 64); }
};

// One value for all channels, or one each.
template <typename T>
struct PerChannel {
  const T* values;
  bool one_each;

  T at(int64_t channel) const { return values[one_each ? channel : 0]; }
};

struct AverageParams {
  PerChannel<uint32_t> input_scale, output_scale;  // their bits
  PerChannel<uint8_t> input_zero, output_zero;
  int64_t channels;
  bool input_signed, output_signed, include_padding;
  bool exact;      // otherwise ONNX Runtime's float32
  bool is_global;  // one window, which is the plane
};

struct PoolingKernels {
  // The output's rows from `begin` to `end`.
  void (*maximum)(const PoolShape& shape, bool is_signed, const uint8_t* input, uint8_t* output,
                  int64_t begin, int64_t end, uint8_t* scratch);

  // False where there is no memory.
  bool (*average)(const PoolShape& shape, const AverageParams& params, const uint8_t* input,
                  uint8_t* output, int64_t begin, int64_t end);
};

}  // namespace dmlax

#endif  // DMLAX_POOLING_CPU_KERNELS_H_
