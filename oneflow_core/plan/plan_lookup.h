// Finds things in a plan by name or id; in any plan, well-formed or not. Pointers are into the
// plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/base/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// nullptr if the plan has no such program.
inline const proto::Program* FindProgram(const proto::Plan& plan, std::string_view name) {
  for (const proto::Program& program : plan.program()) {
    if (program.name() == name) return &program;
  }
  return nullptr;
}

// Finds the program of --program; an input error lists those of the plan.
inline absl::StatusOr<const proto::Program*> FindProgramByFlag(const proto::Plan& plan,
                                                               std::string_view name) {
  if (const proto::Program* found = FindProgram(plan, name); found != nullptr) return found;
  std::string names;
  for (const proto::Program& p : plan.program()) names += (names.empty() ? "" : ", ") + p.name();
  return InputError("--program=" + std::string(name), "the plan has no such program",
                    "it has " + names);
}

// Steps of training that one round of the orders of program "train" holds.
inline int64_t StepsARound(const proto::Plan& plan) {
  const proto::Program* program = FindProgram(plan, "train");
  return program == nullptr || program->steps_a_round() == 0 ? 1 : program->steps_a_round();
}

// Register ids count the persistent ones first, then the program's own. nullptr if out of range.
inline const proto::Register* FindRegister(const proto::Plan& plan, const proto::Program& program,
                                           int id) {
  if (id < 0) return nullptr;
  if (id < plan.persistent_size()) return &plan.persistent(id);
  id -= plan.persistent_size();
  return id < program.register__size() ? &program.register_(id) : nullptr;
}

// The name of the actor's kernel with that of its form: "linear+gelu" (FormName of op/op_def.h).
std::string FormName(const proto::Actor& actor);

// Facts of a program and of its actors; empty if the plan has none.
const proto::ProgramFacts& FindFacts(const proto::Plan& plan, const proto::Program& program);
const proto::ActorFacts& FindFacts(const proto::ProgramFacts& facts, int actor);
proto::ActorFacts* MutableFacts(int actor, proto::ProgramFacts* facts);
// 0 where the plan does not say.
inline int64_t LowerBoundBytes(const proto::Plan& plan, int stage) {
  const bool known = stage >= 0 && stage < plan.facts().lower_bound_bytes_size();
  return known ? plan.facts().lower_bound_bytes(stage) : 0;
}

// True if a register keeps an order only: it has no bytes and no tensor.
inline bool IsControl(const proto::Register& r) {
  return r.slot_bytes() == 0 && r.layout().dim_size() == 0;
}

// Returns the block of each variable of the plan; a state of the optimizer has that of its weight.
// -1: the variable is outside of the blocks. Reads the plan's graph.
std::vector<int> VariableBlocks(const proto::Plan& plan);

// Tokens of a sequence of the graph; 0: it reads none.
int64_t FindSequence(const proto::Graph& graph);

// Registers with data that an actor reads, or writes, in its order; control registers are left out.
std::vector<int> DataInputs(const proto::Plan& plan, const proto::Program& program,
                            const proto::Actor& actor);
std::vector<int> DataOutputs(const proto::Plan& plan, const proto::Program& program,
                             const proto::Actor& actor);

// Firings of each actor in one step, by its index in the program.
std::vector<double> FiringsPerStep(const proto::Program& program);

// The schedule for people: its name, or that of the file of a user's own order.
std::string ScheduleName(const proto::Plan& plan);

}  // namespace oneflow
