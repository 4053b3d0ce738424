// The handlers of ordered float32 products and sums: they check operands, pack rows and share the
// panels of columns between threads.
#include <algorithm>
#include <array>
#include <atomic>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/phases.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/sizes.h"
#include "dmlax/_fused/exact_floats/cpu/ordered_product_kernels.h"

namespace dmlax {
namespace {

thread_local Scratch shared_scratch;  // the calling thread's; all threads read it
thread_local Scratch task_scratch;

struct OrderedCall {
  const OrderedProductKernels& kernels;
  const Batch& batch;
  const Inputs<2>& inputs;
  float* output;
  int64_t rows, columns, depth;
  ffi::ThreadPool& pool;

  double time() const {
    return static_cast<double>(batch.count() * rows) * static_cast<double>(columns * depth) /
           tuning::kOrderedProductsPerNs;
  }

  bool is_alone() const {
    return pool.num_threads() <= 1 || time() < tuning::kSharedProductNs;
  }

  const float* matrix_of(size_t operand, int64_t call) const {
    return batch.elements_of<float>(inputs[operand], call);
  }

  // Multiplies row by row, whose sums in all lanes stay in the first cache.
  bool run_few_rows() const {
    const int64_t width = std::min(columns, kOrderedColumns);
    const int64_t panels = (columns + width - 1) / width;
    const auto run = [&](size_t, int64_t first, int64_t last, float* lanes) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t call = i / rows / panels, row = i % rows, column = i / rows % panels * width;
        kernels.multiply_row(matrix_of(0, call) + row * depth, {matrix_of(1, call), columns, depth},
                             column, std::min(columns, column + width), lanes,
                             output + (call * rows + row) * columns + column);
      }
    };
    return run_tasks<1>({{{batch.count() * panels * rows, 64}}},
                        4 * kOrderedLanes * kOrderedColumns, run);
  }

  bool run_tiles() const {
    const int64_t calls = batch.count(), matrices = batch.is_single(inputs[0]) ? 1 : calls;
    const int64_t packed = matrices * rows * depth;
    const int64_t width = kernels.panel_columns, panels = (columns + width - 1) / width;
    const int64_t tiles = (rows + kernels.tile_rows - 1) / kernels.tile_rows;
    auto* memory = reinterpret_cast<float*>(shared_scratch.take(4 * (packed + matrices * tiles)));
    if (memory == nullptr) return false;
    auto* least = reinterpret_cast<uint32_t*>(memory + packed);
    const LaneOrder order(depth);
    const int64_t wanted = is_alone() ? 1 : tasks_of(time(), pool.num_threads());
    const int64_t parts = std::clamp<int64_t>(wanted / (calls * panels), 1, tiles);
    const auto run = [&](size_t phase, int64_t first, int64_t last, float* panel) {
      for (int64_t i = first; i < last; ++i) {
        if (phase == 0) {
          const int64_t call = i / tiles, row = i % tiles * kernels.tile_rows;
          least[i] = kernels.pack_rows(order, matrix_of(0, call) + row * depth,
                                       std::min(kernels.tile_rows, rows - row), depth,
                                       memory + (call * rows + row) * depth);
          continue;
        }
        const int64_t part = i % parts, column = i / parts % panels * width;
        const int64_t call = i / parts / panels;
        const int64_t from = tiles * part / parts, to = tiles * (part + 1) / parts;
        const int64_t row = from * kernels.tile_rows;
        const int64_t left = matrices == 1 ? 0 : call;
        const OrderedRows part_of = {memory + (left * rows + row) * depth,
                                     least + left * tiles + from, row,
                                     std::min(rows, to * kernels.tile_rows) - row};
        kernels.multiply(order, part_of, {matrix_of(1, call), columns, depth}, column,
                         std::min(columns, column + width), panel, output + call * rows * columns);
      }
    };
    const bool good =
        run_tasks<2>({{{matrices * tiles, 16}, {calls * panels * parts, 16}}}, 4 * depth * width,
                     run);
    shared_scratch.give_back();
    return good;
  }

  bool run() const { return rows <= tuning::kFewOrderedRows ? run_few_rows() : run_tiles(); }

 private:
  // Runs phases, each of which has `bytes` of scratch. Returns false if there is no memory.
  template <size_t phases, typename Run>
  bool run_tasks(const std::array<PhaseTasks, phases>& tasks, int64_t bytes, const Run& run) const {
    std::atomic<bool> good{true};
    run_phases(is_alone() ? nullptr : &pool, tasks, [&](size_t phase, int64_t first, int64_t last) {
      if (!task_scratch.borrow(bytes, [&](uint8_t* memory) {
            run(phase, first, last, reinterpret_cast<float*>(memory));
          })) {
        good = false;
      }
    });
    return good;
  }
};

// The products of [rows, depth] and [depth, columns]. vmap puts its axes before those of both.
Outcome multiply_in_order(const Call<OrderedProductKernels>& call, const Inputs<2>& inputs,
                          Output output) {
  const auto& [x, y] = inputs;
  for (const ffi::AnyBuffer& buffer : {x, y, static_cast<ffi::AnyBuffer>(*output)}) {
    if (!is_float32(buffer)) return "an element type is not float32";
    if (rank_of(buffer.dimensions()) < 2) return "an operand is no matrix";
  }
  const int64_t leading = rank_of(output->dimensions()) - 2;
  const Batch batch(output->dimensions(), leading);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!batch.fits(inputs[i].dimensions(), 2)) return misfit(i);
  }
  const auto size = [&](const ffi::AnyBuffer& buffer, int64_t axis) {
    return buffer.dimensions()[static_cast<size_t>(leading + axis)];
  };
  const int64_t rows = size(*output, 0), columns = size(*output, 1), depth = size(x, 1);
  if (size(x, 0) != rows || size(y, 1) != columns || size(y, 0) != depth) {
    return "the matrices do not fit one another";
  }
  if (element_count(*output) == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  if (depth == 0) {
    std::fill_n(data_of<float>(*output), element_count(*output), 0.0f);
    return {};
  }
  const OrderedCall ordered = {call.kernels, batch, inputs, data_of<float>(*output),
                               rows,         columns, depth, call.pool};
  if (!ordered.run()) return Outcome::out_of_memory("no memory for its scratch");
  return {};
}

// The sums along the last axis but one of [.., depth, columns].
Outcome sum_in_order(const Call<OrderedProductKernels>& call, const Inputs<1>& inputs,
                     Output output) {
  const ffi::AnyBuffer& x = inputs[0];
  const Sizes sizes = x.dimensions(), of_output = output->dimensions();
  if (!is_float32(x) || !is_float32(*output)) return "an element type is not float32";
  if (of_output.size() < 1 || sizes.size() != of_output.size() + 1 ||
      sizes.back() != of_output.back() ||
      !std::equal(of_output.begin(), of_output.end() - 1, sizes.begin())) {
    return "a size is wrong";
  }
  if (element_count(*output) == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  const int64_t columns = sizes.back(), depth = sizes[sizes.size() - 2];
  const float* from = data_of<const float>(x);
  float* to = data_of<float>(*output);
  if (depth == 0) {
    std::fill_n(to, element_count(*output), 0.0f);
    return {};
  }
  const OrderedProductKernels& kernels = call.kernels;
  const int64_t width = std::min(columns, kOrderedColumns);
  const int64_t panels = (columns + width - 1) / width;
  std::atomic<bool> good{true};
  const auto sum = [&](int64_t first, int64_t last) {
    if (columns == 1) {
      for (int64_t i = first; i < last; ++i) to[i] = kernels.sum_row(from + i * depth, depth);
      return;
    }
    const bool ran = task_scratch.borrow(4 * kOrderedLanes * kOrderedColumns, [&](uint8_t* lanes) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t matrix = i / panels, column = i % panels * width;
        kernels.sum_columns(from + matrix * depth * columns + column, depth, columns,
                            std::min(width, columns - column), reinterpret_cast<float*>(lanes),
                            to + matrix * columns + column);
      }
    });
    if (!ran) good = false;
  };
  parallel_for_ranges(call.pool, element_count(*output) / columns * panels,
                      tuning::kFloatRows.of_rows(depth * width), sum);
  return good ? Outcome() : Outcome::out_of_memory("no memory for its scratch");
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_ordered_sum, "ordered sum", sum_in_order)

DMLAX_HANDLER(dmlax_ordered_product, "ordered product", multiply_in_order)
