#include "compiler/check_gathers.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Forwards whose backward has not been taken yet, at most at once on a stage.
int64_t CountInFlight(const StageOrder& order) {
  int64_t most = 0, now = 0;
  for (const Task& task : Unrolled(order)) {
    if (task.part == Part::kForward) most = std::max(most, ++now);
    if (task.part == Part::kBackward) --now;
  }
  return most;
}

// Bytes a device of the weights that are gathered: of a stage, and of a block, at most.
struct GatheredBytes {
  double stage = 0, block = 0;
};

GatheredBytes CountBytes(const Graph& graph, bool narrow) {
  std::map<int, double> stages;
  std::map<int, double> blocks;
  for (const Op& op : graph.ops) {
    if (!IsVariable(op) || !AttrBool(op, "gather_shared")) continue;
    const Tensor& tensor = graph.tensors[op.outputs[0]];
    auto bytes = static_cast<double>(tensor.shape.elements()) * (narrow ? 2 : 4);
    for (const auto& [axis, sbp] : tensor.constraint) {
      const int at = graph.mesh.FindAxis(axis);
      if (at >= 0 && sbp.split()) bytes /= graph.mesh.axes[at].size;
    }
    stages[op.stage] += bytes;
    blocks[op.block] += bytes;
  }
  GatheredBytes most;
  for (const auto& [stage, bytes] : stages) most.stage = std::max(most.stage, bytes);
  for (const auto& [block, bytes] : blocks) most.block = std::max(most.block, bytes);
  return most;
}

std::string Megabytes(double bytes) { return absl::StrFormat("%.1f MB", bytes * 1e-6); }

}  // namespace

absl::Status CheckGathers(const Graph& graph, const proto::Recipe& recipe,
                          const Schedule& schedule) {
  const bool shared = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) {
    return IsVariable(op) && AttrBool(op, "gather_shared");
  });
  if (!shared) return absl::OkStatus();
  const int stages = graph.mesh.stages();
  const int64_t few = FewMicroBatches(schedule, stages, recipe.micro_batches());
  int64_t in_flight = 0;
  for (const StageOrder& order : MakeOrders(schedule, stages, few)) {
    in_flight = std::max(in_flight, CountInFlight(order));
  }
  if (in_flight <= 1) return absl::OkStatus();
  const GatheredBytes bytes = CountBytes(graph, recipe.precision() == proto::BF16);
  return InputError(
      "--gather=each_micro_batch",
      absl::StrCat("keeps what is gathered from a forward to its backward, and a stage has ",
                   in_flight, " micro-batches in flight"),
      absl::StrCat("use --gather=each_use, which holds a block at a time (", Megabytes(bytes.block),
                   "), or --gather=once, which keeps a stage (", Megabytes(bytes.stage), ")"));
}

}  // namespace oneflow
