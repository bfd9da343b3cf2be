// Law: between the second and the last step of a run of several processes, nothing is allocated by
// workers, kernels or the networks' threads, and resident memory does not grow. Allocations are
// those of C++: UCX has its own.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "actor_runtime/device/counted_allocations.h"
#include "tests/e2e/small_processes.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr int64_t kSteps = 150, kFirst = 1, kLast = kSteps - 2;
// UCX keeps requests in blocks, and takes one more when more of them are under way than ever
// before. Two kilobytes a step would be found.
constexpr int64_t kMostGrowth = 256 << 10;

// Memory of this process that it shares with nobody. Allocates nothing.
class Resident {
 public:
  Resident() : file_(open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) {}
  ~Resident() { close(file_); }
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;
  int64_t Bytes() const {
    char text[128] = {};
    long all = 0, resident = 0, shared = 0;
    if (pread(file_, text, sizeof(text) - 1, 0) <= 0) return -1;
    if (std::sscanf(text, "%ld %ld %ld", &all, &resident, &shared) != 3) return -1;
    return (resident - shared) * sysconf(_SC_PAGESIZE);
  }

 private:
  const int file_;
};

// Counting makes no data: token 0 everywhere.
class Zeros final : public TokenSource {
 public:
  absl::Status Sample(int64_t, int64_t, std::span<int32_t> tokens) const override {
    std::fill(tokens.begin(), tokens.end(), 0);
    return absl::OkStatus();
  }
};

// When a step is reported: what there is then.
struct Marks {
  std::array<int64_t, kSteps> allocations{}, resident{};
};

struct Case {
  std::string mesh;
  int processes;
};

TEST_CASE("nothing is allocated and memory does not grow between the second and the last step") {
  const Case c = GENERATE(Case{"data=2", 2}, Case{"tensor=2", 2}, Case{"pipe=2", 2},
                          Case{"data=2,tensor=2", 2}, Case{"pipe=2,tensor=2", 4});
  const std::string transports = GENERATE("sysv,self", "tcp,self");
  // The memory of the network does not depend on the mesh: in the default tier one will do over
  // TCP, and of the others those of two axes.
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const bool two_axes = c.mesh.find(',') != std::string::npos;
  if (!full && (transports == "tcp,self" ? c.mesh != "tensor=2" : !two_axes)) {
    SUCCEED("left to the full tier");
    return;
  }
  INFO(c.mesh << " in " << c.processes << " processes over " << transports);
  SmallRun small;
  small.Set("mesh", c.mesh);
  small.model.set_hidden(64);  // pieces that wait for their receiver, and rows that are packed
  small.model.set_vocab(509);
  const proto::Plan plan = CompileSmall(small);
  const Zeros tokens;
  Marks marks;
  const Resident resident;
  SmallProcesses processes(plan, {.processes = c.processes, .transports = transports});
  const auto context = [&](int) {
    RunContext run;
    run.micro_batches = small.recipe.micro_batches();
    run.micro_batch_size = small.recipe.batch() / small.recipe.micro_batches();
    run.tokens = &tokens;
    run.optimizer = [](int64_t step) { return StepNumbers{1e-3, 0.9, 0.95, 1e-8, 0, 1, step}; };
    run.report = [&](int64_t step, std::span<const double>) {
      marks.allocations[step] = Allocations();
      marks.resident[step] = resident.Bytes();
    };
    return run;
  };
  for (const char* program : {"init", "train"}) {
    const int64_t steps = program == std::string("init") ? 1 : kSteps;
    for (const absl::Status& status : processes.Run(program, steps, context)) {
      REQUIRE(status.message() == "");
    }
  }
  CHECK(marks.allocations[kLast] - marks.allocations[kFirst] == 0);
  CHECK(marks.resident[kFirst] > 0);
  CHECK(marks.resident[kLast] - marks.resident[kFirst] <= kMostGrowth);
  for (int p = 0; p < c.processes; ++p) {
    const TransportMemory memory = processes.memory(p);
    CHECK(memory.private_bytes > 0);
    CHECK((memory.shared_bytes > 0) == (transports == "sysv,self"));
  }
}

}  // namespace
}  // namespace oneflow
