// The static part of the proof: ids, rates, layouts and bytes.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The most threads that kernels of one device may be planned for.
inline constexpr int kMaxKernelThreads = 1024;

// Checks everything that does not depend on a program: version, mesh, variables, the arenas' sums,
// persistent registers.
absl::Status VerifyPlanTypes(const proto::Plan& plan);

// Checks one program, after VerifyPlanTypes:
//  1. every register has at least one slot, holds its largest part, and is inside its arena
//     region;
//  2. every register that is read is written or persistent; only a persistent one is updated in
//     place or read before its first fill;
//  3. an edge with data stays on its stage, except into a boxing actor without peers (a transfer);
//  4. data of peers is read only by boxing actors, whose sources cover exactly what they write;
//  5. rates are consistent (verify_rates.h);
//  6. every actor stands in exactly one segment of its stage, every segment in one stream's order;
//     stages exist;
//  7. a workspace is a register of its actor's stage and program, with one buffer, that nobody
//     reads (that it exists and has one writer is MakePlanNet's to check).
absl::Status VerifyProgramTypes(const PlanNet& net);

// Runs both checks on all programs: a plan that passes is well-formed. Everything that its ids,
// axes and stages name exists, and its rates and sizes are those of something that can run.
absl::Status VerifyTypes(const proto::Plan& plan);

}  // namespace oneflow
