// The part of the lookup that depends on the instruction set.
#ifndef DMLAX_LOOKUP_CPU_KERNELS_H_
#define DMLAX_LOOKUP_CPU_KERNELS_H_

#include <cstdint>

namespace dmlax {

struct LookupKernels {
  double per_ns;  // elements of one thread, roughly

  // output[i] = table[input[i]]
  void (*look_up)(const uint8_t* table, const uint8_t* input, int64_t count, uint8_t* output);
};

}  // namespace dmlax

#endif  // DMLAX_LOOKUP_CPU_KERNELS_H_
