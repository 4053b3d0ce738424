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

// The tables of the kernels of every set, which simd/interface.h declares for the kernels.
#define DMLAX_ISA(name, ...)            \
  DMLAX_IF_BUILT(                       \
      name, namespace name {            \
        template <typename Kernels>     \
        struct Table {                  \
          static const Kernels kernels; \
        };                              \
      })
#include "dmlax/_cpu/isas.def"

// An operator's kernels of the chosen set, or null. CMake compiles kernels that multiply once for
// each instruction set. It compiles the others once for each SIMD header; DMLAX_BYTES_<name> names
// the set that has them.
template <typename Kernels>
const Kernels* chosen_kernels() {
  constexpr bool kMultiplies = requires { &Kernels::products_per_ns; };
  switch (chosen_isa()) {
#define DMLAX_ISA(name, ...)                                                                  \
  DMLAX_IF_BUILT(                                                                             \
      name,                                                                                   \
      case Isa::                                                                              \
          name : if constexpr (kMultiplies) { return &name::Table<Kernels>::kernels; } else { \
            return &DMLAX_BYTES_##name::Table<Kernels>::kernels;                              \
          })
#include "dmlax/_cpu/isas.def"
    default:
      return nullptr;
  }
}

}  // namespace dmlax
