// Kernel of the lookup, compiled once for each SIMD header.
#include "dmlax/_operators/byte_lookup/cpu/byte_lookup_kernels.h"

#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

void look_up(const uint8_t* table, const uint8_t* input, int64_t count, uint8_t* output) {
  const Simd::Table entries(table);
  int64_t i = 0;
  for (; i + Simd::kTableBytes <= count; i += Simd::kTableBytes) {
    Simd::look_up(entries, input + i, output + i);
  }
  for (; i < count; ++i) output[i] = table[input[i]];
}

}  // namespace

template <>
const LookupKernels Table<LookupKernels>::kernels = {.per_ns = Simd::kTuning.look_ups_per_ns,
                                                     .look_up = look_up};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
