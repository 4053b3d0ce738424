// The convolution on AVX-512 with VNNI, and on AMX tiles: vectors of 16 cells.
//
// Bytes are interleaved within 128-bit lanes, so a panel's vector j holds, in lane L, the cells
// 16 L + 4 j to 16 L + 4 j + 3. Packing four such vectors of sums to bytes puts them in order.

using Sums = __m512i;
constexpr int kVectors = 4;

static inline __m512i load(const void* p) { return _mm512_loadu_si512(p); }

// One quad of a panel: bytes of `count` rows, 64 cells each, of which `valid` may be read.
static inline void build_quad(const uint8_t* const* rows, int count, int64_t valid, uint8_t flip,
                              uint8_t* quad) {
  const __mmask64 mask = valid >= kCells ? ~uint64_t{0} : (uint64_t{1} << valid) - 1;
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(flip));
  __m512i r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = i < count ? _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, rows[i]), sign)
                     : _mm512_setzero_si512();
  }
  const __m512i low01 = _mm512_unpacklo_epi8(r[0], r[1]);
  const __m512i low23 = _mm512_unpacklo_epi8(r[2], r[3]);
  const __m512i high01 = _mm512_unpackhi_epi8(r[0], r[1]);
  const __m512i high23 = _mm512_unpackhi_epi8(r[2], r[3]);
  _mm512_store_si512(quad, _mm512_unpacklo_epi16(low01, low23));
  _mm512_store_si512(quad + 64, _mm512_unpackhi_epi16(low01, low23));
  _mm512_store_si512(quad + 128, _mm512_unpacklo_epi16(high01, high23));
  _mm512_store_si512(quad + 192, _mm512_unpackhi_epi16(high01, high23));
}

static void sum_cells(const uint8_t* panel, int64_t quads, int32_t* sums) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i s[kVectors] = {};
  for (int64_t q = 0; q < quads; ++q, panel += kQuadBytes) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) s[j] = _mm512_dpbusd_epi32(s[j], load(panel + 64 * j), ones);
  }
  for (int j = 0; j < kVectors; ++j) _mm512_store_si512(sums + 16 * j, s[j]);
}

template <int R, int V>
static inline void multiply_rows(const uint8_t* panel, const FilterRows& filter, int first,
                                 int32_t* acc) {
  const int8_t* rows = filter.rows + first * filter.stride;
  __m512i s[R][V] = {};
  const auto step = [&](const uint8_t* quad, const auto& word) {
    __m512i cells[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) cells[j] = load(quad + 64 * j);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i w = _mm512_set1_epi32(word(r));
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) s[r][j] = _mm512_dpbusd_epi32(s[r][j], cells[j], w);
    }
  };
  const int64_t quads = filter.depth / 4;
  for (int64_t q = 0; q < quads; ++q) {
    step(panel + q * kQuadBytes, [&](int r) { return word_at(rows + r * filter.stride + 4 * q); });
  }
  if (filter.depth % 4 != 0) {
    step(panel + quads * kQuadBytes, [&](int r) { return filter.last_word(first + r); });
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) _mm512_store_si512(acc + r * kCells + 16 * j, s[r][j]);
  }
}

template <int R>
static void multiply_few(int count, const uint8_t* panel, const FilterRows& filter, int first,
                         int32_t* acc) {
  if constexpr (R > 0) {
    if (count < R) return multiply_few<R - 1>(count, panel, filter, first, acc);
    multiply_rows<R, 4>(panel, filter, first, acc);
  }
}

static void multiply_vnni(const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
  int first = 0;
  for (; first + 6 <= filter.count; first += 6) {
    multiply_rows<6, 4>(panel, filter, first, acc + first * kCells);
  }
  multiply_few<5>(filter.count - first, panel, filter, first, acc + first * kCells);
}

#ifdef DMLAX_ISA_amx_int8

struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, unused[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

// The tile registers' shapes, set when the number of filter rows changes.
class Tiles {
 public:
  static constexpr bool kWholeSteps = true;  // of a panel's depth, which has zeros then

  ~Tiles() {
    if (rows_ != 0) _tile_release();
  }

  void shape(int rows) {
    if (rows == rows_) return;
    rows_ = rows;
    const int upper = rows < 16 ? rows : 16;
    const uint8_t counts[8] = {u8(upper), u8(upper), u8(rows - upper), u8(rows - upper),
                               u8(upper), u8(rows - upper), 16, 16};
    TileShapes shapes;
    for (int i = 0; i < 8; ++i) {
      shapes.rows[i] = counts[i];
      shapes.bytes[i] = counts[i] != 0 ? 64 : 0;
    }
    __asm__ volatile("" ::"r"(&shapes) : "memory");  // the intrinsic reads more than it says
    _tile_loadconfig(&shapes);
  }

 private:
  static uint8_t u8(int value) { return static_cast<uint8_t>(value); }
  int rows_ = 0;
};

// 32 cells times up to 16 rows, or up to 32: tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 cells.
template <bool lower>
static inline void multiply_half(const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
  const int64_t steps = filter.depth / kDepthStep, stride = filter.stride;
  const int8_t* rows = filter.rows;
  _tile_zero(0);
  _tile_zero(1);
  if (lower) {
    _tile_zero(2);
    _tile_zero(3);
  }
  const auto step = [&](const int8_t* upper_rows, int64_t row_stride) {
    _tile_loadd(6, panel, kQuadBytes);
    _tile_loadd(7, panel + 64, kQuadBytes);
    _tile_loadd(4, upper_rows, row_stride);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    if (lower) {
      _tile_loadd(5, upper_rows + 16 * row_stride, row_stride);
      _tile_dpbsud(2, 5, 6);
      _tile_dpbsud(3, 5, 7);
    }
    panel += kDepthStep * kCells;
  };
  for (int64_t i = 0; i < steps; ++i, rows += kDepthStep) step(rows, stride);
  if (filter.depth % kDepthStep != 0) step(filter.tail[0], kDepthStep);
  constexpr int64_t kStride = kCells * 4;
  _tile_stored(0, acc, kStride);
  _tile_stored(1, acc + 16, kStride);
  if (lower) {
    _tile_stored(2, acc + 16 * kCells, kStride);
    _tile_stored(3, acc + 16 * kCells + 16, kStride);
  }
}

static void multiply(Tiles& tiles, const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
  if (filter.count < 4 || filter.depth < 16) return multiply_vnni(panel, filter, acc);
  tiles.shape(filter.count);
  __asm__ volatile("" ::: "memory");  // tile loads do not say that they read memory
  for (int half = 0; half < 2; ++half) {
    if (filter.count > 16) {
      multiply_half<true>(panel + 128 * half, filter, acc + 32 * half);
    } else {
      multiply_half<false>(panel + 128 * half, filter, acc + 32 * half);
    }
  }
}

#else

struct Tiles {
  static constexpr bool kWholeSteps = false;
};

static void multiply(Tiles&, const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
  multiply_vnni(panel, filter, acc);
}

#endif

// Accumulators less the terms of zero points.
static inline __m512i accumulator(const ConvProblem& job, const int32_t* acc, int64_t channel,
                                  const int32_t* sums, int j) {
  __m512i a = _mm512_add_epi32(load(acc + 16 * j),
                               _mm512_set1_epi32(job.constants.offset[channel]));
  if (sums == nullptr) return a;
  const __m512i zero = _mm512_set1_epi32(job.constants.filter_zero[channel]);
  return _mm512_sub_epi32(a, _mm512_mullo_epi32(zero, load(sums + 16 * j)));
}

// Estimates within the limits, of which NaN gives the lowest.
static inline __m512 estimates(const ConvProblem& job, __m512i accumulators, float factor) {
  const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(accumulators), _mm512_set1_ps(factor));
  return _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(job.low)), _mm512_set1_ps(job.high));
}

// The bytes of outputs near a tie; bit i of `near_ties` is element i of `acc`.
__attribute__((noinline)) static void resolve_ties(const ConvProblem& job, const int32_t* acc, int64_t channel,
                                             const int32_t* sums, uint64_t near_ties,
                                             uint8_t* bytes) {
  const Scales scales = job.constants.scales(channel);
  const int32_t lowest = job.output_signed ? -128 : 0, highest = lowest + 255;
  alignas(64) int32_t accumulators[16];
  alignas(64) float values[16];
  for (int j = 0; j < kVectors; ++j) {
    uint32_t lanes = static_cast<uint32_t>(near_ties >> (16 * j)) & 0xffff;
    if (lanes == 0) continue;
    const __m512i a = accumulator(job, acc, channel, sums, j);
    _mm512_store_si512(accumulators, a);
    _mm512_store_ps(values, estimates(job, a, job.constants.estimate[channel]));
    for (; lanes != 0; lanes &= lanes - 1) {
      const int i = __builtin_ctz(lanes);
      const int32_t value = round_near_tie(accumulators[i], scales, values[i]) + job.output_zero;
      bytes[i / 4 * 16 + 4 * j + i % 4] =
          static_cast<uint8_t>(value < lowest ? lowest : value > highest ? highest : value);
    }
  }
}

// 64 cells of one output channel, quantized.
static inline void quantize(const ConvProblem& job, const int32_t* acc, int64_t channel,
                            const int32_t* sums, uint8_t* bytes) {
  const __m512 band = _mm512_set1_ps(job.constants.band[channel]);
  __m512i rounded[kVectors];
  uint64_t near_ties = 0;
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) {
    const __m512i a = accumulator(job, acc, channel, sums, j);
    const __m512 v = estimates(job, a, job.constants.estimate[channel]);
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    rounded[j] = _mm512_cvt_roundps_epi32(v, kNearest);
    const __m512 rest = _mm512_abs_ps(_mm512_sub_ps(v, _mm512_cvtepi32_ps(rounded[j])));
    const uint64_t near_tie_mask = _mm512_cmp_ps_mask(rest, band, _CMP_GE_OQ);
    near_ties |= near_tie_mask << (16 * j);
  }
  const __m512i zero = _mm512_set1_epi16(static_cast<int16_t>(job.output_zero));
  const __m512i low16 = _mm512_adds_epi16(_mm512_packs_epi32(rounded[0], rounded[1]), zero);
  const __m512i high16 = _mm512_adds_epi16(_mm512_packs_epi32(rounded[2], rounded[3]), zero);
  _mm512_store_si512(bytes, job.output_signed ? _mm512_packs_epi16(low16, high16)
                                              : _mm512_packus_epi16(low16, high16));
  if (__builtin_expect(near_ties != 0, 0)) resolve_ties(job, acc, channel, sums, near_ties, bytes);
}

// The bytes of the cells in `valid`, side by side.
static inline void store_cells(const uint8_t* bytes, uint64_t valid, uint8_t* output) {
  if (valid == ~uint64_t{0}) return _mm512_storeu_si512(output, _mm512_load_si512(bytes));
  const uint64_t first = _bzhi_u64(~uint64_t{0}, static_cast<unsigned>(__builtin_popcountll(valid)));
  _mm512_mask_storeu_epi8(output, first, _mm512_maskz_compress_epi8(valid, _mm512_load_si512(bytes)));
}

// 64 cells of one output channel in int32, in order.
static inline void accumulate(const ConvProblem& job, const int32_t* acc, int64_t channel,
                              const int32_t* sums, int32_t* output) {
  for (int j = 0; j < kVectors; ++j) {
    const __m512i a = accumulator(job, acc, channel, sums, j);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(output + 4 * j), _mm512_castsi512_si128(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(output + 16 + 4 * j), _mm512_extracti32x4_epi32(a, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(output + 32 + 4 * j), _mm512_extracti32x4_epi32(a, 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(output + 48 + 4 * j), _mm512_extracti32x4_epi32(a, 3));
  }
}

// For every cell of a vector, where its taps of one kernel row are in the row's next 64 bytes.
static inline __m512i taps_order(const ConvProblem& job) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const int step = static_cast<int>(job.step), dilation = static_cast<int>(job.width.dilation);
  const int taps = dilation * 0x03020100;
  const __m512i first = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(step * 0x01010101));
  return _mm512_add_epi32(first, _mm512_set1_epi32(taps));
}

// From vectors of 16 cells each to a panel's order, and back.
static inline void transpose_lanes(__m512i* v) {
  const __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
  const __m512i c = _mm512_shuffle_i32x4(v[2], v[3], 0x44), d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
  v[0] = _mm512_shuffle_i32x4(a, c, 0x88);
  v[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
  v[2] = _mm512_shuffle_i32x4(b, d, 0x88);
  v[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}

// 64 cells of a depthwise channel: sums of taps times weights, and of taps. A word has the taps of
// one kernel row, up to four, which are close to one another in a plane.
template <bool with_sums>
static inline void add_taps(const ConvProblem& job, const TapWords& words, const uint8_t* cells,
                            int32_t* acc, int32_t* sums) {
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(job.flip ? 128 : 0));
  const __m512i order = taps_order(job);
  const int64_t step = 16 * job.step;
  __m512i a[kVectors] = {}, s[kVectors] = {};
  for (int i = 0; i < words.count; ++i) {
    const uint8_t* row = cells + job.taps[i * job.width.kernel];
    const __m512i weights = _mm512_set1_epi32(words.weights[i]);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const __m512i bytes = _mm512_xor_si512(load(row + step * j), sign);
      const __m512i quads = _mm512_permutexvar_epi8(order, bytes);
      a[j] = _mm512_dpbusd_epi32(a[j], quads, weights);
      if (with_sums) s[j] = _mm512_dpbusd_epi32(s[j], quads, _mm512_set1_epi32(words.ones[i]));
    }
  }
  transpose_lanes(a);
  if (with_sums) transpose_lanes(s);
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) {
    _mm512_store_si512(acc + 16 * j, a[j]);
    if (with_sums) _mm512_store_si512(sums + 16 * j, s[j]);
  }
}

// False where it is not made for such windows.
static inline bool multiply_taps(const ConvProblem& job, const TapWords& words, const uint8_t* cells,
                                 int32_t* acc, int32_t* sums) {
  if (words.count == 0) return false;
  if (sums != nullptr) {
    add_taps<true>(job, words, cells, acc, sums);
  } else {
    add_taps<false>(job, words, cells, acc, sums);
  }
  return true;
}

// Bytes of the source go, in order, where `inside` has ones; `fill` elsewhere. `left` may be read.
static inline void expand(uint8_t* target, const uint8_t* source, int64_t left, uint64_t inside,
                          uint8_t fill) {
  const unsigned wanted = static_cast<unsigned>(left < 64 ? left : 64);
  const __m512i bytes = _mm512_maskz_loadu_epi8(_bzhi_u64(~uint64_t{0}, wanted), source);
  const __m512i filled = _mm512_set1_epi8(static_cast<char>(fill));
  _mm512_storeu_si512(target, _mm512_mask_expand_epi8(filled, inside, bytes));
}
constexpr bool kExpands = true;

// Every second byte.
static inline int64_t copy_even(uint8_t* target, const uint8_t* source, int64_t count) {
  constexpr uint64_t kEven = 0x5555555555555555;
  int64_t i = 0;
  for (; i < count; i += 32) {
    const int64_t left = count - i;
    const uint64_t mask = left >= 32 ? ~uint64_t{0} : (uint64_t{1} << (2 * left - 1)) - 1;
    const __m512i bytes = _mm512_maskz_loadu_epi8(mask, source + 2 * i);
    const __m512i even = _mm512_maskz_compress_epi8(kEven, bytes);
    const uint32_t kept = left >= 32 ? ~0u : (1u << left) - 1;
    _mm256_mask_storeu_epi8(target + i, kept, _mm512_castsi512_si256(even));
  }
  return count;
}
