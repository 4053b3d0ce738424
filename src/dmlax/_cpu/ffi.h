// Skeleton of the handlers that XLA calls, and the operand checks that operators share.
//
// A handler is a function and one line. The function takes a Call, its inputs, its results and its
// attributes, and returns an Outcome. The line derives the binding from the function's type:
//
//   Outcome look_up(const Call<LookupKernels>& call, const Inputs<2>& inputs, Output output);
//   DMLAX_HANDLER(dmlax_lookup, "lookup", look_up)
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/parallel_for.h"
#include "xla/ffi/api/ffi.h"

// Defines the visible symbol `target`, which is also the FFI target's name. Errors begin with the
// operator's name. The names of the attributes follow in the order of the function's arguments.
#define DMLAX_HANDLER(target, operator_name, function, ...)                        \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* target(         \
      XLA_FFI_CallFrame* call_frame) {                                             \
    static const char* const attributes[] = {__VA_ARGS__ __VA_OPT__(, ) nullptr};  \
    static auto* handler =                                                         \
        dmlax::make_handler(operator_name, dmlax::function, attributes).release(); \
    return handler->Call(call_frame);                                              \
  }

namespace dmlax {

namespace ffi = xla::ffi;

using Sizes = ffi::Span<const int64_t>;
using Output = ffi::Result<ffi::AnyBuffer>;
template <size_t count>
using Inputs = std::array<ffi::AnyBuffer, count>;

// The context of a call: XLA's threads and the kernels of the chosen instruction set.
template <typename Kernels>
struct Call {
  ffi::ThreadPool& pool;
  const Kernels& kernels;
};

// The kernels of a handler that needs none.
struct NoKernels {};

template <>
inline const NoKernels* chosen_kernels() {
  static constexpr NoKernels kernels;
  return &kernels;
}

// Success, or the reason why a handler refuses its operands. Checks that are null on success and
// text on failure convert to it.
class [[nodiscard]] Outcome {
 public:
  Outcome() = default;
  Outcome(const char* refusal) : Outcome(std::string(refusal)) {}
  Outcome(std::string refusal) : message_(std::move(refusal)) {}

  static Outcome out_of_memory(const char* message) {
    Outcome outcome(message);
    outcome.code_ = ffi::ErrorCode::kResourceExhausted;
    return outcome;
  }

  bool failed() const { return !message_.empty(); }

  ffi::Error error(const char* operator_name) const {
    if (!failed()) return ffi::Error::Success();
    return ffi::Error(code_, std::string(operator_name) + ": " + message_);
  }

 private:
  ffi::ErrorCode code_ = ffi::ErrorCode::kInvalidArgument;
  std::string message_;
};

// --- binding -----------------------------------------------------------------------------

template <typename T>
constexpr bool kIsResult = false;
template <typename T>
constexpr bool kIsResult<ffi::Result<T>> = true;

template <typename T>
struct ResultBuffer;
template <typename T>
struct ResultBuffer<ffi::Result<T>> {
  using Type = T;
};

// Adds an input, a result or an attribute to a binding.
template <typename Argument>
auto bind_argument(auto&& binding, const char* const*& attributes) {
  if constexpr (std::is_same_v<Argument, ffi::AnyBuffer>) {
    return std::move(binding).template Arg<Argument>();
  } else if constexpr (kIsResult<Argument>) {
    return std::move(binding).template Ret<typename ResultBuffer<Argument>::Type>();
  } else {
    return std::move(binding).template Attr<Argument>(*attributes++);
  }
}

template <typename Argument, typename... Others>
auto bind_arguments(auto&& binding, const char* const* attributes) {
  if constexpr (sizeof...(Others) == 0) {
    return bind_argument<Argument>(std::move(binding), attributes);
  } else {
    auto bound = bind_argument<Argument>(std::move(binding), attributes);
    return bind_arguments<Others...>(std::move(bound), attributes);
  }
}

template <size_t>
using InputAt = ffi::AnyBuffer;

template <typename Kernels, size_t count, typename... Others, size_t... i>
auto make_handler(const char* operator_name,
                  Outcome (*function)(const Call<Kernels>&, const Inputs<count>&, Others...),
                  const char* const* attributes, std::index_sequence<i...>) {
  auto binding =
      bind_arguments<InputAt<i>..., Others...>(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>(), attributes);
  return std::move(binding).To(
      [=](ffi::ThreadPool pool, InputAt<i>... inputs, Others... others) -> ffi::Error {
        const Kernels* kernels = chosen_kernels<Kernels>();
        if (kernels == nullptr) return Outcome(kNoInstructionSet).error(operator_name);
        return function({pool, *kernels}, {inputs...}, others...).error(operator_name);
      });
}

template <typename Kernels, size_t count, typename... Others>
auto make_handler(const char* operator_name,
                  Outcome (*function)(const Call<Kernels>&, const Inputs<count>&, Others...),
                  const char* const* attributes) {
  return make_handler(operator_name, function, attributes, std::make_index_sequence<count>());
}

// --- buffers -----------------------------------------------------------------------------

inline bool is_float32(const ffi::AnyBuffer& buffer) {
  return buffer.element_type() == ffi::DataType::F32;
}

inline bool is_int32(const ffi::AnyBuffer& buffer) {
  return buffer.element_type() == ffi::DataType::S32;
}

inline bool is_signed_byte(const ffi::AnyBuffer& buffer) {
  return buffer.element_type() == ffi::DataType::S8;
}

inline bool is_byte(const ffi::AnyBuffer& buffer) {
  return is_signed_byte(buffer) || buffer.element_type() == ffi::DataType::U8;
}

// The bytes of an integer of up to 32 bits; 0 for any other type.
inline int64_t integer_bytes(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::S8:
    case ffi::DataType::U8:
      return 1;
    case ffi::DataType::S16:
    case ffi::DataType::U16:
      return 2;
    case ffi::DataType::S32:
    case ffi::DataType::U32:
      return 4;
    default:
      return 0;
  }
}

inline bool have_same_type(const ffi::AnyBuffer& a, const ffi::AnyBuffer& b) {
  return a.element_type() == b.element_type();
}

inline int64_t element_count(const ffi::AnyBuffer& buffer) {
  return static_cast<int64_t>(buffer.element_count());
}

inline int64_t rank_of(Sizes sizes) { return static_cast<int64_t>(sizes.size()); }

// The number of values of a parameter, which its last axis has.
inline int64_t count_of(const ffi::AnyBuffer& parameter) { return parameter.dimensions().back(); }

inline bool has_count(const ffi::AnyBuffer& parameter, std::initializer_list<int64_t> counts) {
  return std::find(counts.begin(), counts.end(), count_of(parameter)) != counts.end();
}

template <typename T>
T* data_of(const ffi::AnyBuffer& buffer) {
  return static_cast<T*>(buffer.untyped_data());
}

// Whether a buffer has elements, but no memory.
inline bool is_null(const ffi::AnyBuffer& buffer) {
  return buffer.element_count() > 0 && buffer.untyped_data() == nullptr;
}

template <size_t count>
bool has_null(const Inputs<count>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), is_null);
}

inline Outcome misfit(size_t operand) {
  return "operand " + std::to_string(operand) + " is not of the batch's shape";
}

// --- batches -----------------------------------------------------------------------------

// The axes that vmap puts before an operand's axes.
class Batch {
 public:
  Batch(Sizes output, int64_t axes) : sizes_(output.begin(), output.begin() + axes) {}

  int64_t count() const {
    int64_t count = 1;
    for (int64_t size : sizes_) count *= size;
    return count;
  }

  int64_t axes() const { return static_cast<int64_t>(sizes_.size()); }

  // Whether an operand has `operand_axes` axes after the batch's, whose sizes are 1 or the batch's.
  bool fits(Sizes sizes, int64_t operand_axes) const {
    if (rank_of(sizes) != axes() + operand_axes) return false;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes[i] != sizes_[i] && sizes[i] != 1) return false;
    }
    return true;
  }

  // Whether an operand has an element of its own for every index of the batch.
  bool is_whole(const ffi::AnyBuffer& operand) const {
    return std::equal(sizes_.begin(), sizes_.end(), operand.dimensions().begin());
  }

  // Whether the whole batch shares an operand.
  bool is_single(const ffi::AnyBuffer& operand) const {
    const Sizes sizes = operand.dimensions();
    return std::all_of(sizes.begin(), sizes.begin() + axes(), [](int64_t n) { return n == 1; });
  }

  // Whether all batch indices make one call: only the first input varies.
  template <size_t count>
  bool folds(const Inputs<count>& inputs) const {
    return is_whole(inputs[0]) && std::all_of(inputs.begin() + 1, inputs.end(),
                                              [&](const auto& input) { return is_single(input); });
  }

  // An operand's elements for one index of the batch; null if it has no elements.
  template <typename T>
  const T* elements_of(const ffi::AnyBuffer& buffer, int64_t index) const {
    const Sizes sizes = buffer.dimensions();
    int64_t elements = 1;
    for (size_t i = sizes_.size(); i < sizes.size(); ++i) elements *= sizes[i];
    if (elements == 0) return nullptr;
    return data_of<const T>(buffer) + position(sizes, index) * elements;
  }

 private:
  // The position of a batch index in an operand that may broadcast along the batch.
  int64_t position(Sizes sizes, int64_t index) const {
    int64_t result = 0, step = 1;
    for (int64_t i = axes() - 1; i >= 0; --i) {
      const int64_t coordinate = index % sizes_[i];
      index /= sizes_[i];
      if (sizes[i] != 1) result += coordinate * step;
      step *= sizes[i];
    }
    return result;
  }

  std::vector<int64_t> sizes_;
};

}  // namespace dmlax
