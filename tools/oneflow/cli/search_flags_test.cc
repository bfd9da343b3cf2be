// The flags of a candidate, read by the command line, are the candidate.
#include <catch2/catch.hpp>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gflags/gflags.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/search/candidate.h"
#include "tools/oneflow/cli/device_range.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/recipe_flags.h"

namespace oneflow {
namespace {

using Catch::Contains;

template <typename T>
T One(std::mt19937* random, const std::vector<T>& choices) {
  return choices[(*random)() % choices.size()];
}

proto::Recipe Draw(std::mt19937* random) {
  const auto one = [&](std::vector<const char*> words) {
    return std::string(One<const char*>(random, words));
  };
  return MakeCandidate(MakeRecipe(
      "--mesh=" +
      one({"1", "data=2", "pipe=2,data=4x2", "pipe=4,tensor=8x2",
           "data=2,expert=4,context=2,tensor=2", "pipe=3"}) +
      " --keep_axis_order=" + one({"true", "false"}) + " --micro_batches=" + one({"1", "2", "8"}) +
      one({"", " --schedule=interleaved --chunks=2", " --schedule=interleaved --chunks=3",
           " --schedule=zero_bubble", " --schedule=gpipe"}) +
      one({"", "", " --extra_in_flight=3"}) + one({"", " --sequence_parallel"}) + " --shard=" +
      one({"none", "states", "gradients", "weights", "states:data,gradients:data,weights:data.1"}) +
      " --offload=" +
      one({"none", "activations", "states", "activations:0.5,states", "activations:all,weights"}) +
      " --recompute=" + one({"none", "selective", "full", "attention,gather"}) +
      one({"", " --stage_layers=2,1,1,2", " --stage_layers=3"})));
}

// The options that compile reads of these flags.
absl::StatusOr<PlanRequest> ReadOptions(const std::string& line) {
  const gflags::FlagSaver restored;
  const Verb compile{verbs::kCompile, "", "", nullptr};
  ASSIGN_OR_RETURN(const Arguments args,
                   ParseArguments(compile, absl::StrSplit(line, ' ', absl::SkipEmpty())));
  ASSIGN_OR_RETURN(proto::Recipe recipe, RecipeFromFlags(args));
  return RequestFromFlags(args, std::move(recipe));
}

TEST_CASE("search: the flags of any candidate are read as the candidate") {
  const std::string common = "--batch=64 --precision=bf16 --loss_pieces=auto --reduce=once ";
  const PlanRequest given = ReadOptions(common).value();
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const proto::Recipe candidate = Draw(&random);
    const std::string line = common + CandidateFlags(candidate);
    INFO(line);
    const PlanRequest read = ReadOptions(line).value();
    const PlanRequest meant = CandidateRequest(given, candidate);
    CHECK(FlagsText(RecipeRows(), WithDefaults(read.recipe)) ==
          FlagsText(RecipeRows(), WithDefaults(meant.recipe)));
  }
}

TEST_CASE("search: every flag that compile has beside those of search is advised on") {
  const Verb search{verbs::kSearch, "", "", nullptr};
  const auto advised = [&](std::string_view flag) {
    const absl::Status status = ParseArguments(search, {"--" + std::string(flag) + "=1"}).status();
    return absl::StrContains(status.message(), "is not given to `oneflow search`");
  };
  for (const std::string_view flag : FlagsOfVerb(verbs::kCompile)) {
    INFO(flag);
    const bool of_output = flag == "layouts_out" || flag == "lock";
    CHECK((FindFlag(verbs::kSearch, flag) != nullptr) == !(advised(flag) || of_output));
  }
}

TEST_CASE("devices: a number, or a range of doublings") {
  CHECK(*ParseDevices("64") == 64);
  CHECK(*ParseDeviceRange("7") == std::vector<int64_t>{7});
  CHECK(*ParseDeviceRange("64..512") == std::vector<int64_t>{64, 128, 256, 512});
  const auto error = [](const absl::Status& status) {
    return std::string(ToStd(status.message()));
  };
  CHECK_THAT(error(ParseDevices("many").status()), Contains("--devices=many: is no whole number"));
  CHECK_THAT(error(ParseDevices("0").status()), Contains("is out of range; use 1 or more"));
  CHECK_THAT(error(ParseDevices("64..128").status()), Contains("--pareto"));
  CHECK_THAT(error(ParseDeviceRange("64..100").status()), Contains("no range of doublings"));
  CHECK_THAT(error(ParseDeviceRange("8..4").status()), Contains("no range of doublings"));
}

}  // namespace
}  // namespace oneflow
