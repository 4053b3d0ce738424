// XLA's handler of the matrix products: checks operands, shares the work out between threads.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/gemm/prepared_panels.h"
#include "dmlax/_cpu/ieee_mode.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/multipliers.h"
#include "dmlax/_cpu/scratch.h"
#include "dmlax/_cpu/matmul/schedule.h"

namespace dmlax {

namespace {

namespace ffi = xla::ffi;

constexpr int64_t kPanelsAtOnce = 1 << 25;      // bytes of panels of several products

ffi::Error invalid(const std::string& what) {
  return ffi::Error::InvalidArgument("matrix product: " + what);
}

ffi::Error no_memory() {
  return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                    "matrix product: no memory for its scratch");
}

struct Operands {
  ffi::AnyBuffer a, b, sums, a_zero, b_zero, bias, a_scale, b_scale, output_scale, output_zero;

  std::array<const ffi::AnyBuffer*, 10> all() const {
    return {&a,    &b,       &sums,    &a_zero,       &b_zero,
            &bias, &a_scale, &b_scale, &output_scale, &output_zero};
  }
};

struct Attributes {
  bool transposed;    // B is (N, K), int8, re-based where it is of a matrix that is unsigned
  bool panels;        // B is these rows in panels
  bool b_unsigned;    // the matrix was
  bool exact;
};

int64_t count_of(const ffi::AnyBuffer& parameter) { return parameter.dimensions().back(); }

// --- checks: each returns a sentence's end for the caller's error, or null

const char* check_parameters(const Operands& given, const ffi::AnyBuffer& output,
                             const MatmulShape& shape) {
  const auto count_is = [](const ffi::AnyBuffer& buffer, int64_t a, int64_t b, int64_t c) {
    const int64_t count = count_of(buffer);
    return count == a || count == b || count == c;
  };
  const bool quantized = is_byte(output), scaled = output.element_type() == ffi::DataType::F32;
  const int64_t scale = quantized || scaled ? 1 : 0, scale_of_output = quantized ? 1 : 0;
  const bool types = given.sums.element_type() == ffi::DataType::S32 &&
                     given.bias.element_type() ==
                         (scaled ? ffi::DataType::F32 : ffi::DataType::S32) &&
                     given.a_scale.element_type() == ffi::DataType::F32 &&
                     given.b_scale.element_type() == ffi::DataType::F32 &&
                     given.output_scale.element_type() == ffi::DataType::F32 &&
                     given.a_zero.element_type() == given.a.element_type() &&
                     is_byte(given.b_zero) && is_byte(given.output_zero) &&
                     (!quantized || given.output_zero.element_type() == output.element_type());
  if (!types) return "a parameter's element type is not the operator's";
  const int64_t columns = shape.columns;
  const int64_t sums = shape.b_transposed || shape.b_panels ? columns : 0;
  const bool counts = count_is(given.sums, sums, sums, sums) &&
                      count_is(given.a_zero, 0, 1, shape.rows) &&
                      count_is(given.b_zero, 0, 1, columns) &&
                      count_is(given.bias, 0, scale * columns, scale * columns) &&
                      count_is(given.a_scale, scale, scale, scale) &&
                      count_is(given.b_scale, scale, scale, scale * columns) &&
                      count_is(given.output_scale, scale_of_output, scale_of_output,
                               scale_of_output) &&
                      count_is(given.output_zero, 0, scale_of_output, scale_of_output);
  return counts ? nullptr : "a parameter has another number of values";
}

PreparedPanels prepared_panels(const MatmulShape& shape) { return {1, shape.columns, shape.depth}; }

const char* describe(MatmulShape& shape, const Operands& given, const ffi::AnyBuffer& output,
                     const Attributes& attributes) {
  const Sizes a = given.a.dimensions().last(2), b = given.b.dimensions().last(2);
  const Sizes result = output.dimensions().last(2);
  shape.rows = a[0];
  shape.depth = a[1];
  shape.columns = attributes.panels ? count_of(given.sums) : attributes.transposed ? b[0] : b[1];
  shape.a_signed = is_signed_byte(given.a);
  shape.b_signed = is_signed_byte(given.b);
  shape.b_panels = attributes.panels && reads_panels() && shape.depth > 0;
  shape.b_transposed = attributes.transposed || (attributes.panels && !shape.b_panels);
  if (attributes.panels) {
    if (!prepared_panels(shape).fit(b[0], b[1])) return "the panels are of other sizes";
  } else if ((attributes.transposed ? b[1] : b[0]) != shape.depth) {
    return "A and B do not fit";
  }
  if (result[0] != shape.rows || result[1] != shape.columns) return "the output is of other sizes";
  if ((attributes.transposed || attributes.panels) && !shape.b_signed) {
    return "the packed matrix is not of int8";
  }
  return check_parameters(given, output, shape);
}

bool are_types_known(const Operands& given, const ffi::AnyBuffer& output) {
  return is_byte(given.a) && is_byte(given.b) &&
         (output.element_type() == ffi::DataType::S32 ||
          output.element_type() == ffi::DataType::F32 || is_byte(output));
}

// --- constants ---------------------------------------------------------------------------

int32_t value_of(const uint8_t* bytes, int64_t i, bool is_signed) {
  return is_signed ? static_cast<int8_t>(bytes[i]) : bytes[i];
}

bool are_zeros(const std::vector<int32_t>& values) {
  return std::all_of(values.begin(), values.end(), [](int32_t value) { return value == 0; });
}

// The arrays that a problem points to.
struct Constants {
  std::vector<int32_t> a_zeros, b_zeros, offset;
  std::vector<float> factors;
  Multipliers multipliers;
};

// The float32 product of two scales, subnormals kept.
__attribute__((noinline)) float multiply_scales(float a, float b) { return a * b; }

// The right matrices of a batch: as they are given, or panels unpacked to rows.
struct RightMatrices {
  const uint8_t* given;
  const uint8_t* first;
  int64_t elements;                   // of all of them
  int64_t given_bytes, bytes;         // of one

  const uint8_t* of(const uint8_t* matrix) const {
    return first == given ? matrix : first + (matrix - given) / given_bytes * bytes;
  }
};

// Reads the operands of one product of a batch.
class Reader {
 public:
  Reader(const Batch& batch, const Operands& given, const Attributes& attributes,
         const RightMatrices& matrices, int64_t index)
      : batch_(batch),
        given_(given),
        attributes_(attributes),
        matrices_(matrices),
        index_(index) {}

  void read(MatmulProblem& problem, Constants& constants) const {
    problem.a = batch_.elements_of<uint8_t>(given_.a, index_);
    problem.b = matrices_.of(batch_.elements_of<uint8_t>(given_.b, index_));
    problem.column_sums = batch_.elements_of<int32_t>(given_.sums, index_);
    RequantizeParams& params = problem.requantize;
    read_a_zeros(problem, constants);
    read_b_zeros(problem, constants);
    read_bias(problem, constants, problem.scaled ? nullptr : of_bias<int32_t>());
    if (problem.scaled) read_factors(problem, constants);
    if (!params.quantized) return;
    const uint8_t* zero = batch_.elements_of<uint8_t>(given_.output_zero, index_);
    params.output_zero = zero == nullptr ? 0 : value_of(zero, 0, params.output_signed);
    params.input_scale = batch_.elements_of<uint32_t>(given_.a_scale, index_);
    params.filter_scale = batch_.elements_of<uint32_t>(given_.b_scale, index_);
    params.output_scale = batch_.elements_of<uint32_t>(given_.output_scale, index_);
    params.filter_scales = count_of(given_.b_scale);
    constants.multipliers.fill(
        {params.input_scale, params.filter_scale, params.output_scale, params.filter_scales},
        problem.shape.columns, attributes_.exact);
    set_multipliers(params, constants.multipliers, attributes_.exact);
  }

 private:
  void read_a_zeros(MatmulProblem& problem, Constants& constants) const {
    const bool is_signed = problem.shape.a_signed;
    // Rows are made unsigned, or signed.
    const bool unsigned_rows = has_unsigned_rows(problem.path);
    const int32_t moved = unsigned_rows ? (is_signed ? 128 : 0) : (is_signed ? 0 : -128);
    const uint8_t* zeros = batch_.elements_of<uint8_t>(given_.a_zero, index_);
    const int64_t count = std::max<int64_t>(1, count_of(given_.a_zero));
    constants.a_zeros.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      constants.a_zeros[i] = moved + (zeros == nullptr ? 0 : value_of(zeros, i, is_signed));
    }
    problem.needs_column_sums = !are_zeros(constants.a_zeros);
    problem.a_zero = constants.a_zeros[0];
    problem.a_zeros = count > 1 ? constants.a_zeros.data() : nullptr;
  }

  void read_b_zeros(MatmulProblem& problem, Constants& constants) const {
    // A packed matrix is signed already; panels are made signed, or unsigned.
    const bool was_signed = !attributes_.b_unsigned;
    const bool unsigned_rows = has_unsigned_rows(problem.path);
    const int32_t moved = unsigned_rows ? (was_signed ? 0 : -128) : (was_signed ? 128 : 0);
    const uint8_t* zeros = batch_.elements_of<uint8_t>(given_.b_zero, index_);
    const bool is_signed = is_signed_byte(given_.b_zero);
    const int64_t columns = problem.shape.columns;
    const int64_t count = std::min(columns, std::max<int64_t>(1, count_of(given_.b_zero)));
    constants.b_zeros.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      constants.b_zeros[i] = moved + (zeros == nullptr ? 0 : value_of(zeros, i, is_signed));
    }
    problem.requantize.filter_zero = nullptr;
    if (are_zeros(constants.b_zeros)) return;
    if (count == 1) constants.b_zeros.resize(static_cast<size_t>(columns), constants.b_zeros[0]);
    constants.b_zeros.resize(static_cast<size_t>(columns + kPanelWidth));
    problem.requantize.filter_zero = constants.b_zeros.data();
  }

  // A bias that may overflow is added later, in 64 bits.
  void read_bias(MatmulProblem& problem, Constants& constants, const int32_t* bias) const {
    const int64_t columns = problem.shape.columns;
    constants.offset.assign(static_cast<size_t>(columns + kPanelWidth), 0);
    problem.requantize.offset = constants.offset.data();
    problem.wide_bias = nullptr;
    if (bias == nullptr) return;
    const auto [low, high] = std::minmax_element(bias, bias + columns);
    const int64_t magnitude = std::max(-int64_t{*low}, int64_t{*high});
    const double most = 65025.0 * static_cast<double>(problem.shape.depth);
    if (most + static_cast<double>(magnitude) >= 2147483648.0) {
      problem.wide_bias = bias;
    } else {
      std::copy_n(bias, columns, constants.offset.begin());
    }
  }

  template <typename T>
  const T* of_bias() const {
    return batch_.elements_of<T>(given_.bias, index_);
  }

  void read_factors(MatmulProblem& problem, Constants& constants) const {
    const float a_scale = *batch_.elements_of<float>(given_.a_scale, index_);
    const float* b_scale = batch_.elements_of<float>(given_.b_scale, index_);
    const bool is_single = count_of(given_.b_scale) == 1;
    constants.factors.resize(static_cast<size_t>(problem.shape.columns));
    const IeeeMode mode;
    for (int64_t i = 0; i < problem.shape.columns; ++i) {
      constants.factors[i] = multiply_scales(a_scale, b_scale[is_single ? 0 : i]);
    }
    problem.factors = constants.factors.data();
    problem.addends = of_bias<float>();
  }

  const Batch& batch_;
  const Operands& given_;
  const Attributes& attributes_;
  const RightMatrices& matrices_;
  int64_t index_;
};

// --- running -----------------------------------------------------------------------------

// Whether the batch's rows are rows of one product: all have the same B and parameters.
bool is_one_product(const Batch& batch, const Operands& given) {
  const auto all = given.all();
  return batch.is_whole(given.a.dimensions()) && count_of(given.a_zero) <= 1 &&
         std::all_of(all.begin() + 1, all.end(), [&](const ffi::AnyBuffer* operand) {
           return batch.is_single(operand->dimensions());
         });
}

thread_local Scratch unpacked_matrices;

// `first` is null if there is no memory to unpack them.
RightMatrices right_matrices(const MatmulShape& shape, const Operands& given, bool panels) {
  const uint8_t* first = static_cast<const uint8_t*>(given.b.untyped_data());
  const int64_t elements = static_cast<int64_t>(given.b.element_count());
  if (!panels || shape.b_panels || elements == 0) return {first, first, elements, 1, 1};
  const PreparedPanels one = prepared_panels(shape);
  const int64_t given_bytes = one.count() * one.panel_bytes(), bytes = one.row_bytes();
  const int64_t count = elements / given_bytes;
  uint8_t* rows = unpacked_matrices.take(count * bytes);
  for (int64_t i = 0; rows != nullptr && i < count; ++i) {
    one.unpack(first + i * given_bytes, rows + i * bytes);
  }
  return {first, rows, count * bytes, given_bytes, bytes};
}

// `products` of a batch; false if there is no memory.
bool run_all(MatmulProblem& problem, int64_t products, const Batch& batch, const Operands& given,
             const Attributes& attributes, ffi::AnyBuffer output, ffi::ThreadPool& pool) {
  const RightMatrices matrices = right_matrices(problem.shape, given, attributes.panels);
  if (matrices.elements > 0 && matrices.first == nullptr) return false;
  lay_out_product(problem, matrices.first, matrices.elements);
  const int64_t panel_bytes = std::max<int64_t>(1, problem.layout.panels * problem.layout.panel_bytes);
  const int64_t most = std::clamp<int64_t>(kPanelsAtOnce / panel_bytes, 1, products);
  const int64_t bytes = static_cast<int64_t>(output.size_bytes()) / products;
  for (int64_t first = 0; first < products; first += most) {
    const int64_t count = std::min(most, products - first);
    std::vector<Constants> constants(static_cast<size_t>(count));
    std::vector<MatmulProblem> problems(static_cast<size_t>(count), problem);
    for (int64_t i = 0; i < count; ++i) {
      const Reader reader(batch, given, attributes, matrices, first + i);
      reader.read(problems[i], constants[i]);
      problems[i].output = static_cast<uint8_t*>(output.untyped_data()) + (first + i) * bytes;
    }
    if (!run_products(problems, pool)) return false;
  }
  return true;
}

ffi::Error run_batch(MatmulProblem problem, const Batch& batch, const Operands& given,
                     const Attributes& attributes, ffi::AnyBuffer output, ffi::ThreadPool& pool) {
  const bool fold = is_one_product(batch, given);
  const int64_t products = fold ? 1 : batch.count();
  if (fold) problem.shape.rows *= batch.count();
  const bool good = run_all(problem, products, batch, given, attributes, output, pool);
  unpacked_matrices.give_back();
  return good ? ffi::Error::Success() : no_memory();
}

ffi::Error multiply(ffi::ThreadPool pool, const Operands& given, ffi::AnyBuffer output,
                    const Attributes& attributes) {
  if (chosen_isa() == Isa::none) return invalid(kNoInstructionSet);
  const int64_t axes = static_cast<int64_t>(output.dimensions().size()) - 2;
  if (axes < 0) return invalid("the output is not of rank 2");
  const Batch batch(output.dimensions(), axes);
  const auto all = given.all();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!batch.fits(all[i]->dimensions(), i < 2 ? 2 : 1)) {
      return invalid("operand " + std::to_string(i) + " is not of the batch's shape");
    }
  }
  if (!are_types_known(given, output)) {
    return invalid("A, B or the output is of another element type");
  }
  if (output.element_count() == 0) return ffi::Error::Success();
  MatmulProblem problem = {};
  if (const char* wrong = describe(problem.shape, given, output, attributes)) return invalid(wrong);
  if (is_null(output)) return invalid("the output is null");
  if (std::any_of(all.begin(), all.end(), [](const auto* operand) { return is_null(*operand); })) {
    return invalid("an operand is null");
  }
  problem.requantize.quantized = is_byte(output);
  problem.scaled = output.element_type() == ffi::DataType::F32;
  problem.requantize.output_signed = is_signed_byte(output);
  return run_batch(problem, batch, given, attributes, output, pool);
}

ffi::Error matrix_multiply(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b,
                           ffi::AnyBuffer sums, ffi::AnyBuffer a_zero, ffi::AnyBuffer b_zero,
                           ffi::AnyBuffer bias, ffi::AnyBuffer a_scale, ffi::AnyBuffer b_scale,
                           ffi::AnyBuffer output_scale, ffi::AnyBuffer output_zero,
                           ffi::Result<ffi::AnyBuffer> output, bool transposed, bool panels,
                           bool b_unsigned, bool exact) {
  return multiply(pool,
                  {.a = a,
                   .b = b,
                   .sums = sums,
                   .a_zero = a_zero,
                   .b_zero = b_zero,
                   .bias = bias,
                   .a_scale = a_scale,
                   .b_scale = b_scale,
                   .output_scale = output_scale,
                   .output_zero = output_zero},
                  *output,
                  {.transposed = transposed,
                   .panels = panels,
                   .b_unsigned = b_unsigned,
                   .exact = exact});
}

}  // namespace
}  // namespace dmlax

DMLAX_DEFINE_HANDLER(dmlax_matrix_multiply, dmlax::matrix_multiply,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>()
                         .Attr<bool>("transposed")
                         .Attr<bool>("panels")
                         .Attr<bool>("b_unsigned")
                         .Attr<bool>("exact"));
