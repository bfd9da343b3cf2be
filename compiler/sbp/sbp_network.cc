#include "compiler/sbp/sbp_network.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "compiler/graph/rewrite.h"
#include "compiler/sbp/op_costs.h"
#include "compiler/sbp/sbp_constraint.h"
#include "compiler/sbp/sbp_tables.h"
#include "compiler/sbp/transition_cost.h"

namespace oneflow {
namespace {

// The charge for a gradient whose layout does not mirror its tensor's, in boxings of it: more than
// boxing it, or splitting its work, can gain.
constexpr double kMirror = 6;

// The kind of a table; the first of its facts.
enum Fact : int64_t { kBoxing, kMirroring, kObserving };

// True if the layout of a gradient mirrors its tensor's, `of`. The gradient of a split variable may
// be partial: its reduction splits it.
bool Mirrors(Sbp of, Sbp grad, bool variable) {
  if (of.split()) return grad == of || (variable && grad.kind == Sbp::kPartialSum);
  return grad.broadcast() || grad.kind == Sbp::kPartialSum;
}

// True if every device does all of the op's work. Then every device does all of its gradients'.
bool IsReplicated(const Signature& row) {
  const auto replicated = [](Sbp sbp) { return sbp.broadcast(); };
  return std::all_of(row.in.begin(), row.in.end(), replicated) &&
         std::all_of(row.out.begin(), row.out.end(), replicated);
}

// Readers of one class share a boxing. Readers of a variable share it only within a phase, so that
// a regathered copy does not live from forward to backward. Nobody but the update reads what it
// reads of the micro-batches (lower_to_actors), so that needs no class.
int SharingClass(const Op& producer, Phase boxed) {
  return DerivesFromVariable(producer) ? static_cast<int>(boxed) : 0;
}

// Of integers, those that more read are positions or documents, which each block does.
constexpr size_t kManyReaders = 8;

// Sums of costs stay below this part of kForbidden.
constexpr double kMostCosts = static_cast<double>(kForbidden) / 4;

class TermBuilder {
 public:
  TermBuilder(const SbpProblem& problem, ChoiceNetwork* network, SbpTables* tables)
      : problem_(problem),
        graph_(problem.graph),
        space_(problem.space),
        ops_(problem.graph, problem.previous, problem.options, problem.space),
        stage_(OneStage(problem.graph.mesh)),
        network_(network),
        tables_(tables) {
    for (const int axis : space_.axes()) {
      transition_costs_.emplace_back(problem.options.cluster, stage_, axis);
    }
  }

  void Build() {
    FindUses();
    ChooseCostUnit();
    for (int u = 0; u < space_.size(); ++u) AddCompute(u);
    for (TensorId t = 0; t < static_cast<TensorId>(graph_.tensors.size()); ++t) AddReaders(t);
    for (const TensorId t : problem_.observed) AddObserved(t);
    first_mirror_ = network_->terms().size();
    for (const GradientMirror& mirror : problem_.options.mirrors) AddMirror(mirror);
  }

  size_t first_mirror() const { return first_mirror_; }
  double costs_a_second() const { return costs_a_second_; }

 private:
  struct Use {
    OpId op = -1;
    int input = 0;
  };

  int axes() const { return static_cast<int>(transition_costs_.size()); }

  Cost ToCost(double seconds) const { return std::llround(seconds * costs_a_second_); }

  // The unit of costs: a picosecond, or a longer one if the dearest assignment would not fit. In
  // that one each op takes the dearest row, each reader boxes separately, each gradient is charged.
  void ChooseCostUnit() {
    double most = 0;
    const auto boxing = [&](TensorId t) {
      double seconds = 0;
      for (int k = 0; k < axes(); ++k) {
        for (const Sbp to : {B(), S(0)}) {
          seconds += transition_costs_[k].Seconds(to.split() ? B() : P(), to, BytesBefore(t),
                                                  ElementType(t));
        }
      }
      return 2 * seconds;
    };
    for (OpId op = 0; op < static_cast<OpId>(graph_.ops.size()); ++op) {
      if (space_.Original(op) != op) continue;
      const std::vector<double>& seconds = ops_.Seconds(op);
      const double fires = Fires(graph_.ops[op].phase);
      most += fires * *std::max_element(seconds.begin(), seconds.end());
      for (const TensorId t : graph_.ops[op].inputs) most += fires * boxing(t);
    }
    for (const TensorId t : problem_.observed) most += boxing(t);
    for (const GradientMirror& mirror : problem_.options.mirrors) {
      most += axes() * (kMirror * Fires(Phase::kBackward) * boxing(mirror.grad) +
                        2 * DearestWork(mirror.grad));
    }
    while (most * costs_a_second_ > kMostCosts) costs_a_second_ /= 10;
  }

  // How often ops of a phase fire in a step.
  double Fires(Phase phase) const {
    return IsOnceAStep(phase) ? 1 : static_cast<double>(problem_.options.micro_batches);
  }

  // The port of an input or output of an op on axis k; `sbp_in` takes its SBP from a row.
  template <typename SbpIn>
  TensorPort MakePort(OpId op, int k, SbpIn sbp_in) const {
    const int group = space_.GroupIndex(op);
    TensorPort port{{problem_.Variable(group, k)}, {}};
    for (int l = 0; l < space_.option_count(group, k); ++l) {
      port.sbps.push_back({sbp_in(space_.Row(op, k, l))});
    }
    return port;
  }

  double BytesBefore(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return static_cast<double>(TensorBytes(tensor)) / ops_.PartsBefore(tensor.sbp);
  }

  DType ElementType(TensorId t) const { return graph_.tensors[t].dtype; }

  // The seconds of a group's ops. Combinations that do not fit are forbidden.
  void AddCompute(int group) {
    std::vector<double> seconds(static_cast<size_t>(space_.Combinations(group, axes())), 0);
    for (const OpId op : space_.ops(group)) {
      if (space_.Original(op) != op) continue;
      const double fires = Fires(graph_.ops[op].phase);
      const std::vector<double>& once = ops_.Seconds(op);
      for (size_t i = 0; i < seconds.size(); ++i) seconds[i] += fires * once[i];
    }
    CostTable table;
    std::vector<int> scope;
    for (int k = 0; k < axes(); ++k) {
      scope.push_back(problem_.Variable(group, k));
      table.sizes.push_back(space_.option_count(group, k));
    }
    std::vector<int> combination(axes(), 0);
    for (const double s : seconds) {
      table.costs.push_back(space_.Fits(group, combination) ? ToCost(s) : kForbidden);
      space_.Next(group, &combination);
    }
    network_->AddTerm(std::move(scope), std::make_shared<const CostTable>(std::move(table)));
  }

  // A reader of a replica counts as a reader of the original; a replica reads nothing.
  void FindUses() {
    uses_.resize(graph_.tensors.size());
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      if (space_.Original(id) != id) continue;
      const Op& op = graph_.ops[id];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const Tensor& read = graph_.tensors[op.inputs[i]];
        const TensorId t = graph_.ops[space_.Original(read.producer)].outputs[read.output];
        uses_[t].push_back({id, static_cast<int>(i)});
      }
    }
  }

  // The writer's layout of `t` on axis k; of the axes before, only whether they split it.
  TensorPort MakeWriterPort(TensorId t, int k) const {
    const Tensor& tensor = graph_.tensors[t];
    const int group = space_.GroupIndex(tensor.producer);
    TensorPort writer;
    for (int j = 0; j <= k; ++j) writer.variables.push_back(problem_.Variable(group, j));
    std::vector<int> combination(k + 1, 0);
    do {
      NdSbp& sbps = writer.sbps.emplace_back();
      for (int j = 0; j <= k; ++j) {
        sbps.push_back(space_.Row(tensor.producer, j, combination[j]).out[tensor.output]);
      }
    } while (space_.Next(group, &combination));
    for (NdSbp& sbps : writer.sbps) {
      for (int j = 0; j < k; ++j) sbps[j] = sbps[j].split() ? S(0) : B();
    }
    return writer;
  }

  // The bytes that axis k works on, of a tensor that has `bytes` before these axes and is split as
  // `sbps` says.
  double BytesOn(int k, double bytes, const NdSbp& sbps) const {
    for (int j = 0; j < k; ++j) {
      if (sbps[j].split()) bytes /= transition_costs_[j].devices();
    }
    return bytes;
  }

  // Boxing a tensor for its readers, by sharing class.
  void AddReaders(TensorId t) {
    // Stages play no role, so the choice, and with it the bits, is the same at any pipe degree.
    const Op& producer = graph_.Producer(t);
    const std::vector<bool> gathered = GatheredOnce(producer);
    for (int k = 0; k < axes(); ++k) {
      const bool once = gathered[k];
      std::map<int, std::pair<Phase, std::vector<Use>>> classes;
      for (const Use& use : uses_[t]) {
        const Phase reader = graph_.ops[use.op].phase;
        const Phase boxed = once && reader != Phase::kUpdate ? Phase::kPrepare : reader;
        auto& [phase, uses] = classes[SharingClass(producer, boxed)];
        phase = boxed;
        uses.push_back(use);
      }
      for (const auto& [sharing, of] : classes) AddBoxing(t, of.first, of.second, k);
    }
  }

  // By axis. Where all devices must have the whole weight, only its states are split: as of a plan
  // that splits nothing, so that both choose the same layouts and have the same bits.
  std::vector<bool> GatheredOnce(const Op& producer) const {
    const Tensor& tensor = graph_.tensors[producer.outputs[0]];
    std::vector<bool> once;
    for (const int axis : space_.axes()) {
      const auto want = ConstraintOn(tensor, graph_.mesh, axis);
      once.push_back(!(want && want->broadcast()) && GathersOnce(graph_, producer, axis));
    }
    return once;
  }

  // The layout of `t` that readers of a phase find. A tensor that is gathered once a step is
  // replicated by then.
  TensorPort MakeSourcePort(TensorId t, Phase phase, int k) const {
    TensorPort writer = MakeWriterPort(t, k);
    if (IsOnceAStep(phase)) return writer;
    const std::vector<bool> once = GatheredOnce(graph_.Producer(t));
    for (NdSbp& sbps : writer.sbps) {
      for (int j = 0; j < k; ++j) {
        if (once[j]) sbps[j] = B();
      }
    }
    return writer;
  }

  // The boxing of `t` for readers of one phase. Positions and documents are few bytes beside what
  // is computed with them, but blocks that share a boxing of theirs cannot be eliminated one after
  // the other: each of many readers pays for its own.
  void AddBoxing(TensorId t, Phase phase, const std::vector<Use>& uses, int k) {
    const double bytes = BytesBefore(t);
    const DType dtype = ElementType(t);
    const double fires = Fires(phase);
    const auto integer = [](double x) { return static_cast<int64_t>(x); };
    const std::vector<int64_t> facts = {kBoxing, k, integer(bytes), static_cast<int64_t>(dtype),
                                        integer(fires)};
    const auto cost = [=, this](const NdSbp& from, const NdSbp& need) {
      return ToCost(fires *
                    transition_costs_[k].Seconds(from[k], need[0], BytesOn(k, bytes, from), dtype));
    };
    const TensorPort source = MakeSourcePort(t, phase, k);
    std::vector<TensorPort> readers;
    for (const Use& use : uses) {
      readers.push_back(
          MakePort(use.op, k, [&](const Signature& row) { return row.in[use.input]; }));
    }
    if (!IsFloat(dtype) && readers.size() > kManyReaders) {
      for (TensorPort& reader : readers)
        tables_->AddShared({source, std::move(reader)}, facts, cost);
      return;
    }
    readers.insert(readers.begin(), source);
    tables_->AddShared(std::move(readers), facts, cost);
  }

  // A partial value must be reduced for the run to read it.
  void AddObserved(TensorId t) {
    const double bytes = BytesBefore(t);
    const DType dtype = ElementType(t);
    for (int k = 0; k < axes(); ++k) {
      tables_->Add({MakeWriterPort(t, k)},
                   {kObserving, k, static_cast<int64_t>(bytes), static_cast<int64_t>(dtype)},
                   [=, this](const std::vector<NdSbp>& sbps) {
                     const Sbp from = sbps[0][k], to = from.partial() ? B() : from;
                     return ToCost(
                         transition_costs_[k].Seconds(from, to, BytesOn(k, bytes, sbps[0]), dtype));
                   });
    }
  }

  // Charges a gradient whose layout does not mirror its tensor's, on each axis. If all devices do
  // all of the reader's work, they do all of the gradient's; Pmax, which no tensor has to mirror,
  // marks that case apart from "B".
  void AddMirror(const GradientMirror& mirror) {
    const Tensor &of = graph_.tensors[mirror.of], &grad = graph_.tensors[mirror.grad];
    const bool variable = DerivesFromVariable(graph_.Producer(mirror.of));
    const bool reader = mirror.reader >= 0;
    const OpId chooser = space_.Original(reader ? mirror.reader : of.producer);
    for (int k = 0; k < axes(); ++k) {
      std::vector<TensorPort> both;  // the tensor, its gradient
      both.push_back(MakePort(chooser, k, [&](const Signature& row) {
        if (reader && IsReplicated(row)) return PMax();
        return reader ? row.in[mirror.input] : row.out[of.output];
      }));
      both.push_back(
          MakePort(grad.producer, k, [&](const Signature& row) { return row.out[grad.output]; }));
      const double boxing = transition_costs_[k].Seconds(P(), B(), BytesBefore(mirror.grad),
                                                         ElementType(mirror.grad));
      const Cost cost =
          ToCost(kMirror * Fires(Phase::kBackward) * boxing + 2 * DearestWork(mirror.grad));
      tables_->Add(
          std::move(both), {kMirroring, variable, cost}, [=](const std::vector<NdSbp>& sbps) {
            const Sbp tensor = sbps[0][0], own = sbps[1][0];
            const bool right = tensor == PMax() ? own.broadcast() : Mirrors(tensor, own, variable);
            return right ? 0 : cost;
          });
    }
  }

  double DearestWork(TensorId t) {
    const OpId op = graph_.tensors[t].producer;
    const std::vector<double>& seconds = ops_.Seconds(op);
    return Fires(graph_.ops[op].phase) * *std::max_element(seconds.begin(), seconds.end());
  }

  const SbpProblem& problem_;
  const Graph& graph_;
  const ChoiceSpace& space_;
  OpCosts ops_;
  const Mesh stage_;
  ChoiceNetwork* network_;
  SbpTables* tables_;
  std::vector<TransitionCosts> transition_costs_;  // of each axis that is chosen
  std::vector<std::vector<Use>> uses_;             // of each tensor
  size_t first_mirror_ = 0;
  double costs_a_second_ = 1e12;
};

}  // namespace

std::vector<TensorId> FindObserved(const Graph& graph) {
  std::vector<TensorId> observed = graph.outputs;
  if (graph.loss >= 0) observed.push_back(graph.loss);
  std::sort(observed.begin(), observed.end());
  observed.erase(std::unique(observed.begin(), observed.end()), observed.end());
  return observed;
}

SbpCosts SbpNetwork(const SbpProblem& problem) {
  SbpCosts costs;
  SbpTables tables(&costs.network);
  for (int group = 0; group < problem.space.size(); ++group) {
    for (size_t k = 0; k < problem.space.axes().size(); ++k) {
      costs.network.AddVariable(problem.space.option_count(group, static_cast<int>(k)));
    }
  }
  TermBuilder builder(problem, &costs.network, &tables);
  builder.Build();  // it may add auxiliary variables after those of the groups
  costs.first_mirror = builder.first_mirror();
  costs.costs_a_second = builder.costs_a_second();
  return costs;
}

}  // namespace oneflow
