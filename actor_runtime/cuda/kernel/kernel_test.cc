// Guarantees of every kernel of a GPU, over the samples of the CPU's kernels: it agrees with the
// CPU's f64 reference, writes only its outputs, and adds if it accumulates.
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/cuda/kernel/make_kernel.h"
#include "actor_runtime/kernel/kernel_samples.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow::cuda {
namespace {

TEST_CASE("kinds that the compiler may place on a GPU are those of the tables") {
  std::set<std::string> kinds;
  for (const OpDef& def : OpDefs()) {
    if (def.on_cuda) kinds.insert(def.kind);
  }
  CHECK(CudaKernelKinds() == kinds);
}

// The bytes of all outputs of a sample. Nothing else is written.
std::vector<std::vector<std::byte>> RunSample(CudaHarness* h) {
  REQUIRE(h->MakeAndCall() == absl::OkStatus());
  CHECK(h->IsTidy());
  std::vector<std::vector<std::byte>> bytes;
  for (int i = 0; i < h->outputs(); ++i) bytes.push_back(h->OutputBytes(i));
  return bytes;
}

void CheckByTwin(const KernelSample& sample, CudaHarness* narrow) {
  KernelHarness wide = MakeHarness(sample, DType::kF64);
  REQUIRE(wide.Make() == absl::OkStatus());
  REQUIRE(wide.Call() == absl::OkStatus());
  for (int i = 0; i < narrow->outputs(); ++i) {
    INFO("output " << i);
    CHECK(Distance(narrow->Output(i), wide.Output(i)) <
          FindTolerance(sample, narrow->setup().out[i].dtype));
  }
}

// In the first order; each sample has one other, descending or drawn in turn, and in the full tier
// all.
TEST_CASE("f32 and bf16 agree with the CPU's f64 twin, and no order of threads changes a bit") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const std::vector<KernelSample> samples = CudaSamples();
  std::vector<std::vector<std::vector<std::byte>>> first;
  size_t order = 0;
  ForKernelOrders(
      [&] {
        for (size_t i = 0; i < samples.size(); ++i) {
          if (order > 0 && !full && (i + order) % 2 != 0) continue;
          INFO(ToString(samples[i]));
          CudaHarness narrow(samples[i]);
          const auto bytes = RunSample(&narrow);
          if (order == 0) {
            CheckByTwin(samples[i], &narrow);
            first.push_back(bytes);
          }
          const bool is_same = first[i] == bytes;
          CHECK(is_same);
        }
        ++order;
      },
      full ? 2 : 1);
}

// One sample of each kind, in the full tier all.
TEST_CASE("the host touches no device memory") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  std::set<std::string> kinds;
  WithGuardedMemory([&] {
    for (const KernelSample& sample : SmallSamples()) {
      if (!RunsOnCuda(sample) || !(kinds.insert(sample.kind).second || full)) continue;
      CudaHarness h(sample);
      CHECK(!RunSample(&h).empty());
    }
  });
}

TEST_CASE("accumulating adds to what is there") {
  for (const KernelSample& sample : CudaSamples()) {
    if (FindDef(sample).overwrites) continue;
    INFO(ToString(sample));
    CudaHarness added(sample);
    // A product that is rounded to bf16 is not added up.
    if (added.setup().out[0].dtype == DType::kBF16 && FindDef(sample).product) continue;
    KernelHarness wide = MakeHarness(sample, DType::kF64);
    REQUIRE(added.Make() == absl::OkStatus());
    REQUIRE(wide.MakeAndCall() == absl::OkStatus());
    std::vector<Values> expected;
    for (int i = 0; i < added.outputs(); ++i) {
      expected.push_back(wide.Output(i));
      added.SetOutput(i, RandomValues(static_cast<int64_t>(expected[i].size()), 99));
      const Values there = added.Output(i);
      if (i < FindDef(sample).fresh) continue;
      for (size_t e = 0; e < there.size(); ++e) expected[i][e] += there[e];
    }
    REQUIRE(added.Call(/*accumulate=*/true) == absl::OkStatus());
    CHECK(added.IsTidy());
    for (int i = 0; i < added.outputs(); ++i) {
      CHECK(Distance(added.Output(i), expected[i]) <
            FindTolerance(sample, added.setup().out[i].dtype));
    }
  }
}

TEST_CASE("too small a workspace is an error that names both numbers") {
  for (const KernelSample& sample : SmallSamples()) {
    CudaHarness h(sample);
    const int64_t planned = h.setup().workspace_bytes;
    if (!RunsOnCuda(sample) || planned == 0) continue;
    INFO(ToString(sample));
    h.setup().workspace_bytes = planned - 1;
    const absl::Status status = h.Make();
    REQUIRE(status.code() == absl::StatusCode::kInternal);
    const std::string message(status.message());
    CHECK(message.find("gives " + std::to_string(planned - 1)) != std::string::npos);
    CHECK(message.find("needs " + std::to_string(planned)) != std::string::npos);
  }
}

TEST_CASE("a kind without a kernel is not found") {
  KernelSetup setup;
  setup.kind = "load_tokens";
  CHECK(MakeCudaKernel(setup, TestLibraries()).status().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace oneflow::cuda
