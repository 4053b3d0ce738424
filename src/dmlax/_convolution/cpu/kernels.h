// What the convolution's kernels are given: plain data, which the handler fills in.
//
// An image is packed into padded planes, a plane a channel, in which every tap of the kernel is an
// offset (`pack`). Outputs are counted along the planes' rows, so that 64 of them are 64
// neighbouring bytes for any tap; outputs past a row's end are computed and dropped. 64 outputs
// with all their taps and channels make a panel, which blocks of filter rows multiply: an implicit
// GEMM, whose depth is taps * channels.
//
// Where channels are last, or an image has few pixels, rows are pixels instead and columns output
// channels, so that a filter is packed and not the image (`RowLayout`).
#ifndef DMLAX_CONVOLUTION_CPU_KERNELS_H_
#define DMLAX_CONVOLUTION_CPU_KERNELS_H_

#include <cstdint>

#include "dmlax/_cpu/gemm/prepared_panels.h"
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
  bool panels;                              // the filter is panels, which `multiply_rows` reads
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

// Padded copies of images whose channels are last, in which every tap is an offset from an output's
// position: the sub-images that taps meet under the strides, one after another. Of few channels a
// row of the kernel is one tap, whose pixels are neighbours.
struct PaddedLayout {
  bool kernel_rows;            // are taps
  Axis width;                  // as copies have it: without its stride where kernel rows are taps
  int64_t step;                // bytes from an output's pixel to the next one's
  int64_t pixel_bytes, row_bytes, sub_image, image;
  int64_t rows, columns;       // of a sub-image, columns in steps
  int64_t taps, tap_depth;     // and elements of a tap
  const int64_t* tap_offsets;  // bytes from an output's first pixel
};

// Of a product whose rows are pixels; images and outputs have their channels last.
struct RowLayout {
  bool direct;               // a row is an input's pixel as it is
  bool padded;               // its taps are read from padded copies; else its window is gathered
  int64_t words, row_bytes;  // of a row
  int64_t tap_words;         // in padded copies
  int64_t panel_bytes;       // of 64 output channels' filter
  int64_t panels;            // of one group
  int64_t step;              // rows that a panel multiplies at once
  int64_t rows_at_once;      // that panels multiply one after another
  bool by_image;             // a tile's rows are of one image, and those past an output row's end
                             // are among them; else all images are one
  int64_t images, rows;      // of each image
  int64_t pitch, width;      // rows of an output row, and those that are outputs
  int64_t block_bytes;       // of scratch, for `rows_at_once`
};

enum class Path {
  kPlanes,  // an image's planes, whose pixels are columns
  kRows,    // pixels are rows
  kMatmul,  // the same of a 1x1 kernel: pixels times the filter
  kLines,   // depthwise, a line of pixels at a time
};

struct ConvProblem {
  ConvShape shape;
  Path path;
  bool unpacks_filter;  // panels that the path does not read
  PlaneLayout layout;
  RowLayout rows;
  PaddedLayout padded;
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

// Part of a convolution whose rows are pixels: steps of rows are counted over the images, panels
// over the groups.
struct RowRange {
  const uint8_t* input;   // of the first image, or of its padded copy; channels last
  const uint8_t* panels;  // all of them
  void* output;           // of the first image, channels last
  uint8_t* scratch;       // `row_scratch_bytes`, aligned to 64
  int64_t first_step, last_step;
  int64_t first_panel, last_panel;
};

// Part of a depthwise convolution whose channels are last: lines of outputs are counted over the
// images, blocks are of 64 channels.
struct LineRange {
  const uint8_t* input;  // of the first image
  const int8_t* filter;  // all rows
  void* output;          // of the first image
  uint8_t* scratch;      // `line_scratch_bytes`, aligned to 64
  int64_t first_line, last_line;
  int64_t first_block, last_block;
};

struct ConvolutionKernels {
  double products_per_ns, requantize_row_ns;  // of one thread, roughly
  bool has_row_kernel;                        // for a layout whose `taps_fit_one_load`
  bool prefers_channels_last;                 // to planes, even if images are transposed for it
  bool reads_panels;                          // that are prepared

  // Packs channels [first, last) of one image into its planes.
  void (*pack)(const ConvProblem& problem, const uint8_t* image, int64_t first, int64_t last,
               uint8_t* planes);

  // Multiplies one group's rows and panels, several panels at once.
  void (*dense)(const ConvProblem& problem, const TileRange& range);

  // Multiplies rows of all groups, where each has one input channel.
  void (*depthwise)(const ConvProblem& problem, const TileRange& range);

  // The next are null where an instruction set has no product of rows.

  int64_t element_bytes;  // of a row, for a byte of the input

  void (*lay_out_rows)(ConvProblem& problem);

  // Copies rows [first, last) of the sub-images, counted over the images.
  void (*pad)(const ConvProblem& problem, const uint8_t* input, int64_t first, int64_t last,
              uint8_t* padded);

  // Packs panels [first, last) of a filter.
  void (*pack_filter)(const ConvProblem& problem, const int8_t* filter, int64_t first,
                      int64_t last, uint8_t* panels);

  void (*multiply_rows)(const ConvProblem& problem, const RowRange& range);

  // Depthwise, with one output channel for each of the input.
  void (*multiply_lines)(const ConvProblem& problem, const LineRange& range);

  // target[c * target_stride + r] = source[r * source_stride + c]
  void (*transpose)(uint8_t* target, int64_t target_stride, const uint8_t* source,
                    int64_t source_stride, int64_t rows, int64_t columns);
};

namespace {

constexpr int64_t kRowSumsBytes = 4 * kTileBytes;

inline int64_t row_scratch_bytes(const RowLayout& rows) { return rows.block_bytes + kRowSumsBytes; }

inline int64_t steps_of_image(const RowLayout& rows) {
  return (rows.rows + rows.step - 1) / rows.step;
}

constexpr int64_t kOutputsOfLine = 64;  // whose columns are interleaved at once

inline int64_t tap_quads(const ConvShape& shape) {
  return (shape.height.kernel + kKPack - 1) / kKPack;
}

// Columns of the input, or of its padding, that the outputs of a line meet.
inline int64_t columns_of_line(const Axis& width) {
  const int64_t outputs = width.output < kOutputsOfLine ? width.output : kOutputsOfLine;
  return (outputs - 1) * width.stride + (width.kernel - 1) * width.dilation + 1;
}

// A block's weights, in words of up to 16 bits a tap.
inline int64_t line_weight_bytes(const ConvShape& shape) {
  return 2 * shape.width.kernel * tap_quads(shape) * kQuadBytes;
}

// For the interleaved columns of a line, and what blocks need.
inline int64_t line_scratch_bytes(const ConvShape& shape, int64_t blocks) {
  constexpr int64_t kParameterBytes = 5 * 4 * kPanelWidth;
  const int64_t columns = 2 * columns_of_line(shape.width) * tap_quads(shape) * kQuadBytes;
  return columns + blocks * (line_weight_bytes(shape) + kParameterBytes);
}

inline bool is_depthwise(const ConvShape& shape) { return shape.channels == 1; }

inline PreparedPanels prepared_panels(const ConvShape& shape) {
  return {shape.groups, shape.rows, shape.depth};
}

// Whether an output's pixel is the input's of the same position.
inline bool is_matrix_product(const ConvShape& shape) {
  const Axis &height = shape.height, &width = shape.width;
  return shape.taps == 1 && height.stride == 1 && width.stride == 1 &&
         height.start + height.end + width.start + width.end == 0;
}

// Of an output's element.
inline int64_t output_bytes(const ConvProblem& problem) {
  return problem.requantize.quantized ? 1 : 4;
}

}  // namespace
}  // namespace dmlax

#endif  // DMLAX_CONVOLUTION_CPU_KERNELS_H_
