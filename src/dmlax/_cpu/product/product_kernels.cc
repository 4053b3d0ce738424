// Kernels of matrix products, compiled once for each instruction set.
#include "dmlax/_cpu/product/product_kernels.h"

#include "dmlax/_cpu/gemm/rows.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// Layout of a thread's scratch memory.
struct Scratch {
  uint8_t *rows, *spare;
  int32_t *row_sums, *acc;
  uint8_t *panel, *transposed;

  Scratch(const ProductLayout& layout, uint8_t* memory) : rows(memory) {
    const int64_t count = layout.direct ? 0 : layout.rows_at_once;
    spare = rows + count * layout.row_bytes;
    memory += round_up((count + 2) * layout.row_bytes, 64);
    row_sums = reinterpret_cast<int32_t*>(memory);
    memory += round_up(layout.rows_at_once * 4, 64);
    acc = reinterpret_cast<int32_t*>(memory);
    panel = memory + kSumsBytes;
    transposed = panel + round_up(layout.panel_bytes, 64);
  }
};

inline int64_t columns_of(const ProductShape& shape, int64_t panel) {
  return least(shape.columns - panel * kPanelWidth, kPanelWidth);
}

inline const uint8_t* first_of(const ProductProblem& problem, int64_t panel) {
  const int64_t column = panel * kPanelWidth;
  return problem.b + (problem.shape.b_transposed ? column * problem.shape.depth : column);
}

// Copies the sums of a panel's columns.
inline void copy_column_sums(const ProductProblem& problem, int64_t panel, int32_t* to) {
  const size_t bytes = static_cast<size_t>(columns_of(problem.shape, panel)) * 4;
  __builtin_memcpy(to, problem.column_sums + panel * kPanelWidth, bytes);
}

inline int32_t* sums_of(const ProductLayout& layout, uint8_t* panel) {
  return reinterpret_cast<int32_t*>(panel + layout.panel_bytes - kPanelWidth * 4);
}

// --- products of rows, where the instruction set has them

template <typename S>
struct RowProduct {
  static constexpr bool kInOrder = true, kAddsToTerms = true, kReadsColumns = false;
  static constexpr int64_t kRows = RowMicrokernel::kMostRows<S>;
  static constexpr int64_t kRowStep = RowMicrokernel::kRowsOfBlock<S>;
  RowMicrokernel microkernel;

  static int64_t rows_at_once(const ProductLayout& layout) {
    return RowMicrokernel::rows_at_once<S>(layout.words);
  }

  static void lay_out(ProductProblem& problem) {
    const ProductShape& shape = problem.shape;
    ProductLayout& layout = problem.layout;
    const int64_t quads = RowMicrokernel::words_of(shape.depth);
    layout.words = quads * S::kWordsOfQuad;
    layout.direct = S::kWordsOfQuad == 1 && !shape.a_signed && shape.depth == kKPack * quads;
    layout.row_bytes = round_up(4 * layout.words, 64) + 64;
    layout.panel_bytes = layout.words * 4 * kPanelWidth + kPanelWidth * 4;
    if (shape.b_panels) {
      layout.panel_bytes = PreparedPanels{1, shape.columns, shape.depth}.panel_bytes();
    }
  }

  static void pack_panel(const ProductProblem& problem, int64_t panel, const Scratch& scratch,
                         uint8_t* target) {
    const ProductShape& shape = problem.shape;
    const int64_t columns = columns_of(shape, panel);
    const int64_t quads = problem.layout.words / S::kWordsOfQuad;
    const uint8_t* from = first_of(problem, panel);
    if (shape.b_transposed) {
      const auto* first = reinterpret_cast<const int8_t*>(from);
      pack_columns<S>({first, shape.depth, shape.depth, columns}, quads, quads, target);
    } else {
      pack_matrix<S>(from, shape.columns, shape.depth, shape.columns - panel * kPanelWidth,
                     shape.b_signed ? 0 : 128, quads, target);
    }
    if (!problem.needs_column_sums) return;
    if (problem.column_sums == nullptr) {
      sum_panel(problem, columns, scratch.spare, target);
    } else {
      copy_column_sums(problem, panel, sums_of(problem.layout, target));
    }
  }

  const uint8_t* pack_rows(const ProductProblem& problem, int64_t row, int64_t count,
                           const Scratch& scratch, int64_t& stride) const {
    const ProductShape& shape = problem.shape;
    const uint8_t* from = problem.a + row * shape.depth;
    stride = shape.depth;
    if (problem.layout.direct) return from;
    stride = problem.layout.row_bytes;
    const int64_t packed = S::kWordsOfQuad * shape.depth;
    const int64_t padding = 4 * problem.layout.words - packed;
    uint8_t* to = scratch.rows;
    for (int64_t i = 0; i < count; ++i, to += stride, from += shape.depth) {
      S::pack_row(to, from, shape.depth, shape.a_signed ? 128 : 0);
      if (S::kWordsOfQuad == 1) __builtin_memset(to + packed, 0, static_cast<size_t>(padding));
    }
    return scratch.rows;
  }

  static int32_t sum_of(const ProductProblem& problem, const uint8_t* row) {
    return sum_row<S>(row, problem.layout.words);
  }

  // Multiplies rows by a panel. Every column's sums start at `initial`.
  void multiply(const ProductProblem&, const Rows& rows, const uint8_t* panel, int64_t columns,
                const int32_t* initial, int32_t* acc, int64_t acc_stride) {
    microkernel.template multiply<S>(rows, panel, columns, initial, acc, acc_stride);
  }

 private:
  // Sums a panel's columns by multiplying a row of ones.
  static void sum_panel(const ProductProblem& problem, int64_t columns, uint8_t* ones,
                        uint8_t* panel) {
    const int64_t bytes = 4 * problem.layout.words;
    if (S::kWordsOfQuad == 1) {
      __builtin_memset(ones, 1, static_cast<size_t>(bytes));
    } else {
      int16_t* pairs = reinterpret_cast<int16_t*>(ones);
      for (int64_t i = 0; i < bytes / 2; ++i) pairs[i] = 1;
    }
    alignas(64) static constexpr int32_t kZeros[kPanelWidth] = {};
    RowProduct().multiply(problem, {ones, 0, problem.layout.words, 1}, panel, columns, kZeros,
                          sums_of(problem.layout, panel), kPanelWidth);
  }
};

// --- products of signed rows and panels of unsigned bytes

template <typename S>
struct PanelProduct {
  static constexpr bool kInOrder = false, kAddsToTerms = false, kReadsColumns = false;
  static constexpr int64_t kRows = kBlockRows, kRowStep = kRows;
  Microkernel microkernel;

  static int64_t rows_at_once(const ProductLayout&) { return kRows; }

  static void lay_out(ProductProblem& problem) {
    const ProductShape& shape = problem.shape;
    ProductLayout& layout = problem.layout;
    layout.direct = shape.a_signed;
    layout.row_bytes = round_up(shape.depth, 64);
    layout.panel_bytes = panel_shape(shape.depth).bytes;
  }

  static void pack_panel(const ProductProblem& problem, int64_t panel, const Scratch& scratch,
                         uint8_t* target) {
    const ProductShape& shape = problem.shape;
    const uint8_t* from = first_of(problem, panel);
    int64_t stride = shape.columns, readable = shape.columns - panel * kPanelWidth;
    if (shape.b_transposed) {
      readable = columns_of(shape, panel);
      stride = kPanelWidth;
      transpose(scratch.transposed, stride, from, shape.depth, readable, shape.depth);
      from = scratch.transposed;
    }
    const PanelOptions options{.flip = static_cast<uint8_t>(shape.b_signed ? 128 : 0),
                               .with_sums = problem.needs_column_sums,
                               .whole_steps = Microkernel::kNeedsWholeSteps};
    const PanelSource source{.offset = 0, .readable = readable};
    const auto for_each_quad = [&](const auto& pack) {
      for (int64_t k = 0; k < shape.depth; k += kKPack) {
        const uint8_t* rows[kKPack];
        int filled = 0;
        for (; filled < kKPack && k + filled < shape.depth; ++filled) {
          rows[filled] = from + (k + filled) * stride;
        }
        pack(rows, filled, k / kKPack);
      }
    };
    pack_panels(panel_shape(shape.depth), options, &source, 1, for_each_quad, target);
  }

  const uint8_t* pack_rows(const ProductProblem& problem, int64_t row, int64_t count,
                           const Scratch& scratch, int64_t& stride) const {
    const ProductShape& shape = problem.shape;
    const uint8_t* from = problem.a + row * shape.depth;
    stride = shape.depth;
    if (problem.layout.direct) return from;
    for (int64_t i = 0; i < count * shape.depth; ++i) scratch.rows[i] = from[i] ^ 128;
    return scratch.rows;
  }

  static int32_t sum_of(const ProductProblem& problem, const uint8_t* row) {
    const int8_t* bytes = reinterpret_cast<const int8_t*>(row);
    int32_t sum = 0;
    for (int64_t k = 0; k < problem.shape.depth; ++k) sum += bytes[k];
    return sum;
  }

  void multiply(const ProductProblem& problem, const Rows& rows, const uint8_t* panel, int64_t,
                const int32_t*, int32_t* acc, int64_t) {
    const FilterRows filter(reinterpret_cast<const int8_t*>(rows.first), problem.shape.depth,
                            rows.count);
    microkernel.multiply(panel, filter, acc);
  }
};

// --- dot products of few rows with the rows of a transposed matrix

// Reads a few columns at a time, in place. Later columns, which follow them, are prefetched. A
// row's words are bytes. If sums of byte products saturate, they are first the low halves of a
// vector's bytes, then the high halves.
template <typename S>
struct DotProduct {
  static constexpr bool kInOrder = true, kAddsToTerms = false, kReadsColumns = true;
  static constexpr int64_t kRows = tuning::kFewRows, kRowStep = kRows;
  static constexpr int64_t kStep = 4 * S::kLanes;  // bytes of a vector
  static constexpr int64_t kMostRows =             // rows in registers at once
      S::kWordsOfQuad == 1 ? tuning::kDotRows : tuning::kDotHalfRows;

  static constexpr int64_t kStepsAtOnce = [] {
    if constexpr (S::kWordsOfQuad == 2) return int64_t{S::kHalfByteSteps};
    return int64_t{1} << 40;
  }();

  static int64_t rows_at_once(const ProductLayout&) { return kRows; }

  static void lay_out(ProductProblem& problem) {
    ProductLayout& layout = problem.layout;
    layout.direct = false;
    layout.words = round_up(problem.shape.depth, kStep) / kKPack * S::kWordsOfQuad;
    layout.row_bytes = 4 * layout.words + 64;  // rows begin in different sets of the cache
    layout.panel_bytes = kPanelWidth * 4;      // the sums alone
  }

  static void pack_panel(const ProductProblem& problem, int64_t panel, const Scratch&,
                         uint8_t* target) {
    if (problem.needs_column_sums) {
      copy_column_sums(problem, panel, reinterpret_cast<int32_t*>(target));
    }
  }

  const uint8_t* pack_rows(const ProductProblem& problem, int64_t row, int64_t count,
                           const Scratch& scratch, int64_t& stride) const {
    const int64_t depth = problem.shape.depth;
    const uint8_t flip = problem.shape.a_signed ? 128 : 0;
    stride = problem.layout.row_bytes;
    const uint8_t* from = problem.a + row * depth;
    for (int64_t r = 0; r < count; ++r, from += depth) {
      uint8_t* to = scratch.rows + r * stride;
      for (int64_t k = 0; k < depth; k += kStep, to += kStep * S::kWordsOfQuad) {
        alignas(64) uint8_t bytes[kStep] = {};
        const int64_t left = depth - k < kStep ? depth - k : kStep;
        for (int64_t i = 0; i < left; ++i) bytes[i] = from[k + i] ^ flip;
        if constexpr (S::kWordsOfQuad == 1) {
          S::store(to, S::load(bytes));
        } else {
          for (int i = 0; i < kStep; ++i) {
            to[i] = bytes[i] & 15;
            to[kStep + i] = bytes[i] >> 4;
          }
        }
      }
    }
    return scratch.rows;
  }

  static int32_t sum_of(const ProductProblem& problem, const uint8_t* row) {
    if constexpr (S::kWordsOfQuad == 1) return sum_row<S>(row, problem.layout.words);
    int32_t sum = 0;
    for (int64_t i = 0; i < 4 * problem.layout.words; ++i) {
      sum += row[i] << (i / kStep % 2 == 0 ? 0 : 4);
    }
    return sum;
  }

  static void multiply_columns(const ProductProblem& problem, int64_t panel, const Rows& rows,
                               int32_t* acc) {
    const int64_t depth = problem.shape.depth, columns = columns_of(problem.shape, panel);
    const uint8_t* first = first_of(problem, panel);
    for (int64_t column = 0; column < columns; column += S::kLanes) {
      const int64_t count = least(columns - column, S::kLanes);
      for (int64_t r = 0; r < rows.count; r += kMostRows) {
        const Rows some{rows.start(r), rows.stride, rows.words,
                        static_cast<int>(least(rows.count - r, kMostRows))};
        typename S::Int32s sums[kMostRows * S::kLanes];
        for (int64_t i = 0; i < some.count * S::kLanes; ++i) sums[i] = S::broadcast(0);
        multiply_rows<kMostRows>(first + column * depth, depth, count, some, sums);
        for (int64_t i = 0; i < some.count; ++i) {
          S::store(acc + (r + i) * kPanelWidth + column, S::sum_lanes(sums + i * S::kLanes));
        }
      }
    }
  }

 private:
  // Multiplies R rows, or as many as there are.
  template <int64_t R>
  static void multiply_rows(const uint8_t* column, int64_t depth, int64_t count, const Rows& rows,
                            typename S::Int32s* sums) {
    if constexpr (R > 1) {
      if (rows.count < R) return multiply_rows<R - 1>(column, depth, count, rows, sums);
    }
    constexpr int64_t kSums = S::kLanes / S::kWordsOfQuad;  // sums in registers
    constexpr int64_t C = 4 * R <= kSums ? 4 : 2 * R <= kSums ? 2 : 1;
    int64_t at = 0;
    for (; at + C <= count; at += C)
      multiply_tile<R, C>(column + at * depth, depth, rows, sums + at);
    for (; at < count; ++at) multiply_tile<R, 1>(column + at * depth, depth, rows, sums + at);
  }

  // Multiplies R rows by C neighbouring columns.
  template <int64_t R, int64_t C>
  static void multiply_tile(const uint8_t* column, int64_t depth, const Rows& rows,
                            typename S::Int32s* sums) {
    const int64_t whole = depth / kStep * kStep;
    if (whole > 0) multiply_steps<R, C>(column, depth, whole, rows.first, rows.stride, sums);
    if (whole == depth) return;
    alignas(64) uint8_t rest[C * kStep] = {};
    for (int64_t i = 0; i < C; ++i) {
      const auto bytes = static_cast<size_t>(depth - whole);
      __builtin_memcpy(rest + i * kStep, column + i * depth + whole, bytes);
    }
    multiply_steps<R, C>(rest, kStep, kStep, rows.first + whole * S::kWordsOfQuad, rows.stride,
                         sums);
  }

  // Not inlined, and for a depth above 0. Otherwise compilers also keep the sums on the stack.
  template <int64_t R, int64_t C>
  __attribute__((noinline)) static void multiply_steps(const uint8_t* column, int64_t distance,
                                                       int64_t depth, const uint8_t* row,
                                                       int64_t stride, typename S::Int32s* sums) {
    constexpr int kParts = S::kWordsOfQuad;
    const int64_t group = C * distance;
    const uint8_t* next = column + (group > tuning::kDotPrefetch ? group : tuning::kDotPrefetch);
    do {
      const int64_t bytes = kParts == 1 ? depth : least(depth, kStepsAtOnce * kStep);
      typename S::Int32s tile[R][C][kParts];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (int i = 0; i < C; ++i) {
          tile[r][i][0] = kParts == 1 ? sums[r * S::kLanes + i] : S::broadcast(0);
          tile[r][i][kParts - 1] = tile[r][i][0];
        }
      }
      for (int64_t at = 0; at < bytes; at += kStep) {
        typename S::Int32s columns[C];
#pragma GCC unroll 8
        for (int i = 0; i < C; ++i) columns[i] = S::load(column + i * distance + at);
#pragma GCC unroll 8
        for (int i = 0; i < C * kStep; i += 64) __builtin_prefetch(next + C * at + i, 0, 2);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const uint8_t* words = row + r * stride + kParts * at;
#pragma GCC unroll 8
          for (int i = 0; i < C; ++i) multiply_add(tile[r][i], words, columns[i]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (int i = 0; i < C; ++i) add_to(sums[r * S::kLanes + i], tile[r][i]);
      }
      depth -= bytes, column += bytes, row += kParts * bytes, next += C * bytes;
    } while (kParts > 1 && depth > 0);
  }

  template <int parts>
  static void multiply_add(typename S::Int32s (&sums)[parts], const uint8_t* words,
                           typename S::Int32s column) {
    if constexpr (parts == 1) {
      S::multiply_words(sums[0], S::load(words), column);
    } else {
      S::multiply_half_bytes(sums[0], S::load(words), column);
      S::multiply_half_bytes(sums[1], S::load(words + kStep), column);
    }
  }

  template <int parts>
  static void add_to(typename S::Int32s& total, const typename S::Int32s (&sums)[parts]) {
    if constexpr (parts == 1) {
      total = sums[0];  // it began as the total
    } else {
      S::add_half_bytes(total, sums[0], sums[1]);
    }
  }
};

// --- a panel's columns

// The terms that a panel's sums lack, in the order of the sums. If `added`, the sums start with the
// terms that all rows share.
template <typename S, bool in_order, bool added>
class PanelTerms {
 public:
  PanelTerms(const ProductProblem& problem, int64_t panel, const int32_t* column_sums)
      : problem_(problem), first_(panel * kPanelWidth), count_(columns_of(problem.shape, panel)) {
    const RequantizeParams& params = problem.requantize;
    order(params.offset + first_, of_all_rows_);
    if (params.filter_zero != nullptr) order(params.filter_zero + first_, zero_);
    if (params.quantized) {
      order(params.estimate + first_, estimate_);
      order(params.band + first_, band_);
    }
    if (!problem.needs_column_sums) return;
    const uint32_t depth = static_cast<uint32_t>(problem.shape.depth);
    const uint32_t a_zero = problem.a_zeros == nullptr ? u32(problem.a_zero) : 0;
    for (int i = 0; i < kPanelWidth; ++i) {
      const uint32_t term = params.filter_zero == nullptr ? 0 : depth * u32(zero_[i]);
      const uint32_t column_term = u32(column_sums[i]) - term;
      column_terms_[i] = static_cast<int32_t>(column_term);
      of_all_rows_[i] = static_cast<int32_t>(u32(of_all_rows_[i]) - a_zero * column_term);
    }
  }

  const int32_t* of_all_rows() const { return of_all_rows_; }

  // Returns the position of the sums in the output if they are outputs already, else null.
  int32_t* outputs(int64_t row) const {
    const bool finished = added && !problem_.requantize.quantized && count_ == kPanelWidth &&
                          problem_.a_zeros == nullptr && problem_.requantize.filter_zero == nullptr;
    if (!finished) return nullptr;
    return static_cast<int32_t*>(problem_.output) + row * problem_.shape.columns + first_;
  }

  // Prefetches the outputs that `store` writes.
  void prefetch(int64_t row, int64_t rows) const {
    if (!problem_.requantize.quantized) return;
    const int64_t step = problem_.shape.columns;
    const uint8_t* to = static_cast<const uint8_t*>(problem_.output) + row * step + first_;
    prefetch_rows(to, rows, step, count_);
  }

  // Multiplies rows from `row` on and makes bytes in registers. Returns false if it cannot.
  bool multiply_to_bytes(const Rows& rows, int64_t row, const uint8_t* panel, int32_t* acc) const {
    const ProductProblem& problem = problem_;
    const PixelChannels<S, in_order> columns{
        problem.requantize, first_, count_, problem.requantize.filter_zero, estimate_, band_};
    if (problem.a_zeros != nullptr || problem.wide_bias != nullptr ||
        !columns.requantizes_tiles(rows)) {
      return false;
    }
    const int64_t step = problem.shape.columns;
    uint8_t* to = static_cast<uint8_t*>(problem.output) + row * step + first_;
    columns.multiply_to_bytes(rows, panel, of_all_rows_, acc, to, step);
    return true;
  }

  // Finishes and stores neighbouring rows of sums.
  void store(int64_t row, int64_t rows, const int32_t* row_sums, int32_t* sums,
             void* output) const {
    const ProductProblem& problem = problem_;
    if (!added || problem.a_zeros != nullptr || problem.requantize.filter_zero != nullptr) {
      for (int64_t r = 0; r < rows; ++r) {
        add_terms(problem.a_zeros == nullptr ? 0 : problem.a_zeros[row + r], row_sums[r],
                  sums + r * kPanelWidth);
      }
    }
    const int64_t step = problem.shape.columns, at = row * step + first_;
    if (problem.wide_bias != nullptr) {
      uint8_t* to = static_cast<uint8_t*>(output) + at;
      for (int64_t r = 0; r < rows; ++r) store_wide(sums + r * kPanelWidth, to + r * step);
      return;
    }
    const PixelChannels<S, in_order> columns{problem.requantize, first_, count_, nullptr,
                                             estimate_,          band_};
    store_pixels(columns, sums, rows, output, at, step);
  }

 private:
  static uint32_t u32(int32_t value) { return static_cast<uint32_t>(value); }

  static int column_of(int i) { return in_order ? i : S::column_of(i / S::kLanes, i % S::kLanes); }

  template <typename T>
  static void order(const T* from, T* to) {
    for (int i = 0; i < kPanelWidth; ++i) to[i] = from[column_of(i)];
  }

  void add_terms(int32_t a_zero, int32_t row_sum, int32_t* sums) const {
    const bool has_zero = problem_.requantize.filter_zero != nullptr;
    const auto zero = S::broadcast(a_zero), sum = S::broadcast(row_sum);
    for (int at = 0; at < kPanelWidth; at += S::kLanes) {
      auto total = S::load(sums + at);
      if (!added) total = S::add(total, S::load(of_all_rows_ + at));
      if (problem_.a_zeros != nullptr && problem_.needs_column_sums) {
        total = S::subtract(total, S::multiply(zero, S::load(column_terms_ + at)));
      }
      if (has_zero) total = S::subtract(total, S::multiply(sum, S::load(zero_ + at)));
      S::store(sums + at, total);
    }
  }

  // Adds the bias to each sum in 64 bits.
  __attribute__((noinline)) void store_wide(const int32_t* sums, uint8_t* bytes) const {
    const RequantizeParams& params = problem_.requantize;
    for (int i = 0; i < kPanelWidth; ++i) {
      const int column = column_of(i);
      if (column >= count_) continue;
      const int64_t total = int64_t{sums[i]} + problem_.wide_bias[first_ + column];
      bytes[column] = requantize_wide(params, first_ + column, total);
    }
  }

  const ProductProblem& problem_;
  int64_t first_, count_;
  alignas(64) int32_t of_all_rows_[kPanelWidth];
  alignas(64) int32_t zero_[kPanelWidth];
  alignas(64) int32_t column_terms_[kPanelWidth];
  alignas(64) float estimate_[kPanelWidth];
  alignas(64) float band_[kPanelWidth];
};

// --- the kernels

template <typename S, typename Product>
struct Blocked {
  static void lay_out(ProductProblem& problem) {
    ProductLayout& layout = problem.layout;
    Product::lay_out(problem);
    layout.panels = (problem.shape.columns + kPanelWidth - 1) / kPanelWidth;
    layout.step = Product::kRowStep;
    layout.packed_rows_bytes = 0;
    const int64_t bytes = layout.row_bytes < 1 ? 1 : layout.row_bytes;
    const int64_t all = layout.direct ? tuning::kDirectRows : tuning::kPackedRows;
    const int64_t fit = all / bytes / layout.step * layout.step;
    // If the second cache holds all panels, few rows at a time keep the outputs in order.
    const bool holds_panels =
        problem.shape.b_panels && layout.panels * layout.panel_bytes <= tuning::kHeldPanels;
    const int64_t most = (holds_panels ? tuning::kHeldSteps : tuning::kMostSteps) * layout.step;
    layout.rows_at_once = fit < layout.step ? layout.step : fit > most ? most : fit;
  }

  static void pack_rows(const ProductProblem&, uint8_t*, uint8_t*) {}

  static void pack(const ProductProblem& problem, int64_t first, int64_t last, uint8_t* memory,
                   uint8_t* panels) {
    const Scratch scratch(problem.layout, memory);
    for (int64_t panel = first; panel < last; ++panel) {
      Product::pack_panel(problem, panel, scratch, panels + panel * problem.layout.panel_bytes);
    }
  }

  static void multiply(const ProductProblem& problem, const ProductRange& range) {
    const int64_t step = problem.layout.rows_at_once;
    for (int64_t row = range.first_row; row < range.last_row; row += step) {
      multiply_block(problem, range, row, least(range.last_row - row, step));
    }
  }

 private:
  static void multiply_block(const ProductProblem& problem, const ProductRange& range, int64_t row,
                             int64_t count) {
    const ProductLayout& layout = problem.layout;
    const Scratch scratch(layout, range.scratch);
    Product product;
    int64_t stride;
    const uint8_t* rows = product.pack_rows(problem, row, count, scratch, stride);
    const bool with_sums = problem.requantize.filter_zero != nullptr;
    const int64_t most = Product::rows_at_once(layout);
    for (int64_t r = 0; r < count; ++r) {
      scratch.row_sums[r] = with_sums ? Product::sum_of(problem, rows + r * stride) : 0;
    }
    for (int64_t index = range.first_panel; index < range.last_panel; ++index) {
      uint8_t* panel = scratch.panel;
      if (range.panels != nullptr) {
        panel = const_cast<uint8_t*>(range.panels) + index * layout.panel_bytes;
      } else {
        Product::pack_panel(problem, index, scratch, panel);
      }
      const int32_t* column_sums = sums_of(layout, panel);
      alignas(64) int32_t prepared_sums[kPanelWidth] = {};
      if (problem.shape.b_panels && problem.needs_column_sums) {
        copy_column_sums(problem, index, prepared_sums);
        column_sums = prepared_sums;
      }
      const PanelTerms<S, Product::kInOrder, Product::kAddsToTerms> terms(problem, index,
                                                                          column_sums);
      for (int64_t at = 0; at < count; at += most) {
        const int64_t block = least(count - at, most);
        Rows block_rows{rows + at * stride, stride, layout.words, static_cast<int>(block)};
        if constexpr (Product::kReadsColumns) {
          product.multiply_columns(problem, index, block_rows, scratch.acc);
        } else {
          if (S::kPacksRows) terms.prefetch(row + at, block);
          if constexpr (Product::kAddsToTerms && requantizes_in_registers<S, RowMicrokernel>()) {
            if (range.panels != nullptr && index + 1 < range.last_panel) {
              fetch_next<S>(block_rows, panel + layout.panel_bytes, at, count);
            }
            if (terms.multiply_to_bytes(block_rows, row + at, panel, scratch.acc)) continue;
          }
          int32_t* const outputs = terms.outputs(row + at);
          const bool apart = outputs == nullptr;
          product.multiply(problem, block_rows, panel, columns_of(problem.shape, index),
                           terms.of_all_rows(), apart ? scratch.acc : outputs,
                           apart ? kPanelWidth : problem.shape.columns);
          if (!apart) continue;
        }
        terms.store(row + at, block, scratch.row_sums + at, scratch.acc, problem.output);
      }
    }
  }
};

// Packs up to a vector of A's rows and reads the columns of a transposed B in place. B takes the
// place of a filter, and the sums are transposed.
template <typename S>
struct ColumnProduct {
  static void lay_out(ProductProblem& problem) {
    const int64_t depth = problem.shape.depth;
    ProductLayout& layout = problem.layout;
    layout = {};
    layout.panels = (problem.shape.columns + kPanelWidth - 1) / kPanelWidth;
    layout.panel_bytes = kPanelWidth * 4;  // the sums alone
    layout.words = round_up(depth, Microkernel::kNeedsWholeSteps ? kDepthStep : kKPack) / kKPack;
    layout.row_bytes = round_up(depth, 64);
    layout.packed_rows_bytes = layout.words * kQuadBytes + kPanelWidth * 4;
    layout.step = layout.rows_at_once = S::kLanes;
  }

  static void pack(const ProductProblem&, int64_t, int64_t, uint8_t*, uint8_t*) {}

  // Packs a panel and its rows' sums.
  static void pack_rows(const ProductProblem& problem, uint8_t* memory, uint8_t* panel) {
    const ProductShape& shape = problem.shape;
    const Scratch scratch(problem.layout, memory);
    const uint8_t* rows = problem.a;
    if (shape.a_signed) {
      for (int64_t i = 0; i < shape.rows * shape.depth; ++i) scratch.rows[i] = rows[i] ^ 128;
      rows = scratch.rows;
    }
    int32_t* sums = reinterpret_cast<int32_t*>(panel + problem.layout.words * kQuadBytes);
    const bool with_sums = problem.requantize.filter_zero != nullptr;
    for (int64_t r = 0; r < shape.rows; ++r) {
      sums[r] = with_sums ? S::sum_bytes(rows + r * shape.depth, shape.depth, 0) : 0;
    }
    const auto* first = reinterpret_cast<const int8_t*>(rows);
    const ColumnRows columns{first, shape.depth, shape.depth, shape.rows};
    for (int64_t q = 0; q < problem.layout.words; q += S::kLanes) {
      typename S::Int32s words[S::kLanes];
      transpose_quads<S>(columns, q, words);
      for (int64_t i = 0; i < S::kLanes && q + i < problem.layout.words; ++i) {
        S::store(panel + (q + i) * kQuadBytes, words[i]);
      }
    }
  }

  static void multiply(const ProductProblem& problem, const ProductRange& range) {
    const int64_t rows = problem.shape.rows;
    const uint8_t* after = range.rows + problem.layout.words * kQuadBytes;
    const int32_t* row_sums = reinterpret_cast<const int32_t*>(after);
    const Scratch scratch(problem.layout, range.scratch);
    Microkernel microkernel;
    for (int64_t panel = range.first_panel; panel < range.last_panel; ++panel) {
      multiply_panel(problem, range.rows, panel, microkernel, scratch.acc);
      int32_t* const sums = scratch.acc + kPanelWidth * kPanelWidth;
      transpose_sums(scratch.acc, sums);
      alignas(64) int32_t column_sums[kPanelWidth] = {};
      if (problem.needs_column_sums) copy_column_sums(problem, panel, column_sums);
      const PanelTerms<S, true, false> terms(problem, panel, column_sums);
      terms.store(0, rows, row_sums, sums, problem.output);
    }
  }

 private:
  // Writes acc[column * kPanelWidth + row].
  static void multiply_panel(const ProductProblem& problem, const uint8_t* rows, int64_t panel,
                             Microkernel& microkernel, int32_t* acc) {
    const ProductShape& shape = problem.shape;
    const int64_t columns = columns_of(shape, panel);
    const int8_t* first = reinterpret_cast<const int8_t*>(first_of(problem, panel));
    for (int64_t column = 0; column < columns; column += Microkernel::kMostRows) {
      const FilterRows filter(first + column * shape.depth, shape.depth,
                              least(columns - column, Microkernel::kMostRows));
      microkernel.multiply_vector(rows, filter, acc + column * kPanelWidth);
    }
  }

  static void transpose_sums(const int32_t* acc, int32_t* sums) {
    for (int64_t column = 0; column < kPanelWidth; column += S::kLanes) {
      typename S::Int32s words[S::kLanes];
      for (int i = 0; i < S::kLanes; ++i) words[i] = S::load(acc + (column + i) * kPanelWidth);
      S::transpose_words(words);
      for (int i = 0; i < S::kLanes; ++i) S::store(sums + i * kPanelWidth + column, words[i]);
    }
  }
};

// --- few rows and a matrix in its order

// Interleaves a few rows of B at a time, which stay in registers or in the first cache. One more
// row of A, of ones, sums B's columns. Rows are signed, columns unsigned, as in PanelProduct.
template <typename S>
struct UnpackedProduct {
  static constexpr int64_t kChunk = kDepthStep;  // rows of B
  static constexpr int kRowsAtOnce = tuning::kUnpackedRows;

  static void lay_out(ProductProblem& problem) {
    const ProductShape& shape = problem.shape;
    ProductLayout& layout = problem.layout;
    layout = {};
    layout.panels = (shape.columns + kPanelWidth - 1) / kPanelWidth;
    layout.panel_bytes = kChunk * kPanelWidth;
    layout.row_bytes = round_up(shape.depth, 64);
    layout.step = layout.rows_at_once = shape.rows;
  }

  static void pack(const ProductProblem&, int64_t, int64_t, uint8_t*, uint8_t*) {}

  static void pack_rows(const ProductProblem&, uint8_t*, uint8_t*) {}

  static void multiply(const ProductProblem& problem, const ProductRange& range) {
    const Scratch scratch(problem.layout, range.scratch);
    pack_chunks(problem, scratch);
    const int64_t bytes = rows_of(problem) * kPanelWidth * 4;
    const int64_t at_once = (kSumsBytes - kTileBytes) / bytes;
    for (int64_t panel = range.first_panel; panel < range.last_panel; panel += at_once) {
      multiply_panels(problem, scratch, panel, least(range.last_panel, panel + at_once));
    }
  }

 private:
  // The rows that are multiplied.
  static int64_t rows_of(const ProductProblem& problem) {
    return problem.shape.rows + (problem.needs_column_sums ? 1 : 0);
  }

  // The bytes of a packed row in the chunk from `k` on.
  static int64_t chunk_of(const ProductProblem& problem, int64_t k) {
    return round_up(least(problem.shape.depth - k, kChunk), kKPack);
  }

  // Packs the rows chunk by chunk, as signed bytes, and sums them.
  static void pack_chunks(const ProductProblem& problem, const Scratch& scratch) {
    const ProductShape& shape = problem.shape;
    const uint8_t flip = shape.a_signed ? 0 : 128;
    for (int64_t k = 0; k < shape.depth; k += kChunk) {
      const int64_t left = least(shape.depth - k, kChunk), bytes = chunk_of(problem, k);
      uint8_t* to = scratch.rows + k * rows_of(problem);
      for (int64_t r = 0; r < rows_of(problem); ++r, to += bytes) {
        const uint8_t* from = problem.a + r * shape.depth + k;
        for (int64_t i = 0; i < left; ++i) to[i] = r < shape.rows ? from[i] ^ flip : 1;
        for (int64_t i = left; i < bytes; ++i) to[i] = 0;
      }
    }
    const bool with_sums = problem.requantize.filter_zero != nullptr;
    for (int64_t r = 0; r < shape.rows; ++r) {
      const uint8_t* row = problem.a + r * shape.depth;
      const int32_t sum = with_sums ? S::sum_bytes(row, shape.depth, flip ^ 128) : 0;
      scratch.row_sums[r] = static_cast<int32_t>(sum - 128 * shape.depth);
    }
  }

  static void multiply_panels(const ProductProblem& problem, const Scratch& scratch, int64_t first,
                              int64_t last) {
    const int64_t depth = problem.shape.depth;
    const int64_t rows = rows_of(problem), size = rows * kPanelWidth;
    int32_t* const tile = scratch.acc + (last - first) * size;
    Microkernel microkernel;
    __builtin_memset(scratch.acc, 0, static_cast<size_t>((last - first) * size * 4));
    for (int64_t k = 0; k < depth; k += kChunk) {
      const auto* packed = reinterpret_cast<const int8_t*>(scratch.rows + k * rows);
      const FilterRows filter(packed, chunk_of(problem, k), rows);
      for (int64_t panel = first; panel < last; ++panel) {
        const Chunk chunk(problem, panel, k);
        int32_t* acc = scratch.acc + (panel - first) * size;
        if constexpr (S::kInterleavesPanels) {
          if (chunk.count % kKPack == 0) {
            multiply_chunk<kRowsAtOnce>(chunk, filter, 0, acc);
            continue;
          }
        }
        interleave(chunk, scratch.panel);
        microkernel.multiply(scratch.panel, filter, tile);
        for (int64_t i = 0; i < size; i += S::kLanes) {
          S::store(acc + i, S::add(S::load(acc + i), S::load(tile + i)));
        }
      }
    }
    for (int64_t panel = first; panel < last; ++panel) {
      int32_t* acc = scratch.acc + (panel - first) * size;
      const PanelTerms<S, false, false> terms(problem, panel, acc + size - kPanelWidth);
      terms.store(0, problem.shape.rows, scratch.row_sums, acc, problem.output);
    }
  }

  // Rows of B in a panel's columns.
  struct Chunk {
    const uint8_t* from;
    int64_t stride, count, readable;
    uint8_t flip;

    Chunk(const ProductProblem& problem, int64_t panel, int64_t k)
        : from(first_of(problem, panel) + k * problem.shape.columns),
          stride(problem.shape.columns),
          count(least(problem.shape.depth - k, kChunk)),
          readable(problem.shape.columns - panel * kPanelWidth),
          flip(problem.shape.b_signed ? 128 : 0) {}
  };

  // Prefetches the rows of a quad of a later panel.
  __attribute__((always_inline)) static void prefetch_quad(const uint8_t* const* rows) {
#pragma GCC unroll 4
    for (int i = 0; i < kKPack; ++i) {
      __builtin_prefetch(rows[i] + tuning::kUnpackedPrefetch, 0, 2);
    }
  }

  static void interleave(const Chunk& chunk, uint8_t* to) {
    const uint8_t* from = chunk.from;
    const int64_t stride = chunk.stride;
    for (int64_t i = 0; i < chunk.count; i += kKPack, from += kKPack * stride, to += kQuadBytes) {
      const uint8_t* rows[kKPack] = {from, from + stride, from + 2 * stride, from + 3 * stride};
      prefetch_quad(rows);
      const int filled = static_cast<int>(least(chunk.count - i, kKPack));
      S::interleave_rows(rows, filled, chunk.readable, chunk.flip, to);
    }
  }

  // Multiplies the rows from `first` on by a chunk of whole quads, up to R at once.
  template <int R>
  static void multiply_chunk(const Chunk& chunk, const FilterRows& filter, int first,
                             int32_t* acc) {
    if constexpr (R > 0) {
      for (; filter.count - first >= R; first += R) {
        multiply_tile<R>(chunk, filter.rows + first * filter.depth, filter.depth,
                         acc + first * kPanelWidth);
      }
      multiply_chunk<R - 1>(chunk, filter, first, acc);
    }
  }

  template <int R>
  __attribute__((noinline)) static void multiply_tile(const Chunk& chunk, const int8_t* weights,
                                                      int64_t weight_stride, int32_t* acc) {
    typename S::Int32s sums[R][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = S::load(acc + r * kPanelWidth + v * S::kLanes);
    }
    const uint8_t* from = chunk.from;
    const int64_t stride = chunk.stride, count = chunk.count / kKPack;
    const int64_t readable = chunk.readable;
    const uint8_t flip = chunk.flip;
    for (int64_t i = 0; i < count; ++i, from += kKPack * stride, weights += kKPack) {
      const uint8_t* rows[kKPack] = {from, from + stride, from + 2 * stride, from + 3 * stride};
      prefetch_quad(rows);
      typename S::Int32s quads[kVectors];
      S::interleave_vectors(rows, 0, kKPack, readable, flip, quads);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const typename S::Weights word(word_at(weights + r * weight_stride));
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          S::multiply_add(sums[r][v], typename S::Columns(quads[v]), word);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        S::store(acc + r * kPanelWidth + v * S::kLanes, sums[r][v]);
    }
  }
};

template <typename K>
constexpr PathKernels kPathKernels = {K::lay_out, K::pack, K::pack_rows, K::multiply};

template <typename S>
const PathKernels& choose_path(ProductPath path) {
  if (path == ProductPath::kUnpacked) return kPathKernels<UnpackedProduct<S>>;
  if constexpr (S::kMultipliesRows) {
    if (path == ProductPath::kRows) return kPathKernels<Blocked<S, RowProduct<S>>>;
    if (path == ProductPath::kDots) return kPathKernels<Blocked<S, DotProduct<S>>>;
    if (path == ProductPath::kColumns) return kPathKernels<ColumnProduct<S>>;
    if constexpr (S::kMultipliesNarrowRows) {
      using Narrow = typename S::Narrow;
      if (path == ProductPath::kNarrowRows) return kPathKernels<Blocked<S, RowProduct<Narrow>>>;
    }
  }
  return kPathKernels<Blocked<S, PanelProduct<S>>>;
}

void scale(const ProductProblem& problem, const ProductRange& range) {
  const int64_t columns = problem.shape.columns, first = range.first_panel * kPanelWidth;
  const int64_t last = least(range.last_panel * kPanelWidth, columns);
  for (int64_t row = range.first_row; row < range.last_row; ++row) {
    uint8_t* values = static_cast<uint8_t*>(problem.output) + row * columns * 4;
    for (int64_t i = first; i < last; ++i) {
      int32_t sum;
      __builtin_memcpy(&sum, values + 4 * i, sizeof sum);
      float value = static_cast<float>(sum) * problem.factors[i];
      if (problem.addends != nullptr) value += problem.addends[i];
      __builtin_memcpy(values + 4 * i, &value, sizeof value);
    }
  }
}

}  // namespace

template <>
const ProductKernels Table<ProductKernels>::kernels = {
    .products_per_ns = Simd::kTuning.products_per_ns,
    .requantize_row_ns = Simd::kTuning.requantize_row_ns,
    .multiplies_rows = Simd::kMultipliesRows,
    .reads_panels = reads_prepared_panels<Simd>(),
    .most_unpacked = Microkernel::kMostUnpacked,
    .multiplies_narrow_rows = Simd::kMultipliesNarrowRows,
    .path = choose_path<Simd>,
    .scale = scale};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
