#include "tests/golden/golden_case.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include "actor_runtime/exec/interleaved_for_test.h"
#include "compiler/back_end.h"
#include "compiler/compile.h"
#include "compiler/front_end.h"
#include "compiler/lower/groups.h"
#include "compiler/lower/persistent.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/passes/passes.h"
#include "compiler/schedule/issue_order.h"
#include "compiler/schedule/schedule.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/wrap.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/primitive.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// What compile runs, in its order, and what comes of all programs together: bytes and orders of
// issue.
std::vector<std::string> Passes() {
  std::vector<std::string> names = PassNames();
  names.insert(names.begin(), "fold_stages");
  names.emplace_back("plan_memory");
  return names;
}

// Those that stand in no range: they are for programs that do not train, for overlap, or for what
// rests in the host's memory.
constexpr std::string_view kAlone[] = {
    "remove_dropout",  "give_positions", "mask_labels",        "join_positions", "omit_logits",
    "cache_attention", "rest_on_host",   "check_cuda_kernels", "order_update",   "choose_offload",
    "move_to_host",    "hide_exchanges", "delay_sums",         "prefetch",       "bound_copies"};
constexpr std::string_view kGraphMark = "-- graph --\n", kExpectMark = "-- expect --\n";

absl::StatusOr<int> FindPass(const std::string& file, const std::string& pass) {
  const std::vector<std::string> passes = Passes();
  auto it = std::find(passes.begin(), passes.end(), pass);
  if (it == passes.end()) return InputError(file, "there is no pass \"" + pass + "\"");
  return static_cast<int>(it - passes.begin());
}

std::vector<std::string> Words(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// "a .. c, e" -> a, b, c, e.
absl::StatusOr<std::vector<std::string>> ParsePasses(const std::string& file, std::string text) {
  const std::vector<std::string> all = Passes();
  std::vector<std::string> passes;
  bool range = false;
  for (const std::string& word : Words(std::move(text))) {
    if (word == "..") {
      range = true;
      continue;
    }
    ASSIGN_OR_RETURN(const int index, FindPass(file, word));
    int first = index;
    if (range && !passes.empty()) {
      ASSIGN_OR_RETURN(const int last, FindPass(file, passes.back()));
      first = last + 1;
    }
    for (int i = first; i <= index; ++i) {
      const bool alone =
          std::find(std::begin(kAlone), std::end(kAlone), all[i]) != std::end(kAlone);
      if (i == index || !alone) passes.push_back(all[i]);
    }
    range = false;
  }
  return passes;
}

bool Has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// A case on its way: first a graph, from `lower` on a plan with one program.
struct State {
  explicit State(const GoldenCase& golden) {
    draft.spec.name = "train";
    draft.spec.micro_batches = golden.recipe.micro_batches();
    draft.spec.micro_batch_size = golden.micro_batch_size;
    draft.positions = golden.positions;
    plan.set_device_kind(golden.recipe.device());
    plan.set_version(kPlanVersion);
    plan.set_kernel_threads(1);
    plan.set_launch_queue(1);
    *plan.mutable_recipe() = WithDefaults(golden.recipe);
  }

  proto::Plan plan;
  ProgramDraft draft;
  Schedule schedule;
  PersistentIds ids;
  FrontEndState front{plan, nullptr, draft};
  BackEndState back{plan, draft, ids, schedule};
};

// What compile does of all programs before it lowers the first.
absl::Status PrepareToLower(State* state) {
  ProgramDraft& draft = state->draft;
  const Graph& graph = draft.graph;
  *state->plan.mutable_mesh() = ToProto(graph.mesh);
  state->plan.set_stage_axis(graph.mesh.stage_axis());
  RETURN_IF_ERROR(AddPersistent(graph, &state->plan, &state->ids));
  for (const proto::Group& group : FindGroups({&graph})) *state->plan.add_group() = group;
  state->back.stages = graph.mesh.stages();
  state->back.micro_batches = draft.spec.micro_batches;
  return absl::OkStatus();
}

// The order of issue comes with the bytes: without it a plan is not whole.
absl::Status PlanBytes(State* state) {
  proto::Plan* plan = &state->plan;
  if (plan->program_size() == 0) return absl::InvalidArgumentError("plan_memory before lower");
  RETURN_IF_ERROR(PlanMemory(state->back.stages, plan));
  proto::Program* program = plan->mutable_program(0);
  ASSIGN_OR_RETURN(const IssueOrders orders, PlayIssueOrders(*plan, *program, state->back.seconds));
  for (const proto::IssueOrder& order : orders) *program->add_issue() = order;
  return VerifyPlan(*plan);
}

absl::Status RunPass(const std::string& name, State* state) {
  if (name == "fold_stages") return absl::OkStatus();  // every case begins with it
  if (name == "plan_memory") return PlanBytes(state);
  for (const FrontEndPass& pass : FrontEndPasses()) {
    if (pass.name != name) continue;
    if (name == "mixed_precision" && !pass.wanted(state->front)) return absl::OkStatus();
    RETURN_IF_ERROR(pass.run(&state->front));
    // The graph is whole from here on.
    const bool boxed = name == "insert_boxing" || name == "fuse" || name == "order_update";
    return boxed ? VerifyGraph(state->draft.graph) : absl::OkStatus();
  }
  if (name == "lower") RETURN_IF_ERROR(PrepareToLower(state));
  // By a clock by which all firings take as long.
  if (name == "times") state->back.seconds.assign(state->back.lowered.program.actor_size(), 1);
  for (const BackEndStep& step : BackEndSteps()) {
    if (step.name != name) continue;
    if (name == "host_copies" && !step.wanted(state->back)) return absl::OkStatus();
    RETURN_IF_ERROR(step.run(&state->back));
  }
  state->plan.clear_program();
  *state->plan.add_program() = state->back.lowered.program;
  return absl::OkStatus();
}

// Ops of `before` by name, as they are printed.
std::map<std::string, std::string> OpTexts(const Graph& before) {
  std::map<std::string, std::string> texts;
  for (const Op& op : before.ops) texts[op.name] = OpText(before, op);
  return texts;
}

// `before`: the graph that the last pass was given.
std::string PrintGraph(const Graph& graph, const Graph& before, const GoldenCase& golden) {
  const bool boxing = Has(golden.show, "boxing"), changed = Has(golden.show, "changed");
  if (!boxing && !changed && golden.names.empty()) return ToText(graph);
  std::map<std::string, std::string> texts = OpTexts(before);
  const auto shown = [&](const Op& op) {
    if (boxing && !IsBoxing(op.kind)) return false;
    const auto old = texts.find(op.name);
    if (changed && old != texts.end() && old->second == OpText(graph, op)) return false;
    return golden.names.empty() || Has(golden.names, op.name);
  };
  std::string text = ToText(graph, {.why = boxing, .only = shown});
  if (!changed) return text;
  for (const Op& op : graph.ops) texts.erase(op.name);
  std::string removed;
  for (const Op& op : before.ops) removed += texts.count(op.name) > 0 ? " " + op.name : "";
  return removed.empty() ? text : WrapLines(text + "  removed:" + removed + "\n");
}

// What choose_offload says, and what it chose.
std::string PrintChosen(const State& state) {
  const Lowered& lowered = state.back.lowered;
  std::string text = WrapLines(lowered.note + "\n");
  for (const proto::Register& r : lowered.program.register_()) {
    if (lowered.to_host.contains(r.id())) text += "  " + r.name() + "\n";
  }
  return text;
}

// What a line of PlanText tells of, in the words of `show`.
std::string_view FindKind(const std::string& line) {
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
  bool keeps = true;
  for (int i = 0; std::getline(lines, line); ++i) {
    if (line.rfind("      ", 0) == 0) {  // the line before goes on
      if (keeps) kept += line + "\n";
      continue;
    }
    keeps = false;
    if (i < 2) continue;  // the plan's header: facts of the whole plan
    const std::string_view kind = FindKind(line);
    if (!kind.empty() && !golden.show.empty() && !Has(golden.show, kind)) continue;
    const bool named = line.rfind("  r", 0) == 0 || line.rfind("  a", 0) == 0;
    const auto& names = named ? golden.names : golden.segments;
    if ((named || kind == "segments") && !names.empty() && !Has(names, Words(line)[1])) continue;
    keeps = true;
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
    } else if (key == "overlap") {
      RETURN_IF_ERROR(SetFields(RecipeRows(), "--overlap --bucket_bytes=" + value, &golden.recipe));
    } else if (key == "documents") {
      golden.recipe.set_documents(true);
    } else if (key == "show") {
      golden.show = Words(value);
    } else if (key == "names") {
      for (const std::string& name : Words(value)) golden.names.push_back(name);
    } else if (key == "segments") {
      golden.segments = Words(value);
    } else if (const Row* row = FindRow(RecipeRows(), key); row != nullptr) {
      RETURN_IF_ERROR(SetField(*row, value, &golden.recipe));
    } else {
      return InputError(file, "does not understand \"" + line + "\"");
    }
  }
  if (!golden.recipe.has_micro_batches()) golden.recipe.set_micro_batches(1);
  golden.recipe.set_batch(golden.micro_batch_size * golden.recipe.micro_batches());
  return golden;
}

absl::StatusOr<std::string> RunGoldenCase(const GoldenCase& golden) {
  State state(golden);
  Graph& graph = state.draft.graph;
  ASSIGN_OR_RETURN(graph, ParseGraphText(golden.graph));
  state.draft.loss = graph.loss >= 0;
  state.draft.outputs = graph.outputs.size();
  ASSIGN_OR_RETURN(state.schedule, MakeSchedule(state.plan.recipe(), graph.mesh.stages()));
  RETURN_IF_ERROR(FoldStages(&graph, state.schedule.chunks));
  Graph before = graph;
  for (const std::string& pass : golden.passes) {
    before = graph;
    RETURN_IF_ERROR(RunPass(pass, &state));
  }
  if (golden.passes.back() == "choose_offload") return PrintChosen(state);
  if (state.plan.program_size() > 0) return PrintPlan(state.plan, golden);
  return PrintGraph(graph, before, golden);
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
  PlanRequest request{.recipe = golden.recipe};
  *request.recipe.mutable_mesh() = ToProto(logical.mesh);
  request.recipe.clear_device();
  ASSIGN_OR_RETURN(const proto::Plan plan, Compile(graph, golden.file, request));
  ASSIGN_OR_RETURN(const auto runtime,
                   Runtime::Create(plan, Interleaved(1, {.make_kernel = MakeIdleKernel})));
  for (const proto::Program& program : plan.program()) {
    for (int run = 0; run < 20; ++run) {
      RETURN_IF_ERROR(Annotate(runtime->Run(program.name(), {}, /*steps=*/2),
                               program.name() + ", run " + std::to_string(run)));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
