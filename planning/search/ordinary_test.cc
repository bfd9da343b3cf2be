// The ordinary plans of a search, form by form.
#include "planning/search/ordinary.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "oneflow_core/model/model.h"

namespace oneflow {
namespace {

// Clusters of nodes of 4, of which no link matters.
SearchSpec MakeSpec(const std::string& model, int64_t devices, int64_t batch) {
  SearchSpec spec{.source = {BuildModel(MakeModel(model)), "", {}}, .devices = devices};
  spec.given.recipe.set_batch(batch);
  spec.given.cluster.add_level()->set_size(4);
  spec.given.cluster.add_level();
  return spec;
}

std::vector<std::string> FlagsOfOrdinary(const SearchSpec& spec) {
  const absl::StatusOr<std::vector<proto::Recipe>> groups = ListGroups(spec);
  REQUIRE(groups.ok());
  std::vector<std::string> flags;
  for (proto::Recipe& group : FindOrdinary(spec, *groups)) {
    group.set_keep_axis_order(false);
    flags.push_back(CandidateFlags(group));
  }
  std::sort(flags.begin(), flags.end());
  return flags;
}

constexpr char kLlama[] = "family: 'llama' preset: 'llama-tiny' layers: 4 sequence: 64";

TEST_CASE("ordinary plans: every form that the devices allow") {
  std::vector<std::string> want;
  const auto add = [&](const std::string& mesh, const std::string& rest,
                       const std::vector<std::string>& shards) {
    for (const std::string& shard : shards) {
      const std::string split = shard == "none" ? "" : " --shard=" + shard;
      const bool tensor = mesh.find("tensor") != std::string::npos;
      const std::string positions = tensor ? " --sequence_parallel=true" : "";
      want.push_back("--mesh=" + mesh + positions + split + rest);
    }
  };
  const std::vector<std::string> all = {"none", "states", "weights"};
  add("data=4", "", all);                    // the sequences of a device at once
  add("data=4", " --micro_batches=2", all);  // or one after the other
  add("data=2,tensor=2", "", all);
  add("data=2,tensor=2", " --micro_batches=2", all);
  add("data=2,tensor=2", " --micro_batches=4", all);
  std::sort(want.begin(), want.end());
  SearchSpec spec = MakeSpec(kLlama, 4, 8);
  spec.fixed.sizes = {{"pipe", 1}};
  std::vector<std::string> got = FlagsOfOrdinary(spec);
  std::erase_if(got,
                [](const std::string& flags) { return flags.find("tensor=2x2") != flags.npos; });
  CHECK(got == want);
}

TEST_CASE("ordinary plans: stages under 1F1B, and interleaved in equal chunks") {
  SearchSpec spec = MakeSpec(kLlama, 4, 8);
  spec.fixed.sizes = {{"pipe", 2}, {"tensor", 1}, {"micro_batch_size", 1}};
  CHECK(FlagsOfOrdinary(spec) ==
        std::vector<std::string>{
            "--mesh=pipe=2,data=2 --micro_batches=4",
            "--mesh=pipe=2,data=2 --micro_batches=4 --schedule=interleaved --chunks=2",
            "--mesh=pipe=2,data=2 --shard=states --micro_batches=4",
            "--mesh=pipe=2,data=2 --shard=states --micro_batches=4 --schedule=interleaved "
            "--chunks=2"});
}

TEST_CASE("ordinary plans: tensor, experts and parts of sequences stay in a node") {
  const auto count = [](const SearchSpec& spec, const std::string& words) {
    const std::vector<std::string> flags = FlagsOfOrdinary(spec);
    return std::count_if(flags.begin(), flags.end(),
                         [&](const std::string& f) { return f.find(words) != std::string::npos; });
  };
  SearchSpec mixture = MakeSpec(std::string(kLlama) + " experts: 8", 8, 16);
  mixture.fixed.sizes = {{"pipe", 1}};
  CHECK(count(mixture, "data=2,expert=4 ") > 0);
  CHECK(count(mixture, "data=2,expert=2,tensor=2 ") > 0);
  CHECK(count(mixture, "expert=8") == 0);
  SearchSpec deep =
      MakeSpec("family: 'llama' preset: 'llama-tiny' layers: 4 sequence: 8192", 8, 16);
  deep.fixed.sizes = {{"pipe", 1}};
  CHECK(count(deep, "data=4,context=2 ") > 0);
  CHECK(count(deep, "context=2,tensor=2 ") > 0);
}

}  // namespace
}  // namespace oneflow
