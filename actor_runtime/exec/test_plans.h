// Tiny plans written by hand, and kernels for them, which the tests of the drivers run. All tensors
// are kElements f32; the persistent registers hold the results.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "actor_runtime/exec/bound_actor.h"
#include "proto/plan.pb.h"

namespace oneflow {

inline constexpr int kElements = 16;

// One device: data on a host stream, gradients of 4 micro-batches accumulated, one update a step.
// Programs "init" and "train".
proto::Plan ChainPlan();
// Two devices: an all_reduce on a separate stream; 3 micro-batches a step.
proto::Plan TwoRanksPlan();
// Two stages, 1F1B with 4 micro-batches: activations go down, gradients come back.
proto::Plan TwoStagesPlan();
// Two devices that do not know of each other, each with memory of the host: data of each
// micro-batch goes there and comes back, and the host updates the weights there. Its rank 0
// computes as ChainPlan does. Programs "init", "restore" and "train".
proto::Plan HostMemoryPlan();
// One device, to which a value in the host's memory is copied for each of 4 micro-batches, ahead of
// its use, also of a step that has not begun.
proto::Plan PrefetchPlan();

int CountRanks(const proto::Plan& plan);

// Kernels: ones: 1;  count: firing % 5 + rank-like number;  multiply, copy; update: out = out / 2 +
// in / 8; copy_in and copy_out are the library's. A kernel with attribute `fail_at` fails at that
// firing.
absl::StatusOr<Kernel> MakeTestKernel(const KernelSetup& setup);

// The value of ChainPlan's "w" after `steps` steps.
float ChainResult(int64_t steps);

// Parses a plan with defaults: every register holds kElements f32, one slot, one firing a fill or
// read.
proto::Plan PlanFromText(std::string_view text);
void SetFailure(proto::Plan* plan, std::string_view program, std::string_view actor,
                int64_t firing);

// The persistent registers of all ranks, as floats, in (register, rank) order.
template <typename AnyRuntime>
std::vector<float> Persistent(const proto::Plan& plan, const AnyRuntime& runtime, int ranks) {
  std::vector<float> values;
  for (const proto::Register& reg : plan.persistent()) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (plan.stage_axis() >= 0 && rank != reg.stage()) continue;  // a pipe axis alone
      const auto* data =
          reinterpret_cast<const float*>(runtime.PersistentBytes(rank, reg.id()).data());
      values.insert(values.end(), data, data + kElements);
    }
  }
  return values;
}

}  // namespace oneflow
