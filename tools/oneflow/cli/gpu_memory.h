// The memory of the GPUs that a plan runs on: the part of the plan and that of others.
//
//   ASSIGN_OR_RETURN(const GpuMemory memory, GpuMemory::Check(plan, backend));  // refuses
//   ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(plan, options));
//   ASSIGN_OR_RETURN(const std::string text, memory.Text(backend));
//
// It allocates nothing. Requires a backend that has facts_of.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/device_backend.h"
#include "actor_runtime/exec/net.h"
#include "proto/plan.pb.h"

namespace oneflow {

class GpuMemory {
 public:
  // An input error where what the plan gives the ranks of a GPU is more than is free there. `own`:
  // those of this process; empty: all.
  static absl::StatusOr<GpuMemory> Check(const proto::Plan& plan, const DeviceBackend& backend,
                                         const RankRange& own = {});

  // A line a GPU. For when the runtime has been made.
  absl::StatusOr<std::string> Text(const DeviceBackend& backend) const;

 private:
  struct Gpu {
    DeviceFacts before;
    int rank = 0;  // one of those that have it
    int64_t planned = 0;
  };
  std::map<int, Gpu> gpus_;  // by number
};

}  // namespace oneflow
