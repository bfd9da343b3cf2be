#include "compiler/compile.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/back_end.h"
#include "compiler/fill_memory.h"
#include "compiler/fit_schedule.h"
#include "compiler/lay_axes.h"
#include "compiler/lower/groups.h"
#include "compiler/lower/persistent.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/passes/fold_stages.h"
#include "compiler/programs.h"
#include "compiler/schedule/order_file.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/annotate_gpt.h"
#include "oneflow_core/model/annotate_recompute.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/plan/fingerprint.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/plan/verify_plan.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// The graph with its mesh: which tensors the user or the model's builder has placed.
absl::StatusOr<Graph> LogicalGraph(const GraphSource& source, const CompileOptions& options,
                                   int chunks) {
  ASSIGN_OR_RETURN(Graph logical, GraphFromSource(source));
  RETURN_IF_ERROR(CheckLogicalGraph(logical));
  logical.mesh = options.mesh;
  RETURN_IF_ERROR(AnnotateGpt(&logical, options.mesh,
                              {.split_positions = options.split_positions,
                               .chunks = chunks,
                               .stage_layers = options.stage_layers}));
  RETURN_IF_ERROR(AnnotateRecompute(&logical, options.train.recompute()));
  RETURN_IF_ERROR(FoldStages(&logical, chunks));
  return logical;
}

proto::Plan PlanHeader(const proto::Graph& graph, const CompileOptions& options,
                       const Schedule& schedule) {
  proto::Plan plan;
  plan.set_version(kPlanVersion);
  *plan.mutable_mesh() = ToProto(options.mesh);
  plan.set_stage_axis(options.mesh.stage_axis());
  *plan.mutable_train() = options.train;
  plan.mutable_train()->set_schedule(schedule.name);
  // What the run asks for later must fit, too.
  if (!schedule.rule.synchronous()) plan.mutable_train()->set_no_global_norm(true);
  plan.set_model(graph.name());
  *plan.mutable_graph() = graph;
  plan.set_device_kind(options.device_kind);
  plan.set_launch_queue(1);
  plan.set_kernel_threads(std::max(1, options.cluster.device().kernel_threads()));
  return plan;
}

// The mesh with stages outermost and the other axes by name: the same in whatever order they are
// written.
Mesh Ordered(Mesh mesh) {
  const int stages = mesh.stage_axis();
  const std::string stage = stages < 0 ? "" : mesh.axes[stages].name;
  const auto key = [&](const Mesh::Axis& axis) {
    return std::pair(axis.name != stage, axis.name.substr(0, axis.name.find('.')));
  };
  std::stable_sort(mesh.axes.begin(), mesh.axes.end(),
                   [&](const Mesh::Axis& a, const Mesh::Axis& b) { return key(a) < key(b); });
  return mesh;
}

// The cluster as if all devices were in one unit of its innermost level.
proto::Cluster Flat(proto::Cluster cluster, const Mesh& mesh) {
  cluster.mutable_level()->DeleteSubrange(1, cluster.level_size() - 1);
  cluster.mutable_level(0)->set_size(mesh.devices());
  return cluster;
}

// The mesh with its axes in an order that suits the cluster: by what the first program exchanges
// where all links are alike. Boxed for links that are not, it would exchange little over the slow
// ones, whatever axis lies there, and that axis would stay there.
absl::StatusOr<Mesh> MeshOnCluster(const GraphSource& source, CompileOptions options,
                                   const Schedule& schedule) {
  const proto::Cluster cluster = options.cluster;
  options.mesh = Ordered(std::move(options.mesh));
  options.cluster = Flat(std::move(options.cluster), options.mesh);
  ASSIGN_OR_RETURN(const Graph logical, LogicalGraph(source, options, schedule.chunks));
  ASSIGN_OR_RETURN(std::vector<ProgramDraft> drafts,
                   DraftPrograms(logical, options, schedule.rule));
  ProgramDraft& first = drafts.front();
  RETURN_IF_ERROR(Annotate(FrontEnd(logical, PlanHeader(source.graph, options, schedule), &first),
                           absl::StrCat("program ", first.lower.name)));
  return LaidAxes(first.graph, cluster, first.lower.micro_batches);
}

// The note for `explain` where the axes were given another order.
std::string LaidNote(const Mesh& mesh, const Mesh& written) {
  return absl::StrCat("mesh ", ToString(mesh),
                      ": the axes that exchange most are neighbours; written ", ToString(written),
                      ", --keep_axis_order leaves it so");
}

// The layouts of these programs, in the place of those that the graph stated of them.
void StateLayouts(const std::vector<ProgramDraft>& drafts, proto::Graph* graph) {
  const google::protobuf::RepeatedPtrField<proto::OpLayout> stated = graph->layout();
  graph->clear_layout();
  for (const proto::OpLayout& layout : stated) {
    const bool again = std::any_of(drafts.begin(), drafts.end(), [&](const ProgramDraft& draft) {
      return draft.lower.name == layout.program();
    });
    if (!again) *graph->add_layout() = layout;
  }
  for (const ProgramDraft& draft : drafts) graph->MergeFrom(draft.layouts);
}

absl::StatusOr<proto::Plan> CompileOnMesh(const GraphSource& source, const CompileOptions& options,
                                          Schedule schedule, const Mesh& written) {
  ASSIGN_OR_RETURN(const Graph logical, LogicalGraph(source, options, schedule.chunks));
  ASSIGN_OR_RETURN(std::vector<ProgramDraft> drafts,
                   DraftPrograms(logical, options, schedule.rule));
  const int stages = options.mesh.stages();
  proto::Plan plan = PlanHeader(source.graph, options, schedule);

  // Front end: what is computed, and where. The first program decides how variables lie.
  PersistentIds ids;
  for (ProgramDraft& draft : drafts) {
    RETURN_IF_ERROR(
        Annotate(FrontEnd(logical, plan, &draft), absl::StrCat("program ", draft.lower.name)));
    RETURN_IF_ERROR(AddPersistent(draft.graph, &plan, &ids));
  }
  std::vector<const Graph*> graphs;
  for (const ProgramDraft& draft : drafts) graphs.push_back(&draft.graph);
  const std::vector<proto::Group> groups = GroupsOf(graphs);
  for (const proto::Group& group : groups) *plan.add_group() = group;
  for (ProgramDraft& draft : drafts) draft.lower.groups = groups;
  if (options.state_layouts) StateLayouts(drafts, plan.mutable_graph());
  if (!(options.mesh == written)) plan.mutable_facts()->add_note(LaidNote(options.mesh, written));
  for (const std::string& note : drafts.front().notes) plan.mutable_facts()->add_note(note);

  // Back end: actors and registers, in which order, in how many slots, in which bytes.
  const int64_t capacity = options.cluster.device().memory_bytes();
  ASSIGN_OR_RETURN(const std::optional<Pipe> pipe,
                   PipeToFit(drafts, ids, schedule, stages, options.cluster, plan));
  if (pipe) schedule = Fitted(*pipe, schedule);
  if (options.fill_memory) {
    ASSIGN_OR_RETURN(schedule, FillMemory(drafts, ids, schedule, stages, pipe, plan, capacity));
    plan.mutable_train()->set_extra_in_flight(schedule.extra_in_flight);
  }
  if (pipe) {
    const std::string note = FitNote(*pipe, schedule);
    if (!note.empty()) plan.mutable_facts()->add_note(note);
  }
  RETURN_IF_ERROR(AddPrograms(drafts, ids, schedule, stages, &plan));
  RETURN_IF_ERROR(CheckCapacity(plan, capacity));

  RETURN_IF_ERROR(Annotate(VerifyPlan(plan), "the compiler made a plan that fails its proof"));
  plan.set_fingerprint(Fingerprint(plan));
  return plan;
}

}  // namespace

absl::StatusOr<proto::Plan> Compile(const GraphSource& source, const CompileOptions& options) {
  ASSIGN_OR_RETURN(const Schedule schedule, options.order
                                                ? *options.order
                                                : ScheduleOf(options.train, options.mesh.stages()));
  RETURN_IF_ERROR(CheckFits(schedule, options.mesh.stages(), options.train.micro_batches()));
  if (options.keep_axis_order || options.cluster.level_size() < 2) {
    return CompileOnMesh(source, options, schedule, options.mesh);
  }
  CompileOptions laid = options;
  ASSIGN_OR_RETURN(laid.mesh, MeshOnCluster(source, options, schedule));
  return CompileOnMesh(source, laid, schedule, options.mesh);
}

absl::StatusOr<proto::Plan> Compile(const proto::Graph& graph, std::string_view file,
                                    const CompileOptions& options) {
  return Compile(GraphSource{graph, std::string(file), {}}, options);
}

}  // namespace oneflow
