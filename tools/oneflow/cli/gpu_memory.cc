#include "tools/oneflow/cli/gpu_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

std::string GpuName(const DeviceFacts& gpu) {
  return absl::StrCat("GPU ", gpu.number, ", ", gpu.name);
}

}  // namespace

absl::StatusOr<GpuMemory> GpuMemory::Check(const proto::Plan& plan, const DeviceBackend& backend,
                                           const RankRange& own) {
  GpuMemory memory;
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(plan.mesh(), "plan"));
  const bool staged = plan.stage_axis() >= 0 && plan.stage_axis() < std::ssize(mesh.axes);
  const RankRange ranks = own.size() > 0 ? own : RankRange{0, mesh.devices()};
  for (int rank = ranks.begin; rank < ranks.end; ++rank) {
    ASSIGN_OR_RETURN(const DeviceFacts facts, backend.facts_of(rank));
    Gpu& gpu = memory.gpus_.try_emplace(facts.number, Gpu{facts, rank, 0}).first->second;
    const int stage = staged ? mesh.RankToCoordinate(rank)[plan.stage_axis()] : 0;
    if (stage < StageCount(plan)) gpu.planned += plan.memory(stage).arena_bytes();
  }
  for (const auto& [number, gpu] : memory.gpus_) {
    if (gpu.planned <= gpu.before.free_bytes) continue;
    return InputError(
        GpuName(gpu.before),
        absl::StrCat("the plan takes ", BytesText(gpu.planned), " there, and of ",
                     BytesText(gpu.before.total_bytes), " only ", BytesText(gpu.before.free_bytes),
                     " are free"),
        "compile for more GPUs, for more --micro_batches or with --recompute=full, or end what "
        "else uses the GPU");
  }
  return memory;
}

absl::StatusOr<std::string> GpuMemory::Text(const DeviceBackend& backend) const {
  std::string text;
  for (const auto& [number, gpu] : gpus_) {
    ASSIGN_OR_RETURN(const DeviceFacts now, backend.facts_of(gpu.rank));
    const int64_t opened = gpu.before.free_bytes - now.free_bytes - gpu.planned;
    const int64_t before = gpu.before.total_bytes - gpu.before.free_bytes;
    absl::StrAppend(&text, GpuName(now), ": the plan takes ", BytesText(gpu.planned),
                    "; libraries and NCCL ", BytesText(std::max<int64_t>(0, opened)),
                    "; the context and other processes ", BytesText(before), "; free are ",
                    BytesText(now.free_bytes), "\n");
  }
  return text;
}

}  // namespace oneflow
