#include "compiler/boxed_programs.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/check_gathers.h"
#include "compiler/front_end.h"
#include "compiler/lower/groups.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/stop.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/annotate_model.h"
#include "oneflow_core/model/annotate_offload.h"
#include "oneflow_core/model/annotate_queues.h"
#include "oneflow_core/model/annotate_recompute.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/train/learning_rate.h"

namespace oneflow {
namespace {

// The graph with its mesh: which tensors the user or the model's builder has placed.
absl::StatusOr<Graph> LogicalGraph(const GraphSource& source, const Mesh& mesh,
                                   const PlanRequest& request, int chunks) {
  const proto::Recipe& recipe = request.recipe;
  ASSIGN_OR_RETURN(Graph logical, GraphFromSource(source));
  RETURN_IF_ERROR(CheckLogicalGraph(logical));
  logical.mesh = mesh;
  RETURN_IF_ERROR(AnnotateModel(&logical, mesh, recipe, chunks));
  if (request.imbalance > 0) PriceQueues(request.imbalance, &logical);
  RETURN_IF_ERROR(
      AnnotateRecompute(&logical, recipe.recompute(), FindBlockClasses(source.graph), chunks));
  AnnotateOffload(recipe, &logical);
  RETURN_IF_ERROR(FoldStages(&logical, chunks));
  return logical;
}

proto::Plan PlanHeader(const proto::Graph& graph, const PlanRequest& request, const Mesh& mesh) {
  proto::Plan plan;
  plan.set_version(kPlanVersion);
  *plan.mutable_mesh() = request.recipe.mesh();
  plan.set_stage_axis(mesh.stage_axis());
  *plan.mutable_recipe() = request.recipe;
  *plan.mutable_cluster() = request.cluster;
  if (request.optimizer.ByteSizeLong() > 0) *plan.mutable_optimizer() = request.optimizer;
  plan.set_model(graph.name());
  *plan.mutable_graph() = graph;
  const proto::DeviceKind device = request.recipe.device();
  plan.set_device_kind(device);
  plan.set_launch_queue(device == proto::CPU ? 1 : kLaunchQueue);
  plan.set_kernel_threads(std::max(1, request.cluster.device().kernel_threads()));
  return plan;
}

// Replaces the layouts that the graph states for these programs by the chosen ones.
void StateLayouts(const std::vector<ProgramDraft>& drafts, proto::Graph* graph) {
  const google::protobuf::RepeatedPtrField<proto::OpLayout> stated = graph->layout();
  graph->clear_layout();
  for (const proto::OpLayout& layout : stated) {
    const bool replaced = std::any_of(drafts.begin(), drafts.end(), [&](const ProgramDraft& draft) {
      return draft.spec.name == layout.program();
    });
    if (!replaced) *graph->add_layout() = layout;
  }
  for (const ProgramDraft& draft : drafts) graph->MergeFrom(draft.layouts);
}

// Leaves out the programs behind the named one.
absl::Status EndWith(std::string_view program, std::vector<ProgramDraft>* drafts) {
  if (program.empty()) return absl::OkStatus();
  const auto last = std::find_if(drafts->begin(), drafts->end(),
                                 [&](const auto& draft) { return draft.spec.name == program; });
  if (last == drafts->end()) {
    return InputError(absl::StrCat("--program=", ToAbsl(program)),
                      "the graph gives no such program",
                      absl::StrCat("its first is ", drafts->front().spec.name));
  }
  drafts->erase(last + 1, drafts->end());
  return absl::OkStatus();
}

absl::StatusOr<BoxedPrograms> BoxAll(const GraphSource& source, const PlanRequest& request,
                                     const Schedule& schedule, const FrontEndPart& part) {
  auto known_layouts = request.known_layouts;
  if (known_layouts == nullptr) known_layouts = std::make_shared<KnownLayouts>();
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(request.recipe.mesh()));
  ASSIGN_OR_RETURN(const Graph logical, LogicalGraph(source, mesh, request, schedule.chunks));
  RETURN_IF_ERROR(CheckGathers(logical, request.recipe, schedule));
  BoxedPrograms boxed{.plan = PlanHeader(source.graph, request, mesh)};
  ASSIGN_OR_RETURN(boxed.drafts, DraftPrograms(logical, boxed.plan, schedule.rule));
  RETURN_IF_ERROR(EndWith(part.program, &boxed.drafts));
  if (part.first) boxed.drafts.resize(1);
  std::vector<const Graph*> graphs;
  for (ProgramDraft& draft : boxed.drafts) {
    RETURN_IF_ERROR(CheckStop(request.stop));
    const std::string_view pass = &draft == &boxed.drafts.back() ? part.pass : "";
    RETURN_IF_ERROR(Annotate(RunFrontEnd(logical, boxed.plan, known_layouts, &draft, pass),
                             absl::StrCat("program ", draft.spec.name)));
    if (!pass.empty()) return boxed;
    RETURN_IF_ERROR(AddPersistent(draft.graph, &boxed.plan, &boxed.ids));
    graphs.push_back(&draft.graph);
  }
  for (const proto::Group& group : FindGroups(graphs)) *boxed.plan.add_group() = group;
  if (request.recipe.state_layouts()) StateLayouts(boxed.drafts, boxed.plan.mutable_graph());
  for (const std::string& note : boxed.drafts.front().notes) {
    boxed.plan.mutable_facts()->add_note(note);
  }
  return boxed;
}

// What the front end depends on, beside the graph: all but what the back end alone obeys.
// CheckGathers counts micro-batches in flight by the schedule, but whether there are more than one
// does not depend on extra_in_flight and warm_ups.
std::string CacheKey(const PlanRequest& request, const FrontEndPart& part) {
  proto::Recipe recipe = request.recipe;
  recipe.clear_prefetch();
  recipe.clear_warm_ups();
  recipe.clear_extra_in_flight();
  recipe.clear_fill_memory();
  recipe.clear_host_memory();
  return absl::StrCat(recipe.SerializeAsString(), "\n", request.cluster.SerializeAsString(), "\n",
                      request.optimizer.SerializeAsString(), "\n", ToAbsl(part.program), "\n",
                      ToAbsl(part.pass), "\n", part.first, "\n", request.imbalance);
}

absl::StatusOr<std::shared_ptr<const BoxedPrograms>> FindOrBox(const GraphSource& source,
                                                               const PlanRequest& request,
                                                               const Schedule& schedule,
                                                               const FrontEndPart& part,
                                                               CompileCache* cache) {
  // The first programs are also those of all.
  if (cache->boxed != nullptr && part.pass.empty() && cache->key == CacheKey(request, {})) {
    return cache->boxed;
  }
  std::string key = CacheKey(request, part);
  if (cache->boxed == nullptr || cache->key != key) {
    ASSIGN_OR_RETURN(BoxedPrograms boxed, BoxAll(source, request, schedule, part));
    cache->boxed = std::make_shared<const BoxedPrograms>(std::move(boxed));
    cache->key = std::move(key);
  }
  return cache->boxed;
}

}  // namespace

absl::StatusOr<FrontEnd> RunFrontEnds(const GraphSource& source, const PlanRequest& request,
                                      const FrontEndPart& part, CompileCache* cache) {
  CompileCache none;
  ASSIGN_OR_RETURN(const PlanRequest complete, Completed(request));
  RETURN_IF_ERROR(CheckClip(complete.optimizer, complete.recipe.global_norm()));
  FrontEnd front_end;
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(complete.recipe.mesh()));
  front_end.stages = mesh.stages();
  ASSIGN_OR_RETURN(front_end.schedule, MakeSchedule(complete.recipe, front_end.stages));
  ASSIGN_OR_RETURN(front_end.boxed, FindOrBox(source, complete, front_end.schedule, part,
                                              cache == nullptr ? &none : cache));
  front_end.plan = front_end.boxed->plan;
  *front_end.plan.mutable_recipe() = complete.recipe;
  return front_end;
}

}  // namespace oneflow
