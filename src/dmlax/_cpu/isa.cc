#include "dmlax/_cpu/isa.h"

#include <cstdlib>
#include <cstring>
#include <string>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace dmlax {
namespace {

#if defined(__x86_64__)

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("popcnt");
}

// CPUID leaf 7, subleaf 1: older compilers do not know the name.
bool has_avx_vnni() {
  unsigned eax = 7, ebx = 0, ecx = 1, edx = 0;
  if (!has_avx2()) return false;
  unsigned highest = 0, unused_b = 0, unused_c = 0, unused_d = 0;
  __asm__("cpuid" : "+a"(highest), "=b"(unused_b), "+c"(unused_c), "=d"(unused_d));
  if (highest < 7) return false;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return (eax >> 4) & 1;
}

bool has_avx512_vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("avx512vnni");
}

// Linux gives the tile registers only to a process that asks for them.
bool has_amx_int8() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  unsigned eax = 7, ebx = 0, ecx = 0, edx = 0;
  if (!has_avx512_vnni()) return false;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  const bool tile = (edx >> 24) & 1, int8 = (edx >> 25) & 1;
  return tile && int8 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

#endif

bool has_portable() { return true; }

Isa choose() {
  const char* asked = std::getenv("DMLAX_NATIVE_ISA");
  const bool any = asked == nullptr || *asked == '\0';
#define DMLAX_TAKE(isa) \
  if ((any || std::strcmp(asked, #isa) == 0) && has_##isa()) return Isa::isa;
  DMLAX_FOR_EACH_ISA(DMLAX_TAKE)
#undef DMLAX_TAKE
  return Isa::none;
}

std::string describe_all() {
  std::string names;
#define DMLAX_NAME(isa) \
  if (has_##isa()) names += names.empty() ? #isa : ", " #isa;
  DMLAX_FOR_EACH_ISA(DMLAX_NAME)
#undef DMLAX_NAME
  return names;
}

}  // namespace

Isa chosen_isa() {
  static const Isa isa = choose();
  return isa;
}

}  // namespace dmlax

extern "C" {

// The chosen instruction set's name, "" if the one asked for is not here.
__attribute__((visibility("default"))) const char* dmlax_isa() {
  switch (dmlax::chosen_isa()) {
#define DMLAX_NAME(isa)   \
  case dmlax::Isa::isa: \
    return #isa;
    DMLAX_FOR_EACH_ISA(DMLAX_NAME)
#undef DMLAX_NAME
    default:
      return "";
  }
}

// All that this machine and this library have, best first.
__attribute__((visibility("default"))) const char* dmlax_isas() {
  static const std::string names = dmlax::describe_all();
  return names.c_str();
}

// Whose headers this library was built with.
__attribute__((visibility("default"))) const char* dmlax_jaxlib_version() {
  return DMLAX_JAXLIB_VERSION;
}

}
