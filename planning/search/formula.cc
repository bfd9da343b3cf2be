#include "planning/search/formula.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/search/list_meshes.h"

namespace oneflow {
namespace {

// Parts of what one device takes and needs that a plan takes at least: a kernel that runs beside
// fewer exchanges, or a layout that suits fewer devices better, may be a little dearer in the short
// plan. bounds_test.
struct Spare {
  double seconds = 1, variables = 1, activations = 1, others = 1;
};
constexpr Spare kSpare = {.seconds = 0.95, .variables = 0.95, .activations = 0.95, .others = 0.8};
// A CPU's kernel that is measured with a part of the work may take less than that part.
constexpr double kSpareOfCpu = 0.75;

// The least bytes may be above those of a plan by so much, where parts do not divide evenly.
// bounds_test.
constexpr double kUneven = 0.1;

// The part of the exchanges of gradients and weights that makes a step longer, as a rule. Within
// nodes they are short, and wait in turn with those of activations.
constexpr double kShown = 0.3, kShownInNodes = 1;

// The degrees of a group's mesh.
struct Degree {
  explicit Degree(const Mesh& mesh)
      : data(FindDegree(mesh, "data")),
        expert(FindDegree(mesh, "expert")),
        context(FindDegree(mesh, "context")),
        tensor(FindDegree(mesh, "tensor")) {}
  double of_work() const { return tensor * context; }
  double of_variables() const { return tensor * expert; }
  double of_states() const { return data * context * expert; }  // that --shard splits over
  double data, expert, context, tensor;
};

double SpareSeconds(const PlanRequest& given, double parts) {
  const bool cpu = given.cluster.device().kind() == proto::Device::CPU;
  return cpu && parts > 1 ? kSpareOfCpu : kSpare.seconds;
}

// True if some of a variable's bytes may be split: weights alone are where they are frozen, and
// then they may be all there are.
bool SplitsVariables(const proto::Shard& shard) {
  return !shard.states().empty() || !shard.weights().empty();
}

// The part of the bytes of a device's variables and casts that it has at least where they are split
// over `parts`. A parameter has 12 bytes of states, and 2 of a cast in bf16; a frozen one, which
// has a weight alone, has a larger part.
double StatesShare(const PlanRequest& given, const proto::Shard& shard, double parts) {
  const double cast = given.recipe.precision() == proto::BF16 ? 2 : 0;
  const double states = 12 / (SplitsVariables(shard) ? parts : 1);
  return (states + cast / (shard.weights().empty() ? 1 : parts)) / (12 + cast);
}

// The first, a middle, and the last stage.
constexpr StageCosts ShortCosts::*kSlices[] = {&ShortCosts::first, &ShortCosts::middle,
                                               &ShortCosts::last};
constexpr Linear LinearTasks::*kTasks[] = {&LinearTasks::forward, &LinearTasks::backward,
                                           &LinearTasks::weights};

constexpr double Transients::*kTransients[] = {
    &Transients::head, &Transients::last, &Transients::inner, &Transients::tail, &Transients::any};

Linear Scaled(const Linear& linear, double part) {
  return {part * std::max(0.0, linear.fixed), part * linear.block};
}
LinearTasks Scaled(const LinearTasks& tasks, double part) {
  LinearTasks result;
  for (Linear LinearTasks::*task : kTasks) result.*task = Scaled(tasks.*task, part);
  return result;
}

// `one` divided over the devices of a part of the batch.
ShortCosts Divided(const PlanRequest& given, const proto::Recipe& group, const ShortCosts& one,
                   const Spare& spare) {
  const Mesh mesh = FindMesh(group);
  const Degree parts(mesh);
  const bool alone = mesh.stages() == 1;
  const bool rests = group.offload().states() || group.offload().weights() ||
                     given.recipe.update_on() == proto::UPDATE_ON_HOST;
  const bool known = !group.offload().has_activations();
  const double seconds = spare.seconds / parts.of_work();
  const double held = known ? spare.activations / parts.of_work() : 0;
  const double others = known ? spare.others / parts.of_work() : 0;
  const double variables = rests ? 0 : spare.variables / parts.of_variables();
  // One micro-batch alone keeps casts of weights from its forward to its backward, where they are
  // not gathered for each use; several have them in common.
  const bool alone_casts = group.micro_batches() == 1 && given.recipe.precision() == proto::BF16;
  const double states = SplitsVariables(group.shard()) ? 1 / parts.of_states() : 1;
  const double weights = group.shard().weights().empty() ? 1 : 1 / parts.of_states();
  const double share =
      variables * (alone_casts ? states : StatesShare(given, group.shard(), parts.of_states()));
  const double sums = group.shard().gradients().empty() ? 1 : parts.of_states();
  ShortCosts result;
  for (StageCosts ShortCosts::*slice : kSlices) {
    const StageCosts& from = alone ? one.last : one.*slice;
    StageCosts& to = result.*slice;
    to.spans = Scaled(from.spans, seconds);
    to.kernels = Scaled(from.kernels, seconds);
    to.resident.block = share * from.resident.block;
    to.sums.block = variables * from.sums.block / sums;
    to.saved = Scaled(from.saved, held);
    if (alone_casts) {  // two bytes, where gradients have four
      const double casts = std::min(from.saved.block, from.sums.block / 2);
      to.saved.block += (variables * weights - held) * casts;
    }
    to.kept = Scaled(from.kept, held);
    for (double Transients::*part : kTransients) {
      to.transients.*part = others * std::max(0.0, from.transients.*part);
    }
  }
  // The first and the last stage have a table each, which may be the same.
  const double tables = share * std::max(0.0, one.last.resident.fixed);
  result.first.resident.fixed = alone ? 0 : tables / 2;
  result.last.resident.fixed = alone ? tables : tables / 2;
  return result;
}

// The exchanges of a group along its axes.
class Exchanges {
 public:
  Exchanges(const PlanRequest& given, const ModelShape& shape, const proto::Recipe& group)
      : given_(given), group_(group), mesh_(FindMesh(group)), parts_(mesh_) {
    const double element = given.recipe.precision() == proto::BF16 ? 2 : 4;
    const double tokens = static_cast<double>(OneDeviceSpec(given, group).sequences) *
                          static_cast<double>(std::max<int64_t>(1, shape.sequence));
    stream_ = tokens / parts_.context * static_cast<double>(shape.hidden) * element;
    // Queues are sent with their empty slots, at most those that any routing needs (route_dims.h).
    const double slots = shape.slots > 0 ? shape.slots : std::max(1.0, given.imbalance);
    const int64_t groups =
        shape.slot_groups > 0 ? shape.slot_groups : int64_t{FindDegree(mesh_, "expert")};
    const int64_t most = groups * std::min(shape.top_k, shape.experts / groups);
    routed_ = std::min(slots * static_cast<double>(shape.top_k), static_cast<double>(most)) *
              stream_ / parts_.tensor;
  }

  double StreamBytes() const { return stream_; }

  // Seconds of a block for a micro-batch: forward and backward, and those that recompute repeats.
  double OfActivations() const {
    const proto::Recompute& recompute = group_.recompute();
    const bool full = recompute.term_size() > 0 && recompute.term(0).policy() == "full";
    // The stream is gathered and scattered around each of a block's two products.
    const double tensor = 8 + (full ? 4 : 0) + (recompute.gather() && !full ? 2 : 0);
    // Tokens go to their experts and come back. Keys and values pass while attention computes.
    return tensor * Seconds("tensor", "reduce_scatter", stream_) +
           (full ? 6 : 4) * Seconds("expert", "all_to_all", routed_) +
           kShown * (full ? 4 : 3) * Seconds("context", "reduce_scatter", stream_);
  }

  // Those of gradients, and of weights as far as the group shards them: for each micro-batch, or
  // once. `bytes`: of the gradients of a block.
  double OfGradients(double bytes, bool once) const {
    const auto splits = [](const auto& axes, const std::string& axis) {
      return std::any_of(axes.begin(), axes.end(), [&](const std::string& name) {
        return name == axis || (name == "data" && SplitsTokens(axis));
      });
    };
    // Inner axes sum first, so that outer ones have less to sum.
    double seconds = 0;
    for (size_t a = mesh_.axes.size(); a-- > 0;) {
      const Mesh::Axis& axis = mesh_.axes[a];
      if (axis.size == 1 || !SplitsTokens(axis.name)) continue;
      const auto index = static_cast<int>(a);
      const double shown = LevelOfAxis(given_.cluster, mesh_, index) == 0 ? kShownInNodes : kShown;
      const double pass = shown * ExchangeSeconds("reduce_scatter",
                                                  ReceivedBytes("reduce_scatter", bytes, axis.size),
                                                  LinksOfGroup(given_.cluster, mesh_, {index}));
      const bool each = group_.micro_batches() > 1;
      if (splits(group_.shard().gradients(), axis.name) == (each && !once)) seconds += pass;
      // Gathered for the forward and for the backward in half as many bytes with bf16; else once.
      const bool weights = splits(group_.shard().weights(), axis.name);
      const double gathers = given_.recipe.precision() == proto::BF16 ? 1 : 2;
      if (weights && !once) seconds += gathers * pass;
      if (!weights && once) seconds += gathers / 2 * pass;
      bytes /= axis.size;
    }
    return seconds;
  }

 private:
  double Seconds(const std::string& axis, std::string_view primitive, double bytes) const {
    std::vector<int> axes;
    int devices = 1;
    for (size_t a = 0; a < mesh_.axes.size(); ++a) {
      const std::string& name = mesh_.axes[a].name;
      if (name.substr(0, name.find('.')) != axis) continue;
      axes.push_back(static_cast<int>(a));
      devices *= mesh_.axes[a].size;
    }
    if (devices == 1) return 0;
    return ExchangeSeconds(primitive, ReceivedBytes(primitive, bytes, devices),
                           LinksOfGroup(given_.cluster, mesh_, axes));
  }

  const PlanRequest& given_;
  const proto::Recipe& group_;
  const Mesh mesh_;
  const Degree parts_;
  double stream_ = 0;  // bytes of the residual stream of a micro-batch, on all devices of tensor
  double routed_ = 0;  // that a device sends to experts
};

void AddDifference(const Linear& less, const Linear& more, Linear* to) {
  to->block += more.block - less.block;
}

void AddDifference(const StageCosts& less, const StageCosts& more, StageCosts* to) {
  for (LinearTasks StageCosts::*tasks : {&StageCosts::spans, &StageCosts::kernels}) {
    for (Linear LinearTasks::*task : kTasks) {
      AddDifference(less.*tasks.*task, more.*tasks.*task, &(to->*tasks.*task));
    }
  }
  for (Linear StageCosts::*part :
       {&StageCosts::firings, &StageCosts::sums, &StageCosts::saved, &StageCosts::kept,
        &StageCosts::fit_saved, &StageCosts::fit_kept}) {
    AddDifference(less.*part, more.*part, &(to->*part));
  }
  for (double Transients::*part : kTransients) {
    to->transients.*part += more.transients.*part - less.transients.*part;
  }
}

void AddShare(double share, const Linear& from, Linear* to) {
  to->fixed += share * from.fixed;
  to->block += share * from.block;
}

// What a formula plan reads of a slice; of what comes and goes, the most of any kind.
void AddShare(double share, const StageCosts& from, StageCosts* to) {
  for (Linear LinearTasks::*task : kTasks) {
    AddShare(share, from.spans.*task, &(to->spans.*task));
  }
  for (Linear StageCosts::*part :
       {&StageCosts::resident, &StageCosts::sums, &StageCosts::saved, &StageCosts::kept}) {
    AddShare(share, from.*part, &(to->*part));
  }
  for (double Transients::*part : kTransients) {
    to->transients.*part = std::max(to->transients.*part, from.transients.*part);
  }
}

// Micro-batches of which a stage holds activations at once, as a rule; of zero bubble, with
// warm-ups that fill the pipe.
double CountHeldAtOnce(const proto::Recipe& group, int stages, int stage) {
  const auto m = static_cast<double>(group.micro_batches());
  const double after = stages - 1 - stage, chunks = group.chunks();
  if (group.schedule() == "gpipe") return m;
  if (group.schedule() == "zero_bubble") return std::min(m, 2 * after + 1);
  if (chunks > 1) return std::min(m, (2 * after + (chunks - 1) * stages + 1) / chunks);
  return std::min(m, after + 1);
}

// Bytes of a block's activations, of up to `held` micro-batches, and of its sums of gradients,
// which are there from the first backward on.
double HeldByBlock(const StageCosts& slice, double micro_batches, double held) {
  return std::max(held * slice.saved.block,
                  std::min(held, micro_batches - 1) * slice.saved.block + slice.sums.block);
}

// A policy on all blocks of a stage.
struct StagePolicy {
  double seconds = 0, bytes = 0;
};

// The least seconds where blocks, which may be divided, have two policies at most.
double LeastSeconds(const std::vector<StagePolicy>& policies, double capacity) {
  double least = std::numeric_limits<double>::infinity();
  for (const StagePolicy& fits : policies) {
    if (capacity > 0 && fits.bytes > capacity) continue;
    least = std::min(least, fits.seconds);
    if (capacity <= 0) continue;
    for (const StagePolicy& other : policies) {
      if (other.bytes <= capacity || other.seconds >= fits.seconds) continue;
      const double part = (other.bytes - capacity) / (other.bytes - fits.bytes);
      least = std::min(least, other.seconds + part * (fits.seconds - other.seconds));
    }
  }
  return least;
}

}  // namespace

FormulaPlan FindFormulaPlan(const proto::Recipe& group, const std::vector<ShortCosts>& likely,
                            int blocks, bool uniform, double capacity) {
  const int stages = FindMesh(group).stages();
  // Chunks take micro-batches in rounds of as many as there are stages.
  const int64_t round = group.chunks() > 1 ? stages : 1;
  const auto m = static_cast<double>((group.micro_batches() + round - 1) / round * round);
  const double most = (blocks + stages - 1) / stages, mean = static_cast<double>(blocks) / stages;
  const double fill = group.schedule() == "zero_bubble" ? 0 : (stages - 1.0) / group.chunks();
  std::vector<StagePolicy> first, last;  // by policy
  for (const ShortCosts& costs : likely) {
    const auto seconds = [](const StageCosts& slice, double n) {
      const LinearTasks& t = slice.spans;
      return t.forward.At(n) + t.backward.At(n) + t.weights.At(n);
    };
    const auto bytes = [&](const StageCosts& slice, int stage) {
      const double held = CountHeldAtOnce(group, stages, stage);
      const double kept = std::min(held, static_cast<double>(stages - stage));
      const Transients& t = slice.transients;
      return slice.resident.At(most) + most * HeldByBlock(slice, m, held) +
             held * slice.saved.fixed + kept * slice.kept.At(most) +
             std::max({t.head, t.last - std::max(0.0, slice.saved.fixed), t.any, 0.0});
    };
    // The head is a part of the last stage, which has fewer blocks for it where that is possible.
    const double longest = std::max({seconds(costs.middle, most), seconds(costs.last, mean)});
    const double step = (m + fill) * longest + costs.each_step.At(most);
    first.push_back({step, bytes(stages == 1 ? costs.last : costs.first, 0)});
    last.push_back({step, bytes(costs.last, stages - 1)});
  }
  FormulaPlan plan;
  if (!uniform)
    plan.seconds = std::max(LeastSeconds(first, capacity), LeastSeconds(last, capacity));
  plan.bytes = std::numeric_limits<double>::infinity();
  for (size_t p = 0; p < first.size(); ++p) {
    const double bytes = std::max(first[p].bytes, last[p].bytes);
    const bool fits = capacity <= 0 || bytes <= capacity;
    if (uniform && fits && first[p].seconds < plan.seconds) {
      plan = {first[p].seconds, bytes};
    } else if (plan.seconds == std::numeric_limits<double>::infinity() || !uniform) {
      plan.bytes = std::min(plan.bytes, bytes);
    }
  }
  return plan;
}

ShortPlanSpec OneDeviceSpec(const PlanRequest& given, const proto::Recipe& group, int block_class) {
  ShortPlanSpec spec = FindShortSpec(given, group, block_class);
  Mesh mesh = FindMesh(group);
  const int64_t parts = int64_t{FindDegree(mesh, "data")} * FindDegree(mesh, "expert");
  spec.sequences = FindMostSequences(spec.sequences, 1, parts);
  if (FindDegree(mesh, "expert") > 1) spec.slots = given.imbalance;
  // Without stages a backward is not split from the gradients of weights.
  const bool splits = group.schedule() == "zero_bubble";
  std::erase_if(mesh.axes, [&](const Mesh::Axis& axis) { return axis.name != "pipe" || !splits; });
  for (Mesh::Axis& axis : mesh.axes) axis.size = 2;
  proto::Recipe& alone = spec.group;
  *alone.mutable_mesh() = ToProto(mesh);
  if (!splits) alone.set_schedule("1f1b");
  alone.set_chunks(1);
  alone.set_extra_in_flight(0);
  alone.mutable_shard()->Clear();
  alone.mutable_offload()->Clear();
  alone.mutable_recompute()->set_gather(false);
  alone.set_sequence_parallel(false);
  alone.set_micro_batches(group.micro_batches() > 1 ? 8 : 1);
  return spec;
}

double FindLeastBytes(const PlanRequest& given, const proto::Recipe& group,
                      const std::vector<const ShortCosts*>& one, const ClassCounts& blocks) {
  const int stages = FindMesh(group).stages();
  const auto m = static_cast<double>(group.micro_batches());
  const double all = std::accumulate(blocks.begin(), blocks.end(), 0);
  const size_t policies = one.size() / blocks.size();
  std::vector<ShortCosts> costs;  // by kind
  for (const ShortCosts* kind : one) costs.push_back(Divided(given, group, *kind, kSpare));
  // A stage of n blocks that are alike needs fixed + n * block bytes. So many bytes have room for
  // (bytes - fixed) / block blocks on each stage, and for all blocks of the model together. Where
  // blocks differ, one counts as the part of a mean block that it is at least, on any stage.
  double parts = 0, fixed_parts = 0;
  std::vector<double> least(blocks.size(), std::numeric_limits<double>::infinity());  // by class
  for (int s = 0; s < stages; ++s) {
    std::vector<double> block(blocks.size(), std::numeric_limits<double>::infinity());
    double mean = 0, fixed = std::numeric_limits<double>::infinity();
    const bool last = s + 1 == stages;
    for (size_t kind = 0; kind < costs.size(); ++kind) {
      const StageCosts& slice = last     ? costs[kind].last
                                : s == 0 ? costs[kind].first
                                         : costs[kind].middle;
      double& its = block[kind / policies];
      its = std::min(its,
                     slice.resident.block + HeldByBlock(slice, m, std::min<double>(m, stages - s)));
      const double head = std::max(
          {slice.saved.fixed, slice.saved.fixed + slice.transients.head, slice.transients.last});
      fixed = std::min(fixed, slice.resident.fixed + (last ? head : 0));
    }
    for (size_t c = 0; c < blocks.size(); ++c) mean += blocks[c] / all * block[c];
    if (mean <= 0) return 0;  // what rests in the host's memory is not known
    for (size_t c = 0; c < blocks.size(); ++c) least[c] = std::min(least[c], block[c] / mean);
    parts += 1 / mean;
    fixed_parts += fixed / mean;
  }
  double counted = 0;
  for (size_t c = 0; c < blocks.size(); ++c) counted += blocks[c] * least[c];
  return (counted + fixed_parts) / parts / (1 + kUneven);
}

ShortCosts FindLikelyCosts(const PlanRequest& given, const ModelShape& shape,
                           const proto::Recipe& all, const ShortCosts& one) {
  const proto::Recipe group = shape.experts > 0 ? all : WithoutExperts(all);
  ShortCosts likely = Divided(given, group, one, {});
  const Degree parts(FindMesh(group));
  const Exchanges exchanges(given, shape, group);
  const double gradients = one.middle.sums.block / parts.of_variables();
  const double exchanged =
      exchanges.OfActivations() + exchanges.OfGradients(gradients, /*once=*/false);
  const double updated = group.shard().states().empty() ? 1 : parts.of_states();
  likely.each_step = Scaled(one.each_step, 1 / (parts.of_variables() * updated));
  likely.each_step.block += exchanges.OfGradients(gradients, /*once=*/true);
  // Without `gather` a block keeps the whole of the stream that its two products read.
  const bool keeps = group.sequence_parallel() && !group.recompute().gather();
  likely.issue_seconds = one.issue_seconds;
  for (StageCosts ShortCosts::*slice : kSlices) {
    StageCosts& to = likely.*slice;
    to.spans.backward.block += exchanged;
    to.firings = (one.*slice).firings;
    to.firings_once = (one.*slice).firings_once;
    if (keeps && group.recompute().term_size() == 0) {
      to.saved.block += 2 * exchanges.StreamBytes() * (1 - 1 / parts.tensor);
    }
  }
  return likely;
}

std::vector<ShortCosts> FindMeanCosts(const std::vector<ShortCosts>& likely,
                                      const ClassCounts& blocks) {
  const size_t policies = likely.size() / blocks.size();
  if (blocks.size() == 1) return likely;
  const double all = std::accumulate(blocks.begin(), blocks.end(), 0);
  std::vector<ShortCosts> mean(policies);
  for (size_t kind = 0; kind < likely.size(); ++kind) {
    const double share = blocks[kind / policies] / all;
    const ShortCosts& from = likely[kind];
    ShortCosts& to = mean[kind % policies];
    AddShare(share, from.each_step, &to.each_step);
    for (StageCosts ShortCosts::*slice : kSlices) AddShare(share, from.*slice, &(to.*slice));
  }
  return mean;
}

ShortCosts WithOtherPolicy(const ShortCosts& measured, const ShortCosts& likely,
                           const ShortCosts& likely_other) {
  ShortCosts result = measured;
  for (StageCosts ShortCosts::*slice : kSlices) {
    AddDifference(likely.*slice, likely_other.*slice, &(result.*slice));
  }
  return result;
}

double FindLeastSeconds(const PlanRequest& given, const proto::Recipe& group,
                        const std::vector<const ShortCosts*>& one, const ClassCounts& blocks) {
  const Mesh mesh = FindMesh(group);
  const double parts = Degree(mesh).of_work();
  std::vector<double> seconds;  // of each block of the model
  double all = 0, fixed = std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < blocks.size(); ++c) {
    const LinearTasks& tasks = one[c * (one.size() / blocks.size())]->last.spans;
    const double block = tasks.forward.block + tasks.backward.block + tasks.weights.block;
    fixed = std::min(fixed, tasks.forward.fixed + tasks.backward.fixed + tasks.weights.fixed);
    all += blocks[c] * block;
    seconds.insert(seconds.end(), blocks[c], block);
  }
  all += std::max(0.0, fixed);
  std::sort(seconds.begin(), seconds.end());
  const int stages = mesh.stages();
  const auto m = static_cast<double>(group.micro_batches()), p = static_cast<double>(stages);
  // The first chunk of a stage may have its shortest blocks.
  const double chunks = group.chunks() == 1 ? 1 : group.chunks() * seconds.back() / seconds.front();
  const double together = group.schedule() == "zero_bubble"
                              ? m * all / p
                              : all / (chunks * (1 - std::pow(1 - 1 / (chunks * m), p)));
  // Some stage has as many blocks as all stages have on average, if only the shortest.
  const auto most = (std::ssize(seconds) + stages - 1) / stages;
  const double longest = std::accumulate(seconds.begin(), seconds.begin() + most, 0.0);
  return SpareSeconds(given, parts) / parts * std::max(together, m * longest);
}

}  // namespace oneflow
