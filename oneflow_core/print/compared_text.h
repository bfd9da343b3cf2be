// The accuracy of past predictions for a cluster (proto::Compared), printed beside each predicted
// time of a step.
//
//   text = TimeText(seconds) + ComparedText(compared);
//   // "12.970 s ± 8 % (1 σ of 13 published runs on H100s)"
//   // "12.970 s (no run of this kind was compared)"
//
// The band is that of the compared runs; it does not say how far off this one is.
#pragma once

#include <optional>
#include <string>

#include "nlohmann/json.hpp"
#include "proto/cluster.pb.h"

namespace oneflow {

// Returns nullopt if the cluster has no such message.
std::optional<proto::Compared> FindCompared(const proto::Cluster& cluster);

// The text after a predicted time, from the space on.
std::string ComparedText(const std::optional<proto::Compared>& compared);

// {"runs", "mean", "sigma", "what"}, or null.
nlohmann::ordered_json ComparedJson(const std::optional<proto::Compared>& compared);

}  // namespace oneflow
