#include "tools/oneflow/machine_rate.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

absl::StatusOr<double> MeasureMatrixRate(int threads) {
  constexpr int64_t kSize = 768;
  const Dims dims = {kSize, kSize};
  const Port port{DType::kF32, dims, Slice{{0, 0}, dims}, {}};
  KernelSetup setup;
  setup.kind = "matmul";
  setup.name = "machine_rate";
  setup.in = {{port}, {port}};
  setup.out = {port};
  setup.threads = threads;
  setup.workspace_bytes = FindOpDef("matmul")->workspace({dims, dims}, {dims}, {}, threads);
  ASSIGN_OR_RETURN(const Kernel kernel, MakeKernel(setup));

  std::vector<float> a(kSize * kSize, 0.5f), b(kSize * kSize, 0.25f), c(kSize * kSize);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> workspace(static_cast<size_t>(setup.workspace_bytes / 64 + 1));
  const std::byte* in_a[] = {reinterpret_cast<const std::byte*>(a.data())};
  const std::byte* in_b[] = {reinterpret_cast<const std::byte*>(b.data())};
  const std::span<const std::byte* const> in[] = {in_a, in_b};
  std::byte* out[] = {reinterpret_cast<std::byte*>(c.data())};
  ThreadPool pool(threads);
  KernelCall call;
  call.in = in;
  call.out = out;
  call.workspace = {workspace[0].bytes, workspace.size() * sizeof(Line)};
  call.pool = &pool;

  using Clock = std::chrono::steady_clock;
  double best = 0;
  const auto deadline = Clock::now() + std::chrono::milliseconds(200);
  for (int i = 0; i < 3 || Clock::now() < deadline; ++i) {
    const auto start = Clock::now();
    RETURN_IF_ERROR(kernel(call));
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds);
  }
  return best;
}

}  // namespace oneflow
