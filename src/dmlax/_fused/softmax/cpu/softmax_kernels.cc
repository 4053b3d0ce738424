// Kernel of the softmax of 8 bits, compiled once for each SIMD header. It sums float32 in the order
// of a row's elements. The product of a term and the multiplier is exact in float64, and no
// quotient is close enough to a tie for float64 to round it to one.
#include "dmlax/_fused/softmax/cpu/softmax_kernels.h"

#include "dmlax/_cpu/requantize.h"
#include "dmlax/_cpu/simd/interface.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

constexpr int64_t kTogether = 8;  // rows whose sums do not wait for one another
constexpr int kTerms = 256;
constexpr double kMost = 512;  // any zero point leaves it outside of 8 bits

// Writes the terms' indices of a row: the largest element has the last term.
void find_terms(const uint8_t* input, int64_t count, uint8_t flip, uint8_t* indices) {
  uint8_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t value = input[i] ^ flip;
    most = value > most ? value : most;
  }
  const uint8_t raise = static_cast<uint8_t>(kTerms - 1 - most);
  for (int64_t i = 0; i < count; ++i) indices[i] = static_cast<uint8_t>((input[i] ^ flip) + raise);
}

template <int64_t kRows>
void add_terms(const float* terms, const uint8_t* indices, int64_t count, float* totals) {
  float sums[kRows] = {};
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t row = 0; row < kRows; ++row) sums[row] += terms[indices[row * count + i]];
  }
  for (int64_t row = 0; row < kRows; ++row) totals[row] = sums[row];
}

// Replaces a row's indices by bytes. `products` are the terms times the multiplier.
void divide(const ByteSoftmax& softmax, const double* products, double total, int64_t count,
            uint8_t* bytes) {
  const int32_t low = softmax.is_signed ? -128 : 0, high = low + 255;
  for (int64_t i = 0; i < count; ++i) {
    const double quotient = products[bytes[i]] / total;
    const double raised = quotient > -kMost ? quotient : -kMost;
    const double limited = raised < kMost ? raised : kMost;
    const int32_t rounded = static_cast<int32_t>((limited + 0x1.8p52) - 0x1.8p52);
    const int32_t value = rounded + softmax.zero_point;
    bytes[i] = static_cast<uint8_t>(value < low ? low : value > high ? high : value);
  }
}

void run(const ByteSoftmax& softmax, const uint8_t* input, int64_t rows, int64_t count,
         uint8_t* output) {
  double products[kTerms];  // subnormal terms included
  for (int i = 0; i < kTerms; ++i) {
    products[i] = to_double(to_bits(softmax.terms[i])) * static_cast<double>(softmax.multiplier);
  }
  const uint8_t flip = softmax.is_signed ? 0x80 : 0;
  for (int64_t first = 0; first < rows; first += kTogether) {
    const int64_t block = rows - first < kTogether ? rows - first : kTogether;
    uint8_t* bytes = output + first * count;
    float totals[kTogether];
    for (int64_t row = 0; row < block; ++row) {
      find_terms(input + (first + row) * count, count, flip, bytes + row * count);
    }
    if (block == kTogether) {
      add_terms<kTogether>(softmax.terms, bytes, count, totals);
    } else {
      for (int64_t row = 0; row < block; ++row) {
        add_terms<1>(softmax.terms, bytes + row * count, count, totals + row);
      }
    }
    for (int64_t row = 0; row < block; ++row) {
      divide(softmax, products, totals[row], count, bytes + row * count);
    }
  }
}

}  // namespace

template <>
const SoftmaxKernels Table<SoftmaxKernels>::kernels = {run};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
