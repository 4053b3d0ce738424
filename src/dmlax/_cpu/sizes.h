// Checks of sizes from callers, before they are added or multiplied.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace dmlax {

// Sizes of windows and images stay below this limit, so that int64 holds the product of two of them
// and the sum of two products.
constexpr int64_t kMostSize = int64_t{1} << 31;

inline bool is_size(int64_t value, int64_t least) { return value >= least && value < kMostSize; }

// Whether the product of factors, which are at least 0, is at most `most`.
inline bool is_product_within(std::initializer_list<int64_t> factors, int64_t most) {
  int64_t product = 1;
  for (int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return false;
  }
  return product <= most;
}

}  // namespace dmlax
