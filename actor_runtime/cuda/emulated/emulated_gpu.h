// Control of the emulated GPU by tests; its interface is emulated/include/cuda_runtime.h.
//
//   emulated::Reset({.devices = 4, .model = emulated::Model::kSerial, .seed = 7});
//   ... the code under test ...
//   CHECK(emulated::Stuck() == "");
//   CHECK(emulated::Diagnostics().empty());
//   CHECK(emulated::LiveObjects() == 0);
//
// Work that is issued to streams waits there. Unless the model is kLazy, each call of the API runs
// a drawn number of runnable items, in a drawn order, on the calling thread; so do queries and
// synchronisations. So a seed is a schedule, and a missing wait gives a wrong result under some of
// them. One lock is held while an item runs.
//
// It is no model of speed, and code in stream items must not call the API.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "actor_runtime/cuda/emulated/order.h"

struct ncclComm;

namespace oneflow::emulated {

enum class Model {
  kFree,    // anything that streams and events allow
  kSerial,  // a device runs its work in the order of issue, whatever the streams
  // As kFree, but work runs only when it is polled or waited for, and then nothing runs that this
  // does not need. So work for which nobody waits comes after all other work.
  kLazy,
};
inline constexpr Model kModels[] = {Model::kFree, Model::kSerial, Model::kLazy};

struct Options {
  int devices = 8;
  size_t memory_bytes = size_t{1} << 30;  // of each device
  Model model = Model::kFree;
  uint64_t seed = 0;                                  // of the schedule
  KernelOrder::Kind order = KernelOrder::kAscending;  // inside kernels; kDrawn: from the seed
  bool guard_memory = false;  // the host dies if it touches device memory; slow
  // An operation of a non-blocking communicator of NCCL is sometimes given to its stream only once
  // all members have called it; false: never.
  bool nccl_waits_for_all = true;
};

// Makes a new machine: all earlier objects are gone, and their handles are invalid. The calling
// thread is at device 0. No other thread may be in the API. A program begins with Options{}.
void Reset(const Options& options = {});

size_t AllocatedBytes(int device);
size_t PinnedBytes();
// Allocations, streams, events and communicators that were made and not freed.
int LiveObjects();

// The `call`-th call of `entry` from now on (1: the next) returns `error`. A failed launch (entry
// "cudaLaunchKernel") makes its device unusable: every later call there returns the error, too. For
// entries of libraries the error is the library's.
void Fail(const std::string& entry, int call = 1, cudaError_t error = cudaErrorUnknown);
// Calls since Reset, by entry. Launches count as "cudaLaunchKernel".
std::map<std::string, int> CallCounts();

// Failures that CUDA would not report, or only later: broken kernels, members of a group that do
// not do the same.
std::vector<std::string> Diagnostics();

// If work is left that nothing can run, says which item waits for which; else empty.
std::string Stuck();

// The calls of a step. Calls that block or allocate are forbidden in one.
struct Step {
  std::vector<std::string> forbidden;          // calls, in order
  std::map<cudaStream_t, int> most_in_flight;  // kernels, copies and other work of a stream
};
void BeginStep();
Step EndStep();

// Appends ordinary code, which may touch device memory, to a stream. The emulated libraries consist
// of such items.
cudaError_t EnqueueHost(cudaStream_t stream, std::string what, std::function<void()> work);

// Called by emulated libraries at the begin of each entry: counts the call. False if it is to fail.
bool EnterLibrary(const char* entry);

// Pairs of members that the emulated NCCL has connected for messages since Reset. A connection is
// forbidden in a step.
int Connections();

// Loses a member of the communicator: operations of the others do not end any more, and
// ncclCommGetAsyncError returns ncclRemoteError. With the emulated NCCL only.
void BreakCommunicator(ncclComm* communicator);

struct MemoryRange {
  const void* begin;
  size_t bytes;
};
// The next launch of this thread, kernel or EnqueueHost, touches only this device memory.
// AddressSanitizer reports other accesses; without it there is no effect.
void LimitPorts(std::span<const MemoryRange> ranges);

}  // namespace oneflow::emulated
