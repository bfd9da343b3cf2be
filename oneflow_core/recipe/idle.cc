#include "oneflow_core/recipe/idle.h"

#include <algorithm>

namespace oneflow {
namespace {

constexpr std::string_view kNoTokens =
    "no axis of 2 or more devices splits tokens (data, expert, context)";
constexpr std::string_view kNoTensor = "the mesh has no axis tensor of 2 or more devices";
constexpr std::string_view kOneDevice = "one device exchanges nothing";

// The name of an axis: "data" of the factor data.0.
std::string_view AxisWord(std::string_view axis) { return axis.substr(0, axis.find('.')); }

// True if an axis of one of these names, or a factor of it, has two devices or more.
bool HasAxis(const Mesh& mesh, std::initializer_list<std::string_view> names) {
  return std::any_of(mesh.axes.begin(), mesh.axes.end(), [&](const Mesh::Axis& axis) {
    return axis.size > 1 &&
           std::find(names.begin(), names.end(), AxisWord(axis.name)) != names.end();
  });
}

bool HasTokenAxis(const Mesh& mesh) { return HasAxis(mesh, {"data", "expert", "context"}); }

bool HasVariable(const proto::Graph& graph) {
  return std::any_of(graph.op().begin(), graph.op().end(),
                     [](const proto::Op& op) { return op.kind() == "variable"; });
}

bool HasFrozen(const proto::Graph& graph) {
  return std::any_of(graph.op().begin(), graph.op().end(), [](const proto::Op& op) {
    const auto frozen = op.attr().find("frozen");
    return frozen != op.attr().end() && frozen->second.b();
  });
}

bool Trains(const proto::Graph& graph) { return !graph.loss().empty() && HasVariable(graph); }

bool Offloads(const proto::Offload& offload) {
  return offload.has_activations() || offload.states() || offload.weights();
}

// True if data rests in the host's memory, as the recipe or the graph itself says.
bool Rests(const PlanCase& plan) {
  const auto& ops = plan.graph.op();
  return Offloads(plan.recipe.offload()) || plan.recipe.update_on() == proto::UPDATE_ON_HOST ||
         std::any_of(ops.begin(), ops.end(),
                     [](const proto::Op& op) { return op.attr().contains("host"); });
}

// The size of a variable's dimension of this name, at most; 0: none has it.
int64_t FindDim(const proto::Graph& graph, std::string_view name) {
  int64_t most = 0;
  for (const proto::Op& op : graph.op()) {
    for (const proto::Shape::Dim& dim : op.shape().dim()) {
      if (op.kind() == "variable" && dim.name() == name) most = std::max(most, dim.size());
    }
  }
  return most;
}

int CountBlocks(const proto::Graph& graph) {
  int blocks = 0;
  for (const proto::Op& op : graph.op()) {
    if (op.has_block()) blocks = std::max(blocks, op.block() + 1);
  }
  return blocks;
}

// Tokens of a micro-batch over all devices; 0: the graph reads no sequences.
int64_t CountTokens(const PlanCase& plan) {
  for (const proto::Op& op : plan.graph.op()) {
    if (op.kind() != "input" || op.shape().dim_size() != 2) continue;
    return plan.recipe.batch() / plan.recipe.micro_batches() * op.shape().dim(1).size();
  }
  return 0;
}

std::string_view Unless(bool acts, std::string_view why) { return acts ? "" : why; }

}  // namespace

std::string_view IdleShard(const PlanCase& plan) {
  const proto::Shard& shard = plan.recipe.shard();
  return Unless((shard.states().empty() && shard.weights().empty()) || HasTokenAxis(plan.mesh),
                kNoTokens);
}

std::string_view IdleGather(const PlanCase& plan) {
  return Unless(plan.recipe.gather() == proto::EACH_USE || !plan.recipe.shard().weights().empty(),
                "--shard splits no weights");
}

std::string_view IdleReduce(const PlanCase& plan) {
  return Unless(plan.recipe.reduce().axis().empty() || HasTokenAxis(plan.mesh), kNoTokens);
}

std::string_view IdleSequenceParallel(const PlanCase& plan) {
  return Unless(!plan.recipe.sequence_parallel() || HasAxis(plan.mesh, {"tensor"}), kNoTensor);
}

std::string_view IdleSplitProducts(const PlanCase& plan) {
  return Unless(!plan.recipe.split_products() || HasAxis(plan.mesh, {"tensor"}), kNoTensor);
}

std::string_view IdleAxisOrder(const PlanCase& plan) {
  const auto split = std::count_if(plan.mesh.axes.begin(), plan.mesh.axes.end(),
                                   [](const Mesh::Axis& axis) { return axis.size > 1; });
  return Unless(!plan.recipe.keep_axis_order() || split >= 2,
                "the mesh has fewer than two axes of 2 or more devices");
}

std::string_view IdleOverlap(const PlanCase& plan) {
  return Unless(!plan.recipe.overlap() || plan.mesh.devices() > 1 || Rests(plan), kOneDevice);
}

std::string_view IdleBuckets(const PlanCase& plan) {
  if (plan.mesh.devices() == 1) return kOneDevice;
  return Unless(plan.recipe.overlap(), "exchanges are joined only with --overlap=true");
}

std::string_view IdleContextPieces(const PlanCase& plan) {
  const int pieces = plan.recipe.context_pieces();
  if (pieces > 1 && !HasAxis(plan.mesh, {"context"})) {
    return "the mesh has no axis context of 2 or more devices";
  }
  const int64_t groups = FindDim(plan.graph, "groups");
  const int64_t heads = groups > 0 ? groups : FindDim(plan.graph, "heads");
  return Unless(heads == 0 || pieces <= heads,
                "asks for more than there is: keys and values have fewer heads");
}

std::string_view IdlePrefetch(const PlanCase& plan) {
  if (plan.mesh.devices() == 1 && !Rests(plan)) return kOneDevice;
  return Unless(plan.recipe.overlap(), "uses run ahead only with --overlap=true");
}

std::string_view IdleRecompute(const PlanCase& plan) {
  const int blocks = CountBlocks(plan.graph);
  for (const proto::Recompute::Term& term : plan.recipe.recompute().term()) {
    for (const int count : term.counts()) {
      if (blocks > 0 && count > blocks)
        return "asks for more than there is: the model has fewer blocks";
    }
  }
  return Unless(
      !plan.recipe.recompute().gather() || HasTokenAxis(plan.mesh) ||
          HasAxis(plan.mesh, {"tensor"}),
      "without an axis data, context or tensor of 2 or more devices the forward gathers nothing");
}

std::string_view IdleSchedule(const PlanCase& plan) {
  const std::string& name = plan.recipe.schedule();
  return Unless(plan.mesh.stages() > 1 || (name != "interleaved" && name != "zero_bubble"),
                "the mesh has no axis pipe of 2 or more devices");
}

std::string_view IdleExtraInFlight(const PlanCase& plan) {
  return Unless(plan.mesh.stages() > 1 || plan.recipe.extra_in_flight() == 0,
                "the mesh has no axis pipe of 2 or more devices");
}

std::string_view IdleMaskedLabels(const PlanCase& plan) {
  if (!plan.recipe.masked_labels()) return "";
  if (plan.recipe.documents()) return "--documents has labels counted already";
  return Unless(!plan.graph.loss().empty(), "the graph has no loss");
}

std::string_view IdleLossPieces(const PlanCase& plan) {
  const int64_t tokens = CountTokens(plan);
  return Unless(tokens == 0 || plan.recipe.loss_pieces() <= tokens,
                "asks for more than there is: a micro-batch has fewer tokens");
}

std::string_view IdleOffload(const PlanCase& plan) {
  const proto::Offload& offload = plan.recipe.offload();
  const bool moves_weights = offload.weights() && HasVariable(plan.graph);
  return Unless(!Offloads(offload) || Trains(plan.graph) || moves_weights,
                "the graph has no loss of variables, so nothing is kept for a backward or an "
                "update");
}

std::string_view IdleUpdateOn(const PlanCase& plan) {
  return Unless(plan.recipe.update_on() != proto::UPDATE_ON_HOST || Trains(plan.graph),
                "the graph has no loss of variables, so nothing is updated");
}

std::string_view IdleHostMemory(const PlanCase& plan) {
  return Unless(plan.recipe.device() != proto::CPU || Rests(plan),
                "without --offload or --update_on=host nothing of a CPU device rests in the host's "
                "memory");
}

std::string_view IdleFrozenWeights(const PlanCase& plan) {
  return Unless(HasFrozen(plan.graph), "the graph has no frozen variable");
}

}  // namespace oneflow
