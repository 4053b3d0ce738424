// The handlers that XLA calls, and the checks of their operands that operators share.
#ifndef DMLAX_CPU_FFI_H_
#define DMLAX_CPU_FFI_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "xla/ffi/api/ffi.h"

// As XLA_FFI_DEFINE_HANDLER_SYMBOL, visible: the library shows nothing else. The symbol's name is
// the FFI target's too.
#define DMLAX_DEFINE_HANDLER(name, function, binding)               \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* \
  name(XLA_FFI_CallFrame* call_frame);                              \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, function, binding)

namespace dmlax {

using Sizes = xla::ffi::Span<const int64_t>;

inline bool is_signed_byte(const xla::ffi::AnyBuffer& buffer) {
  return buffer.element_type() == xla::ffi::DataType::S8;
}

inline bool is_byte(const xla::ffi::AnyBuffer& buffer) {
  return is_signed_byte(buffer) || buffer.element_type() == xla::ffi::DataType::U8;
}

// Whether it has elements, but no memory.
inline bool is_null(const xla::ffi::AnyBuffer& buffer) {
  return buffer.element_count() > 0 && buffer.untyped_data() == nullptr;
}

// The axes that vmap put before an operand's own.
class Batch {
 public:
  Batch(Sizes output, int64_t axes) : sizes_(output.begin(), output.begin() + axes) {}

  int64_t count() const {
    int64_t count = 1;
    for (int64_t size : sizes_) count *= size;
    return count;
  }

  int64_t axes() const { return static_cast<int64_t>(sizes_.size()); }

  // Whether an operand has `own` axes of its own, and fits: sizes 1 or the batch's.
  bool fits(Sizes sizes, int64_t own) const {
    if (static_cast<int64_t>(sizes.size()) != axes() + own) return false;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes[i] != sizes_[i] && sizes[i] != 1) return false;
    }
    return true;
  }

  bool is_whole(Sizes sizes) const {
    return std::equal(sizes_.begin(), sizes_.end(), sizes.begin());
  }

  bool is_single(Sizes sizes) const {
    return std::all_of(sizes.begin(), sizes.begin() + axes(), [](int64_t n) { return n == 1; });
  }

  // An operand's elements for one of the batch; null where it has none.
  template <typename T>
  const T* elements_of(const xla::ffi::AnyBuffer& buffer, int64_t index) const {
    const Sizes sizes = buffer.dimensions();
    int64_t own = 1;
    for (size_t i = sizes_.size(); i < sizes.size(); ++i) own *= sizes[i];
    if (own == 0) return nullptr;
    return static_cast<const T*>(buffer.untyped_data()) + position(sizes, index) * own;
  }

 private:
  // Where an operand has one of the batch, in units of its own elements.
  int64_t position(Sizes sizes, int64_t index) const {
    int64_t result = 0, step = 1;
    for (int64_t i = axes() - 1; i >= 0; --i) {
      const int64_t at = index % sizes_[i];
      index /= sizes_[i];
      if (sizes[i] != 1) result += at * step;
      step *= sizes[i];
    }
    return result;
  }

  std::vector<int64_t> sizes_;
};

}  // namespace dmlax

#endif  // DMLAX_CPU_FFI_H_
