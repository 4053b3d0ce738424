// Scratch memory of the kernels, which is kept between calls.
#ifndef DMLAX_CPU_SCRATCH_H_
#define DMLAX_CPU_SCRATCH_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace dmlax {

// Memory aligned to 64 bytes, of any content; null if there is none. It is not the heap's: there it
// would lie between tensors that XLA allocates, and a tensor's place could not be used again.
struct Block {
  uint8_t* data = nullptr;
  size_t size = 0;
};

#if defined(__SANITIZE_ADDRESS__)
// The sanitizer guards the ends of the heap's allocations, if they have the size that is asked for.
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

// Large blocks that no thread uses: calls run on one thread or another, and each needs them only
// for a while.
class FreeBlocks {
 public:
  // Never destroyed: threads may end after what is static.
  static FreeBlocks& all() {
    static auto* blocks = new FreeBlocks;
    return *blocks;
  }

  // The smallest that is large enough. A new one takes the place of the largest.
  Block take(size_t size) {
    Block found;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto fits = [&](const Block& each) { return each.size >= size; };
      auto at = std::find_if(blocks_.begin(), blocks_.end(), fits);
      if (at == blocks_.end() && !blocks_.empty()) --at;
      if (at != blocks_.end()) {
        found = *at;
        bytes_ -= found.size;
        blocks_.erase(at);
      }
    }
    if (found.size >= size) return found;
    release(found);
    return allocate(size);
  }

  // Keeps a block, or frees it where enough are kept.
  void give_back(Block block) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (kKeepsBlocks && bytes_ + block.size <= kMostBytes) {
        const auto is_larger = [&](const Block& each) { return each.size > block.size; };
        blocks_.insert(std::find_if(blocks_.begin(), blocks_.end(), is_larger), block);
        bytes_ += block.size;
        return;
      }
    }
    release(block);
  }

 private:
  static constexpr size_t kMostBytes = size_t{1} << 26;

  std::mutex mutex_;
  std::vector<Block> blocks_;  // the smallest first
  size_t bytes_ = 0;
};

// A thread's memory, which grows: fresh memory costs a page fault every 4 KiB. What is large is
// borrowed, and a thread keeps its own beside it.
class Scratch {
 public:
  ~Scratch() {
    release(own_);
    release(borrowed_);
  }

  // Aligned to 64 bytes, of any content; null if there is none.
  uint8_t* take(int64_t bytes) {
    const size_t size = std::max<size_t>(1, static_cast<size_t>(bytes + 63) / 64) * 64;
    const bool is_own = size <= kMostOwn;
    Block& block = is_own ? own_ : borrowed_;
    if (kKeepsBlocks ? size > block.size : size != block.size) {
      release(block);
      block = is_own ? allocate(size) : FreeBlocks::all().take(size);
    }
    return block.data;
  }

  // Gives what is more than a thread keeps to the next that needs it.
  void give_back() {
    if (borrowed_.size == 0) return;
    FreeBlocks::all().give_back(borrowed_);
    borrowed_ = {};
  }

 private:
  static constexpr size_t kMostOwn = kKeepsBlocks ? size_t{1} << 20 : 0;

  Block own_, borrowed_;
};

}  // namespace dmlax

#endif  // DMLAX_CPU_SCRATCH_H_
