#include "compiler/lower/gather_uses.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/boxing/boxing_primitive.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// A use outside of the blocks takes at most so many times the bytes of the largest use: the gain of
// a norm is gathered with the head behind it.
constexpr double kLarger = 1.25;

// What compute takes in a row.
using TaskKey = std::tuple<int, Phase, int>;  // stage, phase, chunk
TaskKey FindTask(const Op& op) { return {op.stage, op.phase, op.chunk}; }

class UseFinder {
 public:
  UseFinder(const Graph& graph, const std::vector<Lane>& lanes)
      : graph_(graph),
        lanes_(lanes),
        run_(graph.ops.size(), 0),
        first_(graph.ops.size(), std::numeric_limits<OpId>::max()),
        last_(graph.ops.size(), -1),
        depth_(graph.ops.size(), 0),
        root_(graph.ops.size(), -1) {}

  std::vector<GatherUse> Run() {
    NumberRuns();
    FindReaders();
    std::map<TaskKey, std::vector<OpId>> gathers;
    for (OpId id = 0; id < Size(); ++id) {
      if (IsGather(id)) gathers[FindTask(graph_.ops[id])].push_back(id);
    }
    std::vector<GatherUse> uses;
    for (auto& [task, ops] : gathers) AddUses(std::move(ops), &uses);
    return uses;
  }

 private:
  OpId Size() const { return static_cast<OpId>(graph_.ops.size()); }
  bool IsGather(OpId id) const {
    return lanes_[id] == Lane::kGather && IsExchange(graph_.ops[id].kind);
  }

  // Numbers the blocks of each task in the order in which its ops take them. What stands outside of
  // the blocks bears the number of the block before it.
  void NumberRuns() {
    std::map<TaskKey, std::pair<int, int>> now;  // number, block
    for (OpId id = 0; id < Size(); ++id) {
      const Op& op = graph_.ops[id];
      auto& [number, block] = now.try_emplace(FindTask(op), 0, -1).first->second;
      if (!IsBoxing(op.kind) && op.block >= 0 && op.block != block) ++number, block = op.block;
      run_[id] = number;
    }
  }

  // The first and last op that reads what is gathered, also through another gather.
  void FindReaders() {
    for (OpId id = Size(); id-- > 0;) {
      for (const TensorId t : graph_.ops[id].inputs) {
        const OpId from = graph_.tensors[t].producer;
        if (!IsGather(from)) continue;
        first_[from] = std::min(first_[from], IsGather(id) ? first_[id] : id);
        last_[from] = std::max(last_[from], IsGather(id) ? last_[id] : id);
      }
    }
    for (OpId id = 0; id < Size(); ++id) {
      if (!IsGather(id)) continue;
      const OpId from = graph_.tensors[graph_.ops[id].inputs[0]].producer;
      depth_[id] = IsGather(from) ? depth_[from] + 1 : 0;
      root_[id] = IsGather(from) ? root_[from] : id;
    }
  }

  // What is gathered from one part by exchanges of which each but the first reads another: apart,
  // the first would be no use of compute's.
  using Weight = std::vector<OpId>;

  bool IsFar(const Weight& weight) const {
    return run_[first_[weight[0]]] != run_[last_[weight[0]]];
  }
  int FindBlock(const Weight& weight) const { return graph_.ops[first_[weight[0]]].block; }
  std::pair<int, int> FindReading(const Weight& weight) const {
    return {run_[first_[weight[0]]], FindBlock(weight)};
  }

  int64_t Bytes(OpId gather) const {
    const Tensor& to = graph_.tensors[graph_.ops[gather].outputs[0]];
    return MaxElements(MakeLayout(to.shape.dims, to.sbp), graph_.mesh) *
           static_cast<int64_t>(ElementBytes(to.dtype));
  }
  int64_t Bytes(const std::vector<OpId>& gathers) const {
    int64_t bytes = 0;
    for (const OpId id : gathers) bytes += Bytes(id);
    return bytes;
  }

  // In the order of readers.
  std::vector<Weight> Weights(const std::vector<OpId>& gathers) const {
    std::vector<Weight> weights;
    std::map<OpId, size_t> known;  // by root
    for (const OpId id : gathers) {
      const auto [weight, fresh] = known.try_emplace(root_[id], weights.size());
      if (fresh) weights.emplace_back();
      weights[weight->second].push_back(id);
    }
    return weights;
  }

  // The uses of one task.
  void AddUses(std::vector<OpId> gathers, std::vector<GatherUse>* uses) const {
    const auto earlier = [this](OpId a, OpId b) {
      return std::tuple(first_[a], depth_[a], a) < std::tuple(first_[b], depth_[b], b);
    };
    std::sort(gathers.begin(), gathers.end(), earlier);
    const std::vector<Weight> weights = Weights(gathers);
    const double most = kLarger * static_cast<double>(LargestUse(weights));
    std::vector<std::vector<OpId>> found;
    std::map<std::pair<int, int>, size_t> open;  // of a run and block
    for (const Weight& weight : weights) {
      const auto known = open.find(FindReading(weight));
      const bool joins = !IsFar(weight) && known != open.end() &&
                         (FindBlock(weight) >= 0 ||
                          static_cast<double>(Bytes(found[known->second]) + Bytes(weight)) <= most);
      if (joins) {
        std::vector<OpId>& use = found[known->second];
        use.insert(use.end(), weight.begin(), weight.end());
        continue;
      }
      if (!IsFar(weight)) open[FindReading(weight)] = found.size();
      found.push_back(weight);
    }
    std::set<OpId> known;
    for (std::vector<OpId>& use : found) {
      std::sort(use.begin(), use.end(), earlier);
      uses->push_back({Casts(use, &known), Exchanges(use)});
    }
  }

  // The casts for the gathers of a use, but those that an earlier use knows.
  std::vector<OpId> Casts(const std::vector<OpId>& use, std::set<OpId>* known) const {
    std::vector<OpId> casts;
    for (const OpId id : use) {
      const OpId from = graph_.tensors[graph_.ops[id].inputs[0]].producer;
      const bool cast = lanes_[from] == Lane::kGather && !IsGather(from);
      if (cast && known->insert(from).second) casts.push_back(from);
    }
    return casts;
  }

  // Bytes of the largest block, or of the largest weight outside of the blocks.
  int64_t LargestUse(const std::vector<Weight>& weights) const {
    int64_t largest = 0;
    std::map<std::pair<int, int>, int64_t> of_block;
    for (const Weight& weight : weights) {
      int64_t& bytes = of_block[FindReading(weight)];
      bytes = FindBlock(weight) < 0 ? Bytes(weight) : bytes + Bytes(weight);
      largest = std::max(largest, bytes);
    }
    return largest;
  }

  // Those of a use that do the same along the same axes are one.
  std::vector<std::vector<OpId>> Exchanges(const std::vector<OpId>& use) const {
    std::map<std::tuple<int, std::string, std::vector<int>>, std::vector<OpId>> joined;
    for (const OpId id : use) {
      const Op& op = graph_.ops[id];
      const NdSbp &from = graph_.tensors[op.inputs[0]].sbp, &to = graph_.tensors[op.outputs[0]].sbp;
      joined[{depth_[id], op.kind, PrimitiveBetween(graph_.mesh, from, to).along}].push_back(id);
    }
    std::vector<std::vector<OpId>> exchanges;
    for (auto& [kind, ops] : joined) exchanges.push_back(std::move(ops));
    return exchanges;
  }

  const Graph& graph_;
  const std::vector<Lane>& lanes_;
  std::vector<int> run_;            // by op
  std::vector<OpId> first_, last_;  // by gather: the ops that read it
  std::vector<int> depth_;          // by gather: gathers that it waits for, one after another
  std::vector<OpId> root_;          // by gather: the first of them, or itself
};

}  // namespace

std::vector<GatherUse> FindGatherUses(const Graph& graph, const std::vector<Lane>& lanes) {
  return UseFinder(graph, lanes).Run();
}

}  // namespace oneflow
