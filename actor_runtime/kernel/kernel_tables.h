// The kernels' tables, one a file: which kinds of docs/ops.md the file computes, and what makes
// their kernels. kernel.cc collects the tables. Kinds that are one matrix product stand in none:
// product.h makes them all.
//
// A factory returns a Kernel for the ports of its `setup`, or UNIMPLEMENTED for a dtype that it
// does not support, or INTERNAL if the plan gives less workspace than the kernel needs.
#pragma once

#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

#define LISTED(table) KernelTable table();
#include "actor_runtime/kernel/kernel_tables.inc.h"
#undef LISTED

}  // namespace oneflow
