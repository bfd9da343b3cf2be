// Law 4 on real plans: arenas take exactly the plan's bytes, and a training run allocates nothing
// between its first and its last step (operator new, and below it malloc and its aligned kin:
// oneDNN and libgomp included; and mmap).
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
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
std::atomic<size_t> largest{0};  // of what malloc and its kin were asked for
// Lengths of mappings of anonymous memory, in their order.
constexpr int kMostMappings = 4096;
std::atomic<int> mappings{0};
size_t mapped[kMostMappings];

void Count(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  size_t known = largest.load(std::memory_order_relaxed);
  while (bytes > known && !largest.compare_exchange_weak(known, bytes)) {
  }
}

}  // namespace

// Calls by the C library itself, as of malloc and for stacks of threads, do not come here.
extern "C" void* mmap(void* at, size_t length, int protection, int flags, int file, off_t offset) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if ((flags & MAP_ANONYMOUS) != 0) {
    const int n = mappings.fetch_add(1);
    if (n < kMostMappings) mapped[n] = length;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, length, protection, flags, file, offset));
}
extern "C" void* malloc(size_t size) {
  Count(size);
  return __libc_malloc(size);
}
extern "C" void* calloc(size_t n, size_t size) {
  Count(n * size);
  return __libc_calloc(n, size);
}
extern "C" void* realloc(void* memory, size_t size) {
  Count(size);
  return __libc_realloc(memory, size);
}
extern "C" void* memalign(size_t alignment, size_t size) {
  Count(size);
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
  CHECK(counts([] {
    const int before = mappings.load();
    void* memory = mmap(nullptr, 5000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mappings.load() == before + 1);
    CHECK(mapped[before] == 5000);
    CHECK(munmap(memory, 5000) == 0);
    return nullptr;
  }));
  void* memory = std::malloc(8);
  CHECK(counts([&] { return std::realloc(memory, 1 << 20); }));
}

TEST_CASE("No allocation between the first and the last step of training") {
  for (const auto& [mesh, precision] : kCases) {
    for (const int threads : {1, 2}) {
      SmallRun run;
      run.Set("mesh", mesh);
      run.recipe.set_precision(precision);
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

TEST_CASE("Arenas are as large as the plan says, and all that loading maps") {
  for (const auto& [mesh, precision] : kCases) {
    INFO(mesh << " precision " << precision);
    SmallRun run;
    run.Set("mesh", mesh);
    run.recipe.set_precision(precision);
    run.model.set_hidden(128);
    run.model.set_vocab(4096);  // large against everything else that loading allocates
    const proto::Plan plan = CompileSmall(run);
    const Mesh devices = *ParseMesh(mesh);
    const int first = mappings.load();
    largest.store(0);
    const auto runtime = Runtime::Create(plan);
    const size_t largest_of_heap = largest.load();
    const std::vector<size_t> arenas(mapped + first, mapped + mappings.load());
    REQUIRE(runtime.ok());
    std::vector<size_t> planned;
    for (int rank = 0; rank < (*runtime)->ranks(); ++rank) {
      const int64_t bytes = plan.memory(devices.RankToStage(rank)).arena_bytes();
      CHECK((*runtime)->ArenaBytes(rank) == bytes);
      planned.push_back(static_cast<size_t>(bytes));
    }
    CHECK(arenas == planned);
    // The heap has the plan, its proof and its kernels, but no copy of what an arena has.
    CHECK(4 * largest_of_heap < *std::min_element(planned.begin(), planned.end()));
    for (const proto::StageMemory& m : plan.memory()) {
      CHECK(m.arena_bytes() == m.persistent_bytes() + m.register_bytes());
      CHECK(m.arena_bytes() >= LowerBoundBytes(plan, m.stage()));
    }
  }
}

}  // namespace
}  // namespace oneflow
