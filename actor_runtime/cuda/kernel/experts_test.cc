// Cases of experts' kernels beyond the samples: many experts and choices, values that are no
// numbers, ids and offsets that are wrong, widths of every path, queues that are empty and long.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/cuda/kernel/twins_for_test.h"
#include "actor_runtime/kernel/kernel_samples.h"

namespace oneflow::cuda {
namespace {

struct Routing {
  int64_t b = 1, t = 1, experts = 1, groups = 1, choices = 1, run = 1, slots = 1;
  AttrMap attrs = {};

  Dims chosen() const { return {b, t, choices}; }
  Dims queues(int64_t width) const { return {groups, b, t / run, slots, width}; }
  Dims offsets() const { return {groups, b, t / run, experts / groups + 1}; }
};

// The kernel of route, called with these logits.
Twins Route(const Routing& r, const Values& logits, bool biased) {
  AttrMap attrs = r.attrs;
  attrs.insert({{"choices", r.choices}, {"groups", r.groups}, {"run", r.run}});
  const Port chosen = FullPort(r.chosen(), DType::kI32);
  std::vector<std::vector<Port>> in = {{FullPort({r.b, r.t, r.experts}, DType::kF32)}};
  if (biased) in.push_back({FullPort({r.experts}, DType::kF32)});
  Twins twins(
      "route", attrs, in,
      {FullPort(r.chosen(), DType::kF32), chosen, chosen, FullPort(r.offsets(), DType::kI32)});
  twins.SetInput(0, logits);
  if (biased) twins.SetInput(1, RandomValues(r.experts, 5));
  twins.Call();
  return twins;
}

void CheckSameQueues(const Twins& twins) {
  for (const int output : {1, 2, 3}) {
    INFO("output " << output);
    CHECK(twins.gpu.OutputBytes(output) == twins.cpu.OutputBytes(output));
  }
}

const std::vector<Routing>& Routings() {
  static const auto* all = new std::vector<Routing>{
      {.b = 2, .t = 6, .experts = 300, .choices = 8, .run = 3, .slots = 24},
      {.b = 1, .t = 7, .experts = 70, .groups = 2, .choices = 40, .run = 7, .slots = 280},
      {.b = 1,
       .t = 90,
       .experts = 40,
       .groups = 4,
       .choices = 3,
       .run = 45,
       .slots = 34,
       .attrs = {{"capacity", 1.0}}},
      {.b = 1, .t = 300, .experts = 1, .choices = 1, .run = 300, .slots = 300}};
  return *all;
}

TEST_CASE("tokens go to the experts of the CPU, however many there are") {
  for (const Routing& r : Routings()) {
    for (const bool biased : {false, true}) {
      INFO(r.experts << " experts, " << r.choices << " choices" << (biased ? ", biased" : ""));
      const Twins twins = Route(r, RandomValues(r.b * r.t * r.experts, 1, -3, 3), biased);
      CheckSameQueues(twins);
      CHECK(Distance(twins.gpu.Output(0), twins.cpu.Output(0)) < 4e-5);
    }
  }
}

TEST_CASE("equal logits, infinite ones and those that are no numbers choose each expert once") {
  const Routing r{.b = 1, .t = 5, .experts = 70, .choices = 70, .run = 5, .slots = 350};
  Values logits(r.t * r.experts, 1);
  const double inf = std::numeric_limits<double>::infinity();
  for (int64_t e = 0; e < r.experts; ++e) {
    logits[1 * r.experts + e] = e % 3 == 0 ? std::nan("") : static_cast<double>(e % 5);
    logits[2 * r.experts + e] = e % 2 == 0 ? -inf : inf;
    logits[3 * r.experts + e] = std::nan("");
    logits[4 * r.experts + e] = e == 40 ? std::nan("") : -inf;
  }
  CheckSameQueues(Route(r, logits, /*biased=*/false));
}

// The slots of random ids, whatever they are, and the offsets that follow.
struct Queued {
  Values ids, slots, offsets;
};
Queued Choose(const Routing& r) {
  const Twins twins = Route(r, RandomValues(r.b * r.t * r.experts, 2, -3, 3), /*biased=*/false);
  return {twins.cpu.Output(1), twins.cpu.Output(2), twins.cpu.Output(3)};
}

TEST_CASE("choices are counted as on the CPU, dropped ones and those of no expert, too") {
  std::vector<Routing> routings = Routings();
  routings.push_back({.b = 3, .t = 600, .experts = 5, .choices = 4, .run = 600, .slots = 2400});
  for (const Routing& r : routings) {
    Queued q = Choose(r);
    q.ids.front() = -1, q.ids.back() = 1e9, q.slots.back() = -1;
    const Port ids = FullPort(r.chosen(), DType::kI32);
    Twins twins("count_choices", AttrMap{{"experts", r.experts}}, {{ids}, {ids}},
                {FullPort({r.experts + 1}, DType::kF64)});
    twins.SetInput(0, q.ids), twins.SetInput(1, q.slots);
    for (const bool accumulate : {false, true}) {
      INFO(r.experts << " experts" << (accumulate ? ", accumulated" : ""));
      twins.Call(accumulate);
      twins.CheckSameBits();
    }
  }
}

TEST_CASE("a bias moves as on the CPU, unless the norm is not finite") {
  constexpr int64_t kExperts = 300;
  const Port bias = FullPort({kExperts}, DType::kF32), scalar = FullPort({}, DType::kF64);
  const Port counts = FullPort({kExperts + 1}, DType::kF64);
  Values counted(kExperts + 1, 4), old = RandomValues(kExperts, 3);
  for (int64_t e = 0; e < kExperts; e += 3) counted[e] = 3, counted[e + 1] = 5;  // 4 on average
  for (const double norm : {1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    Twins twins("even_bias", AttrMap{{"rate", 0.001}}, {{counts}, {scalar}}, {bias});
    twins.SetInput(0, counted), twins.SetInput(1, {norm}), twins.SetOutput(0, old);
    twins.Call();
    twins.CheckSameBits();
    const Values moved = twins.cpu.Output(0);
    for (int64_t e = 0; e < kExperts; ++e) {
      const double by = std::isfinite(norm) ? (e % 3 == 0 ? 0.001 : e % 3 == 1 ? -0.001 : 0) : 0;
      CHECK(moved[e] == static_cast<float>(static_cast<float>(old[e]) + static_cast<float>(by)));
    }
  }
}

// route_grad with the losses of a router, of these ids.
Twins RouteGrad(const Routing& r, const Values& ids, AttrMap attrs) {
  attrs.insert({{"run", r.run}, {"loss_scale", 0.5}});
  const Port logits = FullPort({r.b, r.t, r.experts}, DType::kF32);
  const Port w = FullPort(r.chosen(), DType::kF32);
  Twins twins("route_grad", attrs, {{logits}, {FullPort(r.chosen(), DType::kI32)}, {w}}, {logits});
  twins.SetInput(0, RandomValues(logits.slice.elements(), 2, -3, 3));
  twins.SetInput(1, ids);
  twins.SetInput(2, RandomValues(w.slice.elements(), 3));
  return twins;
}

TEST_CASE("the losses of a router have the gradients of the CPU, however many experts there are") {
  const std::vector<AttrMap> losses = {
      {{"balance", 30.0}}, {{"z", 20.0}}, {{"balance", 30.0}, {"z", 20.0}, {"normalized", true}}};
  for (const Routing& r : Routings()) {
    const Values ids = Choose(r).ids;
    for (const std::string scores : {"softmax", "sigmoid"}) {
      for (AttrMap attrs : losses) {
        attrs["scores"] = scores;
        INFO(r.experts << " experts, " << scores << (attrs.contains("balance") ? ", balance" : "")
                       << (attrs.contains("z") ? ", z" : ""));
        Twins twins = RouteGrad(r, ids, attrs);
        twins.Call();
        twins.CheckNear();
      }
    }
  }
}

// dispatch, combine and combine_grad of rows of a width.
std::vector<Twins> Exchanges(const Routing& r, int64_t width, DType dtype, const Queued& q) {
  AttrMap attrs = r.attrs;
  attrs.insert({{"experts", r.experts}, {"groups", r.groups}, {"run", r.run}});
  const Port x = FullPort({r.b, r.t, width}, dtype), y = FullPort(r.queues(width), dtype);
  const Port ids = FullPort(r.chosen(), DType::kI32), w = FullPort(r.chosen(), DType::kF32);
  std::vector<Twins> all;
  for (const bool weighted : {false, true}) {
    for (const bool back : {false, true}) {
      std::vector<std::vector<Port>> in = {{back ? y : x}, {ids}, {ids}};
      if (weighted) in.push_back({w});
      Twins& twins = all.emplace_back(back ? "combine" : "dispatch", attrs, in,
                                      std::vector<Port>{back ? x : y});
      twins.SetInput(0, RandomValues((back ? y : x).slice.elements(), 7));
      twins.SetInput(1, q.ids), twins.SetInput(2, q.slots);
      if (weighted) twins.SetInput(3, RandomValues(w.slice.elements(), 8));
    }
  }
  Twins& grad = all.emplace_back("combine_grad", attrs,
                                 std::vector<std::vector<Port>>{{x}, {y}, {ids}, {ids}},
                                 std::vector<Port>{w});
  grad.SetInput(0, RandomValues(x.slice.elements(), 9));
  grad.SetInput(1, RandomValues(y.slice.elements(), 10));
  grad.SetInput(2, q.ids), grad.SetInput(3, q.slots);
  return all;
}

TEST_CASE("tokens of any width go into queues and back") {
  for (const Routing& r : Routings()) {
    const Queued q = Choose(r);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int64_t width : {1, 20, 264}) {
        for (Twins& twins : Exchanges(r, width, dtype, q)) {
          INFO(twins.gpu.setup().kind << " " << r.experts << " experts, width " << width);
          twins.Call();
          twins.CheckNear();
        }
      }
    }
  }
}

TEST_CASE("ids and slots that are wrong read and write nothing else") {
  const Routing& r = Routings()[2];
  Queued q = Choose(r);
  const double most = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < q.ids.size(); i += 5) q.ids[i] = i % 2 == 0 ? most : -1 - most;
  for (size_t i = 2; i < q.ids.size(); i += 7) q.slots[i] = i % 2 == 0 ? most : -1 - most;
  for (Twins& twins : Exchanges(r, 8, DType::kBF16, q)) {
    twins.Call();
    twins.CheckNear();
  }
  Twins twins = RouteGrad(r, q.ids, {{"balance", 1.0}, {"z", 1.0}});
  CudaHarness& grad = twins.gpu;
  REQUIRE(grad.MakeAndCall() == absl::OkStatus());
  CHECK(grad.IsTidy());
  for (const double v : grad.Output(0)) REQUIRE(std::isfinite(v));
}

// expert_linear, with a weight that is transposed or not, with and without a bias, and the
// gradients of weight and bias.
std::vector<Twins> Products(const Routing& r, int64_t width, int64_t columns, DType dtype,
                            const Values& offsets) {
  const Port y = FullPort(r.queues(width), dtype), out = FullPort(r.queues(columns), dtype);
  const Port ends = FullPort(r.offsets(), DType::kI32);
  std::vector<Twins> all;
  const Port bias = FullPort({r.experts, columns}, DType::kF32);
  for (const bool transposed : {false, true}) {
    const Dims w = transposed ? Dims{r.experts, columns, width} : Dims{r.experts, width, columns};
    for (const bool biased : {false, true}) {
      std::vector<std::vector<Port>> in = {{y}, {FullPort(w, dtype)}, {ends}};
      if (biased) in.push_back({bias});
      Twins& twins = all.emplace_back("expert_linear", AttrMap{{"transpose_w", transposed}}, in,
                                      std::vector<Port>{out});
      twins.SetInput(0, RandomValues(y.slice.elements(), 3));
      twins.SetInput(1, RandomValues(Product(w), 4));
      twins.SetInput(2, offsets);
      if (biased) twins.SetInput(3, RandomValues(bias.slice.elements(), 7));
    }
  }
  Twins& summed =
      all.emplace_back("expert_linear_grad_bias", AttrMap{},
                       std::vector<std::vector<Port>>{{out}, {ends}}, std::vector<Port>{bias});
  summed.SetInput(0, RandomValues(out.slice.elements(), 6));
  summed.SetInput(1, offsets);
  const Port dw = FullPort({r.experts, width, columns}, DType::kF32);
  Twins& grad =
      all.emplace_back("expert_linear_grad_weight", AttrMap{},
                       std::vector<std::vector<Port>>{{y}, {out}, {ends}}, std::vector<Port>{dw});
  grad.SetInput(0, RandomValues(y.slice.elements(), 5));
  grad.SetInput(1, RandomValues(out.slice.elements(), 6));
  grad.SetInput(2, offsets);
  return all;
}

struct Widths {
  int64_t width, columns;
};

TEST_CASE("products of experts of any widths and numbers of tokens") {
  // Two experts of many tokens; many with few or none, in several runs; one, and no token at all.
  const Routing large{.b = 1, .t = 512, .experts = 2, .run = 512, .slots = 512};
  const Routing many{.b = 1, .t = 8, .experts = 40, .run = 4, .slots = 70};
  const Routing one{.b = 1, .t = 3, .experts = 1, .run = 3, .slots = 3};
  Values of_many;
  for (int64_t queue = 0; queue < 2; ++queue) {
    for (int64_t e = 0, end = 0; e <= 40; ++e) {
      of_many.push_back(static_cast<double>(end));
      if (e % 3 == queue) end += e % 7;
    }
  }
  struct Case {
    Routing routing;
    Values offsets;
    std::vector<Widths> widths;
  };
  const std::vector<Case> cases = {{large, {0, 130, 270}, {{72, 72}, {3, 70}}},
                                   {many, of_many, {{8, 8}, {16, 200}, {9, 16}}},
                                   {one, {0, 0}, {{8, 16}, {5, 1}}},
                                   {one, {0, 3}, {{136, 8}, {8, 5}}}};
  for (const Case& c : cases) {
    for (const Widths w : c.widths) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (Twins& twins : Products(c.routing, w.width, w.columns, dtype, c.offsets)) {
          INFO(twins.gpu.setup().kind << " " << c.routing.experts << " experts, " << w.width
                                      << " x " << w.columns << " " << std::string(Name(dtype)));
          twins.Call();
          twins.CheckNear();
        }
      }
    }
  }
}

TEST_CASE("offsets that are wrong read and write nothing else") {
  const Routing r{.b = 1, .t = 20, .experts = 4, .groups = 2, .run = 10, .slots = 20};
  const double most = std::numeric_limits<int32_t>::max();
  const std::vector<Values> wrong = {
      Values(12, most), Values(12, -1 - most), {5, 21, 3, -4, 10, most, 20, 0, 20, 0, 20, 20}};
  for (const Values& offsets : wrong) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (Twins& twins : Products(r, 16, 24, dtype, offsets)) {
        REQUIRE(twins.gpu.MakeAndCall() == absl::OkStatus());
        CHECK(twins.gpu.IsTidy());
      }
    }
  }
}

}  // namespace
}  // namespace oneflow::cuda
