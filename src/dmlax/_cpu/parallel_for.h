// Work shared between XLA's own threads and the calling one.
#ifndef DMLAX_CPU_PARALLEL_FOR_H_
#define DMLAX_CPU_PARALLEL_FOR_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "xla/ffi/api/ffi.h"

namespace dmlax {

constexpr double kThreadWakeupNs = 50000;  // until a thread that sleeps is of help
constexpr double kSharedProductNs = 15000;  // a product before this one has left a thread awake
constexpr int64_t kTasksOfThread = 4;      // so that a late thread delays no other
constexpr int64_t kMostTasksOfThread = 32;
constexpr double kTaskNs = 5000;  // of a thread, at least: many times what taking it costs

// A moment for the other threads of this core.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Into how many tasks threads divide what one of them would do in so long.
inline int64_t tasks_of(double ns, int64_t threads) {
  const double least = static_cast<double>(threads * kTasksOfThread);
  const double most = static_cast<double>(threads * kMostTasksOfThread);
  return static_cast<int64_t>(std::clamp(ns / kTaskNs, least, most));
}

// task(0) ... task(count - 1), each once, in any order; returns when all are done. `task` must
// not throw. The caller takes tasks too, so a pool whose threads are busy delays nothing, and a
// thread that comes late finds nothing to do.
template <typename Task>
void parallel_for(xla::ffi::ThreadPool& pool, int64_t count, const Task& task) {
  // To sleep and to be woken takes longer than most last tasks.
  constexpr int kPauses = 1000;
  struct Shared {
    const Task* task;
    int64_t count;
    std::atomic<int64_t> taken{0}, from_back{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;

    // The caller's come from the front and the others' from the back: from one call to the next,
    // tasks then stay with the caches that know their memory.
    void take(bool caller) {
      int64_t mine = 0;
      for (; taken.fetch_add(1, std::memory_order_relaxed) < count; ++mine) {
        (*task)(caller ? mine : count - 1 - from_back.fetch_add(1, std::memory_order_relaxed));
      }
      if (mine == 0 || done.fetch_add(mine, std::memory_order_acq_rel) + mine < count) return;
      std::lock_guard<std::mutex> lock(mutex);
      finished.notify_one();
    }

    bool is_done() const { return done.load(std::memory_order_acquire) == count; }

    void wait() {
      for (int i = 0; i < kPauses && !is_done(); ++i) pause();
      if (is_done()) return;
      std::unique_lock<std::mutex> lock(mutex);
      finished.wait(lock, [&] { return is_done(); });
    }
  };
  const int64_t helpers = std::min<int64_t>(pool.num_threads(), count) - 1;
  if (helpers <= 0) {
    for (int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  // Shared, since a late thread may look at it after this call has returned.
  auto shared = std::make_shared<Shared>();
  shared->task = &task;
  shared->count = count;
  for (int64_t i = 0; i < helpers; ++i) {
    pool.Schedule([shared] { shared->take(false); });
  }
  shared->take(true);
  shared->wait();
}

// run(first, last) of ranges that together are 0 to count, each `range` long: one range where
// there are `most_serial` or fewer, for which a second thread is no help.
template <typename Run>
void parallel_for_ranges(xla::ffi::ThreadPool& pool, int64_t count, int64_t most_serial,
                         int64_t range, const Run& run) {
  if (count <= most_serial) return run(0, count);
  parallel_for(pool, (count + range - 1) / range, [&](int64_t i) {
    run(i * range, std::min(count, (i + 1) * range));
  });
}

}  // namespace dmlax

#endif  // DMLAX_CPU_PARALLEL_FOR_H_
