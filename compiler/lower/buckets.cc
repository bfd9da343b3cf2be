#include "compiler/lower/buckets.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/boxing/boxing_primitive.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// The properties that all members of a bucket share.
struct Kind {
  int stage = 0;
  Phase phase = Phase::kUpdate;
  int depth = 0;
  bool late = false;
  std::string kind;
  std::vector<int> along;
  std::vector<Sbp::Kind> reduced;
  auto operator<=>(const Kind&) const = default;
};

struct Bucket {
  std::vector<OpId> ops;
  int64_t bytes = 0;
  OpId position = 0;  // it is issued with this op
};

// An op waits for what it reads, and for what stands before it on its stream: kernels of a stage
// and transfers between two stages are taken in op order.
//
// Invariants:
//  1. An op of depth d waits for others of at most depth d, and for exchanges of less than d.
//     So no bucket waits for itself.
//  2. A bucket's position is not before that of any bucket that it waits for, and its depth is
//     greater. So issued by position, then by depth, no bucket waits for one behind it.
class Bucketing {
 public:
  Bucketing(const Graph& graph, const std::vector<Lane>& lanes, int64_t bytes)
      : graph_(graph),
        lanes_(lanes),
        most_(bytes),
        waits_(graph.ops.size()),
        depth_(graph.ops.size(), 0),
        late_(graph.ops.size(), false),
        bucket_of_(graph.ops.size(), -1) {
    FindWaits();
  }

  std::vector<std::vector<OpId>> Run() {
    for (OpId id = 0; id < size(); ++id) {
      if (IsJoined(id)) bucket_of_[id] = Join(id);
    }
    for (Bucket& bucket : buckets_) {
      const bool prepares = graph_.ops[bucket.ops[0]].phase == Phase::kPrepare;
      bucket.position = prepares ? bucket.ops.front() : bucket.ops.back();
    }
    MoveBehindWaits();
    std::stable_sort(buckets_.begin(), buckets_.end(), [this](const Bucket& a, const Bucket& b) {
      return std::pair(a.position, depth_[a.ops[0]]) < std::pair(b.position, depth_[b.ops[0]]);
    });
    std::vector<std::vector<OpId>> result;
    for (Bucket& bucket : buckets_) result.push_back(std::move(bucket.ops));
    return result;
  }

 private:
  OpId size() const { return static_cast<OpId>(graph_.ops.size()); }
  bool IsJoined(OpId id) const { return lanes_[id] == Lane::kGradient; }

  void FindWaits() {
    std::map<std::tuple<Phase, int, int>, OpId> streams;  // the last op of each
    for (OpId id = 0; id < size(); ++id) {
      const Op& op = graph_.ops[id];
      if (!IsOnceAStep(op.phase) || IsVariable(op)) continue;
      for (const TensorId t : op.inputs) AddWait(id, graph_.tensors[t].producer);
      if (IsJoined(id)) continue;
      const int from = IsTransfer(op.kind) ? graph_.Producer(op.inputs[0]).stage : op.stage;
      const auto [last, first] = streams.try_emplace({op.phase, from, op.stage}, id);
      if (!first) AddWait(id, std::exchange(last->second, id));
    }
  }

  void AddWait(OpId id, OpId before) {
    const Op& op = graph_.ops[before];
    const bool computes = op.phase == Phase::kUpdate && !IsVariable(op) && !IsJoined(before);
    waits_[id].push_back(before);
    depth_[id] = std::max(depth_[id], depth_[before] + IsJoined(before));
    late_[id] = late_[id] || late_[before] || computes;
  }

  Kind MakeKind(OpId id) const {
    const Op& op = graph_.ops[id];
    const NdSbp &from = graph_.tensors[op.inputs[0]].sbp, &to = graph_.tensors[op.outputs[0]].sbp;
    Kind kind{op.stage, op.phase, depth_[id], late_[id], op.kind};
    kind.along = PrimitiveBetween(graph_.mesh, from, to).along;
    for (const int axis : kind.along) kind.reduced.push_back(from[axis].kind);
    return kind;
  }

  int64_t DeviceBytes(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return MaxElements(MakeLayout(tensor.shape.dims, tensor.sbp), graph_.mesh) *
           static_cast<int64_t>(ElementBytes(tensor.dtype));
  }

  // The open bucket of its kind, or a new one.
  int Join(OpId id) {
    const Op& op = graph_.ops[id];
    const int64_t bytes = std::max(DeviceBytes(op.inputs[0]), DeviceBytes(op.outputs[0]));
    Kind kind = MakeKind(id);
    const auto open = open_.find(kind);
    if (open != open_.end() && buckets_[open->second].bytes + bytes <= most_) {
      buckets_[open->second].ops.push_back(id);
      buckets_[open->second].bytes += bytes;
      return open->second;
    }
    const int fresh = static_cast<int>(buckets_.size());
    buckets_.push_back({{id}, bytes});
    // One that nothing fits beside leaves the open one as it is.
    if (bytes < most_) open_[std::move(kind)] = fresh;
    return fresh;
  }

  // Moves buckets behind those that they wait for.
  void MoveBehindWaits() {
    std::vector<OpId> by_depth,
        behind(size(), -1);  // behind: the position of the last bucket waited for
    for (OpId id = 0; id < size(); ++id) by_depth.push_back(id);
    std::stable_sort(by_depth.begin(), by_depth.end(),
                     [this](OpId a, OpId b) { return depth_[a] < depth_[b]; });
    for (const OpId id : by_depth) {
      for (const OpId before : waits_[id]) {
        const int bucket = bucket_of_[before];
        behind[id] = std::max(behind[id], bucket < 0 ? behind[before] : buckets_[bucket].position);
      }
      if (bucket_of_[id] < 0) continue;
      OpId& position = buckets_[bucket_of_[id]].position;
      position = std::max(position, behind[id]);
    }
  }

  const Graph& graph_;
  const std::vector<Lane>& lanes_;
  const int64_t most_;
  std::vector<std::vector<OpId>> waits_;  // by op
  std::vector<int> depth_;                // by op: exchanges on the longest way that leads to it
  std::vector<bool> late_;                // by op: it waits for something that the update computes
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // by op; -1: of none
  std::map<Kind, int> open_;
};

}  // namespace

std::vector<std::vector<OpId>> Buckets(const Graph& graph, const std::vector<Lane>& lanes,
                                       int64_t bytes) {
  return Bucketing(graph, lanes, bytes).Run();
}

}  // namespace oneflow
