// Kernels: the code that actors run. A kernel is a function made once, at load, for fixed local
// shapes (primitives, copy lists and tables are built then), and called once a firing.
//
// Guarantees of a kernel (law 4 and law 6): a call allocates nothing; its result depends only on
// its inputs, the firing index and the run's seed, never on the number of threads: tiles are a
// function of the shape.
//
//   absl::StatusOr<Kernel> MakeGelu(const KernelSetup& s);   // elementwise.cc
//   Kernel k = *MakeKernel(setup);                           // looks the kind up in the tables
//   absl::Status st = k(call);
//
// It is not an op definition: shapes arrive checked, and mistakes here are ours (CHECK).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/kernel/simd/isa.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {

struct RunContext;  // actor_runtime/kernel/run_context.h: seed, step offset, data, checkpoint,
                    // metrics

// One source or destination of a kernel: the local piece of a logical tensor.
struct Port {
  DType dtype = DType::kF32;
  Dims dims;    // logical sizes
  Slice slice;  // the piece: begin and size in the logical tensor; local dims = slice.size
  Coordinate coordinate;  // of the device that holds it
  const Dims& local() const { return slice.size; }
};

// The link between the memory of a CPU device and its host's, as slow as one that copies are to be
// measured with.
struct HostLinkSpeed {
  double to_host = 0, from_host = 0;  // bytes a second; 0: as fast as memory
  double latency = 0;                 // seconds a copy
};

struct KernelSetup {
  std::string kind;  // key of the tables
  std::string name;  // the actor's, for messages
  AttrMap attrs;
  std::vector<std::vector<Port>>
      in;  // for each input its sources: one, but for exchanges those of the group, in its order
  std::vector<Port> out;
  int threads = 1;              // most threads of the pool that calls the kernel
  Isa isa = BestIsa();          // instruction set to compute with; the processor has it
  int64_t workspace_bytes = 0;  // bytes that the plan gives
  HostLinkSpeed host_link;      // copy_in and copy_out take at least as long as over this link
  // Exchanges and local boxing only (see proto Boxing):
  Mesh mesh;
  Coordinate coordinate;
  int reduce = 0;  // 0 none, 1 sum, 2 max
  std::vector<int> reduce_axes;
  std::vector<int> zero_unless_first;
  // The value of elements that no source holds: 0 there are none, 1 zero, 2 the lowest number, 3
  // unchanged.
  int fill = 0;
};

struct KernelCall {
  // Address of the slot to read: in[i][j] for source j of input i. Address of the slot to write:
  // out[i].
  std::span<const std::span<const std::byte* const>> in;
  std::span<std::byte* const> out;
  std::span<std::byte> workspace;  // 64-byte aligned
  ThreadPool* pool = nullptr;
  void* stream = nullptr;   // for a GPU, a cudaStream_t: the call launches there and does not wait
  int64_t firing = 0;       // since the start of the run of the program
  bool accumulate = false;  // add to the outputs instead of overwriting them
  const RunContext* run = nullptr;

  template <typename T>
  const T* input(int i) const {
    return reinterpret_cast<const T*>(in[i][0]);
  }
  template <typename T>
  T* output(int i) const {
    return reinterpret_cast<T*>(out[i]);
  }
};

using Kernel = std::function<absl::Status(const KernelCall&)>;

// What makes the kernel of a kind, and the table of a file's kinds.
struct KernelEntry {
  std::string_view kind;
  absl::StatusOr<Kernel> (*make)(const KernelSetup& setup);
};
using KernelTable = std::vector<KernelEntry>;

using KernelFactory = std::function<absl::StatusOr<Kernel>(const KernelSetup&)>;

// The kernel of setup.kind for these ports. NOT_FOUND for a kind without a kernel.
absl::StatusOr<Kernel> MakeKernel(const KernelSetup& setup);
// The same with instruction set `isa`, which the processor has, instead of setup.isa.
absl::StatusOr<Kernel> MakeKernelFor(Isa isa, KernelSetup setup);

}  // namespace oneflow
