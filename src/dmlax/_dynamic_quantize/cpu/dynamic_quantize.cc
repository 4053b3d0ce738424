// The handler of dynamic quantization: ranges of pieces in parallel, then their quantization.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/phases.h"
#include "dmlax/_cpu/requantize.h"
#include "dmlax/_dynamic_quantize/cpu/kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

#define DMLAX_KERNELS_TYPE DynamicQuantizeKernels
#define DMLAX_KERNELS dynamic_quantize_kernels
#include "dmlax/_cpu/choose_kernels.h"

namespace {

namespace ffi = xla::ffi;

constexpr int64_t kSerialElements = 1 << 17;  // up to these a second thread is no help
constexpr int64_t kChunk = 1 << 14;           // elements: one task
constexpr uint32_t kOne = 0x3f800000, kSign = 0x80000000;

ffi::Error invalid(const std::string& what) {
  return ffi::Error::InvalidArgument("dynamic_quantize: " + what);
}

// The bits of (|a| + |b|) / divisor, rounded once to float32.
uint32_t divide_sum(uint32_t a, uint32_t b, uint32_t divisor) {
  using Wide = unsigned __int128;
  constexpr int kRoom = 64, kDropped = 20;  // of 88 bits and a carry, what is left fits 64
  Unpacked large = unpack(a & ~kSign), small = unpack(b & ~kSign);
  if (large.mantissa == 0 || (small.mantissa != 0 && small.exponent > large.exponent)) {
    std::swap(large, small);
  }
  const int shift = kRoom - (large.exponent - small.exponent);
  const Wide addend = small.mantissa;
  Wide total = static_cast<Wide>(large.mantissa) << kRoom;
  bool sticky = false;
  if (addend != 0 && shift >= 0) {  // the exponent of 0 says nothing
    total += addend << shift;
  } else if (addend != 0) {
    const Wide kept = -shift < kRoom ? addend >> -shift : 0;
    sticky = -shift >= kRoom || (kept << -shift) != addend;
    total += kept;
  }
  Wide quotient = total / divisor;
  sticky |= quotient * divisor != total;
  int exponent = large.exponent - kRoom;
  if (quotient >> (kRoom - 1) != 0) {
    const int dropped = quotient >> (kRoom + kDropped) != 0 ? kDropped + 8 : kDropped;
    sticky |= (quotient >> dropped) << dropped != quotient;
    quotient >>= dropped;
    exponent += dropped;
  }
  // Below every half: more than 24 bits are left of a quotient that is not exact.
  return pack(false, static_cast<uint64_t>(quotient), exponent, sticky);
}

uint32_t float_of(int32_t key) {
  return static_cast<uint32_t>(key) ^ (key < 0 ? ~kSign : 0);
}

// The chunks in an order in which a thread begins with those that it has read last, which are still
// in its cache: the caller takes the first tasks of each phase, another thread the last.
int64_t latest_first(int64_t task, int64_t tasks) {
  const int64_t middle = tasks / 2;
  return task < middle ? middle - 1 - task : tasks - 1 - (task - middle);
}

struct Parameters {
  float scale;
  uint8_t zero_point;
};

struct Problem {
  const DynamicQuantizeKernels& kernels;
  bool is_float16, is_signed, exact;
  int64_t elements;  // of a range

  const char* input(const char* data, int64_t at) const { return data + at * (is_float16 ? 2 : 4); }
  int64_t chunks() const { return std::max<int64_t>(1, (elements + kChunk - 1) / kChunk); }

  OrderedRange range(const char* data, int64_t count) const {
    return is_float16 ? kernels.range_float16(reinterpret_cast<const uint16_t*>(data), count)
                      : kernels.range_float32(reinterpret_cast<const uint32_t*>(data), count);
  }

  // An end of the range as the bits of a float32.
  uint32_t end(int32_t key) const {
    if (!is_float16) return float_of(key);
    const uint16_t half = static_cast<uint16_t>(key < 0 ? key ^ 0x7fff : key);
    float value;
    kernels.widen(&half, 1, &value);
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
  }

  Parameters parameters(const OrderedRange* ranges) const {
    OrderedRange all;
    for (int64_t i = 0; i < chunks(); ++i) {
      all = {std::min(all.low, ranges[i].low), std::max(all.high, ranges[i].high)};
    }
    const uint32_t low = end(all.low), high = end(all.high);
    uint32_t scale = exact ? divide_sum(low, high, 255)
                           : divide_sum(divide_sum(low, high, 1), 0, 255);
    if (scale == 0) scale = kOne;
    const uint8_t lowest = is_signed ? 0x80 : 0;
    Parameters found = {from_bits(scale), 0};
    const float negated = from_bits(low ^ kSign);
    quantize(QuantizeInput::float32, &negated, found.scale, lowest, &found.zero_point, 1);
    return found;
  }

  void quantize(QuantizeInput type, const void* from, float scale, uint8_t zero_point, uint8_t* to,
                int64_t count) const {
    kernels.quantize(type, {.input = from,
                            .scale = &scale,
                            .zero_point = &zero_point,
                            .output = to,
                            .count = count,
                            .one_each = false,
                            .is_signed = is_signed,
                            .exact = exact});
  }
};

ffi::Error dynamic_quantize(ffi::ThreadPool pool, ffi::AnyBuffer input,
                            ffi::Result<ffi::AnyBuffer> output,
                            ffi::Result<ffi::Buffer<ffi::DataType::F32>> scale,
                            ffi::Result<ffi::AnyBuffer> zero_point, bool exact) {
  const DynamicQuantizeKernels* kernels = chosen_kernels();
  if (kernels == nullptr) return invalid(kNoInstructionSet);
  const bool is_float16 = input.element_type() == ffi::DataType::F16;
  if ((!is_float16 && input.element_type() != ffi::DataType::F32) || !is_byte(*output) ||
      zero_point->element_type() != output->element_type()) {
    return invalid("an element type is none of this operator's");
  }
  const Sizes sizes = input.dimensions(), batch = scale->dimensions();
  const bool fits = sizes.size() >= batch.size() &&
                    std::equal(batch.begin(), batch.end(), sizes.begin()) &&
                    std::equal(sizes.begin(), sizes.end(), output->dimensions().begin(),
                               output->dimensions().end()) &&
                    std::equal(batch.begin(), batch.end(), zero_point->dimensions().begin(),
                               zero_point->dimensions().end());
  if (!fits) return invalid("the buffers' shapes do not fit one another");
  const int64_t ranges = static_cast<int64_t>(scale->element_count());
  if (ranges == 0) return ffi::Error::Success();
  if (is_null(input) || is_null(*output) || scale->typed_data() == nullptr || is_null(*zero_point)) {
    return invalid("a buffer is null");
  }
  const int64_t whole = static_cast<int64_t>(input.element_count());
  const Problem problem = {.kernels = *kernels,
                           .is_float16 = is_float16,
                           .is_signed = is_signed_byte(*output),
                           .exact = exact,
                           .elements = whole / ranges};
  const int64_t chunks = problem.chunks(), tasks = ranges * chunks;
  std::unique_ptr<OrderedRange[]> found(new (std::nothrow) OrderedRange[tasks]);
  if (!found) return ffi::Error(ffi::ErrorCode::kResourceExhausted, "dynamic_quantize: no memory");
  const char* data = static_cast<const char*>(input.untyped_data());
  uint8_t* bytes = static_cast<uint8_t*>(output->untyped_data());
  float* scales = scale->typed_data();
  uint8_t* zeros = static_cast<uint8_t*>(zero_point->untyped_data());
  enum Phase : size_t { kRanges, kParameters, kQuantize };
  const auto run_task = [&](size_t phase, int64_t task) {
    if (phase == kParameters) {
      const Parameters all = problem.parameters(found.get() + task * chunks);
      scales[task] = all.scale;
      zeros[task] = all.zero_point;
      return;
    }
    const int64_t own_task = phase == kQuantize ? latest_first(task, tasks) : task;
    const int64_t index = own_task / chunks, begin = own_task % chunks * kChunk;
    const int64_t count = std::min(problem.elements - begin, kChunk);
    const int64_t at = index * problem.elements + begin;
    const char* own = problem.input(data, at);
    if (phase == kRanges) {
      found[own_task] = problem.range(own, count);
    } else {
      problem.quantize(is_float16 ? QuantizeInput::float16 : QuantizeInput::float32, own,
                       scales[index], zeros[index], bytes + at, count);
    }
  };
  const auto run = [&](size_t phase, int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) run_task(phase, task);
  };
  const std::array<PhaseTasks, 3> all = {{{tasks, 1}, {ranges, 1}, {tasks, 1}}};
  run_phases(whole <= kSerialElements ? nullptr : &pool, all, run);
  return ffi::Error::Success();
}

}  // namespace
}  // namespace dmlax

DMLAX_DEFINE_HANDLER(dmlax_dynamic_quantize, dmlax::dynamic_quantize,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::Buffer<xla::ffi::DataType::F32>>()
                         .Ret<xla::ffi::AnyBuffer>()
                         .Attr<bool>("exact"));
