// The kernel of the lookup, compiled once for each instruction set.
#include "dmlax/_lookup/cpu/kernels.h"

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

// Eight elements are read and written as one word: the table is all that is read by bytes.
void look_up(const uint8_t* table, const uint8_t* input, int64_t count, uint8_t* output) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t places, entries = 0;
    __builtin_memcpy(&places, input + i, sizeof places);
#pragma GCC unroll 8
    for (int shift = 0; shift < 64; shift += 8) {
      entries |= static_cast<uint64_t>(table[(places >> shift) & 0xff]) << shift;
    }
    __builtin_memcpy(output + i, &entries, sizeof entries);
  }
  for (; i < count; ++i) output[i] = table[input[i]];
}

}  // namespace

extern const LookupKernels lookup_kernels;
const LookupKernels lookup_kernels = {look_up};

}  // namespace DMLAX_ISA_NAMESPACE
}  // namespace dmlax
