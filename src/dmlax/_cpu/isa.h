// Which instruction set the native kernels use: the best that the machine has, chosen at load.
#ifndef DMLAX_CPU_ISA_H_
#define DMLAX_CPU_ISA_H_

// Calls X for every instruction set that this library was compiled for, best first.
#ifdef DMLAX_HAS_amx_int8
#define DMLAX_ISA_AMX_INT8(X) X(amx_int8)
#else
#define DMLAX_ISA_AMX_INT8(X)
#endif
#ifdef DMLAX_HAS_avx512_vnni
#define DMLAX_ISA_AVX512_VNNI(X) X(avx512_vnni)
#else
#define DMLAX_ISA_AVX512_VNNI(X)
#endif
#ifdef DMLAX_HAS_avx_vnni
#define DMLAX_ISA_AVX_VNNI(X) X(avx_vnni)
#else
#define DMLAX_ISA_AVX_VNNI(X)
#endif
#ifdef DMLAX_HAS_avx2
#define DMLAX_ISA_AVX2(X) X(avx2)
#else
#define DMLAX_ISA_AVX2(X)
#endif
#define DMLAX_FOR_EACH_ISA(X) \
  DMLAX_ISA_AMX_INT8(X)       \
  DMLAX_ISA_AVX512_VNNI(X)    \
  DMLAX_ISA_AVX_VNNI(X)       \
  DMLAX_ISA_AVX2(X)           \
  X(portable)

namespace dmlax {

enum class Isa { none, portable, avx2, avx_vnni, avx512_vnni, amx_int8 };

// The best that this machine has, or the one that DMLAX_NATIVE_ISA names; `none` if the machine
// or this library lacks that one. The same at every call.
Isa chosen_isa();

}  // namespace dmlax

#endif  // DMLAX_CPU_ISA_H_
