#include "actor_runtime/cuda/exchange/nccl_launch.h"

#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

ncclDataType_t FindType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return ncclFloat32;
    case DType::kF64: return ncclFloat64;
    case DType::kI32: return ncclInt32;
    case DType::kBF16: return ncclBfloat16;
    case DType::kU8: break;
  }
  return ncclUint8;
}

// The steps of one kind of firing, with kernels, in stages. A stage ends with a call of NCCL, which
// may give its work to the stream later.
class ReadySteps {
 public:
  static absl::StatusOr<ReadySteps> Make(NcclSteps steps, const KernelFactory& make_kernel) {
    ReadySteps ready;
    Stage first;
    ASSIGN_OR_RETURN(first.kernels, MakeKernels(steps.before, make_kernel));
    first.collectives = std::move(steps.collectives);
    ready.stages_.push_back(std::move(first));
    if (!steps.messages.empty()) {
      if (ready.stages_.back().CallsNccl()) ready.stages_.emplace_back();
      ready.stages_.back().messages = std::move(steps.messages);
    }
    ASSIGN_OR_RETURN(std::vector<LocalKernel> after, MakeKernels(steps.after, make_kernel));
    if (after.empty()) return ready;
    if (ready.stages_.back().CallsNccl()) ready.stages_.emplace_back();
    std::move(after.begin(), after.end(), std::back_inserter(ready.stages_.back().kernels));
    return ready;
  }

  // True: it was the last stage.
  absl::StatusOr<bool> Launch(const KernelCall& call, const Nccl& nccl, ncclComm_t comm,
                              int number) {
    Stage& stage = stages_[number];
    for (LocalKernel& local : stage.kernels) RETURN_IF_ERROR(local.Launch(call));
    RETURN_IF_ERROR(AsGroup(nccl, stage.collectives, "a collective",
                            [&](const auto& step) { return Collect(step, call, nccl, comm); }));
    RETURN_IF_ERROR(AsGroup(nccl, stage.messages, "sends and receives", [&](const auto& step) {
      std::byte* at = At(call, step.location);
      const auto stream = static_cast<cudaStream_t>(call.stream);
      return step.send ? nccl.Send(at, step.bytes, ncclUint8, step.peer, comm, stream)
                       : nccl.Recv(at, step.bytes, ncclUint8, step.peer, comm, stream);
    }));
    return number + 1 == std::ssize(stages_);
  }

 private:
  struct LocalKernel {
    Kernel kernel;
    std::vector<NcclLocation> sources;
    NcclLocation target;
    bool accumulate = false;
    std::vector<const std::byte*> addresses;  // of the sources, in one launch

    absl::Status Launch(const KernelCall& exchange) {
      for (size_t i = 0; i < sources.size(); ++i) addresses[i] = At(exchange, sources[i]);
      const std::span<const std::byte* const> in(addresses);
      std::byte* out = At(exchange, target);
      KernelCall call;
      call.in = {&in, 1};
      call.out = {&out, 1};
      call.stream = exchange.stream;
      call.accumulate = accumulate;
      return kernel(call);
    }
  };

  static absl::StatusOr<std::vector<LocalKernel>> MakeKernels(
      const std::vector<NcclLocalStep>& steps, const KernelFactory& make_kernel) {
    std::vector<LocalKernel> kernels;
    for (const NcclLocalStep& step : steps) {
      LocalKernel& local = kernels.emplace_back();
      ASSIGN_OR_RETURN(local.kernel, make_kernel(step.setup));
      local.sources = step.sources;
      local.target = step.target;
      local.accumulate = step.accumulate;
      local.addresses.resize(step.sources.size());
    }
    return kernels;
  }

  // Inputs are not written, though NCCL's sends and a location in any memory have one type here.
  static std::byte* At(const KernelCall& call, const NcclLocation& location) {
    switch (location.memory) {
      case NcclLocation::kInput:
        return const_cast<std::byte*>(call.in[0][location.tensor]) + location.offset;
      case NcclLocation::kOutput: return call.out[location.tensor] + location.offset;
      case NcclLocation::kWorkspace: break;
    }
    return call.workspace.data() + location.offset;
  }

  static ncclResult_t Collect(const NcclCollectiveStep& step, const KernelCall& call,
                              const Nccl& nccl, ncclComm_t comm) {
    const std::byte* from = At(call, step.from);
    std::byte* to = At(call, step.to);
    const ncclDataType_t type = FindType(step.dtype);
    const ncclRedOp_t op = step.maximum ? ncclMax : ncclSum;
    const auto stream = static_cast<cudaStream_t>(call.stream);
    switch (step.kind) {
      case NcclCollectiveStep::kAllGather:
        return nccl.AllGather(from, to, step.count, type, comm, stream);
      case NcclCollectiveStep::kReduceScatter:
        return nccl.ReduceScatter(from, to, step.count, type, op, comm, stream);
      case NcclCollectiveStep::kAllReduce: break;
    }
    return nccl.AllReduce(from, to, step.count, type, op, comm, stream);
  }

  // The group is ended even if one of its calls fails: else the thread would stay in it.
  template <typename Step, typename Call>
  static absl::Status AsGroup(const Nccl& nccl, const std::vector<Step>& steps, const char* what,
                              Call call) {
    if (steps.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(nccl.ToStatus(nccl.GroupStart(), "ncclGroupStart"));
    ncclResult_t result = ncclSuccess;
    const auto is_good = [](ncclResult_t r) { return r == ncclSuccess || r == ncclInProgress; };
    for (size_t i = 0; i < steps.size() && is_good(result); ++i) result = call(steps[i]);
    const ncclResult_t end = nccl.GroupEnd();
    return nccl.ToStatus(is_good(result) ? end : result, what);
  }

  struct Stage {
    std::vector<LocalKernel> kernels;
    std::vector<NcclCollectiveStep> collectives;  // or
    std::vector<NcclMessageStep> messages;
    bool CallsNccl() const { return !collectives.empty() || !messages.empty(); }
  };

  std::vector<Stage> stages_;
};

}  // namespace

absl::StatusOr<MemberLaunch> MakeNcclLaunch(const NcclLayout& layout, int member, bool accumulates,
                                            int64_t workspace_bytes,
                                            const KernelFactory& make_kernel, const Nccl& nccl) {
  const auto ready =
      std::make_shared<std::vector<ReadySteps>>();  // [0]: overwriting, [1]: accumulating
  std::set<int> peers;
  for (const bool accumulate : {false, true}) {
    if (accumulate && !accumulates) continue;
    NcclSteps steps = layout.MakeSteps(member, accumulate);
    if (steps.workspace_bytes > workspace_bytes) {
      return absl::InternalError(
          "an exchange over NCCL needs " + std::to_string(steps.workspace_bytes) +
          " bytes of workspace, the plan gives " + std::to_string(workspace_bytes));
    }
    for (const NcclMessageStep& message : steps.messages) peers.insert(message.peer);
    ASSIGN_OR_RETURN(ReadySteps made, ReadySteps::Make(std::move(steps), make_kernel));
    ready->push_back(std::move(made));
  }
  const auto launch = [ready, &nccl](const KernelCall& call, void* carrier, int stage) {
    return ready->at(call.accumulate ? 1 : 0)
        .Launch(call, nccl, static_cast<ncclComm_t>(carrier), stage);
  };
  return MemberLaunch{launch, {peers.begin(), peers.end()}};
}

}  // namespace oneflow::cuda
