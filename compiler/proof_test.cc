// The proof has teeth: plans of the compiler pass it, and every plan that was made a little worse
// by hand is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "compiler/memory/lifetimes.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

proto::Plan TrainPlan(const std::string& mesh, int micro_batches = 4,
                      const std::string& schedule = "1f1b", proto::DataType precision = proto::F32,
                      proto::DeviceKind device = proto::CPU) {
  PlanRequest options = OptionsFor(mesh, 16, micro_batches, schedule);
  options.recipe.set_precision(precision);
  options.recipe.set_device(device);
  proto::Plan plan = Compile(BuildModel(SmallGpt()), "gpt", options).value();
  REQUIRE(plan.program(kTrain).name() == "train");
  return plan;
}

std::string Verdict(const proto::Plan& plan) {
  const absl::Status status = VerifyPlan(plan);
  return status.ok() ? "good" : std::string(ToStd(status.message()));
}

// Whether one stream alone touches a register: then its lifetime is exactly what FindLifetimes
// says. (Of others the planner knows less than the proof, which may rightly find a shared byte
// safe.)
bool OnOneStream(const PlanNet& net, int reg) {
  const NetRegister& r = net.registers[reg];
  for (const NetReader& reader : r.readers) {
    if (net.actors[reader.actor].stream != net.actors[r.writer].stream) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("two registers of one lifetime in the same bytes are refused") {
  for (const char* mesh : {"", "tensor=2", "pipe=2,data=2"}) {
    const proto::Plan good = TrainPlan(mesh);
    const auto net = MakePlanNet(good, good.program(kTrain));
    const auto lifetimes = FindLifetimes(*net, good.memory_size());
    for (const StageLifetimes& lives : lifetimes) {
      std::vector<Spans> spans;
      for (const Lifetime& life : lives.registers) spans.push_back(life.spans);
      const Pairs meetings = FindOverlaps(spans);
      int tried = 0;
      // A sample of pairs: neighbours at growing distance.
      const size_t n = lives.registers.size();
      for (size_t i = 0; i < n * n && tried < 40; ++i) {
        const size_t a = i % n, b = (a + 1 + i / n * 9) % n;
        if (a == b || !OnOneStream(*net, lives.registers[a].reg) ||
            !OnOneStream(*net, lives.registers[b].reg))
          continue;
        if (!meetings.Contains(a, b)) continue;
        proto::Plan plan = good;
        auto& registers = *plan.mutable_program(kTrain)->mutable_register_();
        proto::Register& moved = registers[lives.registers[a].reg - plan.persistent_size()];
        const proto::Register& other = registers[lives.registers[b].reg - plan.persistent_size()];
        if (moved.buffers() > 0 && other.buffers() > 0) continue;  // of frames: places_test
        if (moved.slot_bytes() * moved.slots() > other.slot_bytes() * other.slots()) continue;
        moved.set_offset(other.offset());
        INFO("mesh " << mesh << ": " << moved.name() << " over " << other.name());
        CHECK(Verdict(plan) != "good");
        ++tried;
      }
      CHECK(tried > 10);
    }
  }
}

TEST_CASE("a slot less than a stream's own order needs is refused") {
  const proto::Plan good = TrainPlan("pipe=2");
  const auto net = MakePlanNet(good, good.program(kTrain));
  int tried = 0;
  for (const NetRegister& r : net->registers) {
    if (r.persistent || r.proto->slots() < 2 || r.readers.empty()) continue;
    if (!OnOneStream(*net, r.proto->id())) continue;
    proto::Plan plan = good;
    plan.mutable_program(kTrain)
        ->mutable_register_(r.proto->id() - plan.persistent_size())
        ->set_slots(r.proto->slots() - 1);
    INFO(r.proto->name());
    CHECK(Verdict(plan).find("can stop for ever") != std::string::npos);
    ++tried;
  }
  CHECK(tried > 5);
}

namespace {

// What is done to the first actor of a kernel, in the program for training or else in another.
struct Edit {
  std::string kernel;
  std::function<void(proto::Plan*, proto::Actor*)> make;
  std::string refusal;
};

proto::Actor* FindFirst(const std::string& kernel, proto::Plan* plan) {
  const int programs = plan->program_size();
  for (int p = 0; p < programs; ++p) {
    for (proto::Actor& actor : *plan->mutable_program((kTrain + p) % programs)->mutable_actor()) {
      if (actor.kernel() == kernel) return &actor;
    }
  }
  FAIL("no actor with kernel " << kernel);
  return nullptr;
}

// An actor of the device alone, which its stage does not issue any more.
void MakeLocal(proto::Plan* plan, proto::Actor* actor) {
  actor->clear_exchange();
  for (proto::IssueOrder& issue : *plan->mutable_program(kTrain)->mutable_issue()) {
    for (proto::ActorRun& run : *issue.mutable_run()) {
      auto& actors = *run.mutable_actor();
      actors.erase(std::remove(actors.begin(), actors.end(), actor->id()), actors.end());
    }
  }
}

void CheckEach(const proto::Plan& good, const std::vector<Edit>& edits) {
  for (const Edit& edit : edits) {
    proto::Plan plan = good;
    edit.make(&plan, FindFirst(edit.kernel, &plan));
    const std::string verdict = Verdict(plan);
    INFO(edit.kernel << ": " << verdict);
    CHECK(verdict.find(edit.refusal) != std::string::npos);
  }
}

}  // namespace

// NCCL sums whole tensors straight from register to register; short rows it needs packed.
TEST_CASE("on GPUs exchanges have the windows that NCCL needs, and no less is good") {
  const proto::Plan good =
      TrainPlan("data=2,tensor=2", 4, "1f1b", proto::F32, /*device=*/proto::CUDA);
  CHECK(Verdict(good) == "good");
  int with = 0, without = 0;
  for (int a = 0; a < good.program(kTrain).actor_size(); ++a) {
    const proto::Actor& actor = good.program(kTrain).actor(a);
    if (!actor.has_exchange()) continue;
    INFO(actor.name());
    if (!actor.has_workspace()) {
      ++without;
      continue;
    }
    ++with;
    proto::Plan plan = good;
    plan.mutable_program(kTrain)->mutable_actor(a)->clear_workspace();
    CHECK(Verdict(plan).find("its window needs") != std::string::npos);
  }
  CHECK(with > 0);
  CHECK(without > 0);
}

TEST_CASE("an actor that does not suit its kernel is refused") {
  const auto output = [](proto::Plan* plan, const proto::Actor& actor) {
    const int id = actor.output(0) - plan->persistent_size();
    return plan->mutable_program(kTrain)->mutable_register_(id);
  };
  const auto set = [](proto::Actor* actor, const std::string& attr, const std::string& value) {
    (*actor->mutable_attr())[attr].set_s(value);
  };
  const auto split_more = [&](auto* p, auto* a) {
    proto::Register* y = output(p, *a);
    proto::Layout::Split* split = y->mutable_layout()->add_split();
    split->set_dim(1), split->set_axis(1);
    y->set_slot_bytes(y->slot_bytes() / 2);
  };
  CheckEach(
      TrainPlan("data=2,tensor=2"),
      {
          {"row_max", [](auto*, auto* a) { a->set_kernel("max"); }, "there is no kernel \"max\""},
          {"row_max", [](auto*, auto* a) { a->set_kernel(""); }, "has no kernel, but touches data"},
          {"row_max", [](auto*, auto* a) { a->set_kernel("linear"); },
           "takes 2 to 3 inputs, not 1"},
          {"row_max", [](auto*, auto* a) { a->set_kernel("sum_squares"); },
           "but kernel sum_squares gives"},
          {"linear", [](auto*, auto* a) { (*a->mutable_attr())["contract"].set_i(7); }, "contract"},
          {"linear", [](auto*, auto* a) { (*a->mutable_attr())["contract"].set_s("x"); },
           "a string"},
          {"linear", [](auto*, auto* a) { a->clear_workspace(); }, "bytes of workspace"},
          {"all_reduce", [](auto*, auto* a) { a->clear_workspace(); }, "its window needs"},
          {"adamw", [](auto*, auto* a) { a->mutable_output()->RemoveLast(); },
           "writes 2 registers"},
          {"adamw", [](auto*, auto* a) { a->mutable_input()->DeleteSubrange(0, 2); }, "not 3"},
          {"linear", [](auto*, auto* a) { a->mutable_boxing(); }, "boxing has one input"},
          {"row_max", [](auto*, auto* a) { a->mutable_boxing(); },
           "reads [4,16,64], writes [4,16]"},
          {"all_reduce", [](auto*, auto* a) { a->set_kernel("gelu"), a->clear_attr(); },
           "kernel gelu is no exchange"},
          {"all_reduce", [](auto*, auto* a) { a->set_kernel("slice"); },
           "kernel slice is no exchange"},
          {"all_reduce", [](auto* p, auto* a) { MakeLocal(p, a); },
           "reduces along axis 1, which is not its group's"},
          {"all_reduce",
           [](auto* p, auto* a) {
             MakeLocal(p, a);
             a->mutable_boxing()->clear_reduce(), a->mutable_boxing()->clear_reduce_axis();
           },
           "kernel all_reduce needs a group"},
          {"all_reduce",
           [](auto*, auto* a) { a->mutable_boxing()->set_reduce(proto::Boxing::MAX); },
           "takes the maximum along axis tensor of what"},
          {"all_reduce", [](auto*, auto* a) { a->set_kernel("reduce_scatter"); },
           "does not go between its layouts as reduce_scatter does"},
          {"layer_norm", [](auto*, auto* a) { a->mutable_exchange(); },
           "kernel layer_norm is no exchange"},
          {"row_max", [](auto*, auto* a) { a->set_kernel("transfer"); }, "there is no kernel"},
          {"load_tokens", [](auto*, auto* a) { a->clear_attr(); }, "has no attribute"},
          {"row_max", [&](auto* p, auto* a) { output(p, *a)->set_slot_bytes(0); },
           "slots of 0 bytes"},
          {"row_max", [&](auto* p, auto* a) { output(p, *a)->mutable_layout()->clear_split(); },
           "bytes"},
          {"row_max",
           [&](auto* p, auto* a) { output(p, *a)->mutable_layout()->mutable_split(0)->set_dim(1); },
           "split as they are by axis data"},
          {"report", [&](auto* p, auto*) { p->set_kernel_threads(5000); }, "5000 threads"},
          {"report", [&](auto* p, auto*) { p->mutable_program(kTrain)->set_steps_a_round(2); },
           "times in 2 steps of 4 micro-batches"},
          {"row_max", [](auto*, auto* a) { a->set_kernel("variable"); }, "there is no kernel"},
          {"row_max", [&](auto* p, auto* a) { output(p, *a)->set_dtype(proto::I32); },
           "but kernel row_max gives f32"},
          {"linear",
           [&](auto* p, auto* a) {
             output(p, *a)->mutable_layout()->mutable_split()->SwapElements(0, 1);
           },
           "is not split in the order of the mesh axes"},
          {"layer_norm", split_more, "kernel layer_norm cannot compute with its tensors split"},
          {"adamw",
           [](auto* p, auto* a) {
             p->mutable_persistent(a->output(0))->set_fill_mode(proto::Register::FRESH);
           },
           "which is filled afresh"},
          {"all_reduce",
           [](auto*, auto* a) {
             a->mutable_boxing()->set_reduce(static_cast<proto::Boxing::Reduce>(7));
           },
           "reduction 7 is not known"},
          {"report",
           [](auto* p, auto* a) { *a->mutable_input(0) = FindFirst("adamw", p)->input(0); },
           "which is no floating point scalar"},
          {"report", [](auto*, auto* a) { *a->add_input() = proto::Input(a->input(1)); },
           "reports 3 scalars"},
          {"load_tokens", [&](auto*, auto* a) { set(a, "source", "feed"); },
           "no tokens, but a feed"},
          {"init_variable", [&](auto*, auto* a) { set(a, "init", "nonsense"); }, "\"nonsense\""},
          {"init_variable", [&](auto*, auto* a) { set(a, "name", "x"); }, "does not hold variable"},
          {"save_slice", [&](auto*, auto* a) { set(a, "name", "x"); }, "does not hold variable"},
          {"save_slice",
           [](auto*, auto* a) {
             (*a->mutable_attr())["replicated_axes"].mutable_ints()->add_value(2);
           },
           "is replicated along axis 2"},
      });
}

TEST_CASE("an actor that does not make the next version of a variable is refused") {
  const std::string refusal = "does not make the next version of";
  CheckEach(
      TrainPlan("pipe=2", 4, "2bw"),
      {{"next_adamw", [](auto*, auto* a) { a->mutable_input(0)->set_initial_fills(2); }, refusal},
       {"next_adamw",
        [](auto* p, auto* a) {
          p->mutable_persistent(a->output(2))->set_fill_mode(proto::Register::ACCUMULATE);
        },
        "adds to some of its outputs and overwrites others"},
       {"next_adamw", [](auto*, auto* a) { a->mutable_input(0)->set_register_(a->output(0)); },
        refusal}});
}

TEST_CASE("a sum over micro-batches that overwrites is refused") {
  proto::Plan plan = TrainPlan("data=2");
  int tried = 0;
  for (proto::Register& r : *plan.mutable_program(kTrain)->mutable_register_()) {
    if (r.fill_mode() != proto::Register::ACCUMULATE || r.fires_per_fill() == 1) continue;
    r.set_fill_mode(proto::Register::FRESH);
    CHECK_THAT(Verdict(plan), Catch::Contains("(" + r.name() + "): takes 4 firings a fill"));
    r.set_fill_mode(proto::Register::ACCUMULATE);
    ++tried;
  }
  CHECK(tried > 10);
  CHECK(Verdict(plan) == "good");
}

TEST_CASE("a sum over micro-batches of a kernel that only overwrites is refused") {
  // The loss of each micro-batch is read once a step, so it may be any kernel's by its rates.
  proto::Plan plan = TrainPlan("", 4, "1f1b", proto::BF16);
  const proto::Program& train = plan.program(kTrain);
  const PlanNet net = *MakePlanNet(plan, train);
  int products = 0;
  for (const proto::Actor& actor : train.actor()) {
    if (actor.kernel() != "linear_grad_weight") continue;
    proto::Plan edited = plan;
    const int id = actor.output(0) - plan.persistent_size();
    proto::Register& r = *edited.mutable_program(kTrain)->mutable_register_(id);
    if (r.fires_per_fill() == 1) continue;
    r.set_dtype(proto::BF16);
    r.set_slot_bytes((r.slot_bytes() / 2 + 63) / 64 * 64);
    CHECK_THAT(Verdict(edited), Catch::Contains("linear_grad_weight does not add to bf16"));
    if (++products == 3) break;
  }
  CHECK(products == 3);
  // Rates aside: what the kernel does comes first.
  for (const proto::Actor& actor : train.actor()) {
    if (actor.kernel() != "layer_norm") continue;
    for (const int output : actor.output()) {
      proto::Register& r =
          *plan.mutable_program(kTrain)->mutable_register_(output - plan.persistent_size());
      r.set_fill_mode(proto::Register::ACCUMULATE);
    }
    CHECK(Verdict(plan) == "good");  // of one firing a fill
    break;
  }
}

TEST_CASE("an actor fills all of its outputs in one way") {
  proto::Plan plan = TrainPlan("");
  int tried = 0;
  for (const proto::Actor& actor : plan.program(kTrain).actor()) {
    if (actor.output_size() < 2 || actor.output(1) < plan.persistent_size() || tried == 4) continue;
    for (const int output : {actor.output(0), actor.output(1)}) {
      proto::Plan edited = plan;
      edited.mutable_program(kTrain)
          ->mutable_register_(output - plan.persistent_size())
          ->set_fill_mode(proto::Register::ACCUMULATE);
      CHECK_THAT(Verdict(edited),
                 Catch::Contains("actor " + actor.name() + ": adds to some of its outputs"));
    }
    ++tried;
  }
  CHECK(tried == 4);
}

TEST_CASE("a program whose micro-batches are not the plan's is refused") {
  for (const std::string schedule : {"1f1b", "2bw"}) {
    const proto::Plan good = TrainPlan("pipe=2,data=2", 4, schedule);
    for (int i = 0; i < good.program_size(); ++i) {
      const bool takes = good.program(i).name() != "init" && good.program(i).name() != "save" &&
                         good.program(i).name() != "load";
      INFO(schedule << ", program " << good.program(i).name());
      for (const int64_t edit : {-1, 1}) {
        proto::Plan plan = good;
        plan.mutable_program(i)->set_micro_batches(good.program(i).micro_batches() + edit);
        CHECK(Verdict(plan) != "good");
        plan = good;
        plan.mutable_program(i)->set_micro_batch_size(good.program(i).micro_batch_size() + edit);
        CHECK((Verdict(plan) != "good") == takes);
      }
    }
    proto::Plan plan = good;
    plan.mutable_recipe()->set_batch(32);
    CHECK(Verdict(plan) != "good");
    plan = good;
    plan.mutable_recipe()->set_micro_batches(2);
    CHECK(Verdict(plan) != "good");
  }
}

TEST_CASE("what is fetched is of a type that files have") {
  CheckEach(TrainPlan("", 4, "1f1b", proto::BF16),
            {{"fetch",
              [](auto* p, auto* a) {
                for (const proto::Program& program : p->program()) {
                  if (program.name() != "generate") continue;
                  for (const proto::Register& r : program.register_()) {
                    if (r.dtype() == proto::BF16) a->mutable_input(0)->set_register_(r.id());
                  }
                }
              },
              "which is bf16"}});
}

TEST_CASE("two segments of an order exchanged are refused or still safe, never a crash") {
  const proto::Plan good = TrainPlan("pipe=2");
  int refused = 0;
  for (int s = 0; s < good.program(kTrain).stream_size(); ++s) {
    proto::Plan plan = good;
    auto& order = *plan.mutable_program(kTrain)->mutable_stream(s)->mutable_order();
    for (int i = 0; i < order.size() / 2; ++i) order.SwapElements(i, order.size() - 1 - i);
    refused += Verdict(plan) != "good";
  }
  CHECK(refused >= 2);  // at least both compute streams
}

TEST_CASE("exchanges issued in the reverse order are refused or still safe, never a crash") {
  const proto::Plan good = TrainPlan("pipe=2,data=2");
  REQUIRE(good.program(kTrain).issue_size() == 2);
  for (int stage = 0; stage < 2; ++stage) {
    proto::Plan plan = good;
    auto& runs = *plan.mutable_program(kTrain)->mutable_issue(stage)->mutable_run();
    std::reverse(runs.begin(), runs.end());
    CHECK_THAT(Verdict(plan), Catch::Contains("can stop for ever"));
  }
}

TEST_CASE("bytes depend on what streams of a device tell each other") {
  const proto::Plan good = TrainPlan("pipe=2,data=2", /*micro_batches=*/8);
  const auto is_control = [&](const proto::Input& input) {
    const int id = input.register_() - good.persistent_size();
    return id >= 0 && good.program(kTrain).register_(id).slot_bytes() == 0;
  };
  std::vector<int> hearing;  // actors that wait for a token
  for (const proto::Actor& actor : good.program(kTrain).actor()) {
    if (std::any_of(actor.input().begin(), actor.input().end(), is_control)) {
      hearing.push_back(actor.id());
    }
  }
  // What comes back in the backward and what comes next in the forward, and in each stage's update.
  REQUIRE(hearing.size() == 4);
  // What is not refused for its bytes is not refused at all.
  const auto safe_without = [&](const std::vector<int>& deaf) {
    proto::Plan plan = good;
    for (const int id : deaf) {
      auto& inputs = *plan.mutable_program(kTrain)->mutable_actor(id)->mutable_input();
      inputs.erase(std::remove_if(inputs.begin(), inputs.end(), is_control), inputs.end());
    }
    const std::string verdict = Verdict(plan);
    INFO(verdict);
    CHECK((verdict == "good" || verdict.find("share bytes") != std::string::npos ||
           verdict.find("has overwritten it") != std::string::npos));
    return verdict == "good";
  };
  // Where nothing is laid into what was sent, its token is no loss.
  int needed = 0;
  for (const int actor : hearing) needed += !safe_without({actor});
  CHECK(needed >= 3);
  CHECK_FALSE(safe_without(hearing));
}

TEST_CASE("an exchange of another group is refused") {
  const proto::Plan good = TrainPlan("pipe=2,data=2,tensor=2");
  int tried = 0;
  for (const proto::Actor& actor : good.program(kTrain).actor()) {
    if (!actor.has_exchange()) continue;
    for (int group = 0; group < good.group_size(); ++group) {
      if (group == actor.exchange().group()) continue;
      proto::Plan plan = good;
      plan.mutable_program(kTrain)->mutable_actor(actor.id())->mutable_exchange()->set_group(group);
      INFO(actor.name() << " " << actor.kernel() << ": " << good.group(group).name());
      CHECK(Verdict(plan) != "good");
      ++tried;
    }
  }
  CHECK(tried > 50);
}

}  // namespace oneflow
