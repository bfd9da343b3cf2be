#include "oneflow_core/op/experts.h"

#include <algorithm>
#include <string>

namespace oneflow {
namespace {

std::string NumberText(std::string_view attr, int64_t value) {
  return "attribute \"" + std::string(attr) + "\" is " + std::to_string(value);
}

// Chooses and queues as the kernel does, in another way: choice by choice, slots by sorting.
RouteSample MakeRouteSample(const SampleSizes& s, const RouteDims& d, int64_t runs,
                            double capacity) {
  RouteSample sample{.dims = d, .b = s.b, .t = runs * d.run};
  sample.attrs = {{"experts", d.experts}, {"groups", d.groups}, {"run", d.run}};
  if (capacity > 0) sample.attrs["capacity"] = capacity;
  const int64_t tokens = sample.b * sample.t, of_run = d.run * d.choices;
  sample.ids = SampleTensor::Ids({sample.b, sample.t, d.choices}, d.experts);
  sample.slots = SampleTensor::Ids(sample.ids.dims, d.slots);
  for (int64_t i = 0; i < tokens; ++i) {
    // Odd steps from expert to expert meet none twice, where experts are even.
    const int64_t first = (i * i + 3 * i) % d.experts,
                  step = d.experts % 2 == 0 ? 2 * (i % 2) + 1 : 1;
    for (int64_t j = 0; j < d.choices; ++j) {
      sample.ids.given.push_back(static_cast<double>((first + j * step) % d.experts));
    }
  }
  sample.slots.given.resize(sample.ids.given.size());
  const int64_t all_runs = sample.b * runs;
  sample.offsets = SampleTensor::Ids({d.groups, sample.b, runs, d.of_group() + 1}, d.slots + 1);
  sample.offsets.given.resize(Product(sample.offsets.dims));
  for (int64_t run = 0; run < all_runs; ++run) {
    for (int64_t e = 0, at = 0; e < d.experts; ++e) {
      if (e % d.of_group() == 0) at = 0;
      double* ends =
          &sample.offsets.given[(e / d.of_group() * all_runs + run) * (d.of_group() + 1)];
      for (int64_t i = run * of_run; i < (run + 1) * of_run; ++i) {
        if (sample.ids.given[i] != static_cast<double>(e)) continue;
        sample.slots.given[i] = static_cast<double>(at < d.slots ? at : -1);
        ++at;
      }
      ends[e % d.of_group() + 1] = static_cast<double>(std::min(at, d.slots));
    }
  }
  return sample;
}

}  // namespace

absl::StatusOr<RouteDims> FindRouteDims(const OpView& v, const Shape& tokens, int64_t experts,
                                        int64_t choices) {
  const int64_t groups = AttrInt(v.op, "groups", 1), run = AttrInt(v.op, "run");
  const double capacity = AttrDouble(v.op, "capacity"), imbalance = AttrDouble(v.op, "imbalance");
  const int64_t sequence = tokens.dims[1];
  if (experts < 1) return Mismatch(NumberText("experts", experts), "use 1 or more");
  if (choices < 1 || choices > experts) {
    return Mismatch(std::to_string(choices) + " choices of " + std::to_string(experts) + " experts",
                    "a token chooses from one to all");
  }
  if (groups < 1 || experts % groups != 0) {
    return Mismatch(NumberText("groups", groups) + " of " + std::to_string(experts) + " experts",
                    "use a divisor of the experts");
  }
  if (run < 0 || (run > 0 && sequence % run != 0)) {
    return Mismatch(
        NumberText("run", run) + ", and a sequence has " + std::to_string(sequence) + " positions",
        "use a divisor of the sequence, or leave it out");
  }
  if (!(capacity >= 0 && capacity <= 1e6)) {
    return Mismatch("attribute \"capacity\" is " + std::to_string(capacity),
                    "use slots relative to even routing, as 1.25, or leave it out to drop nothing");
  }
  return MakeRouteDims(experts, groups, choices, run, sequence,
                       capacity > 0 ? capacity : imbalance);
}

absl::Status ExpectChoices(const Tensor& ids, const Tensor& slots, const Tensor& tokens) {
  RETURN_IF_ERROR(ExpectIds("ids", ids));
  RETURN_IF_ERROR(ExpectIds("slots", slots));
  if (tokens.shape.rank() < 2 || ids.shape.rank() != 3 ||
      Part(ids.shape, 0, 2).dims != Part(tokens.shape, 0, 2).dims) {
    return Mismatch(Describe("ids", ids) + " must be [batch, seq, choices] of " +
                    Describe("the tokens", tokens));
  }
  return ExpectDims("slots", slots, ids.shape.dims, "that of " + Describe("ids", ids));
}

Shape SlotShape(const RouteDims& d, const Shape& tokens) {
  const int64_t runs = d.run > 0 ? tokens.dims[1] / d.run : 0;
  Shape shape({d.groups, tokens.dims[0], runs, d.slots});
  if (!tokens.names.empty())
    shape.names = {"expert_groups", tokens.names[0], tokens.names[1], "slots"};
  return shape;
}

int64_t CountRuns(const Op& op, int64_t positions) {
  const int64_t run = AttrInt(op, "run");
  return run > 0 ? positions / run : 1;
}

std::vector<AttrDef> RouteAttrs() {
  return {{"groups", AttrType::kInt},
          {"run", AttrType::kInt},
          {"capacity", AttrType::kDouble},
          OwnAttr("imbalance", AttrType::kDouble),
          OwnAttr("parts", AttrType::kInt)};
}

std::vector<RouteSample> RouteSamples(const SampleSizes& s) {
  const auto make = [&s](int64_t experts, int64_t groups, int64_t choices, int64_t runs,
                         double capacity) {
    const int64_t run = std::max<int64_t>(2, s.t / runs);
    return MakeRouteSample(s, MakeRouteDims(experts, groups, choices, run, run * runs, capacity),
                           runs, capacity);
  };
  return {make(6, 1, 2, 1, 0), make(12, 6, 2, 2, 0), make(6, 6, 3, 1, 1.0), make(6, 6, 2, 6, 0)};
}

}  // namespace oneflow
