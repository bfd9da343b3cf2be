// TimedOp: an op on unsplit tensors, whose kernel is to be timed, and that kernel's setup as a plan
// would have it.
//
//   ASSIGN_OR_RETURN(TimedKernel k, MakeTimedKernel({"gelu", {{{1024, 3072}}}}, proto::CPU, 2));
//   ASSIGN_OR_RETURN(Kernel kernel, MakeKernel(k.setup));
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct TimedInput {
  Dims dims;
  DType dtype = DType::kF32;
};

// An op and its inputs.
struct TimedOp {
  std::string kind;
  std::vector<TimedInput> inputs;
  AttrMap attrs;
};

// Its form, by which the cost model knows it: "linear+gelu".
inline std::string FormName(const TimedOp& op) { return FormName(op.kind, op.attrs); }
// The attribute of a form.
inline AttrMap Then(std::string then) { return {{"then", std::move(then)}}; }

struct TimedKernel {
  KernelSetup setup;  // inputs that it updates in place are among its outputs only
  double flops = 0;   // of a call, as the op's definition counts them
  double bytes = 0;   // of a call: what it reads (call_bytes.h) and writes
};

// On a device of `kind` with so many kernel threads. An input error where the op does not fit.
absl::StatusOr<TimedKernel> MakeTimedKernel(const TimedOp& op, proto::DeviceKind kind, int threads);

// "[1024,768] [768,3072]".
std::string FormatShapes(const TimedOp& op);

}  // namespace oneflow
