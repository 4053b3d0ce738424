#include "dmlax/_cpu/matmul/schedule.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "dmlax/_cpu/ieee_mode.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/phases.h"
#include "dmlax/_cpu/scratch.h"

namespace dmlax {

#define DMLAX_KERNELS_TYPE MatmulKernels
#define DMLAX_KERNELS matmul_kernels
#define DMLAX_KERNELS_MULTIPLY
#include "dmlax/_cpu/choose_kernels.h"

namespace {

namespace ffi = xla::ffi;

constexpr double kPackedBytesPerNs = 8;
constexpr double kReadBytesPerNs = 32;  // of a matrix that is multiplied as it is
constexpr int64_t kReadByAll = 1 << 18;  // bytes of panels that each second cache holds

thread_local Scratch call_scratch;  // of a call's first thread, for all of them
thread_local Scratch own_scratch;

// Products of one shape, and their panels one after another.
struct MatmulSchedule {
  const std::vector<MatmulProblem>& problems;
  const MatmulKernels& kernels;
  const MatmulShape& shape = problems[0].shape;
  const MatmulLayout& layout = problems[0].layout;

  int64_t count() const { return static_cast<int64_t>(problems.size()); }
  int64_t steps() const { return (shape.rows + layout.step - 1) / layout.step; }

  // Of one thread, roughly.
  double time() const {
    const double panel = static_cast<double>(shape.depth) * static_cast<double>(shape.columns);
    const double rows = static_cast<double>(shape.rows);
    const bool packs = problems[0].path != MatmulPath::kDots && !packs_rows() && !shape.b_panels;
    const double products = rows * panel / kernels.products_per_ns;
    const double reading = panel / kReadBytesPerNs, packing = panel / kPackedBytesPerNs;
    const double each = (packs ? products + packing : std::max(products, reading)) +
                        rows * static_cast<double>(layout.panels) * kernels.requantize_row_ns;
    return each * static_cast<double>(count());
  }

  bool run(ffi::ThreadPool& pool) const {
    const int64_t threads = time() < kSharedProductNs ? 1 : pool.num_threads();
    const TaskGrid parts = divide(threads);
    const int64_t packs = packs_of(parts), bytes = packed_bytes_of(parts);
    uint8_t* packed = packs > 0 ? call_scratch.take(count() * bytes) : nullptr;
    if (packs > 0 && packed == nullptr) return false;
    std::atomic<bool> good{true};
    const int64_t tasks = count() * parts.count();
    const std::array<PhaseTasks, 2> all = {{{count() * packs, 1}, {tasks, tasks}}};
    run_phases(threads > 1 ? &pool : nullptr, all, [&](size_t phase, int64_t first, int64_t last) {
      uint8_t* memory = own_scratch.take(matmul_scratch_bytes(layout));
      if (memory == nullptr) {
        good = false;
      } else if (phase == 0) {
        for (int64_t i = first; i < last; ++i) {
          pack(i / packs, i % packs, memory, packed + i / packs * bytes);
        }
      } else {
        parts.for_each_block(first, last, [&](int64_t product, const TaskGrid::Block& block) {
          multiply(problems[product], parts, block, packed + product * bytes, memory);
        });
      }
      own_scratch.give_back();
    });
    call_scratch.give_back();
    return good;
  }

 private:
  // Into how many ranges of rows and of panels a product's tasks divide it.
  TaskGrid divide(int64_t threads) const {
    const int64_t few = (threads * kTasksOfThread + count() - 1) / count();
    if (threads == 1 || few == 1) return {};
    // A task of all rows packs panels for itself, in its own cache. Where there is nothing to
    // pack, rows of their own keep neighbouring layers' tensors in the threads' caches.
    const bool own_rows = shape.b_panels && steps() >= kStepsOfTask * threads &&
                          layout.panels * layout.panel_bytes <= kReadByAll;
    const bool by_panels =
        2 * layout.panels >= few && !own_rows && shape.rows <= layout.rows_at_once;
    const int64_t wanted = (tasks_of(time(), threads) + count() - 1) / count();
    const int64_t most = steps() / (shape.b_panels ? 1 : kStepsOfTask);
    const int64_t rows = by_panels ? 1 : std::clamp<int64_t>(most, 1, wanted);
    return {rows, std::min(layout.panels, (wanted + rows - 1) / rows)};
  }

  bool packs_rows() const { return layout.packed_rows_bytes > 0; }

  // Tasks that pack, for all threads, what tasks of one product read: rows, or all panels where
  // tasks have some of the rows.
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
    return std::max<int64_t>(1, kPackedOfTask / layout.panel_bytes);
  }

  void pack(int64_t product, int64_t i, uint8_t* memory, uint8_t* packed) const {
    if (packs_rows()) return kernels.pack_rows(problems[product], memory, packed);
    const int64_t first = i * panels_of_pack();
    const int64_t last = std::min(layout.panels, first + panels_of_pack());
    kernels.pack(problems[product], first, last, memory, packed);
  }

  void multiply(const MatmulProblem& problem, const TaskGrid& parts, const TaskGrid::Block& block,
                const uint8_t* packed, uint8_t* memory) const {
    const auto row_of = [&](int64_t part) { return steps() * part / parts.rows * layout.step; };
    const uint8_t* panels = parts.rows > 1 ? packed : nullptr;
    const MatmulRange range = {.rows = packed,
                               .panels = shape.b_panels ? problem.b : panels,
                               .scratch = memory,
                               .first_row = row_of(block.first_row),
                               .last_row = std::min(shape.rows, row_of(block.last_row)),
                               .first_panel = block.first_panel * layout.panels / parts.panels,
                               .last_panel = block.last_panel * layout.panels / parts.panels};
    kernels.multiply(problem, range);
    if (!problem.scaled) return;
    const IeeeMode mode;
    kernels.scale(problem, range);
  }
};

// Whether all of B is within -kMostNarrow to kMostNarrow, as signed bytes.
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

MatmulPath choose_path(const MatmulShape& shape, const MatmulKernels& kernels, const uint8_t* b,
                       int64_t elements) {
  if (!kernels.multiplies_rows) return MatmulPath::kPanels;
  if (shape.b_panels) return MatmulPath::kRows;
  if (shape.rows <= kFewRows) {
    return shape.b_transposed ? MatmulPath::kDots : MatmulPath::kPanels;
  }
  if (shape.b_transposed && shape.rows <= kernels.most_unpacked) {
    return MatmulPath::kColumns;
  }
  const bool narrow = kernels.multiplies_narrow_rows && is_narrow(b, elements, shape.b_signed);
  return narrow ? MatmulPath::kNarrowRows : MatmulPath::kRows;
}

}  // namespace

bool reads_panels() {
  const MatmulKernels* kernels = chosen_kernels();
  return kernels != nullptr && kernels->reads_panels;
}

void lay_out_product(MatmulProblem& problem, const uint8_t* b, int64_t elements) {
  const MatmulKernels& kernels = *chosen_kernels();
  problem.path = choose_path(problem.shape, kernels, b, elements);
  kernels.lay_out(problem);
}

bool run_products(const std::vector<MatmulProblem>& problems, ffi::ThreadPool& pool) {
  return MatmulSchedule{.problems = problems, .kernels = *chosen_kernels()}.run(pool);
}

}  // namespace dmlax

// The same for Python, which prepares weights.
extern "C" __attribute__((visibility("default"))) int dmlax_reads_panels() {
  return dmlax::reads_panels() ? 1 : 0;
}
