// For tests: a kernel on a GPU, with the memory of a KernelHarness.
//
//   KernelHarness h = HarnessOf(sample, DType::kF32);
//   GpuCall on_gpu(h);
//   REQUIRE(on_gpu.Make(MakeGelu) == absl::OkStatus());
//   REQUIRE(on_gpu.Call() == absl::OkStatus());   // reads h's inputs, writes its outputs
//   h.Output(0);
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel_test_util.h"

namespace oneflow::cuda {

class GpuCall {
 public:
  using Maker = std::function<absl::StatusOr<Kernel>(const KernelSetup&)>;

  // Memory of the current device for the harness's tensors, and for the workspace that a plan gives
  // a kernel on a GPU, or `workspace_bytes` of it.
  explicit GpuCall(KernelHarness& harness, int64_t workspace_bytes = -1);

  // Makes the kernel. The harness's setup then holds the bytes of workspace.
  absl::Status Make(const Maker& make);

  // Copies inputs and outputs to the device, calls, waits, and copies the outputs back. INTERNAL if
  // the kernel wrote behind an output or behind the workspace. The workspace holds NaNs before.
  absl::Status Call(bool accumulate = false, int64_t firing = 0);

 private:
  struct Memory {
    explicit Memory(int64_t size);
    std::unique_ptr<std::byte, void (*)(std::byte*)> data;
    int64_t bytes;
  };
  absl::Status CheckGuard(const Memory& memory, const char* what) const;

  KernelHarness& harness_;
  std::vector<std::vector<Memory>> in_;
  std::vector<Memory> out_;
  Memory workspace_;
  Kernel kernel_;
};

}  // namespace oneflow::cuda
