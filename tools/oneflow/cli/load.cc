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
#include "oneflow_core/model/annotate_recompute.h"
#include "oneflow_core/model/offload.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/train/learning_rate.h"
#include "oneflow_core/verify/verify_plan.h"
#include "planning/recipe/make_plan.h"
#include "planning/simulate/simulate_on.h"
#include "tools/oneflow/cli/check_cluster.h"
#include "tools/oneflow/cli/fitting_flags.h"
#include "tools/oneflow/cli/flag_table.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/idle_flags.h"
#include "tools/oneflow/cli/known_clusters.h"
#include "tools/oneflow/cli/parse_bytes.h"
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
  ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes("--memory", FLAGS_memory));
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

proto::DataType Precision(const std::string& name) {
  return name == "bf16" ? proto::BF16 : proto::F32;
}

// `value` of a step for all of --sync_every steps; `flag` is its own.
absl::StatusOr<int64_t> OfAllSteps(const char* flag, int64_t value) {
  int64_t all = 0;
  if (!__builtin_mul_overflow(value, FLAGS_sync_every, &all)) return all;
  return InputError("--sync_every=" + std::to_string(FLAGS_sync_every),
                    "times " + (flag + std::to_string(value)) + " is more than can be counted",
                    "use smaller numbers");
}

// -1 for auto.
absl::StatusOr<int64_t> LossPiecesFromFlags() {
  if (FLAGS_loss_pieces == "auto") return -1;
  int64_t pieces = 0;
  if (absl::SimpleAtoi(FLAGS_loss_pieces, &pieces) && pieces >= 0) return pieces;
  return InputError("--loss_pieces=" + FLAGS_loss_pieces, "is no number of pieces",
                    "use auto, 0 for whole logits, or 1 or more");
}

absl::Status SetTraining(proto::Recipe* recipe) {
  if (FLAGS_sync_every < 1) {
    return InputError("--sync_every=" + std::to_string(FLAGS_sync_every), "is no number of steps",
                      "use 1 or more");
  }
  // Steps that share an update are one step of all their micro-batches.
  ASSIGN_OR_RETURN(const int64_t batch, OfAllSteps("--batch=", FLAGS_batch));
  ASSIGN_OR_RETURN(const int64_t micro_batches,
                   OfAllSteps("--micro_batches=", FLAGS_micro_batches));
  recipe->set_batch(batch);
  recipe->set_micro_batches(micro_batches);
  recipe->set_schedule(FLAGS_schedule);
  if (FLAGS_chunks != 0) recipe->set_chunks(FLAGS_chunks);
  recipe->set_extra_in_flight(FLAGS_extra_in_flight);
  ASSIGN_OR_RETURN(*recipe->mutable_recompute(), ParseRecompute(FLAGS_recompute));
  recipe->set_global_norm(FLAGS_global_norm);
  recipe->set_fuse(FLAGS_fuse);
  recipe->set_documents(FLAGS_documents);
  ASSIGN_OR_RETURN(const int64_t loss_pieces, LossPiecesFromFlags());
  recipe->set_loss_pieces(loss_pieces);
  recipe->set_staleness(FLAGS_staleness);
  if (FLAGS_steps_a_round != 0) recipe->set_steps_a_round(FLAGS_steps_a_round);
  recipe->set_precision(Precision(FLAGS_precision));
  recipe->set_residual(Precision(FLAGS_residual));
  return absl::OkStatus();
}

// --order read and checked, where it is given.
absl::Status SetOrder(const Arguments& args, proto::Recipe* recipe) {
  if (FLAGS_order.empty()) return absl::OkStatus();
  for (const char* flag : {"schedule", "chunks", "extra_in_flight", "staleness", "steps_a_round"}) {
    if (args.Given(flag)) {
      return InputError(std::string("--") + flag,
                        "cannot be given together with --order: the file says it all",
                        "leave one of the two out");
    }
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(FLAGS_order, "--order wants a textproto"));
  ASSIGN_OR_RETURN(*recipe->mutable_order(), ParseOrder(text, FLAGS_order));
  recipe->set_schedule(Utf8(FLAGS_order));
  return absl::OkStatus();
}

// "2,3,2", or none.
absl::StatusOr<std::vector<int>> StageLayersFromFlags() {
  std::vector<int> layers;
  if (FLAGS_stage_layers.empty()) return layers;
  for (const absl::string_view part : absl::StrSplit(FLAGS_stage_layers, ',')) {
    if (!absl::SimpleAtoi(part, &layers.emplace_back())) {
      return InputError("--stage_layers=" + FLAGS_stage_layers,
                        "\"" + std::string(ToStd(part)) + "\" is no number of layers",
                        "write e.g. 2,3,3,2");
    }
  }
  return layers;
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

absl::StatusOr<Isa> ParseIsa(const std::string& name, Isa best) {
  if (name.empty()) return best;
  std::string list;
  bool known = false;
  for (const Isa isa : kIsas) {
    known = known || Name(isa) == name;
    if (isa > best) continue;
    if (Name(isa) == name) return isa;
    list += (list.empty() ? "" : ", ") + std::string(Name(isa));
  }
  return InputError("--instruction_set=" + name,
                    known ? "this processor has not got it" : "no such instruction set",
                    "leave it out, or use one that this processor has: " + list);
}

absl::StatusOr<Isa> IsaFromFlags() { return ParseIsa(FLAGS_instruction_set, BestIsa()); }

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

absl::StatusOr<int> PrefetchFromFlags() {
  int ahead = 0;
  if (absl::SimpleAtoi(FLAGS_prefetch, &ahead) && ahead >= 0 && ahead <= 8) return ahead;
  return InputError("--prefetch=" + FLAGS_prefetch, "is no number of blocks to gather ahead",
                    "use auto, or 0 to 8");
}

// 0 without --host_memory.
absl::StatusOr<int64_t> HostMemoryFromFlags() {
  if (FLAGS_host_memory.empty()) return 0;
  return ParseBytes("--host_memory", FLAGS_host_memory);
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
  proto::Recipe& recipe = request->recipe;
  if (!args.Given("documents")) recipe.set_documents(was.documents());
  if (!args.Given("batch") && !args.Given("sync_every")) {
    recipe.set_batch(was.batch());
    if (!args.Given("micro_batches")) recipe.set_micro_batches(was.micro_batches());
  }
  if (!args.Given("precision")) {
    recipe.set_precision(was.precision());
    if (!args.Given("residual")) recipe.set_residual(was.residual());
  }
  if (!args.Given("loss_pieces")) recipe.set_loss_pieces(was.loss_pieces());
  if (reader->optimizer().ByteSizeLong() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(request->optimizer, OptimizerFromFlags(args, &reader->optimizer()));
  return absl::OkStatus();
}

absl::StatusOr<ToCompile> ToCompileFromFlags(const Arguments& args) {
  ASSIGN_OR_RETURN(const std::string path, GraphFileFromFlags());
  ToCompile result;
  ASSIGN_OR_RETURN(result.source, ReadGraphFile(path));
  const proto::Graph& graph = result.source.graph;
  const bool given = args.Given("mesh") || !graph.has_mesh();
  ASSIGN_OR_RETURN(const Mesh mesh, given ? ParseMesh(FLAGS_mesh) : MeshFromProto(graph.mesh()));
  WarnOfAxes(graph, mesh);
  ASSIGN_OR_RETURN(result.options, OptionsFromFlags(args, mesh));
  if (FLAGS_graph.empty() && FLAGS_init_from.empty()) {
    // The graph is that of this checkpoint.
    RETURN_IF_ERROR(TakeFromRun(args, CheckpointOfResume(), &result.options));
  }
  WarnOfIdleFlags(args, result.options, graph);
  return result;
}

absl::StatusOr<PlanRequest> OptionsFromFlags(const Arguments& args, const Mesh& mesh) {
  PlanRequest options;
  proto::Recipe& recipe = options.recipe;
  *recipe.mutable_mesh() = ToProto(mesh);
  RETURN_IF_ERROR(SetTraining(&recipe));
  ASSIGN_OR_RETURN(options.optimizer, OptimizerFromFlags(args, nullptr));
  RETURN_IF_ERROR(SetOrder(args, &recipe));
  recipe.set_fill_memory(FLAGS_fill_memory);
  recipe.set_device(DeviceKindFromFlags());
  ASSIGN_OR_RETURN(options.cluster, ClusterFromFlags(mesh));
  recipe.set_sequence_parallel(FLAGS_sequence_parallel);
  recipe.set_state_layouts(!FLAGS_layouts_out.empty());
  recipe.set_keep_axis_order(FLAGS_keep_axis_order);
  if (FLAGS_overlap != "auto") recipe.set_overlap(FLAGS_overlap == "true");
  if (FLAGS_prefetch != "auto") {
    ASSIGN_OR_RETURN(const int prefetch, PrefetchFromFlags());
    recipe.set_prefetch(prefetch);
  }
  ASSIGN_OR_RETURN(*recipe.mutable_shard(), ParseShard("--shard=", FLAGS_shard));
  ASSIGN_OR_RETURN(*recipe.mutable_reduce(), ParseReduce("--reduce=", FLAGS_reduce));
  recipe.set_gather(FLAGS_gather == "once"               ? proto::ONCE
                    : FLAGS_gather == "each_micro_batch" ? proto::EACH_MICRO_BATCH
                                                         : proto::EACH_USE);
  ASSIGN_OR_RETURN(*recipe.mutable_offload(), ParseOffload("--offload=", FLAGS_offload));
  recipe.set_update_on(FLAGS_update_on == "host" ? proto::UPDATE_ON_HOST : proto::UPDATE_ON_DEVICE);
  ASSIGN_OR_RETURN(const int64_t host_memory, HostMemoryFromFlags());
  recipe.set_host_memory(host_memory);
  recipe.set_experts(FLAGS_experts);
  recipe.set_context_pieces(FLAGS_context_pieces);
  ASSIGN_OR_RETURN(const int64_t bucket_bytes, ParseBytes("--bucket_bytes", FLAGS_bucket_bytes));
  recipe.set_bucket_bytes(bucket_bytes);
  ASSIGN_OR_RETURN(const std::vector<int> layers, StageLayersFromFlags());
  if (!layers.empty()) {
    recipe.mutable_stage_layers()->mutable_layers()->Assign(layers.begin(), layers.end());
  }
  return options;
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

proto::DeviceKind DeviceKindFromFlags() {
  return FLAGS_device == "cuda" ? proto::CUDA : proto::CPU;
}

absl::StatusOr<proto::Plan> CompileFromFlags(const Arguments& args) {
  ASSIGN_OR_RETURN(const ToCompile given, ToCompileFromFlags(args));
  absl::StatusOr<Planned> planned = MakePlan(given.source, given.options);
  if (absl::IsResourceExhausted(planned.status())) {
    return WithFlagsThatFit(planned.status(), given.source, given.options);
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

absl::StatusOr<proto::Plan> CompileToGenerate(const proto::Graph& graph) {
  PlanRequest options;
  proto::Recipe& recipe = options.recipe;
  recipe.set_purpose(proto::Recipe::GENERATION);
  recipe.set_device(DeviceKindFromFlags());
  recipe.set_state_layouts(!FLAGS_layouts_out.empty());
  ASSIGN_OR_RETURN(const Mesh mesh, ParseMesh(FLAGS_mesh));
  WarnOfAxes(graph, mesh);
  *recipe.mutable_mesh() = ToProto(mesh);
  recipe.set_batch(mesh.devices());
  recipe.set_micro_batches(1);
  recipe.set_schedule("gpipe");
  ASSIGN_OR_RETURN(options.cluster, ClusterFromFlags(mesh));
  return Compile(graph, graph.name(), options);
}

absl::StatusOr<proto::Plan> CompileToEvaluate(const Arguments& args, const proto::Graph& graph,
                                              bool documents) {
  ASSIGN_OR_RETURN(const Mesh mesh, ParseMesh(FLAGS_mesh));
  WarnOfAxes(graph, mesh);
  ASSIGN_OR_RETURN(PlanRequest options, OptionsFromFlags(args, mesh));
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
    ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes("--memory", FLAGS_memory));
    RETURN_IF_ERROR(Annotate(CheckCapacity(plan, bytes), FLAGS_plan));
  }
  if (!FLAGS_host_memory.empty()) {
    ASSIGN_OR_RETURN(const int64_t bytes, HostMemoryFromFlags());
    proto::Cluster cluster;
    if (!FLAGS_cluster.empty()) {
      ASSIGN_OR_RETURN(cluster, ReadCluster());
    }
    RETURN_IF_ERROR(Annotate(CheckHostCapacity(plan, cluster, bytes), FLAGS_plan));
  }
  return plan;
}

}  // namespace oneflow
