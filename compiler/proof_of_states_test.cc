// Plans edited so that a checkpoint would lack something, have it twice, or be of wrong numbers:
// the proof refuses them, before a run has trained.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

proto::Plan TrainPlan(const std::string& mesh) {
  return Compile(BuildModel(SmallGpt()), "gpt", OptionsFor(mesh)).value();
}

std::string Verdict(const proto::Plan& plan) {
  const absl::Status status = VerifyPlan(plan);
  return status.ok() ? "good" : std::string(ToStd(status.message()));
}

}  // namespace

TEST_CASE("what a checkpoint would lack, or have twice, is refused") {
  const proto::Plan good = TrainPlan("data=2,tensor=2");
  const int save_program = good.program_size() - 2;  // before load
  REQUIRE(good.program(save_program).name() == "save");
  const auto refusal = [&](const std::function<void(proto::Plan&)>& edit) {
    proto::Plan plan = good;
    edit(plan);
    return Verdict(plan);
  };
  const auto save = [&](proto::Plan& p) {
    return p.mutable_program(save_program)->mutable_actor(0);
  };
  const std::string name = good.variable(0).name();
  CHECK_THAT(refusal([](proto::Plan& p) { *p.add_variable() = p.variable(0); }),
             Catch::Contains("variable " + name + ": stands twice"));
  CHECK_THAT(refusal([](proto::Plan& p) {
               *p.add_variable() = p.variable(0);
               p.mutable_variable(p.variable_size() - 1)->set_name("other");
             }),
             Catch::Contains("variable other: register " + name + " holds another variable"));
  CHECK_THAT(refusal([](proto::Plan& p) {
               p.mutable_variable(0)->add_register_(p.variable(0).register_(0));
             }),
             Catch::Contains("or stands twice"));
  CHECK_THAT(refusal([](proto::Plan& p) { p.mutable_variable(0)->clear_name(); }),
             Catch::Contains("has no name"));
  // Saves the second variable in the place of the first.
  CHECK_THAT(refusal([&](proto::Plan& p) {
               const proto::Actor other = p.program(save_program).actor(1);
               *save(p)->mutable_input() = other.input();
               *save(p)->mutable_attr() = other.attr();
             }),
             Catch::Contains("program save: saves variable " + name + " 0 times"));
  CHECK_THAT(refusal([&](proto::Plan& p) { save(p)->mutable_attr()->erase("replicated_axes"); }),
             Catch::Contains("does not save each part of " + name + " once"));
  for (const char* program : {"init", "save", "load"}) {
    CHECK_THAT(refusal([&](proto::Plan& p) {
                 auto& programs = *p.mutable_program();
                 programs.erase(std::find_if(programs.begin(), programs.end(),
                                             [&](const auto& x) { return x.name() == program; }));
               }),
               Catch::Contains(std::string("but no program ") + program));
  }
}

TEST_CASE("zeroes come of zero_fill alone, along axes on which devices have the same") {
  for (const char* mesh : {"data=2,tensor=2", "tensor=4"}) {
    const proto::Plan good = TrainPlan(mesh);
    int others = 0;
    for (const proto::Actor& actor : good.program(kTrain).actor()) {
      if (!actor.has_boxing() || actor.kernel() == "zero_fill") continue;
      proto::Plan plan = good;
      proto::Actor& edited = *plan.mutable_program(kTrain)->mutable_actor(actor.id());
      edited.mutable_boxing()->add_zero_unless_first(0);
      CHECK_THAT(Verdict(plan), Catch::Contains("but is no zero_fill"));
      ++others;
    }
    CHECK(others > 0);
  }
}

}  // namespace oneflow
