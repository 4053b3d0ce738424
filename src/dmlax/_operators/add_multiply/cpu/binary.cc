// Handlers of the operators on two tensors: they check and broadcast operands and run the kernels.
#include <cmath>
#include <cstring>

#include "dmlax/_operators/add_multiply/cpu/exact.h"
#include "dmlax/_operators/add_multiply/cpu/add_multiply_kernels.h"
#include "dmlax/_cpu/broadcast.h"
#include "dmlax/_cpu/ffi.h"

namespace dmlax {
namespace {

enum Operand { kA, kB, kAScale, kBScale, kOutputScale, kAZero, kBZero, kOutputZero, kOperands };
using Axes = BroadcastAxes<kOperands>;
using Cursor = BroadcastCursor<kOperands>;
using Kernel = void (*)(const BinaryParams&, const BinarySpan&);

// --- parameters --------------------------------------------------------------------------

ByteTensor byte_tensor(bool is_signed, uint8_t zero_point, uint32_t scale) {
  const uint8_t flip = is_signed ? 0x80 : 0;
  return {.flip = flip, .zero = zero_point ^ flip, .scale = scale};
}

// A vector's estimate must stay below 2^22: larger factors take the scalar path.

// Whether byte products with the factors, and their sums, are exact in float32.
bool is_exact_factor(float factor, uint32_t scale, uint32_t output_scale) {
  const float units = factor * 0x1p12f;
  return std::abs(factor) <= 4 && units == std::nearbyint(units) &&
         static_cast<double>(factor) * to_double(output_scale) == to_double(scale);
}

// The largest rounding error of a float32 of this magnitude.
double rounding_of(double magnitude) {
  return std::ldexp(1, std::ilogb(std::max(1.0, magnitude)) - 24);
}

// The factors have relative errors of 2^-24. Rounding adds an error for the origin, the inner sum
// and the sum.
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

// The factors, the offset and the inner sum have relative errors of at most 2^-24. Rounding the
// estimate twice adds at most 2^-17, because its ties are below 256.
void estimate_sum(BinaryParams& params) {
  const double unit = to_double(params.output_scale);
  const double a = to_double(params.a.scale) / unit, b = to_double(params.b.scale) / unit;
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

// ONNX Runtime's formula.
void prepare_float32_sum(BinaryParams& params, int32_t a_zero, int32_t b_zero) {
  constexpr uint32_t kOne = 127u << 23;
  params.a_factor = multiplier_float32(params.a.scale, kOne, params.output_scale);
  params.b_factor = multiplier_float32(params.b.scale, kOne, params.output_scale);
  const float zeros = std::fma(params.a_factor, static_cast<float>(a_zero),
                               params.b_factor * static_cast<float>(b_zero));
  params.offset = static_cast<float>(params.output_zero) - zeros;
  params.has_estimate = std::abs(params.a_factor) + std::abs(params.b_factor) <= 0x1p12f;
}

// A product's estimate has the error of an accumulator's. Adding the error needs 2^-14 more.
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

// The operands' and the output's memory.
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
  const uint8_t a_zero = *operand[kAZero], b_zero = *operand[kBZero];
  BinaryParams params = {.a = byte_tensor(operation.a_signed, a_zero, scale_bits(operand[kAScale])),
                         .b = byte_tensor(operation.b_signed, b_zero, scale_bits(operand[kBScale])),
                         .output_scale = scale_bits(operand[kOutputScale]),
                         .output_signed = operation.output_signed,
                         .output_zero = byte_value(*operand[kOutputZero], operation.output_signed),
                         .exact = operation.exact};
  if (operation.is_product) {
    params.a_bias = static_cast<float>(-params.a.zero);
    params.b_bias = static_cast<float>(-params.b.zero);
    operation.exact ? estimate_product(params) : prepare_float32_product(params);
  } else if (operation.exact) {
    estimate_sum(params);
  } else {
    params.a_bias = operation.a_signed ? -128 : 0;
    params.b_bias = operation.b_signed ? -128 : 0;
    prepare_float32_sum(params, byte_value(a_zero, operation.a_signed),
                        byte_value(b_zero, operation.b_signed));
  }
  return params;
}

// Elements that share one set of parameters.
struct Problem {
  Kernel kernel;
  const BinaryParams& params;
  Buffers buffers;
  const Axes& axes;
  int axis_count;

  int64_t row() const { return axis_count == 0 ? 1 : axes.size[0]; }
};

// An operand's row from element `at` on. If the row has one value, `copies` hold it.
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

// An operand's elements from `index` on. An operand that varies along all axes needs no copy.
const uint8_t* elements_of(const Problem& problem, int operand, int64_t index, int64_t count,
                           uint8_t* expanded) {
  const uint8_t* data = problem.buffers.operand[operand];
  int axis = 0;
  while (axis < problem.axis_count && problem.axes.varies(axis, operand)) ++axis;
  if (axis == problem.axis_count) return data + index;
  expand(problem.axes, problem.axis_count, operand, data, index, count, expanded);
  return expanded;
}

// Short rows: operands are expanded before the kernel runs.
void run_expanded(const Problem& problem, int64_t begin, int64_t end) {
  uint8_t a[tuning::kPiece], b[tuning::kPiece];
  for (int64_t index = begin; index < end; index += tuning::kPiece) {
    const int64_t count = std::min(tuning::kPiece, end - index);
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
      problem.axis_count <= 1 || problem.row() >= tuning::kBinaryLongRow ? run_rows : run_expanded;
  const int64_t elements = problem.axes.elements(problem.axis_count);
  parallel_for_ranges(pool, elements, tuning::kBytes,
                      [&](int64_t first, int64_t last) { run(problem, first, last); });
}

// vmap may make parameters vary. Every set of parameters is a problem.
void run_problems(const Operation& operation, const Buffers& buffers, const Axes& axes,
                  ffi::ThreadPool& pool) {
  const int inner = axes.inner_axes([&](int axis) {
    for (int operand = kAScale; operand < kOperands; ++operand) {
      if (axes.varies(axis, operand)) return true;
    }
    return false;
  });
  const int64_t elements = axes.elements(inner), problems = axes.elements(axes.count) / elements;
  Cursor cursor(axes, inner, axes.count, 0);
  for (int64_t i = 0; i < problems; ++i, cursor.next()) {
    Buffers operands = {.operand = {}, .output = buffers.output + i * elements};
    for (int operand = 0; operand < kOperands; ++operand) {
      const int64_t bytes = operand >= kAScale && operand <= kOutputScale ? sizeof(float) : 1;
      operands.operand[operand] = buffers.operand[operand] + cursor.offset(operand) * bytes;
    }
    const BinaryParams params = params_of(operation, operands);
    run_problem({.kernel = operation.kernel,
                 .params = params,
                 .buffers = operands,
                 .axes = axes,
                 .axis_count = inner},
                pool);
  }
}

// --- handlers ----------------------------------------------------------------------------

bool has_types(const Inputs<kOperands>& inputs, const ffi::AnyBuffer& output) {
  for (int scale = kAScale; scale <= kOutputScale; ++scale) {
    if (!is_float32(inputs[scale])) return false;
  }
  return is_byte(inputs[kA]) && is_byte(inputs[kB]) && is_byte(output) &&
         have_same_type(inputs[kAZero], inputs[kA]) && have_same_type(inputs[kBZero], inputs[kB]) &&
         have_same_type(inputs[kOutputZero], output);
}

template <bool is_product>
Outcome run(const Call<BinaryKernels>& call, const Inputs<kOperands>& inputs, Output output,
            bool exact) {
  if (!has_types(inputs, *output)) return "an element type is none of the operator's";
  if (output->element_count() == 0) return {};
  Axes axes;
  if (const char* wrong = broadcast(axes, inputs, *output)) return wrong;
  Buffers buffers = {.operand = {}, .output = data_of<uint8_t>(*output)};
  for (int i = 0; i < kOperands; ++i) buffers.operand[i] = data_of<const uint8_t>(inputs[i]);
  const Operation operation = {.kernel = is_product ? call.kernels.multiply : call.kernels.add,
                               .is_product = is_product,
                               .exact = exact,
                               .a_signed = is_signed_byte(inputs[kA]),
                               .b_signed = is_signed_byte(inputs[kB]),
                               .output_signed = is_signed_byte(*output)};
  run_problems(operation, buffers, axes, call.pool);
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_quantized_add, "quantized_binary", run<false>, "exact")

DMLAX_HANDLER(dmlax_quantized_multiply, "quantized_binary", run<true>, "exact")
