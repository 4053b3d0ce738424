// The handler of the matrix products: it checks operands, reads them and runs the products.
#include "dmlax/_cpu/ieee_mode.h"
#include "dmlax/_cpu/product/operands.h"
#include "dmlax/_cpu/product/product_schedule.h"
#include "dmlax/_cpu/scratch.h"

namespace dmlax {
namespace {

enum Operand { kA, kB, kSums, kAZero, kBZero, kBias, kAScale, kBScale, kOutputScale, kOutputZero };
constexpr size_t kOperands = 10;
using Operands = Inputs<kOperands>;

struct Attributes {
  bool transposed;  // B is (N, K), int8; an unsigned matrix is moved by -128
  bool panels;      // B is those rows in panels
  bool b_unsigned;  // the matrix was unsigned
  bool exact;
};

// --- checks, which return null or why the operands are refused ---------------------------

const char* check_parameters(const Operands& inputs, const ffi::AnyBuffer& output,
                             const ProductShape& shape) {
  const bool quantized = is_byte(output), scaled = is_float32(output);
  const bool types = is_int32(inputs[kSums]) && is_float32(inputs[kAScale]) &&
                     is_float32(inputs[kBScale]) && is_float32(inputs[kOutputScale]) &&
                     (scaled ? is_float32(inputs[kBias]) : is_int32(inputs[kBias])) &&
                     have_same_type(inputs[kAZero], inputs[kA]) && is_byte(inputs[kBZero]) &&
                     is_byte(inputs[kOutputZero]) &&
                     (!quantized || have_same_type(inputs[kOutputZero], output));
  if (!types) return "a parameter's element type is not the operator's";
  const int64_t scales = quantized || scaled ? 1 : 0, output_scales = quantized ? 1 : 0;
  const int64_t columns = shape.columns;
  const int64_t sums = shape.b_transposed || shape.b_panels ? columns : 0;
  const bool counts =
      has_count(inputs[kSums], {sums}) && has_count(inputs[kAZero], {0, 1, shape.rows}) &&
      has_count(inputs[kBZero], {0, 1, columns}) &&
      has_count(inputs[kBias], {0, scales * columns}) && has_count(inputs[kAScale], {scales}) &&
      has_count(inputs[kBScale], {scales, scales * columns}) &&
      has_count(inputs[kOutputScale], {output_scales}) &&
      has_count(inputs[kOutputZero], {0, output_scales});
  return counts ? nullptr : "a parameter has another number of values";
}

PreparedPanels prepared_panels(const ProductShape& shape) {
  return {1, shape.columns, shape.depth};
}

const char* describe(ProductShape& shape, const Operands& inputs, const ffi::AnyBuffer& output,
                     const Attributes& attributes) {
  const Sizes a = inputs[kA].dimensions().last(2), b = inputs[kB].dimensions().last(2);
  const Sizes result = output.dimensions().last(2);
  const bool is_packed = attributes.transposed || attributes.panels;
  shape.rows = a[0];
  shape.depth = a[1];
  shape.columns = attributes.panels ? count_of(inputs[kSums]) : attributes.transposed ? b[0] : b[1];
  shape.a_signed = is_signed_byte(inputs[kA]);
  shape.b_signed = is_signed_byte(inputs[kB]);
  shape.b_panels = attributes.panels && reads_panels() && shape.depth > 0;
  shape.b_transposed = is_packed && !shape.b_panels;
  if (attributes.panels) {
    if (!prepared_panels(shape).fit(b[0], b[1])) return "the panels are of other sizes";
  } else if ((attributes.transposed ? b[1] : b[0]) != shape.depth) {
    return "A and B do not fit";
  }
  if (result[0] != shape.rows || result[1] != shape.columns) return "the output is of other sizes";
  if (is_packed && !shape.b_signed) return "the packed matrix is not of int8";
  return check_parameters(inputs, output, shape);
}

bool are_types_known(const Operands& inputs, const ffi::AnyBuffer& output) {
  return is_byte(inputs[kA]) && is_byte(inputs[kB]) &&
         (is_int32(output) || is_float32(output) || is_byte(output));
}

// --- constants ---------------------------------------------------------------------------

// The arrays that a problem points to.
struct Constants {
  std::vector<int32_t> a_zeros, b_zeros, offset;
  std::vector<float> factors;
  Multipliers multipliers;
};

// The float32 product of two scales. Subnormals are kept.
__attribute__((noinline)) float multiply_scales(float a, float b) { return a * b; }

// The right matrices of a batch: the operand's, or its panels unpacked to rows.
struct RightMatrices {
  const uint8_t* operand;
  const uint8_t* first;
  int64_t elements;              // the elements of all matrices
  int64_t operand_bytes, bytes;  // one matrix's

  const uint8_t* of(const uint8_t* matrix) const {
    return first == operand ? matrix : first + (matrix - operand) / operand_bytes * bytes;
  }
};

// Reads the operands of one product of a batch.
struct Reader : OperandReader<kOperands> {
  const Attributes& attributes;
  const RightMatrices& matrices;

  void read(ProductProblem& problem, Constants& constants) const {
    problem.a = elements<uint8_t>(kA);
    problem.b = matrices.of(elements<uint8_t>(kB));
    problem.column_sums = elements<int32_t>(kSums);
    read_a_zeros(problem, constants);
    read_b_zeros(problem, constants);
    read_bias(problem, constants, problem.scaled ? nullptr : elements<int32_t>(kBias));
    if (problem.scaled) read_factors(problem, constants);
    if (!problem.requantize.quantized) return;
    read_scales(kAScale, problem.shape.columns, attributes.exact, problem.requantize,
                constants.multipliers);
  }

 private:
  void read_a_zeros(ProductProblem& problem, Constants& constants) const {
    const bool is_signed = problem.shape.a_signed;
    const int32_t to_unsigned = is_signed ? 128 : 0, to_signed = is_signed ? 0 : -128;
    const int64_t count = std::max<int64_t>(1, count_of(inputs[kAZero]));
    constants.a_zeros = zero_points(kAZero, count, is_signed,
                                    has_unsigned_rows(problem.path) ? to_unsigned : to_signed);
    problem.needs_column_sums = !are_zeros(constants.a_zeros);
    problem.a_zero = constants.a_zeros[0];
    problem.a_zeros = count > 1 ? constants.a_zeros.data() : nullptr;
  }

  // A packed matrix is signed already; the path makes panels signed or unsigned.
  void read_b_zeros(ProductProblem& problem, Constants& constants) const {
    const bool was_signed = !attributes.b_unsigned;
    const int32_t to_unsigned = was_signed ? 128 : 0, to_signed = was_signed ? 0 : -128;
    constants.b_zeros = filter_zeros(kBZero, problem.shape.columns,
                                     has_unsigned_rows(problem.path) ? to_signed : to_unsigned);
    problem.requantize.filter_zero = constants.b_zeros.empty() ? nullptr : constants.b_zeros.data();
  }

  // Adds a bias that may overflow later, in 64 bits.
  void read_bias(ProductProblem& problem, Constants& constants, const int32_t* bias) const {
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

  void read_factors(ProductProblem& problem, Constants& constants) const {
    const float a_scale = *elements<float>(kAScale), *b_scale = elements<float>(kBScale);
    const bool is_single = count_of(inputs[kBScale]) == 1;
    constants.factors.resize(static_cast<size_t>(problem.shape.columns));
    const IeeeMode mode;
    for (int64_t i = 0; i < problem.shape.columns; ++i) {
      constants.factors[i] = multiply_scales(a_scale, b_scale[is_single ? 0 : i]);
    }
    problem.factors = constants.factors.data();
    problem.addends = elements<float>(kBias);
  }
};

// --- running -----------------------------------------------------------------------------

// Whether the batch's rows are rows of one product: all have the same B and the same parameters.
bool is_one_product(const Batch& batch, const Operands& inputs) {
  return batch.folds(inputs) && count_of(inputs[kAZero]) <= 1;
}

thread_local Scratch unpacked_matrices;

// `first` is null if there is no memory to unpack the panels.
RightMatrices right_matrices(const ProductShape& shape, const ffi::AnyBuffer& operand,
                             bool panels) {
  const uint8_t* first = data_of<const uint8_t>(operand);
  const int64_t elements = element_count(operand);
  if (!panels || shape.b_panels || elements == 0) return {first, first, elements, 1, 1};
  const PreparedPanels matrix = prepared_panels(shape);
  const int64_t operand_bytes = matrix.count() * matrix.panel_bytes(), bytes = matrix.row_bytes();
  const int64_t count = elements / operand_bytes;
  uint8_t* rows = unpacked_matrices.take(count * bytes);
  for (int64_t i = 0; rows != nullptr && i < count; ++i) {
    matrix.unpack(first + i * operand_bytes, rows + i * bytes);
  }
  return {first, rows, count * bytes, operand_bytes, bytes};
}

// Runs a batch's products; returns false if there is no memory.
bool run_all(ProductProblem& problem, int64_t products, const Batch& batch, const Operands& inputs,
             const Attributes& attributes, const ffi::AnyBuffer& output, ffi::ThreadPool& pool) {
  const RightMatrices matrices = right_matrices(problem.shape, inputs[kB], attributes.panels);
  if (matrices.elements > 0 && matrices.first == nullptr) return false;
  lay_out_product(problem, matrices.first, matrices.elements);
  const int64_t panel_bytes =
      std::max<int64_t>(1, problem.layout.panels * problem.layout.panel_bytes);
  const int64_t most = std::clamp<int64_t>(tuning::kProductPanels / panel_bytes, 1, products);
  const int64_t bytes = static_cast<int64_t>(output.size_bytes()) / products;
  for (int64_t first = 0; first < products; first += most) {
    const int64_t count = std::min(most, products - first);
    std::vector<Constants> constants(static_cast<size_t>(count));
    std::vector<ProductProblem> problems(static_cast<size_t>(count), problem);
    for (int64_t i = 0; i < count; ++i) {
      const Reader reader{{batch, inputs, first + i}, attributes, matrices};
      reader.read(problems[i], constants[i]);
      problems[i].output = data_of<uint8_t>(output) + (first + i) * bytes;
    }
    if (!run_products(problems, pool)) return false;
  }
  return true;
}

Outcome multiply(const Call<NoKernels>& call, const Operands& inputs, Output output,
                 bool transposed, bool panels, bool b_unsigned, bool exact) {
  if (chosen_isa() == Isa::none) return kNoInstructionSet;
  const Attributes attributes = {transposed, panels, b_unsigned, exact};
  const int64_t axes = rank_of(output->dimensions()) - 2;
  if (axes < 0) return "the output is not of rank 2";
  const Batch batch(output->dimensions(), axes);
  for (size_t i = 0; i < kOperands; ++i) {
    if (!batch.fits(inputs[i].dimensions(), i < 2 ? 2 : 1)) return misfit(i);
  }
  if (!are_types_known(inputs, *output)) return "A, B or the output is of another element type";
  if (output->element_count() == 0) return {};
  ProductProblem problem = {};
  if (const char* wrong = describe(problem.shape, inputs, *output, attributes)) return wrong;
  if (is_null(*output)) return "the output is null";
  if (has_null(inputs)) return "an operand is null";
  problem.requantize.quantized = is_byte(*output);
  problem.scaled = is_float32(*output);
  problem.requantize.output_signed = is_signed_byte(*output);
  const bool folds = is_one_product(batch, inputs);
  const int64_t products = folds ? 1 : batch.count();
  if (folds) problem.shape.rows *= batch.count();
  const bool done = run_all(problem, products, batch, inputs, attributes, *output, call.pool);
  unpacked_matrices.give_back();
  return done ? Outcome() : Outcome::out_of_memory("no memory for its scratch");
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_matrix_multiply, "matrix product", multiply, "transposed", "panels",
              "b_unsigned", "exact")
