// Training on devices that run by themselves, with the CPU's kernels as their work: the same bits
// as on the CPU, whatever the mesh, the schedule and the bound on launches.
#include <string>

#include <catch2/catch.hpp>

#include "tests/cuda/host_backend.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

TEST_CASE("each mesh trains with the bits of the CPU") {
  const DeviceBackend backend = HostBackend(1);
  for (const char* mesh :
       {"", "data=2", "tensor=2", "pipe=2", "pipe=2,data=2", "pipe=2,tensor=2"}) {
    for (const int queue : {1, 2, 64}) {
      INFO(mesh << ", launch queue " << queue);
      SmallRun run;
      run.mesh = mesh;
      run.steps = 3;
      const SmallResult on_cpu = Train(run);
      run.device = proto::CUDA;
      run.backend = &backend;
      run.launch_queue = queue;
      CHECK(Train(run) == on_cpu);
    }
  }
}

}  // namespace
}  // namespace oneflow
