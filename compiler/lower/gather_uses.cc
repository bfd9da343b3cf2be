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
        depth_(graph.ops.size(), 0) {}

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
      if (IsGather(from)) depth_[id] = depth_[from] + 1;
    }
  }

  bool IsFar(OpId gather) const { return run_[first_[gather]] != run_[last_[gather]]; }
  int FindBlock(OpId gather) const { return graph_.ops[first_[gather]].block; }

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

  // The uses of one task.
  void AddUses(std::vector<OpId> gathers, std::vector<GatherUse>* uses) const {
    std::stable_sort(gathers.begin(), gathers.end(), [this](OpId a, OpId b) {
      return std::pair(first_[a], depth_[a]) < std::pair(first_[b], depth_[b]);
    });
    const double most = kLarger * static_cast<double>(LargestUse(gathers));
    std::vector<std::vector<OpId>> found;
    std::map<std::pair<int, int>, size_t> open;  // of a run and block
    for (const OpId id : gathers) {
      const std::pair reading(run_[first_[id]], FindBlock(id));
      const auto known = open.find(reading);
      const bool joins = !IsFar(id) && known != open.end() &&
                         (FindBlock(id) >= 0 ||
                          static_cast<double>(Bytes(found[known->second]) + Bytes(id)) <= most);
      if (joins) {
        found[known->second].push_back(id);
        continue;
      }
      if (!IsFar(id)) open[reading] = found.size();
      found.push_back({id});
    }
    std::set<OpId> known;
    for (const std::vector<OpId>& use : found)
      uses->push_back({Casts(use, &known), Exchanges(use)});
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
  int64_t LargestUse(const std::vector<OpId>& gathers) const {
    int64_t largest = 0;
    std::map<std::pair<int, int>, int64_t> of_block;
    for (const OpId id : gathers) {
      const int block = FindBlock(id);
      int64_t& bytes = of_block[{run_[first_[id]], block}];
      bytes = block < 0 ? Bytes(id) : bytes + Bytes(id);
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
};

}  // namespace

std::vector<GatherUse> FindGatherUses(const Graph& graph, const std::vector<Lane>& lanes) {
  return UseFinder(graph, lanes).Run();
}

}  // namespace oneflow
