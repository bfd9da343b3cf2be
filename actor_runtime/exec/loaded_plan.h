// LoadedPlan: a proved plan with all it needs to run in this process: for every rank its arena and
// kernel threads, for every program its net and bound actors. What the drivers share; it fires
// nothing itself.
//
// It is pinned: actors point into it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/exchange/local_exchange.h"
#include "actor_runtime/exec/bound_actor.h"
#include "actor_runtime/exec/device_memory.h"
#include "actor_runtime/exec/net.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct LoadOptions {
  int threads = 1;            // kernel threads in all, shared out over the devices
  KernelFactory make_kernel;  // null: token flow only, no arenas and no kernels
  bool prove = true;          // VerifyPlan; only tests of broken plans go without
  bool own_kernels = true;    // the proof covers the kernels; false: make_kernel is a test's own
};

struct LoadedProgram {
  ActorNet net;
  std::vector<std::vector<BoundActor>> actors;  // by stream and place; empty without kernels
  std::vector<std::unique_ptr<LocalExchange>> exchanges;  // as net.exchanges
};

class LoadedPlan {
 public:
  static absl::StatusOr<std::unique_ptr<LoadedPlan>> Load(proto::Plan plan,
                                                          const LoadOptions& options);
  LoadedPlan(const LoadedPlan&) = delete;
  LoadedPlan& operator=(const LoadedPlan&) = delete;

  const proto::Plan& plan() const { return plan_; }
  const StageMesh& mesh() const { return mesh_; }
  int kernel_threads() const { return kernel_threads_; }  // of one device
  std::vector<LoadedProgram>& programs() { return programs_; }
  std::span<const std::unique_ptr<ThreadPool>> pools() const { return pools_; }  // by rank
  // Index of a program by name; NOT_FOUND names the ones there are.
  absl::StatusOr<int> FindProgram(std::string_view name) const;

  int64_t ArenaBytes(int rank) const { return devices_.empty() ? 0 : devices_[rank].bytes(); }
  // The bytes of a slot of a persistent register, at a rank of its stage.
  std::span<std::byte> PersistentBytes(int rank, int register_id, int slot = 0) const;

 private:
  LoadedPlan() = default;
  absl::Status BindProgram(int program, const KernelFactory& make_kernel);
  static absl::Status BindExchanges(const BindContext* context, LoadedProgram* loaded);

  proto::Plan plan_;
  StageMesh mesh_;
  int kernel_threads_ = 1;
  std::vector<DeviceMemory> devices_;               // by rank
  std::vector<std::unique_ptr<ThreadPool>> pools_;  // by rank; the last is the host worker's
  std::vector<LoadedProgram> programs_;
};

}  // namespace oneflow
