// Edits good plans, and compares the verdict of the proof: for the tests of verifiers.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/verify/verify_plan.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Returns "good", or the refusal. For actors without kernels.
inline std::string Verdict(const proto::Plan& plan) {
  const absl::Status status = VerifyPlan(plan, {.kernels = false});
  return status.ok() ? "good" : std::string(ToStd(status.message()));
}

struct Edit {
  std::function<void(proto::Plan&)> make;
  std::string refusal;  // contains this
};

// CHECKs that the plan is good, and that each edit alone is refused as it says.
inline void CheckEach(const proto::Plan& good, const std::vector<Edit>& edits) {
  CHECK(Verdict(good) == "good");
  for (const Edit& edit : edits) {
    proto::Plan plan = good;
    edit.make(plan);
    INFO(edit.refusal);
    CHECK_THAT(Verdict(plan), Catch::Contains(edit.refusal));
  }
}

// Access to parts of the first program.
inline proto::Program& Train(proto::Plan& p) { return *p.mutable_program(0); }
inline proto::Register& Reg(proto::Plan& p, int i) { return *Train(p).mutable_register_(i); }
inline proto::Actor& Act(proto::Plan& p, int i) { return *Train(p).mutable_actor(i); }
inline proto::Stream& Str(proto::Plan& p, int i) { return *Train(p).mutable_stream(i); }

}  // namespace oneflow
