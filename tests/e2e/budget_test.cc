// Law 4 on real plans: arenas take exactly the plan's bytes, and a training run allocates nothing
// between its first and its last step (operator new, and below it malloc and its aligned kin:
// oneDNN and libgomp included).
#include <malloc.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/mesh.h"
#include "tests/e2e/small_run.h"

// The C library's own entry points, which the ones below stand before.
extern "C" void* __libc_malloc(size_t size);
extern "C" void* __libc_calloc(size_t n, size_t size);
extern "C" void* __libc_realloc(void* memory, size_t size);
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
extern "C" void* realloc(void* memory, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, size);
}
extern "C" void* memalign(size_t alignment, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
extern "C" void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
extern "C" int posix_memalign(void** out, size_t alignment, size_t size) {
  *out = memalign(alignment, size);
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

TEST_CASE("Whatever allocates counts") {
  const auto counts = [](auto allocate) {
    const int64_t before = allocations.load();
    void* volatile memory = allocate();  // volatile: a pair of malloc and free is not left out
    const bool counted = allocations.load() > before;
    std::free(memory);
    return counted;
  };
  CHECK(counts([] { return std::malloc(8); }));
  CHECK(counts([] { return std::calloc(8, 8); }));
  CHECK(counts([] { return std::aligned_alloc(64, 64); }));
  CHECK(counts([] { return memalign(64, 64); }));
  CHECK(counts([] { return ::operator new(64); }));
  CHECK(counts([] { return ::operator new (64, std::align_val_t{64}); }));
  CHECK(counts([] {
    void* memory = nullptr;
    return posix_memalign(&memory, 64, 64) == 0 ? memory : nullptr;
  }));
  void* memory = std::malloc(8);
  CHECK(counts([&] { return std::realloc(memory, 1 << 20); }));
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
      const int64_t bytes = plan.memory(devices.RankToStage(rank)).arena_bytes();
      CHECK((*runtime)->ArenaBytes(rank) == bytes);
      planned += bytes;
    }
    // The mapping of an arena is its bytes rounded up to a page; the rest is the loaded plan and
    // stacks.
    CHECK(MappedBytes() - before >= planned);
    for (const proto::StageMemory& m : plan.memory()) {
      CHECK(m.arena_bytes() == m.persistent_bytes() + m.register_bytes());
      CHECK(m.arena_bytes() >= LowerBoundBytes(plan, m.stage()));
    }
  }
}

}  // namespace
}  // namespace oneflow
