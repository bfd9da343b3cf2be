#include "compiler/lower/buckets.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/passes/boxing_primitive.h"
#include "compiler/passes/rewrite.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

// What a bucket's members have in common.
struct Kind {
  int stage = 0;
  Phase phase = Phase::kUpdate;
  // Exchanges of once a step on the longest way that leads to it: none of as many waits for
  // another.
  int depth = 0;
  std::string kind;
  std::vector<int> along;
  std::vector<Sbp::Kind> reduced;
  auto operator<=>(const Kind&) const = default;
};

struct Bucket {
  std::vector<OpId> ops;
  int64_t bytes = 0;
  // Ops that the update computes: the last that a member waits for, the first that waits for one.
  OpId last_before = -1, first_after = std::numeric_limits<OpId>::max();
  bool emitted = false;
};

// Invariant: an edge between buckets leads from a smaller depth to a greater one, so a bucket never
// waits for itself.
class Bucketing {
 public:
  Bucketing(const Graph& graph, const std::vector<Lane>& lanes, int64_t bytes)
      : graph_(graph), lanes_(lanes), most_(bytes), bucket_of_(graph.ops.size(), -1) {
    LookBack();
    LookAhead();
  }

  std::vector<std::vector<OpId>> Run() {
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      if (lanes_[id] == Lane::kGradient) bucket_of_[id] = Join(id);
    }
    std::vector<std::pair<OpId, int>> places;
    for (int b = 0; b < static_cast<int>(buckets_.size()); ++b) {
      const std::vector<OpId>& ops = buckets_[b].ops;
      const bool prepares = graph_.ops[ops[0]].phase == Phase::kPrepare;
      places.emplace_back(prepares ? ops.front() : ops.back(), b);
    }
    std::sort(places.begin(), places.end());
    for (const auto& [place, bucket] : places) Emit(bucket);
    return std::move(result_);
  }

 private:
  bool Computes(OpId id) const {
    const Op& op = graph_.ops[id];
    return op.phase == Phase::kUpdate && !IsExchange(op.kind) && !IsVariable(op);
  }

  void LookBack() {
    const size_t n = graph_.ops.size();
    depth_.assign(n, 0), last_before_.assign(n, -1), crossed_.assign(n, false);
    for (OpId id = 0; id < static_cast<OpId>(n); ++id) {
      const Op& op = graph_.ops[id];
      for (const TensorId t : op.inputs) {
        const OpId producer = graph_.tensors[t].producer;
        depth_[id] = std::max(depth_[id], depth_[producer] + (lanes_[producer] == Lane::kGradient));
        last_before_[id] =
            std::max(last_before_[id], Computes(producer) ? producer : last_before_[producer]);
        if (crossed_[producer]) crossed_[id] = true;
      }
      if (op.kind == "transfer" && op.phase == Phase::kUpdate) crossed_[id] = true;
    }
  }

  void LookAhead() {
    first_after_.assign(graph_.ops.size(), std::numeric_limits<OpId>::max());
    for (OpId id = static_cast<OpId>(graph_.ops.size()); id-- > 0;) {
      const OpId first = Computes(id) ? id : first_after_[id];
      for (const TensorId t : graph_.ops[id].inputs) {
        OpId& of = first_after_[graph_.tensors[t].producer];
        of = std::min(of, first);
      }
    }
  }

  Kind KindOf(OpId id) const {
    const Op& op = graph_.ops[id];
    const NdSbp &from = graph_.tensors[op.inputs[0]].sbp, &to = graph_.tensors[op.outputs[0]].sbp;
    Kind kind{op.stage, op.phase, depth_[id], op.kind};
    kind.along = PrimitiveBetween(graph_.mesh, from, to).along;
    for (const int axis : kind.along) kind.reduced.push_back(from[axis].kind);
    return kind;
  }

  int64_t BytesOf(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return MaxElements(LayoutOf(tensor.shape.dims, tensor.sbp), graph_.mesh) *
           static_cast<int64_t>(SizeOf(tensor.dtype));
  }

  // The open bucket of its kind, or a new one.
  int Join(OpId id) {
    const Op& op = graph_.ops[id];
    const int64_t bytes = std::max(BytesOf(op.inputs[0]), BytesOf(op.outputs[0]));
    Kind kind = KindOf(id);
    const auto open = open_.find(kind);
    if (open != open_.end() && Fits(buckets_[open->second], id, bytes)) {
      Bucket& bucket = buckets_[open->second];
      bucket.ops.push_back(id);
      bucket.bytes += bytes;
      bucket.last_before = std::max(bucket.last_before, last_before_[id]);
      bucket.first_after = std::min(bucket.first_after, first_after_[id]);
      return open->second;
    }
    const int fresh = static_cast<int>(buckets_.size());
    buckets_.push_back({{id}, bytes, last_before_[id], first_after_[id]});
    // One that nothing fits beside leaves the open one as it is.
    if (bytes < most_ && !crossed_[id]) open_[std::move(kind)] = fresh;
    return fresh;
  }

  bool Fits(const Bucket& bucket, OpId id, int64_t bytes) const {
    return !crossed_[id] && bucket.bytes + bytes <= most_ &&
           std::max(bucket.last_before, last_before_[id]) <
               std::min(bucket.first_after, first_after_[id]);
  }

  void Emit(int b) {
    if (std::exchange(buckets_[b].emitted, true)) return;
    for (const OpId id : buckets_[b].ops) {
      for (const TensorId t : graph_.ops[id].inputs) EmitBefore(graph_.tensors[t].producer);
    }
    result_.push_back(buckets_[b].ops);
  }

  // The buckets that an op, of no bucket or of one, comes behind.
  void EmitBefore(OpId id) {
    if (bucket_of_[id] >= 0) return Emit(bucket_of_[id]);
    if (depth_[id] == 0 || std::exchange(seen_[id], true)) return;
    for (const TensorId t : graph_.ops[id].inputs) EmitBefore(graph_.tensors[t].producer);
  }

  const Graph& graph_;
  const std::vector<Lane>& lanes_;
  const int64_t most_;
  std::vector<int> depth_;                       // by op
  std::vector<OpId> last_before_, first_after_;  // by op: as in Bucket
  std::vector<bool> crossed_;                    // by op: it waits for another stage's update
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // by op; -1: of none
  std::map<Kind, int> open_;
  std::map<OpId, bool> seen_;
  std::vector<std::vector<OpId>> result_;
};

}  // namespace

std::vector<std::vector<OpId>> Buckets(const Graph& graph, const std::vector<Lane>& lanes,
                                       int64_t bytes) {
  return Bucketing(graph, lanes, bytes).Run();
}

}  // namespace oneflow
