#include "tools/foreign/emit/emit.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/foreign/emit/degrees.h"
#include "tools/foreign/emit/fates.h"
#include "tools/foreign/emit/recompute.h"

namespace oneflow::foreign {
namespace {

constexpr char kTiny[] =
    "family: 'llama' layers: 4 hidden: 64 heads: 4 groups: 4 head_dim: 16 inner: 96 vocab: 512 "
    "sequence: 64 tied: false";
constexpr char kMixture[] =
    "family: 'llama' layers: 4 hidden: 64 heads: 4 groups: 4 head_dim: 16 inner: 96 vocab: 512 "
    "sequence: 64 tied: false experts: 8 experts_per_token: 2";

Job MakeJob(const std::string& flags, const char* model = kTiny) {
  Job job{.name = "tiny", .model = MakeModel(model)};
  job.recipe = WithDefaults(MakeRecipe("--device=cuda --precision=bf16 " + flags));
  SetDefaults(OptimizerRows(), &job.optimizer);
  job.run.set_steps(1000);
  job.run.set_seed(1);
  job.parameters = 1000;
  job.block_parameters = 100;
  const auto degrees = FindDegrees(job.recipe);
  if (degrees.ok() && degrees->pipe > 1 && !job.recipe.has_stage_layers()) {
    const int slices = static_cast<int>(degrees->pipe) * std::max(job.recipe.chunks(), 1);
    for (int i = 0; i < slices; ++i) {
      job.recipe.mutable_stage_layers()->add_layers(static_cast<int>(job.model.layers()) / slices);
    }
  }
  return job;
}

std::string JoinTexts(const std::vector<EmittedFile>& files) {
  std::string text;
  for (const EmittedFile& file : files) absl::StrAppend(&text, file.name, ":\n", file.text);
  return text;
}

std::string Rounded1(System system, const Job& job) {
  const auto nearest = RoundFor(system, job);
  REQUIRE(nearest.ok());
  std::string text;
  for (const Rounding& r : nearest->front().roundings) {
    absl::StrAppend(&text, r.row, ": ", r.from, " -> ", r.to, "\n");
  }
  return text;
}

TEST_CASE("every choice has a fate in every system") {
  for (const auto rows : {RecipeRows(), OptimizerRows()}) {
    for (const Row& row : rows) {
      INFO(std::string(row.name));
      REQUIRE(HasFate(row.name));
      for (const System system : kSystems) {
        const RowFate fate = FateIn(system, row.name);
        const bool rounds = fate.fate == Fate::kNearest || fate.fate == Fate::kFixed;
        CHECK(rounds == !fate.why.empty());
      }
    }
  }
}

// A value of each choice beside the default, for a mesh on which it acts.
struct Change {
  const char* row;
  const char* value;
};
constexpr Change kChanges[] = {{"sequence_parallel", "true"},
                               {"split_products", "true"},
                               {"shard", "states"},
                               {"shard", "gradients"},
                               {"shard", "weights"},
                               {"gather", "once"},
                               {"gather", "each_micro_batch"},
                               {"reduce", "each_micro_batch"},
                               {"overlap", "false"},
                               {"bucket_bytes", "50MB"},
                               {"prefetch", "3"},
                               {"context_pieces", "2"},
                               {"batch", "64"},
                               {"micro_batches", "2"},
                               {"schedule", "gpipe"},
                               {"schedule", "interleaved"},
                               {"schedule", "zero_bubble"},
                               {"schedule", "2bw"},
                               {"extra_in_flight", "1"},
                               {"staleness", "1"},
                               {"steps_a_round", "4"},
                               {"global_norm", "false"},
                               {"recompute", "full"},
                               {"recompute", "attention"},
                               {"recompute", "selective"},
                               {"recompute", "full:1"},
                               {"recompute", "full:1,gather"},
                               {"precision", "f32"},
                               {"residual", "f32"},
                               {"fuse", "false"},
                               {"loss_pieces", "4"},
                               {"offload", "states"},
                               {"offload", "weights"},
                               {"offload", "activations:0.5"},
                               {"update_on", "host"},
                               {"documents", "true"},
                               {"stage_layers", "1,3"}};
constexpr Change kNumbers[] = {{"learning_rate", "1e-4"}, {"min_learning_rate", "1e-5"},
                               {"lr_schedule", "cosine"}, {"warmup_steps", "10"},
                               {"decay_steps", "500"},    {"beta1", "0.8"},
                               {"beta2", "0.9"},          {"epsilon", "1e-6"},
                               {"weight_decay", "0"},     {"clip", "0"}};

bool IsListed(const Rounded& rounded, std::string_view row) {
  for (const Rounding& rounding : rounded.roundings) {
    if (rounding.row == row) return true;
  }
  return false;
}

bool IsSameJob(const Job& a, const Job& b) {
  return DifferingRows(RecipeRows(), a.recipe, b.recipe).empty() &&
         DifferingRows(OptimizerRows(), a.optimizer, b.optimizer).empty();
}

// False where the choice acts on nothing in a plan of the job.
bool Acts(const Job& job, std::string_view row) {
  const AxisDegrees degrees = FindDegrees(job.recipe).value();
  if (row == "sequence_parallel" || row == "split_products") return degrees.tensor > 1;
  if (row == "context_pieces") return degrees.context > 1;
  if (row == "schedule" || row == "stage_layers") return degrees.pipe > 1;
  if (row == "gather" || row == "prefetch") return CountSplit(job.recipe) == 3;
  return true;
}

void CheckNotLost(System system, const Job& base, const Job& changed, const Change& change) {
  INFO(std::string(SystemWord(system)) << " --" << change.row << "=" << change.value);
  if (!Acts(changed, change.row) || IsSameJob(base, changed)) return;
  const auto before = RoundFor(system, base), after = RoundFor(system, changed);
  if (!before.ok() || !after.ok()) return;  // it is refused, which is no silence
  const std::string text = JoinTexts(WriteFor(system, before->front().job));
  for (const Rounded& rounded : *after) {
    const bool said = JoinTexts(WriteFor(system, rounded.job)) != text;
    const bool listed = IsListed(rounded, change.row);
    const bool already = IsListed(before->front(), change.row);  // to the same value
    const bool here = FateIn(system, change.row).fate == Fate::kHere;
    CHECK((said || listed || already || here));
    // What is rounded once stays, and says so of nothing.
    const auto again = RoundFor(system, rounded.job);
    REQUIRE(again.ok());
    REQUIRE(again->size() == 1);
    const std::vector<Rounding> none;
    CHECK(again->front().roundings == none);
    CHECK(JoinTexts(WriteFor(system, again->front().job)) ==
          JoinTexts(WriteFor(system, rounded.job)));
  }
}

TEST_CASE("no choice is lost in silence") {
  const char* const meshes[] = {"--mesh=data=4", "--mesh=pipe=2,data=2,tensor=2",
                                "--mesh=data=2,context=2,tensor=2", "--mesh=data=2x2"};
  const char* const plans[] = {"", " --shard=weights"};
  for (const char* mesh : meshes) {
    for (const char* plan : plans) {
      const std::string flags = absl::StrCat(mesh, plan, " --batch=32 --micro_batches=4");
      const Job base = MakeJob(flags);
      INFO(flags);
      for (const Change& change : kChanges) {
        Job changed = base;
        // Values that follow from others are made anew.
        if (std::string_view(change.row) == "schedule") {
          changed = MakeJob(absl::StrCat(flags, " --schedule=", change.value));
        } else if (std::string_view(change.row) == "precision") {
          changed = MakeJob(flags + " --precision=f32");
        } else {
          REQUIRE(SetField(*FindRow(RecipeRows(), change.row), change.value, &changed.recipe).ok());
        }
        for (const System system : kSystems) CheckNotLost(system, base, changed, change);
      }
      for (const Change& change : kNumbers) {
        Job changed = base;
        changed.optimizer.set_lr_schedule(proto::Optimizer::LINEAR);
        const Job decays = changed;
        REQUIRE(
            SetField(*FindRow(OptimizerRows(), change.row), change.value, &changed.optimizer).ok());
        for (const System system : kSystems) CheckNotLost(system, decays, changed, change);
      }
    }
  }
}

TEST_CASE("what is rounded") {
  const Job zero = MakeJob(
      "--mesh=pipe=2,data=2,tensor=2 --batch=32 --micro_batches=4 --schedule=zero_bubble "
      "--shard=states --sequence_parallel --recompute=full:3/1,attention");
  CHECK(Rounded1(System::kMegatron, zero) ==
        "split_products: false -> true\nschedule: zero_bubble -> 1f1b\nwarm_ups: "
        "2+0,1+1 -> \nrecompute: "
        "full:3/1,attention -> full,gather\n");
  CHECK(Rounded1(System::kTorchtitan, zero) ==
        "split_products: false -> true\nshard: states -> weights\ngather: each_use -> once\n"
        "prefetch:  -> 1\nrecompute: full:3/1,attention -> full,gather\nfuse: true -> false\n");
  const Job unsharded = MakeJob("--mesh=pipe=2,tensor=2 --batch=8 --micro_batches=4");
  CHECK(Rounded1(System::kTorchtitan, unsharded).find("precision: bf16 -> f32\n") !=
        std::string::npos);
  const auto refused = RoundFor(System::kDeepSpeed, zero);
  CHECK(std::string(refused.status().message()) ==
        "--emit=deepspeed: DeepSpeed has no axis tensor under the Trainer of Hugging Face, which "
        "splits the batch alone; search with --fix=tensor=1, or use --emit=megatron");
  const Job data = MakeJob(
      "--mesh=data=4x2 --batch=32 --micro_batches=4 --shard=weights "
      "--prefetch=2 --fuse=false");
  CHECK(Rounded1(System::kDeepSpeed, data) == "mesh: data=4x2 -> data=8\n");
}

TEST_CASE("what is refused") {
  const auto message = [](System system, const Job& job) {
    return std::string(RoundFor(system, job).status().message());
  };
  Job job = MakeJob("--mesh=data=2 --batch=8");
  job.recipe.set_device(proto::CPU);
  CHECK(message(System::kMegatron, job).find("the plan is for CPUs") != std::string::npos);
  job = MakeJob("--mesh=data=2 --batch=8");
  job.recipe.set_purpose(proto::Recipe::EVALUATION);
  CHECK(message(System::kMegatron, job).find("is for a plan that trains") != std::string::npos);
  job = MakeJob("--mesh=data=3 --batch=8");
  CHECK(message(System::kMegatron, job).find("--batch=8") == 0);
  job = MakeJob("--mesh=rows=2 --batch=8");
  CHECK(message(System::kMegatron, job).find("--mesh: axis rows") == 0);
  job = MakeJob("--mesh=data=2 --batch=8", "family: 'gpt' preset: 'tiny'");
  CHECK(message(System::kTorchtitan, job).find("learned positions") != std::string::npos);
  const std::string decoder = std::string(kTiny) + " norms: 'both'";
  job = MakeJob("--mesh=data=2 --batch=8", decoder.c_str());
  for (const System system : {System::kMegatron, System::kBridge, System::kTorchtitan}) {
    CHECK(message(system, job) ==
          absl::StrCat("--emit=", ToAbsl(SystemWord(system)),
                       ": makes no configuration of a model with --norms=both; use another model"));
  }
  const std::string linear = std::string(kTiny) + " rope_scaling { kind: LINEAR factor: 8 }";
  job = MakeJob("--mesh=data=2 --batch=8", linear.c_str());
  CHECK(message(System::kTorchtitan, job).find("but those of Llama 3.1") != std::string::npos);
  CHECK(FindSystem("megatrom").status().message().find("did you mean megatron?") !=
        std::string::npos);
}

TEST_CASE("experts over a part of data") {
  const Job job = MakeJob("--mesh=data=4x2 --experts=data.1 --batch=32", kMixture);
  const auto nearest = RoundFor(System::kMegatron, job);
  REQUIRE(nearest.ok());
  const AxisDegrees degrees = FindDegrees(nearest->front().job.recipe).value();
  CHECK(degrees.data == 8);
  CHECK(degrees.expert == 2);
  const std::string text = JoinTexts(WriteFor(System::kMegatron, nearest->front().job));
  CHECK(text.find("--expert-model-parallel-size 2\n") != std::string::npos);
  CHECK(text.find("--moe-router-load-balancing-type seq_aux_loss") != std::string::npos);
}

TEST_CASE("policies of blocks") {
  const std::vector<int> slices = {3, 2};
  const auto full = [&](const char* text) {
    return FindFullCount(FindPolicies(MakeRecompute(text), slices));
  };
  CHECK(full("none") == 0);
  CHECK(full("full:1") == 1);
  CHECK(full("full:3") == 3);
  CHECK(full("full:2/1") == -1);
  CHECK(full("none:1,full") == -1);
  CHECK(full("full:1,attention") == -1);
  CHECK(AllHave(FindPolicies(MakeRecompute("selective,full:0"), slices), Policy::kSelective));
  const auto full_of = [&](const char* text, const std::vector<int>& classes) {
    return FindFullCount(FindPolicies(MakeRecompute(text), slices, classes));
  };
  CHECK(full_of("full@b", {0, 1, 0, 1, 0}) == -1);
  CHECK(full_of("full@b,none@a", {1, 0, 0, 1, 0}) == 1);
  CHECK(full_of("full@a,full@b", {0, 1, 0, 1, 0}) == 3);
}

TEST_CASE("a model whose blocks differ is refused where the system's files do not say it") {
  for (const System system : {System::kMegatron, System::kBridge, System::kTorchtitan}) {
    Job job = MakeJob("--mesh=data=2 --batch=16");
    REQUIRE(RoundFor(system, job).ok());
    job.model.mutable_blocks()->add_run()->set_count(1);
    job.model.mutable_blocks()->add_classes()->set_name("a");
    CHECK(RoundFor(system, job).status().message().find("has no pattern of blocks that differ") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace oneflow::foreign
