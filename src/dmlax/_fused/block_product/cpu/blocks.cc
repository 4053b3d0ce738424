// The handler of rows times columns of 4-bit blocks: it checks operands and runs the kernel.
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/sizes.h"
#include "dmlax/_fused/block_product/cpu/block_product_kernels.h"

namespace dmlax {
namespace {

constexpr int64_t kLanes = 8;  // lanes of the kernel's sums

thread_local Scratch packed_rows;  // the calling thread's; all threads read it

Outcome multiply_blocks(const Call<BlockKernels>& call, const Inputs<4>& inputs, Output output) {
  const auto& [a, held, scale, zero_point] = inputs;
  if (!is_float32(a) || !is_byte(held) || is_signed_byte(held) || !is_float32(scale) ||
      !is_float32(zero_point) || !is_float32(*output)) {
    return "an element type is not the operator's";
  }
  if (rank_of(a.dimensions()) != 1 || rank_of(held.dimensions()) != 2 ||
      rank_of(scale.dimensions()) != 2 || rank_of(zero_point.dimensions()) != 2 ||
      rank_of(output->dimensions()) != 1) {
    return "a rank is wrong";
  }
  const int64_t columns = held.dimensions()[0], bytes = held.dimensions()[1];
  const int64_t blocks = scale.dimensions()[1], elements = element_count(a);
  if (scale.dimensions()[0] != columns || blocks < 1 || bytes < 1 || bytes % blocks != 0 ||
      bytes / blocks % kLanes != 0 || columns % kLanes != 0 || elements % 2 != 0 ||
      elements / 2 % bytes != 0) {
    return "a size is wrong";
  }
  const int64_t rows = elements / 2 / bytes;
  if (!is_product_within({rows, columns}, element_count(*output)) ||
      rows * columns != element_count(*output)) {
    return "a size is wrong";
  }
  const int64_t zero_points = element_count(zero_point);
  if (zero_points != 1 && zero_points != element_count(scale)) return "a size is wrong";
  if (element_count(*output) == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  auto* packed = reinterpret_cast<float*>(packed_rows.take(elements * 4));
  if (packed == nullptr) return Outcome::out_of_memory("no memory for its scratch");
  call.kernels.pack(data_of<const float>(a), elements, packed);
  const BlockMatrix matrix = {.held = data_of<const uint8_t>(held),
                              .scale = data_of<const float>(scale),
                              .zero_point = data_of<const float>(zero_point),
                              .columns = columns,
                              .bytes = bytes,
                              .blocks = blocks,
                              .one_zero_point = zero_points == 1};
  float* to = data_of<float>(*output);
  const tuning::Sharing sharing = tuning::kBlockBytes.of_rows(kLanes * bytes * rows);
  parallel_for_ranges(call.pool, columns / kLanes, sharing, [&](int64_t first, int64_t last) {
    call.kernels.multiply(matrix, packed, rows, first * kLanes, last * kLanes, to);
  });
  packed_rows.give_back();
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_block_product, "block product", multiply_blocks)
