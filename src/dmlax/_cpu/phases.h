// Tasks in phases, shared between XLA's own threads and the calling one.
#ifndef DMLAX_CPU_PHASES_H_
#define DMLAX_CPU_PHASES_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include "dmlax/_cpu/parallel_for.h"

namespace dmlax {

// Runs task(phase, i) for i below each phase's count, none before all of the phase before are
// done. Threads are woken once for all phases. `task` must not throw.
template <size_t phases, typename Task>
void run_phases(xla::ffi::ThreadPool* pool, const std::array<int64_t, phases>& counts,
                const Task& task) {
  constexpr int kPauses = 1000;
  std::atomic<int64_t> taken{0};
  std::array<std::atomic<int64_t>, phases> done{};
  const auto take_all = [&](int64_t) {
    for (int64_t i = taken.fetch_add(1);; i = taken.fetch_add(1)) {
      size_t phase = 0;
      for (; phase < phases && i >= counts[phase]; ++phase) i -= counts[phase];
      if (phase == phases) return;
      // Every task of the phase before was taken by a thread that goes on with it.
      for (int64_t wait = 0; phase > 0 && done[phase - 1].load() < counts[phase - 1]; ++wait) {
        wait < kPauses ? pause() : std::this_thread::yield();
      }
      task(phase, i);
      done[phase].fetch_add(1);
    }
  };
  if (pool == nullptr) return take_all(0);
  parallel_for(*pool, pool->num_threads(), take_all);
}

}  // namespace dmlax

#endif  // DMLAX_CPU_PHASES_H_
