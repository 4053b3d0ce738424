// Declares an operator's kernels of every instruction set, and the overload of `choose` that
// `chosen_kernels` calls. The file that includes this in namespace dmlax defines DMLAX_KERNELS_TYPE
// and DMLAX_KERNELS, the type and the name of the kernels. It defines DMLAX_KERNELS_MULTIPLY if
// CMake compiles the kernels once for each instruction set. CMake compiles other kernels once for
// each SIMD header; DMLAX_BYTES_<name> names the set that has them. This file has no include guard,
// because each operator includes it.
#ifdef DMLAX_KERNELS_MULTIPLY
#define DMLAX_KERNELS_OF(name) name
#else
#define DMLAX_KERNELS_OF(name) DMLAX_BYTES_##name
#endif

#define DMLAX_ISA(name, ...) \
  DMLAX_IF_BUILT(name, namespace name { extern const DMLAX_KERNELS_TYPE DMLAX_KERNELS; })
#include "dmlax/_cpu/isas.def"

static const DMLAX_KERNELS_TYPE* choose(const DMLAX_KERNELS_TYPE*) {
  switch (chosen_isa()) {
#define DMLAX_ISA(name, ...) \
  DMLAX_IF_BUILT(name, case Isa::name : return &DMLAX_KERNELS_OF(name)::DMLAX_KERNELS;)
#include "dmlax/_cpu/isas.def"
    default:
      return nullptr;
  }
}

#undef DMLAX_KERNELS_OF
#undef DMLAX_KERNELS_MULTIPLY
#undef DMLAX_KERNELS_TYPE
#undef DMLAX_KERNELS
