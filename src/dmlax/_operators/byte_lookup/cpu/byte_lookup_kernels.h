// Kernel of the lookup, for one instruction set.
#pragma once

#include <cstdint>

namespace dmlax {

struct LookupKernels {
  double per_ns;  // approximate elements of one thread

  // output[i] = table[input[i]]
  void (*look_up)(const uint8_t* table, const uint8_t* input, int64_t count, uint8_t* output);
};

}  // namespace dmlax
