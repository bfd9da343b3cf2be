#include "compiler/sbp/infer_sbp.h"

#include <optional>
#include <utility>

#include "compiler/boxing/stand_in.h"
#include "compiler/sbp/choice_descent.h"
#include "compiler/sbp/choice_network.h"
#include "compiler/sbp/layout_key.h"
#include "compiler/sbp/sbp_choice.h"
#include "compiler/sbp/sbp_constraint.h"
#include "compiler/sbp/sbp_network.h"
#include "compiler/sbp/sbp_tables.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Cells of the largest table when all axes are chosen at once. Larger tables take longer than they
// are worth.
constexpr int64_t kJointCells = int64_t{1} << 18;
// Cells of all tables of a further round.
constexpr int64_t kAllCells = int64_t{1} << 25;

struct JointChoice {
  ChoiceSpace space;
  SbpCosts costs;
  Choices best;  // with its bound, proved or not
};

SbpProblem MakeProblem(const Graph& graph, const SbpChoice& previous, const SbpOptions& options,
                       const ChoiceSpace& space) {
  return {graph, previous, options, space, FindObserved(graph)};
}

// True if no group has more than kMaxCombinations combinations.
bool FewEnoughCombinations(const ChoiceSpace& space) {
  for (int group = 0; group < space.size(); ++group) {
    const double count = space.Combinations(group, static_cast<int>(space.axes().size()));
    if (count > kMaxCombinations) return false;
  }
  return true;
}

// Eliminates with larger and larger tables until the result is proved, or a round takes more than
// kAllCells. The fewer axes, the larger the tables may get.
Choices EliminateFurther(const ChoiceNetwork& network, size_t axes) {
  return Eliminate(network, kJointCells, axes == 2 ? 3 : axes == 3 ? 2 : 1, kAllCells);
}

// The choice on all axes at once; nullopt if there is only one axis, or too many combinations.
std::optional<JointChoice> ChooseTogether(const Graph& graph, const SbpOptions& options,
                                          const SbpChoice& replicated,
                                          const std::vector<int>& axes) {
  if (axes.size() < 2) return std::nullopt;
  absl::StatusOr<ChoiceSpace> space = ChoiceSpace::Make(graph, replicated, options, axes);
  // The search axis by axis finds the same error and names the axis.
  if (!space.ok() || !FewEnoughCombinations(*space)) return std::nullopt;
  SbpCosts costs = SbpNetwork(MakeProblem(graph, replicated, options, *space));
  Choices best = EliminateFurther(costs.network, axes.size());
  return JointChoice{*std::move(space), std::move(costs), std::move(best)};
}

// One axis after the other.
absl::Status ChooseEach(const std::vector<int>& axes, const SbpOptions& options, Graph* graph,
                        SbpChoice* choice) {
  for (const int axis : axes) {
    ASSIGN_OR_RETURN(const ChoiceSpace space, ChoiceSpace::Make(*graph, *choice, options, {axis}));
    const SbpProblem problem = MakeProblem(*graph, *choice, options, space);
    const SbpCosts costs = SbpNetwork(problem);
    const Choices best = Solve(costs.network);
    Store(problem, best.assignment, graph, choice);
    AddNotes(*graph, axis, choice);
    choice->notes.push_back("axis " + graph->mesh.axes[axis].name + ": " +
                            ProofText(costs, best, options) +
                            (axes.size() > 1 ? ", given the axes before it" : ""));
  }
  return absl::OkStatus();
}

absl::StatusOr<SbpChoice> Choose(Graph* graph, const SbpOptions& options) {
  SbpChoice choice = ReplicateAll(graph);
  const SbpChoice replicated = choice;
  const std::vector<int> axes = AxesToChoose(graph->mesh);
  std::optional<JointChoice> joint = ChooseTogether(*graph, options, replicated, axes);
  if (!joint) {
    RETURN_IF_ERROR(ChooseEach(axes, options, graph, &choice));
    if (axes.size() < 2) return choice;
    choice.notes.emplace_back(
        "all axes together: not searched, an op has too many combinations of signatures");
    return choice;
  }
  const SbpProblem problem = MakeProblem(*graph, replicated, options, joint->space);
  if (!joint->best.proved()) {
    Graph one_by_one = *graph;
    SbpChoice chosen = replicated;
    RETURN_IF_ERROR(ChooseEach(axes, options, &one_by_one, &chosen));
    const ChoiceNetwork& network = joint->costs.network;
    const std::vector<int> start =
        ExtendAssignment(network, FindAssignment(problem, one_by_one, chosen));
    Descend(network, {joint->best.assignment, start}, &joint->best);
  }
  Store(problem, joint->best.assignment, graph, &choice);
  for (const int axis : axes) AddNotes(*graph, axis, &choice);
  choice.notes.push_back("all axes together: " + ProofText(joint->costs, joint->best, options));
  return choice;
}

}  // namespace

absl::StatusOr<SbpChoice> InferSbp(Graph* graph, const SbpOptions& given) {
  SbpOptions options = given;
  options.cluster = ClusterForLayouts(given.cluster);
  RETURN_IF_ERROR(CheckConstraints(*graph));
  if (!options.known_layouts) return Choose(graph, options);
  std::string key = LayoutKey(*graph, options);
  if (const std::optional<PackedLayouts> known = options.known_layouts->Find(key)) {
    return Unpack(*known, graph);
  }
  ASSIGN_OR_RETURN(SbpChoice choice, Choose(graph, options));
  options.known_layouts->Add(std::move(key), Pack(*graph, choice));
  return choice;
}

}  // namespace oneflow
