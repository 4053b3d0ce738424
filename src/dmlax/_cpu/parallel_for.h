// Work shared between XLA's threads and the calling thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "dmlax/_cpu/tuning.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

// Gives the core's other threads a moment.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The number of tasks for work that takes one thread `ns`.
inline int64_t tasks_of(double ns, int64_t threads) {
  const double least = static_cast<double>(threads * tuning::kTasksOfThread);
  const double most = static_cast<double>(threads * tuning::kMostTasksOfThread);
  return static_cast<int64_t>(std::clamp(ns / tuning::kTaskNs, least, most));
}

// Runs task(0) to task(count - 1) once, in any order, and returns when all are done. `task` must
// not throw. The calling thread takes tasks too, so busy threads delay nothing, and a thread that
// comes late finds nothing to do. Without a pool the calling thread runs all tasks.
template <typename Task>
void parallel_for(xla::ffi::ThreadPool* pool, int64_t count, const Task& task) {
  struct Shared {
    const Task* task;
    int64_t count;
    std::atomic<int64_t> taken{0}, from_back{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;

    // The caller takes tasks from the front, the other threads from the back. In the next call,
    // tasks then run where caches hold their memory.
    void take(bool caller) {
      int64_t finished_tasks = 0;
      for (; taken.fetch_add(1, std::memory_order_relaxed) < count; ++finished_tasks) {
        (*task)(caller ? finished_tasks
                       : count - 1 - from_back.fetch_add(1, std::memory_order_relaxed));
      }
      if (finished_tasks == 0 ||
          done.fetch_add(finished_tasks, std::memory_order_acq_rel) + finished_tasks < count) {
        return;
      }
      std::lock_guard<std::mutex> lock(mutex);
      finished.notify_one();
    }

    bool is_done() const { return done.load(std::memory_order_acquire) == count; }

    // Polls first: sleeping and waking take longer than most last tasks.
    void wait() {
      for (int i = 0; i < tuning::kPauses && !is_done(); ++i) pause();
      if (is_done()) return;
      std::unique_lock<std::mutex> lock(mutex);
      finished.wait(lock, [&] { return is_done(); });
    }
  };
  const int64_t threads = pool == nullptr ? 1 : pool->num_threads();
  const int64_t helpers = std::min(threads, count) - 1;
  if (helpers <= 0) {
    for (int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  // Shared ownership: a late thread may read it after this call has returned.
  auto shared = std::make_shared<Shared>();
  shared->task = &task;
  shared->count = count;
  for (int64_t i = 0; i < helpers; ++i) {
    pool->Schedule([shared] { shared->take(false); });
  }
  shared->take(true);
  shared->wait();
}

// As `parallel_for`. Returns whether all tasks returned true.
template <typename Task>
bool parallel_all(xla::ffi::ThreadPool* pool, int64_t count, const Task& task) {
  std::atomic<bool> good{true};
  parallel_for(pool, count, [&](int64_t i) {
    if (!task(i)) good = false;
  });
  return good;
}

// Calls run(first, last) for ranges that make up 0 to `count`.
template <typename Run>
void parallel_for_ranges(xla::ffi::ThreadPool& pool, int64_t count, const tuning::Sharing& sharing,
                         const Run& run) {
  if (count <= sharing.serial) return run(0, count);
  const int64_t chunk = sharing.chunk;
  parallel_for(&pool, (count + chunk - 1) / chunk,
               [&](int64_t i) { run(i * chunk, std::min(count, (i + 1) * chunk)); });
}

}  // namespace dmlax
