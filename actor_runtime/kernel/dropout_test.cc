// Dropout's masks: their frequency and independence, and that only (seed, step, mask, element of
// the step) change them.
#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel_samples.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

struct Run {
  uint64_t seed = 1;
  int64_t first_step = 0, firing = 0, micro_batches = 1;
  std::string name = "drop", mask;  // mask: none if empty
  double rate = 0.25;
};

// The result of dropout on a slice of ones: 0 for a dropped element.
Values Drop(const Run& run, const Dims& dims, const Slice& slice, DType dtype = DType::kF32) {
  AttrMap attrs{{"rate", run.rate}};
  if (!run.mask.empty()) attrs["mask"] = run.mask;
  KernelHarness h("dropout", attrs, {{SlicePort(dims, slice, dtype)}},
                  {SlicePort(dims, slice, dtype)});
  h.setup().name = run.name;
  h.run().seed = run.seed;
  h.run().first_step = run.first_step;
  h.run().micro_batches = run.micro_batches;
  h.SetInput(0, Values(slice.elements(), 1));
  REQUIRE(h.Make() == absl::OkStatus());
  REQUIRE(h.Call(false, run.firing) == absl::OkStatus());
  return h.Output(0);
}

Values Drop(const Run& run, const Dims& dims) {
  return Drop(run, dims, {Dims(dims.size(), 0), dims});
}

// The part of elements that are dropped in both, or kept in both.
double Agreement(const Values& a, const Values& b) {
  double same = 0;
  for (size_t i = 0; i < a.size(); ++i) same += (a[i] == 0) == (b[i] == 0);
  return same / static_cast<double>(a.size());
}

constexpr int64_t kMany = 200000;
// Five standard deviations of the mean of kMany draws with probability 1/2 or less.
const double kSlack = 5 * 0.5 / std::sqrt(kMany);

TEST_CASE("dropout drops at its rate and keeps the mean") {
  for (const double rate : {0.1, 0.25, 0.9}) {
    double dropped = 0, mean = 0;
    for (const double v : Drop({.rate = rate}, {kMany})) {
      REQUIRE((v == 0 || v == static_cast<float>(1 / (1 - rate))));
      dropped += v == 0;
      mean += v / kMany;
    }
    CHECK(std::abs(dropped / kMany - rate) < kSlack);
    CHECK(std::abs(mean - 1) < kSlack / (1 - rate));
  }
  CHECK(Drop({.rate = 0}, {100}) == Values(100, 1));
}

TEST_CASE("masks of other steps, ops, seeds and micro-batches are independent") {
  const Run run{.micro_batches = 2};
  const Values mask = Drop(run, {kMany});
  std::vector<Run> others(4, run);
  others[0].first_step = 1;
  others[1].name = "other";
  others[2].seed = 2;
  others[3].firing = 1;
  for (const Run& other : others) {
    const double chance = 0.75 * 0.75 + 0.25 * 0.25;
    CHECK(std::abs(Agreement(mask, Drop(other, {kMany})) - chance) < kSlack);
  }
  const Values neighbours(mask.begin() + 1, mask.end());
  CHECK(std::abs(Agreement(neighbours, Values(mask.begin(), mask.end() - 1)) - 0.625) < kSlack);
}

TEST_CASE("micro-batches and slices of every dimension split one mask") {
  constexpr int64_t kBatch = 8;
  const Dims sample{6, 37};
  const Values full = Drop({.first_step = 3}, {kBatch, sample[0], sample[1]});
  for (const int64_t m : {1, 2, 4, 8}) {
    const Dims dims{kBatch / m, sample[0], sample[1]};
    for (int dim = 0; dim < 3; ++dim) {
      for (const int devices : {1, 2, 3}) {
        INFO("M " << m << " dim " << dim << " devices " << devices);
        const Mesh mesh{{{"x", devices}}};
        Values joined;
        for (int64_t i = 0; i < m; ++i) {
          Values part(Product(dims), -1);
          for (int device = 0; device < devices; ++device) {
            const Slice slice = LocalSlice(MakeLayout(dims, {S(dim)}), mesh, {device});
            const Run run{.first_step = 1, .firing = 2 * m + i, .micro_batches = m};
            Paste(Drop(run, dims, slice), dims, slice, &part);
          }
          joined.insert(joined.end(), part.begin(), part.end());
        }
        REQUIRE(joined == full);
      }
    }
  }
}

TEST_CASE("a gradient or a clone has the mask of the op it names") {
  const Values forward = Drop({.name = "drop"}, {1000});
  CHECK(Drop({.name = "drop.dx", .mask = "drop"}, {1000}) == forward);
  CHECK(Drop({.name = "drop.dx"}, {1000}) != forward);
}

TEST_CASE("a mask that is stored is that of dropout, on any slice, and its gradient reads it") {
  const Dims dims{6, 37};
  const Slice slice = LocalSlice(MakeLayout(dims, {S(1)}), Mesh{{{"x", 2}}}, {1});
  const Port port = SlicePort(dims, slice, DType::kF32);
  const Port mask_port = SlicePort(dims, slice, DType::kU8);
  const AttrMap rate{{"rate", 0.25}};
  KernelHarness forward("stored_dropout", rate, {{port}}, {port, mask_port});
  forward.setup().name = "drop";
  forward.run().seed = 1;
  forward.SetInput(0, Values(slice.elements(), 1));
  REQUIRE(forward.MakeAndCall() == absl::OkStatus());
  const Values expected = Drop({}, dims, slice);
  CHECK(forward.Output(0) == expected);

  KernelHarness backward("stored_dropout_grad", rate, {{port}, {mask_port}}, {port});
  backward.SetInput(0, Values(slice.elements(), 1));
  backward.SetInput(1, forward.Output(1));
  REQUIRE(backward.MakeAndCall() == absl::OkStatus());
  CHECK(backward.Output(0) == expected);
}

TEST_CASE("every dtype drops the same elements") {
  const Dims dims{10, 33};
  const Slice full{{0, 0}, dims};
  CHECK(Agreement(Drop({}, dims, full, DType::kF32), Drop({}, dims, full, DType::kF64)) == 1);
}

}  // namespace
}  // namespace oneflow
