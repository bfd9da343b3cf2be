// The products of a GPU against their f64 twins on the CPU, over the samples of their kinds. The
// same on the emulated GPU, by the twin of cuBLASLt, and on a real one.
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/kernel/gpu_call.h"
#include "actor_runtime/cuda/kernel/products.h"
#include "actor_runtime/kernel/kernel_samples.h"

namespace oneflow::cuda {
namespace {

// A folder of libraries for a machine that has them elsewhere.
LibraryPlaces Places() {
  const char* folder = std::getenv("ONEFLOW_CUDA_LIBS");
  return PlacesOfMachine(folder == nullptr ? "" : folder);
}

const Libraries& TestLibraries() {
  static const auto* opened = new absl::StatusOr<DeviceLibraries>(DeviceLibraries::Open(Places()));
  REQUIRE(opened->status() == absl::OkStatus());
  static const auto* libraries = new Libraries((*opened)->libraries());
  return *libraries;
}

using Factory = absl::StatusOr<Kernel> (*)(const KernelSetup&, const Libraries&);
const std::map<std::string, Factory> kFactories = {
    {"batch_matmul", MakeBatchMatmul},
    {"linear", MakeLinear},
    {"linear_add", MakeLinearAdd},
    {"linear_gelu", MakeLinearGelu},
    {"linear_gelu_grad_input", MakeLinearGeluGradInput},
    {"linear_grad_bias",
     [](const KernelSetup& s, const Libraries&) { return MakeLinearGradBias(s); }},
    {"linear_grad_input", MakeLinearGradInput},
    {"linear_grad_weight", MakeLinearGradWeight},
    {"matmul", MakeMatmul},
    {"matmul_grad_b", MakeMatmulGradB}};

absl::StatusOr<Kernel> MakeTested(const KernelSetup& s) {
  return kFactories.at(s.kind)(s, TestLibraries());
}

// What no kernel leaves behind: every element of an output must be written.
void FillWithNaNs(KernelHarness& h) {
  for (size_t i = 0; i < h.setup().out.size(); ++i) {
    const auto memory = h.OutputMemory(static_cast<int>(i));
    std::memset(memory.data(), 0xff, memory.size());
  }
}

void CheckAgainstTwin(const KernelSample& sample, KernelHarness narrow) {
  INFO(ToString(sample));
  KernelHarness wide = HarnessOf(sample, DType::kF64);
  FillWithNaNs(narrow);
  GpuCall on_gpu(narrow);
  REQUIRE(on_gpu.Make(MakeTested) == absl::OkStatus());
  REQUIRE(on_gpu.Call() == absl::OkStatus());
  REQUIRE(wide.Make() == absl::OkStatus());
  REQUIRE(wide.Call() == absl::OkStatus());
  for (int i = 0; i < static_cast<int>(narrow.setup().out.size()); ++i) {
    INFO("output " << i);
    CHECK(Distance(narrow.Output(i), wide.Output(i)) <
          ToleranceOf(sample.kind, narrow.setup().out[i].dtype));
  }
}

// Samples whose rows are whole vectors, which the library's epilogues ask for.
std::vector<KernelSample> WholeVectors() {
  std::vector<KernelSample> all;
  for (const bool narrow : {false, true}) {
    const auto in = [narrow](Dims dims, double low = -1, double high = 1) {
      return SampleInput{std::move(dims), 0, low, high, false, narrow};
    };
    const SampleInput x = in({3, 5, 24}), w = in({24, 16}), bias{{16}};
    all.insert(all.end(),
               {{"linear", {x, w, bias}, {}},
                {"linear_gelu", {x, w, bias}, {}},
                {"linear_gelu", {x, w}, {}},
                {"linear_gelu_grad_input", {in({3, 5, 16}), w, in({3, 5, 24}, -4, 4)}, {}}});
  }
  return all;
}

TEST_CASE("products on a GPU agree with their f64 twins and write every element") {
  for (const auto& samples : {SmallSamples(), LargeSamples(), WholeVectors()}) {
    for (const KernelSample& sample : samples) {
      if (!kFactories.count(sample.kind)) continue;
      CheckAgainstTwin(sample, HarnessOf(sample, DType::kF32));
    }
  }
}

// The harness of a sample whose input 2, a bias, was cast to bf16. No op reads one, but plans for a
// GPU have it so.
KernelHarness WithNarrowBias(const KernelSample& sample) {
  KernelSample op = sample;
  op.in[2].narrow = false;
  KernelSetup s = HarnessOf(op, DType::kF32).setup();
  s.in[2][0].dtype = DType::kBF16;
  KernelHarness h(s.kind, s.attrs, s.in, s.out);
  const std::vector<Values> values = InputValues(sample);
  for (size_t i = 0; i < values.size(); ++i) h.SetInput(static_cast<int>(i), values[i]);
  return h;
}

TEST_CASE("a bf16 bias is added before the product is rounded") {
  for (KernelSample sample : WholeVectors()) {
    if (sample.in.size() < 3 || sample.in[2].dims != Dims{16} || !sample.in[0].narrow) continue;
    sample.in[2].narrow = true;  // its values are those of bf16
    KernelHarness h = WithNarrowBias(sample);
    CheckAgainstTwin(sample, std::move(h));
  }
}

TEST_CASE("products that are plain sums are added to what is there") {
  for (const auto* samples : {&SmallSamples(), &LargeSamples()}) {
    for (const KernelSample& sample : *samples) {
      KernelHarness h = HarnessOf(sample, DType::kF32);
      const bool plain =
          sample.kind != "linear_add" && sample.kind.find("gelu") == std::string::npos;
      if (!kFactories.count(sample.kind)) continue;
      INFO(ToString(sample));
      GpuCall on_gpu(h);
      REQUIRE(on_gpu.Make(MakeTested) == absl::OkStatus());
      if (!plain || h.setup().out[0].dtype == DType::kBF16) {
        CHECK(on_gpu.Call(/*accumulate=*/true).code() == absl::StatusCode::kInternal);
        continue;
      }
      KernelHarness wide = HarnessOf(sample, DType::kF64);
      REQUIRE(wide.Make() == absl::OkStatus());
      REQUIRE(wide.Call() == absl::OkStatus());
      Values expected = wide.Output(0);
      const Values there = RandomValues(static_cast<int64_t>(expected.size()), 99);
      for (size_t e = 0; e < there.size(); ++e) expected[e] += there[e];
      h.SetOutput(0, there);
      REQUIRE(on_gpu.Call(/*accumulate=*/true) == absl::OkStatus());
      CHECK(Distance(h.Output(0), expected) < ToleranceOf(sample.kind, DType::kF32));
    }
  }
}

TEST_CASE("a second call gives the same bits") {
  for (const KernelSample& sample : LargeSamples()) {
    if (!kFactories.count(sample.kind)) continue;
    INFO(ToString(sample));
    KernelHarness h = HarnessOf(sample, DType::kF32);
    GpuCall on_gpu(h);
    REQUIRE(on_gpu.Make(MakeTested) == absl::OkStatus());
    REQUIRE(on_gpu.Call() == absl::OkStatus());
    const auto first = h.OutputBytes(0);
    FillWithNaNs(h);
    REQUIRE(on_gpu.Call() == absl::OkStatus());
    CHECK(h.OutputBytes(0) == first);
  }
}

// The values of a piece of a tensor that has no elements in a dimension.
KernelHarness PieceHarness(const std::string& kind, const AttrMap& attrs,
                           const std::vector<Dims>& in, const Dims& out) {
  const auto port = [](const Dims& dims) { return WholePort(dims, DType::kF32); };
  std::vector<std::vector<Port>> sources;
  for (const Dims& dims : in) sources.push_back({port(dims)});
  KernelHarness h(kind, attrs, std::move(sources), {port(out)});
  for (size_t i = 0; i < in.size(); ++i) {
    h.SetInput(static_cast<int>(i), RandomValues(Product(in[i]), i));
  }
  return h;
}

TEST_CASE("an empty sum is zeros, and what is done to it") {
  KernelHarness h = PieceHarness("linear", {}, {{2, 0}, {0, 3}, {3}}, {2, 3});
  GpuCall on_gpu(h);
  REQUIRE(on_gpu.Make(MakeTested) == absl::OkStatus());
  FillWithNaNs(h);
  REQUIRE(on_gpu.Call() == absl::OkStatus());
  const Values bias = RandomValues(3, 2);
  CHECK(h.Output(0) == Values{bias[0], bias[1], bias[2], bias[0], bias[1], bias[2]});

  KernelHarness added = PieceHarness("matmul", {}, {{2, 0}, {0, 2}}, {2, 2});
  GpuCall adds(added);
  REQUIRE(adds.Make(MakeTested) == absl::OkStatus());
  added.SetOutput(0, {1, 2, 3, 4});
  REQUIRE(adds.Call(/*accumulate=*/true) == absl::OkStatus());
  CHECK(added.Output(0) == Values{1, 2, 3, 4});
  REQUIRE(adds.Call() == absl::OkStatus());
  CHECK(added.Output(0) == Values{0, 0, 0, 0});
}

TEST_CASE("products of empty pieces write nothing") {
  for (const auto& [in, out] :
       std::map<std::vector<Dims>, Dims>{{{{0, 4}, {4, 3}}, {0, 3}}, {{{2, 4}, {4, 0}}, {2, 0}}}) {
    KernelHarness h = PieceHarness("linear", {}, in, out);
    GpuCall on_gpu(h);
    REQUIRE(on_gpu.Make(MakeTested) == absl::OkStatus());
    CHECK(on_gpu.Call() == absl::OkStatus());
  }
}

// Of bf16 with a bias of f32, m rows.
KernelSample WithWideBias(int64_t m) {
  SampleInput x{{m, 24}}, w{{24, 16}};
  x.narrow = w.narrow = true;
  return {"linear_gelu", {x, w, {{16}}}, {}};
}

TEST_CASE("an f32 bias of a bf16 product is added before it is rounded, in panels of rows") {
  const KernelSample sample = WithWideBias(150);
  KernelHarness whole = HarnessOf(sample, DType::kF32), panels = HarnessOf(sample, DType::kF32);
  GpuCall at_once(whole), in_turn(panels, 2 * 64 * 16 * 4 + 64);  // room for 64 rows
  for (auto* call : {&at_once, &in_turn}) {
    REQUIRE(call->Make(MakeTested) == absl::OkStatus());
    REQUIRE(call->Call() == absl::OkStatus());
  }
  // On a GPU an algorithm may differ with the number of rows, and so may the last bit.
  for (int i : {0, 1}) CHECK(Distance(panels.Output(i), whole.Output(i)) < 0x1.1p-8);
  KernelHarness wide = HarnessOf(sample, DType::kF64);
  REQUIRE(wide.Make() == absl::OkStatus());
  REQUIRE(wide.Call() == absl::OkStatus());
  CHECK(Distance(panels.Output(0), wide.Output(0)) < 0x1.1p-8);
}

TEST_CASE("what has no kernel, and a workspace that is too small, are refused at load") {
  KernelHarness f64 = HarnessOf(WithWideBias(4), DType::kF64);
  CHECK(GpuCall(f64).Make(MakeTested).code() == absl::StatusCode::kUnimplemented);
  KernelHarness h = HarnessOf(WithWideBias(64), DType::kF32);
  CHECK(GpuCall(h, 1024).Make(MakeTested).code() == absl::StatusCode::kInternal);
  KernelHarness sums("linear_grad_bias", {{"lead", int64_t{1}}},
                     {{WholePort({300, 4}, DType::kF32)}}, {WholePort({4}, DType::kF32)});
  CHECK(GpuCall(sums, 16).Make(MakeTested).code() == absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace oneflow::cuda
