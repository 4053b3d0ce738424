// Kernels of dynamic quantization, compiled once for each SIMD header.
#include "dmlax/_dynamic_quantize/cpu/kernels.h"

#include "dmlax/_cpu/quantize.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

// Compares floats as integers, because the thread may flush subnormals. The least negative float
// has the greatest bits.
template <typename Signed, typename Bits>
OrderedRange range(const Bits* bits, int64_t count) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  Signed high = 0;
  Bits greatest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Signed value = static_cast<Signed>(bits[i]);
    high = value > high ? value : high;
    greatest = bits[i] > greatest ? bits[i] : greatest;
  }
  const bool has_negative = greatest >= kSign;
  return {has_negative ? static_cast<Signed>(greatest ^ (kSign - 1)) : 0, high};
}

}  // namespace

extern const DynamicQuantizeKernels dynamic_quantize_kernels;
const DynamicQuantizeKernels dynamic_quantize_kernels = {range<int32_t>, range<int16_t>, widen_all,
                                                         quantize};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE
