// How predictions for a cluster have held (proto::Compared), beside each time of a step that is
// predicted for it.
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

// None where the cluster has no such message.
std::optional<proto::Compared> FindCompared(const proto::Cluster& cluster);

// What follows a predicted time, from the space on.
std::string ComparedText(const std::optional<proto::Compared>& compared);

// {"runs", "mean", "sigma", "what"}, or null.
nlohmann::ordered_json ComparedJson(const std::optional<proto::Compared>& compared);

}  // namespace oneflow
