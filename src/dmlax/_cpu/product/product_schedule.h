// Shares matrix products between threads.
#pragma once

#include <vector>

#include "dmlax/_cpu/product/product_kernels.h"
#include "xla/ffi/api/ffi.h"

namespace dmlax {

// Whether products read prepared panels as they are.
bool reads_panels();

// Chooses the path of products of `problem.shape` and lays them out. `b` has all their matrices. An
// instruction set must have been chosen.
void lay_out_product(ProductProblem& problem, const uint8_t* b, int64_t elements);

// Runs products that have the same layout. Returns false if there is no memory for their scratch.
bool run_products(const std::vector<ProductProblem>& problems, xla::ffi::ThreadPool& pool);

}  // namespace dmlax
