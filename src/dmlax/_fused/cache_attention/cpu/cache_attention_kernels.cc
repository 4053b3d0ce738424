// Kernels of the attention of rows to a cache, compiled once for each SIMD header.
//
// The keys of a block are transposed once for all rows and heads that read it. Lanes are keys in
// the scores, and numbers of a value in the results. The heads of a row see the same places, so no
// value of a place beyond them is read.
#include "dmlax/_fused/cache_attention/cpu/cache_attention_kernels.h"

#include <algorithm>
#include <cmath>

#include "dmlax/_cpu/simd/exponential.h"
#include "dmlax/_cpu/simd/floats.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

constexpr int kHeads = 4;  // heads of a tile
constexpr float kInfinity = __builtin_inff();

// The vectors of a tile, whose sums fill the registers.
template <int R>
constexpr int kTileVectors = kLanes == 8 && R > 2 ? 2 : 4;
constexpr int64_t kTileKeys = 4 * kMostLanes;  // a multiple of every tile's

static_assert(kKeys % kTileKeys == 0 && kTileKeys % (4 * kLanes) == 0);

// What a softmax keeps of a row and head; the sums of its values follow.
struct State {
  float top, total;
  float unused[kMostLanes - 2];
};

struct Layout {
  int64_t state;  // floats of a state with its sums
  float *keys, *scores, *states;

  Layout(const CacheAttention& call, uint8_t* scratch)
      : state((call.value_size + 2 * kMostLanes - 1) / kMostLanes * kMostLanes),
        keys(reinterpret_cast<float*>(scratch)),
        scores(keys + call.size * kKeys),
        states(scores + kHeads * kKeys) {}
};

int64_t scratch_bytes(const CacheAttention& call, const CachePart& part) {
  const int64_t state = Layout(call, nullptr).state;
  return ((call.size + kHeads) * kKeys + part.rows * part.heads * state) * 4;
}

// Transposes the keys of a block. Those up to the next tile's end are 0.
template <typename S>
void transpose(const float* keys, int64_t count, int64_t size, float* to) {
  const int64_t padded = (count + kTileKeys - 1) / kTileKeys * kTileKeys;
  for (int64_t key = 0; key < count; key += kLanes) {
    const float* from = keys + key * size;
    const int64_t some = std::min<int64_t>(count - key, kLanes);
    int64_t d = 0;
    if constexpr (S::kMultipliesQuads) {
      for (; some == kLanes && d + kLanes <= size; d += kLanes) {
        typename S::Int32s words[kLanes];
        for (int i = 0; i < kLanes; ++i) words[i] = S::load(from + i * size + d);
        S::transpose_words(words);
        for (int i = 0; i < kLanes; ++i) S::store(to + (d + i) * kKeys + key, words[i]);
      }
    }
    for (; d < size; ++d) {
      for (int64_t i = 0; i < some; ++i) to[d * kKeys + key + i] = from[i * size + d];
    }
  }
  for (int64_t d = 0; d < size && count < padded; ++d) {
    std::memset(to + d * kKeys + count, 0, static_cast<size_t>(padded - count) * sizeof(float));
  }
}

// The scores of R heads and a tile of keys.
template <int R>
inline void score(const float* q, int64_t step, const float* keys, int64_t size, float* scores) {
  constexpr int C = kTileVectors<R>;
  Floats sums[R][C] = {};
  for (int64_t d = 0; d < size; ++d, keys += kKeys) {
    Floats columns[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) columns[c] = load(keys + c * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Floats element = all(q[r * step + d]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sums[r][c] = fused<Simd>(element, columns[c], sums[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) store(scores + r * kKeys + c * kLanes, sums[r][c]);
  }
}

// The hyperbolic tangent as ONNX Runtime computes it: the quotient of `_core/rational.py`.
inline Floats tanh_of(Floats x) {
  constexpr float kNumerator[] = {-2.76076847742355e-16f, 2.00018790482477e-13f,
                                  -8.60467152213735e-11f, 5.12229709037114e-08f,
                                  1.48572235717979e-05f,  6.37261928875436e-04f,
                                  4.89352455891786e-03f};
  constexpr float kDenominator[] = {1.19825839466702e-06f, 1.18534705686654e-04f,
                                    2.26843463243900e-03f, 4.89352518554385e-03f};
  x = clip(x, all(-9.0f), all(9.0f));
  const Floats square = x * x;
  return polynomial(kNumerator, square) * x / polynomial(kDenominator, square);
}

// Makes terms of a row's scores at the places [first, last). Returns the factor of what was before.
float make_terms(const CacheAttention& call, int64_t first, int64_t last, float* scores,
                 State& state) {
  const int64_t begin = first / kLanes * kLanes, end = (last + kLanes - 1) / kLanes * kLanes;
  for (int64_t i = begin; i < end; i += kLanes) {
    Floats x = load(scores + i) * call.scale;
    if (call.softcap != 0) x = tanh_of(x / call.softcap) * call.softcap;
    store(scores + i, x);
  }
  std::fill(scores + begin, scores + first, -kInfinity);
  std::fill(scores + last, scores + end, -kInfinity);
  Floats most = all(-kInfinity);
  for (int64_t i = begin; i < end; i += kLanes) {
    const Floats x = load(scores + i);
    most = most > x ? most : x;
  }
  float top = state.top;
  for (int i = 0; i < kLanes; ++i) top = top > most[i] ? top : most[i];
  const float shift = top == -kInfinity ? 0 : top;
  Floats sums[kUnit] = {};
  for (int64_t i = begin; i < end; i += kLanes) {
    const Floats term = exponential(load(scores + i) - shift);
    store(scores + i, term);
    sums[i / kLanes % kUnit] += term;
  }
  float lanes[kMostLanes];
  std::memcpy(lanes, sums, sizeof lanes);
  for (int width = kMostLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  const float fade = exponential(all(state.top - shift))[0];
  state.top = top;
  state.total = state.total * fade + lanes[0];
  return fade;
}

// Adds the values at the places [first, last), times their terms, to the sums of R heads.
template <int R, int C>
inline void add_values(const float* terms, const float (&fade)[kHeads], int64_t first, int64_t last,
                       const float* values, int64_t value_size, float* sums, int64_t step,
                       int64_t count) {
  Floats totals[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) totals[r][c] = load(sums + r * step + c * kLanes) * fade[r];
  }
  values += first * value_size;
  for (int64_t key = first; key < last; ++key, values += value_size) {
    Floats columns[C];
    if constexpr (C == 1) {
      columns[0] = count < kLanes ? load_some(values, count) : load(values);
    } else {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) columns[c] = load(values + c * kLanes);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Floats term = all(terms[r * kKeys + key]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) totals[r][c] = fused<Simd>(term, columns[c], totals[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) store(sums + r * step + c * kLanes, totals[r][c]);
  }
}

// Attends with up to R heads of a row at a time to the places [first, last) of a block.
template <int R>
void attend_row(const CacheAttention& call, const Layout& layout, const float* q, int64_t heads,
                int64_t first, int64_t last, const float* values, float* states) {
  if constexpr (R > 0) {
    const int64_t step = call.rows * call.size, value_size = call.value_size;
    for (; heads >= R; heads -= R, q += R * step, states += R * layout.state) {
      constexpr int C = kTileVectors<R>;
      for (int64_t key = first / kTileKeys * kTileKeys; key < last; key += C * kLanes) {
        score<R>(q, step, layout.keys + key, call.size, layout.scores + key);
      }
      float fade[kHeads];
      for (int r = 0; r < R; ++r) {
        auto& state = *reinterpret_cast<State*>(states + r * layout.state);
        fade[r] = make_terms(call, first, last, layout.scores + r * kKeys, state);
      }
      float* sums = states + kMostLanes;
      int64_t d = 0;
      for (; d + C * kLanes <= value_size; d += C * kLanes) {
        add_values<R, C>(layout.scores, fade, first, last, values + d, value_size, sums + d,
                         layout.state, kLanes);
      }
      for (; d < value_size; d += kLanes) {
        add_values<R, 1>(layout.scores, fade, first, last, values + d, value_size, sums + d,
                         layout.state, value_size - d);
      }
    }
    attend_row<R - 1>(call, layout, q, heads, first, last, values, states);
  }
}

void attend(const CacheAttention& call, const CachePart& part, uint8_t* scratch, float* output) {
  const Layout layout(call, scratch);
  const int64_t cache = (part.sequence * call.groups + part.group) * call.places;
  const int64_t head = part.group * (call.heads / call.groups) + part.first_head;
  const int64_t first_row = (part.sequence * call.heads + head) * call.rows + part.first_row;
  const int32_t* ranges = call.ranges + 2 * (part.sequence * call.rows + part.first_row);
  const auto place = [&](int64_t i) { return std::clamp<int64_t>(ranges[i], 0, call.places); };
  int64_t begin = call.places, end = 0;
  for (int64_t row = 0; row < part.rows; ++row) {
    if (place(2 * row) >= place(2 * row + 1)) continue;
    begin = std::min(begin, place(2 * row));
    end = std::max(end, place(2 * row + 1));
  }
  const int64_t states = part.heads * layout.state;  // of a row
  for (int64_t i = 0; i < part.rows * part.heads; ++i) {
    float* to = layout.states + i * layout.state;
    std::memset(to, 0, static_cast<size_t>(layout.state) * sizeof(float));
    const float* sink = call.sinks;
    if (sink != nullptr) sink += part.sequence * call.heads + head + i % part.heads;
    auto& state = *reinterpret_cast<State*>(to);
    state.top = sink == nullptr ? -kInfinity : *sink;
    state.total = sink == nullptr ? 0 : 1;
  }
  for (int64_t start = begin / kKeys * kKeys; start < end; start += kKeys) {
    const int64_t count = std::min(end - start, kKeys);
    transpose<Simd>(call.keys + (cache + start) * call.size, count, call.size, layout.keys);
    for (int64_t row = 0; row < part.rows; ++row) {
      const int64_t first = std::max<int64_t>(place(2 * row) - start, 0);
      const int64_t last = std::min(place(2 * row + 1) - start, count);
      if (first >= last) continue;
      attend_row<kHeads>(call, layout, call.q + (first_row + row) * call.size, part.heads, first,
                         last, call.values + (cache + start) * call.value_size,
                         layout.states + row * states);
    }
  }
  for (int64_t row = 0; row < part.rows; ++row) {
    for (int64_t i = 0; i < part.heads; ++i) {
      const float* from = layout.states + row * states + i * layout.state;
      const float total = from[1] == 0 ? 1 : from[1];
      float* to = output + (first_row + i * call.rows + row) * call.value_size;
      for (int64_t d = 0; d < call.value_size; ++d) to[d] = from[kMostLanes + d] / total;
    }
  }
}

}  // namespace

template <>
const CacheAttentionKernels Table<CacheAttentionKernels>::kernels = {
    .attend = attend, .scratch_bytes = scratch_bytes};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
