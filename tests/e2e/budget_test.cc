// Law 4 on real plans: arenas take exactly the plan's bytes, and a training run allocates nothing
// between its first and its last step (operator new, and malloc below it: oneDNN and libgomp
// included).
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/plan/places.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/mesh.h"
#include "tests/e2e/small_run.h"

// The C library's own entry points, which the ones below stand before.
extern "C" void* __libc_malloc(size_t size);
extern "C" void* __libc_calloc(size_t n, size_t size);
extern "C" void* __libc_memalign(size_t alignment, size_t size);

namespace {
std::atomic<int64_t> allocations{0};
}

extern "C" void* malloc(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
extern "C" void* calloc(size_t n, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(n, size);
}
extern "C" int posix_memalign(void** out, size_t alignment, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? 12 : 0;
}

namespace oneflow {
namespace {

struct Case {
  const char* mesh;
  proto::DataType precision = proto::F32;
};
constexpr Case kCases[] = {{""},
                           {"tensor=2"},
                           {"pipe=2,data=2,tensor=2"},
                           {"", proto::BF16},
                           {"pipe=2,data=2,tensor=2", proto::BF16}};

// Bytes of anonymous memory that this process has mapped.
int64_t MappedBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmData:" && status >> kib) return kib * 1024;
  }
  return 0;
}

TEST_CASE("No allocation between the first and the last step of training") {
  for (const auto& [mesh, precision] : kCases) {
    for (const int threads : {1, 2}) {
      SmallRun run;
      run.mesh = mesh;
      run.precision = precision;
      run.threads = threads;
      run.steps = 12;
      int64_t at_first = -1, at_last = -2;
      run.on_report = [&](int64_t step) {
        if (step == 1) at_first = allocations.load();
        if (step == run.steps - 1) at_last = allocations.load();
      };
      const int64_t before = allocations.load();
      Train(run);
      INFO(mesh << " precision " << precision << " threads " << threads);
      CHECK(at_first > before);  // the counter counts
      CHECK(at_last == at_first);
    }
  }
}

TEST_CASE("Arenas are as large as the plan says") {
  for (const auto& [mesh, precision] : kCases) {
    SmallRun run;
    run.mesh = mesh;
    run.precision = precision;
    run.model.hidden = 128;
    run.model.vocab = 4096;  // large against everything else that loading maps
    const proto::Plan plan = CompileSmall(run);
    const Mesh devices = *ParseMesh(mesh);
    const int64_t before = MappedBytes();
    const auto runtime = Runtime::Create(plan);
    REQUIRE(runtime.ok());
    int64_t planned = 0;
    for (int rank = 0; rank < (*runtime)->ranks(); ++rank) {
      const int64_t bytes = plan.memory(devices.StageOf(rank)).arena_bytes();
      CHECK((*runtime)->ArenaBytes(rank) == bytes);
      planned += bytes;
    }
    // The mapping of an arena is its bytes rounded up to a page; the rest is the loaded plan and
    // stacks.
    CHECK(MappedBytes() - before >= planned);
    for (const proto::StageMemory& m : plan.memory()) {
      CHECK(m.arena_bytes() == m.persistent_bytes() + m.register_bytes() + m.workspace_bytes());
      CHECK(m.arena_bytes() >= m.lower_bound_bytes());
    }
  }
}

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

// Which lines of 64 bytes of a stage's arena a program has, as planned: of its registers, and of
// its workspace.
struct Planned {
  std::vector<bool> lines;
  int64_t end = 0;  // of the registers
};
Planned PlannedOf(const proto::Plan& plan, const proto::Program& program, int stage) {
  const proto::StageMemory& memory = plan.memory(stage);
  Planned planned{std::vector<bool>(memory.arena_bytes() / 64)};
  const auto take = [&](int64_t begin, int64_t bytes) {
    for (int64_t at = begin; at < begin + bytes; at += 64) planned.lines[at / 64] = true;
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

TEST_CASE("Each program touches the bytes that are planned for it, to the last and no others") {
  constexpr std::byte kUntouched{0xA5};
  int framed = 0;
  for (const char* mesh : {"", "pipe=2,data=2,tensor=2", "pipe=4"}) {
    SmallRun run;
    run.mesh = mesh;
    run.micro_batches = 8;
    run.batch = 16;
    run.steps = 3;
    const Mesh devices = *ParseMesh(mesh);
    run.before = [&](const Runtime& runtime, const std::string&) {
      for (int rank = 0; rank < runtime.ranks(); ++rank) {
        const int stage = devices.StageOf(rank);
        const int64_t persistent = runtime.plan().memory(stage).persistent_bytes();
        const auto own = ArenaOf(runtime, rank, stage).subspan(persistent);
        std::fill(own.begin(), own.end(), kUntouched);
      }
    };
    run.after = [&](const Runtime& runtime, const std::string& name) {
      const proto::Program& program = *FindProgram(runtime.plan(), name);
      for (const proto::Register& r : program.register_()) framed += LiesApart(r);
      for (int rank = 0; rank < runtime.ranks(); ++rank) {
        const int stage = devices.StageOf(rank);
        const Planned planned = PlannedOf(runtime.plan(), program, stage);
        const proto::StageMemory& memory = runtime.plan().memory(stage);
        const std::span<std::byte> arena = ArenaOf(runtime, rank, stage);
        const int64_t workspace = memory.persistent_bytes() + memory.register_bytes();
        int64_t end = 0, stray = 0;  // of what is touched of registers; touched unplanned
        for (int64_t at = memory.persistent_bytes(); at < memory.arena_bytes(); at += 64) {
          const auto line = arena.subspan(at, 64);
          if (std::count(line.begin(), line.end(), kUntouched) == 64) continue;
          if (at < workspace) end = at + 64;
          stray += planned.lines[at / 64] ? 0 : 1;
        }
        INFO("mesh " << mesh << ", program " << name << ", rank " << rank);
        CHECK(end == planned.end);
        CHECK(stray == 0);
      }
    };
    Train(run);
  }
  CHECK(framed > 20);
}

}  // namespace
}  // namespace oneflow
