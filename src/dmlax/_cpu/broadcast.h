// Broadcasting: the positions of an output element's operands.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "dmlax/_cpu/ffi.h"

namespace dmlax {

// A tensor has fewer than 2^63 elements, so at most 63 of its axes are larger than 1.
constexpr int kMostAxes = 63;

// An output's axes, innermost first. Neighbouring axes along which the same operands vary are
// merged, and axes of size 1 are left out.
template <size_t kOperands>
struct BroadcastAxes {
  int count = 0;
  std::array<int64_t, kMostAxes> size;
  std::array<std::array<int64_t, kOperands>, kMostAxes> stride;  // elements; 0: does not vary

  bool varies(int axis, size_t operand) const { return stride[axis][operand] != 0; }

  // The number of elements of the innermost `axes` axes.
  int64_t elements(int axes) const {
    int64_t product = 1;
    for (int i = 0; i < axes; ++i) product *= size[i];
    return product;
  }

  // The number of innermost axes until one for which `stops(axis)` is true.
  template <typename Stops>
  int inner_axes(const Stops& stops) const {
    int axis = 0;
    while (axis < count && !stops(axis)) ++axis;
    return axis;
  }
};

// Returns false if an operand does not broadcast to the output.
template <size_t kOperands>
bool merge_axes(BroadcastAxes<kOperands>& axes, const Sizes& output,
                const Inputs<kOperands>& operands) {
  std::array<int64_t, kOperands> elements;
  elements.fill(1);
  for (const ffi::AnyBuffer& operand : operands) {
    if (operand.dimensions().size() != output.size()) return false;
  }
  for (size_t i = output.size(); i-- > 0;) {
    std::array<int64_t, kOperands> stride;
    bool merged = axes.count > 0;
    for (size_t j = 0; j < kOperands; ++j) {
      const int64_t size = operands[j].dimensions()[i];
      if (size != output[i] && size != 1) return false;
      stride[j] = size == 1 ? 0 : elements[j];
      elements[j] *= size;
      merged = merged && (stride[j] != 0) == axes.varies(axes.count - 1, j);
    }
    if (output[i] == 1) continue;
    if (merged) {
      axes.size[axes.count - 1] *= output[i];
    } else {
      if (axes.count == kMostAxes) return false;
      axes.size[axes.count] = output[i];
      axes.stride[axes.count++] = stride;
    }
  }
  return true;
}

// Returns null, or why the operands do not broadcast to the output.
template <size_t kOperands>
const char* broadcast(BroadcastAxes<kOperands>& axes, const Inputs<kOperands>& operands,
                      const ffi::AnyBuffer& output) {
  if (!merge_axes(axes, output.dimensions(), operands)) {
    return "an operand does not broadcast to the output";
  }
  return has_null(operands) || is_null(output) ? "a buffer is null" : nullptr;
}

// Steps through the indices of axes `first` to `last` and keeps the operands' positions.
template <size_t kOperands>
class BroadcastCursor {
  using Axes = BroadcastAxes<kOperands>;

 public:
  BroadcastCursor(const Axes& axes, int first, int last, int64_t index)
      : axes_(axes), first_(first), last_(last) {
    offset_.fill(0);
    for (int i = first; i < last; ++i) {
      index_[i] = index % axes.size[i];
      index /= axes.size[i];
      move(i, index_[i]);
    }
  }

  int64_t offset(size_t operand) const { return offset_[operand]; }

  void next() {
    for (int i = first_; i < last_; ++i) {
      move(i, 1);
      if (++index_[i] < axes_.size[i]) return;
      move(i, -axes_.size[i]);
      index_[i] = 0;
    }
  }

 private:
  void move(int axis, int64_t steps) {
    for (size_t j = 0; j < kOperands; ++j) offset_[j] += steps * axes_.stride[axis][j];
  }

  const Axes& axes_;
  int first_, last_;
  std::array<int64_t, kMostAxes> index_;
  std::array<int64_t, kOperands> offset_;
};

// Copies an operand's `count` elements from `begin` on, one for each output element.
template <size_t kOperands, typename T>
void expand(const BroadcastAxes<kOperands>& axes, int axis_count, size_t operand, const T* data,
            int64_t begin, int64_t count, T* expanded) {
  const int64_t row = axes.size[0];
  BroadcastCursor<kOperands> cursor(axes, 1, axis_count, begin / row);
  for (int64_t at = begin % row; count > 0; cursor.next(), at = 0) {
    const T* from = data + cursor.offset(operand);
    const int64_t copied = std::min(count, row - at);
    if (axes.varies(0, operand)) {
      std::memcpy(expanded, from + at, static_cast<size_t>(copied) * sizeof(T));
    } else {
      std::fill_n(expanded, copied, *from);
    }
    expanded += copied;
    count -= copied;
  }
}

}  // namespace dmlax
