// The instruction set that the native kernels use: the machine's best one, chosen at load.
#pragma once

// The code if the library has kernels of that instruction set: DMLAX_BUILT_<name> is 0 or 1.
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

// The best set of this machine, or the set that DMLAX_NATIVE_ISA names; `none` if the machine or
// this library lacks that set. Every call returns the same set.
Isa chosen_isa();

// The error of a handler if `chosen_isa` is `none`.
constexpr char kNoInstructionSet[] = "DMLAX_NATIVE_ISA names no instruction set of this CPU";

// An operator's kernels of the chosen set, or null; choose_kernels.h defines `choose`.
template <typename Kernels>
const Kernels* chosen_kernels() {
  return choose(static_cast<const Kernels*>(nullptr));
}

}  // namespace dmlax
