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
// done. Threads are woken once for all phases. `task` must not throw. As in `parallel_for`, the
// caller takes the first tasks of each phase, and others take the last.
template <size_t phases, typename Task>
void run_phases(xla::ffi::ThreadPool* pool, const std::array<int64_t, phases>& counts,
                const Task& task) {
  constexpr int kPauses = 1000;
  struct Phase {
    std::atomic<int64_t> taken{0}, from_back{0}, done{0};
  };
  std::array<Phase, phases> all;
  // Every task of the phase before was taken by a thread that goes on with it.
  const auto wait_for = [&](size_t phase) {
    for (int64_t wait = 0; all[phase].done.load() < counts[phase]; ++wait) {
      wait < kPauses ? pause() : std::this_thread::yield();
    }
  };
  const auto take_all = [&](int64_t thread) {
    for (size_t phase = 0; phase < phases; ++phase) {
      const int64_t count = counts[phase];
      for (int64_t mine = 0; all[phase].taken.fetch_add(1) < count; ++mine) {
        if (phase > 0 && mine == 0) wait_for(phase - 1);
        task(phase, thread == 0 ? mine : count - 1 - all[phase].from_back.fetch_add(1));
        all[phase].done.fetch_add(1);
      }
    }
  };
  if (pool == nullptr) return take_all(0);
  parallel_for(*pool, pool->num_threads(), take_all);
}

}  // namespace dmlax

#endif  // DMLAX_CPU_PHASES_H_
