#include "dmlax/_operators/convolution/cpu/convolution_schedule.h"

#include <algorithm>

#include "dmlax/_cpu/parallel_for.h"
#include "dmlax/_cpu/scratch.h"

namespace dmlax {
namespace {

thread_local Scratch shared_scratch;  // the calling thread's planes; all threads read them
thread_local Scratch task_scratch;

struct PlaneSchedule : ConvCall {
  const PlaneLayout& layout = problem.layout;

  const uint8_t* input_of(int64_t image) const {
    return buffers.input + image * shape.input_elements;
  }

  uint8_t* output_of(int64_t image) const {
    return static_cast<uint8_t*>(buffers.output) + image * image_bytes();
  }

  int64_t image_bytes() const { return shape.output_elements * output_bytes(problem); }

  // All panels and rows of a group, for a kernel whose planes begin at `planes`.
  TileRange tiles(const uint8_t* planes, void* output, uint8_t* memory, int64_t group) const {
    return {.planes = planes,
            .filter = buffers.filter,
            .output = output,
            .scratch = memory,
            .group = group,
            .first_panel = 0,
            .last_panel = layout.panels,
            .first_row = 0,
            .last_row = shape.rows};
  }

  // Packs and multiplies images [first, last) on one thread.
  bool run_images(int64_t first, int64_t last) const {
    const int64_t images = last - first, scratch = scratch_bytes(problem.panel);
    const int64_t planes = layout.direct ? 0 : images * layout.image + kSlack;
    return task_scratch.borrow(scratch + planes, [&](uint8_t* memory) {
      uint8_t* packed = memory + scratch;
      for (int64_t i = 0; !layout.direct && i < images; ++i) {
        kernels.pack(problem, input_of(first + i), 0, shape.input_channels,
                     packed + i * layout.image);
      }
      for (int64_t group = 0; group < shape.groups; ++group) {
        TileRange range =
            tiles(layout.direct ? input_of(first) : packed, output_of(first), memory, group);
        range.last_panel *= images;
        kernels.dense(problem, range);
      }
    });
  }

  // Packs and multiplies the channels of rows [first, last) of one depthwise image.
  bool run_channels(int64_t image, int64_t first, int64_t last) const {
    const int64_t begin = first / shape.rows, end = (last - 1) / shape.rows + 1;
    const int64_t planes = layout.direct ? 0 : (end - begin) * layout.plane + kSlack;
    const int64_t scratch = scratch_bytes(problem.panel);
    return task_scratch.borrow(scratch + planes, [&](uint8_t* memory) {
      uint8_t* packed = memory + scratch - begin * layout.plane;
      if (!layout.direct) kernels.pack(problem, input_of(image), begin, end, packed);
      TileRange range =
          tiles(layout.direct ? input_of(image) : packed, output_of(image), memory, 0);
      range.first_row = first;
      range.last_row = last;
      kernels.depthwise(problem, range);
    });
  }

  // Depthwise: a task has some channels of one image.
  bool by_channels(bool alone) const {
    const int64_t rows = shape.output_channels, step = shape.output_last ? kBlockRows : 1;
    const int64_t tasks = alone ? 1 : tuning::kTasksOfThread * pool.num_threads();
    const int64_t parts = std::max<int64_t>(1, tasks / shape.images);
    const int64_t even = ((rows + parts - 1) / parts + step - 1) / step * step;
    const int64_t fit =
        std::max<int64_t>(1, tuning::kDepthwisePlanes / (step * layout.plane)) * step;
    const int64_t count = std::min(even, fit), blocks = (rows + count - 1) / count;
    return parallel_all(alone ? nullptr : &pool, shape.images * blocks, [&](int64_t task) {
      const int64_t first = task % blocks * count;
      return run_channels(task / blocks, first, std::min(rows, first + count));
    });
  }

  // A task has one image or more.
  bool by_images(int64_t threads) const {
    const int64_t wanted = (2 * tuning::kPanelsOfTask + layout.panels - 1) / layout.panels;
    const int64_t count = std::max<int64_t>(1, std::min(wanted, shape.images / threads));
    return parallel_all(&pool, (shape.images + count - 1) / count, [&](int64_t task) {
      return run_images(task * count, std::min(shape.images, (task + 1) * count));
    });
  }

  // Packs every image's planes into memory that all threads read. Returns null if there is none.
  const uint8_t* pack_all(int64_t threads) const {
    if (layout.direct) return buffers.input;
    uint8_t* packed = shared_scratch.take(shape.images * layout.image + kSlack);
    if (packed == nullptr) return nullptr;
    const int64_t channels = shape.input_channels;
    const bool small = shape.images * layout.image < tuning::kPackedAlone;
    const int64_t ranges = small ? 1 : std::min(channels, 2 * threads);
    parallel_for(small ? nullptr : &pool, shape.images * ranges, [&](int64_t task) {
      const int64_t image = task / ranges, range = task % ranges;
      kernels.pack(problem, input_of(image), range * channels / ranges,
                   (range + 1) * channels / ranges, packed + image * layout.image);
    });
    return packed;
  }

  // All threads pack every image and share its tiles.
  bool by_tiles(int64_t threads) const {
    const uint8_t* packed = pack_all(threads);
    if (packed == nullptr) return false;
    const int64_t panels = shape.images * layout.panels, tasks = tuning::kTasksOfThread * threads;
    const int64_t enough = (panels + tuning::kPanelsOfTask - 1) / tuning::kPanelsOfTask;
    const int64_t panel_parts = std::min(panels, std::clamp(enough, threads, tasks));
    const int64_t row_blocks = (shape.rows + kBlockRows - 1) / kBlockRows;
    const bool uneven = shape.groups < threads && panels < tasks && panels % threads != 0;
    const int64_t row_parts = uneven ? std::min(row_blocks, threads) : 1;
    const int64_t count = shape.groups * panel_parts * row_parts;
    const bool good = parallel_all(&pool, count, [&](int64_t task) {
      const int64_t row = task % row_parts, panel = task / row_parts % panel_parts;
      const int64_t last_block = (row + 1) * row_blocks / row_parts;
      return task_scratch.borrow(scratch_bytes(problem.panel), [&](uint8_t* memory) {
        TileRange range = tiles(packed, buffers.output, memory, task / row_parts / panel_parts);
        range.first_panel = panel * panels / panel_parts;
        range.last_panel = (panel + 1) * panels / panel_parts;
        range.first_row = row * row_blocks / row_parts * kBlockRows;
        range.last_row = std::min(shape.rows, last_block * kBlockRows);
        kernels.dense(problem, range);
      });
    });
    shared_scratch.give_back();
    return good;
  }

  // Whether waking another thread takes longer than it saves.
  bool is_small() const {
    const double products = static_cast<double>(shape.images * layout.outputs) *
                            static_cast<double>(shape.output_channels * shape.depth);
    const double filter = static_cast<double>(shape.output_channels * shape.depth);
    const double bytes = static_cast<double>(shape.images * (shape.input_elements + image_bytes()));
    const double rows = static_cast<double>(shape.images * layout.panels * shape.output_channels);
    const double time =
        products / kernels.products_per_ns + bytes / tuning::kInputBytesPerNs +
        filter / tuning::kFilterBytesPerNs +
        rows * kernels.requantize_row_ns * (is_depthwise(shape) ? tuning::kDepthwiseRequantize : 1);
    const double sharing =
        std::min(filter / tuning::kSharedFilterBytesPerNs, tuning::kMostSharingNs);
    return time < tuning::kThreadWakeupNs + sharing;
  }

  bool run() const {
    const int64_t threads = pool.num_threads();
    const bool alone = threads <= 1 || is_small();
    if (is_depthwise(shape)) return by_channels(alone);
    if (alone) return run_images(0, shape.images);
    const bool even = shape.images % threads == 0 || shape.images >= 4 * threads;
    return even ? by_images(threads) : by_tiles(threads);
  }
};

}  // namespace

bool run_planes(const ConvCall& call) { return PlaneSchedule{call}.run(); }

}  // namespace dmlax
