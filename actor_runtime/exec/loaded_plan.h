// LoadedPlan: a proved plan with all that a process needs to run some of its ranks: for each rank
// its arenas and kernel threads, for each program the net and the bound actors of these ranks. The
// drivers share it; it fires nothing itself. Its time and memory do not grow with the ranks of
// other processes.
//
// It is pinned: actors point into it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/exchange/carrier.h"
#include "actor_runtime/exchange/communicator.h"
#include "actor_runtime/exec/bound_actor.h"
#include "actor_runtime/exec/device_backend.h"
#include "actor_runtime/exec/device_memory.h"
#include "actor_runtime/exec/net.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct LoadOptions {
  int threads = 1;          // kernel threads in all, shared out over the devices
  RankRange ranks;          // that this process owns; empty: all
  RankRange ranks_of_host;  // whose processes share the host's memory; empty: `ranks`
  std::function<void(const std::string& warning)> notice;  // of CheckMemory
  CommunicatorMaker make_communicator;                     // null: nobody can reach other processes
  KernelFactory make_kernel;  // null: token flow only, no arenas and no kernels
  // Null: the devices are CPUs. It outlives the plan.
  const DeviceBackend* backend = nullptr;
  bool has_workers =
      true;            // each has a thread; false: nothing runs at once, and nothing is checked
  bool prove = true;   // VerifyPlan; only tests of broken plans go without
  bool timed = false;  // streams of devices have times
  bool own_kernels = true;  // the proof covers the kernels; false: make_kernel is a test's own
};

struct LoadedProgram {
  ActorNet net;
  std::vector<std::vector<BoundActor>> actors;  // by stream and index in it; empty without kernels
  std::vector<DeviceStream*> device_streams;    // by stream; null: a worker runs it
  std::vector<ExchangeWork> works;              // as net.exchanges
  std::vector<int32_t> communicator_of;         // by group of the net: in LoadedPlan::Communicators
};

class LoadedPlan {
 public:
  static absl::StatusOr<std::unique_ptr<LoadedPlan>> Load(proto::Plan plan,
                                                          const LoadOptions& options);
  LoadedPlan(const LoadedPlan&) = delete;
  LoadedPlan& operator=(const LoadedPlan&) = delete;

  const proto::Plan& plan() const { return plan_; }
  const RankRange& ranks() const { return ranks_; }
  int kernel_threads() const { return kernel_threads_; }  // of one device
  std::vector<LoadedProgram>& programs() { return programs_; }
  std::span<const std::unique_ptr<ThreadPool>> pools() const { return pools_; }  // by own rank
  const std::vector<Group>& groups() const { return groups_; }
  // Makes new communicators, one a group, which serve runs of any programs until a run is
  // interrupted. `run`: the number of the next run, the same in all processes. If a library carries
  // exchanges, this waits until all processes have called it, and so may fail.
  absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeCommunicators(uint32_t run) const;
  // Index of a program by name; NOT_FOUND lists the names that exist.
  absl::StatusOr<int> FindProgram(std::string_view name) const;

  int64_t ArenaBytes(int rank) const {
    return memories_.empty() ? 0 : memories_[rank - ranks_.begin].bytes();
  }
  // Of the rank's arena in the host's memory.
  int64_t HostArenaBytes(int rank) const {
    return memories_.empty() ? 0 : memories_[rank - ranks_.begin].host_bytes();
  }
  // Null for a CPU.
  Device* FindDevice(int rank) const {
    return devices_.empty() ? nullptr : devices_[rank - ranks_.begin].get();
  }
  // The bytes of a slot of a persistent register, at a rank of this process in the register's
  // stage.
  std::span<std::byte> PersistentBytes(int rank, int register_id, int slot = 0) const;

 private:
  LoadedPlan() = default;
  absl::Status CheckKind(const LoadOptions& options) const;
  absl::Status CheckHost(const LoadOptions& options) const;
  absl::Status MakeDevices(const LoadOptions& options);
  absl::StatusOr<DeviceStream*> FindStream(int rank, size_t index);
  ThreadPool* FindLonePool(int rank, proto::Stream::Kind kind, int index);
  absl::Status BindProgram(int program, const LoadOptions& options);
  absl::Status AddGroups();
  GroupUse FindUse(size_t group, uint32_t run) const;

  proto::Plan plan_;
  StageMesh mesh_;
  RankRange ranks_;
  int kernel_threads_ = 1;
  bool timed_ = false;
  std::vector<std::unique_ptr<Device>> devices_;                     // by own rank; empty: CPUs
  std::vector<std::vector<std::unique_ptr<DeviceStream>>> streams_;  // by own rank
  std::vector<DeviceMemory> memories_;                               // by own rank
  std::vector<std::unique_ptr<ThreadPool>> pools_;  // by own rank; the last is the host worker's
  // Of streams that have a worker of their own: by rank, kind, and their number of that kind.
  std::map<std::tuple<int, proto::Stream::Kind, int>, std::unique_ptr<ThreadPool>> lone_pools_;
  std::vector<LoadedProgram> programs_;
  std::shared_ptr<Carrier> carrier_;  // of all exchanges
  std::vector<Group> groups_;         // of all programs; each has a communicator
};

}  // namespace oneflow
