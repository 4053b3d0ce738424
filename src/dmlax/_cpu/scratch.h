// Scratch memory of the kernels, kept between calls.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "dmlax/_cpu/tuning.h"

namespace dmlax {

// Uninitialised memory, aligned to 64 bytes; null if there is none. It does not come from the heap,
// where it would lie between XLA's tensors and keep their memory from being reused.
struct Block {
  uint8_t* data = nullptr;
  size_t size = 0;
};

#if defined(__SANITIZE_ADDRESS__)
// The sanitizer guards the ends of heap allocations of the exact size.
constexpr bool kKeepsBlocks = false;

inline Block allocate(size_t size) {
  auto* data = static_cast<uint8_t*>(std::aligned_alloc(64, size));
  return {data, data == nullptr ? 0 : size};
}

inline void release(Block block) { std::free(block.data); }
#else
constexpr bool kKeepsBlocks = true;

inline Block allocate(size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return {};
  return {static_cast<uint8_t*>(data), size};
}

inline void release(Block block) {
  if (block.data != nullptr) munmap(block.data, block.size);
}
#endif

// Has the system put pages of 2 MiB under a large result that nothing has written yet: XLA's memory
// of more than 32 MiB is new in every call, and every page costs a fault.
inline void use_huge_pages(void* data, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr uintptr_t kPage = uintptr_t{1} << 21;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  if (bytes >= 2 * kPage && begin < end) {
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
#endif
}

// Large blocks that no thread uses. Calls run on changing threads, which need a block only for a
// while.
class FreeBlocks {
 public:
  // Never destroyed, because threads may outlive static objects.
  static FreeBlocks& all() {
    static auto* blocks = new FreeBlocks;
    return *blocks;
  }

  // Returns the smallest block that is large enough. A new block replaces the largest.
  Block take(size_t size) {
    Block block;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto fits = [&](const Block& free) { return free.size >= size; };
      auto at = std::find_if(blocks_.begin(), blocks_.end(), fits);
      if (at == blocks_.end() && !blocks_.empty()) --at;
      if (at != blocks_.end()) {
        block = *at;
        bytes_ -= block.size;
        blocks_.erase(at);
      }
    }
    if (block.size >= size) return block;
    release(block);
    return allocate(size);
  }

  // Keeps a block, or frees it if enough blocks are kept.
  void give_back(Block block) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (kKeepsBlocks && bytes_ + block.size <= size_t{tuning::kFreeScratch}) {
        const auto is_larger = [&](const Block& free) { return free.size > block.size; };
        blocks_.insert(std::find_if(blocks_.begin(), blocks_.end(), is_larger), block);
        bytes_ += block.size;
        return;
      }
    }
    release(block);
  }

 private:
  std::mutex mutex_;
  std::vector<Block> blocks_;  // the smallest first
  size_t bytes_ = 0;
};

// A thread's memory, which grows, because fresh memory costs a page fault every 4 KiB. The thread
// keeps small memory and borrows large memory.
class Scratch {
 public:
  ~Scratch() {
    release(owned_);
    release(borrowed_);
  }

  // Returns uninitialised memory, aligned to 64 bytes; null if there is none.
  uint8_t* take(int64_t bytes) {
    const size_t size = std::max<size_t>(1, static_cast<size_t>(bytes + 63) / 64) * 64;
    const bool is_small = size <= kMostOwned;
    Block& block = is_small ? owned_ : borrowed_;
    if (kKeepsBlocks ? size > block.size : size != block.size) {
      release(block);
      block = is_small ? allocate(size) : FreeBlocks::all().take(size);
    }
    return block.data;
  }

  // Runs task(memory) with `bytes` bytes. Returns false if there is no memory.
  template <typename Task>
  bool borrow(int64_t bytes, const Task& task) {
    uint8_t* memory = take(bytes);
    if (memory == nullptr) return false;
    task(memory);
    give_back();
    return true;
  }

  // Gives memory beyond what a thread keeps to the next thread that needs it.
  void give_back() {
    if (borrowed_.size == 0) return;
    FreeBlocks::all().give_back(borrowed_);
    borrowed_ = {};
  }

 private:
  static constexpr size_t kMostOwned = kKeepsBlocks ? size_t{tuning::kThreadScratch} : 0;

  Block owned_, borrowed_;
};

}  // namespace dmlax
