// Shares a convolution out between threads.
#ifndef DMLAX_CONVOLUTION_CPU_SCHEDULE_H_
#define DMLAX_CONVOLUTION_CPU_SCHEDULE_H_

#include "dmlax/_convolution/cpu/kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

struct ConvBuffers {
  const uint8_t* input;
  const int8_t* filter;
  void* output;
};

// False if there is no memory for its scratch.
bool run_convolution(const ConvProblem& problem, const ConvolutionKernels& kernels,
                     const ConvBuffers& buffers, xla::ffi::ThreadPool& pool);

}  // namespace dmlax

#endif  // DMLAX_CONVOLUTION_CPU_SCHEDULE_H_
