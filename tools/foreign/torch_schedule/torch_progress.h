// Proves that PyTorch gets to the end of a schedule, by PyTorch's own rules: it accepts the
// schedule (`_validate_schedule`), it finds positions for all sends and receives
// (`_add_send_recv`), and no rank then waits for ever. The proof is of the order alone, for one
// step of one pipe: stages that send along all micro-batches what they compute, each to the next
// one.
//
// How PyTorch adds them: it plays the ranks in turn, one action each. A forward or backward whose
// input is there is taken; what it computes is sent at once, and the receive is put on the other
// rank's list at that moment, before actions that it has yet to take. Neighbours on one rank need
// neither. So the lists of all ranks are parts of one sequence, in which a receive follows its
// send.
//
// How they are carried: NCCL carries a rank's sends and receives one after another, gloo those of
// a pair of ranks; a send may have to wait until its receive is begun. The proof plays a stricter
// carrier, which holds the rank itself until both sides have come. What ends there ends with each
// of the others, for they let a rank begin more. Every micro-batch has a buffer of its own in
// PyTorch, so none is waited for.
//
//   ASSIGN_OR_RETURN(const TorchProof proof, ProveProgress(schedule));
//   proof.transfers;     // 96
//   proof.most_held[0];  // 4: micro-batches that rank 0 holds at most
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/foreign/torch_schedule/torch_schedule.h"

namespace oneflow {

struct TorchProof {
  int stages = 0;             // along the pipe: all chunks of all ranks
  int64_t micro_batches = 0;  // of a step
  int64_t transfers = 0;      // sends of a step, each with its receive
  // By rank: micro-batches, of each stage that it owns, between F and the end of their backward (B,
  // or W), at most at once.
  std::vector<int64_t> most_held;
};

// Checks that the schedule is one of PyTorch's: the stages are 0, 1, ..., each on one rank; each
// takes every micro-batch once through F and then B, or I and then W; the last stage takes the F in
// turn, for PyTorch finds the loss of a micro-batch by how many came before. An input error that
// begins with rank and action otherwise.
absl::StatusOr<TorchProof> CheckTorchSchedule(const TorchSchedule& schedule);

// Returns the schedule with sends and receives, position for position as PyTorch adds them.
// FAILED_PRECONDITION with the cycle, rank by rank, if the orders wait for each other. Requires
// CheckTorchSchedule.
absl::StatusOr<TorchSchedule> AddTransfers(const TorchSchedule& schedule);

// Plays a schedule that has its sends and receives, on the carrier above. FAILED_PRECONDITION with
// the cycle if it does not end, or with the action that comes before its input.
absl::Status PlayTransfers(const TorchSchedule& schedule);

// All three. Guarantees of a schedule that it accepts: PyTorch reads it and gets to its end.
absl::StatusOr<TorchProof> ProveProgress(const TorchSchedule& schedule);

}  // namespace oneflow
