#include "planning/measure/timed_op.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/call_bytes.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/workspace.h"

namespace oneflow {
namespace {

Port MakeReplicatedPort(const Tensor& tensor) {
  const Dims& dims = tensor.shape.dims;
  return {tensor.dtype, dims, Slice{Dims(dims.size(), 0), dims}, {}};
}

absl::StatusOr<Graph> MakeGraph(const TimedOp& op) {
  Graph graph;
  std::vector<TensorId> inputs;
  for (const TimedInput& input : op.inputs) {
    const OpId source = graph.AddOp("input", "in" + std::to_string(inputs.size()), {}, {});
    inputs.push_back(graph.ops[source].outputs[0]);
    graph.tensors[inputs.back()].shape = Shape(input.dims);
    graph.tensors[inputs.back()].dtype = input.dtype;
  }
  const OpId timed = graph.AddOp(op.kind, op.kind, inputs, op.attrs);
  RETURN_IF_ERROR(CheckGraph(graph));
  RETURN_IF_ERROR(InferOpShapes(&graph, timed));
  return graph;
}

double TensorBytes(const Tensor& tensor) {
  return static_cast<double>(tensor.shape.elements()) *
         static_cast<double>(ElementBytes(tensor.dtype));
}

}  // namespace

absl::StatusOr<TimedKernel> MakeTimedKernel(const TimedOp& op, proto::DeviceKind kind,
                                            int threads) {
  ASSIGN_OR_RETURN(const Graph graph, MakeGraph(op));
  const Op& timed = graph.ops.back();
  const OpDef& def = *FindOpDef(timed);
  TimedKernel result;
  KernelSetup& setup = result.setup;
  setup.kind = setup.name = timed.kind;
  setup.attrs = timed.attrs;
  setup.threads = threads;
  LocalOp local{timed.attrs, {}, {}};
  std::vector<double> read;
  for (size_t i = 0; i < timed.inputs.size(); ++i) {
    const Tensor& tensor = graph.tensors[timed.inputs[i]];
    read.push_back(TensorBytes(tensor));
    const bool updated = std::cmp_less(i, def.updates);
    if (!updated) setup.in.push_back({MakeReplicatedPort(tensor)});
    local.in.push_back(tensor.shape.dims);
  }
  for (const TensorId t : timed.outputs) {
    setup.out.push_back(MakeReplicatedPort(graph.tensors[t]));
    local.out.push_back(graph.tensors[t].shape.dims);
    result.bytes += TensorBytes(graph.tensors[t]);
  }
  result.bytes +=
      BytesRead(FormName(timed), std::move(read), TensorBytes(graph.tensors[timed.outputs[0]]));
  if (!timed.inputs.empty()) local.dtype = graph.tensors[timed.inputs[0]].dtype;
  setup.workspace_bytes = WorkspaceBytes(kind, timed.kind, local, threads);
  if (def.flops) result.flops = def.flops(OpView{graph, timed});
  return result;
}

std::string FormatShapes(const TimedOp& op) {
  std::string text;
  for (const TimedInput& input : op.inputs) {
    absl::StrAppend(&text, text.empty() ? "" : " ", ToString(Shape(input.dims)));
  }
  return text;
}

}  // namespace oneflow
