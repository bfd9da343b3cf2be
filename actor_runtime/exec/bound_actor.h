// BoundActor: a concrete actor with the addresses of all that it reads and writes on its device,
// and its kernel, or the exchange that it enters.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/exchange/carrier.h"
#include "actor_runtime/exchange/exchange_work.h"
#include "actor_runtime/exec/device_memory.h"
#include "actor_runtime/exec/net.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// Calls the kernel for one firing, or enters the exchange. One thread at a time; allocates nothing.
class BoundActor {
 public:
  BoundActor() = default;
  BoundActor(BoundActor&&) = default;  // not copied: the call points into the vectors
  BoundActor& operator=(BoundActor&&) = default;

  // Requires an actor that is no exchange.
  absl::Status Run(const Launch& launch) {
    Move(launch);
    call_.firing = launch.firing;
    call_.accumulate = launch.accumulate;
    return kernel_ ? kernel_(call_) : absl::OkStatus();
  }

  // The addresses of an exchange in a firing: one a tensor.
  struct Addresses {
    std::span<const std::byte* const> in;
    std::span<std::byte* const> out;
    std::span<std::byte> workspace;
  };
  Addresses FindAddresses(const Launch& launch) {
    Move(launch);
    return {in_pointers_, out_, call_.workspace};
  }
  void Begin(const RunContext* run) { call_.run = run; }

 private:
  friend struct Binder;
  void Move(const Launch& launch) {
    const int32_t* buffers = launch.buffers;
    for (const Moving& m : reads_) in_pointers_[m.index] = m.base + buffers[m.port] * m.stride;
    for (const Moving& m : writes_) out_[m.index] = m.base + buffers[m.port] * m.stride;
  }

  // A pointer into a register of several buffers.
  struct Moving {
    std::byte* base;
    int64_t stride;
    int32_t port;   // input, or inputs + output: its index in Launch::buffers
    int32_t index;  // in in_pointers_ or out_
  };

  Kernel kernel_;
  KernelCall call_;
  std::vector<Moving> reads_, writes_;
  std::vector<const std::byte*> in_pointers_;  // by input; for an exchange, by input with data
  std::vector<std::span<const std::byte* const>> in_;
  std::vector<std::byte*> out_;
};

// The facts of the process that Bind needs.
struct BindContext {
  const PlanNet& net;
  const StageMesh& mesh;
  RankRange ranks;                           // of this process
  const std::vector<DeviceMemory>& devices;  // by own rank; empty: none are needed, for exchanges
};

// The memory, threads and stream that run an actor.
struct ActorHome {
  const KernelFactory& make_kernel;
  ThreadPool* pool = nullptr;
  DeviceStream* stream = nullptr;  // of an asynchronous device
};

// Binds the actor at `rank`, with a kernel for the local shapes there.
absl::StatusOr<BoundActor> Bind(const BindContext& context, int actor, int rank,
                                const ActorHome& home);

// One member of an exchange: an actor on a device, of this process or another.
struct BoundMember {
  int actor = 0, rank = 0;
};
// The members of an exchange of a net, in the group's order.
std::vector<BoundMember> FindMembers(const ActorNet& net, size_t exchange);

// Makes the common work of an exchange's members, in the group's order; if members are elsewhere,
// the work of this process.
absl::StatusOr<ExchangeWork> BindExchange(const BindContext& context,
                                          const std::vector<BoundMember>& members,
                                          Carrier& carrier);

}  // namespace oneflow
