// Marks the parts of each variable that rest in the host's memory, and the ops that the host's
// processors compute. The variable's attribute `host` states them: words of "states", "weights" and
// "update", joined by commas (oneflow_core/model/annotate_offload.h).
//
//   states    its moments; also itself, if micro-batches read only a cast of it, because it is a
//             state then
//   weights   the tensor that micro-batches read, itself or its cast; copied for each use
//   update    its moments and itself; the host updates them and prepares what devices read, who
//             copy that once a step, or with `weights` for each use
//
// With one micro-batch a step, a gradient that the host reads for its update leaves the device as
// soon as it is written, so the host computes its norm, too. With more, gradients add up on the
// device, which computes the norm sooner.
//
// The pass marks ops (Op::in_host_memory, copied_once, on_host). Lowering adds the copies
// (compiler/lower/move_to_host.h). No value changes.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

struct Words {
  bool states = false, weights = false, update = false;
};

Words ReadWords(const Op& variable) {
  Words words;
  const std::string host = AttrString(variable, "host");
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(host, ','))) {
    words.states |= word == "states";
    words.weights |= word == "weights";
    words.update |= word == "update" && !IsFrozen(variable);  // nothing updates what is frozen
  }
  return words;
}

class HostRest {
 public:
  HostRest(Graph* graph, bool gradients_leave)
      : graph_(*graph), gradients_leave_(gradients_leave), uses_(FindUses(*graph)) {}

  void Run() {
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      if (!IsVariable(graph_.ops[id])) continue;
      const Words words = ReadWords(graph_.ops[id]);
      if (words.states || words.weights || words.update) Mark(id, words);
    }
    if (!gradients_leave_) return;
    for (Op& op : graph_.ops) {
      if (NeedsHostAlone(op)) op.on_host = op.in_host_memory = true;
    }
  }

 private:
  void Mark(OpId variable, const Words& words) {
    const TensorId w = graph_.ops[variable].outputs[0];
    MarkMoments(w, words);
    Op& op = graph_.ops[variable];
    const bool read = IsReadInMicroBatches(w);
    const std::vector<OpId> prepared = FindPrepared(w);
    op.in_host_memory =
        words.update || (words.weights && read) || (words.states && !read && !prepared.empty());
    // Else devices keep a copy for the step.
    op.copied_once = op.in_host_memory && read && !words.weights;
    for (const OpId id : prepared) {
      Op& from = graph_.ops[id];
      from.on_host = words.update && !IsBoxing(from.kind) && from.inputs[0] == w;
      const bool weight = IsReadInMicroBatches(from.outputs[0]);
      from.in_host_memory = from.on_host || (words.weights && weight);
      from.copied_once = from.on_host && !(words.weights && weight);
    }
  }

  // Those of the update that reads `w`, and whether the host computes it.
  void MarkMoments(TensorId w, const Words& words) {
    if (!words.states && !words.update) return;
    for (const Use& use : uses_[w]) {
      Op& update = graph_.ops[use.op];
      if (use.input != 0 || FindOpDef(update)->updates < 2) continue;
      for (int i = 1; i < FindOpDef(update)->updates; ++i) {
        graph_.ops[graph_.tensors[update.inputs[i]].producer].in_host_memory = true;
      }
      update.on_host = words.update;
    }
  }

  // An op of the update that reads a gradient which the host's update reads, or only what the host
  // has computed of such: norms.
  bool NeedsHostAlone(const Op& op) const {
    if (op.phase != Phase::kUpdate || op.on_host || IsVariable(op) || IsExchange(op.kind) ||
        IsBoxing(op.kind) || op.inputs.empty()) {
      return false;
    }
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) {
      const Op& producer = graph_.Producer(t);
      if (producer.on_host) return true;
      return std::any_of(uses_[t].begin(), uses_[t].end(), [&](const Use& use) {
        const Op& reader = graph_.ops[use.op];
        return reader.on_host && FindOpDef(reader)->updates > 1 &&
               use.input == FindOpDef(reader)->updates;
      });
    });
  }

  bool IsReadInMicroBatches(TensorId t) const {
    return std::any_of(uses_[t].begin(), uses_[t].end(),
                       [&](const Use& use) { return !IsOnceAStep(graph_.ops[use.op].phase); });
  }

  // What is made of `w` before the first micro-batch, in op order.
  std::vector<OpId> FindPrepared(TensorId w) const {
    std::vector<OpId> prepared;
    std::vector<TensorId> open = {w};
    while (!open.empty()) {
      const TensorId t = open.back();
      open.pop_back();
      for (const Use& use : uses_[t]) {
        const Op& op = graph_.ops[use.op];
        if (op.phase != Phase::kPrepare ||
            std::find(prepared.begin(), prepared.end(), use.op) != prepared.end()) {
          continue;
        }
        prepared.push_back(use.op);
        open.insert(open.end(), op.outputs.begin(), op.outputs.end());
      }
    }
    std::sort(prepared.begin(), prepared.end());
    return prepared;
  }

  Graph& graph_;
  const bool gradients_leave_;
  const std::vector<std::vector<Use>> uses_;
};

}  // namespace

void RestOnHost(int64_t micro_batches, Graph* graph) { HostRest(graph, micro_batches == 1).Run(); }

}  // namespace oneflow
