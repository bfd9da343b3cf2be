#include "compiler/passes/infer_across_meshes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/infer_on_mesh.h"
#include "compiler/passes/sbp_choice.h"
#include "compiler/passes/sbp_crossings.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

absl::Status ChooseAlone(OnMesh* on) {
  on->unsettled = on->part.graph;
  on->whole = LayWhole(&on->unsettled);
  ASSIGN_OR_RETURN(on->choice, InferOnMesh(&on->part.graph, on->options));
  std::vector<int> axes = AxesToChoose(on->unsettled.mesh);
  if (axes.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(on->labels,
                   SbpLabels::Make(on->unsettled, on->whole, on->options, std::move(axes)));
  return absl::OkStatus();
}

// What the run reads on the mesh itself; what it reads of a sub-mesh crosses.
std::vector<TensorId> ObservedOn(const Graph& graph, const OnMesh& on) {
  std::vector<TensorId> observed;
  if (on.sub_mesh) return observed;
  const std::vector<TensorId> all = ObservedBy(graph);
  for (const OpId op : on.part.op) {
    if (op < 0) continue;
    for (const TensorId t : graph.ops[op].outputs) {
      if (!std::binary_search(all.begin(), all.end(), t)) continue;
      const auto at = std::find(on.part.tensor.begin(), on.part.tensor.end(), t);
      observed.push_back(static_cast<TensorId>(at - on.part.tensor.begin()));
    }
  }
  return observed;
}

std::vector<ProblemOnMesh> ProblemsOf(const Graph& graph, const std::deque<OnMesh>& meshes) {
  std::vector<ProblemOnMesh> problems;
  int first = 0;
  for (const OnMesh& on : meshes) {
    problems.push_back({on.sub_mesh, on.part, std::nullopt});
    if (!on.labels) continue;
    std::vector<bool> elsewhere;
    for (const OpId op : on.part.op) elsewhere.push_back(op < 0);
    problems.back().problem.emplace(SbpProblem{on.unsettled, on.whole, on.options, *on.labels,
                                               ObservedOn(graph, on), std::move(elsewhere), first});
    first += problems.back().problem->Variables();
  }
  return problems;
}

ChoiceNetwork NetworkOf(const Graph& graph, const SbpOptions& options,
                        const std::vector<ProblemOnMesh>& problems) {
  ChoiceNetwork network;
  for (const ProblemOnMesh& on : problems) {
    if (on.problem) AddVariables(*on.problem, &network);
  }
  for (const ProblemOnMesh& on : problems) {
    SbpTables tables(&network);  // what is alike on two meshes does not cost the same
    if (on.problem) AddTerms(*on.problem, &network, &tables);
  }
  SbpTables tables(&network);
  AddCrossings(graph, options, problems, &tables);
  return network;
}

// The best of what was chosen on each mesh and what is best on all together, which is stored;
// nothing where that is too large to be looked at.
std::optional<Choices> ChooseTogether(const Graph& graph, const SbpOptions& options,
                                      std::deque<OnMesh>* meshes) {
  for (const OnMesh& on : *meshes) {
    if (on.labels && !FewEnoughWays(*on.labels)) return std::nullopt;
  }
  const std::vector<ProblemOnMesh> problems = ProblemsOf(graph, *meshes);
  const ChoiceNetwork network = NetworkOf(graph, options, problems);
  std::vector<int> alone;
  for (size_t m = 0; m < meshes->size(); ++m) {
    if (!problems[m].problem) continue;
    const OnMesh& on = (*meshes)[m];
    const std::vector<int> label = LabelsOf(*problems[m].problem, on.part.graph, on.choice);
    alone.insert(alone.end(), label.begin(), label.end());
  }
  alone = CompleteLabels(network, std::move(alone));
  Choices best = Solve(network, kJointCells);
  const Cost cost = network.CostOf(alone);
  if (cost <= best.cost) return Choices{std::move(alone), cost, best.bound};
  for (size_t m = 0; m < meshes->size(); ++m) {
    if (!problems[m].problem) continue;
    OnMesh& on = (*meshes)[m];
    Store(*problems[m].problem, best.label, &on.part.graph, &on.choice);
  }
  return best;
}

// Writes what was chosen on one mesh into the whole graph.
void WriteBack(const OnMesh& on, Graph* graph, SbpChoice* choice) {
  for (size_t i = 0; i < on.part.op.size(); ++i) {
    if (on.part.op[i] < 0) continue;
    choice->op_inputs[on.part.op[i]] = on.choice.op_inputs[i];
    for (const TensorId t : on.part.graph.ops[i].outputs) {
      graph->tensors[on.part.tensor[t]].sbp = on.part.graph.tensors[t].sbp;
    }
  }
  for (const std::string& note : on.choice.notes) {
    choice->notes.push_back(on.sub_mesh ? "on " + ToString(*on.sub_mesh) + ": " + note : note);
  }
}

}  // namespace

absl::StatusOr<std::deque<OnMesh>> ChooseOnEach(const Graph& graph, const SbpOptions& options) {
  std::deque<OnMesh> meshes;
  for (const std::optional<SubMesh>& sub_mesh : MeshesOf(graph)) {
    OnMesh& on = meshes.emplace_back();
    on.sub_mesh = sub_mesh;
    on.part = PartOnMesh(graph, sub_mesh, options.mirrors);
    on.options = options;
    on.options.mirrors = on.part.mirrors;
    RETURN_IF_ERROR(ChooseAlone(&on));
  }
  return meshes;
}

ChoiceNetwork NetworkAcross(const Graph& graph, const SbpOptions& options,
                            const std::deque<OnMesh>& meshes) {
  return NetworkOf(graph, options, ProblemsOf(graph, meshes));
}

absl::StatusOr<SbpChoice> InferAcrossMeshes(Graph* graph, const SbpOptions& options) {
  ASSIGN_OR_RETURN(std::deque<OnMesh> meshes, ChooseOnEach(*graph, options));
  const std::optional<Choices> together = ChooseTogether(*graph, options, &meshes);
  SbpChoice choice;
  choice.op_inputs.resize(graph->ops.size());
  for (OnMesh& on : meshes) {
    if (together) {
      on.choice.notes.clear();
      for (const int axis : AxesToChoose(on.part.graph.mesh)) {
        AddNotes(on.part.graph, axis, &on.choice);
      }
    }
    WriteBack(on, graph, &choice);
  }
  choice.notes.push_back(together ? "all meshes together: " + ProofText(*together)
                                  : "all meshes together: not looked at, an op has "
                                    "too many ways to choose");
  return choice;
}

}  // namespace oneflow
