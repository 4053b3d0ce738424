// The convolution in plain C++, which compilers vectorise: a quad is four rows of 64 cells.

// One quad of a panel: bytes of `count` rows, 64 cells each, of which `valid` may be read.
static inline void build_quad(const uint8_t* const* rows, int count, int64_t valid, uint8_t flip,
                              uint8_t* quad) {
  const int64_t cells = valid < kCells ? valid : kCells;
  __builtin_memset(quad, 0, kQuadBytes);
  for (int i = 0; i < count; ++i, quad += kCells) {
    for (int64_t cell = 0; cell < cells; ++cell) {
      quad[cell] = static_cast<uint8_t>(rows[i][cell] ^ flip);
    }
  }
}

static void sum_cells(const uint8_t* panel, int64_t quads, int32_t* sums) {
  for (int64_t cell = 0; cell < kCells; ++cell) sums[cell] = 0;
  for (int64_t d = 0; d < 4 * quads; ++d, panel += kCells) {
    for (int64_t cell = 0; cell < kCells; ++cell) sums[cell] += panel[cell];
  }
}

struct Tiles {
  static constexpr bool kWholeSteps = false;
};

// Sums wrap, so they are unsigned.
static void multiply(Tiles&, const uint8_t* panel, const FilterRows& filter, int32_t* acc) {
  for (int r = 0; r < filter.count; ++r) {
    uint32_t sums[kCells] = {};
    const int8_t* row = filter.rows + r * filter.stride;
    for (int64_t d = 0; d < filter.depth; ++d) {
      const int16_t weight = row[d];
      const uint8_t* cells = panel + d * kCells;
      for (int64_t cell = 0; cell < kCells; ++cell) {
        sums[cell] += static_cast<uint32_t>(static_cast<int16_t>(cells[cell]) * weight);
      }
    }
    __builtin_memcpy(acc + r * kCells, sums, sizeof sums);
  }
}

// 64 cells of one output channel in int32, less the terms of zero points.
static inline void accumulate(const ConvProblem& job, const int32_t* acc, int64_t channel,
                              const int32_t* sums, int32_t* output) {
  const uint32_t offset = static_cast<uint32_t>(job.constants.offset[channel]);
  const uint32_t zero =
      sums == nullptr ? 0 : static_cast<uint32_t>(job.constants.filter_zero[channel]);
  for (int64_t cell = 0; cell < kCells; ++cell) {
    const uint32_t sum = sums == nullptr ? 0 : static_cast<uint32_t>(sums[cell]);
    output[cell] = static_cast<int32_t>(static_cast<uint32_t>(acc[cell]) + offset - zero * sum);
  }
}

static inline void quantize(const ConvProblem& job, const int32_t* acc, int64_t channel,
                            const int32_t* sums, uint8_t* bytes) {
  constexpr float kShift = 0x1.8p23f;  // added and taken away again, it rounds to even
  int32_t accumulators[kCells];
  accumulate(job, acc, channel, sums, accumulators);
  const float factor = job.constants.estimate[channel], band = job.constants.band[channel];
  const int32_t lowest = job.output_signed ? -128 : 0;
  for (int64_t cell = 0; cell < kCells; ++cell) {
    float v = static_cast<float>(accumulators[cell]) * factor;
    v = v > job.low ? v : job.low;  // NaN gives the lowest
    v = v < job.high ? v : job.high;
    const float nearest = (v + kShift) - kShift, rest = v - nearest;
    int32_t rounded = static_cast<int32_t>(nearest);
    if (__builtin_expect((rest < 0 ? -rest : rest) >= band, 0)) {
      rounded = round_near_tie(accumulators[cell], job.constants.scales(channel), v);
    }
    rounded += job.output_zero;
    rounded = rounded < lowest ? lowest : rounded > lowest + 255 ? lowest + 255 : rounded;
    bytes[cell] = static_cast<uint8_t>(rounded);
  }
}

// The bytes of the cells in `valid`, side by side.
static inline void store_cells(const uint8_t* bytes, uint64_t valid, uint8_t* output) {
  store_runs(bytes, valid, output);
}

// Depthwise channels take the way of all others, by a panel of their taps.
static inline bool multiply_taps(const ConvProblem&, const TapWords&, const uint8_t*, int32_t*,
                                 int32_t*) {
  return false;
}

static inline void expand(uint8_t*, const uint8_t*, int64_t, uint64_t, uint8_t) {}
constexpr bool kExpands = false;

// Every second byte: nothing faster than the loop that follows.
static inline int64_t copy_even(uint8_t*, const uint8_t*, int64_t) { return 0; }
