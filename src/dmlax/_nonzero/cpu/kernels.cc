// Compiled once for each instruction set. It includes nothing that defines inline functions: the
// linker would keep one copy of each, and that may be one that this machine cannot run.
#include "dmlax/_nonzero/cpu/kernels.h"

#if defined(DMLAX_ISA_avx512_vnni) || defined(DMLAX_ISA_amx_int8)
#define DMLAX_AVX512
#elif defined(DMLAX_ISA_avx2) || defined(DMLAX_ISA_avx_vnni)
#define DMLAX_AVX2
#endif

#if defined(DMLAX_AVX512) || defined(DMLAX_AVX2)
#include <immintrin.h>
#endif

namespace dmlax {
namespace DMLAX_ISA {
namespace {

// ---- zero tests ----------------------------------------------------------------------------

template <typename Element>
uint64_t test_word(const Element* elements, int64_t count, Element magnitude) {
  uint64_t word = 0;
  for (int64_t i = 0; i < count; ++i) {
    word |= static_cast<uint64_t>((elements[i] & magnitude) != 0) << i;
  }
  return word;
}

#if defined(DMLAX_AVX512)

uint64_t test_whole_word(const uint8_t* x, uint8_t magnitude) {
  return _mm512_test_epi8_mask(_mm512_loadu_si512(x),
                               _mm512_set1_epi8(static_cast<char>(magnitude)));
}

uint64_t test_whole_word(const uint16_t* x, uint16_t magnitude) {
  const __m512i mask = _mm512_set1_epi16(static_cast<int16_t>(magnitude));
  uint64_t word = 0;
  for (int i = 0; i < 2; ++i) {
    const uint64_t part = _mm512_test_epi16_mask(_mm512_loadu_si512(x + 32 * i), mask);
    word |= part << (32 * i);
  }
  return word;
}

uint64_t test_whole_word(const uint32_t* x, uint32_t magnitude) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int32_t>(magnitude));
  uint64_t word = 0;
  for (int i = 0; i < 4; ++i) {
    const uint64_t part = _mm512_test_epi32_mask(_mm512_loadu_si512(x + 16 * i), mask);
    word |= part << (16 * i);
  }
  return word;
}

uint64_t test_whole_word(const uint64_t* x, uint64_t magnitude) {
  const __m512i mask = _mm512_set1_epi64(static_cast<int64_t>(magnitude));
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) {
    const uint64_t part = _mm512_test_epi64_mask(_mm512_loadu_si512(x + 8 * i), mask);
    word |= part << (8 * i);
  }
  return word;
}

#elif defined(DMLAX_AVX2)

__m256i load(const void* x) { return _mm256_loadu_si256(static_cast<const __m256i*>(x)); }

// 32 elements whose bytes are 0 or 255.
uint64_t high_bits(__m256i bytes) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
}

uint64_t test_whole_word(const uint8_t* x, uint8_t magnitude) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(magnitude));
  const __m256i zero = _mm256_setzero_si256();
  uint64_t zeros = 0;
  for (int i = 0; i < 2; ++i) {
    const __m256i is_zero = _mm256_cmpeq_epi8(_mm256_and_si256(load(x + 32 * i), mask), zero);
    zeros |= high_bits(is_zero) << (32 * i);
  }
  return ~zeros;
}

uint64_t test_whole_word(const uint16_t* x, uint16_t magnitude) {
  const __m256i mask = _mm256_set1_epi16(static_cast<int16_t>(magnitude));
  const __m256i zero = _mm256_setzero_si256();
  uint64_t zeros = 0;
  for (int i = 0; i < 2; ++i) {
    const uint16_t* part = x + 32 * i;
    const __m256i low = _mm256_cmpeq_epi16(_mm256_and_si256(load(part), mask), zero);
    const __m256i high = _mm256_cmpeq_epi16(_mm256_and_si256(load(part + 16), mask), zero);
    const __m256i mixed = _mm256_packs_epi16(low, high);  // halves of 128 bits interleave
    zeros |= high_bits(_mm256_permute4x64_epi64(mixed, 0xD8)) << (32 * i);
  }
  return ~zeros;
}

uint64_t test_whole_word(const uint32_t* x, uint32_t magnitude) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int32_t>(magnitude));
  const __m256i zero = _mm256_setzero_si256();
  uint64_t zeros = 0;
  for (int i = 0; i < 8; ++i) {
    const __m256i is_zero = _mm256_cmpeq_epi32(_mm256_and_si256(load(x + 8 * i), mask), zero);
    const uint32_t part = _mm256_movemask_ps(_mm256_castsi256_ps(is_zero));
    zeros |= static_cast<uint64_t>(part) << (8 * i);
  }
  return ~zeros;
}

uint64_t test_whole_word(const uint64_t* x, uint64_t magnitude) {
  const __m256i mask = _mm256_set1_epi64x(static_cast<int64_t>(magnitude));
  const __m256i zero = _mm256_setzero_si256();
  uint64_t zeros = 0;
  for (int i = 0; i < 16; ++i) {
    const __m256i is_zero = _mm256_cmpeq_epi64(_mm256_and_si256(load(x + 4 * i), mask), zero);
    const uint32_t part = _mm256_movemask_pd(_mm256_castsi256_pd(is_zero));
    zeros |= static_cast<uint64_t>(part) << (4 * i);
  }
  return ~zeros;
}

#else

template <typename Element>
uint64_t test_whole_word(const Element* elements, Element magnitude) {
  return test_word(elements, kWordBits, magnitude);
}

#endif

template <typename Element>
void test_all(const void* data, int64_t count, bool is_float, uint64_t* words) {
  const Element* elements = static_cast<const Element*>(data);
  const Element every = static_cast<Element>(~Element{0});
  const Element magnitude = is_float ? static_cast<Element>(every >> 1) : every;
  for (; count >= kWordBits; count -= kWordBits, elements += kWordBits) {
    *words++ = test_whole_word(elements, magnitude);
  }
  if (count > 0) *words = test_word(elements, count, magnitude);
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

// Writes the indices of a word's set bits, and whatever it likes up to index[63]; returns how many.
#if defined(DMLAX_AVX512)

int64_t expand(uint64_t word, uint32_t first, uint32_t* index) {
  const __m512i lanes =
      _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  uint32_t* next = index;
  for (int i = 0; i < 4; ++i) {
    const __mmask16 part = static_cast<__mmask16>(word >> (16 * i));
    const __m512i all = _mm512_add_epi32(lanes, _mm512_set1_epi32(first + 16 * i));
    _mm512_storeu_si512(next, _mm512_maskz_compress_epi32(part, all));
    next += __builtin_popcount(part);
  }
  return next - index;
}

#else

int64_t expand(uint64_t word, uint32_t first, uint32_t* index) {
  uint32_t* next = index;
  for (; word != 0; word &= word - 1) *next++ = first + __builtin_ctzll(word);
  return next - index;
}

#endif

inline uint32_t divide(uint32_t x, const Divisor& divisor) {
  const uint32_t high = (static_cast<uint64_t>(x) * divisor.multiplier) >> 32;
  return (high + ((x - high) >> 1)) >> divisor.shift;
}

constexpr int64_t kBlock = 512;

// indices -> rows; kRank is the rank, or 0 where only `axes` tells.
template <int64_t kRank>
void write_block(const uint32_t* index, int64_t count, const Axes& axes, uint32_t* rows) {
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

#if defined(DMLAX_AVX512)

__m512i divide(__m512i x, __m512i multiplier, __m128i shift) {
  const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(x, multiplier), 32);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), multiplier);
  const __m512i high = _mm512_mask_mov_epi32(even, 0xAAAA, odd);
  const __m512i half = _mm512_srli_epi32(_mm512_sub_epi32(x, high), 1);
  return _mm512_srl_epi32(_mm512_add_epi32(high, half), shift);
}

__m512i divide(__m512i x, const Divisor& divisor, __m512i* remainder) {
  if (divisor.value == 1) {
    *remainder = _mm512_setzero_si512();
    return x;
  }
  const __m512i quotient = divide(x, _mm512_set1_epi32(divisor.multiplier),
                                  _mm_cvtsi32_si128(divisor.shift));
  const __m512i whole = _mm512_mullo_epi32(quotient, _mm512_set1_epi32(divisor.value));
  *remainder = _mm512_sub_epi32(x, whole);
  return quotient;
}

// The first `count` numbers of a vector, at most 16; none for a negative count.
void store_first(uint32_t* values, int64_t count, __m512i x) {
  if (count >= 16) {
    _mm512_storeu_si512(values, x);
  } else if (count > 0) {
    _mm512_mask_storeu_epi32(values, static_cast<__mmask16>((1u << count) - 1), x);
  }
}

template <>
void write_block<1>(const uint32_t* index, int64_t count, const Axes&, uint32_t* rows) {
  for (int64_t i = 0; i < count; i += 16) {
    store_first(rows + i, count - i, _mm512_loadu_si512(index + i));
  }
}

template <>
void write_block<2>(const uint32_t* index, int64_t count, const Axes& axes, uint32_t* rows) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const Divisor divisor = axes.divisors[1];
  for (int64_t i = 0; i < count; i += 16) {
    __m512i second;
    const __m512i first = divide(_mm512_loadu_si512(index + i), divisor, &second);
    const int64_t numbers = 2 * (count - i);
    store_first(rows + 2 * i, numbers, _mm512_permutex2var_epi32(first, low, second));
    store_first(rows + 2 * i + 16, numbers - 16, _mm512_permutex2var_epi32(first, high, second));
  }
}

template <>
void write_block<4>(const uint32_t* index, int64_t count, const Axes& axes, uint32_t* rows) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const __m512i low_pairs = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
  const __m512i high_pairs = _mm512_add_epi64(low_pairs, _mm512_set1_epi64(4));
  const Divisor one = axes.divisors[1], two = axes.divisors[2], three = axes.divisors[3];
  for (int64_t i = 0; i < count; i += 16) {
    __m512i first = _mm512_loadu_si512(index + i), second, third, fourth;
    first = divide(first, three, &fourth);
    first = divide(first, two, &third);
    first = divide(first, one, &second);
    const __m512i pairs[2][2] = {{_mm512_permutex2var_epi32(first, low, second),
                                  _mm512_permutex2var_epi32(third, low, fourth)},
                                 {_mm512_permutex2var_epi32(first, high, second),
                                  _mm512_permutex2var_epi32(third, high, fourth)}};
    const int64_t numbers = 4 * (count - i);
    for (int64_t half = 0; half < 2; ++half) {
      uint32_t* out = rows + 4 * i + 32 * half;
      const __m512i left = pairs[half][0], right = pairs[half][1];
      store_first(out, numbers - 32 * half, _mm512_permutex2var_epi64(left, low_pairs, right));
      store_first(out + 16, numbers - 32 * half - 16,
                  _mm512_permutex2var_epi64(left, high_pairs, right));
    }
  }
}

#endif

template <int64_t kRank>
void write_rows_of(const uint64_t* words, uint32_t first, const Axes& axes, int64_t row_count,
                   uint32_t* rows) {
  uint32_t index[kBlock + kWordBits];
  if (kRank == 1) {  // an index is a row; what is written after a word's rows is written over
    for (; row_count >= kWordBits; first += kWordBits) {
      const int64_t found = expand(*words++, first, rows);
      row_count -= found;
      rows += found;
    }
  }
  while (row_count > 0) {
    int64_t found = 0;
    for (; found < kBlock && found < row_count; first += kWordBits) {
      found += expand(*words++, first, index + found);
    }
    if (found > row_count) found = row_count;
    write_block<kRank>(index, found, axes, rows);
    row_count -= found;
    rows += found * axes.rank;
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

extern const NonzeroKernels nonzero_kernels;
const NonzeroKernels nonzero_kernels = {test, count, write_rows, fill};

}  // namespace DMLAX_ISA
}  // namespace dmlax
