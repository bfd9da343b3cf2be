#include "tools/oneflow/cli/plan_flags.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/order_file.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/model/annotate_queues.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/parse_bytes.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/verify/verify_plan.h"
#include "planning/recipe/changes_that_fit.h"
#include "planning/recipe/make_plan.h"
#include "planning/recipe/price_queues.h"
#include "tools/oneflow/cli/cluster_flags.h"
#include "tools/oneflow/cli/drop_dependents.h"
#include "tools/oneflow/cli/flag_table.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/idle_flags.h"
#include "tools/oneflow/cli/masked_data.h"
#include "tools/oneflow/cli/named_graph.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/warn_of_axes.h"
#include "training/checkpoint/base.h"
#include "training/checkpoint/checkpoint.h"
#include "training/trainer/resume.h"

namespace oneflow {
namespace {

// True of a run that may go on from a checkpoint.
bool MayGoOn(const proto::Run& run) {
  return !run.checkpoint_dir().empty() && (run.resume() == "true" || run.resume() == "auto");
}

absl::Status FixedByPlan(const std::string& flag) {
  return InputError("--" + flag, "cannot be given together with --plan: the plan has it fixed",
                    "leave one of the two out");
}

// The newest checkpoint that can be opened; NotFound where there is none, and the error of the
// newest where none can be opened.
absl::StatusOr<std::string> NewestThatOpens(const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<ListedCheckpoint> all, ListCheckpoints(dir));
  absl::Status newest;
  for (const ListedCheckpoint& listed : all) {
    if (!listed.complete) continue;
    const absl::Status opened = CheckpointReader::Open(listed.folder).status();
    if (opened.ok()) return listed.folder;
    newest.Update(opened);
  }
  return newest.ok() ? absl::NotFoundError(dir) : newest;
}

// The folder of the checkpoint that the run begins with, or goes on from.
absl::StatusOr<std::string> FindCheckpoint(const proto::Run& run) {
  if (!run.has_init_from()) {
    if (MayGoOn(run)) {
      const absl::StatusOr<std::string> newest = NewestThatOpens(run.checkpoint_dir());
      if (!absl::IsNotFound(newest.status())) return newest;
    }
    return InputError("--graph",
                      MayGoOn(run) ? "is missing, and --checkpoint_dir=" + run.checkpoint_dir() +
                                         " has no checkpoint to take it from"
                                   : "is missing",
                      "write one with `oneflow model gpt --out=gpt.textproto`");
  }
  return FindWeightsFolder("--init_from", run.init_from(), nullptr);
}

// A graph with frozen variables names the folder that has them, of a plan that is written or runs:
// that of --base, of --init_from, or of --graph.
absl::Status SetBase(const Arguments& args, proto::Graph* graph) {
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  if (graph->has_base()) {
    if (!run.has_base()) return absl::OkStatus();
    std::error_code error;  // the reader of the folder reports one
    const auto path = std::filesystem::canonical(run.base(), error);
    if (!error) graph->mutable_base()->set_path(path);
    return absl::OkStatus();
  }
  if (run.has_base() && !HasFrozen(*graph)) {
    return InputError("--base=" + run.base(), "acts on nothing: all variables are trained",
                      "leave it out; --init_from=FOLDER begins with the weights of a folder");
  }
  if (run.has_base()) return NameBase(run.base(), graph);
  if (run.has_init_from()) return NameBase(run.init_from(), graph);
  return IsModelFolder(FLAGS_graph) ? NameBase(FLAGS_graph, graph) : absl::OkStatus();
}

// Whether the batch divides into the micro-batches, and each of them over the data axes.
bool Divide(const proto::Recipe& recipe) {
  int64_t parts = recipe.micro_batches();
  for (const auto& axis : recipe.mesh().axis()) {
    if (axis.name().starts_with("data")) parts *= axis.size();
  }
  return recipe.batch() % parts == 0;
}

// True of a choice that is as it was by default, or that was made for another mesh.
bool IsOfOldRun(const Row& row, const proto::Recipe& was, const proto::Recipe& now) {
  const Row& mesh = *FindRow(RecipeRows(), "mesh");
  if (row.name == "mesh" || row.name == "device") return true;
  const bool names_axes = row.name == "experts" || row.name == "reduce" || row.name == "shard";
  if (names_axes && FieldText(mesh, was) != FieldText(mesh, now)) return true;
  return row.moves != nullptr && row.moves(was) == row.moves(WithDefaults({}));
}

// A choice that moves bits and is not said is that of the run that goes on, so that this stays the
// same.
absl::StatusOr<proto::Recipe> TakeFromRun(const Arguments& args, proto::Recipe run,
                                          proto::Recipe recipe) {
  DropDependents(RecipeRows(), args, &run);
  for (const Row& row : RecipeRows()) {
    if (row.bits == Bits::kNone || HasField(row, recipe) || IsOfOldRun(row, run, recipe)) continue;
    CopyField(row, run, &recipe);
  }
  const bool of_run = recipe.has_micro_batches() && !args.Given("micro_batches");
  if (of_run && !Divide(WithDefaults(recipe))) recipe.clear_micro_batches();
  return recipe;
}

bool HasGraph(const Arguments& args) {
  return !FLAGS_graph.empty() || args.file.model().has_family();
}

double Imbalance() { return FLAGS_imbalance > 0 ? FLAGS_imbalance : kUsualImbalance; }

absl::Status NoPrice() {
  return InputError("--imbalance",
                    "acts on nothing: no devices split the experts of a mixture that drops nothing",
                    "leave it out");
}

// The source and the request of compiling, according to the flags.
struct ToCompile {
  GraphSource source;
  PlanRequest request;
};

absl::StatusOr<ToCompile> ToCompileFromFlags(const Arguments& args) {
  ToCompile result;
  ASSIGN_OR_RETURN(result.source, GraphFromFlags(args));
  const proto::Graph& graph = result.source.graph;
  ASSIGN_OR_RETURN(proto::Recipe recipe, RecipeSaid(args));
  if (!recipe.has_mesh()) *recipe.mutable_mesh() = graph.mesh();
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(recipe.mesh()));
  WarnOfAxes(graph, mesh);
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  proto::Optimizer optimizer;
  if (FLAGS_graph.empty() && !args.file.model().has_family() && !run.has_init_from()) {
    // The graph is that of this checkpoint.
    ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(CheckpointOfResume(run)));
    ASSIGN_OR_RETURN(recipe, TakeFromRun(args, reader->recipe(), std::move(recipe)));
    optimizer = reader->optimizer();
  }
  RETURN_IF_ERROR(JoinSteps(args, &recipe));
  // Plans that keep documents apart count labels already.
  if (!recipe.documents() && !recipe.has_masked_labels() && HasMaskedData(run)) {
    recipe.set_masked_labels(true);
  }
  ASSIGN_OR_RETURN(result.request, RequestFromFlags(args, std::move(recipe)));
  ASSIGN_OR_RETURN(result.request.optimizer, OptimizerFromFlags(args, std::move(optimizer)));
  RETURN_IF_ERROR(WarnOfIdleFlags(args, result.request, graph));
  return result;
}

}  // namespace

std::string DescribeProof(const proto::Plan& plan) {
  const absl::Status status = VerifyPlan(plan);
  if (status.ok()) return std::string(kProved);
  return "REFUSED: " + std::string(ToStd(status.message()));
}

absl::Status CheckFlagsCompile(const Arguments& args) {
  if (!args.Given("plan")) return absl::OkStatus();
  for (const auto& [flag, value] : args.flags) {
    if (HasProperty(flag, verbs::kOfOptimizer)) return FixedByPlan(flag);
  }
  if (!args.Given("threads")) return absl::OkStatus();
  return InputError("--threads", "acts on nothing: --plan is compiled, and is not run here",
                    "leave it out; kernel_threads in the file of --cluster says it");
}

absl::Status CheckImbalance(const Arguments& args) {
  if (!args.Given("imbalance") || (FLAGS_imbalance >= 1 && FLAGS_imbalance <= 1000)) {
    return absl::OkStatus();
  }
  return InputError(absl::StrCat("--imbalance=", FLAGS_imbalance), "is out of range",
                    "use the slots of queues of experts relative to even routing: 1, 1.25, ...");
}

absl::Status PriceQueues(const Arguments& args, const proto::Graph& graph, PlanRequest* request) {
  RETURN_IF_ERROR(CheckImbalance(args));
  if (IsDropless(graph)) {
    request->imbalance = Imbalance();
  } else if (args.Given("imbalance")) {
    return NoPrice();
  }
  return absl::OkStatus();
}

absl::StatusOr<PlanRequest> RequestFromFlags(const Arguments& args, proto::Recipe recipe) {
  PlanRequest request;
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(recipe.mesh()));
  ASSIGN_OR_RETURN(request.cluster, ClusterFromFlags(args, mesh));
  ASSIGN_OR_RETURN(request.optimizer, OptimizerFromFlags(args, {}));
  request.recipe = std::move(recipe);
  if (args.Given("order")) {  // read again, with the lines of what is wrong in it
    RETURN_IF_ERROR(FindRow(RecipeRows(), "order")->excludes(request.recipe));
    const std::string file = args.Repeated("order")[0];
    ASSIGN_OR_RETURN(const std::string text, ReadFile(file, "--order wants a textproto"));
    ASSIGN_OR_RETURN(*request.recipe.mutable_order(), ParseOrder(text, file));
  } else if (request.recipe.has_order() && request.recipe.order().name().empty()) {
    request.recipe.mutable_order()->set_name(FLAGS_recipe);  // what is wrong in it begins with it
  }
  if (!FLAGS_layouts_out.empty()) request.recipe.set_state_layouts(true);
  return request;
}

std::string CheckpointOfResume(const proto::Run& run) {
  return MayGoOn(run) ? NewestThatOpens(run.checkpoint_dir()).value_or("") : "";
}

absl::StatusOr<GraphSource> GraphFromFlags(const Arguments& args) {
  if (FLAGS_graph.empty() && args.file.model().has_family()) {
    proto::Model said = args.file.model();
    RETURN_IF_ERROR(SetGiven(ModelRows(), args, &said));
    const absl::StatusOr<proto::Model> model = CompleteModel(said);
    RETURN_IF_ERROR(Annotate(model.status(), FLAGS_recipe));
    ASSIGN_OR_RETURN(proto::Graph graph, AdaptGraph(BuildModel(*model), *model));
    return GraphSource{std::move(graph), FLAGS_recipe, {}};
  }
  std::string path = FLAGS_graph;
  if (path.empty()) {
    ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
    ASSIGN_OR_RETURN(path, FindCheckpoint(run));
    if (!IsModelFolder(path)) path += "/graph.textproto";
  }
  return ReadGraphArgument(args, path);
}

namespace {

// MakePlan, and what the user is told of it.
absl::StatusOr<proto::Plan> CompileGiven(const ToCompile& given) {
  const double begin = CpuSeconds();
  absl::StatusOr<Planned> planned = MakePlan(given.source, given.request, nullptr, PrintNotice);
  if (absl::IsResourceExhausted(planned.status())) {
    return WithChangesThatFit(planned.status(), given.source, given.request,
                              {.a_plan = CpuSeconds() - begin}, PrintNotice);
  }
  RETURN_IF_ERROR(planned.status());
  for (const std::string& note : planned->notes) PrintNotice(note);
  WarnOfIdleOffload(given.source, given.request, planned->plan);
  return std::move(planned->plan);
}

// The plan of a graph that drops nothing, and its price.
absl::StatusOr<PricedPlan> CompileAndPrice(const Arguments& args, const ToCompile& given) {
  ToCompile at = given;
  at.request.imbalance = Imbalance();
  PricedPlan result{.imbalance = at.request.imbalance};
  const double begin = CpuSeconds();
  ASSIGN_OR_RETURN(proto::Plan price, CompileGiven(at));
  if (FindImbalance(price) == 0) {
    if (args.Given("imbalance")) return NoPrice();
    result.plan = std::move(price);
    return result;
  }
  const double a_plan = CpuSeconds() - begin;
  absl::StatusOr<Planned> worst = MakePlan(given.source, given.request);
  if (absl::IsResourceExhausted(worst.status())) {
    ASSIGN_OR_RETURN(result.fits_up_to,
                     FindMostImbalance(at.source, at.request, price, {.a_plan = a_plan}));
    result.plan = price;
  } else {
    RETURN_IF_ERROR(worst.status());
    result.plan = std::move(worst->plan);
  }
  result.price = std::move(price);
  return result;
}

// Compiles a graph to a plan that is written. Where the worst routing does not fit, the refusal
// says what does.
absl::StatusOr<proto::Plan> CompileToWrite(const ToCompile& given) {
  absl::StatusOr<proto::Plan> plan = CompileGiven(given);
  if (!absl::IsResourceExhausted(plan.status()) || !IsDropless(given.source.graph)) return plan;
  PlanRequest request = given.request;
  request.imbalance = kUsualImbalance;
  const double begin = CpuSeconds();
  const absl::StatusOr<Planned> price = MakePlan(given.source, request);
  if (!price.ok() || FindImbalance(price->plan) == 0) return plan;
  ASSIGN_OR_RETURN(const MostImbalance most, FindMostImbalance(given.source, request, price->plan,
                                                               {.a_plan = CpuSeconds() - begin}));
  return absl::ResourceExhaustedError(absl::StrCat(
      plan.status().message(), "\nit fits up to ", most.Text(),
      " of experts, and a mixture that drops nothing needs room for any: a model with ",
      SlotsFlags(most.value, price->plan), " fits, and drops the rest"));
}

}  // namespace

absl::StatusOr<proto::Plan> CompileFromFlags(const Arguments& args) {
  ASSIGN_OR_RETURN(ToCompile given, ToCompileFromFlags(args));
  RETURN_IF_ERROR(SetBase(args, &given.source.graph));
  return CompileToWrite(given);
}

absl::StatusOr<PricedPlan> PricedPlanFromFlags(const Arguments& args, const PlanReader& read) {
  RETURN_IF_ERROR(CheckImbalance(args));
  PricedPlan result{.imbalance = FLAGS_imbalance};
  if (!FLAGS_plan.empty() || !HasGraph(args)) {
    ASSIGN_OR_RETURN(result.plan, PlanFromFlags(args, read));
    if (!args.Given("imbalance")) return result;
    const PlanRequest request{.recipe = result.plan.recipe(),
                              .cluster = result.plan.cluster(),
                              .optimizer = result.plan.optimizer(),
                              .imbalance = FLAGS_imbalance};
    ASSIGN_OR_RETURN(Planned price, MakePlan({result.plan.graph(), FLAGS_plan, {}}, request));
    if (FindImbalance(price.plan) == 0) return NoPrice();
    result.price = std::move(price.plan);
    return result;
  }
  ASSIGN_OR_RETURN(const ToCompile given, ToCompileFromFlags(args));
  if (IsDropless(given.source.graph)) return CompileAndPrice(args, given);
  if (args.Given("imbalance")) return NoPrice();
  ASSIGN_OR_RETURN(result.plan, CompileGiven(given));
  return result;
}

absl::StatusOr<std::string> TextAfterFromFlags(const Arguments& args, const std::string& pass) {
  ASSIGN_OR_RETURN(ToCompile given, ToCompileFromFlags(args));
  if (args.Given("imbalance")) {
    RETURN_IF_ERROR(PriceQueues(args, given.source.graph, &given.request));
  }
  return MakeTextAfter(given.source, given.request, FLAGS_program, pass);
}

absl::Status WriteLayouts(const proto::Plan& plan) {
  if (FLAGS_layouts_out.empty()) return absl::OkStatus();
  return Annotate(WriteFile(FLAGS_layouts_out, GraphFileText(plan.graph())), "--layouts_out");
}

absl::StatusOr<proto::Plan> CompileToGenerate(const Arguments& args, const proto::Graph& graph) {
  ASSIGN_OR_RETURN(proto::Recipe recipe, RecipeFromFlags(args));
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(recipe.mesh()));
  WarnOfAxes(graph, mesh);
  recipe.set_purpose(proto::Recipe::GENERATION);
  recipe.set_batch(mesh.devices());
  recipe.set_schedule("gpipe");
  ASSIGN_OR_RETURN(const PlanRequest request, RequestFromFlags(args, std::move(recipe)));
  return Compile(graph, graph.name(), request);
}

absl::StatusOr<proto::Plan> CompileToEvaluate(const Arguments& args, const proto::Graph& graph,
                                              bool documents) {
  ASSIGN_OR_RETURN(proto::Recipe recipe, RecipeFromFlags(args));
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(recipe.mesh()));
  WarnOfAxes(graph, mesh);
  recipe.set_purpose(proto::Recipe::EVALUATION);
  recipe.set_documents(documents);
  ASSIGN_OR_RETURN(const PlanRequest request, RequestFromFlags(args, std::move(recipe)));
  return Compile(graph, graph.name(), request);
}

absl::StatusOr<proto::Plan> PlanFromFlags(const Arguments& args, const PlanReader& read) {
  if (FLAGS_plan.empty()) {
    ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
    if (HasGraph(args) || run.has_init_from() || MayGoOn(run)) return CompileFromFlags(args);
    return InputError("--plan", "is missing", "write --plan=gpt.plan, or --graph=gpt.textproto");
  }
  for (const auto& [flag, value] : args.flags) {
    if (HasProperty(flag, verbs::kFixedByPlan)) return FixedByPlan(flag);
  }
  ASSIGN_OR_RETURN(proto::Plan plan, read(FLAGS_plan));
  if (!FLAGS_memory.empty() || !FLAGS_reserve.empty()) {
    proto::Device device = plan.cluster().device();
    RETURN_IF_ERROR(SetMemory(&device));
    RETURN_IF_ERROR(Annotate(CheckCapacity(plan, device), FLAGS_plan));
  }
  ASSIGN_OR_RETURN(const proto::Recipe recipe, RecipeFromFlags(args));
  if (recipe.has_host_memory()) {
    ASSIGN_OR_RETURN(const proto::Cluster cluster, ClusterToSimulate(args, plan));
    RETURN_IF_ERROR(Annotate(CheckHostCapacity(plan, cluster, recipe.host_memory()), FLAGS_plan));
  }
  return plan;
}

}  // namespace oneflow
