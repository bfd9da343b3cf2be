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

// Of a program on a stage: which lines of the arena it has, as planned for its registers and for
// its workspace, and where its registers end (0: it has none).
struct Planned {
  std::vector<bool> lines;
  int64_t end = 0;
};
Planned PlannedOf(const proto::Plan& plan, const proto::Program& program, int stage) {
  const proto::StageMemory& memory = plan.memory(stage);
  Planned planned{std::vector<bool>(memory.arena_bytes() / kLine)};
  const auto take = [&](int64_t begin, int64_t bytes) {
    for (int64_t at = begin; at < begin + bytes; at += kLine) planned.lines[at / kLine] = true;
  };
  for (const proto::Register& r : program.register_()) {
    if (r.stage() != stage || r.slot_bytes() == 0) continue;
    for (int64_t i = 0; i < PlacesOf(r); ++i) take(r.offset() + i * StrideOf(r), r.slot_bytes());
    planned.end = std::max(planned.end, EndOf(r));
  }
  for (const proto::Actor& actor : program.actor()) {
    if (actor.stage() != stage) continue;
    take(memory.persistent_bytes() + memory.register_bytes(), actor.workspace_bytes());
  }
  return planned;
}

// Where what is touched of registers ends, and how many lines are touched that are not planned.
struct Touched {
  int64_t end = 0, stray = 0;
};
Touched TouchedIn(std::span<const std::byte> arena, const proto::StageMemory& memory,
                  const Planned& planned) {
  Touched touched;
  const int64_t workspace = memory.persistent_bytes() + memory.register_bytes();
  for (int64_t at = memory.persistent_bytes(); at < memory.arena_bytes(); at += kLine) {
    const auto line = arena.subspan(at, kLine);
    if (std::count(line.begin(), line.end(), kUntouched) == kLine) continue;
    if (at < workspace) touched.end = at + kLine;
    touched.stray += planned.lines[at / kLine] ? 0 : 1;
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
    const bool writes_variables = name == "init" || name == "train";
    for (int rank = 0; rank < runtime.ranks(); ++rank) {
      const int stage = mesh_.StageOf(rank);
      const proto::StageMemory& memory = runtime.plan().memory(stage);
      const auto arena = ArenaOf(runtime, rank, stage);
      const Planned planned = PlannedOf(runtime.plan(), program, stage);
      const Touched touched = TouchedIn(arena, memory, planned);
      INFO("program " << name << ", rank " << rank);
      CHECK(touched.end == planned.end);
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
