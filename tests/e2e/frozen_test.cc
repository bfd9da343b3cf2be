// Frozen variables: nothing trains them, and what is trained beside them has the bits it would
// have.
//
// A draw is a GPT or a Llama of which some variables are frozen. The first case compares gradients:
// after a step without a norm, weights and moments of a trained variable are a function of its
// gradient alone, so they equal those of the full model. The others compare plans of one model with
// one another: no stage, schedule, recompute, offload or split of weights at rest moves a bit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/verify/verify_plan.h"
#include "planning/simulate/model_rates.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

using Names = std::set<std::string>;

constexpr char kGpt[] = "family: 'gpt' layers: 4 heads: 2 hidden: 16 sequence: 8 vocab: 21 ";
constexpr char kLlama[] =
    "family: 'llama' layers: 4 hidden: 16 inner: 24 heads: 4 groups: 2 head_dim: 4 sequence: 8 "
    "vocab: 21 ";
constexpr char kExperts[] =
    "family: 'llama' layers: 2 hidden: 16 inner: 24 heads: 4 groups: 2 head_dim: 4 sequence: 8 "
    "vocab: 21 experts: 4 experts_per_token: 2 ";

Names Variables(const proto::Graph& graph) {
  Names names;
  for (const proto::Op& op : graph.op()) {
    if (op.kind() == "variable") names.insert(op.name());
  }
  return names;
}

void Freeze(const Names& frozen, proto::Graph* graph) {
  for (proto::Op& op : *graph->mutable_op()) {
    if (frozen.contains(op.name())) (*op.mutable_attr())["frozen"].set_b(true);
  }
}

SmallRun MakeRun(const std::string& model, const Names& frozen) {
  SmallRun run;
  run.model = MakeModel(model);
  run.edit = [model = run.model, frozen](proto::Graph* graph) {
    *graph = BuildModel(model);
    Freeze(frozen, graph);
  };
  run.steps = 3;
  return run;
}

// All variables but those whose names contain one of `trained`.
Names AllBut(const std::string& model, const std::vector<std::string>& trained) {
  Names frozen;
  for (const std::string& name : Variables(BuildModel(MakeModel(model)))) {
    const bool trains = std::any_of(trained.begin(), trained.end(), [&](const std::string& part) {
      return absl::StrContains(name, part);
    });
    if (!trains) frozen.insert(name);
  }
  return frozen;
}

Trained TrainAs(SmallRun run, const std::string& flags) {
  run.Set(flags);
  return TrainAndSave(run, CompileSmall(run));
}

const proto::Variable& Find(const proto::Plan& plan, const std::string& name) {
  const auto found = std::find_if(plan.variable().begin(), plan.variable().end(),
                                  [&](const proto::Variable& v) { return v.name() == name; });
  if (found == plan.variable().end()) throw std::runtime_error("no variable " + name);
  return *found;
}

// Every kernel of a step makes something that another reads, or that outlives the step.
void CheckAllRead(const proto::Plan& plan) {
  const proto::Program& train = *FindProgram(plan, "train");
  std::set<int> read;
  for (const proto::Actor& actor : train.actor()) {
    for (const proto::Input& in : actor.input()) read.insert(in.register_());
  }
  for (const proto::Actor& actor : train.actor()) {
    const bool used = actor.output().empty() ||
                      std::any_of(actor.output().begin(), actor.output().end(), [&](int id) {
                        return id < plan.persistent_size() || read.contains(id);
                      });
    INFO(actor.name() << " " << actor.kernel());
    CHECK(used);
  }
}

TEST_CASE("what is trained has the gradients of the full model, whatever else is frozen") {
  std::mt19937 random(20261130);
  struct Form {
    const char* model;
    const char* flags;
  };
  const Form forms[] = {{kGpt, ""},
                        {kGpt, "--loss_pieces=2"},
                        {kLlama, ""},
                        {kLlama, "--loss_pieces=2 --mesh=pipe=2 --schedule=zero_bubble"},
                        {kExperts, ""}};
  for (const Form& form : forms) {
    const std::string model =
        absl::StrCat(form.model, "tied: ", &form == forms || &form == forms + 3 ? "true" : "false");
    SmallRun full = MakeRun(model, {});
    full.steps = 1;
    const std::string flags = absl::StrCat("--global_norm=false ", form.flags);
    const Trained expected = TrainAs(full, flags);
    const Names all = Variables(BuildModel(full.model));
    for (int draw = 0; draw < 3; ++draw) {
      Names frozen;
      const unsigned share = 1 + random() % 9;
      for (const std::string& name : all) {
        if (random() % 10 < share) frozen.insert(name);
      }
      if (frozen.size() == all.size()) continue;
      SmallRun some = MakeRun(model, frozen);
      some.steps = 1;
      some.Set(flags);
      const proto::Plan plan = CompileSmall(some);
      CheckAllRead(plan);
      const Trained trained = TrainAndSave(some, plan);
      CHECK(trained.result.losses == expected.result.losses);
      for (const auto& [name, bytes] : trained.variables) {
        INFO(model << " " << name << ", frozen " << frozen.size());
        const std::string variable = name.substr(0, name.find('/'));
        if (frozen.contains(variable)) {
          CHECK(variable == name);  // it has no moments
        } else {
          CHECK(bytes == expected.variables.at(name));
        }
      }
      CHECK(trained.variables.size() == expected.variables.size() - 2 * frozen.size());
    }
  }
}

TEST_CASE("neither stages, schedule, recompute, offload nor split weights move a bit") {
  // Norms and the last blocks: the first stage of two or four has no backward.
  const Names frozen = AllBut(kLlama, {"h.2.attn.q", "h.3.", "h.2.norm"});
  const SmallRun run = MakeRun(kLlama, frozen);
  for (const char* precision :
       {"", "--precision=bf16", "--precision=bf16 --frozen_weights=f32 --residual=f32"}) {
    const Trained one = TrainAs(run, precision);
    CHECK(one.result.losses.back() < one.result.losses.front());
    for (const char* form :
         {"--mesh=pipe=2", "--mesh=pipe=4 --schedule=gpipe", "--mesh=pipe=2 --schedule=zero_bubble",
          "--mesh=pipe=2 --schedule=interleaved", "--recompute=full", "--recompute=selective",
          "--offload=weights", "--offload=states,weights --update_on=host",
          "--mesh=pipe=2 --offload=activations:all --recompute=full",
          "--loss_pieces=0 --fuse=false", "--mesh=pipe=4 --overlap=true"}) {
      INFO(precision << " " << form);
      CHECK(TrainAs(run, absl::StrCat(precision, " ", form)) == one);
    }
    const Trained two = TrainAs(run, absl::StrCat(precision, " --mesh=data=2"));
    for (const char* form :
         {"--shard=weights", "--shard=weights:data", "--shard=states", "--shard=gradients",
          "--shard=weights --gather=once", "--shard=weights:data --offload=weights"}) {
      INFO(precision << " " << form);
      const std::string flags = absl::StrCat(precision, " --mesh=data=2 ", form);
      const std::string reduced = absl::StrContains(form, "gradients") ||
                                          std::string(form).starts_with("--shard=weights ") ||
                                          std::string(form) == "--shard=weights"
                                      ? " --reduce=each_micro_batch"
                                      : "";
      const Trained expected =
          reduced.empty() ? two : TrainAs(run, absl::StrCat(precision, " --mesh=data=2", reduced));
      CHECK(TrainAs(run, flags) == expected);
    }
  }
}

TEST_CASE("a frozen weight that products read rests in bf16, with the bits of a cast") {
  for (const char* model : {kGpt, kLlama, kExperts}) {
    // A GPT adds positions to rows of its table in f32, which a table in bf16 moves.
    SmallRun run = MakeRun(absl::StrCat(model, "tied: true"),
                           AllBut(model, {"ln", "norm", model == kGpt ? "wte" : "norm"}));
    run.Set("--precision=bf16");
    const proto::Plan plan = CompileSmall(run);
    int narrow = 0;
    for (const proto::Variable& v : plan.variable()) {
      narrow += v.dtype() == proto::BF16 ? 1 : 0;
      if (v.dtype() == proto::BF16) CHECK(v.read_only());
      CHECK(!v.frozen());  // the graph has no base: a checkpoint holds all
      if (!v.read_only() || v.dtype() != proto::BF16) continue;
      for (const int id : v.register_()) {
        for (const proto::Actor& actor : FindProgram(plan, "train")->actor()) {
          const bool reads = std::any_of(actor.input().begin(), actor.input().end(),
                                         [&](const auto& in) { return in.register_() == id; });
          INFO(v.name() << " " << actor.name());
          CHECK(!(reads && actor.kernel() == "cast"));
        }
      }
    }
    CHECK(narrow > 5);
    const Trained rests = TrainAndSave(run, plan);
    const Given given = RunEveryProgram(run);
    CHECK((given.losses.size() == 2 && given.fetched.size() == 1));
    run.Set("--frozen_weights=f32");
    const Trained cast = TrainAndSave(run, CompileSmall(run));
    CHECK(rests.result == cast.result);
    for (const auto& [name, bytes] : cast.variables) {
      if (!Find(plan, name).read_only()) CHECK(rests.variables.at(name) == bytes);
    }
  }
}

TEST_CASE("a frozen variable takes the bytes of its weight, and no step writes it") {
  const Names frozen = AllBut(kLlama, {"ln", "norm"});
  SmallRun run = MakeRun(kLlama, frozen);
  run.Set("--precision=bf16");
  const proto::Plan plan = CompileSmall(run);
  int64_t expected = 0;
  for (const proto::Variable& v : plan.variable()) {
    int64_t elements = 1;
    for (const int64_t d : v.layout().dim()) elements *= d;
    const int64_t bytes = elements * (v.dtype() == proto::BF16 ? 2 : 4);
    expected += (bytes + 63) / 64 * 64;
  }
  CHECK(plan.memory(0).persistent_bytes() == expected);
  CHECK(ParameterCount(plan, /*trained=*/true) == 9 * 16);  // two gains a block, one at the end

  // An edited plan that updates one is refused.
  proto::Plan edited = plan;
  for (proto::Variable& v : *edited.mutable_variable()) v.set_read_only(true);
  CHECK_THAT(std::string(VerifyPlan(edited).message()),
             Catch::Contains("which is frozen") && Catch::Contains("program train"));
  edited = plan;
  edited.mutable_variable(0)->set_frozen(true);
  CHECK_THAT(std::string(VerifyPlan(edited).message()),
             Catch::Contains("is not saved, and the graph has no base"));
  edited.mutable_variable(0)->set_read_only(false);
  CHECK_THAT(std::string(VerifyPlan(edited).message()),
             Catch::Contains("is frozen but not read_only"));
}

// Of products and attention in a step, as MFU counts them.
double ModelFlops(const SmallRun& run) {
  return FindModelRates(CompileSmall(run), "train", run.cluster, /*step_seconds=*/1)->model_flops;
}

TEST_CASE("a product with a frozen weight counts twice in a step, not three times") {
  // The table is trained, which is before all: each product has a gradient of its input.
  const double full = ModelFlops(MakeRun(kLlama, {}));
  const double frozen = ModelFlops(MakeRun(kLlama, AllBut(kLlama, {"wte"})));
  double factors = 0;
  const proto::Graph graph = BuildModel(MakeModel(kLlama));
  for (const proto::Op& op : graph.op()) {
    double elements = op.kind() == "variable" && op.shape().dim_size() > 1 ? 1 : 0;
    for (const auto& dim : op.shape().dim()) elements *= static_cast<double>(dim.size());
    if (op.name() != "wte") factors += elements;
  }
  constexpr double kTokens = 8 * 8;  // sequences of a step, each of so many
  CHECK(full - frozen == 2 * factors * kTokens);
}

TEST_CASE("what a base has is not saved") {
  const Names frozen = AllBut(kLlama, {"ln", "norm"});
  SmallRun run = MakeRun(kLlama, frozen);
  const auto edit = run.edit;
  run.edit = [&edit](proto::Graph* graph) {
    edit(graph);
    graph->mutable_base()->set_path("/models/base");
    graph->mutable_base()->set_hash("0");
  };
  const proto::Plan plan = CompileSmall(run);
  Names saved, loaded;
  for (const auto& [program, names] :
       std::vector<std::pair<const char*, Names*>>{{"save", &saved}, {"load", &loaded}}) {
    for (const proto::Actor& actor : FindProgram(plan, program)->actor()) {
      if (actor.attr().contains("name")) names->insert(actor.attr().at("name").s());
    }
  }
  for (const proto::Variable& v : plan.variable()) {
    INFO(v.name());
    CHECK(v.frozen() == frozen.contains(v.name()));
    CHECK(saved.contains(v.name()) != v.frozen());
    CHECK(loaded.contains(v.name()));
  }
  // A plan that saves it all the same, or leaves out what is trained, is refused.
  proto::Plan edited = plan;
  for (proto::Variable& v : *edited.mutable_variable()) v.set_frozen(false);
  CHECK_THAT(std::string(VerifyPlan(edited).message()), Catch::Contains("0 times"));
}

}  // namespace
}  // namespace oneflow
