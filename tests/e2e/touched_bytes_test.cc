// Law 4 on every program of real plans: what a program touches of a device's arena is what is
// planned for it, up to the last byte and nothing else. All bytes but the persistent ones are
// painted before a program runs, and looked at after it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/mesh.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr std::byte kUntouched{0xA5};
constexpr int64_t kLine = 64;  // bytes that are looked at together: registers begin at multiples

// The arena of a rank, from the address of a persistent register in it.
std::span<std::byte> ArenaIndex(const Runtime& runtime, int rank, int stage) {
  for (const proto::Register& r : runtime.plan().persistent()) {
    if (r.stage() != stage) continue;
    return {runtime.PersistentBytes(rank, r.id()).data() - r.offset(),
            static_cast<size_t>(runtime.ArenaBytes(rank))};
  }
  FAIL("stage " << stage << " has no persistent register");
  return {};
}

// For a program on a stage, by line of the arena: true if the line is planned for a workspace,
// which a kernel need not use completely, or for another register.
struct Planned {
  std::vector<bool> workspace, other;
};
Planned FindPlanned(const PlanNet& net, int stage) {
  const size_t lines = net.plan->memory(stage).arena_bytes() / kLine;
  Planned planned{std::vector<bool>(lines), std::vector<bool>(lines)};
  for (const NetRegister& reg : net.registers) {
    const proto::Register& r = *reg.proto;
    if (reg.persistent || r.stage() != stage || r.slot_bytes() == 0) continue;
    std::vector<bool>& taken = reg.workspace ? planned.workspace : planned.other;
    for (int64_t i = 0; i < BufferCount(r); ++i) {
      const int64_t begin = r.offset() + i * BufferStride(r);
      for (int64_t at = begin; at < begin + r.slot_bytes(); at += kLine) taken[at / kLine] = true;
    }
  }
  return planned;
}

// The number of lines that are touched but not planned, and the ends of planned and touched
// registers (0: none).
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
      const int stage = mesh_.RankToStage(rank);
      const auto arena = ArenaIndex(runtime, rank, stage);
      const int64_t persistent = runtime.plan().memory(stage).persistent_bytes();
      const auto own = arena.subspan(persistent);
      std::fill(own.begin(), own.end(), kUntouched);
      kept_.emplace_back(arena.begin(), arena.begin() + persistent);
      if (name != "load") continue;
      for (const auto& [bytes, written] : Persistent(runtime, name, rank)) {
        if (written) std::fill(bytes.begin(), bytes.end(), std::byte{0});
      }
    }
  }

  void After(const Runtime& runtime, const std::string& name) {
    const proto::Program& program = *FindProgram(runtime.plan(), name);
    const auto net = MakePlanNet(runtime.plan(), program).value();
    for (int rank = 0; rank < runtime.ranks(); ++rank) {
      const int stage = mesh_.RankToStage(rank);
      const auto arena = ArenaIndex(runtime, rank, stage);
      const Touched touched = TouchedIn(arena, runtime.plan().memory(stage).persistent_bytes(),
                                        FindPlanned(net, stage));
      INFO("program " << name << ", rank " << rank);
      CHECK(touched.end == touched.planned_end);
      CHECK(touched.stray == 0);
      bool changed = false;
      for (const auto& [bytes, written] : Persistent(runtime, name, rank)) {
        const bool same = std::equal(bytes.begin(), bytes.end(),
                                     kept_[rank].begin() + (bytes.data() - arena.data()));
        changed = changed || !same;
        CHECK((same || (written && name != "load")));  // what is saved comes back
      }
      // Another decode of the same token at the same position writes the same keys and values.
      CHECK(changed == (name == "init" || name == "train" || name == "prefill"));
    }
    for (const proto::Register& r : program.register_()) framed += HasInterleavedBuffers(r);
    programs.insert(name);
  }

  std::set<std::string> programs;  // that have run
  int framed = 0;                  // registers of theirs in frames

 private:
  // For each persistent register on a rank: its bytes, and true if the program writes them. The
  // registers are all variables, or caches of keys and values.
  std::vector<std::pair<std::span<std::byte>, bool>> Persistent(const Runtime& runtime,
                                                                const std::string& name,
                                                                int rank) const {
    const auto net = MakePlanNet(runtime.plan(), *FindProgram(runtime.plan(), name)).value();
    std::vector<std::pair<std::span<std::byte>, bool>> result;
    for (const proto::Register& r : runtime.plan().persistent()) {
      if (r.stage() != mesh_.RankToStage(rank)) continue;
      result.emplace_back(runtime.PersistentBytes(rank, r.id()), net.registers[r.id()].writer >= 0);
    }
    return result;
  }

  const Mesh mesh_;
  std::vector<std::vector<std::byte>> kept_;  // by rank: the persistent bytes before
};

// Runs all programs of the plan under a watch: their names, and how many of their registers lie in
// frames.
std::pair<std::set<std::string>, int> WatchAll(SmallRun run) {
  INFO("mesh " << run.Get("mesh") << ", " << run.recipe.micro_batches() << " micro-batches");
  run.recipe.set_batch(2 * run.recipe.micro_batches());
  run.steps = 3;
  run.model.set_vocab(22);  // even: all parts are as large as the largest, for which slots are made
  Watch watch(run.Get("mesh"));
  run.before = [&](const Runtime& runtime, const std::string& name) {
    watch.Before(runtime, name);
  };
  run.after = [&](const Runtime& runtime, const std::string& name) { watch.After(runtime, name); };
  RunEveryProgram(run);
  return {watch.programs, watch.framed};
}

TEST_CASE("Each program touches the bytes that are planned for it, to the last and no others") {
  int framed = 0;
  for (const std::string mesh : {"", "pipe=2,data=2,tensor=2", "pipe=4"}) {
    for (const int64_t micro_batches : {4, 8}) {
      SmallRun run;
      run.Set("mesh", mesh);
      run.recipe.set_micro_batches(micro_batches);
      const auto [programs, in_frames] = WatchAll(run);
      CHECK(programs == std::set<std::string>{"init", "train", "eval", "generate", "save", "load"});
      framed += in_frames;
    }
  }
  CHECK(framed > 100);
}

TEST_CASE("Programs that continue a text touch the bytes that are planned for them") {
  for (const std::string mesh : {"", "tensor=2", "pipe=2"}) {
    SmallRun run;
    run.Set("mesh", mesh);
    run.Set("--micro_batches=1 --purpose=generation");
    CHECK(WatchAll(run).first ==
          std::set<std::string>{"init", "prefill", "decode", "save", "load"});
  }
}

}  // namespace
}  // namespace oneflow
