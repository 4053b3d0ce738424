// What the convolution's kernels are given; the handler in convolution.cc fills it in.
//
// An image is packed into padded planes, a plane a channel, in which every tap of the kernel is an
// offset (`pack`). Output cells are counted over the planes' rows, so that 64 of them are 64
// neighbouring bytes for any tap; cells past a row's end are computed and dropped. 64 cells with
// all their taps and channels, four of these together, make a panel, which filter rows multiply.
#ifndef DMLAX_CONVOLUTION_CPU_KERNELS_H_
#define DMLAX_CONVOLUTION_CPU_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {

constexpr int64_t kCells = 64;      // of a panel
constexpr int64_t kRows = 32;       // filter rows that are multiplied together
constexpr int64_t kQuadBytes = 4 * kCells;
constexpr int64_t kSlack = 384;     // readable bytes after the last plane
constexpr int64_t kMostTapRows = 64;  // kernel rows of a depthwise channel by `taps_fit_one_load`
constexpr int64_t kDepthStep = 64;  // a panel's depth is padded with zeros to a multiple of this

// A spatial axis.
struct Axis {
  int64_t size, kernel, stride, dilation, start, end, output;
  int64_t phases;         // how many of the `stride` interleaved sub-images the taps meet
  const int64_t* phase;   // which ones, ascending
  int64_t shift;          // the last tap's offset in its sub-image
};

// One output channel's constants.
struct Channels {
  const int32_t* offset;       // bias and zero points' terms
  const int32_t* filter_zero;  // of the packed values; null where all are 0
  const float* estimate;
  const float* band;
  const uint32_t *input_scale, *filter_scale, *output_scale;
  int64_t filter_scales;       // one, or one per output channel

  Scales scales(int64_t channel) const {
    return {*input_scale, filter_scale[filter_scales == 1 ? 0 : channel], *output_scale};
  }
};

enum class Output : int { int32, exact, float32 };

struct ConvProblem {
  int64_t images, groups, channels, rows;  // channels and filter rows of one group
  int64_t depth;                           // taps * channels of one group, tap-major
  Axis height, width;
  bool input_last, output_last;            // channels last, as in NHWC
  bool flip;                               // int8 input: its sign bits are turned over
  bool direct;                             // the input itself is the planes
  uint8_t padding;                         // the input zero point, before `flip`

  Axis columns;                            // as planes have them: `width`, or without its stride
  int64_t step;                            // bytes from a cell to the next one
  bool taps_fit_one_load;                          // depthwise: planes keep neighbouring columns, and a
                                           // kernel row's taps of 16 cells lie within 64 bytes
  int64_t pitch, sub_image, plane;         // cells of a row; bytes of a sub-image, of a channel
  const int64_t* taps;                     // each tap's offset in a plane
  int64_t cells, panels;                   // of one image

  Output output;
  bool output_signed;
  int32_t output_zero;
  float low, high;                         // what estimates are clamped to
  Channels constants;

  int64_t all_channels() const { return groups * channels; }
  int64_t all_rows() const { return groups * rows; }
  int64_t taps_count() const { return height.kernel * width.kernel; }
  int64_t image_bytes() const { return all_channels() * plane; }
  int64_t output_cells() const { return height.output * width.output; }
  int64_t padded_depth() const { return (depth + kDepthStep - 1) / kDepthStep * kDepthStep; }
  // A panel is followed by its cells' sums.
  int64_t panel_bytes() const { return padded_depth() * kCells + kCells * 4; }
  bool depthwise() const { return channels == 1; }
  int64_t row_bytes() const { return pitch * step; }
};

// TileRange of a convolution: panels are counted over the images, rows over one group, or over all
// output channels if depthwise.
struct TileRange {
  const uint8_t* planes;  // of the first image, from its channel 0
  const int8_t* filter;   // all rows
  void* output;           // of the first image
  uint8_t* scratch;       // `scratch_bytes`, aligned to 64
  int64_t group;
  int64_t first_panel, last_panel;
  int64_t first_row, last_row;
};

// What part() needs for panels that it makes at once.
constexpr int64_t kPanelsBytes = 3 << 17;
constexpr int64_t kMostPanels = 16;
constexpr int64_t kTileBytes = kRows * kCells * 4;

inline int64_t panels_at_once(const ConvProblem& job) {
  if (job.depthwise()) return 1;
  const int64_t fit = kPanelsBytes / job.panel_bytes();
  return fit < 1 ? 1 : fit > kMostPanels ? kMostPanels : fit;
}

inline int64_t scratch_bytes(const ConvProblem& job) {
  return 3 * kTileBytes + panels_at_once(job) * job.panel_bytes();
}

struct ConvolutionKernels {
  // Whether they make use of a job's `taps_fit_one_load`.
  bool has_row_kernel;

  // Packs channels [first, last) of one image into its planes.
  void (*pack)(const ConvProblem& job, const uint8_t* image, int64_t first, int64_t last, uint8_t* planes);

  // One group's rows and panels, several panels at once.
  void (*dense)(const ConvProblem& job, const TileRange& part);

  // One input channel a group: rows of all groups.
  void (*depthwise)(const ConvProblem& job, const TileRange& part);
};

#define DMLAX_DECLARE(isa)                              \
  namespace isa {                                       \
  extern const ConvolutionKernels convolution_kernels; \
  }
DMLAX_FOR_EACH_ISA(DMLAX_DECLARE)
#undef DMLAX_DECLARE

}  // namespace dmlax

#endif  // DMLAX_CONVOLUTION_CPU_KERNELS_H_
