// The convolution's kernels, compiled once for each instruction set. No header with inline
// functions of its own is included, so that none is linked from the wrong instruction set.
#include "dmlax/_convolution/cpu/kernels.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace dmlax {
namespace DMLAX_ISA {
namespace {

// Up to kRows filter rows.
struct FilterRows {
  const int8_t* rows;
  int64_t stride, depth;
  int count;
  alignas(64) int8_t tail[kRows][kDepthStep];  // what a step of the depth does not fill, then zeros

  FilterRows(const int8_t* first, int64_t depth, int64_t count)
      : rows(first), stride(depth), depth(depth), count(static_cast<int>(count)) {
    const int64_t rest = depth % kDepthStep;
    if (rest == 0) return;
    for (int64_t r = 0; r < count; ++r) {
      __builtin_memset(tail[r], 0, kDepthStep);
      __builtin_memcpy(tail[r], first + (r + 1) * depth - rest, static_cast<size_t>(rest));
    }
  }

  // The last, partial quad.
  int32_t last_word(int row) const {
    int32_t word;
    __builtin_memcpy(&word, tail[row] + depth % kDepthStep / 4 * 4, 4);
    return word;
  }
};

[[maybe_unused]] inline int32_t word_at(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return word;
}

// A depthwise channel's weights, a word a kernel row; none where they are not made for it.
struct TapWords {
  int32_t weights[kMostTapRows], ones[kMostTapRows];
  int count = 0;

  explicit TapWords(const ConvProblem& job) {
    if (!job.taps_fit_one_load) return;
    count = static_cast<int>(job.height.kernel);
    for (int i = 0; i < count; ++i) ones[i] = 0x01010101 & mask(job);
  }

  void take(const ConvProblem& job, const int8_t* filter) {
    const int64_t each = job.width.kernel;
    for (int i = 0; i < count; ++i) {
      const int64_t left = job.depth - i * each;
      uint32_t bits = 0;
      if (left >= 4) {
        __builtin_memcpy(&bits, filter + i * each, 4);
      } else {
        for (int64_t k = 0; k < left; ++k) {
          bits |= static_cast<uint32_t>(static_cast<uint8_t>(filter[i * each + k])) << (8 * k);
        }
      }
      weights[i] = static_cast<int32_t>(bits) & mask(job);
    }
  }

 private:
  static int32_t mask(const ConvProblem& job) {
    return static_cast<int32_t>(~uint32_t{0} >> (32 - 8 * job.width.kernel));
  }
};

// Calls run(first, count) for every run of set bits.
template <typename Run>
inline void for_each_run(uint64_t valid, const Run& run) {
  while (valid != 0) {
    const int first = __builtin_ctzll(valid);
    const uint64_t rest = ~(valid >> first);
    const int count = rest == 0 ? 64 : __builtin_ctzll(rest);
    run(first, count);
    if (first + count >= 64) return;
    valid &= ~uint64_t{0} << (first + count);
  }
}

[[maybe_unused]] inline void store_runs(const uint8_t* bytes, uint64_t valid, uint8_t* output) {
  for_each_run(valid, [&](int first, int count) {
    __builtin_memcpy(output, bytes + first, static_cast<size_t>(count));
    output += count;
  });
}

#if defined(DMLAX_ISA_avx512_vnni) || defined(DMLAX_ISA_amx_int8)
#include "dmlax/_convolution/cpu/avx512.h"
#elif defined(DMLAX_ISA_avx2) || defined(DMLAX_ISA_avx_vnni)
#include "dmlax/_convolution/cpu/avx2.h"
#else
#include "dmlax/_convolution/cpu/scalar.h"
#endif

// --- packing an image into planes --------------------------------------------------------

#ifdef __SSE2__
inline void transpose_16x16(uint8_t* target, int64_t target_stride, const uint8_t* source,
                            int64_t source_stride) {
  __m128i a[16], b[16];
  for (int i = 0; i < 16; ++i) {
    a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i * source_stride));
  }
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
      b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
    }
    __builtin_memcpy(a, b, sizeof a);
  }
  for (int i = 0; i < 16; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i * target_stride), a[i]);
  }
}
#endif

// target[c * target_stride + r] = source[r * source_stride + c]
void transpose(uint8_t* target, int64_t target_stride, const uint8_t* source,
               int64_t source_stride, int64_t rows, int64_t columns) {
  int64_t whole_rows = 0, whole_columns = 0;
#ifdef __SSE2__
  whole_rows = rows & ~int64_t{15};
  whole_columns = columns & ~int64_t{15};
  for (int64_t r = 0; r < whole_rows; r += 16) {
    for (int64_t c = 0; c < whole_columns; c += 16) {
      transpose_16x16(target + c * target_stride + r, target_stride,
                      source + r * source_stride + c, source_stride);
    }
  }
#endif
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      target[c * target_stride + r] = source[r * source_stride + c];
    }
  }
}

void copy_strided(uint8_t* target, const uint8_t* source, int64_t count, int64_t stride) {
  if (stride == 1) {
    __builtin_memcpy(target, source, static_cast<size_t>(count));
    return;
  }
  for (int64_t i = stride == 2 ? copy_even(target, source, count) : 0; i < count; ++i) {
    target[i] = source[i * stride];
  }
}

// The cells of a sub-image's axis that lie within the input: [first, last), from input `source`.
struct Span {
  int64_t first, last, source;

  Span(const Axis& axis, int64_t phase, int64_t length) {
    const int64_t before = axis.start - phase;
    first = before <= 0 ? 0 : (before + axis.stride - 1) / axis.stride;
    source = first * axis.stride - before;
    const int64_t inside = axis.size <= source ? 0 : (axis.size - source - 1) / axis.stride + 1;
    last = first + inside < length ? first + inside : length;
    if (first > last) first = last;
  }
};

constexpr int64_t kMostMasks = 512;

// Planes of narrow rows, without strides: their rows at once.
bool pack_by_masks(const ConvProblem& job, const uint8_t* image, int64_t first, int64_t last,
                   uint8_t* planes) {
  const Axis &height = job.height, &width = job.columns;
  const int64_t chunks = job.plane / 64;
  if (!kExpands || job.input_last || height.stride > 1 || width.stride > 1) return false;
  if (chunks > kMostMasks || width.size >= 256) return false;
  const Span rows(height, 0, height.output + height.shift), columns(width, 0, job.row_bytes());
  if (columns.last - columns.first != width.size || rows.source != 0) return false;
  uint64_t masks[kMostMasks] = {};
  for (int64_t r = rows.first; r < rows.last; ++r) {
    const int64_t begin = r * job.row_bytes() + columns.first, end = begin + width.size;
    for (int64_t at = begin; at < end; at = (at / 64 + 1) * 64) {
      const int64_t stop = end < (at / 64 + 1) * 64 ? end : (at / 64 + 1) * 64;
      masks[at / 64] |= (~uint64_t{0} >> (64 - (stop - at))) << at % 64;
    }
  }
  const int64_t size = (rows.last - rows.first) * width.size;
  for (int64_t c = first; c < last; ++c) {
    const uint8_t* source = image + c * height.size * width.size;
    const uint8_t* end = source + size;
    uint8_t* target = planes + c * job.plane;
    for (int64_t i = 0; i < chunks; ++i) {
      expand(target + 64 * i, source, end - source, masks[i], job.padding);
      source += __builtin_popcountll(masks[i]);
    }
  }
  return true;
}

void pack(const ConvProblem& job, const uint8_t* image, int64_t first, int64_t last, uint8_t* planes) {
  if (pack_by_masks(job, image, first, last, planes)) return;
  const int64_t row_cells = job.width.size, channels = job.all_channels();
  const int64_t lines = job.height.output + job.height.shift;
  __builtin_memset(planes + first * job.plane, job.padding,
                   static_cast<size_t>((last - first) * job.plane));
  for (int64_t v = 0; v < job.height.phases; ++v) {
    const Span rows(job.height, job.height.phase[v], lines);
    for (int64_t h = 0; h < job.columns.phases; ++h) {
      const Span columns(job.columns, job.columns.phase[h], job.row_bytes());
      const int64_t count = columns.last - columns.first;
      if (count <= 0) continue;
      uint8_t* sub = planes + (v * job.columns.phases + h) * job.sub_image + columns.first;
      if (!job.input_last) {
        for (int64_t c = first; c < last; ++c) {
          for (int64_t r = rows.first; r < rows.last; ++r) {
            const int64_t line = rows.source + (r - rows.first) * job.height.stride;
            const uint8_t* source = image + (c * job.height.size + line) * row_cells;
            copy_strided(sub + c * job.plane + r * job.row_bytes(), source + columns.source, count,
                         job.columns.stride);
          }
        }
      } else {
        for (int64_t r = rows.first; r < rows.last; ++r) {
          const int64_t line = rows.source + (r - rows.first) * job.height.stride;
          const uint8_t* source = image + (line * row_cells + columns.source) * channels + first;
          transpose(sub + first * job.plane + r * job.row_bytes(), job.plane, source,
                    job.columns.stride * channels, count, last - first);
        }
      }
    }
  }
}

// --- panels ------------------------------------------------------------------------------

// Where a panel's cells are, and which of them are cells of the output.
struct PanelPosition {
  int64_t image, cell, output;
  uint64_t valid;

  PanelPosition() = default;

  PanelPosition(const ConvProblem& job, int64_t panel) {
    image = panel / job.panels;
    cell = panel % job.panels * kCells;
    const int64_t row = cell / job.pitch, column = cell % job.pitch, width = job.width.output;
    output = row * width + (column < width ? column : width);
    valid = 0;
    const int64_t past = job.cells - cell;
    for (int64_t at = -column; at < kCells && at < past; at += job.pitch) {
      const int64_t from = at < 0 ? 0 : at, to = at + width < kCells ? at + width : kCells;
      if (from >= to) continue;
      valid |= (~uint64_t{0} >> (64 - (to - from))) << from;
    }
  }
};

// What may be read of 64 cells.
inline int64_t readable(const ConvProblem& job, const PanelPosition& place) {
  return job.direct ? job.cells - place.cell : kCells;
}

// Quads of the depth, tap by tap: calls each(rows, count, quad) with four rows' first cells.
template <typename Each>
inline void for_each_quad(const ConvProblem& job, const uint8_t* planes, const Each& each) {
  const int64_t taps = job.taps_count(), channels = job.channels;
  int64_t tap = 0, channel = 0;
  for (int64_t quad = 0; 4 * quad < job.depth; ++quad) {
    const uint8_t* rows[4];
    int count = 0;
    for (; count < 4 && tap < taps; ++count) {
      rows[count] = planes + job.taps[tap] + channel * job.plane;
      if (++channel == channels) channel = 0, ++tap;
    }
    each(rows, count, quad);
  }
}

// Panels [first, first + count) of one group, `job.panel_bytes()` apart.
void build(const ConvProblem& job, const uint8_t* group, const PanelPosition* places, int64_t count,
           uint8_t* panels) {
  const int64_t bytes = job.panel_bytes();
  const uint8_t flip = job.flip ? 128 : 0;
  for_each_quad(job, group, [&](const uint8_t* const* rows, int filled, int64_t quad) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t offset = places[i].image * job.image_bytes() + places[i].cell;
      const int64_t valid = readable(job, places[i]);
      const uint8_t* from[4];
      for (int k = 0; k < filled; ++k) from[k] = rows[k] + offset;
      uint8_t* target = panels + i * bytes + quad * kQuadBytes;
      if (filled == 4) {
        build_quad(from, 4, valid, flip, target);
      } else {
        build_quad(from, filled, valid, flip, target);
      }
    }
  });
  const int64_t quads = (job.depth + 3) / 4, filled = quads * kQuadBytes;
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* panel = panels + i * bytes;
    const int64_t padded = job.padded_depth() * kCells;
    if (Tiles::kWholeSteps && !job.depthwise()) {
      __builtin_memset(panel + filled, 0, static_cast<size_t>(padded - filled));
    }
    if (job.constants.filter_zero == nullptr) continue;
    sum_cells(panel, quads, reinterpret_cast<int32_t*>(panel + padded));
  }
}

inline const int32_t* sums_of(const ConvProblem& job, const uint8_t* panel) {
  if (job.constants.filter_zero == nullptr) return nullptr;
  return reinterpret_cast<const int32_t*>(panel + job.padded_depth() * kCells);
}

// --- output ------------------------------------------------------------------------------

// Output channels [channel, channel + count) of a panel's cells, from their accumulators.
struct OutputTile {
  const ConvProblem& job;
  void* output;
  uint8_t* tile;  // two times kTileBytes

  // Row r of the tile.
  void row(const PanelPosition& place, int64_t channel, int64_t r, const int32_t* acc,
           const int32_t* sums) const {
    const int64_t cells = job.output_cells();
    const int64_t at = (place.image * job.all_rows() + channel + r) * cells + place.output;
    if (job.output == Output::int32) {
      int32_t* values = reinterpret_cast<int32_t*>(tile) + r * kCells;
      accumulate(job, acc, channel + r, sums, values);
      if (job.output_last) return;
      int32_t* to = static_cast<int32_t*>(output) + at;
      for_each_run(place.valid, [&](int first, int count) {
        __builtin_memcpy(to, values + first, static_cast<size_t>(count) * 4);
        to += count;
      });
    } else {
      uint8_t* bytes = tile + r * kCells;
      quantize(job, acc, channel + r, sums, bytes);
      if (!job.output_last) store_cells(bytes, place.valid, static_cast<uint8_t*>(output) + at);
    }
  }

  // Where the output's channels are last, the tile's rows become columns.
  void finish(const PanelPosition& place, int64_t channel, int64_t count) const {
    if (!job.output_last) return;
    const int64_t channels = job.all_rows();
    int64_t at = (place.image * job.output_cells() + place.output) * channels + channel;
    if (job.output == Output::int32) {
      const int32_t* values = reinterpret_cast<const int32_t*>(tile);
      for_each_run(place.valid, [&](int first, int cells) {
        for (int cell = first; cell < first + cells; ++cell, at += channels) {
          int32_t* to = static_cast<int32_t*>(output) + at;
          for (int64_t r = 0; r < count; ++r) to[r] = values[r * kCells + cell];
        }
      });
      return;
    }
    uint8_t* columns = tile + kTileBytes;
    transpose(columns, kRows, tile, kCells, count, kCells);
    for_each_run(place.valid, [&](int first, int cells) {
      for (int cell = first; cell < first + cells; ++cell, at += channels) {
        uint8_t* to = static_cast<uint8_t*>(output) + at;
        const uint8_t* from = columns + cell * kRows;
        if (count == kRows) {
          __builtin_memcpy(to, from, kRows);
        } else {
          __builtin_memcpy(to, from, static_cast<size_t>(count));
        }
      }
    });
  }
};

// --- products ----------------------------------------------------------------------------

struct Scratch {
  int32_t* acc;
  uint8_t* tile;
  uint8_t* panels;

  explicit Scratch(uint8_t* scratch)
      : acc(reinterpret_cast<int32_t*>(scratch)),
        tile(scratch + kTileBytes),
        panels(scratch + 3 * kTileBytes) {}
};

// Panels, several at once, times filter rows.
void dense(const ConvProblem& job, const TileRange& part) {
  const Scratch scratch(part.scratch);
  const OutputTile target{job, part.output, scratch.tile};
  const int64_t most = panels_at_once(job), bytes = job.panel_bytes();
  const uint8_t* group = part.planes + part.group * job.channels * job.plane;
  const int8_t* filter = part.filter + part.group * job.rows * job.depth;
  Tiles tiles;
  for (int64_t panel = part.first_panel; panel < part.last_panel; panel += most) {
    const int64_t left = part.last_panel - panel, count = left < most ? left : most;
    PanelPosition places[kMostPanels];
    for (int64_t i = 0; i < count; ++i) places[i] = PanelPosition(job, panel + i);
    build(job, group, places, count, scratch.panels);
    for (int64_t row = part.first_row; row < part.last_row; row += kRows) {
      const int64_t rest = part.last_row - row, n = rest < kRows ? rest : kRows;
      const FilterRows rows(filter + row * job.depth, job.depth, n);
      const int64_t channel = part.group * job.rows + row;
      for (int64_t i = 0; i < count; ++i) {
        const uint8_t* cells = scratch.panels + i * bytes;
        multiply(tiles, cells, rows, scratch.acc);
        for (int64_t r = 0; r < n; ++r) {
          target.row(places[i], channel, r, scratch.acc + r * kCells, sums_of(job, cells));
        }
        target.finish(places[i], channel, n);
      }
    }
  }
}

// One input channel a group: where a small panel of its taps is needed, it is made for each cell.
struct Depthwise {
  const ConvProblem& job;
  const TileRange& part;
  const Scratch scratch{part.scratch};
  const OutputTile target{job, part.output, scratch.tile};
  int32_t* sums = job.constants.filter_zero == nullptr
                      ? nullptr
                      : reinterpret_cast<int32_t*>(scratch.panels + job.panel_bytes() - kCells * 4);

  // The planes of the first image, from an output channel's input channel.
  const uint8_t* plane(int64_t channel) const {
    return part.planes + (job.rows == 1 ? channel : channel / job.rows) * job.plane;
  }

  // Row r of the tile that begins with `channel`.
  void row(const PanelPosition& place, const TapWords& words, const uint8_t* plane, int64_t channel,
           int64_t r) const {
    const uint8_t* cells = plane + place.image * job.image_bytes() + place.cell * job.step;
    if (!multiply_taps(job, words, cells, scratch.acc, sums)) {
      build(job, plane, &place, 1, scratch.panels);
      Tiles tiles;
      const FilterRows rows(part.filter + (channel + r) * job.depth, job.depth, 1);
      multiply(tiles, scratch.panels, rows, scratch.acc);
    }
    target.row(place, channel, r, scratch.acc, sums);
  }
};

void depthwise(const ConvProblem& job, const TileRange& part) {
  const Depthwise work{job, part};
  TapWords words(job);
  constexpr int64_t kMost = 128;
  PanelPosition places[kMost];
  for (int64_t panel = part.first_panel; panel < part.last_panel; panel += kMost) {
    const int64_t left = part.last_panel - panel, count = left < kMost ? left : kMost;
    for (int64_t i = 0; i < count; ++i) places[i] = PanelPosition(job, panel + i);
    for (int64_t row = part.first_row; row < part.last_row; row += kRows) {
      const int64_t rest = part.last_row - row, n = rest < kRows ? rest : kRows;
      if (!job.output_last) {
        for (int64_t r = 0; r < n; ++r) {
          words.take(job, part.filter + (row + r) * job.depth);
          const uint8_t* plane = work.plane(row + r);
          for (int64_t i = 0; i < count; ++i) work.row(places[i], words, plane, row, r);
        }
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t r = 0; r < n; ++r) {
          words.take(job, part.filter + (row + r) * job.depth);
          work.row(places[i], words, work.plane(row + r), row, r);
        }
        work.target.finish(places[i], row, n);
      }
    }
  }
}

}  // namespace

extern const ConvolutionKernels convolution_kernels;
const ConvolutionKernels convolution_kernels = {kExpands, pack, dense, depthwise};

}  // namespace DMLAX_ISA
}  // namespace dmlax
