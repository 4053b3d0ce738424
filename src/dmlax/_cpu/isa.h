// The instruction set that the native kernels use: the best that the machine has, chosen at load.
#ifndef DMLAX_CPU_ISA_H_
#define DMLAX_CPU_ISA_H_

// The code, if the library has kernels of that instruction set: DMLAX_BUILT_<name> is 0 or 1.
#define DMLAX_IF_BUILT(name, ...) DMLAX_IF_BUILT_(DMLAX_BUILT_##name, __VA_ARGS__)
#define DMLAX_IF_BUILT_(built, ...) DMLAX_IF_BUILT__(built, __VA_ARGS__)
#define DMLAX_IF_BUILT__(built, ...) DMLAX_IF_##built(__VA_ARGS__)
#define DMLAX_IF_0(...)
#define DMLAX_IF_1(...) __VA_ARGS__

namespace dmlax {

enum class Isa {
  none,
#define DMLAX_ISA(name, ...) name,
#include "dmlax/_cpu/isas.def"
};

// The best that this machine has, or the one that DMLAX_NATIVE_ISA names; `none` if the machine
// or this library lacks that one. The same at every call.
Isa chosen_isa();

// What a handler answers where that is `none`.
constexpr char kNoInstructionSet[] = "DMLAX_NATIVE_ISA names no instruction set of this CPU";

}  // namespace dmlax

#endif  // DMLAX_CPU_ISA_H_
