// Plans whose activations and weights rest in the host's memory: how many blocks wait for the link,
// whatever its speed, and that the proofs find faults that are planted.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "compiler/schedule/timed_game.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/net/byte_game.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

PlanRequest OffloadOptions(const std::string& mesh, const std::string& offload, int ahead,
                           const std::string& schedule) {
  return OptionsFor(mesh, 16, 8, schedule,
                    absl::StrCat("--overlap --prefetch=", ahead, " --offload=", offload));
}

proto::Plan Compiled(int layers, const PlanRequest& options) {
  const proto::Model model = MakeModel(absl::StrCat("family: 'gpt' layers: ", layers,
                                                    " heads: 2 hidden: 16 sequence: 16 vocab: 16"));
  absl::StatusOr<proto::Plan> plan = Compile(BuildModel(model), "gpt", options);
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

// The most blocks of a stage that take the device's memory for the link at once. What is received
// for a block has slots of its own, in which it comes ahead.
struct Waiting {
  int out = 0;  // from the first writing of what is copied out until it is copied
  int in = 0;   // from the first copy in until the last reader is done
};

// Where a copy takes so many seconds, and any other firing one.
Waiting CountWaiting(const proto::Plan& plan, int stage, double copy_seconds) {
  const proto::Program& program = plan.program(kTrain);
  const absl::StatusOr<PlanNet> net = MakePlanNet(plan, program);
  REQUIRE(net.ok());
  std::vector<double> seconds(program.actor_size(), 1);
  struct Moved {
    bool in = false;
    int block = 0, ends = 0;  // firings that end a fill
  };
  std::map<int, Moved> moved;  // by register of the device
  std::set<int> received;
  for (const proto::Actor& actor : program.actor()) {
    if (actor.kernel() == "receive") received.insert(actor.output().begin(), actor.output().end());
  }
  for (const proto::Actor& actor : program.actor()) {
    const bool in = actor.kernel() == "copy_in";
    if (!in && actor.kernel() != "copy_out") continue;
    seconds[actor.id()] = copy_seconds;
    const proto::ActorFacts& facts = FindFacts(plan.facts().program(kTrain), actor.id());
    const int reg = in ? actor.output(0) : actor.input(0).register_();
    if (actor.stage() != stage || !facts.has_block() || received.contains(reg)) continue;
    moved[reg] = {in, facts.block(), in ? 0 : 1};
  }
  for (const proto::Actor& actor : program.actor()) {
    for (const proto::Input& input : actor.input()) {
      const auto found = moved.find(input.register_());
      if (found != moved.end() && found->second.in) ++found->second.ends;
    }
  }
  REQUIRE_FALSE(moved.empty());
  std::map<int, int> left;                  // of the present fill, by register
  std::map<bool, std::map<int, int>> live;  // in or out: by block, the registers that are live
  Waiting most;
  const auto begin = [&](int actor, double) {
    for (const int output : program.actor(actor).output()) {
      const auto found = moved.find(output);
      if (found == moved.end()) continue;
      const auto& [in, block, ends] = found->second;
      left[output] += ends;
      ++live[in][block];
      int& of = in ? most.in : most.out;
      of = std::max(of, static_cast<int>(live[in].size()));
    }
  };
  const auto end = [&](int actor, double) {
    for (const proto::Input& input : program.actor(actor).input()) {
      const auto found = moved.find(input.register_());
      if (found == moved.end()) continue;
      const auto& [in, block, ends] = found->second;
      if (!in && program.actor(actor).kernel() != "copy_out") continue;
      if (--left[input.register_()] % ends != 0) continue;
      if (--live[in][block] == 0) live[in].erase(block);
    }
  };
  PlayByClock(*net, seconds, begin, end);
  CHECK(live[false].empty());
  CHECK(live[true].empty());
  return most;
}

TEST_CASE("credits hold d + 1 blocks that go out and 2 (d + 1) that come in, of any link") {
  constexpr int kBlocks = 8;  // of a stage
  for (const std::string schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble"}) {
    for (const char* offload : {"activations:all", "activations:all,weights"}) {
      for (const int ahead : {1, 2}) {
        const proto::Plan plan =
            Compiled(2 * kBlocks, OffloadOptions("pipe=2", offload, ahead, schedule));
        REQUIRE(VerifyPlan(plan).ok());
        for (int stage = 0; stage < 2; ++stage) {
          int out = 0, in = 0;
          for (const double copy_seconds : {0.0, 0.3, 1.0, 3.0, 20.0}) {
            const Waiting waiting = CountWaiting(plan, stage, copy_seconds);
            out = std::max(out, waiting.out), in = std::max(in, waiting.in);
          }
          INFO(schedule << ", " << offload << ", " << ahead << " ahead, stage " << stage << ": out "
                        << out << ", in " << in);
          // Each chunk has a ring. What W reads, too, has no place in one.
          CHECK(out <= (schedule == "interleaved" ? 2 : 1) * (ahead + 1));
          CHECK(in <= (schedule == "zero_bubble" ? kBlocks : 2 * (ahead + 1)));
          CHECK(out >= ahead + 1);
          CHECK(in >= ahead + 1);
        }
      }
    }
  }
}

// Says nothing of a plan that is right.
std::string Verdict(const PlanNet& net) {
  for (const absl::Status& status :
       {VerifyProgramTypes(net), VerifyLiveness(net), VerifyMemory(net)}) {
    if (!status.ok()) return std::string(status.message());
  }
  return "";
}

// A register's writer and one of its readers.
struct Join {
  int writer = 0, reader = 0, input = 0;
};

std::map<int, Join> FindCredits(const proto::Plan& plan, const std::string& stream) {
  const proto::Program& program = plan.program(kTrain);
  std::set<int> on_stream;
  for (const proto::Stream& s : program.stream()) {
    if (s.name() != stream) continue;
    for (const proto::OrderRun& run : s.order()) {
      for (const int id : run.segment()) {
        const auto& actors = program.segment(id).actor();
        on_stream.insert(actors.begin(), actors.end());
      }
    }
  }
  std::map<int, Join> credits;
  for (const proto::Actor& actor : program.actor()) {
    for (int i = 0; i < actor.input_size(); ++i) {
      const int reg = actor.input(i).register_();
      if (!FindRegister(plan, program, reg)->name().ends_with(".credit")) continue;
      credits[reg].reader = actor.id(), credits[reg].input = i;
    }
  }
  for (const proto::Actor& actor : program.actor()) {
    for (const int output : actor.output()) {
      if (credits.contains(output)) credits[output].writer = actor.id();
    }
  }
  std::erase_if(credits, [&](const auto& credit) {
    return !on_stream.contains(credit.second.writer) && !on_stream.contains(credit.second.reader);
  });
  return credits;
}

// Faults, of each kind as many as there are places for it.
struct Fault {
  std::string what;
  proto::Plan plan;
};

class Faults {
 public:
  explicit Faults(const proto::Plan& plan) : plan_(plan) {
    DropInitialFills();
    for (const char* stream : {"offload.out", "offload.in"}) MoveCredits(stream);
    TakeSlots();
    MoveCopies();
  }
  const std::vector<Fault>& all() const { return all_; }

 private:
  proto::Program* Add(const std::string& what) {
    all_.push_back({what, plan_});
    return all_.back().plan.mutable_program(kTrain);
  }

  // The first fill of each credit that has one is missing.
  void DropInitialFills() {
    for (const char* stream : {"offload.out", "offload.in"}) {
      for (const auto& [reg, join] : FindCredits(plan_, stream)) {
        const proto::Input& input = plan_.program(kTrain).actor(join.reader).input(join.input);
        if (input.initial_fills() == 0) continue;
        proto::Program* program = Add("no initial fill");
        program->mutable_actor(join.reader)->mutable_input(join.input)->set_initial_fills(0);
      }
    }
  }

  // The credit of one use is given by the writer of the next one's, or of the one before.
  void MoveCredits(const char* stream) {
    std::vector<std::pair<int, Join>> credits;
    for (const auto& [reg, join] : FindCredits(plan_, stream)) credits.emplace_back(reg, join);
    for (size_t k = 0; k + 1 < credits.size(); ++k) {
      for (const size_t from : {k, k + 1}) {
        proto::Program* program = Add(from == k ? "a credit too late" : "a credit too early");
        const int reg = credits[from].first;
        const int to = credits[from == k ? k + 1 : k].second.writer;
        auto* outputs = program->mutable_actor(credits[from].second.writer)->mutable_output();
        outputs->erase(std::find(outputs->begin(), outputs->end(), reg));
        program->mutable_actor(to)->add_output(reg);
      }
    }
  }

  // A register in the host's memory has a slot less.
  void TakeSlots() {
    const auto& registers = plan_.program(kTrain).register_();
    for (int r = 0; r < registers.size(); ++r) {
      if (registers[r].memory_kind() != proto::HOST || registers[r].slots() == 1) continue;
      proto::Register* taken = Add("a slot less")->mutable_register_(r);
      taken->set_slots(taken->slots() - 1);
    }
  }

  // A copy stands before the one before it.
  void MoveCopies() {
    const proto::Program& program = plan_.program(kTrain);
    for (int s = 0; s < program.segment_size(); ++s) {
      const auto& actors = program.segment(s).actor();
      for (int i = 0; i + 1 < actors.size(); ++i) {
        const std::string& kernel = program.actor(actors[i + 1]).kernel();
        if (kernel != "copy_in" && kernel != "copy_out") continue;
        Add("a copy too early")->mutable_segment(s)->mutable_actor()->SwapElements(i, i + 1);
      }
    }
  }

  const proto::Plan& plan_;
  std::vector<Fault> all_;
};

// Copies stand in one order and compute, exchanges and the host's update in others; together they
// must not wait in a ring, whichever passes have moved what.
TEST_CASE("drawn meshes, schedules and flags have a live plan") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const int draws = full ? 3000 : 150;
  std::mt19937 random(7);
  const auto draw = [&](std::initializer_list<const char*> of) {
    return std::string(of.begin()[random() % of.size()]);
  };
  for (int i = 0; i < draws; ++i) {
    const std::string mesh = draw({"data=2", "pipe=2", "tensor=2", "context=2", "pipe=2,data=2",
                                   "data=2,tensor=2", "pipe=2,tensor=2", "data=4"});
    const int micro_batches = 1 << random() % 3;
    const std::string schedule = draw({"1f1b", "gpipe", "zero_bubble", "interleaved"});
    std::string flags = "--recompute=" + draw({"none", "full", "selective"});
    flags += " --precision=" + draw({"f32", "bf16"}) + " --overlap=" + draw({"true", "false"}) +
             " --prefetch=" + draw({"auto", "1"}) +
             " --shard=" + draw({"none", "states", "gradients", "weights"});
    const std::string offload =
        draw({"none", "activations:all", "states", "weights", "activations:all,states,weights"});
    const std::string update_on = draw({"host", "host", "device"});
    if (offload == "none" && update_on == "device") continue;
    flags += " --offload=" + offload + " --update_on=" + update_on;
    if (mesh == "data=4" && micro_batches == 4) continue;
    CAPTURE(i, mesh, micro_batches, schedule, flags);
    Compiled(4, OptionsFor(mesh, 8, micro_batches, schedule, flags));
  }
}

TEST_CASE("the proofs refuse what brute force shows to be wrong") {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    PlanRequest options = OffloadOptions("1", "activations:all,states,weights", 1, schedule);
    options.recipe.set_batch(4);
    options.recipe.set_micro_batches(4);
    const proto::Plan plan = Compiled(4, options);
    const auto check = [](const proto::Plan& edited) {
      const auto net = MakePlanNet(edited, edited.program(kTrain));
      REQUIRE(net.ok());
      const std::string why = Verdict(*net);
      const std::string found = VerifyProgramTypes(*net).ok()
                                    ? FirstOverlap(*net, {.games = 2, .steps = 2, .seed = 5})
                                    : "";
      INFO("the proof: " << why << "\nthe game: " << found);
      if (!found.empty()) CHECK(why != "");
      return std::pair(!why.empty(), !found.empty());
    };
    CHECK(check(plan) == std::pair(false, false));
    std::map<std::string, std::tuple<int, int, int>> counts;  // by kind: all, refused, found
    const Faults faults(plan);
    const size_t every = std::getenv("ONEFLOW_TEST_FULL") != nullptr ? 1 : 3;
    for (size_t i = 0; i < faults.all().size(); i += every) {
      const Fault& fault = faults.all()[i];
      INFO(fault.what);
      const auto [refused, found] = check(fault.plan);
      auto& [all, of_proof, of_game] = counts[fault.what];
      ++all, of_proof += refused, of_game += found;
    }
    for (const auto& [what, count] : counts) {
      const auto& [all, refused, found] = count;
      INFO(schedule << ", " << what << ": " << all << ", refused " << refused << ", found "
                    << found);
      CHECK(refused > 0);
      if (what != "a credit too late") CHECK(found > 0);
      if (what == "no initial fill") CHECK(refused == all);
      if (what == "a slot less" || what == "a credit too early") CHECK(refused * 2 > all);
    }
    CHECK(counts.size() >= 4);
  }
}

}  // namespace
}  // namespace oneflow
