#include "compiler/passes/sbp_network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "compiler/passes/device_prices.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/sbp_constraint.h"
#include "compiler/passes/sbp_tables.h"
#include "compiler/passes/transition_price.h"

namespace oneflow {
namespace {

// A split variable that its readers need whole is fetched before every micro-batch and stands in
// its way: worth twice, unless the user asked for it.
constexpr double kGatherVariable = 2;
// What a gradient that does not lie as its tensor costs, in boxings of it: more than boxing it, or
// splitting its work, can gain.
constexpr double kMirror = 6;

// Of the table of one tensor.
constexpr double kMostCells = 1 << 15;

// Whether a gradient lies as the tensor it belongs to, which lies as `of`. That of a split variable
// may be partial: its reduction splits it.
bool Mirrors(Sbp of, Sbp grad, bool variable) {
  if (of.split()) return grad == of || (variable && grad.kind == Sbp::kPartialSum);
  return grad.broadcast() || grad.kind == Sbp::kPartialSum;
}

// Readers that may share one boxing: those of a variable only within a phase, so that what is
// gathered from a split variable does not live from forward to backward.
int SharingClass(bool variable, Phase phase) {
  if (variable) return static_cast<int>(phase);
  return phase == Phase::kUpdate ? 1 : 0;
}

// Every device does all of the op's work; then so it does of its gradients.
bool IsWhole(const Signature& row) {
  const auto whole = [](Sbp sbp) { return sbp.broadcast(); };
  return std::all_of(row.in.begin(), row.in.end(), whole) &&
         std::all_of(row.out.begin(), row.out.end(), whole);
}

int64_t Picoseconds(double seconds) { return std::llround(seconds * kCostsASecond); }

class NetworkBuilder {
 public:
  NetworkBuilder(const Graph& graph, const SbpChoice& settled, const SbpOptions& options,
                 const SbpLabels& units)
      : graph_(graph),
        settled_(settled),
        options_(options),
        units_(units),
        tables_(units, &network_) {
    for (const int axis : units.axes()) {
      prices_.push_back(PricesOn(options.cluster, graph.mesh, axis));
    }
  }

  ChoiceNetwork Build() {
    for (int u = 0; u < units_.size(); ++u) network_.AddVariable(units_.labels(u));
    for (int u = 0; u < units_.size(); ++u) AddCompute(u);
    FindUses();
    std::vector<bool> observed(graph_.tensors.size(), false);
    for (TensorId t : graph_.outputs) observed[t] = true;
    if (graph_.loss >= 0) observed[graph_.loss] = true;
    for (TensorId t = 0; t < static_cast<TensorId>(graph_.tensors.size()); ++t) {
      AddReaders(t);
      if (observed[t]) AddObserved(t);
    }
    for (const GradientMirror& mirror : options_.mirrors) AddMirror(mirror);
    return std::move(network_);
  }

 private:
  double Fires(Phase phase) const {
    return IsOnceAStep(phase) ? 1 : static_cast<double>(options_.micro_batches);
  }

  int axes() const { return static_cast<int>(prices_.size()); }
  int first_axis() const { return units_.axes().front(); }

  // Parts in which the axes before these cut what lies as `settled` there.
  double PartsBefore(const NdSbp& settled) const {
    double parts = 1;
    for (int b = 0; b < first_axis(); ++b) {
      if (settled[b].split()) parts *= graph_.mesh.axes[b].size;
    }
    return parts;
  }

  double BytesBefore(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return static_cast<double>(BytesOf(tensor)) / PartsBefore(tensor.sbp);
  }

  NdSbp InputOf(OpId op, int label, int input) const {
    NdSbp lies;
    for (int k = 0; k < axes(); ++k) lies.push_back(units_.Row(op, label, k).in[input]);
    return lies;
  }
  NdSbp OutputOf(OpId op, int label, int output) const {
    NdSbp lies;
    for (int k = 0; k < axes(); ++k) lies.push_back(units_.Row(op, label, k).out[output]);
    return lies;
  }

  // Seconds of one firing on a device: of its flops, or of the bytes it reads and writes. A partial
  // value is as large as the whole on every device, and its reader reads as much again.
  double ComputeSeconds(OpId op, int label) const {
    const OpView view{graph_, graph_.ops[op]};
    if (IsVariable(view.op)) return 0;
    double touched = 0;
    std::vector<bool> split(axes(), false), split_before(first_axis(), false);
    const auto visit = [&](TensorId t, const NdSbp& settled, const NdSbp& lies) {
      double bytes = static_cast<double>(BytesOf(graph_.tensors[t])) / PartsBefore(settled);
      for (int k = 0; k < axes(); ++k) {
        split[k] = split[k] || lies[k].split();
        if (lies[k].split()) bytes /= prices_[k].devices;
      }
      const bool partial = std::any_of(lies.begin(), lies.end(), [](Sbp s) { return s.partial(); });
      touched += partial ? 1.5 * bytes : bytes;
      for (int b = 0; b < first_axis(); ++b)
        split_before[b] = split_before[b] || settled[b].split();
    };
    for (int i = 0; i < view.n_inputs(); ++i) {
      visit(view.op.inputs[i], settled_.op_inputs[op][i], InputOf(op, label, i));
    }
    for (int i = 0; i < static_cast<int>(view.op.outputs.size()); ++i) {
      visit(view.op.outputs[i], view.out(i).sbp, OutputOf(op, label, i));
    }
    double share = 1;
    for (int k = 0; k < axes(); ++k) share *= split[k] ? prices_[k].devices : 1;
    for (int b = 0; b < first_axis(); ++b) share *= split_before[b] ? graph_.mesh.axes[b].size : 1;
    const auto& flops = FindOpDef(view.op.kind)->flops;
    const double work = flops == nullptr ? 0 : flops(view) / share;
    return std::max(work / PeakFlops(options_.cluster), touched / prices_.front().memory);
  }

  // Of a tensor of `bytes` before these axes cut it; each axis works on what those before it leave.
  // What must be gathered on axis k is worth gather[k] times as much.
  double BoxingSeconds(const NdSbp& from, const NdSbp& to, double bytes,
                       const std::vector<double>& gather) const {
    double seconds = 0;
    for (int k = 0; k < axes(); ++k) {
      const double worth = to[k].split() ? 1 : gather[k];
      seconds += worth * TransitionSeconds(prices_[k], from[k], to[k], bytes);
      if (from[k].split()) bytes /= prices_[k].devices;
    }
    return seconds;
  }

  void AddCompute(int unit) {
    std::vector<double> seconds(units_.labels(unit), 0);
    for (const OpId op : units_.OpsOf(unit)) {
      if (units_.FirstOf(op) != op) continue;
      const double fires = Fires(graph_.ops[op].phase);
      for (size_t l = 0; l < seconds.size(); ++l) {
        seconds[l] += fires * ComputeSeconds(op, static_cast<int>(l));
      }
    }
    CostTable table{{units_.labels(unit)}, {}};
    for (const double s : seconds) table.costs.push_back(Picoseconds(s));
    network_.AddTerm({unit}, std::make_shared<const CostTable>(std::move(table)));
  }

  // What reads a replica reads the first, and a replica reads nothing.
  void FindUses() {
    uses_.resize(graph_.tensors.size());
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      if (units_.FirstOf(id) != id) continue;
      const Op& op = graph_.ops[id];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const Tensor& read = graph_.tensors[op.inputs[i]];
        const TensorId t = graph_.ops[units_.FirstOf(read.producer)].outputs[read.output];
        uses_[t].push_back({id, static_cast<int>(i)});
      }
    }
  }

  // `lies(label)`: on each axis.
  template <typename LiesOfLabel>
  End EndOf(OpId op, LiesOfLabel lies) const {
    End end{units_.UnitOf(op), {}};
    for (int l = 0; l < units_.labels(end.unit); ++l) end.lies.push_back(lies(l));
    return end;
  }
  End Writes(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return EndOf(tensor.producer,
                 [&](int label) { return OutputOf(tensor.producer, label, tensor.output); });
  }

  // Boxing a tensor for its readers: once for each SBP that some of them need, by sharing class.
  void AddReaders(TensorId t) {
    const Tensor& tensor = graph_.tensors[t];
    const Op& producer = graph_.ops[tensor.producer];
    const bool variable = IsVariable(producer) || producer.phase == Phase::kPrepare;
    std::vector<double> gather;
    for (const int axis : units_.axes()) {
      const bool asked = ConstraintOn(tensor, graph_.mesh, axis).has_value();
      gather.push_back(variable && !asked ? kGatherVariable : 1);
    }
    // Stages are not looked at: the same choice at any pipe degree, so the same bits (law 6).
    std::map<int, std::vector<Use>> classes;
    for (const Use& use : uses_[t]) {
      classes[SharingClass(variable, graph_.ops[use.op].phase)].push_back(use);
    }
    const double bytes = BytesBefore(t);
    for (const auto& [sharing, uses] : classes) {
      const double fires = Fires(graph_.ops[uses.back().op].phase);
      std::vector<End> ends = {Writes(t)};
      for (const Use& use : uses) {
        ends.push_back(EndOf(use.op, [&](int label) { return InputOf(use.op, label, use.input); }));
      }
      AddBoxing(std::move(ends), bytes, fires, gather);
    }
  }

  // The loss and the outputs must be whole for the run.
  void AddObserved(TensorId t) {
    End writer = Writes(t);
    CostTable table{{units_.labels(writer.unit)}, {}};
    const std::vector<double> plainly(axes(), 1);
    for (const NdSbp& lies : writer.lies) {
      NdSbp whole = lies;
      for (Sbp& sbp : whole) sbp = sbp.partial() ? B() : sbp;
      table.costs.push_back(Picoseconds(BoxingSeconds(lies, whole, BytesBefore(t), plainly)));
    }
    network_.AddTerm({writer.unit}, std::make_shared<const CostTable>(std::move(table)));
  }

  // A gradient that does not lie as its tensor does. `lies` of the first end: B where all devices
  // do all of the reader's work.
  void AddMirror(const GradientMirror& mirror) {
    const Tensor& of = graph_.tensors[mirror.of];
    const Op& maker = graph_.ops[of.producer];
    const bool variable = IsVariable(maker) || maker.phase == Phase::kPrepare;
    const OpId chooser = units_.FirstOf(mirror.reader >= 0 ? mirror.reader : of.producer);
    const bool reader = mirror.reader >= 0;
    // Whole work, whole gradient: told apart from "B" by what no tensor is asked to mirror.
    const End lies = EndOf(chooser, [&](int label) {
      NdSbp on;
      for (int k = 0; k < axes(); ++k) {
        const Signature& row = units_.Row(chooser, label, k);
        const Sbp own = reader ? row.in[mirror.input] : row.out[of.output];
        on.push_back(reader && IsWhole(row) ? PMax() : own);
      }
      return on;
    });
    std::vector<int64_t> facts = {1, variable}, cost;
    for (int k = 0; k < axes(); ++k) {
      const double boxing = TransitionSeconds(prices_[k], P(), B(), BytesBefore(mirror.grad));
      cost.push_back(
          Picoseconds(kMirror * Fires(Phase::kBackward) * boxing + 2 * DearestWork(mirror.grad)));
    }
    facts.insert(facts.end(), cost.begin(), cost.end());
    tables_.Add({lies, Writes(mirror.grad)}, facts, [&](const std::vector<NdSbp>& ends) {
      int64_t sum = 0;
      for (int k = 0; k < axes(); ++k) {
        const Sbp tensor = ends[0][k], grad = ends[1][k];
        const bool right = tensor == PMax() ? grad.broadcast() : Mirrors(tensor, grad, variable);
        sum += right ? 0 : cost[k];
      }
      return sum;
    });
  }

  double DearestWork(TensorId t) const {
    const OpId op = graph_.tensors[t].producer;
    double most = 0;
    for (int l = 0; l < units_.labels(units_.UnitOf(op)); ++l) {
      most = std::max(most, ComputeSeconds(op, l));
    }
    return Fires(graph_.ops[op].phase) * most;
  }

  void AddBoxing(std::vector<End> ends, double bytes, double fires,
                 const std::vector<double>& gather) {
    const auto cost = [&](const std::vector<NdSbp>& lies) {
      double seconds = 0;
      for (size_t i = 1; i < lies.size(); ++i) {
        if (std::find(lies.begin() + 1, lies.begin() + i, lies[i]) != lies.begin() + i) continue;
        seconds += BoxingSeconds(lies[0], lies[i], bytes, gather);
      }
      return Picoseconds(seconds * fires);
    };
    const auto whole = [](double x) { return static_cast<int64_t>(x); };
    double cells = 1;
    for (const End& end : ends) cells *= static_cast<double>(end.lies.size());
    if (cells > kMostCells) {
      return AddChains(ends, [&](const NdSbp& from, const NdSbp& need) {
        return cost({from, need});
      });
    }
    std::vector<int64_t> facts = {0, whole(bytes), whole(fires)};
    for (const double g : gather) facts.push_back(whole(g));
    tables_.Add(std::move(ends), std::move(facts), cost);
  }

  // The same for so many readers that a table of all their labels would be too large: for each SBP
  // a chain of variables along the readers, each 1 if a reader up to here needs it.
  template <typename CostOf>
  void AddChains(const std::vector<End>& ends, CostOf cost) {
    std::vector<NdSbp> needs;
    for (size_t i = 1; i < ends.size(); ++i) {
      for (const NdSbp& lies : ends[i].lies) {
        if (std::find(needs.begin(), needs.end(), lies) == needs.end()) needs.push_back(lies);
      }
    }
    for (const NdSbp& need : needs) {
      int last = -1;
      for (size_t i = 1; i < ends.size(); ++i) last = AddLink(ends[i], need, last);
      const End& writer = ends.front();
      CostTable table{{units_.labels(writer.unit), 2}, {}};
      for (const NdSbp& from : writer.lies) {
        table.costs.push_back(0);
        table.costs.push_back(cost(from, need));
      }
      network_.AddTerm({writer.unit, last}, std::make_shared<const CostTable>(std::move(table)));
    }
  }

  // A variable that must be 1 where the one before it is, or where `reader` needs `need`.
  int AddLink(const End& reader, const NdSbp& need, int before) {
    const int link = network_.AddVariable(2);
    std::vector<int> scope = {reader.unit};
    CostTable table{{units_.labels(reader.unit)}, {}};
    if (before >= 0) {
      scope.push_back(before);
      table.sizes.push_back(2);
    }
    scope.push_back(link);
    table.sizes.push_back(2);
    for (const NdSbp& lies : reader.lies) {
      for (int already = 0; already < (before >= 0 ? 2 : 1); ++already) {
        table.costs.push_back(already == 1 || lies == need ? kNever : 0);
        table.costs.push_back(0);
      }
    }
    network_.AddTerm(std::move(scope), std::make_shared<const CostTable>(std::move(table)));
    return link;
  }

  const Graph& graph_;
  const SbpChoice& settled_;
  const SbpOptions& options_;
  const SbpLabels& units_;
  std::vector<AxisPrices> prices_;      // of each axis that is chosen
  std::vector<std::vector<Use>> uses_;  // of each tensor
  ChoiceNetwork network_;
  SbpTables tables_;
};

}  // namespace

std::vector<int> CompleteLabels(const ChoiceNetwork& network, std::vector<int> label) {
  // A helper is 1 where a term up to it allows nothing else (NetworkBuilder::AddLink).
  std::vector<std::vector<const ChoiceNetwork::Term*>> last(network.variables());
  for (const ChoiceNetwork::Term& term : network.terms()) {
    if (!term.variables.empty()) last[term.variables.back()].push_back(&term);
  }
  for (int v = static_cast<int>(label.size()); v < network.variables(); ++v) {
    label.push_back(0);
    for (const ChoiceNetwork::Term* term : last[v]) {
      if (network.CostOf(*term, label) >= kNever) label[v] = 1;
    }
  }
  return label;
}

ChoiceNetwork SbpNetwork(const Graph& graph, const SbpChoice& settled, const SbpOptions& options,
                         const SbpLabels& units) {
  return NetworkBuilder(graph, settled, options, units).Build();
}

}  // namespace oneflow
