// Tasks in phases, shared between XLA's threads and the calling thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "dmlax/_cpu/parallel_for.h"

namespace dmlax {

// A phase's tasks, and how many a thread takes at most at once.
struct PhaseTasks {
  int64_t count, most_at_once;
};

// The tasks of a phase that nobody has taken. The calling thread takes the first ones, other
// threads the last. Ranges become shorter towards the end, because threads then wait for one
// another.
class TasksLeft {
 public:
  struct Range {
    int64_t first, last;
  };

  void put(const PhaseTasks& tasks) {
    tasks_ = tasks;
    unit_ = 1 + (tasks.count >> 31);
    ends_.store(static_cast<uint64_t>((tasks.count + unit_ - 1) / unit_));
  }

  // Returns an empty range if no task is left.
  Range take(bool caller, int64_t threads) {
    uint64_t ends = ends_.load(), left;
    int64_t first, last, taken;
    do {
      first = static_cast<int64_t>(ends >> 32), last = static_cast<int64_t>(ends & 0xffffffff);
      if (first == last) return {0, 0};
      taken = std::clamp<int64_t>((last - first) / (2 * threads), 1, tasks_.most_at_once);
      left = caller ? ends + (static_cast<uint64_t>(taken) << 32)
                    : ends - static_cast<uint64_t>(taken);
    } while (!ends_.compare_exchange_weak(ends, left));
    const int64_t begin = caller ? first : last - taken;
    return {begin * unit_, std::min(tasks_.count, (begin + taken) * unit_)};
  }

 private:
  PhaseTasks tasks_;
  int64_t unit_;                // tasks that are taken as one, so that both ends fit a word
  std::atomic<uint64_t> ends_;  // (first << 32) | end
};

// Tasks that have a range of rows and a range of panels. Tasks of the same rows follow one another,
// or tasks of the same panels.
struct TaskGrid {
  int64_t rows = 1, panels = 1;
  bool by_panels = false;

  struct Block {
    int64_t first_row, last_row, first_panel, last_panel;
  };

  int64_t count() const { return rows * panels; }

  // Calls run(index, block) for blocks that make up tasks [first, last) of grids one after another.
  template <typename Run>
  void for_each_block(int64_t first, int64_t last, const Run& run) const {
    const int64_t lines = by_panels ? panels : rows, line = by_panels ? rows : panels;
    const auto block = [&](int64_t from, int64_t to, int64_t begin, int64_t end) {
      return by_panels ? Block{begin, end, from, to} : Block{from, to, begin, end};
    };
    while (first < last) {
      const int64_t index = first / count(), at = first / line % lines, within = first % line;
      const int64_t left = last - first;
      if (within == 0 && left >= line) {
        const int64_t whole = std::min(lines - at, left / line);
        run(index, block(at, at + whole, 0, line));
        first += whole * line;
      } else {
        const int64_t taken = std::min(line - within, left);
        run(index, block(at, at + 1, within, within + taken));
        first += taken;
      }
    }
  }
};

// Runs task(phase, first, last) for ranges of every phase's tasks. A phase starts when the phase
// before is done. Threads are woken once for all phases. `task` must not throw.
template <size_t phases, typename Task>
void run_phases(xla::ffi::ThreadPool* pool, const std::array<PhaseTasks, phases>& tasks,
                const Task& task) {
  struct Phase {
    TasksLeft left;
    std::atomic<int64_t> done{0};
  };
  if (pool == nullptr) {
    for (size_t phase = 0; phase < phases; ++phase) {
      if (tasks[phase].count > 0) task(phase, 0, tasks[phase].count);
    }
    return;
  }
  std::array<Phase, phases> all;
  for (size_t phase = 0; phase < phases; ++phase) all[phase].left.put(tasks[phase]);
  // A thread that is running has taken every task of the phase before.
  const auto wait_for = [&](size_t phase) {
    for (int64_t wait = 0; all[phase].done.load() < tasks[phase].count; ++wait) {
      wait < tuning::kPauses ? pause() : std::this_thread::yield();
    }
  };
  const int64_t threads = pool->num_threads();
  const auto take_all = [&](int64_t thread) {
    for (size_t phase = 0; phase < phases; ++phase) {
      bool waits = phase > 0;
      while (true) {
        const auto [first, last] = all[phase].left.take(thread == 0, threads);
        if (first == last) break;
        if (waits) wait_for(phase - 1);
        waits = false;
        task(phase, first, last);
        all[phase].done.fetch_add(last - first);
      }
    }
  };
  parallel_for(pool, threads, take_all);
}

}  // namespace dmlax
