// MakeCudaKernel: the kernels of a GPU, by kind.
//
//   ASSIGN_OR_RETURN(Kernel kernel, cuda::MakeCudaKernel(setup, libraries));
//   // device pointers in call.in, call.out and call.workspace; call.stream is a cudaStream_t
//   RETURN_IF_ERROR(kernel(call));   // launched, not done
//
// The contract is that of kernel.h, and the meaning of a kind is that of the CPU's kernel. Beyond
// it, a call launches on its stream and never waits; it reads the numbers of a run (seed, step,
// optimizer) on the host, at the call, and no device memory. Nothing on the device depends on the
// number of multiprocessors, and no sum has a random order: results are a function of inputs and
// shapes, to the bit.
//
// It has no host ops and no exchanges: those are not kernels of a GPU.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/libraries.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow::cuda {

// The kernel of setup.kind for these ports, for the current device. NOT_FOUND for a kind without a
// kernel on a GPU.
absl::StatusOr<Kernel> MakeCudaKernel(const KernelSetup& setup, const Libraries& libraries);

// The kinds that have one: those whose definition says so (OpDef::on_cuda).
std::set<std::string> CudaKernelKinds();

}  // namespace oneflow::cuda
