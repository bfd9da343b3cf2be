// Whether the plan that was compiled for a cluster of accelerators is the faster one there, or that
// which is compiled without knowing the cluster: the simulator decides. So knowing a cluster never
// costs time. Part of compile.
//
// It looks at whole plans, with their stages, orders and schedule, and so the choice may differ
// from one pipe degree to another. Plans for clusters of CPUs are not compared: there, equal bits
// at any pipe degree are promised (law 6), and layouts are compared as one stage
// (compare_layouts.h).
#pragma once

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "proto/plan.pb.h"

namespace oneflow {

// True if the cluster's devices are accelerators, its links are known, the mesh has several
// devices, and there is a simulator.
bool ComparesPlans(const CompileOptions& options);

// The options without the cluster: of it only the memory of a device and its kernel threads.
CompileOptions WithoutCluster(const CompileOptions& options);

// The faster plan; of equals, and where a step cannot be simulated, `known`. `known`: compiled with
// `options`; `unknown`: with WithoutCluster of them. If only one of them fits its devices, that
// one; an error is that of `known`. A plan that was taken although the cluster was not known has a
// note for `explain`, and its boxing the seconds of the cluster.
absl::StatusOr<proto::Plan> FasterPlan(const CompileOptions& options,
                                       absl::StatusOr<proto::Plan> known,
                                       absl::StatusOr<proto::Plan> unknown);

}  // namespace oneflow
