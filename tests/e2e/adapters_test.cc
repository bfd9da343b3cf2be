// Adapters, and some variables that are trained alone, on meshes: the losses of one device within a
// tolerance, and the same bits where law 6 says so. ONEFLOW_TEST_FULL takes more of them, and every
// mesh of data, tensor and pipe of 1, 2, 3, 4 or 8 and up to 8 devices with models of 8 blocks and
// heads.
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catch2/catch.hpp"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/recipe/forms.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

bool Full() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr; }

constexpr char kLlama[] =
    "family: 'llama' layers: 4 heads: 4 groups: 2 hidden: 16 inner: 24 head_dim: 4 sequence: 8 "
    "vocab: 21";

// A run whose graph has adapters, or trains what `only` says, or both.
SmallRun Adapted(const std::string& model, const std::string& lora, const std::string& only = "") {
  SmallRun run;
  if (!model.empty()) run.model = MakeModel(model);
  run.steps = 12;
  run.edit = [lora, only](proto::Graph* graph) {
    proto::Model said;
    if (!lora.empty()) REQUIRE(kLoraForm.parse("", lora, said.mutable_lora()).ok());
    if (!only.empty()) said.set_train_only(only);
    *graph = AdaptGraph(*graph, said).value();
  };
  return run;
}

SmallRun With(SmallRun run, const std::string& flags) {
  run.Set(flags);
  return run;
}

// Adapters of a head that is trained, too; adapters alone; with dropout, and norms; no adapters.
std::vector<SmallRun> RunsOfTest() {
  std::vector<SmallRun> runs = {
      Adapted("", "rank:2,alpha:4", "head"), Adapted(kLlama, "rank:2,alpha:4,targets:q+v+mlp"),
      Adapted(kLlama, "rank:2,alpha:4,dropout:0.2", "h.*.norm_*,head.*,norm_f"),
      Adapted("", "", "h.3,*.bias,head")};
  for (const int i : {0, 2, 3}) runs[i].model.set_tied(false);
  return runs;
}

// In the short form those with adapters of Llama.
std::vector<SmallRun> Shorter(std::vector<SmallRun> runs) {
  if (Full()) return runs;
  return {runs[1], runs[2]};
}

std::vector<std::string> Meshes() {
  if (!Full()) return {"data=2", "tensor=2", "pipe=2,data=2,tensor=2"};
  return {"data=2", "tensor=2", "pipe=2", "pipe=2,data=2,tensor=2", "pipe=4,data=2"};
}

TEST_CASE("Adapters learn, and any mesh gives the losses of one device within 1e-5") {
  for (const SmallRun& run : RunsOfTest()) {
    INFO(run.model.ShortDebugString());
    const SmallResult one = Train(run);
    CHECK(one.losses.back() < one.losses.front() - 0.01);
    for (const std::string& mesh : Meshes()) {
      INFO(mesh);
      CHECK(LargestDifference(Train(With(run, "--mesh=" + mesh)), one) < 1e-5);
    }
  }
}

TEST_CASE("Every mesh up to 8 devices") {
  if (!Full()) SUCCEED("not in the short form");
  if (!Full()) return;
  const std::string sizes = " layers: 8 heads: 8 hidden: 32 sequence: 8 vocab: 21 tied: false";
  std::vector<SmallRun> runs = {
      Adapted("family: 'gpt'" + sizes, "rank:2,alpha:4", "head"),
      Adapted("family: 'llama' groups: 8 inner: 48 head_dim: 4" + sizes, "rank:2,alpha:4")};
  for (SmallRun& run : runs) {
    run.steps = 6;
    run.Set("--batch=96");
    const SmallResult one = Train(run);
    for (const int data : {1, 2, 3, 4, 8}) {
      for (const int tensor : {1, 2, 3, 4, 8}) {
        SmallResult of_first;  // any number of stages has its bits
        for (const int pipe : {1, 2, 3, 4, 8}) {
          if (data * tensor * pipe > 8) continue;
          const std::string mesh = absl::StrCat("pipe=", pipe, ",data=", data, ",tensor=", tensor);
          INFO(mesh);
          const SmallResult result = Train(With(run, "--mesh=" + mesh));
          CHECK(LargestDifference(result, one) < 1e-5);
          if (pipe == 1) of_first = result;
          CHECK(result == of_first);
        }
      }
    }
  }
}

TEST_CASE("Groups of heads and the heads of a group are split") {
  const SmallRun run = RunsOfTest()[1];
  const SmallResult one = Train(run);
  CHECK(LargestDifference(Train(With(run, "--mesh=tensor=2x2")), one) < 1e-5);
  CHECK(LargestDifference(Train(With(run, "--mesh=context=2,tensor=2")), one) < 1e-5);
  CHECK(LargestDifference(Train(With(run, "--mesh=data=2,tensor=2 --sequence_parallel")), one) <
        1e-5);
}

TEST_CASE("Stages, schedules, recompute, sharding, offload and fusing change no bit") {
  for (const SmallRun& run : Shorter(RunsOfTest())) {
    for (const std::string rest : {"data=2", "tensor=2"}) {
      const SmallResult one = Train(With(run, "--mesh=" + rest));
      std::vector<std::string> others = {
          absl::StrCat("--mesh=pipe=2,", rest, " --schedule=zero_bubble"),
          absl::StrCat("--mesh=", rest, " --recompute=full --fuse=false"),
          absl::StrCat("--mesh=", rest, " --shard=states --offload=activations")};
      if (Full()) {
        for (const char* schedule : {"1f1b", "gpipe", "interleaved"}) {
          others.push_back(absl::StrCat("--mesh=pipe=2,", rest, " --schedule=", schedule,
                                        " --recompute=selective"));
        }
        others.push_back(absl::StrCat("--mesh=pipe=4,", rest, " --overlap"));
        others.push_back(absl::StrCat("--mesh=", rest, " --offload=states"));
      }
      for (const std::string& flags : others) {
        INFO(flags);
        CHECK(Train(With(run, flags)) == one);
      }
    }
    const SmallResult reduced =
        Train(With(run, "--mesh=data=2 --shard=gradients --reduce=each_micro_batch"));
    INFO("weights split");
    CHECK(Train(With(run, "--mesh=data=2 --shard=weights")) == reduced);
  }
}

TEST_CASE("Adapters in bf16 are near those in f32") {
  for (const SmallRun& run : Shorter(RunsOfTest())) {
    const SmallResult wide = Train(run);
    CHECK(LargestDifference(Train(With(run, "--precision=bf16")), wide) < 2e-2);
    CHECK(LargestDifference(Train(With(run, "--precision=bf16 --residual=f32")), wide) < 2e-2);
  }
}

}  // namespace
}  // namespace oneflow
