// The handler of the lookup: it checks its operands and runs the kernel.
#include "dmlax/_operators/byte_lookup/cpu/byte_lookup_kernels.h"
#include "dmlax/_cpu/ffi.h"

namespace dmlax {
namespace {

constexpr int64_t kEntries = 256;

// Orders the entries by an input's bits instead of its value.
std::array<uint8_t, kEntries> by_bits(const uint8_t* table, bool is_signed) {
  std::array<uint8_t, kEntries> entries;
  for (int64_t i = 0; i < kEntries; ++i) entries[i] = table[is_signed ? i ^ 0x80 : i];
  return entries;
}

void run(const LookupKernels& kernels, const uint8_t* table, const uint8_t* input, int64_t count,
         uint8_t* output, ffi::ThreadPool& pool) {
  const int64_t most_serial = static_cast<int64_t>(kernels.per_ns * tuning::kThreadWakeupNs);
  parallel_for_ranges(pool, count, {most_serial, tuning::kLookupChunk},
                      [&](int64_t first, int64_t last) {
                        kernels.look_up(table, input + first, last - first, output + first);
                      });
}

// vmap puts its axes before the axes of both operands.
Outcome look_up(const Call<LookupKernels>& call, const Inputs<2>& inputs, Output output) {
  const auto& [input, table] = inputs;
  if (!is_byte(input) || !is_byte(table) || !have_same_type(*output, table)) {
    return "an element type is none of the operator's";
  }
  const Sizes sizes = output->dimensions();
  const int64_t axes = rank_of(table.dimensions()) - 1, input_axes = rank_of(sizes) - axes;
  if (axes < 0 || input_axes < 0) return "a rank is wrong";
  const Batch batch(sizes, axes);
  if (!batch.fits(input.dimensions(), input_axes) || !batch.fits(table.dimensions(), 1) ||
      count_of(table) != kEntries ||
      !std::equal(sizes.end() - input_axes, sizes.end(), input.dimensions().end() - input_axes)) {
    return "a size is wrong";
  }
  if (output->element_count() == 0) return {};
  if (has_null(inputs) || is_null(*output)) return "a buffer is null";
  const int64_t count = batch.folds(inputs) ? 1 : batch.count();
  const int64_t elements = element_count(*output) / count;
  for (int64_t i = 0; i < count; ++i) {
    const auto entries = by_bits(batch.elements_of<uint8_t>(table, i), is_signed_byte(input));
    run(call.kernels, entries.data(), batch.elements_of<uint8_t>(input, i), elements,
        data_of<uint8_t>(*output) + i * elements, call.pool);
  }
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_lookup, "lookup", look_up)
