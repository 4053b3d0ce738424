#include "dmlax/_cpu/product/product_schedule.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "dmlax/_cpu/ieee_mode.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/phases.h"
#include "dmlax/_cpu/scratch.h"

namespace dmlax {
namespace {

namespace ffi = xla::ffi;

thread_local Scratch shared_scratch;  // the calling thread's; all threads read it
thread_local Scratch task_scratch;

// Products of one shape. Their panels follow one another.
struct ProductSchedule {
  const std::vector<ProductProblem>& problems;
  const ProductKernels& kernels;
  const PathKernels& path = kernels.path(problems[0].path);
  const ProductShape& shape = problems[0].shape;
  const ProductLayout& layout = problems[0].layout;

  int64_t count() const { return static_cast<int64_t>(problems.size()); }
  int64_t steps() const { return (shape.rows + layout.step - 1) / layout.step; }

  // Approximate time of one thread.
  double time() const {
    const double panel = static_cast<double>(shape.depth) * static_cast<double>(shape.columns);
    const double rows = static_cast<double>(shape.rows);
    const bool packs = packs_columns(problems[0].path) && !shape.b_panels;
    const double products = rows * panel / kernels.products_per_ns;
    const double reading = panel / tuning::kReadBytesPerNs,
                 packing = panel / tuning::kPackedBytesPerNs;
    const double product = (packs ? products + packing : std::max(products, reading)) +
                           rows * static_cast<double>(layout.panels) * kernels.requantize_row_ns;
    return product * static_cast<double>(count());
  }

  bool run(ffi::ThreadPool& pool) const {
    const int64_t threads = time() < tuning::kSharedProductNs ? 1 : pool.num_threads();
    const TaskGrid parts = divide(threads);
    const int64_t packs = packs_of(parts), bytes = packed_bytes_of(parts);
    uint8_t* packed = packs > 0 ? shared_scratch.take(count() * bytes) : nullptr;
    if (packs > 0 && packed == nullptr) return false;
    std::atomic<bool> good{true};
    const int64_t tasks = count() * parts.count();
    const std::array<PhaseTasks, 2> all = {{{count() * packs, 1}, {tasks, tasks}}};
    run_phases(threads > 1 ? &pool : nullptr, all, [&](size_t phase, int64_t first, int64_t last) {
      const bool done = task_scratch.borrow(product_scratch_bytes(layout), [&](uint8_t* memory) {
        if (phase == 0) {
          for (int64_t i = first; i < last; ++i) {
            pack(i / packs, i % packs, memory, packed + i / packs * bytes);
          }
        } else {
          parts.for_each_block(first, last, [&](int64_t product, const TaskGrid::Block& block) {
            multiply(problems[product], parts, block, packed + product * bytes, memory);
          });
        }
      });
      if (!done) good = false;
    });
    shared_scratch.give_back();
    return good;
  }

 private:
  // Splits a product's rows and panels into ranges.
  TaskGrid divide(int64_t threads) const {
    const int64_t few = (threads * tuning::kTasksOfThread + count() - 1) / count();
    if (threads == 1 || few == 1) return {};
    // A task of all rows packs panels for itself, in its cache. Without packing, tasks that split
    // rows keep neighbouring layers' tensors in the threads' caches.
    const bool splits_rows = shape.b_panels && steps() >= tuning::kStepsOfTask * threads &&
                             layout.panels * layout.panel_bytes <= tuning::kPanelsReadByAll;
    const bool by_panels =
        2 * layout.panels >= few && !splits_rows && shape.rows <= layout.rows_at_once;
    // A matrix in its order is read in long pieces of its rows, of which many share a page.
    const bool is_unpacked = problems[0].path == ProductPath::kUnpacked;
    const int64_t tasks = is_unpacked ? threads : tasks_of(time(), threads);
    const int64_t wanted = (tasks + count() - 1) / count();
    const int64_t most = steps() / (shape.b_panels ? 1 : tuning::kStepsOfTask);
    const int64_t rows = by_panels ? 1 : std::clamp<int64_t>(most, 1, wanted);
    return {rows, std::min(layout.panels, (wanted + rows - 1) / rows)};
  }

  bool packs_rows() const { return layout.packed_rows_bytes > 0; }

  // The tasks that pack a product's operands for all threads: rows, or all panels if tasks split
  // rows.
  int64_t packs_of(const TaskGrid& parts) const {
    if (packs_rows()) return 1;
    if (shape.b_panels) return 0;
    return parts.rows > 1 ? (layout.panels + panels_of_pack() - 1) / panels_of_pack() : 0;
  }

  int64_t packed_bytes_of(const TaskGrid& parts) const {
    if (packs_rows()) return round_up(layout.packed_rows_bytes, 64);
    if (shape.b_panels) return 0;
    return parts.rows > 1 ? layout.panels * layout.panel_bytes : 0;
  }

  int64_t panels_of_pack() const {
    return std::max<int64_t>(1, tuning::kPackedOfTask / layout.panel_bytes);
  }

  void pack(int64_t product, int64_t i, uint8_t* memory, uint8_t* packed) const {
    if (packs_rows()) return path.pack_rows(problems[product], memory, packed);
    const int64_t first = i * panels_of_pack();
    const int64_t last = std::min(layout.panels, first + panels_of_pack());
    path.pack(problems[product], first, last, memory, packed);
  }

  void multiply(const ProductProblem& problem, const TaskGrid& parts, const TaskGrid::Block& block,
                const uint8_t* packed, uint8_t* memory) const {
    const auto row_of = [&](int64_t part) { return steps() * part / parts.rows * layout.step; };
    const uint8_t* panels = parts.rows > 1 ? packed : nullptr;
    const ProductRange range = {.rows = packed,
                                .panels = shape.b_panels ? problem.b : panels,
                                .scratch = memory,
                                .first_row = row_of(block.first_row),
                                .last_row = std::min(shape.rows, row_of(block.last_row)),
                                .first_panel = block.first_panel * layout.panels / parts.panels,
                                .last_panel = block.last_panel * layout.panels / parts.panels};
    path.multiply(problem, range);
    if (!problem.scaled) return;
    const IeeeMode mode;
    kernels.scale(problem, range);
  }
};

// Whether all of B, as signed bytes, lies within -kMostNarrow to kMostNarrow.
bool is_narrow(const uint8_t* b, int64_t count, bool is_signed) {
  const uint8_t to_positive = is_signed ? kMostNarrow : kMostNarrow - 128;
  constexpr int64_t kAtOnce = 1 << 12;
  for (int64_t first = 0; first < count; first += kAtOnce) {
    const int64_t last = std::min(count, first + kAtOnce);
    uint8_t most = 0;
    for (int64_t i = first; i < last; ++i) {
      most = std::max(most, static_cast<uint8_t>(b[i] + to_positive));
    }
    if (most > 2 * kMostNarrow) return false;
  }
  return true;
}

ProductPath choose_path(const ProductShape& shape, const ProductKernels& kernels, const uint8_t* b,
                        int64_t elements) {
  const bool few = shape.rows <= tuning::kFewRows;
  if (few && !shape.b_transposed && !shape.b_panels) return ProductPath::kUnpacked;
  if (!kernels.multiplies_rows) return ProductPath::kPanels;
  if (shape.b_panels) return ProductPath::kRows;
  if (few) return ProductPath::kDots;
  if (shape.b_transposed && shape.rows <= kernels.most_unpacked) {
    return ProductPath::kColumns;
  }
  const bool narrow = kernels.multiplies_narrow_rows && is_narrow(b, elements, shape.b_signed);
  return narrow ? ProductPath::kNarrowRows : ProductPath::kRows;
}

}  // namespace

bool reads_panels() {
  const ProductKernels* kernels = chosen_kernels<ProductKernels>();
  return kernels != nullptr && kernels->reads_panels;
}

void lay_out_product(ProductProblem& problem, const uint8_t* b, int64_t elements) {
  const ProductKernels& kernels = *chosen_kernels<ProductKernels>();
  problem.path = choose_path(problem.shape, kernels, b, elements);
  kernels.path(problem.path).lay_out(problem);
}

bool run_products(const std::vector<ProductProblem>& problems, ffi::ThreadPool& pool) {
  return ProductSchedule{.problems = problems, .kernels = *chosen_kernels<ProductKernels>()}.run(
      pool);
}

}  // namespace dmlax

// `reads_panels` for Python, which prepares weights.
extern "C" __attribute__((visibility("default"))) int dmlax_reads_panels() {
  return dmlax::reads_panels() ? 1 : 0;
}
