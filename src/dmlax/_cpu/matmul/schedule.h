// Shares matrix products out between threads.
#ifndef DMLAX_CPU_MATMUL_SCHEDULE_H_
#define DMLAX_CPU_MATMUL_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "dmlax/_cpu/matmul/kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

// Whether products read panels that are prepared.
bool reads_panels();

// Chooses the path of products of `problem.shape`, and lays them out. `b` has all their matrices. An
// instruction set must have been chosen.
void lay_out_product(MatmulProblem& problem, const uint8_t* b, int64_t elements);

// Runs products that are laid out alike. False if there is no memory for their scratch.
bool run_products(const std::vector<MatmulProblem>& problems, xla::ffi::ThreadPool& pool);

}  // namespace dmlax

#endif  // DMLAX_CPU_MATMUL_SCHEDULE_H_
