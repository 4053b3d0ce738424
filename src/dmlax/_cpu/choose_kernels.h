// Declares an operator's kernels of every instruction set, and `chosen_kernels`, which returns those
// of the chosen set or null. The file that includes this in namespace dmlax defines
// DMLAX_KERNELS_TYPE and DMLAX_KERNELS, the type and the name of the kernels, and, if these multiply,
// DMLAX_KERNELS_MULTIPLY: CMake compiles other kernels once for all sets of a SIMD header, and says
// in DMLAX_BYTES_<name> for which. No guard: each operator includes it once.
#ifdef DMLAX_KERNELS_MULTIPLY
#define DMLAX_KERNELS_OF(name) name
#else
#define DMLAX_KERNELS_OF(name) DMLAX_BYTES_##name
#endif

#define DMLAX_ISA(name, ...) \
  DMLAX_IF_BUILT(name, namespace name { extern const DMLAX_KERNELS_TYPE DMLAX_KERNELS; })
#include "dmlax/_cpu/isas.def"

namespace {

const DMLAX_KERNELS_TYPE* chosen_kernels() {
  switch (chosen_isa()) {
#define DMLAX_ISA(name, ...) \
  DMLAX_IF_BUILT(name, case Isa::name : return &DMLAX_KERNELS_OF(name)::DMLAX_KERNELS;)
#include "dmlax/_cpu/isas.def"
    default:
      return nullptr;
  }
}

}  // namespace

#undef DMLAX_KERNELS_OF
#undef DMLAX_KERNELS_MULTIPLY
#undef DMLAX_KERNELS_TYPE
#undef DMLAX_KERNELS
