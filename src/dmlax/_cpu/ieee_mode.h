// IEEE arithmetic of floats in a scope, where XLA's threads flush subnormals.
#ifndef DMLAX_CPU_IEEE_MODE_H_
#define DMLAX_CPU_IEEE_MODE_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dmlax {

// Keeps subnormals while it lives. What computes with floats must be a call that is not inlined:
// compilers move arithmetic across a change of mode.
class IeeeMode {
 public:
  IeeeMode() : former_(read()) { write(former_ & ~kFlushes); }
  ~IeeeMode() { write(former_); }
  IeeeMode(const IeeeMode&) = delete;
  IeeeMode& operator=(const IeeeMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kFlushes = 0x8040;  // of results, and of operands
  static uint64_t read() { return _mm_getcsr(); }
  static void write(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlushes = uint64_t{1} << 24;
  static uint64_t read() {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr uint64_t kFlushes = 0;
  static uint64_t read() { return 0; }
  static void write(uint64_t) {}
#endif

  uint64_t former_;
};

}  // namespace dmlax

#endif  // DMLAX_CPU_IEEE_MODE_H_
