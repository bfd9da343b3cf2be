// Carrier: the means by which the devices of a process exchange tensors. It prepares the work of
// each exchange when a plan is loaded, and makes the communicators that run it. While a program
// runs it is not called.
//
//   ASSIGN_OR_RETURN(ExchangeWork work, carrier->Bind(exchange));
//   ASSIGN_OR_RETURN(auto communicator, carrier->Make(group, {.works = {&work}}));
//
// There are three: MakeHostCarrier, MakeSharedGpuCarrier, and that of NCCL
// (actor_runtime/cuda/exchange/exchange_over_nccl.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/device/device.h"
#include "actor_runtime/exchange/communicator.h"
#include "actor_runtime/exchange/exchange_work.h"
#include "actor_runtime/exchange/group.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

// An exchange as the plan has it.
struct PlannedExchange {
  struct Member {
    KernelSetup setup;         // with its own inputs and outputs, and its workspace
    bool adds = false;         // it may accumulate into its outputs
    Device* device = nullptr;  // null: a CPU, or in another process
  };
  std::vector<Member> members;  // in the group's order
  FarMembers far;               // but for `most`
  // By tensor, the most elements of a piece for members elsewhere: FarMembers::most, for carriers
  // that send pieces. While Bind runs.
  std::function<absl::StatusOr<std::vector<int64_t>>()> count_most;

  bool AreAllNear() const;
  // The setups that ExchangeWork::Make gets, by tensor, then by member. For members with 0 in
  // `full` they have the outputs alone, so a process makes setups in proportion to the group, not
  // to its square.
  std::vector<std::vector<KernelSetup>> MakeSetups(const std::vector<char>& full) const;
};

// The use of a group by the programs of a plan, from a run on.
struct GroupUse {
  std::vector<const ExchangeWork*> works;  // of all its exchanges
  std::vector<Device*> devices = {};       // by member; null: in another process. Empty: CPUs
  int communicators = 1;                   // that a device of this process is in, at most
  uint32_t run = 0;                        // number of the next run, the same in all processes
};

class Carrier {
 public:
  virtual ~Carrier() = default;
  // False: all members of a group must be in this process.
  virtual bool ReachesProcesses() const = 0;
  // Makes the work of this process.
  virtual absl::StatusOr<ExchangeWork> Bind(const PlannedExchange& exchange) = 0;
  // Makes a communicator for the exchanges of a group. All processes call it for the same groups in
  // the same order; it may return only when all have called it.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Make(const Group& group,
                                                             const GroupUse& use) = 0;
};

// Makes a communicator for a group with members in other processes.
using CommunicatorMaker = std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
    const Group& group, const ExchangeBounds& bounds)>;

// Makes a kernel that launches on streams of the device.
using DeviceKernelFactory =
    std::function<absl::StatusOr<Kernel>(Device& device, const KernelSetup& setup)>;

// CPUs. Members of one process read each other's registers; members of several processes exchange
// messages. `make_far`: null: nobody can reach other processes.
std::unique_ptr<Carrier> MakeHostCarrier(CommunicatorMaker make_far = nullptr);

// Devices of one process that share a memory: kernels of `make_kernel` copy and sum.
std::unique_ptr<Carrier> MakeSharedGpuCarrier(DeviceKernelFactory make_kernel);

}  // namespace oneflow
