// End to end: a small GPT on every kind of mesh compiles, and its plan passes the proof and a few laws.
#include "compiler/compile.h"

#include <catch2/catch.hpp>
#include <string>

#include "oneflow_core/model/gpt.h"
#include "oneflow_core/plan/fingerprint.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/plan/verify_plan.h"

namespace oneflow {
namespace {

proto::Graph SmallGpt(int64_t layers = 2) {
  GptConfig config;
  config.layers = layers;
  config.heads = 4;
  config.hidden = 32;
  config.sequence = 16;
  config.vocab = 64;
  return BuildGpt(config);
}

CompileOptions OptionsFor(const std::string& mesh, int64_t batch, int64_t micro_batches,
                          const std::string& schedule = "1f1b") {
  CompileOptions options;
  options.mesh = *ParseMesh(mesh);
  options.train.set_batch(batch);
  options.train.set_micro_batches(micro_batches);
  options.train.set_schedule(schedule);
  return options;
}

}  // namespace

TEST_CASE("a GPT compiles on all products of data, tensor and pipe") {
  for (const std::string mesh : {"", "data=2", "tensor=2", "pipe=2", "data=2,tensor=2", "pipe=2,data=2",
                                 "pipe=2,tensor=2", "pipe=2,data=2,tensor=2"}) {
    for (const std::string schedule : {"gpipe", "1f1b"}) {
      INFO("mesh " << mesh << ", schedule " << schedule);
      const auto plan = Compile(SmallGpt(), "gpt", OptionsFor(mesh, 8, 4, schedule));
      INFO(plan.status().ToString());
      REQUIRE(plan.ok());
      CHECK(VerifyPlan(*plan).ok());
      CHECK(plan->fingerprint() == Fingerprint(*plan));
      std::string programs;
      for (const proto::Program& program : plan->program()) programs += program.name() + " ";
      CHECK(programs == "init train eval generate save load ");
    }
  }
}

}  // namespace oneflow
