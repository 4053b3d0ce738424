// Packs an image into planes.
#pragma once

#include "dmlax/_cpu/simd/interface.h"
#include "dmlax/_cpu/simd/transpose.h"
#include "dmlax/_operators/convolution/cpu/convolution_kernels.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

inline void copy_strided(uint8_t* target, const uint8_t* source, int64_t count, int64_t stride) {
  if (stride == 1) {
    __builtin_memcpy(target, source, static_cast<size_t>(count));
    return;
  }
  for (int64_t i = stride == 2 ? Simd::copy_even(target, source, count) : 0; i < count; ++i) {
    target[i] = source[i * stride];
  }
}

// The pixels [first, last) of a sub-image's axis that lie within the input. The first is the
// input's pixel `source`.
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

// Marks the pixels of the input in every 64 bytes of a plane.
inline void mark_pixels(const ConvProblem& problem, const Span& rows, const Span& columns,
                        uint64_t* masks) {
  for (int64_t r = rows.first; r < rows.last; ++r) {
    const int64_t begin = r * problem.layout.row_bytes + columns.first;
    const int64_t end = begin + problem.layout.columns.size;
    for (int64_t at = begin; at < end; at = (at / 64 + 1) * 64) {
      const int64_t stop = end < (at / 64 + 1) * 64 ? end : (at / 64 + 1) * 64;
      masks[at / 64] |= (~uint64_t{0} >> (64 - (stop - at))) << at % 64;
    }
  }
}

// Packs planes of narrow rows without strides, several rows at once. Returns false if it cannot.
template <typename S>
bool pack_by_masks(const ConvProblem& problem, const uint8_t* image, int64_t first, int64_t last,
                   uint8_t* planes) {
  const PlaneLayout& layout = problem.layout;
  const Axis &height = problem.shape.height, &width = layout.columns;
  const int64_t chunks = layout.plane / 64;
  if (problem.shape.input_last || height.stride > 1 || width.stride > 1) return false;
  if (chunks > kMostMasks || width.size >= 256) return false;
  const Span rows(height, 0, height.output + height.shift), columns(width, 0, layout.row_bytes);
  if (columns.last - columns.first != width.size || rows.source != 0) return false;
  uint64_t masks[kMostMasks] = {};
  mark_pixels(problem, rows, columns, masks);
  const int64_t size = (rows.last - rows.first) * width.size;
  for (int64_t c = first; c < last; ++c) {
    const uint8_t* source = image + c * height.size * width.size;
    const uint8_t* end = source + size;
    uint8_t* target = planes + c * layout.plane;
    for (int64_t i = 0; i < chunks; ++i) {
      S::expand_bytes(target + 64 * i, source, end - source, masks[i], layout.padding);
      source += __builtin_popcountll(masks[i]);
    }
  }
  return true;
}

// One of the sub-images that a stride interleaves.
struct SubImage {
  const ConvProblem& problem;
  const Span rows, columns;
  uint8_t* target;  // channel 0 from the first column on

  const uint8_t* source_row(const uint8_t* image, int64_t r, int64_t pixel_bytes) const {
    const Axis &height = problem.shape.height, &width = problem.shape.width;
    const int64_t line = rows.source + (r - rows.first) * height.stride;
    return image + (line * width.size + columns.source) * pixel_bytes;
  }

  // Copies channels [first, last) of an image with channels first.
  void copy_planes(const uint8_t* image, int64_t first, int64_t last) const {
    const PlaneLayout& layout = problem.layout;
    const int64_t pixels = problem.shape.height.size * problem.shape.width.size;
    for (int64_t c = first; c < last; ++c) {
      for (int64_t r = rows.first; r < rows.last; ++r) {
        copy_strided(target + c * layout.plane + r * layout.row_bytes,
                     source_row(image + c * pixels, r, 1), columns.last - columns.first,
                     layout.columns.stride);
      }
    }
  }

  // Copies channels [first, last) of an image with channels last.
  void transpose_pixels(const uint8_t* image, int64_t first, int64_t last) const {
    const PlaneLayout& layout = problem.layout;
    const int64_t channels = problem.shape.input_channels;
    for (int64_t r = rows.first; r < rows.last; ++r) {
      transpose(target + first * layout.plane + r * layout.row_bytes, layout.plane,
                source_row(image, r, channels) + first, layout.columns.stride * channels,
                columns.last - columns.first, last - first);
    }
  }
};

inline void pack(const ConvProblem& problem, const uint8_t* image, int64_t first, int64_t last,
                 uint8_t* planes) {
  if constexpr (Simd::kExpandsBytes) {
    if (pack_by_masks<Simd>(problem, image, first, last, planes)) return;
  }
  const PlaneLayout& layout = problem.layout;
  const Axis &height = problem.shape.height, &width = layout.columns;
  __builtin_memset(planes + first * layout.plane, layout.padding,
                   static_cast<size_t>((last - first) * layout.plane));
  for (int64_t v = 0; v < height.phases; ++v) {
    const Span rows(height, height.phase[v], height.output + height.shift);
    for (int64_t h = 0; h < width.phases; ++h) {
      const Span columns(width, width.phase[h], layout.row_bytes);
      if (columns.first == columns.last) continue;
      uint8_t* target = planes + (v * width.phases + h) * layout.sub_image + columns.first;
      const SubImage sub_image{problem, rows, columns, target};
      if (problem.shape.input_last) {
        sub_image.transpose_pixels(image, first, last);
      } else {
        sub_image.copy_planes(image, first, last);
      }
    }
  }
}

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE
