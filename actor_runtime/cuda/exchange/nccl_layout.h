// NcclLayout: the steps of each member in an exchange that NCCL carries: it packs data that
// consists of many short runs, calls NCCL for all tensors in two groups, then copies or sums the
// data in the workspace.
//
//   ASSIGN_OR_RETURN(const NcclLayout layout, NcclLayout::Make(setups));
//   ASSIGN_OR_RETURN(const NcclSteps steps, layout.MakeSteps(member, /*accumulate=*/false));
//
// Guarantees:
//   - members that follow their steps get the result of ExchangeWork, with its bits if NCCL sums
//     nothing; sums by NCCL differ by rounding;
//   - steps of all members match: the k-th collective of all is the same, and between each two
//     members the k-th message that one sends is as long as the k-th that the other receives, also
//     if only one of them accumulates;
//   - the workspace is at most that of NcclWindow (oneflow_core/plan/nccl_window.h).
// It knows no CUDA, and no state of a firing.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/copy_slices.h"
#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/plan/nccl_window.h"

namespace oneflow::cuda {

// A location in the memory of one member.
struct NcclLocation {
  enum Memory { kInput, kOutput, kWorkspace } memory = kWorkspace;
  int tensor = 0;      // index of an input or output
  int64_t offset = 0;  // bytes
};

// A kernel of kind "slice" on the member's memory: setup.in[0] are its sources.
struct NcclLocalStep {
  KernelSetup setup;
  std::vector<NcclLocation> sources;
  NcclLocation target;
  bool accumulate = false;
};

// An operation of all members, in the order of the group.
struct NcclCollectiveStep {
  enum Kind { kAllGather, kReduceScatter, kAllReduce } kind = kAllReduce;
  NcclLocation from, to;
  int64_t count = 0;  // elements: of one member's part; for an all-reduce, of all
  DType dtype = DType::kF32;
  bool maximum = false;  // else a sum
};

struct NcclMessageStep {
  bool send = false;  // else it receives
  int peer = 0;
  NcclLocation location;
  int64_t bytes = 0;
};

// The steps run in this order, each list as one group of NCCL.
struct NcclSteps {
  std::vector<NcclLocalStep> before;
  std::vector<NcclCollectiveStep> collectives;
  std::vector<NcclMessageStep> messages;
  std::vector<NcclLocalStep> after;
  int64_t workspace_bytes = 0;
};

class NcclLayout {
 public:
  // `setups`: by tensor, then by member, as ExchangeWork::Make gets them.
  static absl::StatusOr<NcclLayout> Make(std::vector<std::vector<KernelSetup>> setups,
                                         const NcclLimits& limits = {});

  int members() const { return setups_.empty() ? 0 : static_cast<int>(setups_[0].size()); }
  // `accumulate`: the results are added to the member's outputs.
  NcclSteps MakeSteps(int member, bool accumulate) const;

 private:
  struct Tensor {
    enum Form { kAllGather, kReduceScatter, kAllReduce, kMessages } form = kMessages;
    // For a collective: a member's part is `rows` runs of `run` elements.
    int64_t rows = 1, run = 0;
    bool straight = true;  // row by row, from register to register
    // For messages, by member: the regions of its output, and their sources.
    std::vector<std::vector<CopyRegion>> regions;
  };
  class Steps;
  static Tensor MakeCollective(const std::vector<KernelSetup>& setups, const NcclLimits& limits);

  std::vector<std::vector<KernelSetup>> setups_;  // by tensor, then member
  std::vector<Tensor> tensors_;
  NcclLimits limits_;
};

}  // namespace oneflow::cuda
