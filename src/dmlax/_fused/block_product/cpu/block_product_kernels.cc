// Kernels of rows times columns of 4-bit blocks, compiled once for each SIMD header.
//
// Sums are in the order of XLA's product of a matrix and a vector, so that results have its bits:
// eight lanes along the depth, each a chain of fused multiplications and additions, whose totals
// are added in pairs of neighbours. Elements at even and odd positions have separate sums. CMake
// lets the compiler fuse a product and a sum in this file.
#include "dmlax/_fused/block_product/cpu/block_product_kernels.h"

#include <cstring>

#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

constexpr int kIntegers = 16;  // eight bytes': the integers of low bits, then those of high bits
constexpr int kLanes = Simd::kPermutesBytes ? kIntegers : 8;
constexpr int kParts = kIntegers / kLanes;
constexpr int kColumns = 4;  // several columns hide an addition's latency

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Integers __attribute__((vector_size(4 * kLanes)));
typedef uint64_t Words __attribute__((vector_size(4 * kLanes)));

template <typename T>
inline T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The byte, of eight, whose integers are in a lane.
constexpr int byte_of(int lane) { return lane % 2 * 4 + lane % 8 / 2; }

// The integers of eight bytes, or a part of them, under other bits.
inline Integers load_integers(const uint8_t* from, uint32_t part) {
  constexpr uint32_t kShifts[kIntegers] = {0, 0, 8,  8,  16, 16, 24, 24,
                                           4, 4, 12, 12, 20, 20, 28, 28};
  const Words words = load<uint64_t>(from) - Words{};
  return reinterpret_cast<Integers>(words) >> load<Integers>(kShifts + part * kLanes);
}

// The numbers that a block's integers stand for.
template <typename S>
struct Levels {
  Floats scale, zero_point;

  Levels(float scale, float zero_point)
      : scale(scale - Floats{}), zero_point(zero_point - Floats{}) {}

  Floats of(const Integers& integers) const {
    typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
    const Ints low = reinterpret_cast<Ints>(integers & 15);
    return (__builtin_convertvector(low, Floats) - zero_point) * scale;
  }
};

template <typename S>
  requires(S::kPermutesBytes)
struct Levels<S> {
  Floats all;

  Levels(float scale, float zero_point) {
    const Floats integers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    all = (integers - (zero_point - Floats{})) * (scale - Floats{});
  }

  Floats of(const Integers& integers) const {
    const auto indices = reinterpret_cast<typename S::Int32s>(integers);
    return reinterpret_cast<Floats>(
        S::permute_floats(reinterpret_cast<typename S::Floats>(all), indices));
  }
};

// The total of the even elements plus that of the odd ones.
inline float total(const Floats* sums) {
  float lanes[2][8], totals[2];
  std::memcpy(lanes, sums, sizeof lanes);
  for (int odd = 0; odd < 2; ++odd) {
    float bytes[8];
    for (int i = 0; i < 8; ++i) bytes[byte_of(i)] = lanes[odd][i];
    totals[odd] = ((bytes[0] + bytes[1]) + (bytes[2] + bytes[3])) +
                  ((bytes[4] + bytes[5]) + (bytes[6] + bytes[7]));
  }
  return totals[0] + totals[1];
}

// The columns that R rows multiply at once. A tile of sums fills the registers.
template <int R>
constexpr int kTileColumns = kParts == 1 ? kColumns
                             : R <= 2    ? 2
                                         : 1;

// Multiplies neighbouring columns by R rows.
template <typename S, int R, int C = kTileColumns<R>>
inline void multiply_tile(const BlockMatrix& matrix, const float* row, int64_t column,
                          float* output) {
  const int64_t depth = 2 * matrix.bytes, bytes = matrix.bytes / matrix.blocks;
  const uint8_t* from = matrix.held + column * matrix.bytes;
  Floats sums[R][C][kParts] = {};
  for (int64_t block = 0; block < matrix.blocks; ++block, from += bytes) {
    const auto levels = [&](int i) {
      const int64_t at = (column + i % C) * matrix.blocks + block;
      return Levels<S>(matrix.scale[at], matrix.zero_point[matrix.one_zero_point ? 0 : at]);
    };
    const Levels<S> of_column[kColumns] = {levels(0), levels(1), levels(2), levels(3)};
    for (int64_t i = 0; i < bytes; i += 8) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part, row += kLanes) {
        Floats values[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
          values[c] = of_column[c].of(load_integers(from + c * matrix.bytes + i, part));
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const Floats elements = load<Floats>(row + r * depth);
#pragma GCC unroll 4
          for (int c = 0; c < C; ++c) sums[r][c][part] += values[c] * elements;
        }
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) output[r * matrix.columns + column + c] = total(sums[r][c]);
  }
}

// Multiplies four columns by rows, up to R at once.
template <int R>
void multiply_rows(const BlockMatrix& matrix, const float* row, int64_t rows, int64_t column,
                   float* output) {
  if constexpr (R > 0) {
    for (; rows >= R; rows -= R, row += R * 2 * matrix.bytes, output += R * matrix.columns) {
      for (int c = 0; c < kColumns; c += kTileColumns<R>) {
        multiply_tile<Simd, R>(matrix, row, column + c, output);
      }
    }
    multiply_rows<R - 1>(matrix, row, rows, column, output);
  }
}

void pack(const float* row, int64_t count, float* packed) {
  for (int64_t i = 0; i < count; i += kIntegers) {
    for (int lane = 0; lane < kIntegers; ++lane) {
      packed[i + lane] = row[i + 2 * byte_of(lane) + lane / 8];
    }
  }
}

void multiply(const BlockMatrix& matrix, const float* packed, int64_t rows, int64_t first,
              int64_t last, float* output) {
  for (int64_t column = first; column < last; column += kColumns) {
    multiply_rows<tuning::kDotBlockRows>(matrix, packed, rows, column, output);
  }
}

}  // namespace

template <>
const BlockKernels Table<BlockKernels>::kernels = {.pack = pack, .multiply = multiply};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
