// The first lines of `compile` and `explain`: the summary of a plan, as text and as JSON.
//
//   const Headline headline = MakeHeadline(plan, cluster, proof);
//   std::fputs(headline.text.c_str(), stdout);
//
// The time of a step is that of `oneflow simulate` on the same cluster. It is omitted, with the
// reason, if a plan has no program train, is refused, or has more firings without a period than
// are simulated in about a second; then `oneflow simulate` computes it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct Headline {
  // Four lines: model, memory, prediction and proof; one more on the host's memory where something
  // rests there, and one on bits where that is so or data axes split something.
  std::string text;
  // {"parameters", "devices", "bytes_a_device", "device_capacity_bytes": 0 where it is not known,
  //  "cluster", "host_bytes_a_device", "host_bytes_a_node", "assumed_of_host", "step_seconds",
  //  "compared", "tokens_a_second": 0 where the graph reads no tokens, "mfu", "why_above_all",
  //  "bubble", "bits"}; without a time of a step "no_prediction", why, in its place.
  nlohmann::ordered_json json;
};

// `cluster`: an error says why there is none to simulate on. `proof`: the verdict in words,
// DescribeProof's of this plan; where it is kProved, the plan is not proved once more.
Headline MakeHeadline(const proto::Plan& plan, const absl::StatusOr<proto::Cluster>& cluster,
                      const std::string& proof);

}  // namespace oneflow
