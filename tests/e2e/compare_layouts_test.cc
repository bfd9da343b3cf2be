// A plan that was compiled for a cluster takes, simulated there, no longer than one that was
// compiled without knowing it.
#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "actor_runtime/simulate/simulate_on.h"
#include "compiler/compile.h"
#include "oneflow_core/model/gpt.h"

namespace oneflow {
namespace {

// Nodes of four GPUs, with rates such as those of H100s.
proto::Cluster Nodes() {
  proto::Cluster cluster;
  proto::Device* device = cluster.mutable_device();
  device->set_kind(proto::Device::CUDA);
  device->set_peak_flops(67e12);
  device->set_peak_flops_bf16(989e12);
  device->set_memory_bandwidth(3.35e12);
  device->set_no_overlap(true);
  for (const auto& [size, latency, bandwidth] : {std::tuple(4, 1e-5, 3e11), {16, 2e-5, 45e9}}) {
    proto::Level* level = cluster.add_level();
    level->set_size(size);
    level->set_latency(latency);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

struct Case {
  const char* mesh;
  bool split_positions = false;
  int64_t micro_batches = 1;
  proto::DataType precision = proto::BF16;
  int64_t hidden = 768;
};

proto::Plan Compiled(const Case& c, bool for_cluster) {
  GptConfig config;
  config.layers = 2;
  config.hidden = c.hidden;
  config.sequence = 512;
  config.vocab = 4096;
  CompileOptions options{.mesh = *ParseMesh(c.mesh)};
  options.train.set_batch(16);
  options.train.set_micro_batches(c.micro_batches);
  options.train.set_precision(c.precision);
  options.device_kind = proto::CUDA;
  options.split_positions = c.split_positions;
  if (for_cluster) {
    options.cluster = Nodes();
    options.step_seconds = [](const proto::Plan& plan, std::string_view program) {
      return SimulatedStepSeconds(Nodes(), plan, program);
    };
  }
  absl::StatusOr<proto::Plan> plan = Compile(BuildGpt(config), "gpt", options);
  INFO(plan.status());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

double StepSeconds(const proto::Plan& plan) {
  const absl::StatusOr<SimulatedRun> run = SimulateOn(Nodes(), plan, "train", /*steps=*/2);
  INFO(run.status());
  REQUIRE(run.ok());
  return run->StepSeconds();
}

bool WasCompared(const proto::Plan& plan) {
  return std::any_of(plan.facts().note().begin(), plan.facts().note().end(), [](const auto& note) {
    return note.find("layouts compared by the simulator") != std::string::npos;
  });
}

TEST_CASE("a plan compiled for a cluster is simulated there no slower than one compiled without") {
  const std::vector<Case> cases = {
      {"tensor=2", true},
      {"tensor=2", false},
      {"tensor=4", true, 2},
      {"data=2,tensor=2", true, 2},
      {"data=2,tensor=4", false, 2},
      {"tensor=8", true},
      {"data=8", false},
      {"tensor=2", true, 1, proto::F32},
      {"tensor=4", true, 1, proto::BF16, 1536},
      {"pipe=2,tensor=2", true, 4},
  };
  int compared = 0;
  for (const Case& c : cases) {
    const proto::Plan known = Compiled(c, true);
    compared += WasCompared(known) ? 1 : 0;
    const double with = StepSeconds(known), without = StepSeconds(Compiled(c, false));
    INFO(c.mesh << (c.split_positions ? ", positions split" : "") << ": " << with << " s, without "
                << without << " s");
    CHECK(with <= without * (1 + 1e-9));
  }
  CHECK(compared >= 3);
}

TEST_CASE("the layouts that are taken are the same at any pipe degree") {
  const auto lines = [](const char* mesh) {
    std::vector<std::string> compared;
    const proto::Plan plan = Compiled({mesh, true, 4}, true);
    for (const std::string& note : plan.facts().note()) {
      if (note.find("layouts compared") != std::string::npos) compared.push_back(note);
    }
    return compared;
  };
  const std::vector<std::string> one = lines("tensor=2");
  CHECK(one.size() == 1);
  CHECK(lines("pipe=2,tensor=2") == one);
}

}  // namespace
}  // namespace oneflow
