// A lock: what a plan costs, in a text of about two kilobytes that stands beside the sources of a
// job. `oneflow diff --lock` holds another plan against it (compare_locks.h).
//
//   const PlanLock lock = MakeLock({.plan = plan, .priced = plan, .cluster = cluster,
//                                   .step_seconds = 1.25});
//   RETURN_IF_ERROR(WriteFile("plan.lock", LockText(lock)));
//   ASSIGN_OR_RETURN(const PlanLock read, ParseLock(text, "plan.lock"));   // == lock
//
// It is not the plan: nothing can run from it. It holds no time, path or name of a machine, so
// equal plans have equal locks, byte for byte.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The version of the file's format, raised whenever an earlier lock would be misread.
inline constexpr int kLockVersion = 1;

struct PlanLock {
  // What times are made of.
  struct Costs {
    int version = 0;          // kCostVersion of the release that wrote it
    std::string cluster;      // its name
    std::string fingerprint;  // of its rates and links: 32 hex digits
    bool operator==(const Costs&) const = default;
  };
  // Choices of the complete recipe and numbers of the optimizer, by name, as flags say them.
  using Choices = std::map<std::string, std::string>;

  std::string model;  // for people
  std::string graph;  // fingerprint of the logical graph
  Choices choices;
  std::string bits;                    // fingerprint of the graph and of choices that move bits
  int64_t devices = 0;                 // of all stages
  double imbalance = 0;                // of a price (planning/recipe/price_queues.h); 0: none
  std::vector<int64_t> bytes;          // by stage, the arena of a device
  std::vector<int64_t> host_bytes;     // the same in the host's memory; empty: none
  std::optional<double> step_seconds;  // of the simulator, six digits; none: it was not simulated
  nlohmann::ordered_json compared;     // BandJson, six digits
  std::map<std::string, int64_t> exchanges;  // "all_reduce over data": bytes that all devices
                                             // receive in a step
  Costs costs;
  bool operator==(const PlanLock&) const = default;
};

// What a lock is made of. References must outlive the call.
struct LockSource {
  const proto::Plan& plan;        // whose bytes count
  const proto::Plan& priced;      // whose step and exchanges count: `plan`, or its price
  const proto::Cluster& cluster;  // on which the step was simulated
  double imbalance = 0;
  std::optional<double> step_seconds;
  nlohmann::ordered_json compared;  // BandJson
};

// Requires plans that passed VerifyTypes.
PlanLock MakeLock(const LockSource& source);

// JSON, a line for each value, in a fixed order.
std::string LockText(const PlanLock& lock);

// The inverse. `where`, the file, begins errors: no JSON, a lock of another version, a value that
// is missing, is of another type or cannot be, choices that were edited.
absl::StatusOr<PlanLock> ParseLock(std::string_view text, const std::string& where);

// The fingerprint of choices, by which the lock's text knows that they are as written.
std::string ChoicesFingerprint(const PlanLock::Choices& choices);

}  // namespace oneflow
