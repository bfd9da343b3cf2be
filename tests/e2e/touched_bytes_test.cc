// Law 4 on every program of real plans: what a program touches of a device's arena is what is
// planned for it, up to the last byte and nothing else. All bytes but the persistent ones are
// painted before a program runs, and looked at after it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/plan/places.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/plan/plan_net.h"
#include "oneflow_core/tensor/mesh.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr std::byte kUntouched{0xA5};
constexpr int64_t kLine = 64;  // bytes that are looked at together: registers begin at multiples

// The arena of a rank, from where a persistent register lies in it.
std::span<std::byte> ArenaOf(const Runtime& runtime, int rank, int stage) {
  for (const proto::Register& r : runtime.plan().persistent()) {
    if (r.stage() != stage) continue;
    return {runtime.PersistentBytes(rank, r.id()).data() - r.offset(),
            static_cast<size_t>(runtime.ArenaBytes(rank))};
  }
  FAIL("stage " << stage << " has no persistent register");
  return {};
}

// Of a program on a stage, by line of the arena: whether it is planned for a workspace, of which a
// kernel may leave some, or for any other register.
struct Planned {
  std::vector<bool> workspace, other;
};
Planned PlannedOf(const PlanNet& net, int stage) {
  const size_t lines = net.plan->memory(stage).arena_bytes() / kLine;
  Planned planned{std::vector<bool>(lines), std::vector<bool>(lines)};
  for (const NetRegister& reg : net.registers) {
    const proto::Register& r = *reg.proto;
    if (reg.persistent || r.stage() != stage || r.slot_bytes() == 0) continue;
    std::vector<bool>& taken = reg.workspace ? planned.workspace : planned.other;
    for (int64_t i = 0; i < PlacesOf(r); ++i) {
      const int64_t begin = r.offset() + i * StrideOf(r);
      for (int64_t at = begin; at < begin + r.slot_bytes(); at += kLine) taken[at / kLine] = true;
    }
  }
  return planned;
}

// How many lines are touched that are not planned, and where planned and touched registers end (0:
// there are none).
struct Touched {
  int64_t stray = 0, planned_end = 0, end = 0;
};
Touched TouchedIn(std::span<const std::byte> arena, int64_t begin, const Planned& planned) {
  Touched touched;
  for (int64_t at = begin; at < std::ssize(arena); at += kLine) {
    const auto line = arena.subspan(at, kLine);
    const bool is = std::count(line.begin(), line.end(), kUntouched) < kLine;
    const bool other = planned.other[at / kLine];
    if (other) touched.planned_end = at + kLine;
    if (other && is) touched.end = at + kLine;
    touched.stray += is && !other && !planned.workspace[at / kLine] ? 1 : 0;
  }
  return touched;
}

// Watches a run of every program.
class Watch {
 public:
  explicit Watch(const std::string& mesh) : mesh_(*ParseMesh(mesh)) {}

  void Before(const Runtime& runtime, const std::string& name) {
    kept_.clear();
    for (int rank = 0; rank < runtime.ranks(); ++rank) {
      const int stage = mesh_.StageOf(rank);
      const auto arena = ArenaOf(runtime, rank, stage);
      const int64_t persistent = runtime.plan().memory(stage).persistent_bytes();
      const auto own = arena.subspan(persistent);
      std::fill(own.begin(), own.end(), kUntouched);
      kept_.emplace_back(arena.begin(), arena.begin() + persistent);
      // What is saved comes back.
      if (name == "load") std::fill_n(arena.begin(), persistent, std::byte{0});
    }
  }

  void After(const Runtime& runtime, const std::string& name) {
    const proto::Program& program = *FindProgram(runtime.plan(), name);
    const auto net = MakePlanNet(runtime.plan(), program);
    REQUIRE(net.ok());
    const bool writes_variables = name == "init" || name == "train";
    for (int rank = 0; rank < runtime.ranks(); ++rank) {
      const int stage = mesh_.StageOf(rank);
      const auto arena = ArenaOf(runtime, rank, stage);
      const Touched touched =
          TouchedIn(arena, runtime.plan().memory(stage).persistent_bytes(), PlannedOf(*net, stage));
      INFO("program " << name << ", rank " << rank);
      CHECK(touched.end == touched.planned_end);
      CHECK(touched.stray == 0);
      CHECK(std::equal(kept_[rank].begin(), kept_[rank].end(), arena.begin()) == !writes_variables);
    }
    for (const proto::Register& r : program.register_()) framed += LiesApart(r);
    programs.insert(name);
  }

  std::set<std::string> programs;  // that have run
  int framed = 0;                  // registers of theirs in frames

 private:
  const Mesh mesh_;
  std::vector<std::vector<std::byte>> kept_;  // by rank: the persistent bytes before
};

TEST_CASE("Each program touches the bytes that are planned for it, to the last and no others") {
  int framed = 0;
  for (const std::string mesh : {"", "pipe=2,data=2,tensor=2", "pipe=4"}) {
    INFO("mesh " << mesh);
    SmallRun run;
    run.mesh = mesh;
    run.micro_batches = 8;
    run.batch = 16;
    run.steps = 3;
    run.model.vocab = 22;  // even: all parts are as large as the largest, for which slots are made
    Watch watch(mesh);
    run.before = [&](const Runtime& runtime, const std::string& name) {
      watch.Before(runtime, name);
    };
    run.after = [&](const Runtime& runtime, const std::string& name) {
      watch.After(runtime, name);
    };
    RunEveryProgram(run);
    CHECK(watch.programs ==
          std::set<std::string>{"init", "train", "eval", "generate", "save", "load"});
    framed += watch.framed;
  }
  CHECK(framed > 20);
}

}  // namespace
}  // namespace oneflow
