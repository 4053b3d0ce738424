// The convolution on AVX2, with or without VNNI: vectors of 8 cells.
//
// Bytes are interleaved within 128-bit lanes, so vector j of a panel's half h holds, in lane L,
// the cells 32 h + 16 L + 4 j to 32 h + 16 L + 4 j + 3. Packing four such vectors of sums to bytes
// puts them in order.

constexpr int kVectors = 8;

static inline __m256i load(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

static inline void store(void* p, __m256i value) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), value);
}

// One quad of a panel: bytes of `count` rows, 64 cells each, of which `valid` may be read.
static inline void build_quad(const uint8_t* const* rows, int count, int64_t valid, uint8_t flip,
                              uint8_t* quad) {
  alignas(32) uint8_t copies[4][kCells] = {};
  const uint8_t* from[4];
  for (int i = 0; i < count; ++i) {
    from[i] = rows[i];
    if (valid < kCells) {
      __builtin_memcpy(copies[i], rows[i], static_cast<size_t>(valid));
      from[i] = copies[i];
    }
  }
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(flip));
  for (int half = 0; half < 2; ++half, quad += 128) {
    __m256i r[4];
    for (int i = 0; i < 4; ++i) {
      r[i] = i < count ? _mm256_xor_si256(load(from[i] + 32 * half), sign) : _mm256_setzero_si256();
    }
    const __m256i low01 = _mm256_unpacklo_epi8(r[0], r[1]), low23 = _mm256_unpacklo_epi8(r[2], r[3]);
    const __m256i high01 = _mm256_unpackhi_epi8(r[0], r[1]);
    const __m256i high23 = _mm256_unpackhi_epi8(r[2], r[3]);
    store(quad, _mm256_unpacklo_epi16(low01, low23));
    store(quad + 32, _mm256_unpackhi_epi16(low01, low23));
    store(quad + 64, _mm256_unpacklo_epi16(high01, high23));
    store(quad + 96, _mm256_unpackhi_epi16(high01, high23));
  }
}

#ifdef DMLAX_ISA_avx_vnni

// Four unsigned bytes a cell times four signed ones.
struct Cells {
  __m256i quads;
  explicit Cells(const void* p) : quads(load(p)) {}
};

struct Weights {
  __m256i quads;
  explicit Weights(int32_t word) : quads(_mm256_set1_epi32(word)) {}
};

static inline __m256i add_products(__m256i sum, const Cells& cells, const Weights& weights) {
  return _mm256_dpbusd_avx_epi32(sum, cells.quads, weights.quads);
}

#else

// As 16-bit pairs: sums of two byte products saturate 16 bits, those of two 16-bit ones fit 32.
struct Cells {
  __m256i even, odd;
  explicit Cells(const void* p)
      : even(_mm256_srli_epi16(_mm256_slli_epi16(load(p), 8), 8)),  // a mask would take a register
        odd(_mm256_srli_epi16(load(p), 8)) {}
};

struct Weights {
  __m256i even, odd;
  explicit Weights(int32_t word)
      : even(_mm256_srai_epi16(_mm256_slli_epi16(_mm256_set1_epi32(word), 8), 8)),
        odd(_mm256_srai_epi16(_mm256_set1_epi32(word), 8)) {}
};

static inline __m256i add_products(__m256i sum, const Cells& cells, const Weights& weights) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(cells.even, weights.even));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(cells.odd, weights.odd));
}

#endif

static void sum_cells(const uint8_t* panel, int64_t quads, int32_t* sums) {
  const Weights ones(0x01010101);
  for (int j = 0; j < kVectors; ++j) {
    __m256i s = _mm256_setzero_si256();
    for (int64_t q = 0; q < quads; ++q) {
      s = add_products(s, Cells(panel + q * kQuadBytes + 32 * j), ones);
    }
    store(sums + 8 * j, s);
  }
}

template <int R, int V>
static inline void multiply_rows(const uint8_t* panel, const FilterRows& filter, int first,
                                 int32_t* acc) {
  const int8_t* rows = filter.rows + first * filter.stride;
  __m256i s[R][V] = {};
  const auto step = [&](const uint8_t* quad, const auto& word) {
    const Cells cells[V] = {Cells(quad), Cells(quad + 32)};
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Weights weights(word(r));
#pragma GCC unroll 2
      for (int j = 0; j < V; ++j) s[r][j] = add_products(s[r][j], cells[j], weights);
    }
  };
  const int64_t quads = filter.depth / 4;
  for (int64_t q = 0; q < quads; ++q) {
    step(panel + q * kQuadBytes, [&](int r) { return word_at(rows + r * filter.stride + 4 * q); });
  }
  if (filter.depth % 4 != 0) {
    step(panel + quads * kQuadBytes, [&](int r) { return filter.last_word(first + r); });
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < V; ++j) store(acc + r * kCells + 8 * j, s[r][j]);
  }
}

struct Tiles {
  static constexpr bool kWholeSteps = false;
};

static void multiply(Tiles&, const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
  for (int j = 0; j < kVectors; j += 2) {
    int r = 0;
    for (; r + 4 <= filter.count; r += 4) {
      multiply_rows<4, 2>(panel + 32 * j, filter, r, acc + r * kCells + 8 * j);
    }
    for (; r < filter.count; ++r) {
      multiply_rows<1, 2>(panel + 32 * j, filter, r, acc + r * kCells + 8 * j);
    }
  }
}

// Accumulators less the terms of zero points.
static inline __m256i accumulator(const ConvProblem& job, const int32_t* acc, int64_t channel,
                                  const int32_t* sums, int j) {
  __m256i a = _mm256_add_epi32(load(acc + 8 * j), _mm256_set1_epi32(job.constants.offset[channel]));
  if (sums == nullptr) return a;
  const __m256i zero = _mm256_set1_epi32(job.constants.filter_zero[channel]);
  return _mm256_sub_epi32(a, _mm256_mullo_epi32(zero, load(sums + 8 * j)));
}

__attribute__((noinline)) static __m256i resolve_ties(const ConvProblem& job, int64_t channel, int near_ties,
                                                __m256i a, __m256 v, __m256i rounded) {
  alignas(32) int32_t accumulators[8], integers[8];
  alignas(32) float estimates[8];
  store(accumulators, a);
  _mm256_store_ps(estimates, v);
  store(integers, rounded);
  for (; near_ties != 0; near_ties &= near_ties - 1) {
    const int i = __builtin_ctz(static_cast<unsigned>(near_ties));
    integers[i] = round_near_tie(accumulators[i], job.constants.scales(channel), estimates[i]);
  }
  return load(integers);
}

// 64 cells of one output channel, quantized.
static inline void quantize(const ConvProblem& job, const int32_t* acc, int64_t channel,
                            const int32_t* sums, uint8_t* bytes) {
  const __m256 factor = _mm256_set1_ps(job.constants.estimate[channel]);
  const __m256 band = _mm256_set1_ps(job.constants.band[channel]);
  const __m256 low = _mm256_set1_ps(job.low), high = _mm256_set1_ps(job.high);
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(job.output_zero));
  for (int half = 0; half < 2; ++half) {
    __m256i rounded[4];
    for (int j = 0; j < 4; ++j) {
      const __m256i a = accumulator(job, acc, channel, sums, 4 * half + j);
      __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(a), factor);
      v = _mm256_min_ps(_mm256_max_ps(v, low), high);  // NaN gives the lowest
      const __m256 nearest = _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      rounded[j] = _mm256_cvttps_epi32(nearest);
      const __m256 rest = _mm256_and_ps(_mm256_sub_ps(v, nearest), magnitude);
      const int near_ties = _mm256_movemask_ps(_mm256_cmp_ps(rest, band, _CMP_GE_OQ));
      if (near_ties != 0) rounded[j] = resolve_ties(job, channel, near_ties, a, v, rounded[j]);
    }
    const __m256i low16 = _mm256_adds_epi16(_mm256_packs_epi32(rounded[0], rounded[1]), zero);
    const __m256i high16 = _mm256_adds_epi16(_mm256_packs_epi32(rounded[2], rounded[3]), zero);
    store(bytes + 32 * half, job.output_signed ? _mm256_packs_epi16(low16, high16)
                                               : _mm256_packus_epi16(low16, high16));
  }
}

// The bytes of the cells in `valid`, side by side.
static inline void store_cells(const uint8_t* bytes, uint64_t valid, uint8_t* output) {
  store_runs(bytes, valid, output);
}

// 64 cells of one output channel in int32, in order.
static inline void accumulate(const ConvProblem& job, const int32_t* acc, int64_t channel,
                              const int32_t* sums, int32_t* output) {
  for (int j = 0; j < kVectors; ++j) {
    const __m256i a = accumulator(job, acc, channel, sums, j);
    int32_t* cells = output + j / 4 * 32 + j % 4 * 4;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(cells), _mm256_castsi256_si128(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(cells + 16), _mm256_extracti128_si256(a, 1));
  }
}

// Depthwise channels take the way of all others, by a panel of their taps.
static inline bool multiply_taps(const ConvProblem&, const TapWords&, const uint8_t*, int32_t*,
                                 int32_t*) {
  return false;
}

static inline void expand(uint8_t*, const uint8_t*, int64_t, uint64_t, uint8_t) {}
constexpr bool kExpands = false;

// Every second byte, as many as vectors reach.
static inline int64_t copy_even(uint8_t* target, const uint8_t* source, int64_t count) {
  const __m256i low = _mm256_set1_epi16(0xff);
  int64_t i = 0;
  for (; i + 33 <= count; i += 32) {  // the last byte read is the one after the last one taken
    const __m256i first = _mm256_and_si256(load(source + 2 * i), low);
    const __m256i second = _mm256_and_si256(load(source + 2 * i + 32), low);
    const __m256i even = _mm256_packus_epi16(first, second);
    store(target + i, _mm256_permute4x64_epi64(even, 0xd8));
  }
  return i;
}
