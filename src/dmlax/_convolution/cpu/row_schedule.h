// Shares a convolution whose channels are last out between threads.
#ifndef DMLAX_CONVOLUTION_CPU_ROW_SCHEDULE_H_
#define DMLAX_CONVOLUTION_CPU_ROW_SCHEDULE_H_

#include "dmlax/_convolution/cpu/kernels.h"
#include "dmlax/_convolution/cpu/schedule.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

// By rows or by lines; where channels come first they are transposed before and after. False if
// there is no memory for its scratch.
bool run_channels_last(const ConvProblem& problem, const ConvolutionKernels& kernels,
                       const ConvBuffers& buffers, xla::ffi::ThreadPool& pool);

}  // namespace dmlax

#endif  // DMLAX_CONVOLUTION_CPU_ROW_SCHEDULE_H_
