// nonzero_coordinates: tests into bits, counts, and writes every coordinate once.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/parallel_for.h"
#include "dmlax/_nonzero/cpu/kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

#define DMLAX_KERNELS_TYPE NonzeroKernels
#define DMLAX_KERNELS nonzero_kernels
#include "dmlax/_cpu/choose_kernels.h"

namespace {

namespace ffi = xla::ffi;

// A chunk is one task: its words fit the first cache.
constexpr int64_t kChunkWords = 512;
constexpr int64_t kChunk = kChunkWords * kWordBits;
constexpr int64_t kFillChunk = 1 << 16;  // numbers
constexpr int64_t kSerialWork = 1 << 17;  // elements and numbers below which a thread is no help
constexpr int64_t kMostElements = (int64_t{1} << 32) - 1;

struct Element {
  int64_t bytes;
  bool is_float;
};

// bytes 0: not an element type of this operator.
Element element_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::PRED:
    case ffi::DataType::S8:
    case ffi::DataType::U8:
      return {1, false};
    case ffi::DataType::S16:
    case ffi::DataType::U16:
      return {2, false};
    case ffi::DataType::S32:
    case ffi::DataType::U32:
      return {4, false};
    case ffi::DataType::S64:
    case ffi::DataType::U64:
      return {8, false};
    case ffi::DataType::F16:
    case ffi::DataType::BF16:
      return {2, true};
    case ffi::DataType::F32:
      return {4, true};
    case ffi::DataType::F64:
      return {8, true};
    default:
      return {0, false};
  }
}

Divisor divisor_of(int64_t value) {
  if (value <= 1) return {1, 0, 0};
  const uint32_t divisor = static_cast<uint32_t>(value);
  const uint32_t bits = 64 - __builtin_clzll(static_cast<uint64_t>(divisor) - 1);  // ceil(log2)
  const uint64_t excess = (uint64_t{1} << bits) - divisor;
  const uint32_t multiplier = static_cast<uint32_t>(((excess << 32) / divisor) + 1);
  return {divisor, multiplier, bits - 1};
}

// One array, without its batch.
struct Problem {
  const NonzeroKernels& kernel;
  Element element;
  int64_t elements;
  int64_t size;
  Axes axes;
  uint32_t fill_value;

  int64_t words() const { return (elements + kWordBits - 1) / kWordBits; }
  int64_t chunks() const { return (elements + kChunk - 1) / kChunk; }
  int64_t in_chunk(int64_t chunk) const { return std::min(kChunk, elements - chunk * kChunk); }

  void test(const char* data, int64_t chunk, uint64_t* words) const {
    const char* elements = data + chunk * kChunk * element.bytes;
    kernel.test(elements, in_chunk(chunk), element.bytes, element.is_float, words);
  }

  int64_t count(int64_t chunk, const uint64_t* words) const {
    return kernel.count(words, (in_chunk(chunk) + kWordBits - 1) / kWordBits);
  }

  // A chunk's rows, the first of which is row `begin`, as far as the output goes.
  void write(int64_t chunk, const uint64_t* words, int64_t begin, int64_t count,
             uint32_t* rows) const {
    const int64_t kept = std::min(count, size - begin);
    if (kept <= 0) return;
    const uint32_t first = static_cast<uint32_t>(chunk * kChunk);
    kernel.write_rows(words, first, axes, kept, rows + begin * axes.rank);
  }
};

void run_serially(const Problem& problem, const char* data, uint32_t* count, uint32_t* rows) {
  uint64_t words[kChunkWords];
  int64_t total = 0;
  for (int64_t chunk = 0; chunk < problem.chunks(); ++chunk) {
    problem.test(data, chunk, words);
    const int64_t found = problem.count(chunk, words);
    problem.write(chunk, words, total, found, rows);
    total += found;
  }
  *count = static_cast<uint32_t>(total);
  const int64_t kept = std::min(total, problem.size), rank = problem.axes.rank;
  problem.kernel.fill(rows + kept * rank, (problem.size - kept) * rank, problem.fill_value);
}

ffi::Error run_in_parallel(const Problem& problem, ffi::ThreadPool& pool, const char* data,
                           uint32_t* count, uint32_t* rows) {
  std::unique_ptr<uint64_t[]> words(new (std::nothrow) uint64_t[problem.words()]);
  std::unique_ptr<int64_t[]> begins(new (std::nothrow) int64_t[problem.chunks() + 1]);
  if (!words || !begins) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "nonzero_coordinates: no memory for a bit an element");
  }
  begins[0] = 0;
  parallel_for(pool, problem.chunks(), [&](int64_t chunk) {
    uint64_t* mine = words.get() + chunk * kChunkWords;
    problem.test(data, chunk, mine);
    begins[chunk + 1] = problem.count(chunk, mine);
  });
  for (int64_t chunk = 0; chunk < problem.chunks(); ++chunk) begins[chunk + 1] += begins[chunk];
  const int64_t total = begins[problem.chunks()], rank = problem.axes.rank;
  *count = static_cast<uint32_t>(total);
  const int64_t kept = std::min(total, problem.size) * rank, all = problem.size * rank;
  const int64_t fills = (all - kept + kFillChunk - 1) / kFillChunk;
  parallel_for(pool, problem.chunks() + fills, [&](int64_t task) {
    if (task < problem.chunks()) {
      const int64_t begin = begins[task], found = begins[task + 1] - begin;
      problem.write(task, words.get() + task * kChunkWords, begin, found, rows);
    } else {
      const int64_t begin = kept + (task - problem.chunks()) * kFillChunk;
      problem.kernel.fill(rows + begin, std::min(kFillChunk, all - begin), problem.fill_value);
    }
  });
  return ffi::Error::Success();
}

ffi::Error invalid(const std::string& what) {
  return ffi::Error::InvalidArgument("nonzero_coordinates: " + what);
}

// `input` may have leading axes that vmap put there; `count` has just these. `sizes` are those of
// the axes that have a coordinate.
ffi::Error nonzero_coordinates(ffi::ThreadPool pool, ffi::AnyBuffer input,
                               ffi::Result<ffi::Buffer<ffi::DataType::U32>> count,
                               ffi::Result<ffi::Buffer<ffi::DataType::U32>> coordinates,
                               ffi::Span<const int64_t> sizes, uint32_t fill_value) {
  const NonzeroKernels* kernel = chosen_kernels();
  if (kernel == nullptr) return invalid(kNoInstructionSet);
  const Element element = element_of(input.element_type());
  if (element.bytes == 0) return invalid("the input's element type is none of this operator's");
  const auto batch_axes = count->dimensions(), axes = coordinates->dimensions();
  const int64_t rank = static_cast<int64_t>(sizes.size());
  const bool fits = axes.size() == batch_axes.size() + 2 && axes.back() == rank &&
                    std::equal(batch_axes.begin(), batch_axes.end(), axes.begin()) &&
                    input.dimensions().size() >= batch_axes.size() &&
                    std::equal(batch_axes.begin(), batch_axes.end(), input.dimensions().begin());
  if (!fits || rank == 0) return invalid("the buffers' shapes do not fit one another");
  const int64_t batch = static_cast<int64_t>(count->element_count());
  const int64_t whole = static_cast<int64_t>(input.element_count());
  if (batch == 0) return ffi::Error::Success();
  const int64_t elements = whole / batch, size = axes[axes.size() - 2];
  std::vector<Divisor> divisors;
  int64_t product = 1;
  for (int64_t axis_size : sizes) {
    if (axis_size < 0 || (elements > 0 && (axis_size == 0 || axis_size > elements / product))) {
      return invalid("`sizes` are not those of the input");
    }
    if (elements > 0) product *= axis_size;
    divisors.push_back(divisor_of(elements > 0 ? axis_size : 1));
  }
  if (elements > kMostElements || (elements > 0 && product != elements)) {
    return invalid("`sizes` are not those of the input");
  }
  const char* data = static_cast<const char*>(input.untyped_data());
  uint32_t *counts = count->typed_data(), *rows = coordinates->typed_data();
  if (counts == nullptr || (whole > 0 && data == nullptr) ||
      (size * rank > 0 && rows == nullptr)) {
    return invalid("a buffer is null");
  }
  const Problem problem{*kernel, element, elements, size, {rank, divisors.data()}, fill_value};
  const bool serial = elements + size * rank < kSerialWork;
  for (int64_t i = 0; i < batch; ++i) {
    const char* mine = data + i * elements * element.bytes;
    if (serial) {
      run_serially(problem, mine, counts + i, rows + i * size * rank);
      continue;
    }
    ffi::Error error = run_in_parallel(problem, pool, mine, counts + i, rows + i * size * rank);
    if (error.failure()) return error;
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace dmlax

DMLAX_DEFINE_HANDLER(dmlax_nonzero_coordinates, dmlax::nonzero_coordinates,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::Buffer<xla::ffi::DataType::U32>>()
                         .Ret<xla::ffi::Buffer<xla::ffi::DataType::U32>>()
                         .Attr<xla::ffi::Span<const int64_t>>("sizes")
                         .Attr<uint32_t>("fill_value"));
