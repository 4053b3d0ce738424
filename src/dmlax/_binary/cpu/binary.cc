// The handlers of the operators on two tensors: check operands, broadcast them, run the kernels.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "dmlax/_binary/cpu/exact.h"
#include "dmlax/_binary/cpu/kernels.h"
#include "dmlax/_cpu/broadcast.h"
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/fixed_point.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/parallel_for.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

#define DMLAX_KERNELS_TYPE BinaryKernels
#define DMLAX_KERNELS binary_kernels
#include "dmlax/_cpu/choose_kernels.h"

namespace {

namespace ffi = xla::ffi;

constexpr int64_t kSerialElements = 1 << 17;  // up to these a second thread is no help
constexpr int64_t kChunk = 1 << 14;           // elements: one task
constexpr int64_t kLongRow = 512;             // elements that make a kernel's call worth it
constexpr int64_t kPiece = 1024;              // elements that are expanded at once

enum Operand {
  kA, kB, kAScale, kBScale, kOutputScale, kAZeroPoint, kBZeroPoint, kOutputZeroPoint, kOperands
};
using Axes = BroadcastAxes<kOperands>;
using Cursor = BroadcastCursor<kOperands>;
using Kernel = void (*)(const BinaryParams&, const BinarySpan&);

// --- parameters --------------------------------------------------------------------------

ByteTensor byte_tensor(bool is_signed, uint8_t zero_point, uint32_t scale) {
  const uint8_t flip = is_signed ? 0x80 : 0;
  return {.flip = flip, .zero = zero_point ^ flip, .scale = scale};
}

int32_t signed_value(uint8_t byte, bool is_signed) {
  return is_signed ? static_cast<int8_t>(byte) : byte;
}

// A vector takes estimates below 2^22 only: larger factors leave every element to itself.

// Whether products of bytes with the factors, and sums of them, are exact in float32.
bool is_exact_factor(float factor, uint32_t scale, uint32_t output_scale) {
  const float units = factor * 0x1p12f;
  return std::abs(factor) <= 4 && units == std::nearbyint(units) &&
         static_cast<double>(factor) * widen(output_scale) == widen(scale);
}

// The most by which a rounded float32 of this magnitude is off.
double rounding_of(double magnitude) {
  return std::ldexp(1, std::ilogb(std::max(1.0, magnitude)) - 24);
}

// Factors are 2^-24 of themselves off; the origin, the inner sum and the sum are rounded.
FixedSum fix_sum(double a, double b, double offset) {
  for (const int32_t bits : {2, 4}) {
    const double origin = 1.5 + 0x1p-10 + bits * 0x1p-23 + offset * kFixedScale;
    const double a_most = 255 * std::abs(a) * kFixedScale, b_most = 255 * b * kFixedScale;
    const double inner = 1.001 * std::max(std::abs(origin), std::abs(origin + b_most));
    const double factors = (a_most + std::abs(b_most)) * 0x1p-24;
    const double error = factors + rounding_of(origin) + rounding_of(inner) + rounding_of(1);
    if (error > (bits - 0.01) * 0x1p-23) continue;
    return {.not_near_tie = (1 << kFixedShift) - 2 * bits,
            .a_factor = static_cast<float>(a * kFixedScale),
            .b_factor = static_cast<float>(b * kFixedScale),
            .origin = static_cast<float>(origin)};
  }
  return {};
}

// Each of these is at most 2^-24 of itself off: the factors, the offset and the inner sum. The
// estimate is rounded twice, by 2^-17 at most, as its ties are below 256.
void estimate_sum(BinaryParams& params) {
  const double unit = widen(params.output_scale);
  const double a = widen(params.a.scale) / unit, b = widen(params.b.scale) / unit;
  params.has_estimate = std::abs(a) + std::abs(b) <= 64;
  if (!params.has_estimate) return;
  params.a_factor = static_cast<float>(a);
  params.b_factor = static_cast<float>(b);
  params.offset = static_cast<float>(-(params.a.zero * a + params.b.zero * b));
  const bool is_exact = is_exact_factor(params.a_factor, params.a.scale, params.output_scale) &&
                        is_exact_factor(params.b_factor, params.b.scale, params.output_scale);
  const double inner = 255 * std::abs(b) + std::abs(params.offset);
  const double sizes = 255 * (std::abs(a) + std::abs(b)) + std::abs(params.offset) + inner + 256;
  params.error = is_exact ? 0 : static_cast<float>(sizes * 1.01 * 0x1p-24);
  params.fixed = fix_sum(a, b, -(params.a.zero * a + params.b.zero * b));
}

// ONNX Runtime's.
void prepare_float32_sum(BinaryParams& params, int32_t a_zero, int32_t b_zero) {
  constexpr uint32_t kOne = 127u << 23;
  params.a_factor = multiplier_float32(params.a.scale, kOne, params.output_scale);
  params.b_factor = multiplier_float32(params.b.scale, kOne, params.output_scale);
  const float zeros = std::fma(params.a_factor, static_cast<float>(a_zero),
                               params.b_factor * static_cast<float>(b_zero));
  params.offset = static_cast<float>(params.output_zero) - zeros;
  params.has_estimate = std::abs(params.a_factor) + std::abs(params.b_factor) <= 0x1p12f;
}

// The estimate of a product is that of an accumulator; and 2^-14 more for the error's addition.
void estimate_product(BinaryParams& params) {
  float band;
  params.a_factor = Estimator(params.a.scale, params.output_scale).estimate(params.b.scale, band);
  params.error = band == kNever ? 0 : 0x1p-13f;
  params.has_estimate = std::abs(params.a_factor) <= 16;
}

void prepare_float32_product(BinaryParams& params) {
  params.a_factor = multiplier_float32(params.a.scale, params.b.scale, params.output_scale);
  params.offset = static_cast<float>(params.output_zero);
  params.has_estimate = std::abs(params.a_factor) <= 16;
}

// --- one call ----------------------------------------------------------------------------

struct Operation {
  Kernel kernel;
  bool is_product, exact;
  bool a_signed, b_signed, output_signed;
};

// Where operands are, and the output.
struct Buffers {
  std::array<const uint8_t*, kOperands> operand;
  uint8_t* output;
};

uint32_t scale_bits(const uint8_t* scale) {
  uint32_t bits;
  std::memcpy(&bits, scale, sizeof bits);
  return bits;
}

BinaryParams params_of(const Operation& operation, const Buffers& buffers) {
  const auto& operand = buffers.operand;
  const uint8_t a_zero = *operand[kAZeroPoint], b_zero = *operand[kBZeroPoint];
  BinaryParams params = {
      .a = byte_tensor(operation.a_signed, a_zero, scale_bits(operand[kAScale])),
      .b = byte_tensor(operation.b_signed, b_zero, scale_bits(operand[kBScale])),
      .output_scale = scale_bits(operand[kOutputScale]),
      .output_signed = operation.output_signed,
      .output_zero = signed_value(*operand[kOutputZeroPoint], operation.output_signed),
      .exact = operation.exact,
      .has_estimate = false,
      .a_bias = 0,
      .b_bias = 0,
      .a_factor = 0,
      .b_factor = 0,
      .offset = 0,
      .error = 0,
      .fixed = {}};
  if (operation.is_product) {
    params.a_bias = static_cast<float>(-params.a.zero);
    params.b_bias = static_cast<float>(-params.b.zero);
    operation.exact ? estimate_product(params) : prepare_float32_product(params);
  } else if (operation.exact) {
    estimate_sum(params);
  } else {
    params.a_bias = operation.a_signed ? -128 : 0;
    params.b_bias = operation.b_signed ? -128 : 0;
    prepare_float32_sum(params, signed_value(a_zero, operation.a_signed),
                        signed_value(b_zero, operation.b_signed));
  }
  return params;
}

// Elements of one set of parameters.
struct Problem {
  Kernel kernel;
  const BinaryParams& params;
  Buffers buffers;
  const Axes& axes;
  int axis_count;

  int64_t row() const { return axis_count == 0 ? 1 : axes.size[0]; }
};

// An operand from its element `at` of a row on; if all elements of the row are one, copies of it.
const uint8_t* row_of(const Problem& problem, int operand, const uint8_t* elements, int64_t at,
                      uint8_t* copies, bool& varies) {
  varies = problem.axis_count > 0 && problem.axes.varies(0, operand);
  if (varies) return elements + at;
  std::memset(copies, *elements, kBinaryGroup);
  return copies;
}

void run_rows(const Problem& problem, int64_t begin, int64_t end) {
  const int64_t row = problem.row();
  uint8_t a_copies[kBinaryGroup], b_copies[kBinaryGroup];
  Cursor cursor(problem.axes, std::min(1, problem.axis_count), problem.axis_count, begin / row);
  for (int64_t index = begin; index < end; cursor.next()) {
    const int64_t at = index % row, count = std::min(row - at, end - index);
    BinarySpan span;
    const auto& operand = problem.buffers.operand;
    span.a = row_of(problem, kA, operand[kA] + cursor.offset(kA), at, a_copies, span.a_varies);
    span.b = row_of(problem, kB, operand[kB] + cursor.offset(kB), at, b_copies, span.b_varies);
    span.output = problem.buffers.output + index;
    span.count = count;
    problem.kernel(problem.params, span);
    index += count;
  }
}

// Elements from `index` on of an operand: its own if it varies along all axes, else expanded.
const uint8_t* elements_of(const Problem& problem, int operand, int64_t index, int64_t count,
                           uint8_t* expanded) {
  const uint8_t* data = problem.buffers.operand[operand];
  int axis = 0;
  while (axis < problem.axis_count && problem.axes.varies(axis, operand)) ++axis;
  if (axis == problem.axis_count) return data + index;
  expand(problem.axes, problem.axis_count, operand, data, index, count, expanded);
  return expanded;
}

// Short rows: what is broadcast is expanded first.
void run_expanded(const Problem& problem, int64_t begin, int64_t end) {
  uint8_t a[kPiece], b[kPiece];
  for (int64_t index = begin; index < end; index += kPiece) {
    const int64_t count = std::min(kPiece, end - index);
    problem.kernel(problem.params, {.a = elements_of(problem, kA, index, count, a),
                                    .b = elements_of(problem, kB, index, count, b),
                                    .output = problem.buffers.output + index,
                                    .count = count,
                                    .a_varies = true,
                                    .b_varies = true});
  }
}

void run_problem(const Problem& problem, ffi::ThreadPool& pool) {
  const auto run =
      problem.axis_count <= 1 || problem.row() >= kLongRow ? run_rows : run_expanded;
  const int64_t elements = problem.axes.elements(problem.axis_count);
  parallel_for_ranges(pool, elements, kSerialElements, kChunk,
                      [&](int64_t first, int64_t last) { run(problem, first, last); });
}

// vmap may have parameters vary: each set of them is a problem.
void run_problems(const Operation& operation, const Buffers& buffers, const Axes& axes,
                  ffi::ThreadPool& pool) {
  const auto vary = [&](int axis) {
    for (int operand = kAScale; operand < kOperands; ++operand) {
      if (axes.varies(axis, operand)) return true;
    }
    return false;
  };
  int own = 0;
  while (own < axes.count && !vary(own)) ++own;
  const int64_t elements = axes.elements(own), problems = axes.elements(axes.count) / elements;
  Cursor cursor(axes, own, axes.count, 0);
  for (int64_t i = 0; i < problems; ++i, cursor.next()) {
    Buffers mine = {.operand = {}, .output = buffers.output + i * elements};
    for (int operand = 0; operand < kOperands; ++operand) {
      const int64_t bytes = operand >= kAScale && operand <= kOutputScale ? sizeof(float) : 1;
      mine.operand[operand] = buffers.operand[operand] + cursor.offset(operand) * bytes;
    }
    const BinaryParams params = params_of(operation, mine);
    run_problem({.kernel = operation.kernel,
                 .params = params,
                 .buffers = mine,
                 .axes = axes,
                 .axis_count = own},
                pool);
  }
}

// --- handlers ----------------------------------------------------------------------------

ffi::Error invalid(const std::string& what) {
  return ffi::Error::InvalidArgument("quantized_binary: " + what);
}

using Given = std::array<const ffi::AnyBuffer*, kOperands>;

bool has_types(const Given& given, const ffi::AnyBuffer& output) {
  for (int scale = kAScale; scale <= kOutputScale; ++scale) {
    if (given[scale]->element_type() != ffi::DataType::F32) return false;
  }
  return is_byte(*given[kA]) && is_byte(*given[kB]) && is_byte(output) &&
         given[kAZeroPoint]->element_type() == given[kA]->element_type() &&
         given[kBZeroPoint]->element_type() == given[kB]->element_type() &&
         given[kOutputZeroPoint]->element_type() == output.element_type();
}

ffi::Error run(bool is_product, bool exact, const Given& given, const ffi::AnyBuffer& output,
               ffi::ThreadPool& pool) {
  const BinaryKernels* kernels = chosen_kernels();
  if (kernels == nullptr) return invalid(kNoInstructionSet);
  if (!has_types(given, output)) return invalid("an element type is none of the operator's");
  if (output.element_count() == 0) return ffi::Error::Success();
  std::array<Sizes, kOperands> sizes;
  for (int i = 0; i < kOperands; ++i) sizes[i] = given[i]->dimensions();
  Axes axes;
  if (!merge_axes(axes, output.dimensions(), sizes)) {
    return invalid("an operand does not broadcast to the output");
  }
  Buffers buffers = {.operand = {}, .output = static_cast<uint8_t*>(output.untyped_data())};
  for (int i = 0; i < kOperands; ++i) {
    if (is_null(*given[i])) return invalid("a buffer is null");
    buffers.operand[i] = static_cast<const uint8_t*>(given[i]->untyped_data());
  }
  if (is_null(output)) return invalid("a buffer is null");
  const Operation operation = {.kernel = is_product ? kernels->multiply : kernels->add,
                               .is_product = is_product,
                               .exact = exact,
                               .a_signed = is_signed_byte(*given[kA]),
                               .b_signed = is_signed_byte(*given[kB]),
                               .output_signed = is_signed_byte(output)};
  run_problems(operation, buffers, axes, pool);
  return ffi::Error::Success();
}

template <bool kIsProduct>
ffi::Error handle(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::AnyBuffer a_scale,
                  ffi::AnyBuffer b_scale, ffi::AnyBuffer output_scale, ffi::AnyBuffer a_zero_point,
                  ffi::AnyBuffer b_zero_point, ffi::AnyBuffer output_zero_point,
                  ffi::Result<ffi::AnyBuffer> output, bool exact) {
  return run(kIsProduct, exact,
             {&a, &b, &a_scale, &b_scale, &output_scale, &a_zero_point, &b_zero_point,
              &output_zero_point},
             *output, pool);
}

}  // namespace
}  // namespace dmlax

#define DMLAX_BINARY_BINDING()         \
  xla::ffi::Ffi::Bind()                \
      .Ctx<xla::ffi::ThreadPool>()     \
      .Arg<xla::ffi::AnyBuffer>()      \
      .Arg<xla::ffi::AnyBuffer>()      \
      .Arg<xla::ffi::AnyBuffer>()      \
      .Arg<xla::ffi::AnyBuffer>()      \
      .Arg<xla::ffi::AnyBuffer>()      \
      .Arg<xla::ffi::AnyBuffer>()      \
      .Arg<xla::ffi::AnyBuffer>()      \
      .Arg<xla::ffi::AnyBuffer>()      \
      .Ret<xla::ffi::AnyBuffer>()      \
      .Attr<bool>("exact")

DMLAX_DEFINE_HANDLER(dmlax_quantized_add, dmlax::handle<false>, DMLAX_BINARY_BINDING());

DMLAX_DEFINE_HANDLER(dmlax_quantized_multiply, dmlax::handle<true>, DMLAX_BINARY_BINDING());
