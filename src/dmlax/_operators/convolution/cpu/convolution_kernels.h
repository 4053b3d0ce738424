// The convolution's kernels and their arguments, which the handler fills in.
//
// An image is packed into padded planes, one for each channel, in which every tap of the kernel is
// an offset (`pack`). Outputs are counted along the planes' rows, so that 64 outputs are 64
// neighbouring bytes for any tap. Outputs past a row's end are computed and dropped. A panel has 64
// outputs with all their taps and channels. Blocks of filter rows multiply it: an implicit GEMM of
// depth taps * channels.
//
// If channels are last, or an image has few pixels, rows are pixels and columns are output
// channels, so that the filter is packed and not the image (`RowLayout`).
#pragma once

#include "dmlax/_cpu/gemm/shape.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {

constexpr int64_t kSlack = 384;       // readable bytes after the last plane
constexpr int64_t kMostTapRows = 64;  // kernel rows of a depthwise channel with `taps_fit_one_load`

// A spatial axis.
struct Axis {
  int64_t size, kernel, stride, dilation, start, end, output;
  int64_t shift = 0;   // the last tap's offset in its sub-image
  int64_t phases = 0;  // the number of the `stride` interleaved sub-images that taps use
  const int64_t* phase = nullptr;  // those sub-images, in ascending order
};

struct ConvShape {
  int64_t images, groups;
  int64_t channels, rows;                   // input channels and filter rows of one group
  int64_t input_channels, output_channels;  // channels of all groups
  int64_t taps, depth;                      // a filter row's: taps * channels, tap-major
  int64_t input_elements, output_elements;  // elements of one image
  int64_t output_pixels;                    // pixels of one output channel
  Axis height, width;
  bool input_last, output_last;  // channels last, as in NHWC
  bool input_signed;
  bool panels;  // the filter is in panels, which `multiply_rows` reads
};

struct PlaneLayout {
  bool direct;                      // the input is used as planes
  bool taps_fit_one_load;           // depthwise: planes keep neighbouring columns, and 64
                                    // bytes hold the taps of a kernel row for 16 outputs
  uint8_t padding;                  // the byte of the input's zero point
  Axis columns;                     // columns of planes: the width, possibly without its stride
  int64_t step;                     // bytes between neighbouring outputs' pixels
  int64_t pitch, row_bytes;         // outputs and bytes of a row
  int64_t sub_image, plane, image;  // bytes of a sub-image, of a channel, of all channels
  const int64_t* tap_offsets;       // offsets in a plane
  int64_t outputs, panels;          // one image's, including outputs past a row's end
};

// Padded copies of images whose channels are last. Every tap is an offset from an output's
// position. A copy has the sub-images that taps use under the strides, one after another. If there
// are few channels, a kernel row is one tap, whose pixels are neighbours.
struct PaddedLayout {
  bool kernel_rows;  // kernel rows are taps
  Axis width;        // columns of copies, without a stride if kernel rows are taps
  int64_t step;      // bytes between neighbouring outputs' pixels
  int64_t pixel_bytes, row_bytes, sub_image, image;
  int64_t rows, columns;       // a sub-image's; columns count steps
  int64_t taps, tap_depth;     // the number of taps, and the elements of a tap
  const int64_t* tap_offsets;  // bytes from an output's first pixel
};

// Layout of a product whose rows are pixels. Images and outputs have their channels last.
struct RowLayout {
  bool direct;               // a row is a pixel of the input as it is
  bool padded;               // taps are read from padded copies; else windows are gathered
  int64_t words, row_bytes;  // words and bytes of a row
  int64_t tap_words;         // words of a tap in padded copies
  int64_t panel_bytes;       // bytes of the filter of 64 output channels
  int64_t panels;            // panels of one group
  int64_t step;              // rows that a panel multiplies at once
  int64_t rows_at_once;      // rows that panels multiply one after another
  bool by_image;             // the rows of a tile are of one image, and include rows past an
                             // output row's end; else all images count as one
  int64_t images, rows;      // rows of each image
  int64_t pitch, width;      // rows of an output row, and the rows that are outputs
  int64_t block_bytes;       // scratch for `rows_at_once`
};

enum class Path {
  kPlanes,   // planes of an image, whose pixels are columns
  kRows,     // pixels are rows
  kProduct,  // a 1x1 kernel: a matrix product of pixels and filter
  kLines,    // depthwise, a line of pixels at a time
};

struct ConvProblem {
  ConvShape shape;
  Path path;
  bool unpacks_filter;  // the path does not read panels
  PlaneLayout layout;
  RowLayout rows;
  PaddedLayout padded;
  PanelShape panel;
  RequantizeParams requantize;
};

// A part of a convolution. Panels are counted over the images, rows over one group, or over all
// output channels if depthwise.
struct TileRange {
  const uint8_t* planes;  // the first image from channel 0 on
  const int8_t* filter;   // all rows
  void* output;           // the first image
  uint8_t* scratch;       // `scratch_bytes`, aligned to 64
  int64_t group;
  int64_t first_panel, last_panel;
  int64_t first_row, last_row;
};

// A part of a convolution whose rows are pixels. Steps of rows are counted over the images, panels
// over the groups.
struct RowRange {
  const uint8_t* input;   // the first image or its padded copy; channels last
  const uint8_t* panels;  // all panels
  void* output;           // the first image, channels last
  uint8_t* scratch;       // `row_scratch_bytes`, aligned to 64
  int64_t first_step, last_step;
  int64_t first_panel, last_panel;
};

// A part of a depthwise convolution whose channels are last. Lines of outputs are counted over the
// images; a block has 64 channels.
struct LineRange {
  const uint8_t* input;  // the first image
  const int8_t* filter;  // all rows
  void* output;          // the first image
  uint8_t* scratch;      // `line_scratch_bytes`, aligned to 64
  int64_t first_line, last_line;
  int64_t first_block, last_block;
};

struct ConvolutionKernels {
  double products_per_ns, requantize_row_ns;  // approximate speed of one thread
  bool has_row_kernel;                        // layouts with `taps_fit_one_load` have it
  bool prefers_channels_last;                 // even if images must be transposed
  bool reads_panels;                          // multiplies prepared panels as they are

  // Packs channels [first, last) of one image into its planes.
  void (*pack)(const ConvProblem& problem, const uint8_t* image, int64_t first, int64_t last,
               uint8_t* planes);

  // Multiplies one group's rows by panels, several panels at a time.
  void (*dense)(const ConvProblem& problem, const TileRange& range);

  // Multiplies rows of all groups, which have one input channel each.
  void (*depthwise)(const ConvProblem& problem, const TileRange& range);

  // target[c * target_stride + r] = source[r * source_stride + c]
  void (*transpose)(uint8_t* target, int64_t target_stride, const uint8_t* source,
                    int64_t source_stride, int64_t rows, int64_t columns);

  // The members below stay null if the instruction set has no product of rows.

  int64_t element_bytes = 0;  // a row's bytes for a byte of the input

  void (*lay_out_rows)(ConvProblem& problem) = nullptr;

  // Copies rows [first, last) of the sub-images, counted over the images.
  void (*pad)(const ConvProblem& problem, const uint8_t* input, int64_t first, int64_t last,
              uint8_t* padded) = nullptr;

  // Packs panels [first, last) of a filter.
  void (*pack_filter)(const ConvProblem& problem, const int8_t* filter, int64_t first, int64_t last,
                      uint8_t* panels) = nullptr;

  void (*multiply_rows)(const ConvProblem& problem, const RowRange& range) = nullptr;

  // Depthwise, with one output channel for each input channel.
  void (*multiply_lines)(const ConvProblem& problem, const LineRange& range) = nullptr;
};

namespace {

constexpr int64_t kRowSumsBytes = 4 * kTileBytes;

inline int64_t row_scratch_bytes(const RowLayout& rows) { return rows.block_bytes + kRowSumsBytes; }

inline int64_t steps_of_image(const RowLayout& rows) {
  return (rows.rows + rows.step - 1) / rows.step;
}

constexpr int64_t kOutputsOfLine = 64;  // outputs whose columns are interleaved at once

inline int64_t tap_quads(const ConvShape& shape) {
  return (shape.height.kernel + kKPack - 1) / kKPack;
}

// The number of input columns, padding included, that the outputs of a line read.
inline int64_t columns_of_line(const Axis& width) {
  const int64_t outputs = width.output < kOutputsOfLine ? width.output : kOutputsOfLine;
  return (outputs - 1) * width.stride + (width.kernel - 1) * width.dilation + 1;
}

// The bytes of a block's weights, in words of up to 16 bits a tap.
inline int64_t line_weight_bytes(const ConvShape& shape) {
  return 2 * shape.width.kernel * tap_quads(shape) * kQuadBytes;
}

// The bytes for a line's interleaved columns and for the blocks.
inline int64_t line_scratch_bytes(const ConvShape& shape, int64_t blocks) {
  constexpr int64_t kParameterBytes = 5 * 4 * kPanelWidth;
  const int64_t columns = 2 * columns_of_line(shape.width) * tap_quads(shape) * kQuadBytes;
  return columns + blocks * (line_weight_bytes(shape) + kParameterBytes);
}

inline bool is_depthwise(const ConvShape& shape) { return shape.channels == 1; }

inline PreparedPanels prepared_panels(const ConvShape& shape) {
  return {shape.groups, shape.rows, shape.depth};
}

// Whether an output's pixel reads only the input's pixel of the same position.
inline bool is_matrix_product(const ConvShape& shape) {
  const Axis &height = shape.height, &width = shape.width;
  return shape.taps == 1 && height.stride == 1 && width.stride == 1 &&
         height.start + height.end + width.start + width.end == 0;
}

// The bytes of an output's element.
inline int64_t output_bytes(const ConvProblem& problem) {
  return problem.requantize.quantized ? 1 : 4;
}

}  // namespace
}  // namespace dmlax
