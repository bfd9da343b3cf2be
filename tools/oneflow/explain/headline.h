// The first lines of `compile` and `explain`: the summary of a plan.
//
//   const Headline headline = MakeHeadline(plan, cluster, proof);
//   std::fputs(HeadlineText(headline).c_str(), stdout);
//
// The time of a step is that of `oneflow simulate` on the same cluster. It is omitted, with the
// reason, if a plan has no program train, is refused, or has more firings without a period than
// are simulated in about a second; then `oneflow simulate` computes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct Headline {
  struct Prediction {
    double step_seconds = 0;
    std::optional<proto::Compared> compared;  // how such predictions have held; none: not known
    double bubble = 0;                        // Utilization::bubble
    double tokens_a_second = 0;               // 0 where the graph reads no tokens
    std::optional<double> mfu;  // ModelRates; none where the cluster does not say the peak
    std::string why_above_all;  // of the MFU; else ""
  };
  std::string model, mesh;
  int64_t parameters = 0;
  int64_t devices = 0;
  bool gpus = false;
  int64_t bytes_a_device = 0;  // of the stage that needs most
  int64_t capacity = 0;        // of a device of the cluster; 0: not known
  // Of the host's memory, where something rests there that devices compute with; else 0.
  int64_t host_bytes_a_device = 0;  // of the stage that needs most
  int64_t host_bytes_a_node = 0;    // of the node that needs most; 0: the cluster has no such level
  int64_t devices_of_node = 0;      // that node's
  std::string assumed_of_host;      // of which the cluster says nothing (cost/host_cost.h)
  std::string cluster;              // its name; "" without one
  std::optional<Prediction> prediction;
  std::string why_none;  // of no prediction
  std::string proof;
  std::string bits;  // BitsText
};

// `cluster`: an error says why there is none to simulate on. `proof`: the verdict
// in words, DescribeProof's of this plan; where it is kProved, the plan is not proved once more.
Headline MakeHeadline(const proto::Plan& plan, const absl::StatusOr<proto::Cluster>& cluster,
                      const std::string& proof);

// Four lines: model, memory, prediction and proof; one more on the host's memory where something
// rests there, and one on bits where that is so or data axes split something.
std::string HeadlineText(const Headline& headline);

// The object `json`, which PlanJson made, with the member "headline".
std::string WithHeadline(const std::string& json, const Headline& headline);

}  // namespace oneflow
