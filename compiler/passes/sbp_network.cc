#include "compiler/passes/sbp_network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "compiler/passes/device_prices.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/sbp_constraint.h"
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

// How one end of a tensor lies, for each label of its unit.
struct End {
  int unit = 0;
  std::vector<Sbp> lies;
};

class NetworkBuilder {
 public:
  NetworkBuilder(const Graph& graph, const SbpChoice& settled, const SbpOptions& options, int axis,
                 const SbpUnits& units)
      : graph_(graph),
        settled_(settled),
        options_(options),
        axis_(axis),
        units_(units),
        prices_(PricesOn(options.cluster, graph.mesh, axis)) {}

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

  // Parts in which the axes before this one cut what lies as `settled` there.
  double PartsBefore(const NdSbp& settled) const {
    double parts = 1;
    for (int b = 0; b < axis_; ++b) {
      if (settled[b].split()) parts *= graph_.mesh.axes[b].size;
    }
    return parts;
  }

  double BytesBefore(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return static_cast<double>(BytesOf(tensor)) / PartsBefore(tensor.sbp);
  }

  // Seconds of one firing on a device: of its flops, or of the bytes it reads and writes. A partial
  // value is as large as the whole on every device, and its reader reads as much again.
  double ComputeSeconds(OpId op, const Signature& row) const {
    const OpView view{graph_, graph_.ops[op]};
    if (IsVariable(view.op)) return 0;
    double touched = 0;
    bool split = false;
    std::vector<bool> split_before(axis_, false);
    const auto visit = [&](TensorId t, const NdSbp& settled, Sbp sbp) {
      const double bytes = static_cast<double>(BytesOf(graph_.tensors[t])) / PartsBefore(settled);
      split = split || sbp.split();
      touched += sbp.split() ? bytes / prices_.devices : sbp.partial() ? 1.5 * bytes : bytes;
      for (int b = 0; b < axis_; ++b) split_before[b] = split_before[b] || settled[b].split();
    };
    for (int i = 0; i < view.n_inputs(); ++i) {
      visit(view.op.inputs[i], settled_.op_inputs[op][i], row.in[i]);
    }
    for (size_t i = 0; i < view.op.outputs.size(); ++i) {
      visit(view.op.outputs[i], view.out(static_cast<int>(i)).sbp, row.out[i]);
    }
    double share = split ? prices_.devices : 1;
    for (int b = 0; b < axis_; ++b) share *= split_before[b] ? graph_.mesh.axes[b].size : 1;
    const auto& flops = FindOpDef(view.op.kind)->flops;
    const double work = flops == nullptr ? 0 : flops(view) / share;
    return std::max(work / PeakFlops(options_.cluster), touched / prices_.memory);
  }

  void AddCompute(int unit) {
    std::vector<double> seconds(units_.labels(unit), 0);
    for (const OpId op : units_.OpsOf(unit)) {
      if (units_.FirstOf(op) != op) continue;
      const double fires = Fires(graph_.ops[op].phase);
      for (size_t l = 0; l < seconds.size(); ++l) {
        seconds[l] += fires * ComputeSeconds(op, units_.Row(op, static_cast<int>(l)));
      }
    }
    CostTable table{{units_.labels(unit)}, {}};
    for (const double s : seconds) table.costs.push_back(std::llround(s * kCostsASecond));
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

  template <typename SbpOfRow>
  End EndOf(OpId op, SbpOfRow sbp_of) const {
    End end{units_.UnitOf(op), {}};
    for (int l = 0; l < units_.labels(end.unit); ++l) end.lies.push_back(sbp_of(units_.Row(op, l)));
    return end;
  }
  End Writes(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return EndOf(tensor.producer, [&](const Signature& row) { return row.out[tensor.output]; });
  }

  // Boxing a tensor for its readers: once for each SBP that some of them need, by sharing class.
  void AddReaders(TensorId t) {
    const Tensor& tensor = graph_.tensors[t];
    const Op& producer = graph_.ops[tensor.producer];
    const bool variable = IsVariable(producer) || producer.phase == Phase::kPrepare;
    const bool asked = ConstraintOn(tensor, graph_.mesh, axis_).has_value();
    const double gather = variable && !asked ? kGatherVariable : 1;
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
        ends.push_back(EndOf(use.op, [&](const Signature& row) { return row.in[use.input]; }));
      }
      AddBoxing(std::move(ends), bytes, fires, gather);
    }
  }

  // The loss and the outputs must be whole for the run.
  void AddObserved(TensorId t) {
    End writer = Writes(t);
    CostTable table{{units_.labels(writer.unit)}, {}};
    for (const Sbp sbp : writer.lies) {
      const double s = sbp.partial() ? TransitionSeconds(prices_, sbp, B(), BytesBefore(t)) : 0;
      table.costs.push_back(std::llround(s * kCostsASecond));
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
    const End lies = EndOf(chooser, [&](const Signature& row) {
      if (reader && IsWhole(row)) return PMax();
      return reader ? row.in[mirror.input] : row.out[of.output];
    });
    const double bytes = BytesBefore(mirror.grad);
    const double boxing = TransitionSeconds(prices_, P(), B(), bytes);
    const double seconds =
        kMirror * Fires(Phase::kBackward) * boxing + 2 * DearestWork(mirror.grad);
    const int64_t cost = std::llround(seconds * kCostsASecond);
    AddTable({lies, Writes(mirror.grad)}, {1, cost, variable}, [&](const std::vector<Sbp>& sbp) {
      const bool whole = sbp[0] == PMax();
      const bool right = whole ? sbp[1].broadcast() : Mirrors(sbp[0], sbp[1], variable);
      return right ? 0 : cost;
    });
  }

  double DearestWork(TensorId t) const {
    const OpId op = graph_.tensors[t].producer;
    double most = 0;
    for (int l = 0; l < units_.labels(units_.UnitOf(op)); ++l) {
      most = std::max(most, ComputeSeconds(op, units_.Row(op, l)));
    }
    return Fires(graph_.ops[op].phase) * most;
  }

  void AddBoxing(std::vector<End> ends, double bytes, double fires, double gather) {
    const auto cost = [&](const std::vector<Sbp>& sbp) {
      double seconds = 0;
      for (size_t i = 1; i < sbp.size(); ++i) {
        if (std::find(sbp.begin() + 1, sbp.begin() + i, sbp[i]) != sbp.begin() + i) continue;
        seconds +=
            (sbp[i].split() ? 1 : gather) * TransitionSeconds(prices_, sbp[0], sbp[i], bytes);
      }
      return std::llround(seconds * fires * kCostsASecond);
    };
    const auto whole = [](double x) { return static_cast<int64_t>(x); };
    double cells = 1;
    for (const End& end : ends) cells *= static_cast<double>(end.lies.size());
    if (cells > kMostCells) {
      return AddChains(ends, [&](Sbp from, Sbp need) { return cost({from, need}); });
    }
    AddTable(std::move(ends), {0, whole(bytes), whole(fires), whole(gather)}, cost);
  }

  // The same for so many readers that a table of all their labels would be too large: for each SBP
  // a chain of variables along the readers, each 1 if a reader up to here needs it.
  template <typename CostOf>
  void AddChains(const std::vector<End>& ends, CostOf cost) {
    std::vector<Sbp> needs;
    for (size_t i = 1; i < ends.size(); ++i) {
      for (const Sbp sbp : ends[i].lies) {
        if (std::find(needs.begin(), needs.end(), sbp) == needs.end()) needs.push_back(sbp);
      }
    }
    for (const Sbp need : needs) {
      int last = -1;
      for (size_t i = 1; i < ends.size(); ++i) last = AddLink(ends[i], need, last);
      const End& writer = ends.front();
      CostTable table{{units_.labels(writer.unit), 2}, {}};
      for (const Sbp from : writer.lies) {
        table.costs.push_back(0);
        table.costs.push_back(cost(from, need));
      }
      network_.AddTerm({writer.unit, last}, std::make_shared<const CostTable>(std::move(table)));
    }
  }

  // A variable that must be 1 where the one before it is, or where `reader` needs `need`.
  int AddLink(const End& reader, Sbp need, int before) {
    const int link = network_.AddVariable(2);
    std::vector<int> scope = {reader.unit};
    CostTable table{{units_.labels(reader.unit)}, {}};
    if (before >= 0) {
      scope.push_back(before);
      table.sizes.push_back(2);
    }
    scope.push_back(link);
    table.sizes.push_back(2);
    for (const Sbp sbp : reader.lies) {
      for (int already = 0; already < (before >= 0 ? 2 : 1); ++already) {
        table.costs.push_back(already == 1 || sbp == need ? kNever : 0);
        table.costs.push_back(0);
      }
    }
    network_.AddTerm(std::move(scope), std::make_shared<const CostTable>(std::move(table)));
    return link;
  }

  // A term over the units of `ends`. Tensors that are alike share a table: `facts` and how the ends
  // lie are all that it depends on.
  template <typename CostOf>
  void AddTable(std::vector<End> ends, std::vector<int64_t> facts, CostOf cost) {
    std::vector<int> scope;
    for (const End& end : ends) {
      // What lies one way whatever its unit chooses is no end to choose.
      const bool fixed = std::all_of(end.lies.begin(), end.lies.end(),
                                     [&](Sbp sbp) { return sbp == end.lies[0]; });
      if (!fixed) scope.push_back(end.unit);
    }
    std::sort(scope.begin(), scope.end());
    scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
    DropRepeated(scope, &ends);
    std::vector<int64_t> key = std::move(facts);
    for (const int unit : scope) key.push_back(units_.labels(unit));
    for (const End& end : ends) {
      const auto at = std::lower_bound(scope.begin(), scope.end(), end.unit) - scope.begin();
      const bool free = at < static_cast<int64_t>(scope.size()) && scope[at] == end.unit;
      key.push_back(free ? at : -1);
      for (const Sbp sbp : end.lies) {
        key.push_back(sbp.kind * 256 + sbp.dim);
        if (!free) break;
      }
    }
    const auto [it, fresh] = tables_.try_emplace(std::move(key));
    if (fresh) it->second = FillTable(scope, ends, cost);
    network_.AddTerm(std::move(scope), it->second);
  }

  // Readers (all ends but the first) that are fixed and need the same are one.
  static void DropRepeated(const std::vector<int>& scope, std::vector<End>* ends) {
    std::vector<Sbp> seen;
    std::vector<End> kept = {ends->front()};
    for (size_t i = 1; i < ends->size(); ++i) {
      End& end = (*ends)[i];
      if (!std::binary_search(scope.begin(), scope.end(), end.unit)) {
        if (std::find(seen.begin(), seen.end(), end.lies[0]) != seen.end()) continue;
        seen.push_back(end.lies[0]);
      }
      kept.push_back(std::move(end));
    }
    *ends = std::move(kept);
  }

  template <typename CostOf>
  std::shared_ptr<const CostTable> FillTable(const std::vector<int>& scope,
                                             const std::vector<End>& ends, CostOf cost) const {
    CostTable table;
    for (const int unit : scope) table.sizes.push_back(units_.labels(unit));
    std::vector<int> label(scope.size(), 0);
    std::vector<Sbp> sbp(ends.size());
    while (true) {
      for (size_t e = 0; e < ends.size(); ++e) {
        const auto at = std::lower_bound(scope.begin(), scope.end(), ends[e].unit);
        const bool free = at != scope.end() && *at == ends[e].unit;
        sbp[e] = ends[e].lies[free ? label[at - scope.begin()] : 0];
      }
      table.costs.push_back(cost(sbp));
      size_t i = scope.size();
      while (i > 0 && ++label[i - 1] == table.sizes[i - 1]) label[--i] = 0;
      if (i == 0) break;
    }
    return std::make_shared<const CostTable>(std::move(table));
  }

  const Graph& graph_;
  const SbpChoice& settled_;
  const SbpOptions& options_;
  const int axis_;
  const SbpUnits& units_;
  const AxisPrices prices_;
  std::vector<std::vector<Use>> uses_;  // of each tensor
  std::map<std::vector<int64_t>, std::shared_ptr<const CostTable>> tables_;
  ChoiceNetwork network_;
};

}  // namespace

ChoiceNetwork SbpNetwork(const Graph& graph, const SbpChoice& settled, const SbpOptions& options,
                         int axis, const SbpUnits& units) {
  return NetworkBuilder(graph, settled, options, axis, units).Build();
}

}  // namespace oneflow
