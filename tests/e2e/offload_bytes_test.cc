// Planned bytes in the host's memory, and those that the link carries in a step, are those that
// docs/memory_techniques.md says, for each part of a model that rests there.
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>

#include "compiler/compile.h"
#include "oneflow_core/model/gpt.h"
#include "oneflow_core/model/offload.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

constexpr int64_t kMicroBatches = 2;

const GptConfig kModel = {.layers = 4,
                          .heads = 16,
                          .hidden = 1024,
                          .sequence = 512,
                          .vocab = 2048,
                          .bias = false,
                          .tied = false};

proto::Plan CompileOffloaded(const std::string& what, bool on_host, bool narrow) {
  CompileOptions options;
  options.train.set_batch(8);
  options.train.set_micro_batches(kMicroBatches);
  options.train.set_precision(narrow ? proto::BF16 : proto::F32);
  options.offload = *ParseOffload("--offload=", what);
  options.offload.update_on_host = on_host;
  const absl::StatusOr<proto::Plan> plan = Compile(BuildGpt(kModel), "offload", options);
  if (!plan.ok()) throw std::runtime_error(plan.status().ToString());
  return *plan;
}

struct Bytes {
  double host = 0;        // that rest there: persistent, or longer than a use
  double out = 0, in = 0;  // over the link in a step
};

Bytes CountBytes(const proto::Plan& plan) {
  const proto::Program& train = *FindProgram(plan, "train");
  const std::vector<double> firings = FiringsPerStep(train);
  Bytes bytes;
  for (const proto::Register& r : plan.persistent()) {
    if (r.memory_kind() == proto::HOST) {
      bytes.host += static_cast<double>(r.slot_bytes() * r.slots());
    }
  }
  for (const proto::Register& r : train.register_()) {
    if (r.memory_kind() == proto::HOST) {
      bytes.host += static_cast<double>(r.slot_bytes() * r.slots());
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

TEST_CASE("x") {
  const auto psi = static_cast<double>(ParameterCount(kModel));
  for (const bool narrow : {false, true}) {
    for (const bool on_host : {false, true}) {
      for (const char* what :
           {"none", "states", "weights", "states,weights", "activations:all"}) {
        const Bytes b = CountBytes(CompileOffloaded(what, on_host, narrow));
        WARN(what << " host update " << on_host << " bf16 " << narrow << ": host "
                  << b.host / psi << " out " << b.out / psi << " in " << b.in / psi
                  << " raw " << b.host << ' ' << b.out << ' ' << b.in << " psi " << psi);
      }
    }
  }
}

}  // namespace
}  // namespace oneflow
