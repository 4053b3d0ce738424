// The handler of dynamic quantization: threads find the ranges of chunks, then quantize them.
#include <memory>
#include <new>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/phases.h"
#include "dmlax/_cpu/quantize/quantize_kernels.h"
#include "dmlax/_cpu/wide_float.h"

namespace dmlax {
namespace {

constexpr int64_t kChunk = tuning::kBytes.chunk;
constexpr uint32_t kOne = 0x3f800000, kSign = 0x80000000;

// The bits of (|a| + |b|) / divisor, rounded once to float32.
uint32_t divide_sum(uint32_t a, uint32_t b, uint32_t divisor) {
  const WideFloat sum = add(widen(a & ~kSign, kFloat32), widen(b & ~kSign, kFloat32));
  const Wide quotient = sum.magnitude / divisor;
  const bool has_rest = quotient * divisor != sum.magnitude;
  return round_to({false, quotient | static_cast<Wide>(has_rest), sum.exponent}, kFloat32);
}

uint32_t float_of(int32_t key) { return static_cast<uint32_t>(key) ^ (key < 0 ? ~kSign : 0); }

// Orders chunks so that a thread starts with the chunks that it read last and that its cache still
// has. The calling thread takes the first tasks of a phase, other threads the last.
int64_t latest_first(int64_t task, int64_t tasks) {
  const int64_t middle = tasks / 2;
  return task < middle ? middle - 1 - task : tasks - 1 - (task - middle);
}

struct Parameters {
  float scale;
  uint8_t zero_point;
};

struct Problem {
  const ElementwiseKernels& kernels;
  bool is_float16, is_signed, exact;
  int64_t elements;  // the elements of one range

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
    return to_bits(value);
  }

  Parameters parameters(const OrderedRange* ranges) const {
    OrderedRange all;
    for (int64_t i = 0; i < chunks(); ++i) {
      all = {std::min(all.low, ranges[i].low), std::max(all.high, ranges[i].high)};
    }
    const uint32_t low = end(all.low), high = end(all.high);
    uint32_t scale =
        exact ? divide_sum(low, high, 255) : divide_sum(divide_sum(low, high, 1), 0, 255);
    if (scale == 0) scale = kOne;
    const uint8_t lowest = is_signed ? 0x80 : 0;
    Parameters parameters = {from_bits(scale), 0};
    const float negated = from_bits(low ^ kSign);
    quantize(QuantizeInput::float32, &negated, parameters.scale, lowest, &parameters.zero_point, 1);
    return parameters;
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
                            .exact = exact,
                            .to_float16 = false});
  }
};

Outcome dynamic_quantize(const Call<ElementwiseKernels>& call, const Inputs<1>& inputs,
                         Output output, ffi::Result<ffi::Buffer<ffi::DataType::F32>> scale,
                         Output zero_point, bool exact) {
  const ffi::AnyBuffer& input = inputs[0];
  const bool is_float16 = input.element_type() == ffi::DataType::F16;
  if ((!is_float16 && !is_float32(input)) || !is_byte(*output) ||
      !have_same_type(*zero_point, *output)) {
    return "an element type is none of this operator's";
  }
  const Sizes sizes = input.dimensions(), batch = scale->dimensions();
  const Sizes output_sizes = output->dimensions(), zero_sizes = zero_point->dimensions();
  const bool fits =
      sizes.size() >= batch.size() && std::equal(batch.begin(), batch.end(), sizes.begin()) &&
      std::equal(sizes.begin(), sizes.end(), output_sizes.begin(), output_sizes.end()) &&
      std::equal(batch.begin(), batch.end(), zero_sizes.begin(), zero_sizes.end());
  if (!fits) return "the buffers' shapes do not fit one another";
  const int64_t ranges = static_cast<int64_t>(scale->element_count());
  if (ranges == 0) return {};
  float* scales = scale->typed_data();
  if (is_null(input) || is_null(*output) || scales == nullptr || is_null(*zero_point)) {
    return "a buffer is null";
  }
  const Problem problem = {.kernels = call.kernels,
                           .is_float16 = is_float16,
                           .is_signed = is_signed_byte(*output),
                           .exact = exact,
                           .elements = element_count(input) / ranges};
  const int64_t chunks = problem.chunks(), tasks = ranges * chunks;
  std::unique_ptr<OrderedRange[]> chunk_ranges(new (std::nothrow) OrderedRange[tasks]);
  if (!chunk_ranges) return Outcome::out_of_memory("no memory");
  const char* data = data_of<const char>(input);
  uint8_t *bytes = data_of<uint8_t>(*output), *zeros = data_of<uint8_t>(*zero_point);
  enum Phase : size_t { kRanges, kParameters, kQuantize };
  const auto run_task = [&](size_t phase, int64_t task) {
    if (phase == kParameters) {
      const Parameters parameters = problem.parameters(chunk_ranges.get() + task * chunks);
      scales[task] = parameters.scale;
      zeros[task] = parameters.zero_point;
      return;
    }
    const int64_t chunk = phase == kQuantize ? latest_first(task, tasks) : task;
    const int64_t index = chunk / chunks, begin = chunk % chunks * kChunk;
    const int64_t count = std::min(problem.elements - begin, kChunk);
    const int64_t at = index * problem.elements + begin;
    const char* elements = problem.input(data, at);
    if (phase == kRanges) {
      chunk_ranges[chunk] = problem.range(elements, count);
    } else {
      problem.quantize(is_float16 ? QuantizeInput::float16 : QuantizeInput::float32, elements,
                       scales[index], zeros[index], bytes + at, count);
    }
  };
  const auto run = [&](size_t phase, int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) run_task(phase, task);
  };
  const std::array<PhaseTasks, 3> phases = {{{tasks, 1}, {ranges, 1}, {tasks, 1}}};
  const bool is_serial = element_count(input) <= tuning::kBytes.serial;
  run_phases(is_serial ? nullptr : &call.pool, phases, run);
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_dynamic_quantize, "dynamic_quantize", dynamic_quantize, "exact")
