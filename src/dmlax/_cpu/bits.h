// 64-bit masks in plain C++.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// Calls run(first, count) for every run of set bits.
template <typename Run>
inline void for_each_run(uint64_t mask, const Run& run) {
  while (mask != 0) {
    const int first = __builtin_ctzll(mask);
    const uint64_t rest = ~(mask >> first);
    const int count = rest == 0 ? 64 : __builtin_ctzll(rest);
    run(first, count);
    if (first + count >= 64) return;
    mask &= ~uint64_t{0} << (first + count);
  }
}

// The operations on masks of a set that has no instructions for them.
struct ScalarBits {
  static void store_selected(const uint8_t* bytes, uint64_t mask, uint8_t* output) {
    for_each_run(mask, [&](int first, int count) {
      __builtin_memcpy(output, bytes + first, static_cast<size_t>(count));
      output += count;
    });
  }

  static int64_t store_set_bits(uint64_t word, uint32_t first, uint32_t* index) {
    uint32_t* next = index;
    for (; word != 0; word &= word - 1) {
      *next++ = first + static_cast<uint32_t>(__builtin_ctzll(word));
    }
    return next - index;
  }
};

// Copies few bytes without a call. The last copies may overlap.
[[maybe_unused]] inline void copy_short(uint8_t* to, const uint8_t* from, int64_t bytes) {
  if (bytes >= 16) {
    int64_t i = 0;
    for (; i + 64 <= bytes; i += 64) __builtin_memcpy(to + i, from + i, 64);
    for (; i + 16 < bytes; i += 16) __builtin_memcpy(to + i, from + i, 16);
    __builtin_memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    __builtin_memcpy(to, from, 8);
    __builtin_memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    __builtin_memcpy(to, from, 4);
    __builtin_memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (int64_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

// Bit i is set if element i, under a mask, is not zero.
template <typename Element>
inline uint64_t test_elements(const Element* elements, int64_t count, Element mask) {
  uint64_t word = 0;
  for (int64_t i = 0; i < count; ++i) {
    word |= static_cast<uint64_t>((elements[i] & mask) != 0) << i;
  }
  return word;
}

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
