// Products on a GPU beyond the samples: the library's epilogues, biases of either type, empty
// pieces, panels.
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/kernel/kernel_samples.h"

namespace oneflow::cuda {
namespace {

const AttrMap kGelu = {{"then", std::string("gelu")}};

// The reference on the CPU, in f64.
KernelHarness MakeTwin(const KernelSample& sample) {
  KernelHarness wide = MakeHarness(sample, DType::kF64);
  REQUIRE(wide.MakeAndCall() == absl::OkStatus());
  return wide;
}

void CheckAgainstTwin(const KernelSample& sample, CudaHarness narrow) {
  INFO(ToString(sample));
  const KernelHarness wide = MakeTwin(sample);
  REQUIRE(narrow.MakeAndCall() == absl::OkStatus());
  CHECK(narrow.IsTidy());
  for (int i = 0; i < narrow.outputs(); ++i) {
    INFO("output " << i);
    CHECK(Distance(narrow.Output(i), wide.Output(i)) <
          FindTolerance(sample, narrow.setup().out[i].dtype));
  }
}

// Samples whose rows are full vectors, which the library's epilogues require.
std::vector<KernelSample> FullVectors() {
  std::vector<KernelSample> all;
  for (const bool narrow : {false, true}) {
    const auto in = [narrow](Dims dims, double low = -1, double high = 1) {
      return SampleTensor{std::move(dims), low, high, 0, false, narrow};
    };
    const SampleTensor x = in({3, 5, 24}), w = in({24, 16}), bias{{16}};
    all.insert(all.end(), {{"linear", {x, w, bias}, {}},
                           {"linear", {x, w, bias}, kGelu},
                           {"linear", {x, w}, kGelu},
                           {"linear_grad_input",
                            {in({3, 5, 16}), w, in({3, 5, 24}, -4, 4)},
                            {{"then", std::string("gelu_grad")}}}});
  }
  return all;
}

TEST_CASE("products with rows of full vectors agree with their f64 references") {
  for (const KernelSample& sample : FullVectors()) CheckAgainstTwin(sample, CudaHarness(sample));
}

// The harness of a sample whose input 2, a bias, was cast to bf16. No op reads one, but plans for a
// GPU have it so.
CudaHarness WithNarrowBias(const KernelSample& sample) {
  KernelSample op = sample;
  op.in[2].narrow = false;
  KernelSetup setup = MakeHarness(op, DType::kF32).setup();
  setup.in[2][0].dtype = DType::kBF16;
  CudaHarness h(setup);
  const std::vector<Values> values = InputValues(sample);
  for (size_t i = 0; i < values.size(); ++i) h.SetInput(static_cast<int>(i), values[i]);
  return h;
}

TEST_CASE("a bf16 bias is added before the product is rounded") {
  for (KernelSample sample : FullVectors()) {
    if (sample.in.size() < 3 || sample.in[2].dims != Dims{16} || !sample.in[0].narrow) continue;
    sample.in[2].narrow = true;  // its values are those of bf16
    CheckAgainstTwin(sample, WithNarrowBias(sample));
  }
}

// A product of bf16 with a bias of f32.
KernelSample WithWideBias(int64_t m, int64_t k, int64_t n) {
  SampleTensor x{{m, k}}, w{{k, n}};
  x.narrow = w.narrow = true;
  return {"linear", {x, w, {{n}}}, kGelu};
}

TEST_CASE("an f32 bias of a bf16 product is added before it is rounded, in panels of rows") {
  // Half of the workspace holds 512 rows of f32.
  KernelSample sample = WithWideBias(560, 4, 8192);
  CheckAgainstTwin(sample, CudaHarness(sample));
  // Each panel is gated by its own rows of the gate.
  sample.in.insert(sample.in.begin() + 2, SampleTensor{{560, 8192}, -4, 4}.Narrow());
  sample.attrs = {{"then", std::string("gated")}, {"activation", std::string("silu")}};
  CheckAgainstTwin(sample, CudaHarness(sample));
}

TEST_CASE("a second call gives the same bits") {
  for (const KernelSample& sample : FullVectors()) {
    INFO(ToString(sample));
    CudaHarness h(sample);
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    const auto first = h.OutputBytes(0);
    h.SetOutput(0, Values(first.size() / ElementBytes(h.setup().out[0].dtype), 7));
    REQUIRE(h.Call() == absl::OkStatus());
    CHECK(h.OutputBytes(0) == first);
  }
}

// A kernel of f32 pieces, one of whose dimensions may be empty.
CudaHarness PieceHarness(const std::string& kind, const std::vector<Dims>& in, const Dims& out) {
  KernelSetup setup;
  setup.kind = kind;
  setup.name = "test";
  for (const Dims& dims : in) setup.in.push_back({FullPort(dims, DType::kF32)});
  setup.out = {FullPort(out, DType::kF32)};
  CudaHarness h(setup);
  for (size_t i = 0; i < in.size(); ++i) {
    h.SetInput(static_cast<int>(i), RandomValues(Product(in[i]), i));
  }
  REQUIRE(h.Make() == absl::OkStatus());
  return h;
}

TEST_CASE("an empty sum is zeros, and what is done to it") {
  CudaHarness h = PieceHarness("linear", {{2, 0}, {0, 3}, {3}}, {2, 3});
  REQUIRE(h.Call() == absl::OkStatus());
  const Values bias = RandomValues(3, 2);
  CHECK(h.Output(0) == Values{bias[0], bias[1], bias[2], bias[0], bias[1], bias[2]});

  CudaHarness added = PieceHarness("matmul", {{2, 0}, {0, 2}}, {2, 2});
  added.SetOutput(0, {1, 2, 3, 4});
  REQUIRE(added.Call(/*accumulate=*/true) == absl::OkStatus());
  CHECK(added.Output(0) == Values{1, 2, 3, 4});
  REQUIRE(added.Call() == absl::OkStatus());
  CHECK(added.Output(0) == Values{0, 0, 0, 0});
}

TEST_CASE("products of empty pieces write nothing") {
  CHECK(PieceHarness("linear", {{0, 4}, {4, 3}}, {0, 3}).Call() == absl::OkStatus());
  CHECK(PieceHarness("linear", {{2, 4}, {4, 0}}, {2, 0}).Call() == absl::OkStatus());
}

TEST_CASE("a product that is rounded, or finished, is not added up") {
  for (const KernelSample& sample : FullVectors()) {
    CudaHarness h(sample);
    if (sample.attrs.empty() && h.setup().out[0].dtype == DType::kF32) continue;
    INFO(ToString(sample));
    REQUIRE(h.Make() == absl::OkStatus());
    CHECK(h.Call(/*accumulate=*/true).message() ==
          "test: a product that is not a plain sum is not added up");
  }
}

TEST_CASE("dtypes that have no product are refused") {
  CudaHarness h(MakeHarness(WithWideBias(4, 8, 8), DType::kF64).setup());
  CHECK(h.Make().code() == absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace oneflow::cuda
