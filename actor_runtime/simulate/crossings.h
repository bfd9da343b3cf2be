// Crossings: what a step of a plan sends between processes, worked out from the plan alone: how
// many messages, pulls and bytes the communicators of its processes would count.
//
//   ASSIGN_OR_RETURN(Crossings crossings, CrossingsOf(plan, "train", /*processes=*/2));
//   crossings.all.bytes_received ...
//
// Each process owns as many consecutive ranks. The pieces are those that the runtime binds
// (BindExchange), so what is said here is what far_exchange.h sends: of an exchange, an `entered`
// and a `done` from each process to each other one of its group, and for every packet a pull and a
// piece. Runs that fail send more.
//
// It is of plans for CPUs: exchanges of GPUs are carried by NCCL, in packets that are not ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/cost/actor_cost.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Of a step. What crosses is counted at both ends: `sent` where it leaves, `received` where it
// arrives.
struct Traffic {
  int64_t messages_sent = 0, messages_received = 0;  // of all kinds
  int64_t pulls = 0;                                 // packets that are asked for
  int64_t bytes_sent = 0, bytes_received = 0;        // of packets, without headers

  Traffic& operator+=(const Traffic& other);
  bool operator==(const Traffic&) const = default;
};

struct Crossings {
  int processes = 1;
  Traffic all;                      // of a step
  std::vector<Traffic> by_stage;    // of all devices of a stage
  std::vector<Traffic> by_process;  // of all ranks of a process
};

// Requires a plan that passed VerifyPlan. Refuses numbers of processes that do not divide the
// ranks, and plans for GPUs; NOT_FOUND if there is no such program. Where weights lag, a step's
// traffic is a round's over its steps, rounded down.
absl::StatusOr<Crossings> CrossingsOf(const proto::Plan& plan, std::string_view program,
                                      int processes);

// Ranks of the plan over processes; refuses numbers that do not divide them.
absl::StatusOr<int> RanksAProcess(const proto::Plan& plan, int processes);

// What each exchange moves in a firing, by actor of the program: for ActorTimes. Requirements as of
// CrossingsOf.
absl::StatusOr<std::vector<FarTraffic>> FindFarTraffic(const proto::Plan& plan,
                                                       std::string_view program, int processes);

// For a terminal; and as the value of "crossings" in JSON, without a line's end.
std::string CrossingsText(const Crossings& crossings);
std::string CrossingsJson(const Crossings& crossings);

}  // namespace oneflow
