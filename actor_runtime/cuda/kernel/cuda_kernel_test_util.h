// CudaHarness, for tests: one kernel of a GPU (or of the emulated one), by kind, with values as
// doubles; the counterpart of KernelHarness. It owns the resources that a plan would give: device
// memory and workspace, exactly the bytes of the plan's formulas.
//
//   CudaHarness h(MakeHarness(sample, DType::kF32).setup());
//   h.SetInput(0, x);
//   REQUIRE(h.Make().ok());
//   REQUIRE(h.Call().ok());      // launched, and done
//   CHECK(h.IsTidy());           // nothing but its outputs was written
//   Values y = h.Output(0);
//
// Memory that is not set reads as NaN: outputs and, before each call, the workspace (a MiB of both
// ends).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "actor_runtime/cuda/library/libraries.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/kernel_samples.h"
#include "actor_runtime/kernel/run_context.h"

namespace oneflow::cuda {

// The libraries of the current device, opened once: those of the folder $ONEFLOW_CUDA_LIBS, or
// those on a program's usual paths.
const Libraries& TestLibraries();

class CudaHarness {
 public:
  // The ports and attributes of `setup`; its workspace is a GPU's.
  explicit CudaHarness(KernelSetup setup);
  // The kernel of a sample on full tensors, with inputs set.
  explicit CudaHarness(const KernelSample& sample);

  KernelSetup& setup() { return setup_; }  // to change before Make
  RunContext& run() { return run_; }
  int outputs() const { return static_cast<int>(setup_.out.size()); }

  void SetInput(int i, const Values& values, int source = 0);
  void SetOutput(int i, const Values& values);
  // Sets the op's input i at the address from which its kernel reads it.
  void SetOpInput(int i, const Values& values);
  absl::Status Make();
  // INTERNAL, too, if a kernel breaks a rule of the emulated GPU, or its call waits or allocates.
  absl::Status Call(bool accumulate = false, int64_t firing = 0);
  absl::Status MakeAndCall(bool accumulate = false) {
    const absl::Status made = Make();
    return made.ok() ? Call(accumulate) : made;
  }
  Values Output(int i) const;
  std::vector<std::byte> OutputBytes(int i) const;
  // True if inputs and the bytes around all memory are unchanged.
  bool IsTidy() const;

 private:
  // Device memory between two guards. The bytes `set`, on the host, are its inputs.
  struct Buffer {
    std::shared_ptr<std::byte> memory;
    std::vector<std::byte> set;
    int64_t bytes = 0;
    explicit Buffer(int64_t size);
    std::byte* data() const;
    void Write(std::span<const std::byte> values);
    std::vector<std::byte> Read() const;
    bool GuardsHold() const;
    void ForbidGuards(bool forbid) const;
  };
  // AddressSanitizer reports reads and writes of guards while they are forbidden.
  void ForbidGuards(bool forbid) const;

  KernelSetup setup_;
  RunContext run_;
  std::vector<std::vector<Buffer>> in_;
  std::vector<Buffer> out_;
  Buffer workspace_;
  Kernel kernel_;
};

// Samples for kernels of a GPU: those of the CPU's kernels that have a counterpart here; the large
// ones in the full tier alone.
std::vector<KernelSample> CudaSamples();
// True if a GPU has a kernel that runs the sample.
bool RunsOnCuda(const KernelSample& sample);

// Calls body(), which makes its own harnesses, for several orders in which the emulated GPU runs
// blocks, warps and lanes: ascending, descending, and `drawn` others; once on a real GPU, which has
// its own.
void ForKernelOrders(const std::function<void()>& body, uint64_t drawn = 2);
// Runs body() so that the host process dies if it touches device memory.
void WithGuardedMemory(const std::function<void()>& body);

}  // namespace oneflow::cuda
