// Kernels of rows of 8-bit levels times columns of integers in blocks, compiled once for each
// instruction set.
//
// A panel has 16 columns. Up to kInPlaceRows rows meet the weights as they are in memory; for more
// rows a panel's words are put into the order of the products once.
#include "dmlax/_fused/block_product/cpu/level_product_kernels.h"

#include <cstring>
#include <type_traits>

#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// What QuadInstructions has, in plain C++.
struct Plain {
  static constexpr int kLanes = 16;
  static constexpr bool kHalvesBytes = false;
  typedef int32_t Int32s __attribute__((vector_size(4 * kLanes)));
  typedef float Floats __attribute__((vector_size(4 * kLanes)));

  template <typename V, typename T>
  static V read(const T* p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static Int32s load(const void* p) { return read<Int32s>(p); }
  static void store(void* p, const Int32s& v) { std::memcpy(p, &v, sizeof v); }
  static Floats load_floats(const float* p) { return read<Floats>(p); }
  static void store_floats(float* p, const Floats& v) { std::memcpy(p, &v, sizeof v); }
  static Floats to_floats(const Int32s& v) { return __builtin_convertvector(v, Floats); }
  template <typename V>
  static V add(const V& a, const V& b) {
    return a + b;
  }
  template <typename V>
  static V multiply(const V& a, const V& b) {
    return a * b;
  }
  static Int32s low_half_bytes(const Int32s& v) { return v & 0x0f0f0f0f; }
  static Int32s high_half_bytes(const Int32s& v) { return low_half_bytes(v >> 4); }

  static void load_quads(const uint8_t* from, int64_t step, Int32s* words) {
    for (int i = 0; i < 4; ++i) {
      int32_t word[kLanes];
      for (int b = 0; b < kLanes; ++b) std::memcpy(word + b, from + b * step + 4 * i, 4);
      words[i] = load(word);
    }
  }

  template <int bits>
  static void multiply_quads(Int32s& sums, const Int32s* quads, const uint8_t* levels) {
    for (int i = 0; i < 32 / bits; ++i, levels += sizeof(Int32s)) {
      const Int32s a = quads[i], b = load(levels);
      for (int shift = 0; shift < 32; shift += 8) {
        sums += ((a >> shift) & 255) * (b << (24 - shift) >> 24);
      }
    }
  }

  static void transpose_words(Int32s* v) {
    for (int i = 0; i < kLanes; ++i) {
      for (int j = 0; j < i; ++j) {
        const int32_t word = v[i][j];
        v[i][j] = v[j][i];
        v[j][i] = word;
      }
    }
  }
};

using Vectors = std::conditional_t<Simd::kMultipliesQuads, Simd, Plain>;

constexpr int kRows = Vectors::kHalvesBytes ? tuning::kLevelHalfRows : tuning::kLevelRows;
constexpr int kInPlaceRows = Vectors::kHalvesBytes ? 1 : kRows;
constexpr int64_t kSlots = 4;  // vectors of sums that groups take turns at
constexpr int64_t kSums = kSlots * kLevelBlocks;
constexpr int64_t kGroupParameters = 2 * 4 * kLevelBlocks;  // bytes of a group's steps and sums
constexpr int64_t kHeldVector = 4 * kLevelBlocks;           // bytes of a word of all blocks

// --- rows --------------------------------------------------------------------------------

// Rounds a block. Returns the sum of its levels.
inline int32_t round_block(const float* from, int64_t count, float& step,
                           int8_t (&levels)[kMostLevelBlock]) {
  constexpr float kShift = 0x1.8p23f;  // adding and subtracting it rounds to even
  constexpr int32_t kLeast = 8 << 23, kInfinity = 255 << 23;  // 2^-119: its step is normal
  int32_t top_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    int32_t bits;
    std::memcpy(&bits, from + i, sizeof bits);
    bits &= 0x7fffffff;
    top_bits = bits > top_bits ? bits : top_bits;
  }
  if (top_bits < kLeast || top_bits >= kInfinity) {
    std::memset(levels, 0, sizeof levels);
    step = top_bits < kLeast ? 0 : __builtin_nanf("");
    return 0;
  }
  float top;
  std::memcpy(&top, &top_bits, sizeof top);
  const float per_step = 127.0f / top;
  step = top / 127.0f;
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto level = static_cast<int32_t>((from[i] * per_step + kShift) - kShift);
    levels[i] = static_cast<int8_t>(level);
    sum += level;
  }
  return sum;
}

// The bytes at even places of eight.
inline uint32_t even_bytes(uint64_t bytes) {
  bytes &= 0x00ff00ff00ff00ff;
  bytes = (bytes | bytes >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(bytes | bytes >> 16);
}

// The place of a vector's lane: lanes of fewer than 16 blocks follow one another.
template <typename V>
inline int64_t place_of(int64_t lane, int64_t vector, int64_t vectors) {
  return ((lane / V::kLanes * vectors + vector) * V::kLanes + lane % V::kLanes) * 4;
}

template <typename V, int bits>
void pack_row(const LevelMatrix& matrix, const float* row, uint8_t* packed) {
  const LevelLayout layout = layout_of(matrix);
  const int64_t vectors = layout.quads * 32 / bits, words = layout.block_bytes / 4;
  if (matrix.blocks % kLevelBlocks != 0 || layout.block_bytes % 16 != 0) {
    std::memset(packed, 0, static_cast<size_t>(layout.row_bytes));
  }
  const int32_t zero = matrix.zero_point == nullptr ? matrix.zero : 1;
  for (int64_t block = 0; block < matrix.blocks; ++block, row += matrix.block) {
    uint8_t* group = packed + block / kLevelBlocks * layout.group_bytes;
    const int64_t lane = block % kLevelBlocks;
    int8_t levels[kMostLevelBlock];
    float step;
    const int32_t start = -zero * round_block(row, matrix.block, step, levels);
    std::memcpy(group + 4 * lane, &step, sizeof step);
    std::memcpy(group + 4 * (kLevelBlocks + lane), &start, sizeof start);
    uint8_t* to = group + kGroupParameters;
    for (int64_t word = 0; word < words; ++word) {
      if constexpr (bits == 8) {
        std::memcpy(to + place_of<V>(lane, word, vectors), levels + 4 * word, 4);
      } else {
        uint64_t eight;
        std::memcpy(&eight, levels + 8 * word, sizeof eight);
        const uint32_t even = even_bytes(eight), odd = even_bytes(eight >> 8);
        const int64_t vector = word / 4 * 8 + word % 4;
        std::memcpy(to + place_of<V>(lane, vector, vectors), &even, sizeof even);
        std::memcpy(to + place_of<V>(lane, vector + 4, vectors), &odd, sizeof odd);
      }
    }
  }
}

void pack(const LevelMatrix& matrix, const float* row, uint8_t* packed) {
  (matrix.bits == 4 ? pack_row<Vectors, 4> : pack_row<Vectors, 8>)(matrix, row, packed);
}

// --- weights -----------------------------------------------------------------------------

// A group's weights: 16 blocks, `step` bytes apart.
struct Group {
  const uint8_t* from;
  int64_t step;
  uint8_t copy[kLevelBlocks * kMostLevelBlock];

  Group(const LevelMatrix& matrix, const LevelLayout& layout, int64_t column, int64_t group) {
    const int64_t first = group * kLevelBlocks, bytes = layout.block_bytes;
    from = matrix.held + column * layout.column_bytes + first * bytes;
    step = bytes;
    const int64_t blocks = least(matrix.blocks - first, kLevelBlocks);
    for (int64_t i = 0; i < blocks * bytes; i += 64) {
      __builtin_prefetch(from + tuning::kLevelPrefetch + i);
    }
    if (blocks == kLevelBlocks && bytes % 16 == 0) return;
    step = layout.quads * 16;
    const auto size = static_cast<size_t>(kLevelBlocks * step);
    // The bound always holds. GCC, which takes `step` for negative, wants to see it.
    std::memset(copy, 0, size < sizeof copy ? size : sizeof copy);
    for (int64_t i = 0; i < blocks; ++i) {
      std::memcpy(copy + i * step, from + i * bytes, static_cast<size_t>(bytes));
    }
    from = copy;
  }
};

// Spreads eight half bytes to bytes.
inline uint64_t spread_half_bytes(uint32_t halves) {
  uint64_t bytes = halves;
  bytes = (bytes | bytes << 16) & 0x0000ffff0000ffff;
  bytes = (bytes | bytes << 8) & 0x00ff00ff00ff00ff;
  return (bytes | bytes << 4) & 0x0f0f0f0f0f0f0f0f;
}

// The scales of a group's blocks, and their zero points if blocks differ.
struct Parameters {
  const float* scale;
  float scales[kLevelBlocks];
  int32_t zeros[kLevelBlocks];

  Parameters(const LevelMatrix& matrix, const LevelLayout& layout, int64_t column, int64_t group) {
    const int64_t first = group * kLevelBlocks, blocks = least(matrix.blocks - first, kLevelBlocks);
    const bool is_whole = blocks == kLevelBlocks && matrix.parts == 1;
    scale = matrix.scale + column * layout.parameters;
    if (is_whole) {
      scale += first;
    } else {
      for (int64_t i = 0; i < kLevelBlocks; ++i) {
        scales[i] = i < blocks ? scale[(first + i) / matrix.parts] : 0;
      }
      scale = scales;
    }
    if (matrix.zero_point == nullptr) return;
    uint8_t bytes[kLevelBlocks] = {};
    const uint8_t* from = matrix.zero_point + column * ((layout.parameters * matrix.bits + 7) / 8);
    if (is_whole && matrix.bits == 8) {
      std::memcpy(bytes, from + first, sizeof bytes);
    } else if (is_whole) {
      uint32_t halves[2];
      std::memcpy(halves, from + first / 2, sizeof halves);
      const uint64_t spread[2] = {spread_half_bytes(halves[0]), spread_half_bytes(halves[1])};
      std::memcpy(bytes, spread, sizeof bytes);
    } else {
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t at = (first + i) / matrix.parts;
        bytes[i] = matrix.bits == 8 ? from[at] : from[at / 2] >> (at % 2 * 4) & 15;
      }
    }
    for (int64_t i = 0; i < kLevelBlocks; ++i) zeros[i] = bytes[i];
  }
};

// The vectors of four words, in which they are multiplied.
template <typename V, int bits>
constexpr int kUnpacked = bits == 8 && !V::kHalvesBytes ? 4 : 8;

template <typename V, int bits>
inline void unpack(const uint8_t* from, int64_t step, typename V::Int32s* quads) {
  if constexpr (kUnpacked<V, bits> == 4) {
    V::load_quads(from, step, quads);
  } else {
    typename V::Int32s words[4];
    V::load_quads(from, step, words);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      quads[i] = V::low_half_bytes(words[i]);
      quads[4 + i] = V::high_half_bytes(words[i]);
    }
  }
}

// --- products ----------------------------------------------------------------------------

// Adds a group's blocks to the sums of R rows and a column. A panel that is `ready` is unpacked.
template <typename V, int bits, int R, bool ready>
inline void multiply_group(const LevelMatrix& matrix, const LevelLayout& layout,
                           const uint8_t* rows, int64_t column, int64_t group,
                           const uint8_t* panel, float* sums) {
  constexpr int64_t kBytes = 4 * V::kLanes, kQuads = kUnpacked<V, bits>;
  constexpr int64_t kLevelBytes = 32 / bits * kBytes;  // of four words
  const Parameters parameters(matrix, layout, column, group);
  const auto multiply_blocks = [&](const uint8_t* from, int64_t step) {
    const uint8_t* levels = rows + group * layout.group_bytes;
    const auto* steps = reinterpret_cast<const float*>(levels);
    const uint8_t* starts = levels + kGroupParameters / 2;
    float* slots = sums + group % kSlots * kLevelBlocks;
    levels += kGroupParameters;
    for (int64_t lane = 0; lane < kLevelBlocks; lane += V::kLanes, from += V::kLanes * step) {
      typename V::Int32s totals[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        totals[r] = V::load(starts + r * layout.row_bytes + 4 * lane);
        if (matrix.zero_point != nullptr) {
          totals[r] = V::multiply(totals[r], V::load(parameters.zeros + lane));
        }
      }
      for (int64_t quad = 0; quad < layout.quads; ++quad, levels += kLevelBytes) {
        typename V::Int32s quads[kQuads];
        if constexpr (ready) {
#pragma GCC unroll 8
          for (int i = 0; i < kQuads; ++i, panel += kBytes) quads[i] = V::load(panel);
        } else {
          unpack<V, bits>(from + 16 * quad, step, quads);
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          V::template multiply_quads<bits>(totals[r], quads, levels + r * layout.row_bytes);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const int64_t row = r * layout.row_bytes / static_cast<int64_t>(sizeof(float));
        const auto factors = V::multiply(V::load_floats(steps + row + lane),
                                         V::load_floats(parameters.scale + lane));
        auto blocks = V::multiply(V::to_floats(totals[r]), factors);
        float* to = slots + r * kSums + lane;
        if (group >= kSlots) blocks = V::add(V::load_floats(to), blocks);
        V::store_floats(to, blocks);
      }
    }
  };
  if constexpr (ready) {
    multiply_blocks(nullptr, 0);
  } else {
    const Group weights(matrix, layout, column, group);
    multiply_blocks(weights.from, weights.step);
  }
}

// Adds the lanes of kLanes columns' sums, in halves; `step` floats are between columns.
template <typename V>
inline void add_lanes(const float* sums, int64_t step, float* totals) {
  typename V::Int32s columns[V::kLanes];
  for (int c = 0; c < V::kLanes; ++c, sums += step) {
    typename V::Floats parts[kLevelBlocks / V::kLanes];
    for (int64_t lane = 0; lane < kLevelBlocks; lane += V::kLanes) {
      const auto slot = [&](int64_t i) { return V::load_floats(sums + i * kLevelBlocks + lane); };
      parts[lane / V::kLanes] = V::add(V::add(slot(0), slot(1)), V::add(slot(2), slot(3)));
    }
    for (int64_t width = kLevelBlocks / V::kLanes / 2; width > 0; width /= 2) {
      for (int64_t i = 0; i < width; ++i) parts[i] = V::add(parts[i], parts[i + width]);
    }
    float lanes[V::kLanes];
    V::store_floats(lanes, parts[0]);
    columns[c] = V::load(lanes);
  }
  V::transpose_words(columns);
  float lanes[V::kLanes][V::kLanes];
  for (int i = 0; i < V::kLanes; ++i) V::store(lanes[i], columns[i]);
  for (int width = V::kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      V::store_floats(lanes[i], V::add(V::load_floats(lanes[i]), V::load_floats(lanes[i + width])));
    }
  }
  for (int i = 0; i < V::kLanes; ++i) totals[i] = lanes[0][i] + 0.0f;  // a zero is positive
}

// Multiplies a panel by R rows.
template <typename V, int bits, int R, bool ready>
void multiply_panel(const LevelMatrix& matrix, const LevelLayout& layout, const uint8_t* rows,
                    int64_t first, const uint8_t* panel, float* sums, float* output) {
  const int64_t columns = least(matrix.columns - first, kLevelColumns);
  constexpr int64_t kStep = R * kSums;
  if (columns < kLevelColumns || layout.groups < kSlots) {
    std::memset(sums, 0, static_cast<size_t>(kLevelColumns * kStep) * sizeof(float));
  }
  const auto multiply = [&](int64_t column, int64_t group, const uint8_t* from) {
    multiply_group<V, bits, R, ready>(matrix, layout, rows, first + column, group, from,
                                      sums + column * kStep);
  };
  if constexpr (ready) {
    const int64_t bytes = layout.quads * kUnpacked<V, bits> * kHeldVector;
    for (int64_t group = 0; group < layout.groups; ++group) {
      for (int64_t c = 0; c < columns; ++c, panel += bytes) multiply(c, group, panel);
    }
  } else {
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t group = 0; group < layout.groups; ++group) multiply(c, group, nullptr);
    }
  }
  for (int r = 0; r < R; ++r) {
    float totals[kLevelColumns];
    for (int64_t c = 0; c < kLevelColumns; c += V::kLanes) {
      add_lanes<V>(sums + c * kStep + r * kSums, kStep, totals + c);
    }
    std::memcpy(output + r * matrix.columns + first, totals,
                static_cast<size_t>(columns) * sizeof(float));
  }
}

// Multiplies a panel by rows, up to R at once.
template <typename V, int bits, bool ready, int R>
void multiply_rows(const LevelMatrix& matrix, const LevelLayout& layout, const uint8_t* packed,
                   int64_t rows, int64_t first, const uint8_t* panel, float* sums, float* output) {
  if constexpr (R > 0) {
    for (; rows >= R; rows -= R, packed += R * layout.row_bytes, output += R * matrix.columns) {
      multiply_panel<V, bits, R, ready>(matrix, layout, packed, first, panel, sums, output);
    }
    multiply_rows<V, bits, ready, R - 1>(matrix, layout, packed, rows, first, panel, sums, output);
  }
}

// Unpacks a panel: all columns of a group follow one another. It reads memory in order.
template <typename V, int bits>
void unpack_panel(const LevelMatrix& matrix, const LevelLayout& layout, int64_t first,
                  uint8_t* panel) {
  const int64_t columns = least(matrix.columns - first, kLevelColumns);
  const int64_t bytes = layout.quads * kUnpacked<V, bits> * kHeldVector;
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t group = 0; group < layout.groups; ++group) {
      const Group weights(matrix, layout, first + c, group);
      uint8_t* to = panel + (group * columns + c) * bytes;
      for (int64_t lane = 0; lane < kLevelBlocks; lane += V::kLanes) {
        for (int64_t quad = 0; quad < layout.quads; ++quad) {
          typename V::Int32s quads[kUnpacked<V, bits>];
          unpack<V, bits>(weights.from + lane * weights.step + 16 * quad, weights.step, quads);
          for (const auto& vector : quads) {
            V::store(to, vector);
            to += 4 * V::kLanes;
          }
        }
      }
    }
  }
}

constexpr int64_t kSumsOfRows = kRows * kLevelColumns * kSums * 4;  // bytes

int64_t scratch_bytes(const LevelMatrix& matrix, int64_t rows) {
  const LevelLayout layout = layout_of(matrix);
  const int64_t panel = layout.groups * kLevelColumns * layout.quads * 8 * kHeldVector;
  return kSumsOfRows + (rows > kInPlaceRows ? panel : 0);
}

template <typename V, int bits>
void multiply_panels(const LevelMatrix& matrix, const uint8_t* packed, int64_t rows, int64_t first,
                     int64_t last, uint8_t* scratch, float* output) {
  const LevelLayout layout = layout_of(matrix);
  auto* sums = reinterpret_cast<float*>(scratch);
  uint8_t* panel = scratch + kSumsOfRows;
  for (int64_t column = first * kLevelColumns; column < last * kLevelColumns;
       column += kLevelColumns) {
    if (rows > kInPlaceRows) {
      unpack_panel<V, bits>(matrix, layout, column, panel);
      multiply_rows<V, bits, true, kRows>(matrix, layout, packed, rows, column, panel, sums,
                                          output);
    } else {
      multiply_rows<V, bits, false, kInPlaceRows>(matrix, layout, packed, rows, column, panel, sums,
                                                  output);
    }
  }
}

void multiply(const LevelMatrix& matrix, const uint8_t* packed, int64_t rows, int64_t first,
              int64_t last, uint8_t* scratch, float* output) {
  (matrix.bits == 4 ? multiply_panels<Vectors, 4> : multiply_panels<Vectors, 8>)(
      matrix, packed, rows, first, last, scratch, output);
}

}  // namespace

template <>
const LevelKernels Table<LevelKernels>::kernels = {
    .products_per_ns = Simd::kTuning.products_per_ns,
    .pack = pack,
    .multiply = multiply,
    .scratch_bytes = scratch_bytes};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
