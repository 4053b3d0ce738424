// The handler of the attention of rows to a cache: it checks operands, and shares groups of heads
// and rows between threads.
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/sizes.h"
#include "dmlax/_fused/cache_attention/cpu/cache_attention_kernels.h"

namespace dmlax {
namespace {

thread_local Scratch attention_scratch;

// Leading axes are those of sequences and of vmap.
Outcome attend(const Call<CacheAttentionKernels>& call, const Inputs<5>& inputs, Output output,
               float scale, float softcap) {
  const auto& [q, keys, values, ranges, sinks] = inputs;
  if (!is_float32(q) || !is_float32(keys) || !is_float32(values) ||
      ranges.element_type() != ffi::DataType::S32 || !is_float32(sinks) || !is_float32(*output)) {
    return "an element type is not the operator's";
  }
  const int64_t rank = rank_of(q.dimensions()), axes = rank - 3;
  if (axes < 1 || rank_of(keys.dimensions()) != rank || rank_of(values.dimensions()) != rank ||
      rank_of(ranges.dimensions()) != rank - 1 || rank_of(sinks.dimensions()) != rank - 2 ||
      rank_of(output->dimensions()) != rank) {
    return "a rank is wrong";
  }
  int64_t sequences = 1;
  for (int64_t i = 0; i < axes; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t size = q.dimensions()[at];
    if (!is_size(size, 0) || keys.dimensions()[at] != size || values.dimensions()[at] != size ||
        ranges.dimensions()[at] != size || sinks.dimensions()[at] != size ||
        output->dimensions()[at] != size) {
      return "a size is wrong";
    }
    if (!is_product_within({sequences, size}, kMostSize)) return "a size is wrong";
    sequences *= size;
  }
  const auto sizes = [&](const ffi::AnyBuffer& x) { return x.dimensions().end() - 3; };
  const CacheAttention all = {.q = data_of<const float>(q),
                              .keys = data_of<const float>(keys),
                              .values = data_of<const float>(values),
                              .ranges = data_of<const int32_t>(ranges),
                              .sinks = count_of(sinks) == 0 ? nullptr : data_of<const float>(sinks),
                              .heads = sizes(q)[0],
                              .groups = sizes(keys)[0],
                              .rows = sizes(q)[1],
                              .places = sizes(keys)[1],
                              .size = sizes(q)[2],
                              .value_size = sizes(values)[2],
                              .scale = scale,
                              .softcap = softcap};
  constexpr int64_t kMost = int64_t{1} << 16;  // numbers of a key, so that scratch has a size
  if (!is_size(all.heads, 0) || !is_size(all.groups, 1) || all.heads % all.groups != 0 ||
      !is_size(all.rows, 0) || !is_size(all.places, 0) || all.size < 0 || all.size > kMost ||
      all.value_size < 0 || all.value_size > kMost || sizes(keys)[2] != all.size ||
      sizes(values)[0] != all.groups || sizes(values)[1] != all.places ||
      ranges.dimensions()[static_cast<size_t>(axes)] != all.rows || count_of(ranges) != 2 ||
      !has_count(sinks, {0, all.heads}) || sizes(*output)[0] != all.heads ||
      sizes(*output)[1] != all.rows || sizes(*output)[2] != all.value_size) {
    return "a size is wrong";
  }
  if (element_count(*output) == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  const int64_t chunks = (all.rows + tuning::kCacheRows - 1) / tuning::kCacheRows;
  const int64_t caches = sequences * all.groups * chunks, shared = all.heads / all.groups;
  const int64_t threads = call.pool.num_threads();
  // With fewer caches than threads the heads of a cache are shared, too.
  const int64_t parts = std::clamp<int64_t>((threads + caches - 1) / caches, 1, shared);
  const bool good = parallel_all(&call.pool, caches * parts, [&](int64_t i) {
    const int64_t row = i / parts % chunks * tuning::kCacheRows, cache = i / parts / chunks;
    const int64_t head = i % parts * shared / parts;
    const CachePart part = {.sequence = cache / all.groups,
                            .group = cache % all.groups,
                            .first_head = head,
                            .heads = (i % parts + 1) * shared / parts - head,
                            .first_row = row,
                            .rows = std::min(all.rows - row, tuning::kCacheRows)};
    return attention_scratch.borrow(call.kernels.scratch_bytes(all, part), [&](uint8_t* memory) {
      call.kernels.attend(all, part, memory, data_of<float>(*output));
    });
  });
  if (!good) return Outcome::out_of_memory("no memory for its scratch");
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_cache_attention, "cache attention", attend, "scale", "softcap")
