// Kernels of nonzero_coordinates, compiled once for each SIMD header.
#include "dmlax/_operators/nonzero/cpu/nonzero_kernels.h"

#include "dmlax/_cpu/bits.h"
#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// ---- zero tests ----------------------------------------------------------------------------

template <typename Element>
void test_all(const void* data, int64_t count, bool is_float, uint64_t* words) {
  const Element* elements = static_cast<const Element*>(data);
  const Element every = static_cast<Element>(~Element{0});
  const Element magnitude = is_float ? static_cast<Element>(every >> 1) : every;
  for (; count >= kWordBits; count -= kWordBits, elements += kWordBits) {
    *words++ = Simd::nonzero_bits(elements, magnitude);
  }
  if (count > 0) *words = test_elements(elements, count, magnitude);
}

void test(const void* elements, int64_t count, int64_t bytes, bool is_float, uint64_t* words) {
  switch (bytes) {
    case 1:
      return test_all<uint8_t>(elements, count, is_float, words);
    case 2:
      return test_all<uint16_t>(elements, count, is_float, words);
    case 4:
      return test_all<uint32_t>(elements, count, is_float, words);
    default:
      return test_all<uint64_t>(elements, count, is_float, words);
  }
}

int64_t count(const uint64_t* words, int64_t word_count) {
  int64_t total = 0;
  for (int64_t i = 0; i < word_count; ++i) total += __builtin_popcountll(words[i]);
  return total;
}

// ---- coordinates ---------------------------------------------------------------------------

inline uint32_t divide(uint32_t x, const Divisor& divisor) {
  const uint32_t high = (static_cast<uint64_t>(x) * divisor.multiplier) >> 32;
  return (high + ((x - high) >> 1)) >> divisor.shift;
}

constexpr int64_t kBlock = tuning::kNonzeroBlock;

// Splits indices into rows of coordinates. kRank is the rank, or 0 if only `axes` has it.
template <int64_t kRank>
void write_numbers(const uint32_t* index, int64_t count, const Axes& axes, uint32_t* rows) {
  const int64_t rank = kRank ? kRank : axes.rank;
  uint32_t rest[kBlock + kWordBits];
  for (int64_t i = 0; i < count; ++i) rest[i] = index[i];
  for (int64_t axis = rank - 1; axis > 0; --axis) {
    const Divisor divisor = axes.divisors[axis];
    if (divisor.value == 1) {
      for (int64_t i = 0; i < count; ++i) rows[i * rank + axis] = 0;
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t quotient = divide(rest[i], divisor);
      rows[i * rank + axis] = rest[i] - quotient * divisor.value;
      rest[i] = quotient;
    }
  }
  for (int64_t i = 0; i < count; ++i) rows[i * rank] = rest[i];
}

// The vectorised `write_numbers`, for ranks 1, 2 and 4.
template <typename S>
typename S::Int32s divide(typename S::Int32s& x, const Divisor& divisor) {
  if (divisor.value == 1) return S::broadcast(0);
  const auto quotient = S::divide(x, divisor.multiplier, divisor.shift);
  const auto whole = S::multiply(quotient, S::broadcast(static_cast<int32_t>(divisor.value)));
  const auto remainder = S::subtract(x, whole);
  x = quotient;
  return remainder;
}

template <typename S, int64_t kRank>
void write_vectors(const uint32_t* index, int64_t count, const Axes& axes, uint32_t* rows) {
  Divisor divisors[kRank];
  for (int64_t axis = 1; axis < kRank; ++axis) divisors[axis] = axes.divisors[axis];
  for (int64_t i = 0; i < count; i += S::kLanes) {
    typename S::Int32s columns[kRank], mixed[kRank];
    columns[0] = S::load(index + i);
    for (int64_t axis = kRank - 1; axis > 0; --axis) {
      columns[axis] = divide<S>(columns[0], divisors[axis]);
    }
    if constexpr (kRank == 1) {
      mixed[0] = columns[0];
    } else if constexpr (kRank == 2) {
      S::interleave(columns[0], columns[1], mixed);
    } else {
      typename S::Int32s left[2], right[2];
      S::interleave(columns[0], columns[1], left);
      S::interleave(columns[2], columns[3], right);
      S::interleave_pairs(left[0], right[0], mixed);
      S::interleave_pairs(left[1], right[1], mixed + 2);
    }
    for (int64_t j = 0; j < kRank; ++j) {
      S::store_first(rows + kRank * i + S::kLanes * j, kRank * (count - i) - S::kLanes * j,
                     mixed[j]);
    }
  }
}

template <int64_t kRank>
void write_block(const uint32_t* index, int64_t count, const Axes& axes, uint32_t* rows) {
  if constexpr (Simd::kStoresMasked && (kRank == 1 || kRank == 2 || kRank == 4)) {
    write_vectors<Simd, kRank>(index, count, axes, rows);
  } else {
    write_numbers<kRank>(index, count, axes, rows);
  }
}

template <int64_t kRank>
void write_rows_of(const uint64_t* words, uint32_t first, const Axes& axes, int64_t row_count,
                   uint32_t* rows) {
  uint32_t index[kBlock + kWordBits];
  if (kRank == 1) {  // an index is a row; the next word overwrites extra stores
    for (; row_count >= kWordBits; first += kWordBits) {
      const int64_t stored = Simd::store_set_bits(*words++, first, rows);
      row_count -= stored;
      rows += stored;
    }
  }
  while (row_count > 0) {
    int64_t stored = 0;
    for (; stored < kBlock && stored < row_count; first += kWordBits) {
      stored += Simd::store_set_bits(*words++, first, index + stored);
    }
    if (stored > row_count) stored = row_count;
    write_block<kRank>(index, stored, axes, rows);
    row_count -= stored;
    rows += stored * axes.rank;
  }
}

void write_rows(const uint64_t* words, uint32_t first, const Axes& axes, int64_t row_count,
                uint32_t* rows) {
  switch (axes.rank) {
    case 1:
      return write_rows_of<1>(words, first, axes, row_count, rows);
    case 2:
      return write_rows_of<2>(words, first, axes, row_count, rows);
    case 3:
      return write_rows_of<3>(words, first, axes, row_count, rows);
    case 4:
      return write_rows_of<4>(words, first, axes, row_count, rows);
    default:
      return write_rows_of<0>(words, first, axes, row_count, rows);
  }
}

void fill(uint32_t* values, int64_t count, uint32_t value) {
  for (int64_t i = 0; i < count; ++i) values[i] = value;
}

}  // namespace

template <>
const NonzeroKernels Table<NonzeroKernels>::kernels = {test, count, write_rows, fill};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
