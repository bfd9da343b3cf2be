// The rules of each system, as changes of a job. Internal to this folder.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/foreign/emit/degrees.h"
#include "tools/foreign/emit/emit.h"
#include "tools/foreign/emit/recompute.h"

namespace oneflow::foreign {

// Input errors where nothing near the job is known.
absl::Status CheckMegatron(System system, const Job& job, const AxisDegrees& degrees);
absl::Status CheckTorchtitan(const Job& job, const AxisDegrees& degrees);
absl::Status CheckTrainer(System system, const Job& job, const AxisDegrees& degrees);

// Changes a job, which has passed its check, to what the system can run; its recompute is written
// by the caller, but for `gather`.
void RoundMegatron(Job* job, AxisDegrees degrees);
void RoundTorchtitan(Job* job, AxisDegrees degrees);
void RoundDeepSpeed(Job* job, AxisDegrees degrees);
void RoundAccelerate(Job* job, AxisDegrees degrees);

// The values of recompute that the system has near `policies`.
std::vector<proto::Recompute> NearRecompute(System system, const SlicePolicies& policies);

// Where the system differs from a rounded job in what no choice here expresses.
std::vector<std::string> FindDifferences(System system, const Job& job);

// Which of torchtitan's model modules builds the model: "llama3", "qwen3"; an input error: none.
absl::StatusOr<std::string> FindTitanModule(const proto::Model& model);

// The warm-ups of zero_bubble for stages that take equal time.
proto::WarmUps EqualWarmUps(int64_t stages, int64_t micro_batches);

// Blocks of each slice: the recipe's, or all in one.
std::vector<int> FindSlices(const Job& job);

}  // namespace oneflow::foreign
