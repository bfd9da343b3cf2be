#include "oneflow_core/cost/link_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// The link of a cluster without levels (proto/cluster.proto).
constexpr double kLinkLatency = 1e-6, kLinkBandwidth = 1e10;

// The most devices of a unit that stay idle so that groups do not straddle units: a part of it.
constexpr double kMostIdle = 0.125;

// The number of the `unit` devices that a job of this mesh takes: a multiple of the largest blocks
// of inner axes, if few stay idle.
int64_t FillUnit(int64_t unit, const Mesh& mesh) {
  int64_t block = mesh.devices();
  for (const Mesh::Axis& axis : mesh.axes) {
    const int64_t filled = block > unit ? 0 : unit / block * block;
    if (filled >= (1 - kMostIdle) * static_cast<double>(unit)) return filled;
    block /= axis.size;
  }
  return unit;
}

// Ranks in a unit of each level, as schedulers place a job: of a rack of 72 devices, groups of 32
// take 64. Devices that are CPUs, and jobs that need all of a cluster, fill the units.
absl::InlinedVector<int64_t, 4> PlaceRanks(const proto::Cluster& cluster, const Mesh& mesh) {
  const auto assign = [&](bool fill) {
    absl::InlinedVector<int64_t, 4> units;
    int64_t unit = 1;
    for (const proto::Level& level : cluster.level()) {
      unit *= std::max(1, level.size());
      if (!fill) unit = FillUnit(unit, mesh);
      units.push_back(unit);
    }
    return units;
  };
  const bool fill = cluster.device().kind() == proto::Device::CPU;
  absl::InlinedVector<int64_t, 4> units = assign(fill);
  const bool limited = cluster.level_size() > 0 && cluster.level().rbegin()->size() > 0;
  return limited && units.back() < mesh.devices() ? assign(true) : units;
}

// Ranks from one coordinate of the axis to the next.
int64_t AxisStride(const Mesh& mesh, int axis) {
  int64_t stride = 1;
  for (size_t a = axis + 1; a < mesh.axes.size(); ++a) stride *= mesh.axes[a].size;
  return stride;
}

// True if units of `unit` ranks hold every aligned block of `block` ranks, in which a group begins
// and ends.
bool Holds(int64_t unit, int64_t block, int64_t ranks) {
  return ranks <= unit || unit % block == 0;
}

// Members of a group along neighbouring axes: `size` ranks, `stride` apart.
struct Run {
  int64_t stride = 1, size = 1;
};

// Axes next to each other make one run; axes of one device are between none.
std::vector<Run> CollectRuns(const Mesh& mesh, std::vector<int> axes) {
  std::sort(axes.rbegin(), axes.rend());
  std::vector<Run> runs;
  for (const int axis : axes) {
    const Run run = {AxisStride(mesh, axis), mesh.axes[axis].size};
    if (run.size == 1) continue;
    if (!runs.empty() && runs.back().stride * runs.back().size == run.stride) {
      runs.back().size *= run.size;
    } else {
      runs.push_back(run);
    }
  }
  return runs;
}

// How a group is spread over units of `unit` ranks: over how many, at most, and how many members
// are in one, at least.
struct Spread {
  int64_t units = 1, members = 1;
};

// A group begins at a multiple of its block, so it begins and ends at a multiple of `common` within
// a unit: a unit holds as many of its ranks, or more.
Spread FindSpread(const Run& run, int64_t unit, int64_t ranks) {
  const int64_t block = run.stride * run.size;
  if (Holds(unit, block, ranks)) return {1, run.size};
  if (run.stride >= unit) return {run.size, 1};
  const int64_t common = std::gcd(unit, block);
  const int64_t units = (block - common + unit - 1) / unit + 1;
  return {std::min(run.size, units), std::max<int64_t>(1, common / run.stride)};
}

Spread FindSpread(const std::vector<Run>& runs, int64_t unit, int64_t ranks) {
  Spread all;
  for (const Run& run : runs) {
    const Spread one = FindSpread(run, unit, ranks);
    all.units *= one.units;
    all.members *= one.members;
  }
  return all;
}

absl::InlinedVector<ProtocolCost, 3> ListProtocols(const proto::Cluster& cluster, int level) {
  const proto::Level& at = cluster.level(level);
  // One that takes the level's latency a step, and all of its bandwidth.
  if (at.protocol().empty() || cluster.device().kind() == proto::Device::CPU) {
    return {ProtocolCost{.ring_step = at.latency(), .tree_step = at.latency()}};
  }
  absl::InlinedVector<ProtocolCost, 3> protocols;
  for (const proto::Protocol& p : at.protocol()) {
    protocols.push_back({p.ring_start(), p.ring_step(), p.ring_share(), p.tree_start(),
                         p.tree_step(), p.tree_share()});
  }
  return protocols;
}

// The share of a level's ports that a device of the unit below has, which holds `below` ranks.
double PortsOfDevice(const proto::Cluster& cluster, int level, int64_t below, int64_t ranks) {
  if (level == 0) return 1;
  int ports = cluster.level(level).ports();
  if (ports == 0 && cluster.device().kind() == proto::Device::CPU) ports = 1;
  if (ports == 0) return 1;
  const int64_t sharing = std::min(below, ranks);
  return static_cast<double>(ports) / static_cast<double>(sharing);
}

// proto/cluster.proto, Level and System.
double UsageAt(const proto::Cluster& cluster, int level) {
  for (const proto::System& system : cluster.system()) {
    if (level > 0 || system.name() != cluster.as_system()) continue;
    if (system.processor_usage() > 0) return system.processor_usage();
  }
  return cluster.level(level).processor_usage();
}

// A device alone has one port at most.
LevelLinks LinksAt(const proto::Cluster& cluster, int level, int64_t below, int64_t ranks) {
  const double ports = PortsOfDevice(cluster, level, below, ranks);
  LevelLinks links;
  links.device_bandwidth = std::min(1.0, ports) * LinkOfLevel(cluster, level).bandwidth;
  links.ring_bandwidth = links.device_bandwidth;
  links.processor_usage = UsageAt(cluster, level);
  links.protocols = ListProtocols(cluster, level);
  return links;
}

// A cluster that says nothing of its topology, as one that says what it is taken for.
const proto::Cluster& Known(const proto::Cluster& cluster, proto::Cluster* made) {
  if (cluster.level_size() > 0) return cluster;
  made->mutable_device()->set_kind(cluster.device().kind());
  proto::Level* level = made->add_level();
  level->set_latency(kLinkLatency);
  level->set_bandwidth(kLinkBandwidth);
  return *made;
}

// CPU devices have one latency, of the outermost level, and the least bandwidth.
GroupLinks InOneStep(GroupLinks group) {
  LevelLinks all = group.levels.back();
  all.steps = all.tree_steps = all.peers = 1;
  all.alone = false;
  for (const LevelLinks& level : group.levels) {
    all.ring_bandwidth = std::min(all.ring_bandwidth, level.ring_bandwidth);
    all.device_bandwidth = std::min(all.device_bandwidth, level.device_bandwidth);
  }
  group.direct = true;
  group.levels.assign(1, all);
  return group;
}

// The i-th protocol at a level, or the last where it has fewer.
const ProtocolCost& ProtocolAt(const LevelLinks& level, size_t i) {
  return level.protocols[std::min(i, level.protocols.size() - 1)];
}

size_t ProtocolCount(const GroupLinks& links) {
  size_t most = 0;
  for (const LevelLinks& level : links.levels) most = std::max(most, level.protocols.size());
  return most;
}

// Latencies of `passes` times around a ring, and the bandwidth of the slowest level.
Link RingLink(const GroupLinks& links, size_t protocol, double passes) {
  Link ring{0, std::numeric_limits<double>::infinity()};
  double start = 0;
  for (const LevelLinks& level : links.levels) {
    const ProtocolCost& p = ProtocolAt(level, protocol);
    const double step = level.alone ? std::max(p.ring_step, p.tree_step) : p.ring_step;
    start = std::max(start, p.ring_start);
    ring.latency += passes * level.steps * step;
    ring.bandwidth = std::min(ring.bandwidth, level.ring_bandwidth * p.ring_share);
  }
  ring.latency += start;
  return ring;
}

// Up the tree and down again. A level without a share for trees has none.
Link TreeLink(const GroupLinks& links, size_t protocol) {
  Link tree{0, std::numeric_limits<double>::infinity()};
  double start = 0;
  for (const LevelLinks& level : links.levels) {
    const ProtocolCost& p = ProtocolAt(level, protocol);
    start = std::max(start, p.tree_start);
    tree.latency += 2 * level.tree_steps * p.tree_step;
    tree.bandwidth = std::min(tree.bandwidth, level.ring_bandwidth * p.tree_share);
  }
  tree.latency += start;
  return tree;
}

double PairwiseSeconds(const GroupLinks& links, size_t protocol, double received) {
  double slowest = 0;
  for (const LevelLinks& level : links.levels) {
    const double rate = level.device_bandwidth * ProtocolAt(level, protocol).ring_share;
    slowest = std::max(slowest, level.peers * received / rate);
  }
  return RingLink(links, protocol, 1).latency + slowest;
}

double SecondsOnLink(const Link& link, double bytes) {
  return link.bandwidth > 0 ? link.latency + bytes / link.bandwidth
                            : std::numeric_limits<double>::infinity();
}

double SecondsBy(LinkRounds rounds, double received, const GroupLinks& links, size_t protocol) {
  if (rounds == LinkRounds::kPairwise) return PairwiseSeconds(links, protocol, received);
  if (rounds != LinkRounds::kTwice) return SecondsOnLink(RingLink(links, protocol, 1), received);
  const double p = links.devices, tensor = received * p / (2 * (p - 1));
  return std::min(SecondsOnLink(RingLink(links, protocol, 2), received),
                  SecondsOnLink(TreeLink(links, protocol), 2 * tensor));
}

}  // namespace

GroupLinks LinksOfGroup(const proto::Cluster& given, const Mesh& mesh,
                        const std::vector<int>& axes) {
  proto::Cluster made;
  const proto::Cluster& cluster = Known(given, &made);
  const std::vector<Run> runs = CollectRuns(mesh, axes);
  const int64_t ranks = mesh.devices();
  const auto placed = PlaceRanks(cluster, mesh);
  GroupLinks group;
  for (const Run& run : runs) group.devices *= static_cast<int>(run.size);
  if (group.devices == 1) return group;
  Spread below = {group.devices, 1};  // over devices
  for (int l = 0; l < cluster.level_size(); ++l) {
    // The outermost level holds all devices, however many there are.
    const bool outermost = l + 1 == cluster.level_size();
    const Spread here = outermost ? Spread{1, group.devices} : FindSpread(runs, placed[l], ranks);
    if (here.units == below.units) continue;
    const int64_t inner = l == 0 ? 1 : placed[l - 1];
    LevelLinks links = LinksAt(cluster, l, inner, ranks);
    const double units = static_cast<double>(here.units);
    const double fan = std::ceil(static_cast<double>(below.units) / units);
    const double reached = std::pow(1 - cluster.level(l).congestion(), std::log2(fan));
    links.steps = static_cast<double>(below.units - here.units);
    links.tree_steps = l == 0 ? fan - 1 : std::ceil(std::log2(fan));
    links.peers = static_cast<double>(group.devices - below.members) / (group.devices - 1);
    links.alone = below.members == 1 && l > 0;
    if (below.members > 1) {
      links.ring_bandwidth = static_cast<double>(below.members) *
                             PortsOfDevice(cluster, l, inner, ranks) *
                             LinkOfLevel(cluster, l).bandwidth;
    }
    links.device_bandwidth *= reached;
    links.ring_bandwidth *= reached;
    group.levels.push_back(std::move(links));
    below = here;
  }
  return cluster.device().kind() == proto::Device::CPU ? InOneStep(std::move(group)) : group;
}

GroupLinks LinksOfStages(const proto::Cluster& given, const Mesh& mesh, int stage, int other) {
  proto::Cluster made;
  const proto::Cluster& cluster = Known(given, &made);
  GroupLinks pair;
  pair.devices = 2;
  const int level = LevelOfStages(cluster, mesh, stage, other);
  const int64_t inner = level == 0 ? 1 : PlaceRanks(cluster, mesh)[level - 1];
  LevelLinks links = LinksAt(cluster, level, inner, mesh.devices());
  links.device_bandwidth *= 1 - cluster.level(level).congestion();
  links.ring_bandwidth = links.device_bandwidth;
  links.steps = links.tree_steps = links.peers = 1;
  pair.levels.push_back(std::move(links));
  return pair;
}

double ExchangeSeconds(std::string_view primitive, double received, const GroupLinks& links) {
  const LinkRounds rounds = GetPrimitive(primitive).rounds;
  if (received <= 0 || links.levels.empty()) return 0;
  if (links.direct) return SecondsOnLink(RingLink(links, 0, 1), received);
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < ProtocolCount(links); ++i) {
    least = std::min(least, SecondsBy(rounds, received, links, i));
  }
  return least;
}

double ProcessorUsage(const GroupLinks& links) {
  double most = 0;
  for (const LevelLinks& level : links.levels) most = std::max(most, level.processor_usage);
  return most;
}

double ReceivedBytes(std::string_view primitive, double tensor_bytes, int devices) {
  return GetPrimitive(primitive).received(tensor_bytes, devices);
}

Link LinkOfLevel(const proto::Cluster& cluster, int level) {
  const double bandwidth = cluster.level(level).bandwidth();
  return {cluster.level(level).latency(), bandwidth > 0 ? bandwidth : kLinkBandwidth};
}

int LevelOfAxis(const proto::Cluster& cluster, const Mesh& mesh, int axis) {
  const int64_t block = AxisStride(mesh, axis) * mesh.axes[axis].size;
  const auto placed = PlaceRanks(cluster, mesh);
  int level = 0;
  while (level < cluster.level_size() - 1 && !Holds(placed[level], block, mesh.devices())) {
    ++level;
  }
  return level;
}

int LevelOfStages(const proto::Cluster& cluster, const Mesh& mesh, int stage, int other) {
  const int axis = mesh.stage_axis();
  const int64_t stride = axis < 0 ? 1 : AxisStride(mesh, axis);
  const int64_t size = mesh.stages(), blocks = mesh.devices() / (stride * size);
  const int64_t first = std::min(stage, other) * stride, last = std::max(stage, other) * stride;
  const auto holds = [&](int64_t unit) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = block * stride * size + first, end = block * stride * size + last;
      // The two differ in their unit for one of the `stride` pairs that are side by side.
      if (begin / unit != end / unit || (begin + stride - 1) / unit != (end + stride - 1) / unit) {
        return false;
      }
      if (unit % (stride * size) == 0) break;  // all blocks alike
    }
    return true;
  };
  const auto placed = PlaceRanks(cluster, mesh);
  int level = 0;
  while (level < cluster.level_size() - 1 && !holds(placed[level])) ++level;
  return level;
}

double FastestBandwidth(const proto::Cluster& cluster) {
  double fastest = cluster.level_size() == 0 ? kLinkBandwidth : 0;
  for (int level = 0; level < cluster.level_size(); ++level) {
    fastest = std::max(fastest, LinkOfLevel(cluster, level).bandwidth);
  }
  return fastest;
}

}  // namespace oneflow
