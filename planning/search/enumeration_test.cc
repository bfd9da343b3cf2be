// The search finds the fastest plan of spaces that are small enough to compile every plan of them.
// ONEFLOW_TEST_FULL takes each model on each cluster with each memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/model/annotate_queues.h"
#include "oneflow_core/model/model.h"
#include "planning/search/draw_for_test.h"
#include "planning/search/enumerate_for_test.h"
#include "planning/search/search.h"

namespace oneflow {
namespace {

GraphSource MakeGpt(int64_t layers) {
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_layers(layers), config.set_heads(16), config.set_hidden(1024), config.set_vocab(8192);
  config.set_sequence(1024);
  return {BuildModel(config), "gpt.textproto", {}};
}

GraphSource MakeLlama() {
  proto::Model config = MakeModel("family: 'llama'");
  config.set_layers(4), config.set_heads(8), config.set_groups(4), config.set_head_dim(128);
  config.set_hidden(1024), config.set_inner(2752), config.set_vocab(16384);
  config.set_sequence(2048);
  return {BuildModel(config), "llama.textproto", {}};
}

// Three blocks, of which the first has no experts and the last a window.
GraphSource MakePatterned() {
  proto::Model config = MakeModel("family: 'llama' experts: 4 aux_loss_coeff: 0");
  config.set_layers(3), config.set_heads(8), config.set_groups(4), config.set_head_dim(128);
  config.set_hidden(1024), config.set_inner(1024), config.set_vocab(8192),
      config.set_sequence(2048);
  proto::BlockPattern& pattern = *config.mutable_blocks();
  proto::Model& dense = *pattern.add_classes()->mutable_numbers();
  dense.set_experts(0), dense.set_inner(4096);
  pattern.add_classes();
  pattern.add_classes()->mutable_numbers()->set_window(512);
  for (int index = 0; index < 3; ++index) {
    proto::BlockPattern::Run& run = *pattern.add_run();
    run.set_count(1), run.set_index(index);
  }
  return {BuildModel(config), "patterned.textproto", {}};
}

// What the blocks may do: all the same, or one block of a stage more than the others.
const std::vector<std::string> kFewChoices = {"none", "attention", "full", "full:1"};
const std::vector<std::string> kPatternedChoices = {"none",   "attention", "full",
                                                    "full@a", "full@b",    "full@c"};
const std::vector<std::string> kChoices = {"none",        "attention",   "selective", "full",
                                           "attention:1", "selective:1", "full:1"};

SearchSpec MakeSpec(const GraphSource& source, const std::string& cluster, int64_t devices,
                    int64_t batch, int64_t memory) {
  SearchSpec spec{.source = source, .devices = devices};
  spec.given.cluster = ReadClusterForTest(cluster);
  SetUsableBytes(memory, spec.given.cluster.mutable_device());
  spec.given.recipe.set_device(proto::CUDA);
  spec.given.recipe.set_batch(batch);
  spec.given.recipe.set_precision(proto::BF16);
  return spec;
}

// What a quarter of the plans need at most.
int64_t FindQuarter(const std::vector<FoundPlan>& all) {
  std::vector<int64_t> bytes;
  for (const FoundPlan& plan : all) bytes.push_back(plan.bytes);
  std::nth_element(bytes.begin(), bytes.begin() + std::ssize(bytes) / 4, bytes.end());
  return bytes[bytes.size() / 4];
}

void Compare(const SearchSpec& spec, const std::vector<FoundPlan>& all) {
  const int64_t memory = UsableBytes(spec.given.cluster.device());
  const auto best = std::find_if(all.begin(), all.end(),
                                 [&](const FoundPlan& plan) { return plan.bytes <= memory; });
  REQUIRE(best != all.end());
  const absl::StatusOr<SearchResult> result =
      Search(spec, {.budget_seconds = 600, .threads = 2, .top = 1});
  INFO(result.status().message());
  REQUIRE(result.ok());
  REQUIRE(!result->found.empty());
  INFO(spec.source.file << " on " << spec.given.cluster.name() << " with " << memory << " bytes");
  INFO("enumerated: " << CandidateFlags(best->candidate));
  INFO("found: " << CandidateFlags(result->found[0].candidate));
  std::printf(
      "%s, %s, %.3f GB: found %.6g ms of %.6g ms; %zu plans enumerated, %lld groups, "
      "%lld short plans, %lld compiled, %.1f s\n",
      spec.source.file.c_str(), spec.given.cluster.name().c_str(),
      static_cast<double>(memory) / 1e9, 1e3 * result->found[0].step_seconds,
      1e3 * best->step_seconds, all.size(), static_cast<long long>(result->counts.groups),
      static_cast<long long>(result->counts.short_plans),
      static_cast<long long>(result->counts.compiled), result->seconds);
  CHECK(result->complete);
  CHECK(result->found[0].step_seconds <= best->step_seconds * (1 + 1e-9));
  CHECK(result->bound_seconds <= best->step_seconds * (1 + 1e-9));
}

TEST_CASE("the search finds the best of all plans of a space") {
  const bool every_case = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  struct Case {
    GraphSource source;
    std::string cluster;
    int64_t devices, batch;
    bool patterned = false;
  };
  std::vector<Case> cases = {{MakeGpt(2), "a100", 4, 8}, {MakePatterned(), "h100", 2, 4, true}};
  if (every_case) {
    cases = {{MakeGpt(4), "a100", 8, 16},           {MakeGpt(4), "h100", 8, 16},
             {MakeGpt(4), "v100", 8, 16},           {MakeLlama(), "a100", 8, 8},
             {MakeLlama(), "h100", 16, 16},         {MakeLlama(), "v100", 8, 16},
             {MakePatterned(), "a100", 4, 8, true}, {MakePatterned(), "h100", 4, 4, true}};
  }
  for (const Case& each : cases) {
    constexpr int64_t kAmple = int64_t{1} << 40;
    SearchSpec spec = MakeSpec(each.source, each.cluster, each.devices, each.batch, kAmple);
    if (each.patterned) {
      spec.given.imbalance = kUsualImbalance;
      REQUIRE(AddFixes("--fix=", "schedule=1f1b", &spec.fixed).ok());
    }
    const std::vector<FoundPlan> all = EnumerateForTest(spec, each.patterned ? kPatternedChoices
                                                              : every_case   ? kChoices
                                                                             : kFewChoices);
    CHECK(all.size() >= (each.patterned ? 20 : every_case ? 500 : 200));
    Compare(spec, all);
    SetUsableBytes(FindQuarter(all), spec.given.cluster.mutable_device());
    Compare(spec, all);
  }
}

}  // namespace
}  // namespace oneflow
