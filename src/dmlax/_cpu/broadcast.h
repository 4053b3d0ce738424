// Broadcasting: where an element's operands lie.
#ifndef DMLAX_CPU_BROADCAST_H_
#define DMLAX_CPU_BROADCAST_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dmlax/_cpu/ffi.h"

namespace dmlax {

// Axes of size 1 are left out, and a tensor has fewer than 2^63 elements.
constexpr int kMostAxes = 63;

// An output's axes, innermost first, merged where each operand varies along both or neither.
template <size_t kOperands>
struct BroadcastAxes {
  int count = 0;
  std::array<int64_t, kMostAxes> size;
  std::array<std::array<int64_t, kOperands>, kMostAxes> stride;  // in elements; 0: does not vary

  bool varies(int axis, size_t operand) const { return stride[axis][operand] != 0; }

  // The elements of the first `axes` axes.
  int64_t elements(int axes) const {
    int64_t product = 1;
    for (int i = 0; i < axes; ++i) product *= size[i];
    return product;
  }
};

// Whether the operands broadcast to the output.
template <size_t kOperands>
bool merge_axes(BroadcastAxes<kOperands>& axes, const Sizes& output,
                const std::array<Sizes, kOperands>& sizes) {
  std::array<int64_t, kOperands> elements;
  elements.fill(1);
  for (const Sizes& each : sizes) {
    if (each.size() != output.size()) return false;
  }
  for (size_t i = output.size(); i-- > 0;) {
    std::array<int64_t, kOperands> stride;
    bool merged = axes.count > 0;
    for (size_t j = 0; j < kOperands; ++j) {
      if (sizes[j][i] != output[i] && sizes[j][i] != 1) return false;
      stride[j] = sizes[j][i] == 1 ? 0 : elements[j];
      elements[j] *= sizes[j][i];
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

// Steps through the indices of some axes, and knows where the operands are.
template <size_t kOperands>
class BroadcastCursor {
  using Axes = BroadcastAxes<kOperands>;

 public:
  // Of the axes from `first` to `last`.
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

// An operand's `count` elements from `begin`, one each.
template <size_t kOperands, typename T>
void expand(const BroadcastAxes<kOperands>& axes, int axis_count, size_t operand, const T* data,
            int64_t begin, int64_t count, T* expanded) {
  const int64_t row = axes.size[0];
  int64_t at = begin % row;
  for (BroadcastCursor<kOperands> cursor(axes, 1, axis_count, begin / row); count > 0; cursor.next(), at = 0) {
    const T* from = data + cursor.offset(operand);
    const int64_t found = std::min(count, row - at);
    if (axes.varies(0, operand)) {
      std::memcpy(expanded, from + at, static_cast<size_t>(found) * sizeof(T));
    } else {
      std::fill_n(expanded, found, *from);
    }
    expanded += found;
    count -= found;
  }
}

}  // namespace dmlax

#endif  // DMLAX_CPU_BROADCAST_H_
