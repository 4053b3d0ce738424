// A thread's scratch memory, which it keeps between calls.
#ifndef DMLAX_CPU_SCRATCH_H_
#define DMLAX_CPU_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace dmlax {

// Memory that grows: fresh memory costs a page fault every 4 KiB.
class Scratch {
 public:
  ~Scratch() { std::free(data_); }

  // Aligned to 64 bytes, of any content; null if there is none.
  uint8_t* take(int64_t bytes) {
    const size_t wanted = static_cast<size_t>(bytes + 63) / 64 * 64;
    if (wanted > size_) {
      std::free(data_);
      data_ = std::aligned_alloc(64, wanted);
      size_ = data_ == nullptr ? 0 : wanted;
    }
    return static_cast<uint8_t*>(data_);
  }

  // Frees what is more than a thread keeps.
  void give_back() {
    if (size_ <= kMostKept) return;
    std::free(data_);
    data_ = nullptr;
    size_ = 0;
  }

 private:
  static constexpr size_t kMostKept = size_t{1} << 26;

  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dmlax

#endif  // DMLAX_CPU_SCRATCH_H_
