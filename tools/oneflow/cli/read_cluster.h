// The cluster that a text describes.
//
//   ASSIGN_OR_RETURN(const ClusterText file, ReadClusterText("h100"));
//   ASSIGN_OR_RETURN(const proto::Cluster cluster, ParseCluster(file));
//
// A file with a `base` says what differs from a known cluster, and gives a name. A number, a word
// or a list that it gives counts in place of the base's; a level is merged into the base's level of
// that name. A number 0 counts as not given, except reserve_bytes: 0. Rates of attention that it
// does not give are the base's in proportion to peak_flops_bf16.
//
//   base: "a100"
//   name: "A100s of 40 GB"
//   device { memory_bytes: 40000000000 }
//   level { name: "cluster" bandwidth: 12.5e9 }
#pragma once

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "tools/oneflow/cli/known_clusters.h"

namespace oneflow {

// Parses and checks it; the result has no base. Errors begin with the place of the text.
absl::StatusOr<proto::Cluster> ParseCluster(const ClusterText& file);

}  // namespace oneflow
