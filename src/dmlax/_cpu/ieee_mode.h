// IEEE arithmetic in a scope. XLA's threads flush subnormals.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dmlax {

// Keeps subnormals during its lifetime. Arithmetic on floats must be in a call that is not inlined,
// because compilers move arithmetic across a change of mode.
class IeeeMode {
 public:
  IeeeMode() : former_(read()) { write(former_ & ~kFlushes); }
  ~IeeeMode() { write(former_); }
  IeeeMode(const IeeeMode&) = delete;
  IeeeMode& operator=(const IeeeMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kFlushes = 0x8040;  // results and operands
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
