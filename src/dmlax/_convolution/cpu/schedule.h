// Shares a convolution between threads.
#pragma once

#include "dmlax/_convolution/cpu/kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

struct ConvBuffers {
  const uint8_t* input;
  const int8_t* filter;
  void* output;
};

// Runs Path::kPlanes. Returns false if there is no memory for its scratch.
bool run_planes(const ConvProblem& problem, const ConvolutionKernels& kernels,
                const ConvBuffers& buffers, xla::ffi::ThreadPool& pool);

// Runs any other path. Operands whose channels come first are transposed before and after. Returns
// false if there is no memory for its scratch.
bool run_channels_last(const ConvProblem& problem, const ConvolutionKernels& kernels,
                       const ConvBuffers& buffers, xla::ffi::ThreadPool& pool);

}  // namespace dmlax
