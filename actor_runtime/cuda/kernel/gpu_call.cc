#include "actor_runtime/cuda/kernel/gpu_call.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "actor_runtime/cuda/status.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/workspace.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow::cuda {
namespace {

// Behind every tensor and the workspace; bytes that no kernel has reason to write.
constexpr int64_t kGuardBytes = 256;
constexpr int kGuard = 0xa5, kNothing = 0xff;

int64_t WorkspaceOfPlan(const KernelSetup& s) {
  std::vector<Dims> in, out;
  for (const std::vector<Port>& sources : s.in) in.push_back(sources[0].local());
  for (const Port& port : s.out) out.push_back(port.local());
  const OpDef* def = FindOpDef(s.kind);
  if (def == nullptr) return 0;
  in.insert(in.begin(), out.begin(), out.begin() + def->updates);
  return WorkspaceBytes(proto::CUDA, s.kind, in, out, /*threads=*/1);
}

}  // namespace

GpuCall::Memory::Memory(int64_t size)
    : data(nullptr, [](std::byte* p) { static_cast<void>(cudaFree(p)); }), bytes(size) {
  void* memory = nullptr;
  CHECK_EQ(cudaMalloc(&memory, size + kGuardBytes), cudaSuccess);
  data.reset(static_cast<std::byte*>(memory));
  CHECK_EQ(cudaMemset(data.get(), kNothing, size), cudaSuccess);
  CHECK_EQ(cudaMemset(data.get() + size, kGuard, kGuardBytes), cudaSuccess);
}

GpuCall::GpuCall(KernelHarness& harness, int64_t workspace_bytes)
    : harness_(harness),
      workspace_(workspace_bytes < 0 ? WorkspaceOfPlan(harness.setup()) : workspace_bytes) {
  const KernelSetup& s = harness.setup();
  for (size_t i = 0; i < s.in.size(); ++i) {
    in_.emplace_back();
    for (size_t j = 0; j < s.in[i].size(); ++j) {
      in_[i].emplace_back(static_cast<int64_t>(
          harness.InputMemory(static_cast<int>(i), static_cast<int>(j)).size()));
    }
  }
  for (size_t i = 0; i < s.out.size(); ++i) {
    out_.emplace_back(static_cast<int64_t>(harness.OutputMemory(static_cast<int>(i)).size()));
  }
}

absl::Status GpuCall::Make(const Maker& make) {
  harness_.setup().workspace_bytes = workspace_.bytes;
  ASSIGN_OR_RETURN(kernel_, make(harness_.setup()));
  return absl::OkStatus();
}

absl::Status GpuCall::CheckGuard(const Memory& memory, const char* what) const {
  std::vector<std::byte> guard(kGuardBytes);
  RETURN_IF_ERROR(ToStatus(cudaMemcpy(guard.data(), memory.data.get() + memory.bytes, kGuardBytes,
                                      cudaMemcpyDeviceToHost),
                           what));
  if (std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == std::byte{kGuard}; })) {
    return absl::OkStatus();
  }
  return absl::InternalError(std::string("the kernel wrote behind ") + what);
}

absl::Status GpuCall::Call(bool accumulate, int64_t firing) {
  std::vector<std::vector<const std::byte*>> in_bases(in_.size());
  std::vector<std::span<const std::byte* const>> in_spans;
  std::vector<std::byte*> out_bases;
  for (size_t i = 0; i < in_.size(); ++i) {
    for (size_t j = 0; j < in_[i].size(); ++j) {
      const auto from = harness_.InputMemory(static_cast<int>(i), static_cast<int>(j));
      std::byte* to = in_[i][j].data.get();
      RETURN_IF_ERROR(
          ToStatus(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice), "an input"));
      in_bases[i].push_back(to);
    }
    in_spans.push_back(in_bases[i]);
  }
  for (size_t i = 0; i < out_.size(); ++i) {
    const auto from = harness_.OutputMemory(static_cast<int>(i));
    std::byte* to = out_[i].data.get();
    RETURN_IF_ERROR(
        ToStatus(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice), "an output"));
    out_bases.push_back(to);
  }
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream"));
  RETURN_IF_ERROR(ToStatus(cudaDeviceSynchronize(), "copies"));
  KernelCall call;
  call.in = in_spans;
  call.out = out_bases;
  call.workspace = {workspace_.data.get(), static_cast<size_t>(workspace_.bytes)};
  call.stream = stream;
  call.firing = firing;
  call.accumulate = accumulate;
  call.run = &harness_.run();
  const absl::Status called = kernel_(call);
  const absl::Status waited = ToStatus(cudaStreamSynchronize(stream), harness_.setup().kind);
  RETURN_IF_ERROR(ToStatus(cudaStreamDestroy(stream), "a stream"));
  RETURN_IF_ERROR(called);
  RETURN_IF_ERROR(waited);
  for (size_t i = 0; i < out_.size(); ++i) {
    const auto to = harness_.OutputMemory(static_cast<int>(i));
    RETURN_IF_ERROR(ToStatus(
        cudaMemcpy(to.data(), out_[i].data.get(), to.size(), cudaMemcpyDeviceToHost), "an output"));
    RETURN_IF_ERROR(CheckGuard(out_[i], "an output"));
  }
  return CheckGuard(workspace_, "the workspace");
}

}  // namespace oneflow::cuda
