// The handler of rows of 8-bit levels times columns of 4- or 8-bit blocks: it checks operands and
// shares panels of columns between threads.
#include "dmlax/_fused/block_product/cpu/level_product_kernels.h"

#include <algorithm>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/sizes.h"

namespace dmlax {
namespace {

thread_local Scratch packed_rows;  // the calling thread's; all threads read it
thread_local Scratch panel_scratch;

Outcome multiply_levels(const Call<LevelKernels>& call, const Inputs<4>& inputs, Output output,
                        int64_t bits, int64_t block) {
  const auto& [a, held, scale, zero_point] = inputs;
  if (!is_float32(a) || !is_byte(held) || is_signed_byte(held) || !is_float32(scale) ||
      !is_byte(zero_point) || is_signed_byte(zero_point) || !is_float32(*output)) {
    return "an element type is not the operator's";
  }
  if (rank_of(a.dimensions()) != 2 || rank_of(held.dimensions()) != 2 ||
      rank_of(scale.dimensions()) != 2 || rank_of(zero_point.dimensions()) != 2 ||
      rank_of(output->dimensions()) != 2) {
    return "a rank is wrong";
  }
  if ((bits != 4 && bits != 8) || block < 16 || block > kMostLevelBlock || block % 16 != 0) {
    return "an attribute is wrong";
  }
  const int64_t rows = a.dimensions()[0], depth = a.dimensions()[1];
  const int64_t columns = held.dimensions()[0], parameters = scale.dimensions()[1];
  const int64_t row = (parameters * bits + 7) / 8;  // bytes of a column's zero points
  const bool has_none = element_count(zero_point) == 0;  // they are in the middle
  if (!is_size(rows, 0) || !is_size(depth, 1) || !is_size(columns, 0) || depth % block != 0 ||
      held.dimensions()[1] != depth * bits / 8 || scale.dimensions()[0] != columns ||
      parameters < 1 || depth / block % parameters != 0 ||
      (!has_none &&
       (zero_point.dimensions()[0] != columns || zero_point.dimensions()[1] != row)) ||
      output->dimensions()[0] != rows || output->dimensions()[1] != columns) {
    return "a size is wrong";
  }
  if (element_count(*output) == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  const LevelMatrix matrix = {.held = data_of<const uint8_t>(held),
                              .scale = data_of<const float>(scale),
                              .zero_point = has_none ? nullptr : data_of<const uint8_t>(zero_point),
                              .zero = 1 << (bits - 1),
                              .columns = columns,
                              .bits = bits,
                              .block = block,
                              .blocks = depth / block,
                              .parts = depth / block / parameters};
  const LevelLayout layout = layout_of(matrix);
  constexpr auto kNoMemory = "no memory for its scratch";
  uint8_t* packed = packed_rows.take(rows * layout.row_bytes);
  if (packed == nullptr) return Outcome::out_of_memory(kNoMemory);
  parallel_for_ranges(call.pool, rows, tuning::kFloatRows.of_rows(depth),
                      [&](int64_t first, int64_t last) {
                        for (int64_t r = first; r < last; ++r) {
                          call.kernels.pack(matrix, data_of<const float>(a) + r * depth,
                                            packed + r * layout.row_bytes);
                        }
                      });
  const int64_t panels = (columns + kLevelColumns - 1) / kLevelColumns;
  const double rate = std::min(call.kernels.products_per_ns / static_cast<double>(rows),
                               tuning::kReadProductsPerNs);
  const double ns = static_cast<double>(columns) * static_cast<double>(depth) / rate;
  const int64_t tasks =
      ns <= tuning::kSharedProductNs ? 1 : std::min(panels, tasks_of(ns, call.pool.num_threads()));
  const int64_t scratch = call.kernels.scratch_bytes(matrix, rows);
  const bool good = parallel_all(&call.pool, tasks, [&](int64_t i) {
    return panel_scratch.borrow(scratch, [&](uint8_t* memory) {
      call.kernels.multiply(matrix, packed, rows, panels * i / tasks, panels * (i + 1) / tasks,
                            memory, data_of<float>(*output));
    });
  });
  packed_rows.give_back();
  if (!good) return Outcome::out_of_memory(kNoMemory);
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_level_product, "level product", multiply_levels, "bits", "block")
