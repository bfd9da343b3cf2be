#include "compiler/sbp/sbp_network.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "compiler/graph/rewrite.h"
#include "compiler/sbp/op_prices.h"
#include "compiler/sbp/sbp_constraint.h"
#include "compiler/sbp/sbp_tables.h"
#include "compiler/sbp/transition_price.h"

namespace oneflow {
namespace {

// What a gradient that does not lie as its tensor costs, in boxings of it: more than boxing it, or
// splitting its work, can gain.
constexpr double kMirror = 6;

// What a table depends on, first of its facts.
enum Fact : int64_t { kBoxing, kMirroring, kObserving };

// Whether a gradient lies as the tensor it belongs to, which lies as `of`. That of a split variable
// may be partial: its reduction splits it.
bool Mirrors(Sbp of, Sbp grad, bool variable) {
  if (of.split()) return grad == of || (variable && grad.kind == Sbp::kPartialSum);
  return grad.broadcast() || grad.kind == Sbp::kPartialSum;
}

// Every device does all of the op's work; then so it does of its gradients.
bool IsWhole(const Signature& row) {
  const auto whole = [](Sbp sbp) { return sbp.broadcast(); };
  return std::all_of(row.in.begin(), row.in.end(), whole) &&
         std::all_of(row.out.begin(), row.out.end(), whole);
}

// What boxing in a phase is shared by: of a variable only within the phase, so that what is
// gathered anew does not live from forward to backward. What the update reads of the micro-batches
// is read by nobody else (lower_to_actors), and needs no class of its own.
int SharingClass(const Op& producer, Phase boxed) {
  return DerivesFromVariable(producer) ? static_cast<int>(boxed) : 0;
}

// Sums of costs stay below this part of kNever.
constexpr double kMostCosts = static_cast<double>(kNever) / 4;

class TermBuilder {
 public:
  TermBuilder(const SbpProblem& problem, ChoiceNetwork* network, SbpTables* tables)
      : problem_(problem),
        graph_(problem.graph),
        labels_(problem.labels),
        ops_(problem.graph, problem.settled, problem.options, problem.labels),
        network_(network),
        tables_(tables) {
    for (const int axis : labels_.axes()) {
      prices_.emplace_back(problem.options.cluster, graph_.mesh, axis);
    }
  }

  void Build() {
    FindUses();
    ChooseUnit();
    for (int u = 0; u < labels_.size(); ++u) AddCompute(u);
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

  int axes() const { return static_cast<int>(prices_.size()); }

  Cost CostOfSeconds(double seconds) const { return std::llround(seconds * costs_a_second_); }

  // Picoseconds, or a longer unit where so many do not fit: all ops as dear as they can be, each
  // reader's tensor boxed by itself, and each gradient charged.
  void ChooseUnit() {
    double most = 0;
    const auto boxing = [&](TensorId t) {
      double seconds = 0;
      for (int k = 0; k < axes(); ++k) {
        for (const Sbp to : {B(), S(0)}) {
          seconds += prices_[k].Seconds(to.split() ? B() : P(), to, BytesBefore(t), TypeOf(t));
        }
      }
      return 2 * seconds;
    };
    for (OpId op = 0; op < static_cast<OpId>(graph_.ops.size()); ++op) {
      if (labels_.FirstOf(op) != op) continue;
      const std::vector<double>& seconds = ops_.SecondsOf(op);
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

  // How an input or output of an op lies on axis k; `port`: what a row says of it.
  template <typename PortOf>
  End EndOn(OpId op, int k, PortOf port) const {
    const int unit = labels_.UnitOf(op);
    End end{{problem_.Variable(unit, k)}, {}};
    for (int l = 0; l < labels_.labels(unit, k); ++l) {
      end.lies.push_back({port(labels_.Row(op, k, l))});
    }
    return end;
  }

  double BytesBefore(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return static_cast<double>(TensorBytes(tensor)) / ops_.PartsBefore(tensor.sbp);
  }

  DType TypeOf(TensorId t) const { return graph_.tensors[t].dtype; }

  // Combinations that do not fit must not be.
  void AddCompute(int unit) {
    std::vector<double> seconds(static_cast<size_t>(labels_.Combinations(unit, axes())), 0);
    for (const OpId op : labels_.OpsOf(unit)) {
      if (labels_.FirstOf(op) != op) continue;
      const double fires = Fires(graph_.ops[op].phase);
      const std::vector<double>& once = ops_.SecondsOf(op);
      for (size_t i = 0; i < seconds.size(); ++i) seconds[i] += fires * once[i];
    }
    CostTable table;
    std::vector<int> scope;
    for (int k = 0; k < axes(); ++k) {
      scope.push_back(problem_.Variable(unit, k));
      table.sizes.push_back(labels_.labels(unit, k));
    }
    std::vector<int> label(axes(), 0);
    for (const double s : seconds) {
      table.costs.push_back(labels_.Fits(unit, label) ? CostOfSeconds(s) : kNever);
      labels_.Next(unit, &label);
    }
    network_->AddTerm(std::move(scope), std::make_shared<const CostTable>(std::move(table)));
  }

  // What reads a replica reads the first, and a replica reads nothing.
  void FindUses() {
    uses_.resize(graph_.tensors.size());
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      if (labels_.FirstOf(id) != id) continue;
      const Op& op = graph_.ops[id];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const Tensor& read = graph_.tensors[op.inputs[i]];
        const TensorId t = graph_.ops[labels_.FirstOf(read.producer)].outputs[read.output];
        uses_[t].push_back({id, static_cast<int>(i)});
      }
    }
  }

  // How `t` lies on axis k, and whether the axes before cut it.
  End WriterOn(TensorId t, int k) const {
    const Tensor& tensor = graph_.tensors[t];
    const int unit = labels_.UnitOf(tensor.producer);
    End writer;
    for (int j = 0; j <= k; ++j) writer.variables.push_back(problem_.Variable(unit, j));
    std::vector<int> label(k + 1, 0);
    do {
      NdSbp& lies = writer.lies.emplace_back();
      for (int j = 0; j <= k; ++j) {
        lies.push_back(labels_.Row(tensor.producer, j, label[j]).out[tensor.output]);
      }
    } while (labels_.Next(unit, &label));
    for (NdSbp& lies : writer.lies) {
      for (int j = 0; j < k; ++j) lies[j] = lies[j].split() ? S(0) : B();
    }
    return writer;
  }

  // Of a tensor of `bytes` before these axes cut it as `lies`: what axis k works on.
  double BytesOn(int k, double bytes, const NdSbp& lies) const {
    for (int j = 0; j < k; ++j) {
      if (lies[j].split()) bytes /= prices_[j].devices();
    }
    return bytes;
  }

  // Boxing a tensor for its readers, by sharing class.
  void AddReaders(TensorId t) {
    // Stages are not looked at: the same choice at any pipe degree, so the same bits (law 6).
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

  // By axis.
  std::vector<bool> GatheredOnce(const Op& producer) const {
    std::vector<bool> once;
    for (const int axis : labels_.axes()) once.push_back(GathersOnce(graph_, producer, axis));
    return once;
  }

  // How readers of a phase find `t`: what is gathered once a step is whole by then.
  End FoundOn(TensorId t, Phase phase, int k) const {
    End writer = WriterOn(t, k);
    if (IsOnceAStep(phase)) return writer;
    const std::vector<bool> once = GatheredOnce(graph_.Producer(t));
    for (NdSbp& lies : writer.lies) {
      for (int j = 0; j < k; ++j) {
        if (once[j]) lies[j] = B();
      }
    }
    return writer;
  }

  // In `phase`.
  void AddBoxing(TensorId t, Phase phase, const std::vector<Use>& uses, int k) {
    const double bytes = BytesBefore(t);
    const DType dtype = TypeOf(t);
    const double fires = Fires(phase);
    std::vector<End> ends;
    ends.push_back(FoundOn(t, phase, k));
    for (const Use& use : uses) {
      ends.push_back(EndOn(use.op, k, [&](const Signature& row) { return row.in[use.input]; }));
    }
    const auto whole = [](double x) { return static_cast<int64_t>(x); };
    tables_->AddShared(
        std::move(ends), {kBoxing, k, whole(bytes), static_cast<int64_t>(dtype), whole(fires)},
        [=, this](const NdSbp& from, const NdSbp& need) {
          return CostOfSeconds(
              fires * prices_[k].Seconds(from[k], need[0], BytesOn(k, bytes, from), dtype));
        });
  }

  // Its sums must be taken for the run.
  void AddObserved(TensorId t) {
    const double bytes = BytesBefore(t);
    const DType dtype = TypeOf(t);
    for (int k = 0; k < axes(); ++k) {
      tables_->Add(
          {WriterOn(t, k)},
          {kObserving, k, static_cast<int64_t>(bytes), static_cast<int64_t>(dtype)},
          [=, this](const std::vector<NdSbp>& lies) {
            const Sbp from = lies[0][k], to = from.partial() ? B() : from;
            return CostOfSeconds(prices_[k].Seconds(from, to, BytesOn(k, bytes, lies[0]), dtype));
          });
    }
  }

  // A gradient that does not lie as its tensor does, on each axis. Where all devices do all of the
  // reader's work, so they do of the gradient's: Pmax, which no tensor is asked to mirror, tells
  // that apart from "B".
  void AddMirror(const GradientMirror& mirror) {
    const Tensor &of = graph_.tensors[mirror.of], &grad = graph_.tensors[mirror.grad];
    const bool variable = DerivesFromVariable(graph_.Producer(mirror.of));
    const bool reader = mirror.reader >= 0;
    const OpId chooser = labels_.FirstOf(reader ? mirror.reader : of.producer);
    for (int k = 0; k < axes(); ++k) {
      std::vector<End> both;  // the tensor, its gradient
      both.push_back(EndOn(chooser, k, [&](const Signature& row) {
        if (reader && IsWhole(row)) return PMax();
        return reader ? row.in[mirror.input] : row.out[of.output];
      }));
      both.push_back(
          EndOn(grad.producer, k, [&](const Signature& row) { return row.out[grad.output]; }));
      const double boxing =
          prices_[k].Seconds(P(), B(), BytesBefore(mirror.grad), TypeOf(mirror.grad));
      const Cost cost =
          CostOfSeconds(kMirror * Fires(Phase::kBackward) * boxing + 2 * DearestWork(mirror.grad));
      tables_->Add(
          std::move(both), {kMirroring, variable, cost}, [=](const std::vector<NdSbp>& ends) {
            const Sbp tensor = ends[0][0], own = ends[1][0];
            const bool right = tensor == PMax() ? own.broadcast() : Mirrors(tensor, own, variable);
            return right ? 0 : cost;
          });
    }
  }

  double DearestWork(TensorId t) {
    const OpId op = graph_.tensors[t].producer;
    const std::vector<double>& seconds = ops_.SecondsOf(op);
    return Fires(graph_.ops[op].phase) * *std::max_element(seconds.begin(), seconds.end());
  }

  const SbpProblem& problem_;
  const Graph& graph_;
  const SbpLabels& labels_;
  OpPrices ops_;
  ChoiceNetwork* network_;
  SbpTables* tables_;
  std::vector<TransitionPrices> prices_;  // of each axis that is chosen
  std::vector<std::vector<Use>> uses_;    // of each tensor
  size_t first_mirror_ = 0;
  double costs_a_second_ = 1e12;
};

}  // namespace

std::vector<TensorId> ObservedBy(const Graph& graph) {
  std::vector<TensorId> observed = graph.outputs;
  if (graph.loss >= 0) observed.push_back(graph.loss);
  std::sort(observed.begin(), observed.end());
  observed.erase(std::unique(observed.begin(), observed.end()), observed.end());
  return observed;
}

SbpCosts SbpNetwork(const SbpProblem& problem) {
  SbpCosts costs;
  SbpTables tables(&costs.network);
  for (int unit = 0; unit < problem.labels.size(); ++unit) {
    for (size_t k = 0; k < problem.labels.axes().size(); ++k) {
      costs.network.AddVariable(problem.labels.labels(unit, static_cast<int>(k)));
    }
  }
  TermBuilder builder(problem, &costs.network, &tables);
  builder.Build();  // it may add helpers behind the variables
  costs.first_mirror = builder.first_mirror();
  costs.costs_a_second = builder.costs_a_second();
  return costs;
}

}  // namespace oneflow
