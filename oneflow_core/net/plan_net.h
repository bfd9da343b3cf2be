// The net of a program: the writer and readers of each register, and the firings of each stream in
// one step. An index over a plan for the verifiers, the planner and the printers. It copies
// nothing, and the plan must outlive it. It does not run anything.
//
// Devices of a stage behave alike, so one stands for all of them. An exchange within a stage is
// fired like any other actor; a send and its receive on another stage are fired together.
//
//   ASSIGN_OR_RETURN(PlanNet net, MakePlanNet(plan, plan.program(0)));
//   for (const NetStream& stream : net.streams) for (int actor : Unrolled(stream)) ...
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

// An input of an actor, seen from the register it reads.
struct NetReader {
  int actor = 0;
  int input = 0;  // index in Actor.input
  int64_t fires_per_read = 1;
  int64_t initial_fills = 0;
};

struct NetRegister {
  const proto::Register* proto = nullptr;
  bool persistent = false;
  int64_t slots = 1;  // as the plan says; a planner may try others
  int64_t fires_per_fill = 1;
  int writer = -1;         // actor; -1: none in this program
  bool workspace = false;  // scratch of its writer's firings
  std::vector<NetReader> readers;
};

struct NetStream {
  const proto::Stream* proto = nullptr;
  // Actors in this order, `repeat` times over. Runs are not unrolled: a step of a thousand
  // micro-batches takes no more room here than one of two.
  struct Run {
    std::vector<int> actors;
    int64_t repeat = 1;
    int64_t firings() const { return repeat * static_cast<int64_t>(actors.size()); }
  };
  std::vector<Run> runs;  // none is empty
  int64_t firings = 0;    // a step
  // The streams that a firing of this one may free, itself among them; ascending.
  std::vector<int> neighbours;
};

// The order in which a stage issues its exchanges.
struct NetIssue {
  int stage = 0;
  std::vector<NetStream::Run> runs;  // none is empty
};

// The most firings of a step that a plan may have, all streams together: two steps of them are
// counted in 32 bits.
inline constexpr int64_t kMostFirings = (int64_t{1} << 30) - 1;

// The actors of one step of a stream, or of an order of issue, one by one: for games that play
// every firing.
std::vector<int> Unrolled(const std::vector<NetStream::Run>& runs);
inline std::vector<int> Unrolled(const NetStream& stream) { return Unrolled(stream.runs); }

// An input of an actor, seen from the actor.
struct NetInput {
  int reg = 0;
  int reader = 0;  // index in NetRegister.readers
  int64_t fires_per_read = 1;
  int64_t initial_fills = 0;
};

struct NetActor {
  int stream = -1, segment = -1;
  int stage = 0;
  int64_t firings = 0;  // a step
  bool exchange = false;
  int partner = -1;  // of a send its receive, of a receive its send
  int issue = -1;    // in PlanNet::issues: the order that holds it; -1: none does
};

struct PlanNet {
  const proto::Plan* plan = nullptr;
  const proto::Program* program = nullptr;
  std::vector<NetRegister> registers;  // by register id
  std::vector<NetActor> actors;        // by actor id
  std::vector<NetStream> streams;      // by stream id
  std::vector<NetIssue> issues;
  std::vector<NetInput> inputs;                // by actor
  std::vector<int> outputs;                    // by actor
  std::vector<int> first_input, first_output;  // by actor, and the end

  const proto::Actor& actor(int id) const { return program->actor(id); }
  // The inputs of an actor, and the registers that it writes, in the plan's order, its workspace
  // last. Games ask for them at every firing, so they are stored in two arrays, actor after actor.
  std::span<const NetInput> inputs_of(int actor) const {
    return {inputs.begin() + first_input[actor], inputs.begin() + first_input[actor + 1]};
  }
  std::span<const int> outputs_of(int actor) const {
    return {outputs.begin() + first_output[actor], outputs.begin() + first_output[actor + 1]};
  }
  // "B of stage 1 (h.0.fc.dx)"; only "B of stage 1" if the segment is the actor.
  std::string ActorName(int actor) const;
};

// Fails if an id is out of range, a register has two writers, or an actor is in no segment or in
// two. The message is for the maker of the plan.
absl::StatusOr<PlanNet> MakePlanNet(const proto::Plan& plan, const proto::Program& program);

}  // namespace oneflow
