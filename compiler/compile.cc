// Compiles a graph to a plan, one step after the other. Next: compiler/sbp/infer_sbp.h, the pass
// that chooses the layout of every tensor.
#include "compiler/compile.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/back_end.h"
#include "compiler/check_gathers.h"
#include "compiler/fill_memory.h"
#include "compiler/fit_schedule.h"
#include "compiler/front_end.h"
#include "compiler/lower/groups.h"
#include "compiler/lower/overlap.h"
#include "compiler/lower/persistent.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/order_axes.h"
#include "compiler/passes/passes.h"
#include "compiler/programs.h"
#include "compiler/schedule/order_file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/model/annotate_offload.h"
#include "oneflow_core/model/annotate_recompute.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/plan/fingerprint.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// The graph with its mesh: which tensors the user or the model's builder has placed.
absl::StatusOr<Graph> LogicalGraph(const GraphSource& source, const CompileOptions& options,
                                   int chunks) {
  ASSIGN_OR_RETURN(Graph logical, GraphFromSource(source));
  RETURN_IF_ERROR(CheckLogicalGraph(logical));
  logical.mesh = options.mesh;
  RETURN_IF_ERROR(AnnotateModel(&logical, options.mesh,
                                {.split_positions = options.split_positions,
                                 .shard = options.shard,
                                 .experts = options.experts,
                                 .chunks = chunks,
                                 .stage_layers = options.stage_layers}));
  RETURN_IF_ERROR(AnnotateRecompute(&logical, options.train.recompute(), chunks));
  AnnotateOffload(options.offload, &logical);
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
  plan.set_launch_queue(options.device_kind == proto::CPU ? 1 : kLaunchQueue);
  plan.set_kernel_threads(std::max(1, options.cluster.device().kernel_threads()));
  return plan;
}

// The cluster as if all devices were in one unit of its innermost level.
proto::Cluster Flat(proto::Cluster cluster, const Mesh& mesh) {
  cluster.mutable_level()->DeleteSubrange(1, cluster.level_size() - 1);
  cluster.mutable_level(0)->set_size(mesh.devices());
  return cluster;
}

// The pass after which a graph has all its exchanges.
constexpr std::string_view kBoxes = "insert_boxing";

bool OrdersAxes(const CompileOptions& options) {
  return !options.keep_axis_order && options.cluster.level_size() > 1;
}

// The mesh with its axes ordered. The exchanges of the first program decide, boxed for equal
// links: boxed for unequal links, it would exchange little along whatever axis crosses the slow
// ones, and that axis would stay there.
absl::StatusOr<Mesh> WithAxes(const GraphSource& source, CompileOptions options,
                              const Schedule& schedule) {
  const proto::Cluster cluster = options.cluster;
  options.cluster = Flat(std::move(options.cluster), options.mesh);
  ASSIGN_OR_RETURN(const Graph logical, LogicalGraph(source, options, schedule.chunks));
  ASSIGN_OR_RETURN(std::vector<ProgramDraft> drafts,
                   DraftPrograms(logical, options, schedule.rule));
  ProgramDraft& first = drafts.front();
  RETURN_IF_ERROR(
      Annotate(RunFrontEnd(logical, PlanHeader(source.graph, options, schedule), &first, kBoxes),
               absl::StrCat("program ", first.lower.name)));
  return OrderAxes(first.graph, cluster, first.lower.micro_batches,
                   first.lower.overlap ? options.bucket_bytes : 0);
}

// The note for `explain` where the axes were given another order.
std::string LaidNote(const Mesh& mesh, const Mesh& written) {
  return absl::StrCat("mesh ", ToString(mesh),
                      ": the axes that exchange most are neighbours; written ", ToString(written),
                      ", --keep_axis_order leaves it so");
}

// Replaces the layouts that the graph states for these programs by the chosen ones.
void StateLayouts(const std::vector<ProgramDraft>& drafts, proto::Graph* graph) {
  const google::protobuf::RepeatedPtrField<proto::OpLayout> stated = graph->layout();
  graph->clear_layout();
  for (const proto::OpLayout& layout : stated) {
    const bool replaced = std::any_of(drafts.begin(), drafts.end(), [&](const ProgramDraft& draft) {
      return draft.lower.name == layout.program();
    });
    if (!replaced) *graph->add_layout() = layout;
  }
  for (const ProgramDraft& draft : drafts) graph->MergeFrom(draft.layouts);
}

// All programs with boxed graphs, and a plan that has what they share.
struct Boxed {
  std::vector<ProgramDraft> drafts;
  proto::Plan plan;
  PersistentIds ids;
};

// The front end: the ops and their layouts. The first program decides the layouts of variables. If
// `program` is named, it is the last one, and its passes end with `pass`.
absl::StatusOr<Boxed> RunFrontEnds(const GraphSource& source, const CompileOptions& options,
                                   const Schedule& schedule, std::string_view program = "",
                                   std::string_view pass = "") {
  ASSIGN_OR_RETURN(const Graph logical, LogicalGraph(source, options, schedule.chunks));
  RETURN_IF_ERROR(CheckGathers(logical, options, schedule));
  Boxed boxed;
  ASSIGN_OR_RETURN(boxed.drafts, DraftPrograms(logical, options, schedule.rule));
  const auto last = std::find_if(boxed.drafts.begin(), boxed.drafts.end(),
                                 [&](const auto& draft) { return draft.lower.name == program; });
  if (!program.empty()) {
    if (last == boxed.drafts.end()) {
      return InputError(absl::StrCat("--program=", ToAbsl(program)),
                        "the graph gives no such program",
                        absl::StrCat("its first is ", boxed.drafts.front().lower.name));
    }
    boxed.drafts.erase(last + 1, boxed.drafts.end());
  }
  boxed.plan = PlanHeader(source.graph, options, schedule);
  std::vector<const Graph*> graphs;
  for (ProgramDraft& draft : boxed.drafts) {
    const bool named = draft.lower.name == program;
    RETURN_IF_ERROR(Annotate(RunFrontEnd(logical, boxed.plan, &draft, named ? pass : ""),
                             absl::StrCat("program ", draft.lower.name)));
    if (named && !pass.empty()) return boxed;
    RETURN_IF_ERROR(AddPersistent(draft.graph, &boxed.plan, &boxed.ids));
    graphs.push_back(&draft.graph);
  }
  const std::vector<proto::Group> groups = FindGroups(graphs);
  for (const proto::Group& group : groups) *boxed.plan.add_group() = group;
  for (ProgramDraft& draft : boxed.drafts) draft.lower.groups = groups;
  return boxed;
}

// The front end with the stages where they cost least: `options` have a mesh with the stages
// outermost, and get the one of the result. The layouts and the exchanges of a stage are those of
// one stage alone, so they are the same wherever the stages are: one front end tells where they
// belong, and it is usually the one whose graphs are kept. `program`: the last one; empty: all.
absl::StatusOr<Boxed> RunPlacedFrontEnds(const GraphSource& source, const Schedule& schedule,
                                         CompileOptions* options, std::string_view program = "") {
  ASSIGN_OR_RETURN(Boxed boxed, RunFrontEnds(source, *options, schedule, program));
  if (!OrdersAxes(*options) || options->mesh.stages() < 2) return boxed;
  const ProgramDraft& first = boxed.drafts.front();
  Mesh placed = PlaceStages(first.graph, options->cluster, first.lower.micro_batches,
                            first.lower.overlap ? options->bucket_bytes : 0);
  if (placed == options->mesh) return boxed;
  options->mesh = std::move(placed);
  return RunFrontEnds(source, *options, schedule, program);
}

// The back end: actors and registers, in which order, in how many slots, in which bytes.
absl::StatusOr<proto::Plan> WithPrograms(const Boxed& boxed, const CompileOptions& options,
                                         Schedule schedule) {
  const std::vector<ProgramDraft>& drafts = boxed.drafts;
  const PersistentIds& ids = boxed.ids;
  proto::Plan plan = boxed.plan;
  const int stages = options.mesh.stages();
  const int64_t capacity = options.cluster.device().memory_bytes();
  ASSIGN_OR_RETURN(const std::optional<StageTimes> pipe,
                   FindStageTimes(drafts, ids, schedule, stages, options.cluster, plan));
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
  RETURN_IF_ERROR(CheckHostCapacity(plan, options.cluster, options.host_memory));

  // The proof calls it damaged input; here it is an error of the compiler's own.
  if (const absl::Status proof = VerifyPlan(plan); !proof.ok()) {
    return absl::InternalError(
        absl::StrCat("the compiler made a plan that fails its proof: ", proof.message()));
  }
  plan.set_fingerprint(Fingerprint(plan));
  return plan;
}

// The plan of the first program without addresses, with the bytes that it needs at least.
absl::StatusOr<proto::Plan> Drafted(const Boxed& boxed, const CompileOptions& options,
                                    Schedule schedule) {
  proto::Plan plan = boxed.plan;
  const int stages = options.mesh.stages();
  ASSIGN_OR_RETURN(
      const std::optional<StageTimes> pipe,
      FindStageTimes(boxed.drafts, boxed.ids, schedule, stages, options.cluster, plan));
  if (pipe) schedule = Fitted(*pipe, schedule);
  RETURN_IF_ERROR(AddDraft(boxed.drafts.front(), boxed.ids, schedule, stages, &plan));
  return plan;
}

// Whether a device needs more than it has, wherever its registers are. A draft takes a fraction of
// the time of a plan.
bool NeedsTooMuch(const Boxed& boxed, const CompileOptions& options, const Schedule& schedule) {
  const int64_t capacity = options.cluster.device().memory_bytes();
  if (capacity <= 0) return false;
  const absl::StatusOr<proto::Plan> plan = Drafted(boxed, options, schedule);
  if (!plan.ok()) return false;
  for (int arena = 0; arena < plan->memory_size(); ++arena) {
    const bool device = plan->memory(arena).kind() == proto::DEVICE;
    if (device && plan->facts().lower_bound_bytes(arena) > capacity) return true;
  }
  return false;
}

bool GathersAhead(const std::vector<ProgramDraft>& drafts) {
  return std::any_of(drafts.begin(), drafts.end(), [](const ProgramDraft& draft) {
    if (!draft.lower.overlap) return false;
    const std::vector<Lane> lanes = ExchangeLanes(draft.graph, /*gathers_ahead=*/true);
    return std::find(lanes.begin(), lanes.end(), Lane::kGather) != lanes.end();
  });
}

// True if uses of what rests in the host's memory are copied ahead.
bool AnyCopiesAhead(const std::vector<ProgramDraft>& drafts) {
  return std::any_of(drafts.begin(), drafts.end(), [](const ProgramDraft& draft) {
    return draft.lower.prefetch > 1 && !draft.lower.offload.empty();
  });
}

// `only_if_least_fits`: a plan that cannot fit is not made.
absl::StatusOr<proto::Plan> CompileOnMesh(const GraphSource& source, const CompileOptions& given,
                                          const Schedule& schedule, const Mesh& written,
                                          bool only_if_least_fits = false) {
  CompileOptions options = given;
  ASSIGN_OR_RETURN(Boxed boxed, RunPlacedFrontEnds(source, schedule, &options));
  auto& [drafts, plan, ids] = boxed;
  if (options.state_layouts) StateLayouts(drafts, plan.mutable_graph());
  if (!(options.mesh == written)) plan.mutable_facts()->add_note(LaidNote(options.mesh, written));
  for (const std::string& note : drafts.front().notes) plan.mutable_facts()->add_note(note);
  absl::StatusOr<proto::Plan> made = absl::ResourceExhaustedError("needs more than a device has");
  if (!only_if_least_fits || !NeedsTooMuch(boxed, options, schedule)) {
    made = WithPrograms(boxed, options, schedule);
  }
  if (options.prefetch || (!GathersAhead(drafts) && !AnyCopiesAhead(drafts))) return made;
  for (int ahead = kUsualPrefetch; ahead > 0 && absl::IsResourceExhausted(made.status());) {
    --ahead;
    for (ProgramDraft& draft : drafts) draft.lower.prefetch = ahead;
    Boxed fewer = boxed;
    fewer.plan.mutable_facts()->add_note(
        absl::StrCat("--prefetch=", ahead, ": more uses ahead do not fit a device"));
    // The refusal says what the last one needs.
    const bool says = ahead == 0 && !only_if_least_fits;
    if (says || !NeedsTooMuch(fewer, options, schedule)) {
      made = WithPrograms(fewer, options, schedule);
    }
  }
  return made;
}

}  // namespace

bool OverlapsExchanges(const CompileOptions& options) {
  return options.overlap.value_or(options.device_kind != proto::CPU ||
                                  options.cluster.device().kind() != proto::Device::CPU);
}

namespace {

absl::StatusOr<Schedule> ScheduleFor(const CompileOptions& options) {
  const int stages = options.mesh.stages();
  ASSIGN_OR_RETURN(Schedule schedule,
                   options.order ? *options.order : MakeSchedule(options.train, stages));
  RETURN_IF_ERROR(CheckFits(schedule, stages, options.train.micro_batches()));
  return schedule;
}

// What decides the order of axes within a stage: the model with all its layers on one, and nothing
// that law 6 lets a user change without a bit changing. Axes by name: the same in whatever order
// they are written.
CompileOptions ForOrder(CompileOptions options) {
  const int stages = options.mesh.stage_axis();
  if (stages >= 0) options.mesh.axes.erase(options.mesh.axes.begin() + stages);
  const auto name = [](const Mesh::Axis& axis) { return axis.name.substr(0, axis.name.find('.')); };
  std::stable_sort(options.mesh.axes.begin(), options.mesh.axes.end(),
                   [&](const Mesh::Axis& a, const Mesh::Axis& b) { return name(a) < name(b); });
  const CompileOptions usual;
  options.order = usual.order;
  options.stage_layers = usual.stage_layers;
  options.shard = usual.shard;
  options.offload = usual.offload;
  options.overlap = usual.overlap;
  options.bucket_bytes = usual.bucket_bytes;
  options.prefetch = usual.prefetch;
  options.train.set_schedule("1f1b");
  options.train.clear_chunks();
  options.train.clear_extra_in_flight();
  options.train.clear_recompute();
  return options;
}

// The options with the axes of the mesh in the order that suits the cluster: those of a stage as
// they would stand if it were the only one, and the stages outermost, until they are placed.
absl::StatusOr<CompileOptions> WithOrderedAxes(const GraphSource& source,
                                               const CompileOptions& options) {
  CompileOptions ordered = options;
  if (!OrdersAxes(options)) return ordered;
  const CompileOptions one = ForOrder(options);
  ordered.mesh = one.mesh;
  if (one.mesh.axes.size() > 1) {
    GraphSource of_one = source;
    for (proto::Op& op : *of_one.graph.mutable_op()) op.clear_stage();
    ASSIGN_OR_RETURN(const Schedule alone, MakeSchedule(one.train, /*stages=*/1));
    ASSIGN_OR_RETURN(ordered.mesh, WithAxes(of_one, one, alone));
  }
  if (const int axis = options.mesh.stage_axis(); axis >= 0) {
    ordered.mesh.axes.insert(ordered.mesh.axes.begin(), options.mesh.axes[axis]);
  }
  return ordered;
}

// A plan that does not fit its devices is refused; other layouts, which may fit, would move bits.
// They can be stated: those that `options` give without a cluster, if with them `ordered` fits.
absl::Status WithLayoutsThatFit(const absl::Status& refused, GraphSource source,
                                const CompileOptions& options, const CompileOptions& ordered,
                                const Schedule& schedule) {
  if (options.cluster.level_size() == 0 || source.graph.layout_size() > 0) return refused;
  CompileOptions alike = options;
  alike.cluster.Clear();
  alike.state_layouts = true;
  absl::StatusOr<Boxed> stated = RunPlacedFrontEnds(source, schedule, &alike);
  if (!stated.ok()) return refused;
  StateLayouts(stated->drafts, stated->plan.mutable_graph());
  source.graph = stated->plan.graph();
  if (!CompileOnMesh(source, ordered, schedule, options.mesh, /*only_if_least_fits=*/true).ok()) {
    return refused;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(refused.message(),
                   "; the layouts for an unknown cluster fit: compile without --cluster and with "
                   "--layouts_out=FILE, then with --cluster and --graph=FILE"));
}

}  // namespace

absl::StatusOr<proto::Plan> Compile(const GraphSource& source, const CompileOptions& given) {
  CompileOptions options = given;
  if (!options.known_layouts) options.known_layouts = std::make_shared<KnownLayouts>();
  ASSIGN_OR_RETURN(const Schedule schedule, ScheduleFor(options));
  ASSIGN_OR_RETURN(const CompileOptions ordered, WithOrderedAxes(source, options));
  absl::StatusOr<proto::Plan> plan = CompileOnMesh(source, ordered, schedule, options.mesh);
  if (!absl::IsResourceExhausted(plan.status())) return plan;
  return WithLayoutsThatFit(plan.status(), source, options, ordered, schedule);
}

absl::StatusOr<proto::Plan> DraftPlan(const GraphSource& source, const CompileOptions& options) {
  ASSIGN_OR_RETURN(const Schedule schedule, ScheduleFor(options));
  ASSIGN_OR_RETURN(CompileOptions ordered, WithOrderedAxes(source, options));
  ASSIGN_OR_RETURN(const Boxed boxed, RunPlacedFrontEnds(source, schedule, &ordered, "train"));
  return Drafted(boxed, ordered, schedule);
}

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const FrontEndPass& pass : FrontEndPasses()) names.emplace_back(pass.name);
  for (const BackEndStep& step : BackEndSteps()) names.emplace_back(step.name);
  return names;
}

absl::StatusOr<std::string> TextAfter(const GraphSource& source, const CompileOptions& options,
                                      std::string_view program, std::string_view pass) {
  const std::vector<std::string> names = PassNames();
  const auto found = std::find(names.begin(), names.end(), pass);
  if (found == names.end()) {
    return InputError(absl::StrCat("--after=", ToAbsl(pass)), "there is no such pass",
                      absl::StrCat("use ", absl::StrJoin(names, ", ")));
  }
  ASSIGN_OR_RETURN(const Schedule schedule, ScheduleFor(options));
  ASSIGN_OR_RETURN(CompileOptions ordered, WithOrderedAxes(source, options));
  if (OrdersAxes(ordered)) {
    RETURN_IF_ERROR(RunPlacedFrontEnds(source, schedule, &ordered).status());
  }
  const bool front = found - names.begin() < std::ssize(FrontEndPasses());
  ASSIGN_OR_RETURN(Boxed boxed,
                   RunFrontEnds(source, ordered, schedule, program, front ? pass : ""));
  const ProgramDraft& draft = boxed.drafts.back();
  if (front) return ToText(draft.graph, {.why = true});
  const int stages = ordered.mesh.stages();
  BackEndState state{boxed.plan, draft, boxed.ids, schedule, stages, draft.lower.micro_batches};
  RETURN_IF_ERROR(RunBackEnd(&state, pass));
  *boxed.plan.add_program() = state.lowered.program;
  return PlanText(boxed.plan, std::string(program));
}

absl::StatusOr<proto::Plan> Compile(const proto::Graph& graph, std::string_view file,
                                    const CompileOptions& options) {
  return Compile(GraphSource{graph, std::string(file), {}}, options);
}

}  // namespace oneflow
