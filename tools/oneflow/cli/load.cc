#include "tools/oneflow/cli/load.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "actor_runtime/device/cores.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/order_file.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/utf8.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/parse_bytes.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/train/learning_rate.h"
#include "oneflow_core/verify/verify_plan.h"
#include "planning/recipe/changes_that_fit.h"
#include "planning/recipe/make_plan.h"
#include "planning/simulate/simulate_on.h"
#include "tools/oneflow/cli/check_cluster.h"
#include "tools/oneflow/cli/flag_table.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/idle_flags.h"
#include "tools/oneflow/cli/known_clusters.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow {
namespace {

// Reads --cluster, which is given.
absl::StatusOr<proto::Cluster> ReadCluster() {
  proto::Cluster cluster;
  ASSIGN_OR_RETURN(const ClusterText file, ReadClusterText(FLAGS_cluster));
  const absl::Status parsed = ParseText(file.text, file.where, "cluster", &cluster);
  if (absl::StrContains(parsed.message(), ": device is given twice")) {
    return InputError(file.where, "has two kinds of devices",
                      "a cluster has one: write a file for each kind, and compile a plan for each");
  }
  RETURN_IF_ERROR(parsed);
  if (cluster.ByteSizeLong() == 0) {
    return InputError(file.where, "is empty", "say of what device and which links a cluster is");
  }
  RETURN_IF_ERROR(CheckCluster(cluster, file.where));
  if (cluster.name().empty()) cluster.set_name(FLAGS_cluster);
  return cluster;
}

// The cluster of all verbs without --cluster.
proto::Cluster DefaultCluster() {
  proto::Cluster cluster;
  cluster.set_name("a CPU of 100 GFLOP/s and 10 GB/s (no --cluster)");
  return cluster;
}

// --memory, where it is given.
absl::Status SetMemory(proto::Cluster* cluster) {
  if (FLAGS_memory.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes("--memory=" + FLAGS_memory, FLAGS_memory));
  cluster->mutable_device()->set_memory_bytes(bytes);
  return absl::OkStatus();
}

absl::StatusOr<proto::Cluster> ClusterFromFlags(const Mesh& mesh) {
  proto::Cluster cluster = DefaultCluster();
  if (!FLAGS_cluster.empty()) {
    ASSIGN_OR_RETURN(cluster, ReadCluster());
    RETURN_IF_ERROR(CheckDevices(cluster, mesh));
  } else {
    ASSIGN_OR_RETURN(const int threads, ThreadsFromFlags());
    cluster.mutable_device()->set_kernel_threads(
        std::max(1, threads / std::max(1, mesh.devices())));
  }
  RETURN_IF_ERROR(SetMemory(&cluster));
  return cluster;
}

absl::Status FixedByPlan(const std::string& flag) {
  return InputError("--" + flag, "cannot be given together with --plan: the plan has it fixed",
                    "leave one of the two out");
}

// The name of the axis: "data" for the factor data.0.
std::string_view AxisWord(std::string_view axis) { return axis.substr(0, axis.find('.')); }

// The known axis that one of another name may be: one letter off, or by its short form.
std::string AxisMeantBy(std::string_view axis, const std::set<std::string_view>& known) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"dp", "data"},       {"tp", "tensor"},   {"pp", "pipe"},          {"ep", "expert"},
      {"cp", "context"},    {"seq", "context"}, {"sequence", "context"}, {"model", "tensor"},
      {"pipeline", "pipe"}, {"stage", "pipe"}};
  for (const auto& [name, meant] : kShort) {
    if (name == axis) return std::string(meant);
  }
  return Nearest(axis, {known.begin(), known.end()});
}

// A mistyped axis is a good mesh: of an axis that no layout is written for, all is inferred. It is
// printed on stderr, because training prints no plan.
void WarnOfAxes(const proto::Graph& graph, const Mesh& mesh) {
  std::set<std::string_view> known = {"data", "tensor", "pipe", "context"};
  for (const proto::Op& op : graph.op()) {
    if (op.attr().contains("experts")) known.insert("expert");
    for (const proto::NdSbp& sbp : op.sbp()) {
      for (const auto& [axis, ignored] : sbp.on()) known.insert(AxisWord(axis));
    }
  }
  for (const Mesh::Axis& axis : mesh.axes) {
    const std::string_view word = AxisWord(axis.name);
    if (known.contains(word)) continue;
    if (word == "expert") {
      std::fprintf(stderr,
                   "oneflow: warning: mesh axis %s: the model has no experts to split; all layouts "
                   "over it are inferred. The batch alone is split by an axis data\n",
                   axis.name.c_str());
      continue;
    }
    const std::string meant = AxisMeantBy(word, known);
    std::fprintf(
        stderr,
        "oneflow: warning: mesh axis %s: %sneither the model (data, tensor, pipe, expert, context) "
        "nor the graph has layouts for it; all of them are inferred\n",
        axis.name.c_str(), meant.empty() ? "" : ("did you mean " + meant + "? ").c_str());
  }
}

}  // namespace

std::string DescribeProof(const proto::Plan& plan) {
  const absl::Status status = VerifyPlan(plan);
  if (status.ok()) return std::string(kProved);
  return "REFUSED: " + std::string(ToStd(status.message()));
}

absl::StatusOr<int> ThreadsFromFlags() {
  if (FLAGS_threads > kMaxKernelThreads) {
    return InputError("--threads=" + std::to_string(FLAGS_threads), "is too many",
                      "use at most " + std::to_string(kMaxKernelThreads));
  }
  return FLAGS_threads > 0 ? FLAGS_threads : Cores();
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

absl::StatusOr<proto::Optimizer> OptimizerFromFlags(const Arguments& args,
                                                    const proto::Optimizer* given) {
  proto::Optimizer base = given == nullptr ? proto::Optimizer() : *given;
  if (given != nullptr) RETURN_IF_ERROR(CheckOptimizer(base, "plan, optimizer."));
  const auto want = [&](const char* flag) { return given == nullptr || args.Given(flag); };
  if (want("learning_rate")) base.set_learning_rate(FLAGS_learning_rate);
  if (want("min_learning_rate")) base.set_min_learning_rate(FLAGS_min_learning_rate);
  if (want("warmup_steps")) base.set_warmup_steps(FLAGS_warmup_steps);
  if (want("decay_steps")) base.set_decay_steps(FLAGS_decay_steps);
  if (want("beta1")) base.set_beta1(FLAGS_beta1);
  if (want("beta2")) base.set_beta2(FLAGS_beta2);
  if (want("epsilon")) base.set_epsilon(FLAGS_epsilon);
  if (want("weight_decay")) base.set_weight_decay(FLAGS_weight_decay);
  if (want("clip")) base.set_clip(FLAGS_clip);
  if (want("lr_schedule")) {
    base.set_lr_schedule(FLAGS_lr_schedule == "linear"   ? proto::Optimizer::LINEAR
                         : FLAGS_lr_schedule == "cosine" ? proto::Optimizer::COSINE
                                                         : proto::Optimizer::CONSTANT);
  }
  RETURN_IF_ERROR(CheckOptimizer(base, "--"));
  return base;
}

// The source and options of compiling, according to the flags.
struct ToCompile {
  GraphSource source;
  PlanRequest options;
};

// What no flag says is as it was in the run that goes on: what WarnOfChanges compares, so that such
// a run is the same one.
absl::Status TakeFromRun(const Arguments& args, const std::string& checkpoint,
                         PlanRequest* request) {
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(checkpoint));
  const proto::Recipe& was = reader->recipe();
  const auto take = [&](std::string_view name) {
    if (!args.Given(name)) CopyField(*FindRow(RecipeRows(), name), was, &request->recipe);
  };
  take("documents");
  if (!args.Given("batch") && !args.Given("sync_every")) {
    take("batch");
    take("micro_batches");
  }
  if (!args.Given("precision")) {
    take("precision");
    take("residual");
  }
  take("loss_pieces");
  ASSIGN_OR_RETURN(request->optimizer, OptimizerFromFlags(args, &reader->optimizer()));
  return absl::OkStatus();
}

absl::StatusOr<ToCompile> ToCompileFromFlags(const Arguments& args) {
  ASSIGN_OR_RETURN(const std::string path, GraphFileFromFlags());
  ToCompile result;
  ASSIGN_OR_RETURN(result.source, ReadGraphFile(path));
  const proto::Graph& graph = result.source.graph;
  ASSIGN_OR_RETURN(const proto::Recipe recipe, RecipeFromFlags(args));
  const bool given = recipe.has_mesh() || !graph.has_mesh();
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(given ? recipe.mesh() : graph.mesh()));
  WarnOfAxes(graph, mesh);
  ASSIGN_OR_RETURN(result.options, RequestFromFlags(args, mesh));
  if (FLAGS_graph.empty() && FLAGS_init_from.empty()) {
    // The graph is that of this checkpoint.
    RETURN_IF_ERROR(TakeFromRun(args, CheckpointOfResume(), &result.options));
  }
  WarnOfIdleFlags(args, WithDefaults(recipe), mesh, graph);
  return result;
}

absl::StatusOr<PlanRequest> RequestFromFlags(const Arguments& args, const Mesh& mesh) {
  PlanRequest request;
  ASSIGN_OR_RETURN(request.recipe, RecipeFromFlags(args));
  *request.recipe.mutable_mesh() = ToProto(mesh);
  if (args.Given("order")) {
    const std::string file = args.Repeated("order")[0];
    ASSIGN_OR_RETURN(const std::string text, ReadFile(file, "--order wants a textproto"));
    ASSIGN_OR_RETURN(*request.recipe.mutable_order(), ParseOrder(text, file));
  }
  if (!FLAGS_layouts_out.empty()) request.recipe.set_state_layouts(true);
  ASSIGN_OR_RETURN(request.optimizer, OptimizerFromFlags(args, nullptr));
  ASSIGN_OR_RETURN(request.cluster, ClusterFromFlags(mesh));
  return request;
}

std::string CheckpointOfResume() {
  if (FLAGS_resume == "false" || FLAGS_checkpoint_dir.empty()) return "";
  const absl::StatusOr<std::vector<ListedCheckpoint>> all = ListCheckpoints(FLAGS_checkpoint_dir);
  if (!all.ok()) return "";  // the run reports it
  for (const ListedCheckpoint& listed : *all) {
    if (listed.complete && CheckpointReader::Open(listed.folder).ok()) return listed.folder;
  }
  return "";
}

absl::StatusOr<std::string> GraphFileFromFlags() {
  if (!FLAGS_graph.empty()) return FLAGS_graph;
  if (FLAGS_init_from.empty()) {
    const std::string resumed = CheckpointOfResume();
    if (!resumed.empty()) return resumed + "/graph.textproto";
    return InputError("--graph",
                      FLAGS_resume == "false" || FLAGS_checkpoint_dir.empty()
                          ? "is missing"
                          : "is missing, and --checkpoint_dir=" + FLAGS_checkpoint_dir +
                                " has no checkpoint to take it from",
                      "write one with `oneflow model gpt --out=gpt.textproto`");
  }
  std::error_code ignored;  // the reader of the file reports an error
  std::string folder = FLAGS_init_from;
  if (!std::filesystem::exists(folder + "/manifest.json", ignored)) {
    ASSIGN_OR_RETURN(folder, LatestCheckpoint(folder));
  }
  return folder + "/graph.textproto";
}

absl::StatusOr<proto::Plan> CompileFromFlags(const Arguments& args) {
  ASSIGN_OR_RETURN(const ToCompile given, ToCompileFromFlags(args));
  absl::StatusOr<Planned> planned = MakePlan(given.source, given.options);
  if (absl::IsResourceExhausted(planned.status())) {
    return WithChangesThatFit(planned.status(), given.source, given.options, PrintNotice);
  }
  RETURN_IF_ERROR(planned.status());
  WarnOfIdleOffload(given.source, given.options, planned->plan);
  return std::move(planned->plan);
}

absl::StatusOr<std::string> TextAfterFromFlags(const Arguments& args, const std::string& pass) {
  ASSIGN_OR_RETURN(const ToCompile given, ToCompileFromFlags(args));
  return MakeTextAfter(given.source, given.options, FLAGS_program, pass);
}

absl::Status WriteLayouts(const proto::Plan& plan) {
  if (FLAGS_layouts_out.empty()) return absl::OkStatus();
  return Annotate(WriteFile(FLAGS_layouts_out, GraphFileText(plan.graph())), "--layouts_out");
}

absl::StatusOr<proto::Cluster> ClusterToSimulate(const proto::Plan& plan) {
  if (!FLAGS_cluster.empty()) {
    ASSIGN_OR_RETURN(proto::Cluster cluster, ReadCluster());
    RETURN_IF_ERROR(SetMemory(&cluster));
    return cluster;
  }
  if (plan.device_kind() == proto::CUDA) {
    return InputError("--cluster",
                      "is missing: the plan is for GPUs, and says nothing of their rates",
                      "give --cluster=h100, or what `oneflow calibrate "
                      "--device=cuda` measures");
  }
  proto::Cluster cluster = DefaultCluster();
  RETURN_IF_ERROR(SetMemory(&cluster));
  return cluster;
}

absl::StatusOr<proto::Cluster> ClusterToSimulate(const Arguments& args, const proto::Plan& plan) {
  ASSIGN_OR_RETURN(proto::Cluster cluster, ClusterToSimulate(plan));
  if (!args.Given("processes")) return cluster;
  return WithProcesses(std::move(cluster), plan, FLAGS_processes);
}

int64_t StepsToSimulate(const Arguments& args) { return args.Given("steps") ? FLAGS_steps : 2; }

absl::StatusOr<proto::Plan> CompileToGenerate(const Arguments& args, const proto::Graph& graph) {
  PlanRequest request;
  proto::Recipe& recipe = request.recipe;
  ASSIGN_OR_RETURN(recipe, RecipeFromFlags(args));
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(recipe.mesh()));
  WarnOfAxes(graph, mesh);
  recipe.set_purpose(proto::Recipe::GENERATION);
  recipe.set_batch(mesh.devices());
  recipe.set_micro_batches(1);
  recipe.set_schedule("gpipe");
  if (!FLAGS_layouts_out.empty()) recipe.set_state_layouts(true);
  ASSIGN_OR_RETURN(request.cluster, ClusterFromFlags(mesh));
  return Compile(graph, graph.name(), request);
}

absl::StatusOr<proto::Plan> CompileToEvaluate(const Arguments& args, const proto::Graph& graph,
                                              bool documents) {
  ASSIGN_OR_RETURN(const proto::Recipe recipe, RecipeFromFlags(args));
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(recipe.mesh()));
  WarnOfAxes(graph, mesh);
  ASSIGN_OR_RETURN(PlanRequest options, RequestFromFlags(args, mesh));
  options.recipe.set_purpose(proto::Recipe::EVALUATION);
  options.recipe.set_documents(documents);
  return Compile(graph, graph.name(), options);
}

absl::StatusOr<proto::Plan> PlanFromFlags(const Arguments& args, const PlanReader& read) {
  if (FLAGS_plan.empty() && FLAGS_graph.empty() && FLAGS_init_from.empty() &&
      FLAGS_resume == "false") {
    return InputError("--plan", "is missing", "write --plan=gpt.plan, or --graph=gpt.textproto");
  }
  if (FLAGS_plan.empty()) return CompileFromFlags(args);
  for (const auto& [flag, value] : args.flags) {
    if (HasProperty(flag, verbs::kFixedByPlan)) return FixedByPlan(flag);
  }
  ASSIGN_OR_RETURN(proto::Plan plan, read(FLAGS_plan));
  if (!FLAGS_memory.empty()) {
    ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes("--memory=" + FLAGS_memory, FLAGS_memory));
    RETURN_IF_ERROR(Annotate(CheckCapacity(plan, bytes), FLAGS_plan));
  }
  ASSIGN_OR_RETURN(const proto::Recipe recipe, RecipeFromFlags(args));
  if (recipe.has_host_memory()) {
    proto::Cluster cluster;
    if (!FLAGS_cluster.empty()) {
      ASSIGN_OR_RETURN(cluster, ReadCluster());
    }
    RETURN_IF_ERROR(Annotate(CheckHostCapacity(plan, cluster, recipe.host_memory()), FLAGS_plan));
  }
  return plan;
}

}  // namespace oneflow
