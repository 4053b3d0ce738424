// The handlers of float rows: check their operands and run the kernels.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/parallel_for.h"
#include "dmlax/_rows/cpu/kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

#define DMLAX_KERNELS_TYPE RowKernels
#define DMLAX_KERNELS row_kernels
#include "dmlax/_cpu/choose_kernels.h"

namespace {

namespace ffi = xla::ffi;

constexpr int64_t kSerialElements = 1 << 15;  // up to these a second thread is no help
constexpr int64_t kChunk = 1 << 13;           // elements: one task

ffi::Error invalid(const std::string& what) { return ffi::Error::InvalidArgument("rows: " + what); }

// Calls run(row) for every row of so many elements.
template <typename Run>
void for_each_row(ffi::ThreadPool& pool, int64_t rows, int64_t size, const Run& run) {
  const int64_t of_task = std::max<int64_t>(1, kChunk / size);
  parallel_for_ranges(pool, rows, kSerialElements / size, of_task, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) run(row);
  });
}

bool are_floats(std::initializer_list<ffi::AnyBuffer> buffers) {
  return std::all_of(buffers.begin(), buffers.end(), [](const ffi::AnyBuffer& buffer) {
    return buffer.element_type() == ffi::DataType::F32;
  });
}

bool are_equal(Sizes one, Sizes other) {
  return one.size() == other.size() && std::equal(one.begin(), one.end(), other.begin());
}

// vmap puts its axes before those of each operand; a bias without elements is none.
ffi::Error normalize(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::AnyBuffer scale,
                     ffi::AnyBuffer bias, ffi::Result<ffi::AnyBuffer> output, float epsilon,
                     bool is_centred) {
  const RowKernels* kernels = chosen_kernels();
  if (kernels == nullptr) return invalid(kNoInstructionSet);
  if (!are_floats({input, scale, bias, *output})) return invalid("an element type is not float32");
  const Sizes sizes = output->dimensions(), scales = scale.dimensions();
  const int64_t axes = static_cast<int64_t>(scales.size()) - 1;
  const int64_t own = static_cast<int64_t>(sizes.size()) - axes;
  if (axes < 0 || own < 1) return invalid("a rank is wrong");
  const Batch batch(sizes, axes);
  const bool has_bias = bias.element_count() > 0;
  if (!batch.fits(input.dimensions(), own) || !batch.fits(scales, 1) ||
      !batch.fits(bias.dimensions(), 1) || scales.back() != sizes.back() ||
      (has_bias && bias.dimensions().back() != sizes.back()) ||
      !std::equal(sizes.end() - own, sizes.end(), input.dimensions().end() - own)) {
    return invalid("a size is wrong");
  }
  if (output->element_count() == 0) return ffi::Error::Success();
  if (is_null(input) || is_null(scale) || is_null(bias) || is_null(*output)) {
    return invalid("a buffer is null");
  }
  const int64_t size = sizes.back(), count = batch.count();
  const int64_t rows = static_cast<int64_t>(output->element_count()) / size / count;
  for (int64_t i = 0; i < count; ++i) {
    const Normalization how = {.scale = batch.elements_of<float>(scale, i),
                               .bias = batch.elements_of<float>(bias, i),
                               .epsilon = epsilon,
                               .is_centred = is_centred};
    const float* from = batch.elements_of<float>(input, i);
    float* to = static_cast<float*>(output->untyped_data()) + i * rows * size;
    for_each_row(pool, rows, size, [&](int64_t row) {
      kernels->normalize(how, from + row * size, size, to + row * size);
    });
  }
  return ffi::Error::Success();
}

ffi::Error softmax(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::Result<ffi::AnyBuffer> output) {
  const RowKernels* kernels = chosen_kernels();
  if (kernels == nullptr) return invalid(kNoInstructionSet);
  if (!are_floats({input, *output})) return invalid("an element type is not float32");
  const Sizes sizes = output->dimensions();
  if (sizes.size() < 1 || !are_equal(sizes, input.dimensions())) return invalid("a size is wrong");
  if (output->element_count() == 0) return ffi::Error::Success();
  if (is_null(input) || is_null(*output)) return invalid("a buffer is null");
  const int64_t size = sizes.back();
  const float* from = static_cast<const float*>(input.untyped_data());
  float* to = static_cast<float*>(output->untyped_data());
  for_each_row(pool, static_cast<int64_t>(output->element_count()) / size, size,
               [&](int64_t row) { kernels->softmax(from + row * size, size, to + row * size); });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace dmlax

DMLAX_DEFINE_HANDLER(dmlax_normalize_rows, dmlax::normalize,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>()
                         .Attr<float>("epsilon")
                         .Attr<bool>("is_centred"));

DMLAX_DEFINE_HANDLER(dmlax_softmax_rows, dmlax::softmax,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>());
