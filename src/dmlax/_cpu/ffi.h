// The library shows the handlers that XLA calls, and nothing else.
#ifndef DMLAX_CPU_FFI_H_
#define DMLAX_CPU_FFI_H_

#include "xla/ffi/api/ffi.h"

// As XLA_FFI_DEFINE_HANDLER_SYMBOL, visible; the symbol's name is the FFI target's too.
#define DMLAX_DEFINE_HANDLER(name, function, binding)               \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* \
  name(XLA_FFI_CallFrame* call_frame);                              \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, function, binding)

#endif  // DMLAX_CPU_FFI_H_
