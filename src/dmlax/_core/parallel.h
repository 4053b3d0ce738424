// Work shared between XLA's own threads and the calling one.
#ifndef DMLAX_CORE_PARALLEL_H_
#define DMLAX_CORE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "xla/ffi/api/ffi.h"

namespace dmlax {

// task(0) ... task(count - 1), each once, in any order; returns when all are done. `task` must
// not throw. The caller takes tasks too, so a pool whose threads are busy delays nothing, and a
// thread that comes late finds nothing to do.
template <typename Task>
void parallel_for(xla::ffi::ThreadPool& pool, int64_t count, const Task& task) {
  struct Shared {
    const Task* task;
    int64_t count;
    std::atomic<int64_t> next{0};
    std::mutex mutex;
    std::condition_variable finished;
    int64_t done = 0;

    void take() {
      int64_t mine = 0;
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count; ++mine) {
        (*task)(i);
      }
      if (mine == 0) return;
      std::lock_guard<std::mutex> lock(mutex);
      done += mine;
      if (done == count) finished.notify_one();
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
    pool.Schedule([shared] { shared->take(); });
  }
  shared->take();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->finished.wait(lock, [&] { return shared->done == count; });
}

}  // namespace dmlax

#endif  // DMLAX_CORE_PARALLEL_H_
