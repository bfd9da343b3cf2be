// The pipeline order of a plan in the words of PyTorch: a list of actions for each rank of the
// pipe, and its CSV, as `_PipelineScheduleRuntime._load_csv(file, format="compute_only")` of
// torch.distributed.pipelining reads it; torchtitan's `pipeline_parallel_schedule_csv` names such a
// file. PyTorch counts its stages along the pipe: chunk c of our stage s is stage c * P + s.
//
//   0F0,0F1,0B0,0F2,0B1,0B2    rank 0: F forward, B backward, then the micro-batch
//   1F0,1I0,1W0,...            where the plan splits the backward: I, then W of the weights'
//   gradients
//
// It says an order only: neither the layers of a stage nor the bytes. torch_progress.h proves that
// PyTorch gets to the end of it.
//
//   ASSIGN_OR_RETURN(const TorchSchedule schedule, MakeTorchSchedule(plan));
//   RETURN_IF_ERROR(ProveProgress(schedule).status());
//   RETURN_IF_ERROR(WriteFile("order.csv", TorchCsv(schedule)));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lower/order.h"
#include "proto/plan.pb.h"

namespace oneflow {

enum class TorchKind : uint8_t {
  kForward,         // F
  kBackward,        // B: of activations and weights
  kBackwardInput,   // I: of activations alone
  kBackwardWeight,  // W: of weights, after I
  kSendForward,     // SEND_F: what the stage computed, to the next stage
  kReceiveForward,  // RECV_F: of the stage before
  kSendBackward,    // SEND_B: the gradient, to the stage before
  kReceiveBackward  // RECV_B: of the next stage
};

struct TorchAction {
  TorchKind kind = TorchKind::kForward;
  int stage = 0;  // along the pipe
  int64_t micro_batch = 0;
  bool operator==(const TorchAction&) const = default;
};

// "2F0", "3SEND_B1".
std::string ActionText(const TorchAction& action);

// Actions by rank of the pipe, in the order in which the rank begins them.
using TorchSchedule = std::vector<std::vector<TorchAction>>;

// Returns the schedule of orders by stage, for one step. The backward of a chunk is I and W where
// the order has a W of that chunk, else B.
TorchSchedule MakeTorchSchedule(const std::vector<StageOrder>& orders);

// Returns the schedule of the program "train" of a plan, from the orders of its compute streams. An
// input error: the plan has one stage, or its steps overlap (a CSV orders one step), or it has no
// training, or more than 2^24 actions.
absl::StatusOr<TorchSchedule> MakeTorchSchedule(const proto::Plan& plan);

// One line a rank, without a header.
std::string TorchCsv(const TorchSchedule& schedule);

// Reads such a CSV; an empty cell is a bubble and left out, as by PyTorch. Sends and receives are
// an input error, for PyTorch adds its own. Errors begin "file:line:".
absl::StatusOr<TorchSchedule> ParseTorchCsv(std::string_view csv, std::string_view file);

}  // namespace oneflow
