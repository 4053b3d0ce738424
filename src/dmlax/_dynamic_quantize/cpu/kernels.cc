// The kernels of dynamic quantization, compiled once for each SIMD header.
#include "dmlax/_dynamic_quantize/cpu/kernels.h"

#include "dmlax/_cpu/quantize.h"

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

// As integers: the thread may flush subnormals, which are less than 0 or greater all the same. Of
// negative floats the least has the greatest bits.
template <typename Signed, typename Bits>
inline OrderedRange range(const Bits* bits, int64_t count) {
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

OrderedRange range_float32(const uint32_t* bits, int64_t count) {
  return range<int32_t>(bits, count);
}

OrderedRange range_float16(const uint16_t* bits, int64_t count) {
  return range<int16_t>(bits, count);
}

}  // namespace

extern const DynamicQuantizeKernels dynamic_quantize_kernels;
const DynamicQuantizeKernels dynamic_quantize_kernels = {range_float32, range_float16, widen_all,
                                                         quantize};

}  // namespace DMLAX_ISA_NAMESPACE
}  // namespace dmlax
