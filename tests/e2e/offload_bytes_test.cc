// Planned bytes in the host's memory, and those that the link carries in a step, are those that
// docs/memory_techniques.md says, for each part of a model that rests there.
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

constexpr int64_t kMicroBatches = 2;

proto::Model LargeGpt() {
  return MakeModel(
      "family: 'gpt' layers: 4 heads: 16 hidden: 1024 sequence: 512 vocab: 2048 bias: false tied: "
      "false");
}

proto::Plan CompileOffloaded(const std::string& what, const char* update_on, bool narrow) {
  PlanRequest request{.recipe =
                          MakeRecipe("--batch=8 --offload=" + what + " --update_on=" + update_on)};
  request.recipe.set_micro_batches(kMicroBatches);
  request.recipe.set_precision(narrow ? proto::BF16 : proto::F32);
  return Compile(BuildModel(LargeGpt()), "offload", request).value();
}

struct Bytes {
  double device = 0, host = 0;  // held for a step
  double out = 0, in = 0;       // over the link in a step
};

// Actors of segments of this name.
std::set<int> ListActors(const proto::Program& train, const std::string& segment) {
  std::set<int> actors;
  for (const proto::Segment& s : train.segment()) {
    if (s.name() == segment) actors.insert(s.actor().begin(), s.actor().end());
  }
  return actors;
}

double SlotBytes(const proto::Register& r) {
  return static_cast<double>(r.slot_bytes() * r.slots());
}

// Registers that actors of segment `from` write and others read; with `to`, those of that segment.
std::set<int> FindPassed(const proto::Program& train, const std::string& from,
                         const std::string& to = "") {
  const std::set<int> writers = ListActors(train, from), readers = ListActors(train, to);
  std::set<int> written, passed;
  for (const proto::Actor& actor : train.actor()) {
    if (writers.contains(actor.id())) {
      written.insert(actor.output().begin(), actor.output().end());
    }
  }
  for (const proto::Actor& actor : train.actor()) {
    if (to.empty() ? writers.contains(actor.id()) : !readers.contains(actor.id())) continue;
    for (const proto::Input& input : actor.input()) {
      if (written.contains(input.register_())) passed.insert(input.register_());
    }
  }
  return passed;
}

// What is kept of one micro-batch for its backward.
double CountKept(const proto::Plan& plan) {
  const proto::Program& train = *FindProgram(plan, "train");
  double bytes = 0;
  for (const int id : FindPassed(train, "F", "B")) {
    bytes += static_cast<double>(FindRegister(plan, train, id)->slot_bytes());
  }
  return bytes;
}

Bytes CountBytes(const proto::Plan& plan) {
  const proto::Program& train = *FindProgram(plan, "train");
  const std::vector<double> firings = FiringsPerStep(train);
  const std::set<int> prepared = FindPassed(train, "P");
  Bytes bytes;
  for (const proto::Register& r : plan.persistent()) {
    (r.memory_kind() == proto::HOST ? bytes.host : bytes.device) += SlotBytes(r);
  }
  for (const proto::Register& r : train.register_()) {
    if (r.memory_kind() == proto::HOST) {
      bytes.host += SlotBytes(r);
    } else if (r.fires_per_fill() == kMicroBatches || prepared.contains(r.id())) {
      bytes.device += SlotBytes(r);  // a gradient; weights for a step
    }
  }
  for (const proto::Actor& actor : train.actor()) {
    const bool out = actor.kernel() == "copy_out";
    if (!out && actor.kernel() != "copy_in") continue;
    const proto::Register& r = *FindRegister(plan, train, actor.output(0));
    (out ? bytes.out : bytes.in) += static_cast<double>(r.slot_bytes()) * firings[actor.id()];
  }
  return bytes;
}

// By the formulas of docs/memory_techniques.md.
Bytes Predict(const proto::Recipe& recipe, bool narrow) {
  const double t =
      static_cast<double>((LargeGpt().vocab() + LargeGpt().sequence()) * LargeGpt().hidden());
  const double p = static_cast<double>(CountParameters(BuildModel(LargeGpt()))) - t,
               m = kMicroBatches;
  const double each_use = (narrow ? 2 : 4) * 2 * m * p + 4 * m * t;
  const double weights = (narrow ? 2 : 4) * p + 4 * t;  // as they are read
  const double states = narrow ? 12 * p + 8 * t : 8 * (p + t);
  Bytes bytes{.device = 4 * (p + t)};
  const proto::Offload& offload = recipe.offload();
  if (recipe.update_on() == proto::UPDATE_ON_HOST) {
    bytes.host = 16 * (p + t) + (narrow ? 2 * p : 0);
    bytes.out = 4 * (p + t);
    bytes.in = offload.weights() ? each_use : weights;
    bytes.device += offload.weights() ? 0 : weights;
    return bytes;
  }
  if (offload.states()) {
    bytes.host += states;
    bytes.out += states;
    bytes.in += states + (narrow ? 4 * p : 0);
  } else {
    bytes.device += states;
  }
  if (offload.weights()) {
    bytes.host += weights;
    bytes.out += weights;
    bytes.in += each_use + (narrow ? 4 * t : 4 * (p + t));
  } else {
    bytes.device += weights;
  }
  return bytes;
}

TEST_CASE("what rests in the host's memory takes, and copies, the bytes of the tables") {
  for (const bool narrow : {false, true}) {
    for (const bool on_host : {false, true}) {
      for (const char* what : {"none", "states", "weights", "states,weights"}) {
        INFO(what << (on_host ? ", updated on the host" : "") << (narrow ? ", bf16" : ", f32"));
        const proto::Plan plan = CompileOffloaded(what, on_host ? "host" : "device", narrow);
        const Bytes found = CountBytes(plan);
        const Bytes predicted = Predict(plan.recipe(), narrow);
        CHECK(found.device == Approx(predicted.device).epsilon(0.02));
        CHECK(found.host == Approx(predicted.host).epsilon(0.02).margin(1));
        CHECK(found.out == Approx(predicted.out).epsilon(0.02).margin(1));
        CHECK(found.in == Approx(predicted.in).epsilon(0.02).margin(1));
      }
    }
  }
}

TEST_CASE("what is kept for the backward goes out and comes back once a micro-batch") {
  for (const bool narrow : {false, true}) {
    INFO((narrow ? "bf16" : "f32"));
    const double kept = CountKept(CompileOffloaded("none", "device", narrow));
    const Bytes found = CountBytes(CompileOffloaded("activations:all", "device", narrow));
    CHECK(found.host == Approx(kept).epsilon(0.02));
    CHECK(found.out == Approx(kMicroBatches * kept).epsilon(0.02));
    CHECK(found.in == Approx(kMicroBatches * kept).epsilon(0.02));
  }
}

}  // namespace
}  // namespace oneflow
