#include "planning/recipe/order_axes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/boxed_programs.h"
#include "compiler/boxing/boxing_path.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/graph/block_classes.h"
#include "oneflow_core/tensor/primitive.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/recipe/shorten_model.h"

namespace oneflow {
namespace {

constexpr size_t kMostGroups = 6;

// An exchange of which only the axes' ranks depend on their order.
struct Exchange {
  BoxingWork work;                // without axes
  std::vector<std::string> axes;  // by name
  double firings = 0;             // in a step

  auto Key() const {
    return std::tuple(work.primitive, axes, work.from, work.to, work.members, work.dtype, work.sums,
                      work.written, work.received);
  }
};

Exchange MakeExchange(const Graph& graph, const Op& op) {
  Exchange exchange{MakeWork(graph, op), {}};
  for (const int axis : exchange.work.axes) {
    exchange.axes.push_back(graph.mesh.axes[axis].name);
  }
  exchange.work.axes.clear();
  return exchange;
}

// Exchanges of the update that are alike but for their tensors, as the buckets that lowering makes
// of them (lower/buckets.h): of equal size, as few as hold all bytes.
class Buckets {
 public:
  void Add(const Exchange& one) {
    auto [it, fresh] = all_.try_emplace(
        std::tuple(one.work.primitive, one.axes, one.work.dtype, one.work.sums), one);
    if (fresh) return;
    it->second.work.written += one.work.written;
    it->second.work.received += one.work.received;
  }
  void AddTo(double bytes, std::vector<Exchange>* exchanges) const {
    for (const auto& [key, all] : all_) {
      Exchange bucket = all;
      bucket.firings = std::max(1.0, std::ceil(all.work.written / bytes));
      bucket.work.written /= bucket.firings;
      bucket.work.received /= bucket.firings;
      exchanges->push_back(std::move(bucket));
    }
  }

 private:
  std::map<std::tuple<std::string_view, std::vector<std::string>, DType, bool>, Exchange> all_;
};

// The exchanges of a step; layers have the same ones.
std::vector<Exchange> CollectExchanges(const Graph& graph, const StandIns& stand_ins,
                                       int64_t micro_batches, int64_t bucket_bytes) {
  Buckets buckets;
  std::vector<Exchange> exchanges;
  std::map<decltype(Exchange().Key()), size_t> known;
  for (const Op& op : graph.ops) {
    if (!IsExchange(op.kind)) continue;
    Exchange one = MakeExchange(graph, op);
    const auto stand_in = stand_ins.find(op.block);
    const double times = stand_in == stand_ins.end() ? 1 : stand_in->second;
    if (op.phase == Phase::kUpdate && IsCollective(op.kind) && bucket_bytes > 0) {
      one.work.written *= times;
      one.work.received *= times;
      buckets.Add(one);
      continue;
    }
    const auto [it, fresh] = known.try_emplace(one.Key(), exchanges.size());
    if (fresh) exchanges.push_back(one);
    exchanges[it->second].firings +=
        times * (IsOnceAStep(op.phase) ? 1 : static_cast<double>(micro_batches));
  }
  buckets.AddTo(static_cast<double>(bucket_bytes), &exchanges);
  return exchanges;
}

double Seconds(const std::vector<Exchange>& exchanges, const Mesh& mesh,
               const proto::Cluster& cluster, const KernelCost& kernels) {
  double seconds = 0;
  for (const Exchange& exchange : exchanges) {
    BoxingWork work = exchange.work;
    for (const std::string& axis : exchange.axes) work.axes.push_back(mesh.FindAxis(axis));
    std::sort(work.axes.begin(), work.axes.end());
    seconds += exchange.firings * BoxingTime(work, mesh, cluster, kernels).both();
  }
  return seconds;
}

// The axes by the name before the dot: "data.0" and "data.1" are one group.
std::vector<std::vector<Mesh::Axis>> Groups(const Mesh& mesh) {
  std::vector<std::vector<Mesh::Axis>> groups;
  std::string last;
  for (const Mesh::Axis& axis : mesh.axes) {
    const std::string name = axis.name.substr(0, axis.name.find('.'));
    if (groups.empty() || name != last) groups.emplace_back();
    groups.back().push_back(axis);
    last = name;
  }
  return groups;
}

// The mesh of these groups, one after the other.
Mesh Join(const std::vector<std::vector<Mesh::Axis>>& groups) {
  Mesh mesh;
  for (const auto& group : groups) mesh.axes.insert(mesh.axes.end(), group.begin(), group.end());
  return mesh;
}

// Finds the cheapest of meshes with the axes of `graph`, tried one after the other.
class Cheapest {
 public:
  Cheapest(const Graph& graph, const StandIns& stand_ins, const proto::Cluster& cluster,
           int64_t micro_batches, int64_t bucket_bytes)
      : exchanges_(CollectExchanges(graph, stand_ins, micro_batches, bucket_bytes)),
        cluster_(cluster),
        kernels_(cluster.device()),
        best_(graph.mesh),
        least_(Seconds(exchanges_, best_, cluster_, kernels_)) {}

  void Try(const Mesh& mesh) {
    const double seconds = Seconds(exchanges_, mesh, cluster_, kernels_);
    if (seconds >= least_ * (1 - 1e-9)) return;
    best_ = mesh;
    least_ = seconds;
  }
  const Mesh& best() const { return best_; }

 private:
  const std::vector<Exchange> exchanges_;
  const proto::Cluster& cluster_;
  const KernelCost kernels_;
  Mesh best_;
  double least_;
};

}  // namespace

Mesh OrderAxes(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
               int64_t bucket_bytes, const StandIns& stand_ins) {
  const std::vector<std::vector<Mesh::Axis>> groups = Groups(graph.mesh);
  if (groups.size() > kMostGroups) return graph.mesh;
  Cheapest cheapest(graph, stand_ins, cluster, micro_batches, bucket_bytes);
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  while (std::next_permutation(order.begin(), order.end())) {
    std::vector<std::vector<Mesh::Axis>> ordered;
    for (const size_t g : order) ordered.push_back(groups[g]);
    cheapest.Try(Join(ordered));
  }
  return cheapest.best();
}

Mesh PlaceStages(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
                 int64_t bucket_bytes) {
  const int axis = graph.mesh.stage_axis();
  if (axis < 0) return graph.mesh;
  Mesh others = graph.mesh;
  others.axes.erase(others.axes.begin() + axis);
  const std::vector<std::vector<Mesh::Axis>> groups = Groups(others);
  Cheapest cheapest(graph, {}, cluster, micro_batches, bucket_bytes);
  for (size_t at = 0; at <= groups.size(); ++at) {
    std::vector<std::vector<Mesh::Axis>> with = groups;
    with.insert(with.begin() + static_cast<int64_t>(at), {graph.mesh.axes[axis]});
    cheapest.Try(Join(with));
  }
  return cheapest.best();
}

namespace {

// The pass after which a graph has all its exchanges.
constexpr std::string_view kBoxes = "insert_boxing";

// The cluster as if all devices were in one unit of its innermost level.
proto::Cluster Flat(proto::Cluster cluster, const Mesh& mesh) {
  cluster.mutable_level()->DeleteSubrange(1, cluster.level_size() - 1);
  cluster.mutable_level(0)->set_size(mesh.devices());
  return cluster;
}

// The recipe that decides the order of axes within a stage: the model with all its layers on one,
// and a default for whatever law 6 lets a user change without a bit changing. Axes by name: the
// same in whatever order they are written.
proto::Recipe ForOrder(proto::Recipe recipe, Mesh mesh) {
  if (const int stages = mesh.stage_axis(); stages >= 0) {
    mesh.axes.erase(mesh.axes.begin() + stages);
  }
  const auto name = [](const Mesh::Axis& axis) { return axis.name.substr(0, axis.name.find('.')); };
  std::stable_sort(mesh.axes.begin(), mesh.axes.end(),
                   [&](const Mesh::Axis& a, const Mesh::Axis& b) { return name(a) < name(b); });
  *recipe.mutable_mesh() = ToProto(mesh);
  recipe.clear_order();
  recipe.clear_stage_layers();
  recipe.clear_shard();
  recipe.clear_reduce();
  recipe.clear_gather();
  recipe.clear_offload();
  recipe.clear_update_on();
  recipe.clear_overlap();
  recipe.clear_bucket_bytes();
  recipe.clear_prefetch();
  recipe.clear_chunks();
  recipe.clear_extra_in_flight();
  recipe.clear_warm_ups();
  recipe.clear_recompute();
  recipe.clear_schedule();
  recipe.clear_steps_a_round();
  return recipe;
}

// Leaves out blocks that are like others; the result says which ones stand for them. The blocks at
// the ends of a model have other neighbours. A graph that states layouts stays whole.
StandIns Shorten(proto::Graph* graph) {
  const BlockClasses classes = FindBlockClasses(*graph);
  const auto blocks = static_cast<int>(std::ssize(classes.class_of));
  std::map<int, int> stand_in_of;  // by class
  std::map<int, double> times;     // by block that is kept
  for (int b = 0; b < blocks; ++b) {
    const bool at_end = b == 0 || b + 2 >= blocks;
    ++times[at_end ? b : stand_in_of.emplace(classes.class_of[b], b).first->second];
  }
  std::vector<int> kept;
  StandIns stand_ins;
  for (const auto& [block, count] : times) {
    stand_ins[static_cast<int>(kept.size())] = count;
    kept.push_back(block);
  }
  if (std::ssize(kept) == blocks || graph->layout_size() > 0) return {};
  absl::StatusOr<proto::Graph> few = classes.size() == 1
                                         ? WithBlocks(*graph, static_cast<int>(kept.size()))
                                         : KeepBlocks(*graph, kept);
  if (!few.ok()) return {};
  *graph = *std::move(few);
  return stand_ins;
}

// The axes of one stage, ordered. The exchanges of the first program decide, boxed for equal links:
// boxed for unequal links, it would exchange little along whatever axis crosses the slow ones, and
// that axis would stay there.
absl::StatusOr<Mesh> OrderStage(GraphSource source, PlanRequest request) {
  ASSIGN_OR_RETURN(Mesh mesh, MeshFromProto(request.recipe.mesh()));
  if (mesh.axes.size() < 2) return mesh;
  for (proto::Op& op : *source.graph.mutable_op()) op.clear_stage();
  const StandIns stand_ins = Shorten(&source.graph);
  const proto::Cluster cluster = request.cluster;
  request.cluster = Flat(std::move(request.cluster), mesh);
  ASSIGN_OR_RETURN(const FrontEnd front_end,
                   RunFrontEnds(source, request, {.pass = kBoxes, .first = true}, nullptr));
  const ProgramDraft& first = front_end.boxed->drafts.front();
  const proto::Recipe& recipe = front_end.plan.recipe();
  return OrderAxes(first.graph, cluster, first.spec.micro_batches,
                   recipe.overlap() ? recipe.bucket_bytes() : 0, stand_ins);
}

}  // namespace

absl::Status OrderMesh(const GraphSource& source, CompileCache* cache, PlanRequest* request,
                       std::vector<std::string>* notes, std::string_view program) {
  proto::Recipe& recipe = request->recipe;
  const bool orders = !recipe.keep_axis_order() && request->cluster.level_size() > 1;
  recipe.set_keep_axis_order(true);
  if (!orders) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Mesh written, MeshFromProto(recipe.mesh()));
  ASSIGN_OR_RETURN(Mesh mesh, OrderStage(source, {.recipe = ForOrder(recipe, written),
                                                  .cluster = request->cluster,
                                                  .known_layouts = request->known_layouts}));
  if (const int axis = written.stage_axis(); axis >= 0) {
    mesh.axes.insert(mesh.axes.begin(), written.axes[axis]);
  }
  *recipe.mutable_mesh() = ToProto(mesh);
  if (mesh.stages() > 1) {
    // The layouts and the exchanges of a stage are those of one stage alone, so they are the same
    // wherever the stages are: one front end, usually the one that is kept, tells where they
    // belong.
    ASSIGN_OR_RETURN(const FrontEnd front_end,
                     RunFrontEnds(source, *request, {.program = program}, cache));
    const ProgramDraft& first = front_end.boxed->drafts.front();
    const proto::Recipe& complete = front_end.plan.recipe();
    mesh = PlaceStages(first.graph, request->cluster, first.spec.micro_batches,
                       complete.overlap() ? complete.bucket_bytes() : 0);
    *recipe.mutable_mesh() = ToProto(mesh);
  }
  if (!(mesh == written)) {
    notes->push_back(absl::StrCat("mesh ", ToString(mesh),
                                  ": the axes that exchange most are neighbours; written ",
                                  ToString(written), ", --keep_axis_order leaves it so"));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
