// Casts a weight for each use if it rests split as its master does, so that no cast copy is kept
// beside the master.
//
// mixed_precision casts a variable once a step (Phase::kPrepare), and the result is kept all step.
// If the weight is gathered for each use, its part can be cast just before it is gathered:
//
//   once a step    w -> cast -> w.bf16, kept    F: gather -> y    B: gather -> dx
//   for each use   F: w -> cast -> gather -> y                    B: w -> cast -> gather -> dx
//
// There is one cast for the readers of a chunk in the forward, and one in the backward; with
// `gather_shared` a single one for both. A cast of the same part gives the same bits. A weight that
// is gathered once a step over some axis (`gather_once`) is cast once a step, before that.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewrite.h"

namespace oneflow {
namespace {

class UseCaster {
 public:
  UseCaster(Graph* graph, SbpChoice* choice)
      : graph_(*graph),
        choice_(*choice),
        uses_(FindUses(*graph)),
        moved_(graph->ops.size(), false),
        casts_before_(graph->ops.size()) {
    for (const Op& op : graph_.ops) names_.insert(op.name);
  }

  void Run() {
    for (OpId id = 0; id < Size(); ++id) {
      if (IsCastForUses(id)) Move(id);
    }
    if (std::find(moved_.begin(), moved_.end(), true) != moved_.end()) Rebuild();
  }

 private:
  // The readers of a cast that share one.
  struct Group {
    Phase phase = Phase::kForward;
    int chunk = 0;
    NdSbp need;
    std::vector<Use> uses;  // in op order
  };

  OpId Size() const { return static_cast<OpId>(graph_.ops.size()); }
  bool IsOnAxes(const std::vector<int>& axes, const NdSbp& sbp) const {
    return std::any_of(axes.begin(), axes.end(), [&](int axis) {
      return graph_.mesh.axes[axis].size > 1 && sbp[axis].split();
    });
  }

  // True for a cast (what is prepared is cast) of a weight that is split as its states are, and all
  // of whose readers gather it.
  bool IsCastForUses(OpId id) const {
    const Op& cast = graph_.ops[id];
    if (cast.phase != Phase::kPrepare || cast.inputs.size() != 1) return false;
    const Op& variable = graph_.Producer(cast.inputs[0]);
    if (!IsVariable(variable)) return false;
    const NdSbp& sbp = graph_.tensors[cast.outputs[0]].sbp;
    const std::vector<int> states = FindAxes(graph_, variable, "states");
    if (!IsOnAxes(states, sbp) || IsOnAxes(FindAxes(graph_, variable, "gather_once"), sbp)) {
      return false;
    }
    const std::vector<Use>& uses = uses_[cast.outputs[0]];
    return !uses.empty() && std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      const Op& reader = graph_.ops[use.op];
      return !IsOnceAStep(reader.phase) && reader.stage == cast.stage &&
             !(choice_.op_inputs[use.op][use.input] == sbp);
    });
  }

  void Move(OpId id) {
    const Op cast = graph_.ops[id];
    const bool shared = AttrBool(graph_.Producer(cast.inputs[0]), "gather_shared");
    moved_[id] = true;
    bool first = true;
    for (const Group& group : FindGroups(cast.outputs[0], shared)) {
      const Op& reader = graph_.ops[group.uses.front().op];
      Op op = cast;
      op.phase = reader.phase;
      op.chunk = reader.chunk;
      if (!std::exchange(first, false)) {
        op.name = Unused(cast.name);
        Tensor copy = graph_.tensors[cast.outputs[0]];
        copy.name = op.name;
        graph_.tensors.push_back(std::move(copy));
        op.outputs = {static_cast<TensorId>(graph_.tensors.size()) - 1};
      }
      for (const Use& use : group.uses) graph_.ops[use.op].inputs[use.input] = op.outputs[0];
      casts_before_[group.uses.front().op].emplace_back(std::move(op), choice_.op_inputs[id]);
    }
  }

  // `shared`: a forward and its backward share what is gathered, so one cast.
  std::vector<Group> FindGroups(TensorId t, bool shared) const {
    std::vector<Group> groups;
    for (const Use& use : uses_[t]) {
      const Op& reader = graph_.ops[use.op];
      const Phase phase = shared ? Phase::kForward : reader.phase;
      const NdSbp& need = choice_.op_inputs[use.op][use.input];
      auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
        return g.phase == phase && g.chunk == reader.chunk && g.need == need;
      });
      if (group == groups.end()) {
        group = groups.insert(groups.end(), {phase, reader.chunk, need, {}});
      }
      group->uses.push_back(use);
    }
    return groups;
  }

  std::string Unused(const std::string& wish) {
    std::string name = wish;
    for (int i = 2; !names_.insert(name).second; ++i) name = absl::StrCat(wish, ".", i);
    return name;
  }

  void Rebuild() {
    std::vector<Op> ops;
    std::vector<std::vector<NdSbp>> inputs;
    for (OpId id = 0; id < Size(); ++id) {
      for (auto& [cast, sbp] : casts_before_[id]) {
        ops.push_back(std::move(cast));
        inputs.push_back(std::move(sbp));
      }
      if (moved_[id]) continue;
      ops.push_back(std::move(graph_.ops[id]));
      inputs.push_back(std::move(choice_.op_inputs[id]));
    }
    SetOps(&graph_, std::move(ops));
    choice_.op_inputs = std::move(inputs);
  }

  Graph& graph_;
  SbpChoice& choice_;
  const std::vector<std::vector<Use>> uses_;
  std::set<std::string> names_;
  std::vector<bool> moved_;  // by op
  // By op: casts to stand before it, and the SBP in which each reads its variable.
  std::vector<std::vector<std::pair<Op, std::vector<NdSbp>>>> casts_before_;
};

}  // namespace

void CastUses(Graph* graph, SbpChoice* choice) { UseCaster(graph, choice).Run(); }

}  // namespace oneflow
