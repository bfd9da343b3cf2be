// DeterministicRuntime: the same net and the same actor_state as Runtime, on one thread, in an
// order drawn from a seed: the stream that fires next, the work that completes, the message that
// arrives. The same seed gives the same order. It is for tests: in any order, a proved plan must
// end drained with the same bits.
//
//   ASSIGN_OR_RETURN(auto runtime, DeterministicRuntime::Create(plan, {}));   // dry: tokens only
//   for (uint64_t seed = 0; seed < 200; ++seed) {
//     RETURN_IF_ERROR(runtime->Run("train", context, /*steps=*/2, seed));
//   }
//
// Fixed: a stream fires and completes in its order, and notifies actors of the same stream at
// issue; messages from one stream to another stay in order. All else is drawn. The invariants of
// actor_state are checked after every event; at the end every slot must be returned. It is not fast
// and knows no time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/loaded_plan.h"
#include "actor_runtime/kernel/run_context.h"

namespace oneflow {

struct DeterministicOptions {
  KernelFactory make_kernel;  // null: dry
  int threads = 1;
  bool prove = true;         // VerifyPlan at load
  bool own_kernels = false;  // the proof covers the kernels: they are the library's
  // Firings that a stream may have issued and not completed. With 1 the two moments coincide, as on
  // a CPU.
  int launch_queue = 1;
  // If true, a device issues its exchanges in the plan's order, each when the one before it is
  // over, as a device does that runs them one after the other. If false, every stream begins any
  // exchange that is ready.
  bool in_order = false;
};

class DeterministicRuntime {
 public:
  static absl::StatusOr<std::unique_ptr<DeterministicRuntime>> Create(
      const proto::Plan& plan, const DeterministicOptions& options);
  // Returns INTERNAL on a deadlock: the message says which actor waits for which. A kernel's
  // failure is returned unchanged.
  absl::Status Run(std::string_view program, const RunContext& context, int64_t steps,
                   uint64_t seed);

  int64_t firings() const { return firings_; }  // in the last run
  int64_t ArenaBytes(int rank) const { return loaded_->ArenaBytes(rank); }
  int64_t HostArenaBytes(int rank) const { return loaded_->HostArenaBytes(rank); }
  std::span<std::byte> PersistentBytes(int rank, int register_id, int slot = 0) const {
    return loaded_->PersistentBytes(rank, register_id, slot);
  }

 private:
  DeterministicRuntime(std::unique_ptr<LoadedPlan> loaded, const DeterministicOptions& options)
      : loaded_(std::move(loaded)),
        launch_queue_(options.launch_queue),
        in_order_(options.in_order) {}

  std::unique_ptr<LoadedPlan> loaded_;
  const int launch_queue_;
  const bool in_order_;
  int64_t firings_ = 0;
};

}  // namespace oneflow
