#include "tools/measure/kernel_time.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <latch>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <utility>

#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/run_context.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/call_bytes.h"
#include "oneflow_core/device/workspace.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/bf16.h"
#include "tools/measure/repeat.h"

namespace oneflow {
namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};
using Buffer = std::vector<Line>;

template <typename T>
void Fill(T value, Buffer* buffer) {
  T* data = reinterpret_cast<T*>(buffer->data());
  std::fill(data, data + buffer->size() * sizeof(Line) / sizeof(T), value);
}

// For which this thread has run.
double SecondsOfThread() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Slots, as a plan would give them, with something finite in them.
Buffer BufferOf(const Tensor& tensor) {
  const size_t bytes = static_cast<size_t>(tensor.shape.elements()) * SizeOf(tensor.dtype);
  Buffer buffer(bytes / sizeof(Line) + 1);
  if (tensor.dtype == DType::kF32) Fill(0.25f, &buffer);
  if (tensor.dtype == DType::kF64) Fill(0.25, &buffer);
  if (tensor.dtype == DType::kBF16) Fill(ToBf16(0.25f), &buffer);
  return buffer;
}

Port WholePortOf(const Tensor& tensor) {
  const Dims& dims = tensor.shape.dims;
  return {tensor.dtype, dims, Slice{Dims(dims.size(), 0), dims}, {}};
}

absl::StatusOr<Graph> GraphOf(const TimedOp& op) {
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
  RETURN_IF_ERROR(InferShapesOf(&graph, timed));
  return graph;
}

// AdamW finds w, m and v in its outputs: update registers.
int UpdateInputs(const std::string& kind) { return kind == "adamw" ? 3 : 0; }

// One actor's kernel with all that a call needs. Not moved once made: the call points into it.
class Bench {
 public:
  Bench(const Graph& graph, int threads) : graph_(graph), op_(graph.ops.back()), pool_(threads) {
    setup_.kind = setup_.name = op_.kind;
    setup_.attrs = op_.attrs;
    setup_.threads = threads;
    std::vector<Dims> in_dims, out_dims;
    for (size_t i = UpdateInputs(op_.kind); i < op_.inputs.size(); ++i) {
      const Tensor& tensor = graph.tensors[op_.inputs[i]];
      setup_.in.push_back({WholePortOf(tensor)});
      in_dims.push_back(tensor.shape.dims);
      in_.push_back(BufferOf(tensor));
    }
    for (const TensorId t : op_.outputs) {
      setup_.out.push_back(WholePortOf(graph.tensors[t]));
      out_dims.push_back(graph.tensors[t].shape.dims);
      out_.push_back(BufferOf(graph.tensors[t]));
    }
    setup_.workspace_bytes = WorkspaceBytes(proto::CPU, op_.kind, in_dims, out_dims, threads);
    workspace_.resize(static_cast<size_t>(setup_.workspace_bytes) / sizeof(Line) + 1);
    run_.optimizer = [](int64_t step) { return StepNumbers{1e-4, 0.9, 0.95, 1e-8, 0.1, 1, step}; };
    MakeCall();
  }

  absl::StatusOr<KernelTime> Time(double budget) {
    ASSIGN_OR_RETURN(const Kernel kernel, MakeKernel(setup_));
    KernelTime time;
    time.of_thread = std::numeric_limits<double>::infinity();
    const auto call = [&] {
      const double start = SecondsOfThread();
      absl::Status status = kernel(call_);
      time.of_thread = std::min(time.of_thread, SecondsOfThread() - start);
      return status;
    };
    ASSIGN_OR_RETURN(const std::vector<double> seconds, Repeat(budget, call));
    time.seconds = Median(seconds);
    const OpDef& def = *FindOpDef(op_.kind);
    if (def.flops) time.flops = def.flops(OpView{graph_, op_});
    std::vector<double> read;
    for (const TensorId t : op_.inputs) read.push_back(BytesOf(t));
    time.bytes = BytesRead(op_.kind, std::move(read), BytesOf(op_.outputs[0]));
    for (const TensorId t : op_.outputs) time.bytes += BytesOf(t);
    return time;
  }

  // Calls it until `done`, and says so after the first call.
  absl::Status CallUntil(const std::atomic<bool>& done, std::latch* called) {
    const absl::StatusOr<Kernel> kernel = MakeKernel(setup_);
    if (kernel.ok()) (*kernel)(call_).IgnoreError();
    called->count_down();
    while (kernel.ok() && !done.load()) RETURN_IF_ERROR((*kernel)(call_));
    return kernel.status();
  }

 private:
  double BytesOf(TensorId t) const {
    const Tensor& tensor = graph_.tensors[t];
    return static_cast<double>(tensor.shape.elements()) * static_cast<double>(SizeOf(tensor.dtype));
  }

  void MakeCall() {
    for (const Buffer& buffer : in_) in_bases_.push_back(buffer[0].bytes);
    for (const std::byte*& base : in_bases_) in_spans_.push_back({&base, 1});
    for (Buffer& buffer : out_) out_bases_.push_back(buffer[0].bytes);
    call_.in = in_spans_;
    call_.out = out_bases_;
    call_.workspace = {workspace_[0].bytes, static_cast<size_t>(setup_.workspace_bytes)};
    call_.pool = &pool_;
    call_.run = &run_;
  }

  const Graph& graph_;
  const Op& op_;
  ThreadPool pool_;
  KernelSetup setup_;
  RunContext run_;
  std::vector<Buffer> in_, out_;
  Buffer workspace_;
  std::vector<const std::byte*> in_bases_;
  std::vector<std::span<const std::byte* const>> in_spans_;
  std::vector<std::byte*> out_bases_;
  KernelCall call_;
};

}  // namespace

absl::StatusOr<KernelTime> TimeKernel(const TimedOp& op, int threads, double budget, int devices) {
  ASSIGN_OR_RETURN(const Graph graph, GraphOf(op));
  Bench bench(graph, threads);
  std::atomic<bool> done = false;
  std::latch called(devices - 1);
  std::vector<std::jthread> others;
  for (int d = 1; d < devices; ++d) {
    // What fails there fails here, too.
    others.emplace_back([&] { Bench(graph, threads).CallUntil(done, &called).IgnoreError(); });
  }
  called.wait();
  const absl::StatusOr<KernelTime> time = bench.Time(budget);
  done.store(true);
  return time;
}

absl::StatusOr<double> MeasureMatrixRate(int threads, DType dtype) {
  const TimedInput square = {{768, 768}, dtype};
  ASSIGN_OR_RETURN(const KernelTime time,
                   TimeKernel({"linear", {square, square}, {}}, /*threads=*/1, 0.2, threads));
  return threads * time.flops / time.of_thread;
}

}  // namespace oneflow
