#include "dmlax/_convolution/cpu/schedule.h"

#include <algorithm>
#include <atomic>

#include "dmlax/_cpu/parallel_for.h"
#include "dmlax/_cpu/scratch.h"

namespace dmlax {
namespace {

constexpr double kMostSharingNs = 100000;     // until its own cache has the filter
constexpr double kDepthwiseRows = 4;          // times the others' time: no products hide it
constexpr int64_t kPanelsOfTask = 4;          // that a filter row is read for, at least
constexpr int64_t kPlanesAtOnce = 1 << 18;    // bytes of depthwise channels
constexpr int64_t kPackedAlone = 1 << 17;     // bytes of planes below which one thread packs

thread_local Scratch shared_scratch;  // of a call's first thread: planes for all of them
thread_local Scratch own_scratch;

struct Schedule {
  const ConvProblem& problem;
  const ConvShape& shape = problem.shape;
  const PlaneLayout& layout = problem.layout;
  const ConvolutionKernels& kernels;
  const ConvBuffers& buffers;

  const uint8_t* input_of(int64_t image) const {
    return buffers.input + image * shape.input_elements;
  }

  uint8_t* output_of(int64_t image) const {
    return static_cast<uint8_t*>(buffers.output) + image * image_bytes();
  }

  int64_t image_bytes() const { return shape.output_elements * output_bytes(problem); }

  // Images [first, last), packed and multiplied by one thread.
  bool run_images(int64_t first, int64_t last) const {
    const int64_t images = last - first, scratch = scratch_bytes(problem.panel);
    const int64_t planes = layout.direct ? 0 : images * layout.image + kSlack;
    uint8_t* memory = own_scratch.take(scratch + planes);
    if (memory == nullptr) return false;
    uint8_t* packed = memory + scratch;
    for (int64_t i = 0; !layout.direct && i < images; ++i) {
      kernels.pack(problem, input_of(first + i), 0, shape.input_channels,
                   packed + i * layout.image);
    }
    for (int64_t group = 0; group < shape.groups; ++group) {
      kernels.dense(problem, {.planes = layout.direct ? input_of(first) : packed,
                              .filter = buffers.filter,
                              .output = output_of(first),
                              .scratch = memory,
                              .group = group,
                              .first_panel = 0,
                              .last_panel = images * layout.panels,
                              .first_row = 0,
                              .last_row = shape.rows});
    }
    own_scratch.give_back();
    return true;
  }

  // Rows [first, last) of one image, if depthwise: their channels packed and multiplied.
  bool run_channels(int64_t image, int64_t first, int64_t last) const {
    const int64_t begin = first / shape.rows, end = (last - 1) / shape.rows + 1;
    const int64_t planes = layout.direct ? 0 : (end - begin) * layout.plane + kSlack;
    const int64_t scratch = scratch_bytes(problem.panel);
    uint8_t* memory = own_scratch.take(scratch + planes);
    if (memory == nullptr) return false;
    uint8_t* packed = memory + scratch - begin * layout.plane;
    if (!layout.direct) kernels.pack(problem, input_of(image), begin, end, packed);
    kernels.depthwise(problem, {.planes = layout.direct ? input_of(image) : packed,
                                .filter = buffers.filter,
                                .output = output_of(image),
                                .scratch = memory,
                                .group = 0,
                                .first_panel = 0,
                                .last_panel = layout.panels,
                                .first_row = first,
                                .last_row = last});
    own_scratch.give_back();
    return true;
  }

  // Depthwise: every task has some channels of one image.
  bool by_channels(xla::ffi::ThreadPool* pool) const {
    const int64_t rows = shape.output_channels, step = shape.output_last ? kBlockRows : 1;
    const int64_t tasks = pool == nullptr ? 1 : kTasksOfThread * pool->num_threads();
    const int64_t parts = std::max<int64_t>(1, tasks / shape.images);
    const int64_t even = ((rows + parts - 1) / parts + step - 1) / step * step;
    const int64_t fit = std::max<int64_t>(1, kPlanesAtOnce / (step * layout.plane)) * step;
    const int64_t each = std::min(even, fit), blocks = (rows + each - 1) / each;
    std::atomic<bool> good{true};
    const auto task = [&](int64_t i) {
      const int64_t first = i % blocks * each;
      if (!run_channels(i / blocks, first, std::min(rows, first + each))) good = false;
    };
    if (pool != nullptr) {
      parallel_for(*pool, shape.images * blocks, task);
    } else {
      for (int64_t i = 0; i < shape.images * blocks; ++i) task(i);
    }
    return good;
  }

  // A thread at least one image.
  bool by_images(xla::ffi::ThreadPool& pool, int64_t threads) const {
    const int64_t wanted = (2 * kPanelsOfTask + layout.panels - 1) / layout.panels;
    const int64_t each = std::max<int64_t>(1, std::min(wanted, shape.images / threads));
    std::atomic<bool> good{true};
    parallel_for(pool, (shape.images + each - 1) / each, [&](int64_t task) {
      if (!run_images(task * each, std::min(shape.images, (task + 1) * each))) good = false;
    });
    return good;
  }

  // Every image's planes, in memory that all threads read; null if there is none.
  const uint8_t* pack_all(xla::ffi::ThreadPool& pool, int64_t threads) const {
    if (layout.direct) return buffers.input;
    uint8_t* packed = shared_scratch.take(shape.images * layout.image + kSlack);
    if (packed == nullptr) return nullptr;
    const int64_t channels = shape.input_channels;
    const bool small = shape.images * layout.image < kPackedAlone;
    const int64_t ranges = small ? 1 : std::min(channels, 2 * threads);
    const auto pack = [&](int64_t task) {
      const int64_t image = task / ranges, range = task % ranges;
      kernels.pack(problem, input_of(image), range * channels / ranges,
                   (range + 1) * channels / ranges, packed + image * layout.image);
    };
    if (small) {
      for (int64_t image = 0; image < shape.images; ++image) pack(image);
    } else {
      parallel_for(pool, shape.images * ranges, pack);
    }
    return packed;
  }

  // Every image is packed by all threads, and multiplied by all.
  bool by_tiles(xla::ffi::ThreadPool& pool, int64_t threads) const {
    const uint8_t* packed = pack_all(pool, threads);
    if (packed == nullptr) return false;
    const int64_t panels = shape.images * layout.panels, tasks = kTasksOfThread * threads;
    const int64_t enough = (panels + kPanelsOfTask - 1) / kPanelsOfTask;
    const int64_t panel_parts = std::min(panels, std::clamp(enough, threads, tasks));
    const int64_t row_blocks = (shape.rows + kBlockRows - 1) / kBlockRows;
    const bool uneven = shape.groups < threads && panels < tasks && panels % threads != 0;
    const int64_t row_parts = uneven ? std::min(row_blocks, threads) : 1;
    std::atomic<bool> good{true};
    parallel_for(pool, shape.groups * panel_parts * row_parts, [&](int64_t task) {
      const int64_t row = task % row_parts, panel = task / row_parts % panel_parts;
      uint8_t* memory = own_scratch.take(scratch_bytes(problem.panel));
      if (memory == nullptr) {
        good = false;
        return;
      }
      const int64_t last_block = (row + 1) * row_blocks / row_parts;
      kernels.dense(problem, {.planes = packed,
                              .filter = buffers.filter,
                              .output = buffers.output,
                              .scratch = memory,
                              .group = task / row_parts / panel_parts,
                              .first_panel = panel * panels / panel_parts,
                              .last_panel = (panel + 1) * panels / panel_parts,
                              .first_row = row * row_blocks / row_parts * kBlockRows,
                              .last_row = std::min(shape.rows, last_block * kBlockRows)});
      own_scratch.give_back();
    });
    shared_scratch.give_back();
    return good;
  }

  // Whether waking another thread takes longer than it would save.
  bool is_small() const {
    const double products = static_cast<double>(shape.images * layout.outputs) *
                            static_cast<double>(shape.output_channels * shape.depth);
    const double filter = static_cast<double>(shape.output_channels * shape.depth);
    const double bytes =
        static_cast<double>(shape.images * (shape.input_elements + image_bytes()));
    const double rows = static_cast<double>(shape.images * layout.panels * shape.output_channels);
    const double time =
        products / kernels.products_per_ns + bytes / 16 + filter / 32 +
        rows * kernels.requantize_row_ns * (is_depthwise(shape) ? kDepthwiseRows : 1);
    return time < kThreadWakeupNs + std::min(filter / 3, kMostSharingNs);
  }

  bool run(xla::ffi::ThreadPool& pool) const {
    const int64_t threads = pool.num_threads();
    const bool alone = threads <= 1 || is_small();
    if (is_depthwise(shape)) return by_channels(alone ? nullptr : &pool);
    if (alone) return run_images(0, shape.images);
    const bool even = shape.images % threads == 0 || shape.images >= 4 * threads;
    return even ? by_images(pool, threads) : by_tiles(pool, threads);
  }
};

}  // namespace

bool run_convolution(const ConvProblem& problem, const ConvolutionKernels& kernels,
                     const ConvBuffers& buffers, xla::ffi::ThreadPool& pool) {
  const Schedule schedule{.problem = problem, .kernels = kernels, .buffers = buffers};
  return schedule.run(pool);
}

}  // namespace dmlax
