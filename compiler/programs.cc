#include "compiler/programs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/annotate_offload.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

bool HasBatch(const Graph& graph) {
  for (const Op& op : graph.ops) {
    if (op.kind != "input") continue;
    const Shape& shape = graph.tensors[op.outputs[0]].shape;
    if (std::find(shape.dims.begin(), shape.dims.end(), 0) != shape.dims.end()) return true;
  }
  return false;
}

absl::Status CheckBatch(const Graph& graph, const proto::Recipe& recipe) {
  const int64_t batch = recipe.batch(), m = recipe.micro_batches();
  const int64_t degree = DataDegree(graph);
  if (batch / m < degree) {
    return InputError(
        absl::StrCat("--batch=", batch, " in ", m, m == 1 ? " micro-batch" : " micro-batches"),
        absl::StrCat("a micro-batch of ", batch / m, batch / m == 1 ? " sequence" : " sequences",
                     " cannot be split over ", degree, " data parts of the mesh ",
                     ToString(graph.mesh)),
        absl::StrCat("use a batch of at least ", degree * m,
                     ", fewer micro-batches or fewer data parts"));
  }
  return absl::OkStatus();
}

// Where weights lag, a device updates into another version of them in its memory.
absl::Status CheckOnHost(const VariablesOnHost& host, const UpdateRule& rule) {
  if (rule.synchronous() || !host.any()) return absl::OkStatus();
  const std::string flag = host.update
                               ? "--update_on=host"
                               : absl::StrCat("--offload=", host.states ? "states" : "weights");
  return InputError(
      flag, "is not for weights that lag: all of their versions are in the device's memory",
      "use a schedule whose steps do not overlap, as --schedule=1f1b, or leave it out; "
      "--offload=activations is for every schedule");
}

OptimizerOptions OptimizerFor(const proto::Recipe& recipe, const UpdateRule& rule, int stages) {
  OptimizerOptions options;
  options.wait_for_norm = recipe.global_norm();
  for (int s = 0; s < stages && !rule.synchronous(); ++s) {
    options.versions.push_back({rule.Lag(stages, s), rule.Versions(stages, s)});
  }
  return options;
}

absl::Status CheckStageCount(const Graph& graph) {
  const int stages = graph.mesh.stages(), ops = static_cast<int>(graph.ops.size());
  if (stages <= std::max(ops, 2)) return absl::OkStatus();
  return InputError(absl::StrCat("--mesh=pipe=", stages),
                    absl::StrCat("is more stages than the ", ops, " ops of \"", graph.name, "\""),
                    absl::StrCat("use pipe=", ops, " or less"));
}

ProgramDraft Draft(std::string name, int64_t micro_batches, int64_t size) {
  return {
      .spec = {.name = std::move(name), .micro_batches = micro_batches, .micro_batch_size = size}};
}

// Tokens of a sequence; 0 if the graph reads none.
int64_t FindSequence(const Graph& graph) {
  for (const Op& op : graph.ops) {
    const Shape& shape = graph.tensors[op.outputs[0]].shape;
    if (op.kind == "input" && AttrString(op, "source") == "tokens" && shape.rank() == 2) {
      return shape.dims[1];
    }
  }
  return 0;
}

absl::StatusOr<std::vector<ProgramDraft>> DraftGeneration(const Graph& graph) {
  const int64_t sequence = FindSequence(graph);
  if (sequence == 0 || !HasBatch(graph) || graph.outputs.empty()) {
    return InputError("graph " + graph.name, "does not read tokens and give an output",
                      "only models written by `oneflow model` (or alike) continue texts");
  }
  std::vector<ProgramDraft> drafts;
  const auto add = [&](std::string name, int64_t positions, bool fills_caches) {
    ProgramDraft& draft = drafts.emplace_back(Draft(std::move(name), 1, DataDegree(graph)));
    draft.outputs = 1;
    draft.positions = positions;
    draft.fills_caches = fills_caches;
    draft.spec.feed_inputs = true;
  };
  for (Prefill& prefill : FindPrefills(sequence)) {
    add(std::move(prefill.program), prefill.positions, /*fills_caches=*/true);
  }
  add("decode", 1, /*fills_caches=*/false);
  return drafts;
}

// The norm that stands on the stage of the loss, divided where labels are counted; -1 without an
// optimizer.
TensorId NormOn(const Graph& graph, int stage) {
  TensorId norm = -1;
  for (const Op& op : graph.ops) {
    if (op.kind == "global_norm" && op.stage == stage) norm = op.outputs[0];
    if (op.kind == kDivide && norm >= 0 && op.inputs[0] == norm) return op.outputs[0];
  }
  return norm;
}

// The loss, a mean over the labels that count where they are counted, and then their number, too:
// means of micro-batches may be joined only if each weighs as much as it has labels.
void ReportLoss(ProgramDraft* draft) {
  const Op& mean = draft->graph.Producer(draft->graph.loss);
  HostOutput report{"report", "report", {draft->graph.loss}, {}};
  const TensorId norm = NormOn(draft->graph, mean.stage);
  if (norm >= 0) report.tensors.push_back(norm);
  if (mean.kind == kDivide && FindLabelCount(draft->graph) >= 0) {
    report.tensors.push_back(mean.inputs[1]);
    report.attrs["counted"] = true;
  }
  const TensorId choices = FindChoices(draft->graph);
  if (choices >= 0) report.tensors.push_back(choices);
  draft->spec.outputs.push_back(std::move(report));
}

std::vector<int64_t> Replicated(const Graph& graph, TensorId t) {
  std::vector<int64_t> axes;
  for (int axis = 0; axis < static_cast<int>(graph.mesh.axes.size()); ++axis) {
    if (axis != graph.mesh.stage_axis() && graph.tensors[t].sbp[axis].broadcast())
      axes.push_back(axis);
  }
  return axes;
}

// Fetches output i, which bore `name` and was tensor `as_produced` before boxing resolved it.
void Fetch(ProgramDraft* draft, TensorId resolved, TensorId as_produced, const std::string& name,
           bool with_raw) {
  draft->spec.outputs.push_back(
      {"fetch",
       name + ".fetch",
       {resolved},
       {{"name", name}, {"raw", false}, {"replicated_axes", Replicated(draft->graph, resolved)}}});
  if (!with_raw) return;
  draft->spec.outputs.push_back(
      {"fetch", name + ".fetch_raw", {as_produced}, {{"name", name}, {"raw", true}}});
}

}  // namespace

std::vector<Prefill> FindPrefills(int64_t sequence) {
  constexpr int64_t kMost = 256;
  std::vector<Prefill> prefills = {{"prefill", std::min(kMost, sequence)}};
  for (const int64_t positions : {64, 16}) {
    if (positions >= sequence) continue;
    prefills.push_back({absl::StrCat("prefill_", positions), positions});
  }
  return prefills;
}

int64_t DataDegree(const Graph& graph) {
  int64_t most = 1;
  for (const Op& op : graph.ops) {
    if (op.kind != "input") continue;
    const Tensor& x = graph.tensors[op.outputs[0]];
    int64_t degree = 1;
    for (const Mesh::Axis& axis : graph.mesh.axes) {
      const auto it = x.constraint.find(axis.name);
      if (it == x.constraint.end() || !it->second.split()) continue;
      if (it->second.dim < x.shape.rank() && x.shape.dims[it->second.dim] == 0) degree *= axis.size;
    }
    most = std::max(most, degree);
  }
  return most;
}

absl::StatusOr<std::vector<ProgramDraft>> DraftPrograms(const Graph& graph,
                                                        const proto::Plan& header,
                                                        const UpdateRule& rule) {
  const proto::Recipe& recipe = header.recipe();
  RETURN_IF_ERROR(CheckBatch(graph, recipe));
  RETURN_IF_ERROR(CheckOnHost(FindOnHost(graph), rule));
  RETURN_IF_ERROR(CheckStageCount(graph));
  if (recipe.purpose() == proto::Recipe::GENERATION) return DraftGeneration(graph);
  const bool evaluate = recipe.purpose() == proto::Recipe::EVALUATION;
  const int64_t m = recipe.micro_batches(), size = recipe.batch() / m;
  const bool batch = HasBatch(graph), loss = graph.loss >= 0, outputs = !graph.outputs.empty();
  std::vector<ProgramDraft> drafts;
  if (evaluate && !loss) {
    return InputError("graph " + graph.name, "has no loss, so it cannot be evaluated",
                      "set `loss`");
  }
  if (loss && !evaluate) {
    drafts.push_back(Draft("train", m, size));
    drafts.back().train = drafts.back().loss = true;
    drafts.back().spec.steps_a_round = rule.steps_a_round;
    drafts.back().optimizer = OptimizerFor(recipe, rule, graph.mesh.stages());
  }
  if (loss) {
    drafts.push_back(Draft("eval", 1, size));
    drafts.back().loss = true;
  }
  if (evaluate) return drafts;
  if (loss && batch && outputs) {
    drafts.push_back(Draft("generate", 1, DataDegree(graph)));
    drafts.back().outputs = 1;
    drafts.back().spec.feed_inputs = true;
  }
  if (outputs && (!loss || !batch)) {
    drafts.push_back(Draft("run", 1, recipe.batch()));
    drafts.back().outputs = graph.outputs.size();
    drafts.back().spec.feed_inputs = true;
  }
  if (drafts.empty()) {
    return InputError("graph " + graph.name, "has neither a loss nor an output",
                      "set `loss` or `output`");
  }
  return drafts;
}

void AddHostOutputs(const std::vector<std::string>& names, const std::vector<TensorId>& as_produced,
                    ProgramDraft* draft) {
  if (draft->loss) ReportLoss(draft);
  for (size_t i = 0; i < as_produced.size(); ++i) {
    Fetch(draft, draft->graph.outputs[i], as_produced[i], names[i], draft->spec.name == "run");
  }
}

}  // namespace oneflow
