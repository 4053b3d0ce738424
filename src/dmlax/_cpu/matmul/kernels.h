// What the kernels of a matrix product are given: plain data, which the handler fills in.
//
// Rows of A are multiplied by panels of 64 columns of B, by `gemm/rows.h` or, where the instruction
// set has no product of rows, by `gemm/microkernel.h`. Few rows are multiplied by the columns of a
// transposed B as it is. Bytes of the other sign than a path multiplies are moved by 128, and so are
// their zero points.
#ifndef DMLAX_CPU_MATMUL_KERNELS_H_
#define DMLAX_CPU_MATMUL_KERNELS_H_

#include <cstdint>

#include "dmlax/_cpu/gemm/shape.h"
#include "dmlax/_cpu/requantize.h"

namespace dmlax {

enum class MatmulPath {
  kRows,        // rows of unsigned bytes, panels of signed ones
  kNarrowRows,  // the same, of columns within -kMostNarrow to kMostNarrow
  kPanels,      // rows of signed bytes, panels of unsigned ones
  kDots,        // few rows: each column's dot product, of a matrix that is transposed
  kColumns,     // a vector of rows: A is packed, and columns of a transposed B are read as they are
};

struct MatmulShape {
  int64_t rows, depth, columns;
  bool a_signed, b_signed;
  bool b_transposed;  // (columns, depth), as a prepared matrix is
  bool b_panels;      // panels, which kRows reads as they are
};

struct MatmulLayout {
  bool direct;               // rows are multiplied as they are
  int64_t words, row_bytes;  // of a row that is packed
  int64_t panel_bytes;       // of 64 columns, and their sums
  int64_t panels;
  int64_t packed_rows_bytes; // of A, where all threads read them; else 0
  int64_t step;              // rows that a panel multiplies at once
  int64_t rows_at_once;      // that are packed before panels are multiplied
};

// One product. Zero points are those of the bytes that are multiplied.
struct MatmulProblem {
  MatmulShape shape;
  MatmulPath path;
  MatmulLayout layout;
  const uint8_t *a, *b;
  void* output;
  const int32_t* a_zeros;      // one per row, or null: then `a_zero` is every row's
  int32_t a_zero;
  bool needs_column_sums;      // a zero point of A is not 0
  const int32_t* column_sums;  // of B as signed bytes, or null
  const int32_t* wide_bias;    // where adding it to a sum may overflow; else it is in `offset`
  RequantizeParams requantize;  // `filter_zero` are B's zero points; channels are columns
  bool scaled;                 // outputs are floats: `sum * factor + addend`
  const float* factors;        // of scaled outputs, one per column
  const float* addends;        // one per column, or null for 0
};

// Part of a product.
struct MatmulRange {
  const uint8_t* rows;    // all of them, packed; read where `packed_rows_bytes` is not 0
  const uint8_t* panels;  // all of them, or null: then they are packed when they are met
  uint8_t* scratch;       // `matmul_scratch_bytes`, aligned to 64
  int64_t first_row, last_row;
  int64_t first_panel, last_panel;
};

struct MatmulKernels {
  double products_per_ns, requantize_row_ns;  // of one thread, roughly
  bool multiplies_rows;                       // has all paths; else kPanels alone
  bool reads_panels;                          // that are prepared
  int64_t most_unpacked;                      // rows of kColumns
  bool multiplies_narrow_rows;                // faster than others

  void (*lay_out)(MatmulProblem& problem);

  // Packs panels [first, last).
  void (*pack)(const MatmulProblem& problem, int64_t first, int64_t last, uint8_t* scratch,
               uint8_t* panels);

  // Packs all rows of A, where `packed_rows_bytes` is not 0.
  void (*pack_rows)(const MatmulProblem& problem, uint8_t* scratch, uint8_t* rows);

  void (*multiply)(const MatmulProblem& problem, const MatmulRange& range);

  // Replaces the range's int32 sums by floats: `sum * factor + addend`, each rounded.
  void (*scale)(const MatmulProblem& problem, const MatmulRange& range);
};

constexpr int64_t kFewRows = 4;     // for which to pack a panel would take longest
constexpr int64_t kSumsBytes = 4 * kTileBytes;
constexpr int64_t kMostNarrow = 64;  // two products with unsigned bytes fit 16 bits

namespace {

inline bool has_unsigned_rows(MatmulPath path) { return path != MatmulPath::kPanels; }

// For rows that are packed, two more, their sums, the sums of some blocks, a panel and its
// transposition.
inline int64_t matmul_scratch_bytes(const MatmulLayout& layout) {
  const int64_t rows = layout.direct ? 0 : layout.rows_at_once;
  return round_up((rows + 2) * layout.row_bytes, 64) + round_up(layout.rows_at_once * 4, 64) +
         kSumsBytes + 2 * layout.panel_bytes + 1024;
}

}  // namespace
}  // namespace dmlax

#endif  // DMLAX_CPU_MATMUL_KERNELS_H_
