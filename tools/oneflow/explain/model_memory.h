// Memory of a stage of a plan whose model has blocks, in the classes of published memory tables
// (Korthikanti et al. 2022): states of the blocks' matrices, tensors that blocks keep from forward
// to backward, and separately the tensors that those tables omit. It reads registers and orders; it
// estimates nothing.
//
//   ASSIGN_OR_RETURN(const ModelMemory memory, MemoryOfStage(plan, 0));
//   memory.kept_in_blocks;   // bytes a device, at most at once
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/net/plan_net.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Bytes a device, for the largest part.
struct ModelMemory {
  // A variable: its moments, the gradient that its update reads and the copy of another type that
  // products read; under --precision=bf16 4 + 8 + 4 + 2 bytes an element, of a frozen one 2.
  int64_t matrices_of_blocks = 0;
  int64_t other_states = 0;  // embeddings, norms, biases
  // Kept from the forward of a micro-batch to its backward: at most at once, as the order of the
  // stage's compute stream has it.
  int64_t kept_in_blocks = 0;
  // All slots of the same registers: more, where a slot is to fetch ahead, or where not all chunks
  // of the stage hold their most at once. Other registers may use these bytes meanwhile.
  int64_t slots_in_blocks = 0;
  int64_t kept_statistics = 0;  // numbers a row, in blocks: of norms and of fused attention
  int64_t kept_elsewhere = 0;   // tokens, embeddings, the last norm, the head, the loss
  // In the host's memory, and not counted above: states, and all slots of what is kept there.
  int64_t host_states = 0, host_kept = 0;
};

// The memory of program "train". Errors: no such program; a stage that the plan does not have.
absl::StatusOr<ModelMemory> MemoryOfStage(const proto::Plan& plan, int stage);

// A register that is taken in the forward and given back in the backward of a micro-batch.
struct KeptRegister {
  const proto::Register* proto = nullptr;  // into the plan
  int block = -1;                          // of the ops that read it in the backward; -1: of none
  bool statistics = false;
  int taken = -1, returned = -1;  // segments of the compute stream
};

// In order of ids. `net`: of program "train".
std::vector<KeptRegister> KeptRegisters(const PlanNet& net, int stage);

// A line for each stage, numbers in bytes; those of the host where something rests in its memory.
absl::StatusOr<std::string> ModelMemoryText(const proto::Plan& plan);

}  // namespace oneflow
