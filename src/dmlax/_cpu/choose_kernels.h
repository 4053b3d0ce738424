// Declares an operator's kernels of every instruction set, and `chosen_kernels`, which returns those
// of the chosen set or null. The file that includes this in namespace dmlax defines
// DMLAX_KERNELS_TYPE and DMLAX_KERNELS, the type and the name of the kernels. No guard: each
// operator includes it once.
#define DMLAX_ISA(name, ...) \
  DMLAX_IF_BUILT(name, namespace name { extern const DMLAX_KERNELS_TYPE DMLAX_KERNELS; })
#include "dmlax/_cpu/isas.def"

namespace {

const DMLAX_KERNELS_TYPE* chosen_kernels() {
  switch (chosen_isa()) {
#define DMLAX_ISA(name, ...) DMLAX_IF_BUILT(name, case Isa::name : return &name::DMLAX_KERNELS;)
#include "dmlax/_cpu/isas.def"
    default:
      return nullptr;
  }
}

}  // namespace

#undef DMLAX_KERNELS_TYPE
#undef DMLAX_KERNELS
