#include "tests/golden/golden_case.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "actor_runtime/exec/deterministic_runtime.h"
#include "compiler/compile.h"
#include "compiler/lower/groups.h"
#include "compiler/lower/hold_back.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/lower/persistent.h"
#include "compiler/lower/prune.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/passes/passes.h"
#include "compiler/schedule/issue_order.h"
#include "compiler/schedule/schedule.h"
#include "compiler/schedule/slots.h"
#include "compiler/schedule/streams.h"
#include "compiler/schedule/tell_receives.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/plan/plan_text.h"
#include "oneflow_core/plan/verify_plan.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// The last two stand in no range: they are for programs that do not train.
constexpr std::string_view kPasses[] = {
    "fold_stages",   "bind_batch",    "infer_shapes",    "decompose",      "place_variables",
    "differentiate", "add_optimizer", "mixed_precision", "infer_sbp",      "recompute",
    "insert_boxing", "fuse",          "lower",           "hold_back",      "schedule",
    "slots",         "tell_receives", "plan_memory",     "remove_dropout", "cache_attention"};
constexpr std::string_view kGraphMark = "-- graph --\n", kExpectMark = "-- expect --\n";

absl::StatusOr<int> IndexOf(const std::string& file, const std::string& pass) {
  auto it = std::find(std::begin(kPasses), std::end(kPasses), pass);
  if (it == std::end(kPasses)) return InputError(file, "there is no pass \"" + pass + "\"");
  return static_cast<int>(it - std::begin(kPasses));
}

std::vector<std::string> Words(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// "a .. c, e" -> a, b, c, e.
absl::StatusOr<std::vector<std::string>> ParsePasses(const std::string& file, std::string text) {
  std::vector<std::string> passes;
  bool range = false;
  for (const std::string& word : Words(std::move(text))) {
    if (word == "..") {
      range = true;
      continue;
    }
    ASSIGN_OR_RETURN(const int index, IndexOf(file, word));
    int first = index;
    if (range && !passes.empty()) {
      ASSIGN_OR_RETURN(const int last, IndexOf(file, passes.back()));
      first = last + 1;
    }
    for (int i = first; i <= index; ++i) passes.emplace_back(kPasses[i]);
    range = false;
  }
  return passes;
}

bool Has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// A case on its way: first a graph, from `lower` on a plan with one program.
struct State {
  Schedule schedule;
  Graph graph;
  Gradients gradients;
  SbpChoice choice;
  PersistentIds ids;
  Lowered lowered;
  proto::Plan plan;
};

absl::Status Lower(const GoldenCase& golden, State* state) {
  const Graph& graph = state->graph;
  proto::Plan& plan = state->plan;
  plan.set_version(kPlanVersion);
  *plan.mutable_mesh() = ToProto(graph.mesh);
  plan.set_stage_axis(graph.mesh.stage_axis());
  plan.set_kernel_threads(1);
  plan.set_launch_queue(1);
  RETURN_IF_ERROR(AddPersistent(graph, &plan, &state->ids));
  LowerOptions options;
  options.name = "train";
  options.micro_batches = golden.micro_batches;
  options.micro_batch_size = golden.micro_batch_size;
  options.chunks = state->schedule.chunks;
  options.splits_backward = state->schedule.splits_backward;
  options.groups = GroupsOf({&graph});
  for (const proto::Group& group : options.groups) *plan.add_group() = group;
  if (graph.loss >= 0) options.outputs.push_back({"report", "report", {graph.loss}, {}});
  for (TensorId t : graph.outputs) {
    const std::string name = graph.tensors[t].name;
    options.outputs.push_back({"fetch", name + ".fetch", {t}, {{"name", name}, {"raw", false}}});
  }
  ASSIGN_OR_RETURN(state->lowered, LowerToActors(graph, state->ids, options));
  *plan.add_program() = state->lowered.program;
  return absl::OkStatus();
}

// By a clock by which all firings take as long.
std::vector<double> Seconds(const proto::Program& program) {
  return std::vector<double>(program.actor_size(), 1);
}

// The order of issue comes with the bytes: without it a plan is not whole.
absl::Status PlanBytes(int stages, proto::Plan* plan) {
  RETURN_IF_ERROR(PlanMemory(stages, plan));
  proto::Program* program = plan->mutable_program(0);
  ASSIGN_OR_RETURN(const IssueOrders orders, PlayIssueOrders(*plan, *program, Seconds(*program)));
  for (const proto::IssueOrder& order : orders) *program->add_issue() = order;
  return VerifyPlan(*plan);
}

absl::Status RunBackEndPass(const std::string& pass, const GoldenCase& golden, State* state) {
  if (pass == "lower") return Lower(golden, state);
  proto::Plan& plan = state->plan;
  const int stages = state->graph.mesh.stages();
  if (plan.program_size() == 0) return InputError(golden.file, "has no pass lower before " + pass);
  if (pass == "plan_memory") return PlanBytes(stages, &plan);
  Lowered& lowered = state->lowered;
  if (pass == "hold_back") HoldBackUpdateReceives(&lowered);
  if (pass == "schedule") AddStreams(&lowered, stages, state->schedule);
  if (pass == "tell_receives") {
    RETURN_IF_ERROR(TellReceives(plan, Seconds(lowered.program), &lowered));
  }
  // Tokens are counted as all fills are.
  if (pass == "slots" || pass == "tell_receives") {
    RETURN_IF_ERROR(SetSlots(plan, &lowered.program));
  }
  *plan.mutable_program(0) = lowered.program;
  return absl::OkStatus();
}

absl::Status RunPass(const std::string& pass, const GoldenCase& golden, State* state) {
  Graph* graph = &state->graph;
  if (pass == "fold_stages") return absl::OkStatus();  // every case begins with it
  if (pass == "bind_batch") return BindBatch(graph, golden.micro_batch_size);
  if (pass == "infer_shapes") return CheckAndInferShapes(graph);
  if (pass == "remove_dropout") {
    RemoveDropout(graph);
    *graph = Prune(*graph, graph->loss >= 0, graph->outputs.size());
    return absl::OkStatus();
  }
  if (pass == "cache_attention") return CacheAttention(graph, golden.positions);
  if (pass == "decompose") return Decompose(graph, golden.micro_batches);
  if (pass == "place_variables") return PlaceVariables(graph);
  if (pass == "differentiate") {
    ASSIGN_OR_RETURN(state->gradients, Differentiate(graph, graph->loss));
    return absl::OkStatus();
  }
  if (pass == "add_optimizer") return AddOptimizer(graph, state->gradients);
  if (pass == "mixed_precision") {
    if (golden.precision != "bf16") return absl::OkStatus();
    const DType residual = golden.residual == "bf16" ? DType::kBF16 : DType::kF32;
    return MixedPrecision(graph, residual, &state->gradients.mirrors);
  }
  if (pass == "infer_sbp") {
    ASSIGN_OR_RETURN(state->choice, InferSbp(graph, {.micro_batches = golden.micro_batches,
                                                     .mirrors = state->gradients.mirrors}));
    return absl::OkStatus();
  }
  if (pass == "recompute") {
    Recompute(graph, &state->choice);
    return absl::OkStatus();
  }
  if (pass == "insert_boxing") {
    RETURN_IF_ERROR(InsertBoxing(graph, state->choice));
    return VerifyGraph(*graph);
  }
  if (pass == "fuse") {
    Fuse(graph);
    return VerifyGraph(*graph);
  }
  return RunBackEndPass(pass, golden, state);
}

std::string PrintGraph(const Graph& graph, bool boxing_only) {
  std::string text = ToText(graph, {.why = boxing_only});
  if (!boxing_only) return text;
  std::istringstream lines(text);
  std::string line, kept;
  for (int i = -1; std::getline(lines, line); ++i) {  // the line of op i; -1: the header
    if (i < 0 || IsBoxing(graph.ops[i].kind)) kept += line + "\n";
  }
  return kept;
}

// What a line of PlanText tells of, in the words of `show`.
std::string_view KindOf(const std::string& line) {
  if (line.rfind("memory ", 0) == 0) return "memory";
  if (line.rfind("persistent:", 0) == 0 || line.rfind("  r", 0) == 0) return "registers";
  if (line.rfind("  a", 0) == 0) return "actors";
  if (line.rfind("  segment ", 0) == 0) return "segments";
  if (line.rfind("  stream ", 0) == 0) return "streams";
  if (line.rfind("  issue ", 0) == 0) return "issue";
  return "";  // the program's name
}

std::string PrintPlan(const proto::Plan& plan, const GoldenCase& golden) {
  std::istringstream lines(PlanText(plan));
  std::string line, kept;
  for (int i = 0; std::getline(lines, line); ++i) {
    if (i < 2) continue;  // the plan's header: facts of the whole plan
    const std::string_view kind = KindOf(line);
    if (!kind.empty() && !golden.show.empty() && !Has(golden.show, kind)) continue;
    const bool named = line.rfind("  r", 0) == 0 || line.rfind("  a", 0) == 0;
    if (named && !golden.names.empty() && !Has(golden.names, Words(line)[1])) continue;
    kept += line + "\n";
  }
  return kept;
}

}  // namespace

absl::StatusOr<GoldenCase> ParseGoldenCase(const std::string& file, std::string_view text) {
  const size_t graph = text.find(kGraphMark), expect = text.find(kExpectMark);
  if (graph == std::string_view::npos || expect == std::string_view::npos || expect < graph) {
    return InputError(file, "is no golden case", "see tests/golden/golden_case.h");
  }
  if (text.empty() || text[0] != '#') {
    return InputError(file, "does not begin with a comment", "say why the result is right");
  }
  GoldenCase golden;
  golden.file = file;
  golden.head = std::string(text.substr(0, expect));
  golden.graph =
      std::string(text.substr(graph + kGraphMark.size(), expect - graph - kGraphMark.size()));
  golden.expect = std::string(text.substr(expect + kExpectMark.size()));
  std::istringstream lines(std::string(text.substr(0, graph)));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.empty() || line[0] == '#') continue;
    const std::string key = line.substr(0, colon);
    const std::string value = colon == std::string::npos ? "" : line.substr(colon + 2);
    if (key == "passes") {
      ASSIGN_OR_RETURN(golden.passes, ParsePasses(file, value));
    } else if (key == "micro_batch_size") {
      golden.micro_batch_size = std::stoll(value);
    } else if (key == "positions") {
      golden.positions = std::stoll(value);
    } else if (key == "micro_batches") {
      golden.micro_batches = std::stoll(value);
    } else if (key == "schedule") {
      golden.schedule = value;
    } else if (key == "chunks") {
      golden.chunks = std::stoi(value);
    } else if (key == "precision") {
      golden.precision = value;
    } else if (key == "residual") {
      golden.residual = value;
    } else if (key == "show") {
      golden.show = Words(value);
    } else if (key == "names") {
      golden.names = Words(value);
    } else {
      return InputError(file, "does not understand \"" + line + "\"");
    }
  }
  return golden;
}

absl::StatusOr<std::string> RunGoldenCase(const GoldenCase& golden) {
  State state;
  proto::Train train;
  train.set_schedule(golden.schedule);
  train.set_chunks(golden.chunks);
  ASSIGN_OR_RETURN(state.graph, ParseGraphText(golden.graph));
  ASSIGN_OR_RETURN(state.schedule, ScheduleOf(train, state.graph.mesh.stages()));
  RETURN_IF_ERROR(FoldStages(&state.graph, state.schedule.chunks));
  for (const std::string& pass : golden.passes) {
    RETURN_IF_ERROR(RunPass(pass, golden, &state));
  }
  if (state.plan.program_size() > 0) return PrintPlan(state.plan, golden);
  return PrintGraph(state.graph, Has(golden.show, "boxing"));
}

bool CanTrain(const GoldenCase& golden) {
  const auto graph = ParseGraphText(golden.graph);
  return graph.ok() && graph->loss >= 0 &&
         std::any_of(graph->ops.begin(), graph->ops.end(),
                     [](const Op& op) { return op.kind == "variable"; });
}

absl::Status RunDry(const GoldenCase& golden) {
  proto::Graph graph;
  if (!google::protobuf::TextFormat::ParseFromString(golden.graph, &graph)) {
    return InputError(golden.file, "has no graph");
  }
  ASSIGN_OR_RETURN(const Graph logical, ParseGraphText(golden.graph));
  CompileOptions options{.mesh = logical.mesh};
  options.train.set_batch(golden.micro_batch_size * golden.micro_batches);
  options.train.set_micro_batches(golden.micro_batches);
  options.train.set_schedule(golden.schedule);
  options.train.set_chunks(golden.chunks);
  if (golden.precision == "bf16") options.train.set_precision(proto::BF16);
  if (golden.residual == "bf16") options.train.set_residual(proto::BF16);
  ASSIGN_OR_RETURN(const proto::Plan plan, Compile(graph, golden.file, options));
  ASSIGN_OR_RETURN(const auto runtime, DeterministicRuntime::Create(plan, {}));
  for (const proto::Program& program : plan.program()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      RETURN_IF_ERROR(Annotate(runtime->Run(program.name(), {}, /*steps=*/2, seed),
                               program.name() + ", seed " + std::to_string(seed)));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
