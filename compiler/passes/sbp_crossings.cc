#include "compiler/passes/sbp_crossings.h"

#include <map>
#include <tuple>
#include <utility>

#include "compiler/passes/boxing_path.h"
#include "compiler/passes/rewrite.h"

namespace oneflow {
namespace {

class CrossingBuilder {
 public:
  CrossingBuilder(const Graph& graph, const SbpOptions& options,
                  const std::vector<ProblemOnMesh>& meshes, SbpTables* tables)
      : graph_(graph),
        options_(options),
        meshes_(meshes),
        tables_(tables),
        places_(graph.ops.size()),
        prices_{options.cluster, graph.mesh} {
    for (int m = 0; m < static_cast<int>(meshes.size()); ++m) {
      const std::vector<OpId>& ops = meshes[m].part.op;
      for (OpId op = 0; op < static_cast<OpId>(ops.size()); ++op) {
        if (ops[op] >= 0) places_[ops[op]] = {m, op};
      }
    }
  }

  void Build() {
    FindUses();
    for (const auto& [crossing, uses] : uses_) {
      const auto& [t, to, sharing] = crossing;
      std::vector<End> ends = {WriterOf(t)};
      for (const Use& use : uses) {
        ends.push_back(
            EndOf(places_[use.op], [&](const Signature& row) { return row.in[use.input]; }));
      }
      const Phase phase = graph_.ops[uses.back().op].phase;
      const double fires = IsOnceAStep(phase) ? 1 : static_cast<double>(options_.micro_batches);
      Add(t, to, fires, std::move(ends));
    }
    for (const TensorId t : ObservedBy(graph_)) {
      if (!graph_.ProducerOf(t).sub_mesh) continue;
      Add(t, /*to=*/0, /*fires=*/1, {WriterOf(t), {{}, {NdSbp(graph_.mesh.axes.size(), B())}}});
    }
  }

 private:
  struct Place {
    int mesh = -1;
    OpId op = -1;  // of its part
  };
  struct Use {
    OpId op = -1;
    int input = 0;
  };
  using Crossing = std::tuple<TensorId, int, int>;  // tensor, mesh it comes to, sharing class

  // The op itself, or that of which it is the replica on another stage.
  OpId FirstOf(OpId op) const {
    const Place& place = places_[op];
    const ProblemOnMesh& on = meshes_[place.mesh];
    return on.problem ? on.part.op[on.problem->labels.FirstOf(place.op)] : op;
  }

  void FindUses() {
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      if (FirstOf(id) != id) continue;
      const Op& op = graph_.ops[id];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const Tensor& read = graph_.tensors[op.inputs[i]];
        if (places_[read.producer].mesh == places_[id].mesh) continue;
        const Op& writer = graph_.ops[FirstOf(read.producer)];
        uses_[{writer.outputs[read.output], places_[id].mesh, SharingClass(writer, op.phase)}]
            .push_back({id, static_cast<int>(i)});
      }
    }
  }

  // On all axes of the mesh: whole on those that are not chosen.
  End EndOf(const Place& place, const SbpProblem::Port& port) const {
    const ProblemOnMesh& on = meshes_[place.mesh];
    const NdSbp whole(on.part.graph.mesh.axes.size(), B());
    if (!on.problem) return {{}, {whole}};
    const std::vector<int>& axes = on.problem->labels.axes();
    End end = on.problem->EndOver(place.op, static_cast<int>(axes.size()), port);
    for (NdSbp& lies : end.lies) {
      NdSbp full = whole;
      for (size_t k = 0; k < axes.size(); ++k) full[axes[k]] = lies[k];
      lies = std::move(full);
    }
    return end;
  }

  End WriterOf(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return EndOf(places_[tensor.producer],
                 [&](const Signature& row) { return row.out[tensor.output]; });
  }

  void Add(TensorId t, int to, double fires, std::vector<End> ends) {
    const Tensor& tensor = graph_.tensors[t];
    const int from = places_[tensor.producer].mesh;
    const BoxedTensor boxed{tensor.shape.dims, static_cast<int64_t>(SizeOf(tensor.dtype))};
    std::vector<int64_t> facts = {from, to, boxed.element_bytes};
    facts.insert(facts.end(), boxed.dims.begin(), boxed.dims.end());
    const std::vector<int64_t> way = facts;
    facts.push_back(static_cast<int64_t>(fires));
    tables_->AddShared(
        std::move(ends), std::move(facts), [&](const NdSbp& lies, const NdSbp& need) {
          return CostOfSeconds(fires * WaySeconds(way, boxed, {meshes_[from].sub_mesh, lies},
                                                  {meshes_[to].sub_mesh, need}));
        });
  }

  // Tensors that are alike take the same ways.
  double WaySeconds(std::vector<int64_t> way, const BoxedTensor& boxed, const MeshSbp& from,
                    const MeshSbp& to) {
    for (const NdSbp& sbps : {from.sbp, to.sbp}) {
      for (const Sbp sbp : sbps) way.push_back(sbp.kind * 256 + sbp.dim);
    }
    const auto [known, fresh] = seconds_.try_emplace(std::move(way), 0);
    if (!fresh) return known->second;
    for (const BoxingStep& step : BoxingPath(prices_, boxed, from, to)) {
      known->second += step.seconds;
    }
    return known->second;
  }

  const Graph& graph_;
  const SbpOptions& options_;
  const std::vector<ProblemOnMesh>& meshes_;
  SbpTables* tables_;
  std::vector<Place> places_;  // of each op
  const BoxingPrices prices_;
  std::map<Crossing, std::vector<Use>> uses_;
  std::map<std::vector<int64_t>, double> seconds_;
};

}  // namespace

void AddCrossings(const Graph& graph, const SbpOptions& options,
                  const std::vector<ProblemOnMesh>& meshes, SbpTables* tables) {
  CrossingBuilder(graph, options, meshes, tables).Build();
}

}  // namespace oneflow
