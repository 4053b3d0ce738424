// The handler of the lookup: checks its operands and runs the kernel.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/parallel_for.h"
#include "dmlax/_lookup/cpu/kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

#define DMLAX_KERNELS_TYPE LookupKernels
#define DMLAX_KERNELS lookup_kernels
#include "dmlax/_cpu/choose_kernels.h"

namespace {

namespace ffi = xla::ffi;

constexpr int64_t kEntries = 256;
constexpr int64_t kChunk = 1 << 16;  // elements: one task

ffi::Error invalid(const std::string& what) {
  return ffi::Error::InvalidArgument("lookup: " + what);
}

// The entries by the bits of an input, and not by its value.
std::array<uint8_t, kEntries> by_bits(const uint8_t* table, bool is_signed) {
  std::array<uint8_t, kEntries> entries;
  for (int64_t i = 0; i < kEntries; ++i) entries[i] = table[is_signed ? i ^ 0x80 : i];
  return entries;
}

void run(const LookupKernels& kernels, const uint8_t* table, const uint8_t* input, int64_t count,
         uint8_t* output, ffi::ThreadPool& pool) {
  const int64_t most_serial = static_cast<int64_t>(kernels.per_ns * kThreadWakeupNs);
  parallel_for_ranges(pool, count, most_serial, kChunk, [&](int64_t first, int64_t last) {
    kernels.look_up(table, input + first, last - first, output + first);
  });
}

// vmap puts its axes before those of either operand.
ffi::Error look_up(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::AnyBuffer table,
                   ffi::Result<ffi::AnyBuffer> output) {
  const LookupKernels* kernels = chosen_kernels();
  if (kernels == nullptr) return invalid(kNoInstructionSet);
  if (!is_byte(input) || !is_byte(table) || output->element_type() != table.element_type()) {
    return invalid("an element type is none of the operator's");
  }
  const Sizes sizes = output->dimensions();
  const int64_t axes = static_cast<int64_t>(table.dimensions().size()) - 1;
  const int64_t own = static_cast<int64_t>(sizes.size()) - axes;
  if (axes < 0 || own < 0) return invalid("a rank is wrong");
  const Batch batch(sizes, axes);
  if (!batch.fits(input.dimensions(), own) || !batch.fits(table.dimensions(), 1) ||
      table.dimensions().back() != kEntries ||
      !std::equal(sizes.end() - own, sizes.end(), input.dimensions().end() - own)) {
    return invalid("a size is wrong");
  }
  if (output->element_count() == 0) return ffi::Error::Success();
  if (is_null(input) || is_null(table) || is_null(*output)) return invalid("a buffer is null");
  uint8_t* outputs = static_cast<uint8_t*>(output->untyped_data());
  const bool shares_table = batch.is_single(table.dimensions());
  const bool is_one = shares_table && batch.is_whole(input.dimensions());
  const int64_t count = is_one ? 1 : batch.count();
  const int64_t elements = static_cast<int64_t>(output->element_count()) / count;
  for (int64_t i = 0; i < count; ++i) {
    const auto entries = by_bits(batch.elements_of<uint8_t>(table, i), is_signed_byte(input));
    run(*kernels, entries.data(), batch.elements_of<uint8_t>(input, i), elements,
        outputs + i * elements, pool);
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace dmlax

DMLAX_DEFINE_HANDLER(dmlax_lookup, dmlax::look_up,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>());
