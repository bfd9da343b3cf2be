// Proves that every actor suits its kernel. Kernels trust their arguments, so a plan that was
// edited by hand must be refused here.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// Checks one program, after VerifyProgramTypes. For each actor, against the definition of its kind
// (op registry; a separate table for the host's kernels):
//  1. the kind is known; the numbers of inputs and outputs and the attributes are its own;
//  2. shapes and types of the outputs follow from those of the inputs (`adamw` finds w, m and v in
//     its outputs, which are updated in place);
//  3. on each mesh axis a row of its table fits the layout: S if split, B or P if not;
//  4. it says `boxing` exactly if it is one, and names axes that exist;
//  5. a report fires once a step;
//  6. a sum over devices is of what its table lets be parts of a sum, a maximum likewise;
//  7. the slots it touches have the bytes of their largest part, rounded up to 64, and the
//     workspace is enough for plan.kernel_threads, on a HOST_COMPUTE stream of a CPU's kernel.
// An actor without a kernel touches control registers only.
//
// `work`: kernels also do the work that the facts of the plan count. This tells a kind that was
// written in the place of another of equal tensors (sum_squares for sum_in_order, which reads
// f64[n], too). It is no part of the proof, which does not read facts: kernels are safe to run
// whatever they compute.
absl::Status VerifyKernels(const PlanNet& net, bool work = false);

}  // namespace oneflow
