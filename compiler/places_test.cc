// Where fills lie, against brute force: plans are played in random legal orders, every live fill
// takes its bytes, and no two may overlap. It knows no clocks and no lifetimes, only tokens.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "oneflow_core/model/gpt.h"
#include "oneflow_core/plan/marking.h"
#include "oneflow_core/plan/places.h"
#include "oneflow_core/plan/verify_liveness.h"
#include "oneflow_core/plan/verify_memory.h"
#include "oneflow_core/plan/verify_types.h"

namespace oneflow {
namespace {

constexpr int kTrain = 1;      // place of the program in the plan
constexpr int64_t kSteps = 4;  // so that places drift from step to step

struct Case {
  const char *mesh, *schedule;
  int micro_batches;
};
// Among them micro-batches that are no multiple of those in flight, and no more than stages.
constexpr Case kCases[] = {{"pipe=4", "1f1b", 7},          {"pipe=3,data=2", "1f1b", 8},
                           {"pipe=2,tensor=2", "1f1b", 5}, {"pipe=2", "interleaved", 6},
                           {"pipe=3", "zero_bubble", 7},   {"pipe=2", "gpipe", 3},
                           {"pipe=4", "1f1b", 4},          {"pipe=3,data=2", "1f1b", 2}};

proto::Plan TrainPlan(const Case& c) {
  GptConfig config;
  config.layers = 4, config.heads = 2, config.hidden = 16, config.sequence = 8, config.vocab = 32;
  CompileOptions options;
  options.mesh = *ParseMesh(c.mesh);
  options.train.set_batch(4 * c.micro_batches);
  options.train.set_micro_batches(c.micro_batches);
  options.train.set_schedule(c.schedule);
  absl::StatusOr<proto::Plan> plan = Compile(BuildGpt(config), "gpt", options);
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

int Framed(const proto::Plan& plan) {
  int framed = 0;
  for (const proto::Register& r : plan.program(kTrain).register_()) framed += LiesApart(r);
  return framed;
}

// A legal game that keeps the bytes of live fills. A fill is live from the first firing of its
// writer until its readers have returned it.
class ByteGame {
 public:
  ByteGame(const PlanNet& net, uint32_t seed) : net_(net), marking_(net, kSteps), random_(seed) {
    taken_.resize(net.plan->memory_size());
    live_.resize(net.registers.size());
  }

  // The first two registers that overlap; empty: none did.
  std::string Play() {
    std::vector<int> going;
    for (size_t s = 0; s < net_.streams.size(); ++s) going.push_back(static_cast<int>(s));
    while (!going.empty()) {
      // One stream runs ahead of the others as far as chance will have it.
      const int s = going[random_() % going.size()];
      for (int n = 1 + static_cast<int>(random_() % 40); n > 0 && overlap_.empty(); --n) {
        if (marking_.done(s) || marking_.BlockerOf(marking_.next(s))) break;
        Fire(s);
      }
      if (!overlap_.empty()) return overlap_;
      if (marking_.done(s)) std::erase(going, s);
    }
    return "";
  }

 private:
  void Fire(int stream) {
    const int actor = marking_.next(stream);
    const int64_t n = marking_.fired(actor);
    for (int id : net_.outputs_of(actor)) {
      const int64_t per_fill = net_.registers[id].fires_per_fill;
      if (n % per_fill == 0) Take(id, n / per_fill);
    }
    marking_.Fire(stream);
    for (const NetInput& input : net_.inputs_of(actor)) GiveBack(input.reg);
    for (int id : net_.outputs_of(actor)) GiveBack(id);
  }

  void Take(int id, int64_t fill) {
    const proto::Register& r = *net_.registers[id].proto;
    if (net_.registers[id].persistent || r.slot_bytes() == 0) return;
    const int64_t begin = r.offset() + PlaceOf(r, fill) * StrideOf(r);
    const int64_t end = begin + r.slot_bytes();
    auto& taken = taken_[r.stage()];
    const auto next = taken.lower_bound(begin);
    if (next != taken.end() && next->first < end) Overlap(id, next->second.second);
    if (next != taken.begin() && std::prev(next)->second.first > begin) {
      Overlap(id, std::prev(next)->second.second);
    }
    taken[begin] = {end, id};
    live_[id][fill] = begin;
  }

  void Overlap(int a, int b) {
    overlap_ = net_.registers[a].proto->name() + " over " + net_.registers[b].proto->name();
  }

  void GiveBack(int id) {
    const NetRegister& r = net_.registers[id];
    if (r.persistent || r.writer < 0) return;
    int64_t over = marking_.fills(r);
    for (const NetReader& reader : r.readers) {
      over = std::min(over, marking_.reads(reader) - reader.initial_fills);
    }
    std::map<int64_t, int64_t>& live = live_[id];
    for (; !live.empty() && live.begin()->first < over; live.erase(live.begin())) {
      taken_[r.proto->stage()].erase(live.begin()->second);
    }
  }

  const PlanNet& net_;
  Marking marking_;
  std::mt19937 random_;
  std::vector<std::map<int64_t, std::pair<int64_t, int>>>
      taken_;                                     // by stage: begin -> end, register
  std::vector<std::map<int64_t, int64_t>> live_;  // by register: fill -> begin
  std::string overlap_;
};

std::string Overlap(const PlanNet& net, int games) {
  for (int seed = 0; seed < games; ++seed) {
    const std::string overlap = ByteGame(net, seed).Play();
    if (!overlap.empty()) return overlap;
  }
  return "";
}

// Moves registers with others' help: most mutants are wrong.
void Mutate(std::mt19937& random, proto::Program* program) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  proto::Register& r = *program->mutable_register_(below(program->register__size()));
  const proto::Register& other = program->register_(below(program->register__size()));
  switch (below(4)) {
    case 0: return r.set_offset(other.offset());
    case 1: return r.set_offset(r.offset() + 64 * (below(9) - 4));
    case 2:
      r.set_offset(other.offset()), r.set_places(other.places());
      return r.set_stride(other.stride());
    default:
      r.set_first_place(static_cast<int>(below(PlacesOf(r))));
      r.set_places(r.places() + static_cast<int>(below(3)) - 1);
      return r.set_stride(other.stride());
  }
}

}  // namespace

TEST_CASE("no two live fills of a compiled plan overlap, whatever the order") {
  int framed = 0, workspaces = 0;
  for (const Case& c : kCases) {
    const proto::Plan plan = TrainPlan(c);
    const auto net = MakePlanNet(plan, plan.program(kTrain));
    INFO(c.mesh << " " << c.schedule);
    CHECK(Overlap(*net, 20) == "");
    framed += Framed(plan);
    for (const NetRegister& r : net->registers) workspaces += r.workspace;
  }
  CHECK(framed > 50);
  CHECK(workspaces > 50);
}

TEST_CASE("what the proof lets pass has no two live fills that overlap") {
  std::mt19937 random(11);
  int safe = 0, refused = 0;
  for (const Case& c : kCases) {
    const proto::Plan plan = TrainPlan(c);
    for (int i = 0; i < 60; ++i) {
      proto::Plan mutant = plan;
      for (int edits = i % 3; edits >= 0; --edits) Mutate(random, mutant.mutable_program(kTrain));
      const auto net = MakePlanNet(mutant, mutant.program(kTrain));
      if (!net.ok() || !VerifyProgramTypes(*net).ok() || !VerifyLiveness(*net).ok()) continue;
      if (!VerifyMemory(*net).ok()) {
        ++refused;
        continue;
      }
      ++safe;
      INFO(c.mesh << " " << c.schedule << " mutant " << i);
      CHECK(Overlap(*net, 5) == "");
    }
  }
  CHECK(safe > 20);
  CHECK(refused > 30);
}

}  // namespace oneflow
