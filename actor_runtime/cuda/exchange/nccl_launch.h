// The steps of a member in an exchange (nccl_layout.h), ready to be given to its stream.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/exchange/nccl_layout.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/exchange/exchange_work.h"

namespace oneflow::cuda {

// The launch of `member`, whose carrier is an ncclComm_t. `accumulates`: it may accumulate into its
// outputs. INTERNAL if it needs more than `workspace_bytes`. `nccl` outlives the launch.
absl::StatusOr<MemberLaunch> MakeNcclLaunch(const NcclLayout& layout, int member, bool accumulates,
                                            int64_t workspace_bytes,
                                            const KernelFactory& make_kernel, const Nccl& nccl);

}  // namespace oneflow::cuda
