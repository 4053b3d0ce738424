// The kernels of a matrix product and their arguments, which the handler fills in.
//
// Rows of A are multiplied by panels of 64 columns of B: by `gemm/rows.h`, or by
// `gemm/microkernel.h` on sets without a product of rows. Few rows are multiplied by the columns of
// a transposed B in place. Bytes whose sign a path does not multiply are moved by 128, and so are
// their zero points.
#pragma once

#include "dmlax/_cpu/gemm/shape.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {

enum class ProductPath {
  kRows,        // rows of unsigned bytes, panels of signed ones
  kNarrowRows,  // kRows with columns within -kMostNarrow to kMostNarrow
  kPanels,      // rows of signed bytes, panels of unsigned ones
  kUnpacked,    // kPanels for few rows: B is read in its order, a few rows at a time
  kDots,        // few rows: a dot product for each column of a transposed B
  kColumns,     // up to a vector of packed rows; columns of a transposed B are read in place
};

struct ProductShape {
  int64_t rows, depth, columns;
  bool a_signed, b_signed;
  bool b_transposed;  // (columns, depth), as in a prepared matrix
  bool b_panels;      // panels, which kRows reads as they are
};

struct ProductLayout {
  bool direct;               // rows are multiplied in place
  int64_t words, row_bytes;  // words and bytes of a packed row
  int64_t panel_bytes;       // bytes of 64 columns and their sums
  int64_t panels;
  int64_t packed_rows_bytes;  // A's packed rows if all threads read them, else 0
  int64_t step;               // rows that a panel multiplies at once
  int64_t rows_at_once;       // rows that are packed before panels are multiplied
};

// One product. Zero points belong to the bytes that are multiplied.
struct ProductProblem {
  ProductShape shape;
  ProductPath path;
  ProductLayout layout;
  const uint8_t *a, *b;
  void* output;
  const int32_t* a_zeros;  // one per row; null: all rows have `a_zero`
  int32_t a_zero;
  bool needs_column_sums;       // a zero point of A is not 0
  const int32_t* column_sums;   // B's column sums as signed bytes, or null
  const int32_t* wide_bias;     // if adding it may overflow a sum; else `offset` has it
  RequantizeParams requantize;  // `filter_zero`: zero points of B; channels: columns
  bool scaled;                  // outputs are floats: `sum * factor + addend`
  const float* factors;         // one per column of scaled outputs
  const float* addends;         // one per column; null: 0
};

// A part of a product.
struct ProductRange {
  const uint8_t* rows;    // all packed rows, if `packed_rows_bytes` is not 0
  const uint8_t* panels;  // all panels; null: the kernel packs them
  uint8_t* scratch;       // `product_scratch_bytes`, aligned to 64
  int64_t first_row, last_row;
  int64_t first_panel, last_panel;
};

// The kernels of one path.
struct PathKernels {
  void (*lay_out)(ProductProblem& problem);

  // Packs panels [first, last).
  void (*pack)(const ProductProblem& problem, int64_t first, int64_t last, uint8_t* scratch,
               uint8_t* panels);

  // Packs all rows of A if `packed_rows_bytes` is not 0.
  void (*pack_rows)(const ProductProblem& problem, uint8_t* scratch, uint8_t* rows);

  void (*multiply)(const ProductProblem& problem, const ProductRange& range);
};

struct ProductKernels {
  double products_per_ns, requantize_row_ns;  // approximate speed of one thread
  bool multiplies_rows;                       // has all paths; else kPanels and kUnpacked
  bool reads_panels;                          // multiplies prepared panels as they are
  int64_t most_unpacked;                      // rows of kColumns
  bool multiplies_narrow_rows;                // kNarrowRows is faster than kRows

  const PathKernels& (*path)(ProductPath path);

  // Replaces a range's int32 sums by floats: `sum * factor + addend`, rounded after each operation.
  void (*scale)(const ProductProblem& problem, const ProductRange& range);
};

constexpr int64_t kSumsBytes = 4 * kTileBytes;
constexpr int64_t kMostNarrow = 64;  // two products with unsigned bytes fit 16 bits

namespace {

inline bool has_unsigned_rows(ProductPath path) {
  return path != ProductPath::kPanels && path != ProductPath::kUnpacked;
}

// Whether a path packs B's columns, unless they are packed already.
inline bool packs_columns(ProductPath path) {
  return path == ProductPath::kRows || path == ProductPath::kNarrowRows ||
         path == ProductPath::kPanels;
}

// The bytes for packed rows and two more, their sums, the sums of some blocks, a panel and its
// transposition.
inline int64_t product_scratch_bytes(const ProductLayout& layout) {
  const int64_t rows = layout.direct ? 0 : layout.rows_at_once;
  return round_up((rows + 2) * layout.row_bytes, 64) + round_up(layout.rows_at_once * 4, 64) +
         kSumsBytes + 2 * layout.panel_bytes + 1024;
}

}  // namespace
}  // namespace dmlax
