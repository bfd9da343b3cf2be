#include "compiler/sbp/transition_price.h"

#include <algorithm>

#include "compiler/boxing/device_prices.h"
#include "oneflow_core/cost/link_cost.h"

namespace oneflow {

AxisPrices PricesOn(const proto::Cluster& cluster, const Mesh& mesh, int axis) {
  const Link link = LinkOfAxis(cluster, mesh, axis);
  return {static_cast<double>(mesh.axes[axis].size), link.latency, link.bandwidth,
          MemoryBandwidth(cluster), FiringSeconds(cluster)};
}

double TransitionSeconds(const AxisPrices& prices, Sbp from, Sbp to, double bytes) {
  if (from == to || prices.devices == 1) return 0;
  const double p = prices.devices;
  const auto local = [&](double written) { return prices.firing + written / prices.memory; };
  const auto exchange = [&](double received, double written) {
    return local(written) + prices.latency + received / prices.bandwidth;
  };
  const double scatter = exchange((p - 1) / p * bytes, bytes / p);
  const double gather = exchange((p - 1) / p * bytes, bytes);
  if (from.partial() && to.partial()) return scatter + local(bytes);
  if (from.partial() && to.split()) return scatter;
  if (from.partial()) return std::min(exchange((p - 1) * bytes, bytes), scatter + gather);
  if (to.partial() || from.broadcast()) return local(to.split() ? bytes / p : bytes);
  return to.split() ? exchange((p - 1) / (p * p) * bytes, bytes / p) : gather;
}

}  // namespace oneflow
