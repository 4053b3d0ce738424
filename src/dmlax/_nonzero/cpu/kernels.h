// The parts of nonzero_coordinates that depend on the instruction set.
#ifndef DMLAX_NONZERO_CPU_KERNELS_H_
#define DMLAX_NONZERO_CPU_KERNELS_H_

#include <cstdint>

namespace dmlax {

constexpr int64_t kWordBits = 64;

// Divides any uint32 by a fixed one with a multiplication: Granlund and Montgomery's method, the
// form whose multiplier fits 32 bits.
struct Divisor {
  uint32_t value;
  uint32_t multiplier;
  uint32_t shift;
};

// Where an element lies. Axis 0 has no divisor: what the others leave is its coordinate.
struct Axes {
  int64_t rank;
  const Divisor* divisors;  // `rank` of them
};

struct NonzeroKernels {
  // Bit i of the words says whether element i is not zero; bits past `count` are 0. An element
  // has 1, 2, 4 or 8 bytes; where `is_float`, its highest bit is a sign, which does not count.
  void (*test)(const void* elements, int64_t count, int64_t bytes, bool is_float, uint64_t* words);

  // How many bits are set.
  int64_t (*count)(const uint64_t* words, int64_t word_count);

  // Writes the coordinates of the first `row_count` set bits, `axes.rank` numbers a row; bit 0 of
  // the first word is element `first`. There are at least so many.
  void (*write_rows)(const uint64_t* words, uint32_t first, const Axes& axes, int64_t row_count,
                     uint32_t* rows);

  void (*fill)(uint32_t* values, int64_t count, uint32_t value);
};

}  // namespace dmlax

#endif  // DMLAX_NONZERO_CPU_KERNELS_H_
