// What the convolution's kernels are given: plain data, which the handler fills in.
//
// An image is packed into padded planes, a plane a channel, in which every tap of the kernel is an
// offset (`pack`). Outputs are counted along the planes' rows, so that 64 of them are 64
// neighbouring bytes for any tap; outputs past a row's end are computed and dropped. 64 outputs
// with all their taps and channels make a panel, which blocks of filter rows multiply: an implicit
// GEMM, whose depth is taps * channels.
#ifndef DMLAX_CONVOLUTION_CPU_KERNELS_H_
#define DMLAX_CONVOLUTION_CPU_KERNELS_H_

#include <cstdint>

#include "dmlax/_cpu/gemm/shape.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {

constexpr int64_t kSlack = 384;       // readable bytes after the last plane
constexpr int64_t kMostTapRows = 64;  // kernel rows of a depthwise channel by `taps_fit_one_load`

// A spatial axis.
struct Axis {
  int64_t size, kernel, stride, dilation, start, end, output;
  int64_t shift;         // the last tap's offset in its sub-image
  int64_t phases;        // how many of the `stride` interleaved sub-images the taps meet
  const int64_t* phase;  // which ones, ascending
};

struct ConvShape {
  int64_t images, groups;
  int64_t channels, rows;                   // input channels and filter rows of one group
  int64_t input_channels, output_channels;  // of all groups
  int64_t taps, depth;                      // of a filter row: taps * channels, tap-major
  int64_t input_elements, output_elements;  // of one image
  int64_t output_pixels;                    // of one output channel
  Axis height, width;
  bool input_last, output_last;             // channels last, as in NHWC
  bool input_signed;
};

struct PlaneLayout {
  bool direct;                // the input itself is the planes
  bool taps_fit_one_load;     // depthwise: planes keep neighbouring columns, and a kernel row's
                              // taps of 16 outputs lie within 64 bytes
  uint8_t padding;            // the input zero point's byte
  Axis columns;               // as planes have them: the width, or without its stride
  int64_t step;               // bytes from an output's pixel to the next one's
  int64_t pitch, row_bytes;   // outputs and bytes of a row
  int64_t sub_image, plane, image;  // bytes of a sub-image, of a channel, of all channels
  const int64_t* tap_offsets;       // in a plane
  int64_t outputs, panels;          // of one image, those past a row's end included
};

struct ConvProblem {
  ConvShape shape;
  PlaneLayout layout;
  PanelShape panel;
  RequantizeParams requantize;
};

// Part of a convolution: panels are counted over the images, rows over one group, or over all
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

struct ConvolutionKernels {
  double products_per_ns, requantize_row_ns;  // of one thread, roughly
  bool has_row_kernel;                        // for a layout whose `taps_fit_one_load`

  // Packs channels [first, last) of one image into its planes.
  void (*pack)(const ConvProblem& problem, const uint8_t* image, int64_t first, int64_t last,
               uint8_t* planes);

  // Multiplies one group's rows and panels, several panels at once.
  void (*dense)(const ConvProblem& problem, const TileRange& range);

  // Multiplies rows of all groups, where each has one input channel.
  void (*depthwise)(const ConvProblem& problem, const TileRange& range);
};

namespace {

inline bool is_depthwise(const ConvShape& shape) { return shape.channels == 1; }

}  // namespace
}  // namespace dmlax

#endif  // DMLAX_CONVOLUTION_CPU_KERNELS_H_
