// Plain C++, which compilers vectorise. A vector has all 64 columns of a panel.
#pragma once

#include "dmlax/_cpu/bits.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

struct Simd : OptionalFeatures, ScalarBits {
  static constexpr tuning::InstructionSet kTuning = tuning::DMLAX_ISA_NAMESPACE;
  static constexpr int kLanes = 64;
  static constexpr int kVectorsPacked = 1;

  static constexpr int column_of(int, int lane) { return lane; }

  // --- int32, which wraps

  struct Int32s {
    uint32_t lane[kLanes];
  };

  static Int32s load(const void* p) {
    Int32s v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }

  static void store(void* p, const Int32s& v) { __builtin_memcpy(p, &v, sizeof v); }

  static Int32s broadcast(int32_t value) {
    Int32s v;
    for (uint32_t& lane : v.lane) lane = static_cast<uint32_t>(value);
    return v;
  }

  // Applies an operation to each lane.
  template <typename V, typename Operation>
  static V map(V a, const V& b, const Operation& operation) {
    for (int i = 0; i < kLanes; ++i) a.lane[i] = operation(a.lane[i], b.lane[i]);
    return a;
  }

  template <typename V>
  static V add(const V& a, const V& b) {
    return map(a, b, [](auto x, auto y) { return x + y; });
  }

  static Int32s subtract(const Int32s& a, const Int32s& b) {
    return map(a, b, [](uint32_t x, uint32_t y) { return x - y; });
  }

  template <typename V>
  static V multiply(const V& a, const V& b) {
    return map(a, b, [](auto x, auto y) { return x * y; });
  }

  static void store_columns(int32_t* columns, int, const Int32s& v) { store(columns, v); }
  static Int32s load_columns(const int32_t* columns, int) { return load(columns); }

  // --- products

  // A quad is its four rows one after another.
  static void interleave_rows(const uint8_t* const* rows, int count, int64_t valid, uint8_t flip,
                              uint8_t* quad) {
    const int64_t columns = valid < kPanelWidth ? valid : kPanelWidth;
    __builtin_memset(quad, 0, kQuadBytes);
    for (int i = 0; i < count; ++i, quad += kPanelWidth) {
      for (int64_t c = 0; c < columns; ++c) quad[c] = static_cast<uint8_t>(rows[i][c] ^ flip);
    }
  }

  struct Columns {
    const uint8_t* quad;
    Columns() = default;
    explicit Columns(const uint8_t* quad) : quad(quad) {}
  };

  struct Weights {
    int16_t weight[kKPack];
    explicit Weights(int32_t word) {
      int8_t bytes[kKPack];
      __builtin_memcpy(bytes, &word, sizeof bytes);
      for (int k = 0; k < kKPack; ++k) weight[k] = bytes[k];
    }
  };

  static void multiply_add(Int32s& sums, const Columns& columns, const Weights& weights) {
    const uint8_t* row = columns.quad;
    for (int k = 0; k < kKPack; ++k, row += kPanelWidth) {
      const int16_t weight = weights.weight[k];
      for (int i = 0; i < kLanes; ++i) {
        sums.lane[i] += static_cast<uint32_t>(static_cast<int16_t>(row[i]) * weight);
      }
    }
  }

  // --- requantization

  struct Floats {
    float lane[kLanes];
  };

  static Floats broadcast_float(float value) {
    Floats v;
    for (float& lane : v.lane) lane = value;
    return v;
  }

  static Floats load_floats(const float* p) { return load_columns(p, 0); }
  static void store_floats(float* p, const Floats& v) { __builtin_memcpy(p, &v, sizeof v); }

  static Floats load_columns(const float* columns, int) {
    Floats v;
    __builtin_memcpy(&v, columns, sizeof v);
    return v;
  }

  static Floats divide(const Floats& a, const Floats& b) {
    return map(a, b, [](float x, float y) { return x / y; });
  }

  static Floats clamp(const Floats& v, const Floats& low, const Floats& high) {
    const Floats raised = map(v, low, [](float x, float least) { return x > least ? x : least; });
    return map(raised, high, [](float x, float most) { return x < most ? x : most; });
  }

  static Floats estimate(const Int32s& sums, const Floats& factor, const Floats& low,
                         const Floats& high) {
    Floats v;
    for (int i = 0; i < kLanes; ++i) {
      const float value = static_cast<float>(static_cast<int32_t>(sums.lane[i])) * factor.lane[i];
      const float raised = value > low.lane[i] ? value : low.lane[i];
      v.lane[i] = raised < high.lane[i] ? raised : high.lane[i];
    }
    return v;
  }

  static uint64_t round(const Floats& v, const Floats& band, Int32s& rounded) {
    constexpr float kShift = 0x1.8p23f;  // adding and subtracting it rounds to even
    uint32_t off[kLanes], any = 0;
    for (int i = 0; i < kLanes; ++i) {
      const float nearest = (v.lane[i] + kShift) - kShift, rest = v.lane[i] - nearest;
      rounded.lane[i] = static_cast<uint32_t>(static_cast<int32_t>(nearest));
      off[i] = (rest < 0 ? -rest : rest) >= band.lane[i];
      any |= off[i];
    }
    if (any == 0) return 0;
    uint64_t mask = 0;
    for (int i = 0; i < kLanes; ++i) mask |= static_cast<uint64_t>(off[i]) << i;
    return mask;
  }

  static void store_bytes(uint8_t* bytes, const Int32s* rounded, int32_t zero_point,
                          bool is_signed) {
    const int32_t lowest = is_signed ? -128 : 0, highest = lowest + 255;
    for (int i = 0; i < kLanes; ++i) {
      const int32_t value = static_cast<int32_t>(rounded->lane[i]) + zero_point;
      const int32_t raised = value < lowest ? lowest : value;
      bytes[i] = static_cast<uint8_t>(raised > highest ? highest : raised);
    }
  }

  // --- arithmetic of bytes

  static void widen_bytes(const uint8_t* bytes, uint8_t flip, Int32s* v) {
    for (int i = 0; i < kLanes; ++i) v->lane[i] = static_cast<uint8_t>(bytes[i] ^ flip);
  }

  static bool is_zero(const Int32s& v) {
    uint32_t any = 0;
    for (int i = 0; i < kLanes; ++i) any |= v.lane[i];
    return any == 0;
  }

  static Floats to_floats(const Int32s& v) {
    Floats floats;
    for (int i = 0; i < kLanes; ++i) {
      floats.lane[i] = static_cast<float>(static_cast<int32_t>(v.lane[i]));
    }
    return floats;
  }

  // Rounds magnitudes below 2^22.
  static Int32s to_integers(const Floats& v) {
    constexpr float kShift = 0x1.8p23f;  // adding and subtracting it rounds to even
    Int32s integers;
    for (int i = 0; i < kLanes; ++i) {
      const float nearest = (v.lane[i] + kShift) - kShift;
      integers.lane[i] = static_cast<uint32_t>(static_cast<int32_t>(nearest));
    }
    return integers;
  }

  static Floats fused_multiply_add(Floats a, const Floats& b, const Floats& c) {
    for (int i = 0; i < kLanes; ++i) {
      a.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
    }
    return a;
  }

  // --- bytes

  // The caller's loop is as fast.
  static int64_t copy_even(uint8_t*, const uint8_t*, int64_t) { return 0; }

  static int32_t sum_bytes(const uint8_t* bytes, int64_t count, uint8_t flip) {
    int32_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += bytes[i] ^ flip;
    return sum;
  }

  struct Table {
    const uint8_t* entries;

    explicit Table(const uint8_t* entries) : entries(entries) {}
  };

  static constexpr int64_t kTableBytes = 8;

  // Handles eight bytes as one word, so that only the table is read by bytes.
  static void look_up(const Table& table, const uint8_t* input, uint8_t* output) {
    uint64_t places, bytes = 0;
    __builtin_memcpy(&places, input, sizeof places);
#pragma GCC unroll 8
    for (int shift = 0; shift < 64; shift += 8) {
      bytes |= static_cast<uint64_t>(table.entries[(places >> shift) & 0xff]) << shift;
    }
    __builtin_memcpy(output, &bytes, sizeof bytes);
  }

  template <typename Element>
  static uint64_t nonzero_bits(const Element* x, Element mask) {
    return test_elements(x, 64, mask);
  }
};

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
