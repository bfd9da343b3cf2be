// KernelTime: how long one call of a kernel takes: the kernel that a plan of the same op would run,
// on unsplit tensors, with `threads` kernel threads.
//
//   ASSIGN_OR_RETURN(KernelTime t, TimeKernel({"gelu", {{{1024, 3072}}}}, /*threads=*/2, 0.1));
//   double bandwidth = t.bytes / t.seconds;
//
// The values are small and finite; it measures no op whose time depends on them.
#pragma once

#include "absl/status/statusor.h"
#include "oneflow_core/tensor/dtype.h"
#include "planning/measure/timed_op.h"

namespace oneflow {

struct KernelTime {
  double seconds = 0;    // of a call, the median
  double of_thread = 0;  // of a call, the shortest that its own thread ran: less what it waited
                         // for a core
  double flops = 0;      // of a call, as the op's definition counts them
  double bytes = 0;      // of a call: what it reads (call_bytes.h) and writes
};

// Calls it for about `budget` seconds, at least three times, while devices - 1 others call it, too,
// each with its own threads and tensors: devices of one machine share its memory. UNIMPLEMENTED
// where there is no kernel for these types.
absl::StatusOr<KernelTime> TimeKernel(const TimedOp& op, int threads, double budget,
                                      int devices = 1);

// The same of a kernel whose setup is given, e.g. as a plan has it. Each input has one source.
absl::StatusOr<KernelTime> TimeSetup(const TimedKernel& kernel, int threads, double budget,
                                     int devices = 1);

// The machine's own matrix rate, which MFU is relative to: FLOP/s of products of size 512 on
// `threads` threads at once, one each, in about a fiftieth of a second. It is the better of two
// rounds: other work on the machine makes a call longer, never shorter. It counts the time that
// threads run, so it is as high while others use the cores, too.
absl::StatusOr<double> MeasureMatrixRate(int threads, DType dtype = DType::kF32);

}  // namespace oneflow
