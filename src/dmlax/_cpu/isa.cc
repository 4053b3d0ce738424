#include "dmlax/_cpu/isa.h"

#include <cstdlib>
#include <cstring>
#include <string>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace dmlax {
namespace {

// --- the detectors' words ------------------------------------------------------------------

#if defined(__x86_64__)

// A feature by the compiler's name for it.
#define CPU(feature) (__builtin_cpu_supports(#feature) != 0)

// A bit of a CPUID leaf, for features that older compilers cannot name.
#define CPUID(leaf, subleaf, output, bit) (((read_cpuid(leaf, subleaf).output >> (bit)) & 1) != 0)

struct Cpuid {
  unsigned eax, ebx, ecx, edx;
};

[[maybe_unused]] Cpuid read_cpuid(unsigned leaf, unsigned subleaf) {
  Cpuid highest = {0, 0, 0, 0}, result = {leaf, 0, subleaf, 0};
  __asm__("cpuid" : "+a"(highest.eax), "=b"(highest.ebx), "+c"(highest.ecx), "=d"(highest.edx));
  if (highest.eax < leaf) return {0, 0, 0, 0};
  __asm__("cpuid" : "+a"(result.eax), "=b"(result.ebx), "+c"(result.ecx), "=d"(result.edx));
  return result;
}

// Linux grants the tile registers only to a process that asks for them.
[[maybe_unused]] bool linux_grants_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

#elif defined(__aarch64__)

// A bit of a word in which Linux lists the processor's features.
#if defined(__linux__)
#define HWCAP(word, bit) (((getauxval(word) >> (bit)) & 1) != 0)
#else
#define HWCAP(word, bit) false
#endif

#endif

// --- one detector a row --------------------------------------------------------------------

bool has_none() { return true; }

#define DMLAX_ISA(name, ...) DMLAX_IF_BUILT(name, bool has_##name();)
#include "dmlax/_cpu/isas.def"

#define DMLAX_ISA(name, extends, processor, simd, flags, detector) \
  DMLAX_IF_BUILT(name, bool has_##name() { return has_##extends() && (detector); })
#include "dmlax/_cpu/isas.def"

Isa choose() {
  const char* asked = std::getenv("DMLAX_NATIVE_ISA");
  const bool any = asked == nullptr || *asked == '\0';
#define DMLAX_ISA(name, ...) \
  DMLAX_IF_BUILT(name,       \
                 if ((any || std::strcmp(asked, #name) == 0) && has_##name()) return Isa::name;)
#include "dmlax/_cpu/isas.def"
  return Isa::none;
}

std::string describe_all() {
  std::string names;
#define DMLAX_ISA(name, ...) \
  DMLAX_IF_BUILT(name, if (has_##name()) names += names.empty() ? #name : ", " #name;)
#include "dmlax/_cpu/isas.def"
  return names;
}

}  // namespace

Isa chosen_isa() {
  static const Isa isa = choose();
  return isa;
}

}  // namespace dmlax

extern "C" {

// The name of the chosen instruction set; "" if the one that was asked for is not here.
__attribute__((visibility("default"))) const char* dmlax_isa() {
  switch (dmlax::chosen_isa()) {
#define DMLAX_ISA(name, ...) \
  case dmlax::Isa::name:     \
    return #name;
#include "dmlax/_cpu/isas.def"
    default:
      return "";
  }
}

// The names of all sets that this machine and this library have, best first.
__attribute__((visibility("default"))) const char* dmlax_isas() {
  static const std::string names = dmlax::describe_all();
  return names.c_str();
}

// The version of jaxlib whose headers this library was built with.
__attribute__((visibility("default"))) const char* dmlax_jaxlib_version() {
  return DMLAX_JAXLIB_VERSION;
}
}
