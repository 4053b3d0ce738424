// The handler of nonzero_coordinates: it tests elements into bits, counts them, and writes each
// coordinate once.
#include <memory>
#include <new>

#include "dmlax/_cpu/ffi.h"
#include "dmlax/_operators/nonzero/cpu/nonzero_kernels.h"

namespace dmlax {
namespace {

constexpr int64_t kChunkWords = tuning::kNonzeroWords, kFillChunk = tuning::kNonzeroFill;
constexpr int64_t kChunk = kChunkWords * kWordBits;
constexpr int64_t kMostElements = (int64_t{1} << 32) - 1;

struct Element {
  int64_t bytes;
  bool is_float;
};

// Returns 0 bytes for a type that the operator does not take.
Element element_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::PRED:
      return {1, false};
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
      return {integer_bytes(type), false};
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

// One array of a batch.
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

  // Writes a chunk's rows as far as the output goes. The chunk's first row is row `begin`.
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
    const int64_t set_bits = problem.count(chunk, words);
    problem.write(chunk, words, total, set_bits, rows);
    total += set_bits;
  }
  *count = static_cast<uint32_t>(total);
  const int64_t kept = std::min(total, problem.size), rank = problem.axes.rank;
  problem.kernel.fill(rows + kept * rank, (problem.size - kept) * rank, problem.fill_value);
}

// Returns false if there is no memory.
bool run_in_parallel(const Problem& problem, ffi::ThreadPool& pool, const char* data,
                     uint32_t* count, uint32_t* rows) {
  std::unique_ptr<uint64_t[]> words(new (std::nothrow) uint64_t[problem.words()]);
  std::unique_ptr<int64_t[]> begins(new (std::nothrow) int64_t[problem.chunks() + 1]);
  if (!words || !begins) return false;
  begins[0] = 0;
  parallel_for(&pool, problem.chunks(), [&](int64_t chunk) {
    uint64_t* chunk_words = words.get() + chunk * kChunkWords;
    problem.test(data, chunk, chunk_words);
    begins[chunk + 1] = problem.count(chunk, chunk_words);
  });
  for (int64_t chunk = 0; chunk < problem.chunks(); ++chunk) begins[chunk + 1] += begins[chunk];
  const int64_t total = begins[problem.chunks()], rank = problem.axes.rank;
  *count = static_cast<uint32_t>(total);
  const int64_t kept = std::min(total, problem.size) * rank, all = problem.size * rank;
  const int64_t fills = (all - kept + kFillChunk - 1) / kFillChunk;
  parallel_for(&pool, problem.chunks() + fills, [&](int64_t task) {
    if (task < problem.chunks()) {
      const int64_t begin = begins[task], count = begins[task + 1] - begin;
      problem.write(task, words.get() + task * kChunkWords, begin, count, rows);
    } else {
      const int64_t begin = kept + (task - problem.chunks()) * kFillChunk;
      problem.kernel.fill(rows + begin, std::min(kFillChunk, all - begin), problem.fill_value);
    }
  });
  return true;
}

using Uint32s = ffi::Result<ffi::Buffer<ffi::DataType::U32>>;

// The input may have leading axes that vmap adds; `count` has only these. `sizes` are the sizes of
// the axes that have a coordinate.
Outcome nonzero_coordinates(const Call<NonzeroKernels>& call, const Inputs<1>& inputs,
                            Uint32s count, Uint32s coordinates, Sizes sizes, uint32_t fill_value) {
  const ffi::AnyBuffer& input = inputs[0];
  const Element element = element_of(input.element_type());
  if (element.bytes == 0) return "the input's element type is none of this operator's";
  const Sizes batch_axes = count->dimensions(), axes = coordinates->dimensions();
  const int64_t rank = rank_of(sizes);
  const bool fits = axes.size() == batch_axes.size() + 2 && axes.back() == rank &&
                    std::equal(batch_axes.begin(), batch_axes.end(), axes.begin()) &&
                    input.dimensions().size() >= batch_axes.size() &&
                    std::equal(batch_axes.begin(), batch_axes.end(), input.dimensions().begin());
  if (!fits || rank == 0) return "the buffers' shapes do not fit one another";
  const int64_t batch = static_cast<int64_t>(count->element_count());
  if (batch == 0) return {};
  const int64_t elements = element_count(input) / batch, size = axes[axes.size() - 2];
  std::vector<Divisor> divisors;
  int64_t product = 1;
  for (int64_t axis_size : sizes) {
    if (axis_size < 0 || (elements > 0 && (axis_size == 0 || axis_size > elements / product))) {
      return "`sizes` are not those of the input";
    }
    if (elements > 0) product *= axis_size;
    divisors.push_back(divisor_of(elements > 0 ? axis_size : 1));
  }
  if (elements > kMostElements || (elements > 0 && product != elements)) {
    return "`sizes` are not those of the input";
  }
  uint32_t *counts = count->typed_data(), *rows = coordinates->typed_data();
  if (counts == nullptr || is_null(input) || (size * rank > 0 && rows == nullptr)) {
    return "a buffer is null";
  }
  const Problem problem{call.kernels, element, elements, size, {rank, divisors.data()}, fill_value};
  const bool is_serial = elements + size * rank < tuning::kBytes.serial;
  for (int64_t i = 0; i < batch; ++i) {
    const char* data = data_of<const char>(input) + i * elements * element.bytes;
    uint32_t* batch_rows = rows + i * size * rank;
    if (is_serial) {
      run_serially(problem, data, counts + i, batch_rows);
    } else if (!run_in_parallel(problem, call.pool, data, counts + i, batch_rows)) {
      return Outcome::out_of_memory("no memory for a bit an element");
    }
  }
  return {};
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_nonzero_coordinates, "nonzero_coordinates", nonzero_coordinates, "sizes",
              "fill_value")
