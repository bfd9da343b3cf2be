// What rests in the host's memory, and what the host's processors update, changes no bit: not of
// training, of whatever mesh, precision, schedule and split, nor of other programs, nor where one
// plan goes on with the checkpoint of another. Both arenas have the bytes that the plan says, and
// the device's have fewer.
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/verify/verify_plan.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

bool Full() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr; }

// Each alone and several together: flags.
std::vector<std::string> AllOffloads() {
  return {"--offload=activations:all",
          "--offload=states",
          "--offload=weights",
          "--offload=none --update_on=host",
          "--offload=activations:all,states,weights",
          "--offload=activations:all,weights --update_on=host",
          "--offload=activations:0.5,states",
          "--offload=activations"};
}

struct Setting {
  const char* mesh;
  const char* shard;
  proto::DataType precision;
  bool overlap;
  const char* schedule;
  const char* recompute;
};

// Each value of each column beside each value of each other, where both may be.
const std::vector<Setting> kSettings = {
    {"data=2", "weights", proto::BF16, true, "1f1b", "full"},
    {"pipe=2,tensor=2", "", proto::BF16, false, "gpipe", ""},
    {"pipe=2,data=2,tensor=2", "states", proto::F32, true, "interleaved", "selective"},
    {"", "", proto::F32, false, "1f1b", "selective"},
    {"pipe=2,data=2", "weights", proto::F32, false, "zero_bubble", ""},
    {"pipe=2,tensor=2", "", proto::BF16, true, "zero_bubble", "full"},
    {"pipe=2,data=2", "states", proto::F32, false, "gpipe", "full"},
    {"data=2,tensor=2", "states", proto::BF16, true, "1f1b", ""},
    {"pipe=2", "", proto::BF16, false, "interleaved", ""},
    {"pipe=2,data=2,tensor=2", "weights", proto::BF16, true, "gpipe", "selective"},
    {"pipe=2,data=2,tensor=2", "", proto::BF16, false, "1f1b", "full"},
    {"pipe=2,data=2,tensor=2", "weights", proto::BF16, true, "interleaved", "full"},
    {"pipe=2,data=2", "states", proto::F32, true, "zero_bubble", "selective"}};

SmallRun MakeRun(const Setting& setting) {
  SmallRun run;
  run.Set("mesh", setting.mesh);
  run.Set("shard", setting.shard);
  run.recipe.set_precision(setting.precision);
  run.recipe.set_overlap(setting.overlap);
  run.recipe.set_schedule(setting.schedule);
  run.Set("recompute", setting.recompute);
  if (run.Get("mesh").find("pipe") == std::string::npos) run.model.set_layers(2);
  run.Set("--batch=16");
  run.steps = 3;
  return run;
}

// Bytes that outlive programs, in the devices' memory.
int64_t PersistentBytes(const proto::Plan& plan) {
  int64_t bytes = 0;
  for (int stage = 0; stage < StageCount(plan); ++stage) {
    bytes += plan.memory(stage).persistent_bytes();
  }
  return bytes;
}

int64_t DeviceBytes(const proto::Plan& plan) {
  int64_t bytes = 0;
  for (int stage = 0; stage < StageCount(plan); ++stage) bytes += plan.memory(stage).arena_bytes();
  return bytes;
}

// Of moments, and of masters: variables that no micro-batch reads, but what is made of them once a
// step.
struct StateBytes {
  int64_t moments = 0, masters = 0;
};

StateBytes CountStates(const proto::Plan& plan) {
  const proto::Program& train = plan.program(1);
  REQUIRE(train.name() == "train");
  std::set<std::string> trained;
  std::set<int> read;
  for (const proto::Register& r : plan.persistent()) {
    if (r.name().ends_with("/m")) trained.insert(r.name().substr(0, r.name().size() - 2));
  }
  for (const proto::Actor& actor : train.actor()) {
    for (const proto::Input& input : actor.input()) {
      if (input.fires_per_read() == train.micro_batches()) read.insert(input.register_());
    }
  }
  StateBytes states;
  for (const proto::Register& r : plan.persistent()) {
    const int64_t bytes = r.slots() * r.slot_bytes();
    if (r.name().ends_with("/m") || r.name().ends_with("/v")) states.moments += bytes;
    if (trained.contains(r.name()) && !read.contains(r.id())) states.masters += bytes;
  }
  return states;
}

// Checks that runtimes allocate what plans say.
void CheckArenas(SmallRun* run) {
  run->before = [](const Runtime& runtime, const std::string&) {
    const proto::Plan& plan = runtime.plan();
    const int stages = StageCount(plan);
    for (int rank = 0; rank < runtime.ranks(); ++rank) {
      const int stage = rank * stages / runtime.ranks();
      CHECK(runtime.ArenaBytes(rank) == plan.memory(stage).arena_bytes());
      CHECK(runtime.HostArenaBytes(rank) == HostArenaBytes(plan, stage));
    }
  };
}

int64_t HostBytes(const proto::Plan& plan) {
  int64_t bytes = 0;
  for (int stage = 0; stage < StageCount(plan); ++stage) bytes += HostArenaBytes(plan, stage);
  return bytes;
}

// With every so many of AllOffloads.
void CheckBits(const SmallRun& run, size_t first, size_t every) {
  const proto::Plan plain = CompileSmall(run);
  REQUIRE(HostBytes(plain) == 0);
  const Trained expected = TrainAndSave(run, plain);
  REQUIRE(expected.result.losses.back() < expected.result.losses.front());
  const std::vector<std::string> all = AllOffloads();
  for (size_t i = first % every; i < all.size(); i += every) {
    SmallRun offloaded = run;
    offloaded.Set(all[i]);
    CheckArenas(&offloaded);
    INFO(all[i]);
    const proto::Plan plan = CompileSmall(offloaded);
    const Trained trained = TrainAndSave(offloaded, plan);
    CHECK(trained.result.losses == expected.result.losses);
    CHECK(trained.result.norms == expected.result.norms);
    CHECK(trained.variables == expected.variables);
    // As much as hides behind compute may be nothing.
    const bool may_be_none = all[i] == "--offload=activations";
    if (!may_be_none) CHECK(HostBytes(plan) > 0);
  }
}

TEST_CASE("Offloading changes no bit of training") {
  for (size_t i = 0; i < kSettings.size(); ++i) {
    const Setting& s = kSettings[i];
    INFO("mesh " << s.mesh << ", shard " << s.shard << ", precision " << s.precision << ", overlap "
                 << s.overlap << ", " << s.schedule << ", recompute " << s.recompute);
    CheckBits(MakeRun(s), i, Full() ? 1 : 4);
  }
}

TEST_CASE("so it is with one micro-batch, without a norm, where weights lag, and of experts") {
  for (const Setting& setting : {Setting{"", "", proto::F32, false, "1f1b", ""},
                                 Setting{"data=2", "states", proto::BF16, true, "1f1b", ""},
                                 Setting{"pipe=2,data=2", "", proto::F32, false, "1f1b", ""}}) {
    INFO(setting.mesh);
    SmallRun run = MakeRun(setting);
    run.Set("--global_norm=false");
    CheckBits(run, 1, 2);
    run = MakeRun(setting);
    run.Set("--batch=4 --micro_batches=1");
    run.steps = 4;
    CheckBits(run, 1, 2);
  }
  proto::Model config = MakeModel("family: 'llama'");
  config.set_layers(2), config.set_hidden(16), config.set_inner(12), config.set_heads(4),
      config.set_groups(4);
  config.set_head_dim(4), config.set_sequence(8), config.set_vocab(21);
  config.set_experts(4), config.set_experts_per_token(2), config.set_aux_loss_coeff(0.1);
  SmallRun run = MakeRun({"data=2", "", proto::F32, false, "1f1b", ""});
  run.edit = [config](proto::Graph* graph) { *graph = BuildModel(config); };
  CheckBits(run, 1, 2);
  run = MakeRun({"pipe=2", "", proto::F32, false, "2bw", ""});
  run.Set("--global_norm=false");
  run.steps = 2;
  CheckBits(run, 0, AllOffloads().size());  // activations: versions of weights stay
}

proto::Plan PlanWith(SmallRun run, const std::string& offload) {
  run.Set(offload);
  return CompileSmall(run);
}

TEST_CASE("What rests in the host's memory takes no bytes of devices that last") {
  for (const char* mesh : {"", "pipe=2,data=2"}) {
    for (const bool narrow : {false, true}) {
      for (const char* shard : {"", "states"}) {
        if (*shard != '\0' && *mesh == '\0') continue;
        INFO("mesh " << mesh << (narrow ? ", bf16" : ", f32") << ", shard " << shard);
        SmallRun run = MakeRun({mesh, shard, narrow ? proto::BF16 : proto::F32, false, "1f1b", ""});
        const proto::Plan plain = PlanWith(run, "");
        const int64_t all = PersistentBytes(plain);
        const StateBytes states = CountStates(plain);
        // In f32 products read variables; in bf16 they read casts, and parts are gathered.
        CHECK(states.moments > 0);
        CHECK((states.masters > 0) == (narrow || *shard != '\0'));
        CHECK(PersistentBytes(PlanWith(run, "--offload=activations:all")) == all);
        CHECK(PersistentBytes(PlanWith(run, "--offload=states")) ==
              all - states.moments - states.masters);
        CHECK(PersistentBytes(PlanWith(run, "--offload=weights --update_on=host")) == 0);
        CHECK(PersistentBytes(PlanWith(run, "--offload=none --update_on=host")) == 0);
        CHECK(PersistentBytes(PlanWith(run, "--offload=states,weights")) == 0);
      }
    }
  }
}

TEST_CASE("Activations that rest in the host's memory take fewer bytes of devices") {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    SmallRun run = MakeRun({"pipe=2", "", proto::F32, false, schedule, ""});
    run.model.set_layers(8), run.model.set_sequence(64);
    run.Set("--batch=16 --micro_batches=8");
    const int64_t plain = DeviceBytes(PlanWith(run, ""));
    const int64_t half = DeviceBytes(PlanWith(run, "--offload=activations:0.5"));
    const int64_t all = DeviceBytes(PlanWith(run, "--offload=activations:all"));
    INFO(schedule << ": " << plain << ", of half " << half << ", of all " << all);
    CHECK(half < plain);
    CHECK(all < half);
  }
}

TEST_CASE("Offloading changes no bit of programs that do not train") {
  const std::vector<std::string> few = {"--offload=weights", "--offload=weights --update_on=host",
                                        "--offload=activations:all,states,weights"};
  for (const char* mesh : {"", "pipe=2,tensor=2"}) {
    for (const bool narrow : {false, true}) {
      SmallRun run = MakeRun({mesh, "", narrow ? proto::BF16 : proto::F32, narrow, "1f1b", ""});
      const auto check = [&](const char* what) {
        const Given expected = RunEveryProgram(run);
        REQUIRE_FALSE(expected.fetched.empty());
        for (const std::string& offload : few) {
          INFO(what << ", mesh " << mesh << (narrow ? ", bf16, " : ", f32, ") << offload);
          SmallRun offloaded = run;
          offloaded.Set(offload);
          CheckArenas(&offloaded);
          CHECK(RunEveryProgram(offloaded) == expected);
        }
      };
      check("eval and generate");
      run.Set("--purpose=generation");
      check("prefill and decode");
      run.Set("--purpose=training");
      run.edit = [](proto::Graph* graph) { graph->clear_loss(); };
      check("run");
    }
  }
}

TEST_CASE("A plan goes on with the checkpoint of another") {
  struct Turn {
    std::string first, then;
  };
  const std::vector<Turn> turns = {{{}, "--offload=states"},
                                   {"--offload=states", "--offload=weights --update_on=host"},
                                   {"--offload=activations:all,states,weights", {}},
                                   {"--offload=weights --update_on=host", "--offload=weights"}};
  for (const Setting& setting : {Setting{"pipe=2", "", proto::F32, false, "1f1b", ""},
                                 Setting{"data=2", "states", proto::BF16, true, "1f1b", ""}}) {
    SmallRun run = MakeRun(setting);
    run.steps = 4;
    const Trained expected = TrainAndSave(run, PlanWith(run, ""));
    for (const Turn& turn : turns) {
      INFO(setting.mesh << ": " << turn.first << ", then " << turn.then);
      const Trained trained =
          TrainInTurns(run, 2, PlanWith(run, turn.first), PlanWith(run, turn.then));
      CHECK(trained.result.losses == expected.result.losses);
      CHECK(trained.result.norms == expected.result.norms);
      CHECK(trained.variables == expected.variables);
    }
  }
}

// Of a program, that `is` of; null: none is.
proto::Actor* FindActor(proto::Program* program,
                        const std::function<bool(const proto::Actor&)>& is) {
  for (proto::Actor& actor : *program->mutable_actor()) {
    if (is(actor)) return &actor;
  }
  return nullptr;
}

proto::Register* MutableRegister(proto::Plan* plan, proto::Program* program, int id) {
  const int own = id - plan->persistent_size();
  return own < 0 ? plan->mutable_persistent(id) : program->mutable_register_(own);
}

// The last input that holds data: an old value, where some are read apart.
int FindOld(proto::Plan* plan, proto::Program* program, const proto::Actor& update) {
  int i = update.input_size() - 1;
  while (MutableRegister(plan, program, update.input(i).register_())->slot_bytes() == 0) --i;
  return i;
}

TEST_CASE("Updates and copies that were edited are refused") {
  const SmallRun run = MakeRun({"data=2", "", proto::F32, false, "1f1b", ""});
  const proto::Plan good = PlanWith(run, "--offload=activations:all,states");
  REQUIRE(VerifyPlan(good).ok());
  const auto updates = [](const proto::Actor& actor) { return actor.kernel() == "adamw"; };
  const auto copies = [](const proto::Actor& actor) { return actor.kernel() == "copy_out"; };
  using Ints = google::protobuf::RepeatedField<int64_t>;
  struct Edit {
    std::function<void(proto::Plan*, proto::Program*, proto::Actor* update, Ints* apart)> make;
    std::string refusal;
  };
  const std::vector<Edit> edits = {
      {[](auto*, auto*, auto*, Ints* apart) { apart->Set(0, 3); }, "updates no output 3"},
      {[](auto*, auto*, auto*, Ints* apart) { apart->Set(0, -1); }, "updates no output -1"},
      {[](auto*, auto*, auto*, Ints* apart) { apart->Set(1, apart->Get(0)); }, "twice"},
      {[](proto::Plan* plan, proto::Program* train, proto::Actor* update, auto*) {
         update->mutable_input()->DeleteSubrange(FindOld(plan, train, *update), 1);
       },
       "differ in type"},
      {[](auto*, auto*, auto*, Ints* apart) { apart->Clear(); }, "which is filled afresh"},
      {[](auto*, auto*, auto*, Ints* apart) { apart->Add(0), apart->Add(1), apart->Add(2); },
       "twice"},
      {[](auto*, auto*, proto::Actor* update, auto*) {
         (*update->mutable_attr())["apart"].set_i(1);
       },
       "which is filled afresh"},
      {[](proto::Plan* plan, proto::Program* train, proto::Actor* update, Ints* apart) {
         const int old = update->input(FindOld(plan, train, *update)).register_();
         update->set_output(static_cast<int>(apart->Get(1)), old);
       },
       "two writers"},
      {[&](auto*, proto::Program* train, auto*, auto*) {
         FindActor(train, copies)->set_kernel("copy_in");
       },
       "in memory of kind"},
      {[&](proto::Plan* plan, proto::Program* train, auto*, auto*) {
         const int to = FindActor(train, copies)->output(0);
         MutableRegister(plan, train, to)->set_memory_kind(proto::DEVICE);
       },
       "in memory of kind"},
      {[&](proto::Plan* plan, proto::Program* train, auto*, auto*) {
         const int to = FindActor(train, copies)->output(0);
         proto::Register* r = MutableRegister(plan, train, to);
         REQUIRE(r->layout().dim_size() == 3);
         r->mutable_layout()->mutable_dim()->SwapElements(1, 2);
       },
       "which has another layout"}};
  for (size_t i = 0; i < edits.size(); ++i) {
    proto::Plan plan = good;
    proto::Program* train = plan.mutable_program(1);
    proto::Actor* update = FindActor(train, updates);
    REQUIRE(update != nullptr);
    REQUIRE(update->attr().at("apart").ints().value_size() == 2);
    edits[i].make(&plan, train, update,
                  (*update->mutable_attr())["apart"].mutable_ints()->mutable_value());
    const std::string why(VerifyPlan(plan).message());
    INFO("edit " << i);
    CHECK_THAT(why, Catch::Contains(edits[i].refusal));
  }
}

}  // namespace
}  // namespace oneflow
