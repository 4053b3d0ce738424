// Both convolutions: checks what it is handed, prepares constants, and shares the work out.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "dmlax/_convolution/cpu/kernels.h"
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/isa.h"
#include "dmlax/_cpu/parallel_for.h"
#include "dmlax/_cpu/requantize.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {
namespace {

namespace ffi = xla::ffi;

using Sizes = ffi::Span<const int64_t>;

constexpr int64_t kMostPlanes = int64_t{1} << 31;  // bytes of one image's planes
constexpr int64_t kMostSize = int64_t{1} << 31;    // of anything in `windows`
constexpr size_t kMostKept = size_t{1} << 26;      // scratch that a thread keeps between calls
constexpr double kThreadWakeupNs = 50000;       // until a thread that sleeps is of help
constexpr double kMostSharing = 100000;            // until its own cache has the filter
constexpr double kDepthwiseRows = 4;               // times the others' time: no products hide it
constexpr int64_t kPanelsOfTask = 4;               // that a filter row is read for, at least
constexpr int64_t kTasksOfThread = 4;
constexpr int64_t kPlanesAtOnce = 1 << 18;         // bytes of depthwise channels
constexpr int64_t kPackedAlone = 1 << 17;          // bytes of planes below which one thread packs

// What a thread takes, roughly: it decides only whether a second one would help.
struct Speed {
  double products;  // a nanosecond
  double row;       // nanoseconds to quantize a panel's row
};

constexpr Speed speed_of(Isa isa) {
  switch (isa) {
    case Isa::amx_int8:
      return {1000, 8};
    case Isa::avx512_vnni:
      return {120, 8};
    case Isa::avx_vnni:
      return {80, 40};
    case Isa::avx2:
      return {30, 40};
    default:
      return {7, 300};
  }
}

struct Machine {
  const ConvolutionKernels* kernels;
  Speed speed;
};

Machine machine() {
  switch (chosen_isa()) {
#define DMLAX_CASE(isa) \
  case Isa::isa:        \
    return {&isa::convolution_kernels, speed_of(Isa::isa)};
    DMLAX_FOR_EACH_ISA(DMLAX_CASE)
#undef DMLAX_CASE
    default:
      return {nullptr, speed_of(Isa::none)};
  }
}

// A thread's scratch memory, which grows: fresh memory costs a page fault every 4 KiB.
class Memory {
 public:
  ~Memory() { std::free(data_); }

  // Null if there is none.
  uint8_t* take(int64_t bytes) {
    const size_t wanted = static_cast<size_t>(bytes + 63) / 64 * 64;
    if (wanted > size_) {
      std::free(data_);
      data_ = std::aligned_alloc(64, wanted);
      size_ = data_ == nullptr ? 0 : wanted;
    }
    return static_cast<uint8_t*>(data_);
  }

  void give_back() {
    if (size_ <= kMostKept) return;
    std::free(data_);
    data_ = nullptr;
    size_ = 0;
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

thread_local Memory shared_memory;  // of a call's first thread: planes for all of them
thread_local Memory own_memory;

ffi::Error invalid(const std::string& what) {
  return ffi::Error::InvalidArgument("convolution: " + what);
}

ffi::Error no_memory() {
  return ffi::Error(ffi::ErrorCode::kResourceExhausted, "convolution: no memory for its scratch");
}

// --- what is handed over -----------------------------------------------------------------

struct Operands {
  ffi::AnyBuffer input, filter, sums, filter_zero, input_zero, bias, input_scale, filter_scale,
      output_scale, output_zero;

  std::array<const ffi::AnyBuffer*, 10> all() const {
    return {&input, &filter,      &sums,         &filter_zero,  &input_zero,
            &bias,  &input_scale, &filter_scale, &output_scale, &output_zero};
  }
};

struct Attributes {
  Sizes windows;  // kernel, strides, dilations, start, end: two each
  int64_t groups;
  bool input_last, output_last, filter_unsigned, exact;
};

bool is_byte(const ffi::AnyBuffer& buffer) {
  return buffer.element_type() == ffi::DataType::U8 || buffer.element_type() == ffi::DataType::S8;
}

bool is_signed(const ffi::AnyBuffer& buffer) {
  return buffer.element_type() == ffi::DataType::S8;
}

// An operand's own axes follow those that vmap put there.
class Batch {
 public:
  Batch(Sizes output, int64_t axes) : sizes_(output.begin(), output.begin() + axes) {}

  int64_t count() const {
    int64_t count = 1;
    for (int64_t size : sizes_) count *= size;
    return count;
  }

  int64_t axes() const { return static_cast<int64_t>(sizes_.size()); }

  // Whether an operand has `own` axes of its own, and fits: sizes 1 or the batch's.
  bool fits(Sizes sizes, int64_t own) const {
    if (static_cast<int64_t>(sizes.size()) != axes() + own) return false;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes[i] != sizes_[i] && sizes[i] != 1) return false;
    }
    return true;
  }

  bool is_whole(Sizes sizes) const {
    return std::equal(sizes_.begin(), sizes_.end(), sizes.begin());
  }

  bool is_single(Sizes sizes) const {
    return std::all_of(sizes.begin(), sizes.begin() + axes(), [](int64_t n) { return n == 1; });
  }

  // Which of an operand's parts goes with one of the batch.
  int64_t part(Sizes sizes, int64_t index) const {
    int64_t result = 0, step = 1;
    for (int64_t i = axes() - 1; i >= 0; --i) {
      const int64_t at = index % sizes_[i];
      index /= sizes_[i];
      if (sizes[i] != 1) result += at * step;
      step *= sizes[i];
    }
    return result;
  }

 private:
  std::vector<int64_t> sizes_;
};

// --- geometry ----------------------------------------------------------------------------

struct Geometry {
  ConvProblem job = {};
  std::vector<int64_t> vertical, horizontal, taps;
};

std::vector<int64_t> phases_of(const Axis& axis) {
  std::vector<int64_t> phases;
  for (int64_t tap = 0; tap < axis.kernel && tap < axis.stride; ++tap) {
    phases.push_back(tap * axis.dilation % axis.stride);
  }
  std::sort(phases.begin(), phases.end());
  phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  return phases;
}

int64_t phase_index(const std::vector<int64_t>& phases, const Axis& axis, int64_t tap) {
  const auto found =
      std::lower_bound(phases.begin(), phases.end(), tap * axis.dilation % axis.stride);
  return found - phases.begin();
}

// An axis, or false: sizes that do not fit one another.
bool make_axis(Axis& axis, int64_t size, int64_t output, Sizes windows, size_t which) {
  for (size_t i = which; i < 10; i += 2) {
    if (windows[i] < (i < 6 ? 1 : 0) || windows[i] >= kMostSize) return false;
  }
  axis = {};
  axis.size = size;
  axis.output = output;
  axis.kernel = windows[which];
  axis.stride = windows[2 + which];
  axis.dilation = windows[4 + which];
  axis.start = windows[6 + which];
  axis.end = windows[8 + which];
  if (size < 0 || size >= kMostSize) return false;
  const int64_t room = size + axis.start + axis.end, reach = (axis.kernel - 1) * axis.dilation;
  if (reach >= room || output != (room - reach - 1) / axis.stride + 1) return false;
  axis.shift = reach / axis.stride;
  return true;
}

// Columns as the planes have them, and the bytes between cells.
void choose_columns(Geometry& geometry, bool has_row_kernel) {
  ConvProblem& job = geometry.job;
  const Axis& width = job.width;
  geometry.horizontal = phases_of(width);
  // Columns that no tap meets are left out, as they are of other planes.
  const bool all_met = static_cast<int64_t>(geometry.horizontal.size()) == width.stride;
  const bool near = width.dilation <= 16 && width.kernel <= 4 &&
                    15 * width.stride + (width.kernel - 1) * width.dilation <= 63;
  job.taps_fit_one_load = has_row_kernel && job.depthwise() && !job.direct && all_met && near &&
                  job.height.kernel <= kMostTapRows;
  job.columns = width;
  job.step = 1;
  if (job.taps_fit_one_load) {
    job.step = width.stride;
    job.columns.stride = 1;
    geometry.horizontal = {0};
  }
  job.columns.phases = static_cast<int64_t>(geometry.horizontal.size());
  job.columns.phase = geometry.horizontal.data();
}

// Where everything is; false if an image's planes would take too much memory.
bool lay_out(Geometry& geometry, bool has_row_kernel) {
  ConvProblem& job = geometry.job;
  Axis &height = job.height, &width = job.width;
  const bool plain = job.taps_count() == 1 && height.stride == 1 && width.stride == 1 &&
                     height.start + height.end + width.start + width.end == 0;
  job.direct = plain && !job.input_last;
  choose_columns(geometry, has_row_kernel);
  const Axis& columns = job.columns;
  geometry.vertical = phases_of(height);
  height.phases = static_cast<int64_t>(geometry.vertical.size());
  height.phase = geometry.vertical.data();
  // Where cells are neighbours, the padding after a row is that before the next one.
  const int64_t shared = width.size + std::max(width.start, width.end);
  job.pitch = width.output + width.shift;
  if (width.stride == 1) job.pitch = std::min(job.pitch, std::max(shared, width.output));
  job.cells = (height.output - 1) * job.pitch + width.output;
  job.panels = (job.cells + kCells - 1) / kCells;
  if (job.direct) {
    job.plane = job.cells;
    geometry.taps = {0};
    job.taps = geometry.taps.data();
    return true;
  }
  const __int128 lines = height.output + height.shift;
  const __int128 bytes = lines * job.row_bytes() + width.start;
  const __int128 all = bytes * height.phases * columns.phases * job.all_channels();
  if (all > kMostPlanes) return false;
  job.sub_image = static_cast<int64_t>(bytes);
  job.plane = job.sub_image * height.phases * columns.phases;
  job.plane = (job.plane + 63) / 64 * 64;
  if (job.plane % 4096 == 0) job.plane += 64;
  for (int64_t i = 0; i < height.kernel; ++i) {
    const int64_t row = phase_index(geometry.vertical, height, i) * columns.phases;
    for (int64_t j = 0; j < width.kernel; ++j) {
      const int64_t sub = row + phase_index(geometry.horizontal, columns, j);
      geometry.taps.push_back(sub * job.sub_image +
                              i * height.dilation / height.stride * job.row_bytes() +
                              j * width.dilation / columns.stride);
    }
  }
  job.taps = geometry.taps.data();
  return true;
}

// --- constants of a call -----------------------------------------------------------------

// One batch's operands; absent parameters are null.
struct Values {
  const uint8_t *input, *input_zero, *filter_zero, *output_zero;
  const int8_t* filter;
  const int32_t *sums, *bias;
  const uint32_t *input_scale, *filter_scale, *output_scale;
  int64_t filter_zeros, filter_scales;  // how many there are
  void* output;
};

int32_t value_of(const uint8_t* byte, bool is_signed) {
  if (byte == nullptr) return 0;
  return is_signed ? static_cast<int8_t>(*byte) : *byte;
}

struct Constants {
  std::vector<int32_t> offset, filter_zero;
  std::vector<float> estimate, band;
};

// Sums are of x - zero_x times w - zero_w, where x is unsigned and w signed: what the products
// of bytes lack. All of it modulo 2^32.
void add_offsets(Constants& constants, const ConvProblem& job, const Values& values, int32_t input_zero,
                 bool filter_unsigned, bool filter_zero_signed) {
  const int64_t channels = job.all_rows();
  const uint32_t zero_x = static_cast<uint32_t>(input_zero);
  constants.offset.resize(channels);
  for (int64_t k = 0; k < channels; ++k) {
    constants.offset[k] = static_cast<int32_t>(0 - zero_x * static_cast<uint32_t>(values.sums[k]));
  }
  const auto add = [](int32_t& offset, uint32_t term) {
    offset = static_cast<int32_t>(static_cast<uint32_t>(offset) + term);
  };
  for (int64_t k = 0; values.bias != nullptr && k < channels; ++k) {
    add(constants.offset[k], static_cast<uint32_t>(values.bias[k]));
  }
  const auto filter_zero = [&](int64_t k) {
    return value_of(values.filter_zeros == 0 ? nullptr : values.filter_zero + k,
                    filter_zero_signed) -
           (filter_unsigned ? 128 : 0);
  };
  bool any = false;
  const int64_t zeros = values.filter_zeros > 1 ? channels : 1;
  for (int64_t k = 0; k < zeros; ++k) any = any || filter_zero(k) != 0;
  if (!any) return;
  constants.filter_zero.resize(channels);
  for (int64_t k = 0; k < channels; ++k) {
    const int32_t zero_w = filter_zero(zeros > 1 ? k : 0);
    constants.filter_zero[k] = zero_w;
    add(constants.offset[k],
        static_cast<uint32_t>(job.depth) * zero_x * static_cast<uint32_t>(zero_w));
  }
}

void add_multipliers(Constants& constants, const ConvProblem& job, const Values& values, bool exact) {
  const int64_t channels = job.all_rows();
  constants.estimate.resize(channels);
  constants.band.assign(channels, kNever);
  const Estimator estimator(*values.input_scale, *values.output_scale);
  const int64_t scales = values.filter_scales > 1 ? channels : 1;
  if (exact && estimator.fill(values.filter_scale, scales, constants.estimate.data())) {
    std::fill_n(constants.band.begin(), scales, kBand);
  } else {
    for (int64_t k = 0; k < scales; ++k) {
      const uint32_t scale = values.filter_scale[k];
      constants.estimate[k] =
          exact ? estimator.estimate(scale, constants.band[k])
                : multiplier_float32(*values.input_scale, scale, *values.output_scale);
    }
  }
  for (int64_t k = scales; k < channels; ++k) {
    constants.estimate[k] = constants.estimate[0];
    constants.band[k] = constants.band[0];
  }
}

void set_range(ConvProblem& job, bool exact) {
  const int32_t lowest = job.output_signed ? -128 : 0;
  job.low = exact ? -kLimit : static_cast<float>(lowest - job.output_zero);
  job.high = exact ? kLimit : static_cast<float>(lowest + 255 - job.output_zero);
}

// --- sharing the work out ----------------------------------------------------------------

struct Run {
  const ConvProblem& job;
  const ConvolutionKernels& kernels;
  const Values& values;

  int64_t image_size() const {
    return job.all_channels() * job.height.size * job.width.size;
  }
  int64_t output_size() const {
    return job.all_rows() * job.output_cells() * (job.output == Output::int32 ? 4 : 1);
  }

  // Images [first, last), packed and multiplied by one thread.
  bool images(int64_t first, int64_t last) const {
    const int64_t planes = job.direct ? 0 : (last - first) * job.image_bytes() + kSlack;
    uint8_t* memory = own_memory.take(scratch_bytes(job) + planes);
    if (memory == nullptr) return false;
    uint8_t* packed = memory + scratch_bytes(job);
    const uint8_t* input = values.input + first * image_size();
    for (int64_t i = 0; !job.direct && i < last - first; ++i) {
      kernels.pack(job, input + i * image_size(), 0, job.all_channels(),
                   packed + i * job.image_bytes());
    }
    uint8_t* output = static_cast<uint8_t*>(values.output) + first * output_size();
    for (int64_t group = 0; group < job.groups; ++group) {
      kernels.dense(job, {job.direct ? input : packed, values.filter, output, memory, group, 0,
                          (last - first) * job.panels, 0, job.rows});
    }
    own_memory.give_back();
    return true;
  }

  // Rows [first, last) of one image, if depthwise: their channels packed and multiplied.
  bool channels(int64_t image, int64_t first, int64_t last) const {
    const int64_t begin = first / job.rows, end = (last - 1) / job.rows + 1;
    const int64_t planes = job.direct ? 0 : (end - begin) * job.plane + kSlack;
    uint8_t* memory = own_memory.take(scratch_bytes(job) + planes);
    if (memory == nullptr) return false;
    const uint8_t* input = values.input + image * image_size();
    uint8_t* packed = memory + scratch_bytes(job) - begin * job.plane;
    if (!job.direct) kernels.pack(job, input, begin, end, packed);
    uint8_t* output = static_cast<uint8_t*>(values.output) + image * output_size();
    kernels.depthwise(job, {job.direct ? input : packed, values.filter, output, memory, 0, 0,
                            job.panels, first, last});
    own_memory.give_back();
    return true;
  }

  // Depthwise: every task has some channels of one image.
  bool by_channels(ffi::ThreadPool* pool) const {
    const int64_t rows = job.all_rows(), step = job.output_last ? kRows : 1;
    const int64_t tasks = pool == nullptr ? 1 : kTasksOfThread * pool->num_threads();
    const int64_t parts = std::max<int64_t>(1, tasks / job.images);
    const int64_t even = ((rows + parts - 1) / parts + step - 1) / step * step;
    const int64_t fit = std::max<int64_t>(1, kPlanesAtOnce / (step * job.plane)) * step;
    const int64_t each = std::min(even, fit), blocks = (rows + each - 1) / each;
    std::atomic<bool> good{true};
    const auto task = [&](int64_t i) {
      const int64_t first = i % blocks * each;
      if (!channels(i / blocks, first, std::min(rows, first + each))) good = false;
    };
    if (pool != nullptr) {
      parallel_for(*pool, job.images * blocks, task);
    } else {
      for (int64_t i = 0; i < job.images * blocks; ++i) task(i);
    }
    return good;
  }

  // A thread at least one image.
  bool by_images(ffi::ThreadPool& pool, int64_t threads) const {
    const int64_t wanted = (2 * kPanelsOfTask + job.panels - 1) / job.panels;
    const int64_t each = std::max<int64_t>(1, std::min(wanted, job.images / threads));
    std::atomic<bool> good{true};
    parallel_for(pool, (job.images + each - 1) / each, [&](int64_t task) {
      if (!images(task * each, std::min(job.images, (task + 1) * each))) good = false;
    });
    return good;
  }

  // Every image's planes, in memory that all threads read; null if there is none.
  const uint8_t* pack_all(ffi::ThreadPool& pool, int64_t threads) const {
    if (job.direct) return values.input;
    uint8_t* packed = shared_memory.take(job.images * job.image_bytes() + kSlack);
    if (packed == nullptr) return nullptr;
    const int64_t channels = job.all_channels();
    const bool small = job.images * job.image_bytes() < kPackedAlone;
    const int64_t ranges = small ? 1 : std::min(channels, 2 * threads);
    const auto pack = [&](int64_t task) {
      const int64_t image = task / ranges, range = task % ranges;
      kernels.pack(job, values.input + image * image_size(), range * channels / ranges,
                   (range + 1) * channels / ranges, packed + image * job.image_bytes());
    };
    if (small) {
      for (int64_t image = 0; image < job.images; ++image) pack(image);
    } else {
      parallel_for(pool, job.images * ranges, pack);
    }
    return packed;
  }

  // Every image is packed by all threads, and multiplied by all.
  bool by_parts(ffi::ThreadPool& pool, int64_t threads) const {
    const uint8_t* packed = pack_all(pool, threads);
    if (packed == nullptr) return false;
    const int64_t panels = job.images * job.panels, tasks = kTasksOfThread * threads;
    const int64_t enough = (panels + kPanelsOfTask - 1) / kPanelsOfTask;
    const int64_t cell_parts = std::min(panels, std::clamp(enough, threads, tasks));
    const int64_t row_blocks = (job.rows + kRows - 1) / kRows;
    const bool uneven = job.groups < threads && panels < tasks && panels % threads != 0;
    const int64_t row_parts = uneven ? std::min(row_blocks, threads) : 1;
    std::atomic<bool> good{true};
    parallel_for(pool, job.groups * cell_parts * row_parts, [&](int64_t task) {
      const int64_t row = task % row_parts, cell = task / row_parts % cell_parts;
      uint8_t* memory = own_memory.take(scratch_bytes(job));
      if (memory == nullptr) {
        good = false;
        return;
      }
      const int64_t first_row = row * row_blocks / row_parts * kRows;
      const int64_t last_row = std::min(job.rows, (row + 1) * row_blocks / row_parts * kRows);
      kernels.dense(job, {packed, values.filter, values.output, memory,
                          task / row_parts / cell_parts, cell * panels / cell_parts,
                          (cell + 1) * panels / cell_parts, first_row, last_row});
      own_memory.give_back();
    });
    shared_memory.give_back();
    return good;
  }

  // Whether waking another thread takes longer than it would save.
  bool alone(const Machine& machine) const {
    const double products = static_cast<double>(job.images * job.cells) *
                            static_cast<double>(job.all_rows() * job.depth);
    const double filter = static_cast<double>(job.all_rows() * job.depth);
    const double bytes = static_cast<double>(job.images * (image_size() + output_size()));
    const double rows = static_cast<double>(job.images * job.panels * job.all_rows());
    const double time = products / machine.speed.products + bytes / 16 + filter / 32 +
                        rows * machine.speed.row * (job.depthwise() ? kDepthwiseRows : 1);
    return time < kThreadWakeupNs + std::min(filter / 3, kMostSharing);
  }

  bool go(ffi::ThreadPool& pool, const Machine& machine) const {
    const int64_t threads = pool.num_threads();
    const bool alone = threads <= 1 || this->alone(machine);
    if (job.depthwise()) return by_channels(alone ? nullptr : &pool);
    if (alone) return images(0, job.images);
    const bool even = job.images % threads == 0 || job.images >= 4 * threads;
    return even ? by_images(pool, threads) : by_parts(pool, threads);
  }
};

// --- the handler -------------------------------------------------------------------------

int64_t count_of(const ffi::AnyBuffer& buffer) {  // of a parameter, without its batch
  return buffer.dimensions().back();
}

// A pointer to one batch's part; null where that has no elements.
template <typename T>
const T* part_of(const ffi::AnyBuffer& buffer, const Batch& batch, int64_t index) {
  const Sizes sizes = buffer.dimensions();
  int64_t own = 1;
  for (size_t i = static_cast<size_t>(batch.axes()); i < sizes.size(); ++i) own *= sizes[i];
  if (own == 0) return nullptr;
  return static_cast<const T*>(buffer.untyped_data()) + batch.part(sizes, index) * own;
}

// What is wrong with the parameters, or null.
const char* check_parameters(const Operands& given, const ffi::AnyBuffer& output,
                             int64_t channels) {
  const auto count_is = [](const ffi::AnyBuffer& buffer, int64_t a, int64_t b, int64_t c) {
    const int64_t count = count_of(buffer);
    return count == a || count == b || count == c;
  };
  const bool quantized = output.element_type() != ffi::DataType::S32;
  const int64_t scale = quantized ? 1 : 0;
  const bool types = given.sums.element_type() == ffi::DataType::S32 &&
                     given.bias.element_type() == ffi::DataType::S32 &&
                     given.input_scale.element_type() == ffi::DataType::F32 &&
                     given.filter_scale.element_type() == ffi::DataType::F32 &&
                     given.output_scale.element_type() == ffi::DataType::F32 &&
                     given.input_zero.element_type() == given.input.element_type() &&
                     is_byte(given.filter_zero) && is_byte(given.output_zero) &&
                     (!quantized || given.output_zero.element_type() == output.element_type());
  if (!types) return "a parameter's element type is not the operator's";
  const bool counts = count_is(given.sums, channels, channels, channels) &&
                      count_is(given.bias, 0, channels, channels) &&
                      count_is(given.filter_zero, 0, 1, channels) &&
                      count_is(given.input_zero, 0, 1, 1) &&
                      count_is(given.output_zero, 0, scale, scale) &&
                      count_is(given.input_scale, scale, scale, scale) &&
                      count_is(given.output_scale, scale, scale, scale) &&
                      count_is(given.filter_scale, scale, scale, scale * channels);
  return counts ? nullptr : "a parameter has neither one value nor one per output channel";
}

// The job that the shapes describe, without constants; or what is wrong with them, or null.
const char* describe(Geometry& geometry, const Operands& given, const ffi::AnyBuffer& output,
                     const Attributes& attributes, bool has_row_kernel) {
  ConvProblem& job = geometry.job;
  const Sizes input = given.input.dimensions().last(4), result = output.dimensions().last(4);
  const Sizes filter = given.filter.dimensions().last(2);
  const size_t input_channel = attributes.input_last ? 3 : 1;
  const size_t output_channel = attributes.output_last ? 3 : 1;
  const size_t height_at = attributes.input_last ? 1 : 2;
  const size_t output_height_at = attributes.output_last ? 1 : 2;
  job.images = input[0];
  job.groups = attributes.groups;
  const int64_t channels = input[input_channel], rows = filter[0];
  if (job.groups < 1 || rows < 1 || channels < 1 || rows % job.groups != 0 ||
      channels % job.groups != 0) {
    return "the groups do not divide the channels";
  }
  job.channels = channels / job.groups;
  job.rows = rows / job.groups;
  if (result[0] != job.images || result[output_channel] != rows) {
    return "the output is not of the input's images and the filter's channels";
  }
  if (!make_axis(job.height, input[height_at], result[output_height_at], attributes.windows, 0) ||
      !make_axis(job.width, input[height_at + 1], result[output_height_at + 1],
                 attributes.windows, 1)) {
    return "the windows do not fit the input and the output";
  }
  int64_t taps, depth;
  if (__builtin_mul_overflow(job.height.kernel, job.width.kernel, &taps) ||
      __builtin_mul_overflow(taps, job.channels, &depth) || depth != filter[1]) {
    return "the filter's rows are not taps times channels";
  }
  job.depth = depth;
  job.input_last = attributes.input_last;
  job.output_last = attributes.output_last;
  job.flip = is_signed(given.input);
  job.output_signed = is_signed(output);
  job.output = output.element_type() == ffi::DataType::S32 ? Output::int32
               : attributes.exact                          ? Output::exact
                                                           : Output::float32;
  if (!lay_out(geometry, has_row_kernel)) return "an image's padded planes would take more than 2 GiB";
  return nullptr;
}

ffi::Error run_one(ConvProblem job, const Machine& machine, const Operands& given,
                   const Attributes& attributes, const Values& values, ffi::ThreadPool& pool) {
  const int32_t zero = value_of(values.input_zero, job.flip);
  job.padding = static_cast<uint8_t>(zero);
  job.output_zero = value_of(values.output_zero, job.output_signed);
  Constants constants;
  add_offsets(constants, job, values, zero + (job.flip ? 128 : 0), attributes.filter_unsigned,
              is_signed(given.filter_zero));
  if (job.output != Output::int32) {
    add_multipliers(constants, job, values, attributes.exact);
    set_range(job, attributes.exact);
  }
  job.constants = {constants.offset.data(),
                   constants.filter_zero.empty() ? nullptr : constants.filter_zero.data(),
                   constants.estimate.data(), constants.band.data(), values.input_scale,
                   values.filter_scale, values.output_scale, values.filter_scales};
  const Run run{job, *machine.kernels, values};
  return run.go(pool, machine) ? ffi::Error::Success() : no_memory();
}

ffi::Error convolve(ffi::ThreadPool pool, const Operands& given, ffi::AnyBuffer output,
                    const Attributes& attributes) {
  const Machine here = machine();
  if (here.kernels == nullptr) return invalid("DMLAX_NATIVE_ISA names no instruction set of this CPU");
  const int64_t axes = static_cast<int64_t>(output.dimensions().size()) - 4;
  if (axes < 0 || attributes.windows.size() != 10) return invalid("the output is not of rank 4");
  const Batch batch(output.dimensions(), axes);
  constexpr int64_t kOwnAxes[] = {4, 2, 1, 1, 1, 1, 1, 1, 1, 1};
  const auto all = given.all();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!batch.fits(all[i]->dimensions(), kOwnAxes[i])) {
      return invalid("operand " + std::to_string(i) + " is not of the batch's shape");
    }
  }
  const ffi::DataType type = output.element_type();
  if (!is_byte(given.input) || given.filter.element_type() != ffi::DataType::S8 ||
      (type != ffi::DataType::S32 && !is_byte(output))) {
    return invalid("the input, the filter or the output is of another element type");
  }
  Geometry geometry;
  const bool has_row_kernel = here.kernels->has_row_kernel;
  if (const char* wrong = describe(geometry, given, output, attributes, has_row_kernel)) {
    return invalid(wrong);
  }
  const int64_t channels = geometry.job.all_rows();
  if (const char* wrong = check_parameters(given, output, channels)) return invalid(wrong);
  if (output.element_count() == 0) return ffi::Error::Success();
  if (output.untyped_data() == nullptr) return invalid("the output is null");
  for (const ffi::AnyBuffer* operand : all) {
    if (operand->element_count() > 0 && operand->untyped_data() == nullptr) {
      return invalid("an operand is null");
    }
  }
  // Batched images are more images, if all have the same filter and parameters.
  const bool fold = batch.is_whole(given.input.dimensions()) &&
                    std::all_of(all.begin() + 1, all.end(), [&](const ffi::AnyBuffer* operand) {
                      return batch.is_single(operand->dimensions());
                    });
  const int64_t calls = fold ? 1 : batch.count();
  if (fold) geometry.job.images *= batch.count();
  const int64_t bytes = static_cast<int64_t>(output.size_bytes()) / calls;
  for (int64_t i = 0; i < calls; ++i) {
    const Values values{part_of<uint8_t>(given.input, batch, i),
                        part_of<uint8_t>(given.input_zero, batch, i),
                        part_of<uint8_t>(given.filter_zero, batch, i),
                        part_of<uint8_t>(given.output_zero, batch, i),
                        part_of<int8_t>(given.filter, batch, i),
                        part_of<int32_t>(given.sums, batch, i),
                        part_of<int32_t>(given.bias, batch, i),
                        part_of<uint32_t>(given.input_scale, batch, i),
                        part_of<uint32_t>(given.filter_scale, batch, i),
                        part_of<uint32_t>(given.output_scale, batch, i),
                        count_of(given.filter_zero),
                        count_of(given.filter_scale),
                        static_cast<uint8_t*>(output.untyped_data()) + i * bytes};
    const ffi::Error error = run_one(geometry.job, here, given, attributes, values, pool);
    if (error.failure()) return error;
  }
  return ffi::Error::Success();
}

ffi::Error convolution(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::AnyBuffer filter,
                       ffi::AnyBuffer sums, ffi::AnyBuffer filter_zero, ffi::AnyBuffer input_zero,
                       ffi::AnyBuffer bias, ffi::AnyBuffer input_scale,
                       ffi::AnyBuffer filter_scale, ffi::AnyBuffer output_scale,
                       ffi::AnyBuffer output_zero, ffi::Result<ffi::AnyBuffer> output,
                       Sizes windows, int64_t groups, bool input_last, bool output_last,
                       bool filter_unsigned, bool exact) {
  return convolve(pool,
                  {input, filter, sums, filter_zero, input_zero, bias, input_scale, filter_scale,
                   output_scale, output_zero},
                  *output, {windows, groups, input_last, output_last, filter_unsigned, exact});
}

}  // namespace
}  // namespace dmlax

DMLAX_DEFINE_HANDLER(dmlax_convolution, dmlax::convolution,
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
                         .Attr<xla::ffi::Span<const int64_t>>("windows")
                         .Attr<int64_t>("groups")
                         .Attr<bool>("input_last")
                         .Attr<bool>("output_last")
                         .Attr<bool>("filter_unsigned")
                         .Attr<bool>("exact"));
