// Guarantees of every kernel, over a sample of each kind: f32 agrees with f64, threads do not
// change bits, a call allocates nothing, accumulation adds.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel_samples.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size)) return p;
  std::abort();
}
void* operator new(std::size_t size, std::align_val_t align) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t a = static_cast<std::size_t>(align);
  if (void* p = std::aligned_alloc(a, (size + a - 1) / a * a)) return p;
  std::abort();
}
// Not left to the library: a sanitizer's own would not match the deletes below.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace oneflow {
namespace {

int Outputs(KernelHarness& h) { return static_cast<int>(h.setup().out.size()); }

TEST_CASE("f32 and bf16 agree with their f64 twin") {
  for (const auto* samples : {&SmallSamples(), &LargeSamples()}) {
    for (const KernelSample& sample : *samples) {
      INFO(ToString(sample));
      KernelHarness narrow = MakeHarness(sample, DType::kF32),
                    wide = MakeHarness(sample, DType::kF64);
      REQUIRE(narrow.Make() == absl::OkStatus());
      REQUIRE(wide.Make() == absl::OkStatus());
      REQUIRE(narrow.Call() == absl::OkStatus());
      REQUIRE(wide.Call() == absl::OkStatus());
      for (int i = 0; i < Outputs(narrow); ++i) {
        INFO("output " << i);
        CHECK(Distance(narrow.Output(i), wide.Output(i)) <
              FindTolerance(sample, narrow.setup().out[i].dtype));
      }
    }
  }
}

TEST_CASE("the number of threads does not change bits, and a call allocates nothing") {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (const KernelSample& sample : LargeSamples()) {
      INFO(ToString(sample));
      std::vector<std::vector<std::byte>> first;
      for (int threads : {1, 2, 3}) {
        KernelHarness h = MakeHarness(sample, dtype, threads);
        REQUIRE(h.Make() == absl::OkStatus());
        const int64_t before = allocations.load();
        const absl::Status status = h.Call();
        const int64_t after = allocations.load();
        REQUIRE(status == absl::OkStatus());
        CHECK(after - before == 0);
        for (int i = 0; i < Outputs(h); ++i) {
          if (threads == 1) first.push_back(h.OutputBytes(i));
          CHECK(h.OutputBytes(i) == first[i]);
        }
      }
    }
  }
}

TEST_CASE("accumulating adds to what is there") {
  for (const auto* samples : {&SmallSamples(), &LargeSamples()}) {
    for (const KernelSample& sample : *samples) {
      if (FindDef(sample).overwrites) continue;
      INFO(ToString(sample));
      KernelHarness once = MakeHarness(sample, DType::kF64),
                    added = MakeHarness(sample, DType::kF64);
      REQUIRE(once.Make() == absl::OkStatus());
      REQUIRE(added.Make() == absl::OkStatus());
      REQUIRE(once.Call() == absl::OkStatus());
      std::vector<Values> expected;
      for (int i = 0; i < Outputs(once); ++i) {
        expected.push_back(once.Output(i));
        const Values there = RandomValues(static_cast<int64_t>(expected[i].size()), 99);
        added.SetOutput(i, there);
        if (i < FindDef(sample).fresh) continue;
        for (size_t e = 0; e < there.size(); ++e) expected[i][e] += there[e];
      }
      REQUIRE(added.Call(/*accumulate=*/true) == absl::OkStatus());
      for (int i = 0; i < Outputs(once); ++i) CHECK(Distance(added.Output(i), expected[i]) < 1e-12);
    }
  }
}

// A kernel of `kind` on these inputs, called.
KernelHarness Called(const KernelSample& sample, const std::vector<Values>& in) {
  KernelHarness h = MakeHarness(sample, DType::kF32, /*threads=*/2);
  for (int i = 0; i < static_cast<int>(in.size()); ++i) h.SetInput(i, in[i]);
  REQUIRE(h.MakeAndCall() == absl::OkStatus());
  return h;
}

TEST_CASE("a product's kernel gives the bits of the two that it replaces") {
  int fused = 0;
  for (const auto* samples : {&SmallSamples(), &LargeSamples()}) {
    for (const KernelSample& sample : *samples) {
      const std::string then = FindDef(sample).then;
      if (then.empty()) continue;
      INFO(ToString(sample));
      const std::vector<Values> in = InputValues(sample);
      // From input 2 come those that the second op reads beside the product; a bias follows.
      const size_t others = FindOpDef(then)->inputs.least - 1, bias = 2 + others;
      KernelSample first{sample.kind, {sample.in[0], sample.in[1]}, sample.attrs};
      KernelSample second{then, {}, {}};
      first.attrs.erase("then");
      if (auto activation = first.attrs.extract("activation")) {
        second.attrs.insert(std::move(activation));
      }
      std::vector<Values> of_first = {in[0], in[1]};
      if (sample.in.size() > bias) {
        first.in.push_back(sample.in[bias]);
        of_first.push_back(in[bias]);
      }
      KernelHarness product = Called(first, of_first);
      SampleTensor y{product.setup().out[0].dims};
      y.narrow = product.setup().out[0].dtype == DType::kBF16;
      second.in.assign(1 + others, y);
      std::vector<Values> of_second(in.begin() + 2, in.begin() + static_cast<int64_t>(bias));
      // A sum's second term is the product, and so is what is gated; else it is the first input.
      const bool last = then == "add" || then == "gated";
      of_second.insert(last ? of_second.end() : of_second.begin(), product.Output(0));
      KernelHarness both = Called(sample, in), apart = Called(second, of_second);
      const int of_product = Outputs(both) - Outputs(apart);
      if (of_product == 1) CHECK(both.OutputBytes(0) == product.OutputBytes(0));
      for (int i = 0; i < Outputs(apart); ++i) {
        CHECK(both.OutputBytes(of_product + i) == apart.OutputBytes(i));
      }
      ++fused;
    }
  }
  CHECK(fused > 20);
}

// The kernel of `kind` on inputs of these types and values, called.
KernelHarness Run(const char* kind, const AttrMap& attrs, const std::vector<Port>& in,
                  const std::vector<Port>& out, const std::vector<Values>& values) {
  std::vector<std::vector<Port>> sources;
  for (const Port& port : in) sources.push_back({port});
  KernelHarness h(kind, attrs, std::move(sources), out, /*threads=*/2);
  for (size_t i = 0; i < values.size(); ++i) h.SetInput(static_cast<int>(i), values[i]);
  REQUIRE(h.MakeAndCall() == absl::OkStatus());
  return h;
}

TEST_CASE("logits in pieces give the bits of a tensor of them, but for sums over rows") {
  constexpr int64_t kRows = 150, kWidth = 40, kVocab = 515;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Port x = FullPort({kRows, kWidth}, dtype), w = FullPort({kVocab, kWidth}, dtype);
    const Port logits = FullPort({kRows, kVocab}, dtype),
               dw = FullPort({kVocab, kWidth}, DType::kF32);
    const Port row = FullPort({kRows}, DType::kF32), ids = FullPort({kRows}, DType::kI32),
               one = FullPort({}, DType::kF32);
    const Values xs = RandomValues(kRows * kWidth, 1), ws = RandomValues(kVocab * kWidth, 2);
    const Values labels = RandomIds(kRows, 3, kVocab), dloss = {1};
    const AttrMap transposed = {{"transpose_w", true}}, scale = {{"scale", 1.0 / kRows}};
    KernelHarness y = Run("linear", transposed, {x, w}, {logits}, {xs, ws});
    KernelHarness stats =
        Run("row_stats", {}, {logits, ids}, {row, row, row}, {y.Output(0), labels});
    KernelHarness dy = Run("cross_entropy_grad", scale, {logits, ids, row, row, one}, {logits},
                           {y.Output(0), labels, stats.Output(0), stats.Output(1), dloss});
    KernelHarness of_x = Run("linear_grad_input", transposed, {logits, w}, {x}, {dy.Output(0), ws});
    KernelHarness of_w = Run("linear_grad_weight", {{"transpose_w", true}, {"lead", int64_t{1}}},
                             {x, logits}, {dw}, {xs, dy.Output(0)});
    for (const int64_t pieces : {1, 2, 9}) {
      AttrMap attrs = {{"pieces", pieces}};
      KernelHarness pieced =
          Run("linear_row_stats", attrs, {x, w, ids}, {row, row, row}, {xs, ws, labels});
      for (int i = 0; i < 3; ++i) CHECK(pieced.OutputBytes(i) == stats.OutputBytes(i));
      attrs.insert(scale.begin(), scale.end());
      KernelHarness grads = Run("linear_row_stats_grad", attrs, {x, w, ids, row, row, one}, {x, dw},
                                {xs, ws, labels, pieced.Output(0), pieced.Output(1), dloss});
      CHECK(grads.OutputBytes(0) == of_x.OutputBytes(0));
      CHECK((grads.OutputBytes(1) == of_w.OutputBytes(0)) == (pieces == 1));
      CHECK(Distance(grads.Output(1), of_w.Output(0)) < 1e-6);
      // One of the two alone has the same bits.
      const auto alone = [&](const char* kind, const Port& out) {
        return Run(kind, attrs, {x, w, ids, row, row, one}, {out},
                   {xs, ws, labels, pieced.Output(0), pieced.Output(1), dloss});
      };
      KernelHarness of_input = alone("linear_row_stats_grad_input", x);
      KernelHarness of_weight = alone("linear_row_stats_grad_weight", dw);
      CHECK(of_input.OutputBytes(0) == grads.OutputBytes(0));
      CHECK(of_weight.OutputBytes(0) == grads.OutputBytes(1));
    }
  }
}

TEST_CASE("in bf16 the gradient at a label is rounded after the subtraction") {
  const Dims row = {1, 2};
  KernelHarness h("cross_entropy_grad", {},
                  {{FullPort(row, DType::kBF16)},
                   {FullPort({1}, DType::kI32)},
                   {FullPort({1}, DType::kF32)},
                   {FullPort({1}, DType::kF32)},
                   {FullPort({}, DType::kF32)}},
                  {FullPort(row, DType::kBF16)});
  // The label's probability is 1 - 2^-12, which bf16 would round to 1.
  h.SetInput(0, {8, 8 - 8.3125});
  h.SetInput(1, {0});
  h.SetInput(2, {8}), h.SetInput(3, {1 + std::exp(-8.3125)}), h.SetInput(4, {1});
  REQUIRE(h.MakeAndCall() == absl::OkStatus());
  CHECK(h.Output(0)[1] > 2e-4);
  CHECK(h.Output(0)[0] == Approx(-h.Output(0)[1]).epsilon(0.01));
}

TEST_CASE("positions past the end of a table take its last row, one that begins there is refused") {
  KernelHarness h("positional_embedding_at", {},
                  {{FullPort({1, 2, 1})}, {FullPort({3, 1})}, {FullPort({1}, DType::kI32)}},
                  {FullPort({1, 2, 1})});
  h.SetInput(0, {0, 0});
  h.SetInput(1, {10, 20, 30});
  REQUIRE(h.Make() == absl::OkStatus());
  for (const int position : {1, 2, 3, -1}) {
    h.SetInput(2, {static_cast<double>(position)});
    const absl::Status status = h.Call();
    CHECK(status.ok() == (position == 1 || position == 2));
    if (status.ok()) CHECK(h.Output(0) == (position == 1 ? Values{20, 30} : Values{30, 30}));
  }
}

TEST_CASE("too small a workspace is an error that names both numbers") {
  KernelHarness h = MakeHarness({"linear", {{{2, 150, 300}}, {{300, 161}}}, {}}, DType::kF32);
  const int64_t planned = h.setup().workspace_bytes;
  h.setup().workspace_bytes = 64;
  const absl::Status status = h.Make();
  REQUIRE(status.code() == absl::StatusCode::kInternal);
  const std::string message(status.message());
  CHECK(message.find("gives 64") != std::string::npos);
  CHECK(planned > 64);
}

TEST_CASE("the kinds that have a kernel are those whose definition says so") {
  for (const OpDef& def : OpDefs()) {
    INFO(FormName(def.kind, def.then));
    KernelSample sample{def.kind, {}, {}};
    for (OpSample& made : MakeSamples(def, {2, 5, 6, 7, 3, 4, 9})) {
      sample.in = std::move(made.in), sample.attrs = std::move(made.attrs);
    }
    KernelSetup setup;
    if (!sample.in.empty()) setup = MakeHarness(sample, DType::kF32).setup();
    setup.kind = def.kind;
    if (def.on_cpu && sample.in.empty()) continue;  // made and called above
    CHECK((MakeKernel(setup).status().code() == absl::StatusCode::kNotFound) == !def.on_cpu);
  }
}

TEST_CASE("a kind without a kernel is not found") {
  KernelHarness h("no_such_kind", {}, {}, {FullPort({1})});
  CHECK(h.Make().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace oneflow
