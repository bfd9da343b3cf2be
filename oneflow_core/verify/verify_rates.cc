#include "oneflow_core/verify/verify_plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/verify/checks.h"

namespace oneflow {
namespace {

// Rates below 1 would divide by zero in the games, and initial fills beyond the slots would make
// the initial marking impossible.
absl::Status CheckBounds(const PlanNet& net, const NetRegister& r, const std::string& where) {
  if (r.slots < 1 || r.proto->fires_per_fill() < 1) {
    return DamagedPlan(where,
                       absl::StrCat("register ", r.proto->name(), " has ", r.slots, " slots and ",
                                    r.proto->fires_per_fill(), " firings a fill"));
  }
  for (const NetReader& reader : r.readers) {
    if (reader.fires_per_read >= 1 && reader.initial_fills >= 0 && reader.initial_fills <= r.slots)
      continue;
    return DamagedPlan(
        absl::StrCat(where, ", actor ", net.actor(reader.actor).name()),
        absl::StrCat("reads ", r.proto->name(), " with ", reader.fires_per_read,
                     " firings a read and ", reader.initial_fills, " initial fills"));
  }
  return absl::OkStatus();
}

// A step must return to the initial marking: only then does one step prove all steps.
absl::Status CheckBalance(const PlanNet& net, const NetRegister& r, const std::string& where) {
  if (r.writer < 0) return absl::OkStatus();
  const int64_t firings = net.actors[r.writer].firings, per_fill = r.proto->fires_per_fill();
  if (firings % per_fill != 0) {
    return DamagedPlan(
        where, absl::StrCat("register ", r.proto->name(), " takes ", per_fill,
                            " firings a fill, its writer fires ", firings, " times a step"));
  }
  for (const NetReader& reader : r.readers) {
    const int64_t reads = net.actors[reader.actor].firings;
    if (reads % reader.fires_per_read == 0 && reads / reader.fires_per_read == firings / per_fill)
      continue;
    return DamagedPlan(
        where, absl::StrCat("register ", r.proto->name(), " is filled ", firings / per_fill,
                            " times a step, but ", net.actor(reader.actor).name(), " fires ", reads,
                            " times with ", reader.fires_per_read, " firings a read"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyRates(const PlanNet& net) {
  const std::string where = absl::StrCat("plan, program ", net.program->name());
  for (const NetRegister& r : net.registers) {
    RETURN_IF_ERROR(CheckBounds(net, r, where));
    RETURN_IF_ERROR(CheckBalance(net, r, where));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
