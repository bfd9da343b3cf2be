// The tables of our CUDA kernels, one a file: which kinds the file computes, and what makes their
// kernels. make_kernel.cc collects the tables. Kinds that are one matrix product stand in none:
// product.h makes them all.
//
// A factory returns a Kernel for the ports of its `setup`, whose call launches on the stream of a
// GPU and returns. Its meaning is that of the CPU's kernel of that kind (docs/ops.md).
// UNIMPLEMENTED for a dtype that it does not support and INTERNAL if the plan gives less workspace
// than the kernel needs.
//
// Requires that all memory given to a call begins at multiples of 64 bytes.
#pragma once

#include "actor_runtime/kernel/kernel.h"

namespace oneflow::cuda {

#define LISTED(table) KernelTable table();
#include "actor_runtime/cuda/kernel/kernel_tables.inc.h"
#undef LISTED

}  // namespace oneflow::cuda
