// Kernels of nonzero_coordinates, for one instruction set.
#pragma once

#include <cstdint>

namespace dmlax {

constexpr int64_t kWordBits = 64;

// Divides uint32 by a constant with a multiplication: Granlund and Montgomery's method, in the form
// whose multiplier fits 32 bits.
struct Divisor {
  uint32_t value;
  uint32_t multiplier;
  uint32_t shift;
};

// The axes that indices are split into. Axis 0 has no divisor: its coordinate is the last quotient.
struct Axes {
  int64_t rank;
  const Divisor* divisors;  // `rank` of them
};

struct NonzeroKernels {
  // Sets bit i of the words if element i is not zero. Bits past `count` are 0. An element has 1, 2,
  // 4 or 8 bytes. If `is_float`, the highest bit is a sign and does not count.
  void (*test)(const void* elements, int64_t count, int64_t bytes, bool is_float, uint64_t* words);

  // Counts the set bits.
  int64_t (*count)(const uint64_t* words, int64_t word_count);

  // Writes the coordinates of the first `row_count` set bits, `axes.rank` numbers a row. Bit 0 of
  // the first word is element `first`. The words have at least `row_count` set bits.
  void (*write_rows)(const uint64_t* words, uint32_t first, const Axes& axes, int64_t row_count,
                     uint32_t* rows);

  void (*fill)(uint32_t* values, int64_t count, uint32_t value);
};

}  // namespace dmlax
