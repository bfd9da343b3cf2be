#include "oneflow_core/print/compared_text.h"

#include "absl/strings/str_format.h"

namespace oneflow {

std::optional<proto::Compared> FindCompared(const proto::Cluster& cluster) {
  return cluster.has_compared() ? std::optional(cluster.compared()) : std::nullopt;
}

std::string ComparedText(const std::optional<proto::Compared>& compared) {
  if (!compared) return " (no run of this kind was compared)";
  const double percent = 100 * compared->sigma();
  return absl::StrFormat(" ± %.*f %% (1 σ of %d %s)", percent < 1 ? 1 : 0, percent,
                         compared->runs(), compared->what());
}

nlohmann::ordered_json ComparedJson(const std::optional<proto::Compared>& compared) {
  if (!compared) return nullptr;
  return {{"runs", compared->runs()},
          {"mean", compared->mean()},
          {"sigma", compared->sigma()},
          {"what", compared->what()}};
}

}  // namespace oneflow
