// ProcessTraffic: the traffic that a step of a plan causes between processes, computed from the
// plan alone: the messages, pulls and bytes that the communicators of its processes would count.
//
//   ASSIGN_OR_RETURN(ProcessTraffic traffic, FindProcessTraffic(plan, "train", /*processes=*/2));
//   traffic.all.bytes_received ...
//
// Processes own equal numbers of consecutive ranks. The pieces are those that the runtime binds
// (BindExchange), so the result equals the messages of far_exchange.h: in an exchange, an `entered`
// and a `done` from each process to each other process of its group, and for every packet a pull
// and a piece. Runs that fail send more.
//
// It is for plans for CPUs: NCCL carries exchanges of GPUs, in packets that it chooses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "oneflow_core/cost/actor_cost.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The traffic of a step. It is counted at both ends: `sent` at the sender, `received` at the
// receiver.
struct Traffic {
  int64_t messages_sent = 0, messages_received = 0;  // of all kinds
  int64_t pulls = 0;                                 // packets that are asked for
  int64_t bytes_sent = 0, bytes_received = 0;        // of packets, without headers

  Traffic& operator+=(const Traffic& other);
  bool operator==(const Traffic&) const = default;
};

struct ProcessTraffic {
  int processes = 1;
  Traffic all;                      // of a step
  std::vector<Traffic> by_stage;    // by stage: of all its devices
  std::vector<Traffic> by_process;  // by process: of all its ranks
};

// Requires a plan that passed VerifyPlan. Refuses numbers of processes that do not divide the
// ranks, and plans for GPUs; NOT_FOUND if there is no such program. If weights lag, a step's
// traffic is that of a round over its steps, rounded down.
absl::StatusOr<ProcessTraffic> FindProcessTraffic(const proto::Plan& plan, std::string_view program,
                                                  int processes);

// Ranks of the plan divided by processes; refuses numbers that do not divide them.
absl::StatusOr<int> RanksAProcess(const proto::Plan& plan, int processes);

// The data that each exchange moves in a firing, by actor of the program: for ActorTimes.
// Requirements as for FindProcessTraffic.
absl::StatusOr<std::vector<FarTraffic>> FindFarTraffic(const proto::Plan& plan,
                                                       std::string_view program, int processes);

// Text for a terminal; and the value of "process_traffic" in JSON.
std::string ProcessTrafficText(const ProcessTraffic& traffic);
nlohmann::ordered_json ProcessTrafficJson(const ProcessTraffic& traffic);

}  // namespace oneflow
