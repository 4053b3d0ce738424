// Shares a convolution between threads.
#pragma once

#include "dmlax/_operators/convolution/cpu/convolution_kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

struct ConvBuffers {
  const uint8_t* input;
  const int8_t* filter;
  void* output;
};

// What a convolution needs to run.
struct ConvCall {
  const ConvProblem& problem;
  const ConvolutionKernels& kernels;
  ConvBuffers buffers;
  xla::ffi::ThreadPool& pool;
  const ConvShape& shape = problem.shape;
};

// Runs Path::kPlanes. Returns false if there is no memory for its scratch.
bool run_planes(const ConvCall& call);

// Runs any other path. Operands whose channels come first are transposed before and after. Returns
// false if there is no memory for its scratch.
bool run_channels_last(const ConvCall& call);

}  // namespace dmlax
