// rotary: x[b, t, ..., d], (positions) -> y: rotary position embeddings. Of the first `rotated`
// elements of a head, element j < rotated / 2 and element j + rotated / 2 are a pair, turned by the
// angle position * theta^(-2 j / rotated); the others keep their values. If it is odd, one element
// more turns, as in transformers. Frequencies may be scaled
// (actor_runtime/kernel/rotary_frequencies.h). It is linear in x, and its gradient turns the other
// way; `attention_factor` multiplies both.
#include <string>
#include <string_view>
#include <utility>

#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

constexpr std::string_view kFactor = "scale_factor", kLow = "low_frequency_factor";
constexpr std::string_view kHigh = "high_frequency_factor", kPositions = "original_positions";
constexpr std::string_view kScaling = "scaling", kExact = "exact", kRotated = "rotated";
constexpr std::string_view kAttentionFactor = "attention_factor";
constexpr std::string_view kLinear = "linear", kYarn = "yarn";  // scalings; "": that of Llama 3.1

std::string RotaryQuoted(std::string_view name) { return '"' + std::string(name) + '"'; }

// All numbers of the scaling, or none where it has no name.
absl::Status ExpectNumbers(const Op& op, std::string_view scaling) {
  std::string_view given = scaling.empty() ? "" : kScaling, missing;
  for (const std::string_view name : {kFactor, kLow, kHigh, kPositions}) {
    const bool wanted = scaling != kLinear || name == kFactor, has = op.attrs.contains(name);
    if (!wanted && has) {
      return Mismatch("attribute " + RotaryQuoted(name) + " is given for linear scaling",
                      "that has " + RotaryQuoted(kFactor) + " alone");
    }
    if (wanted) (has ? given : missing) = name;
  }
  if (given.empty() || missing.empty()) return absl::OkStatus();
  return Mismatch("attribute " + RotaryQuoted(given) + " is given without " + RotaryQuoted(missing),
                  scaling == kLinear
                      ? "linear scaling needs it"
                      : "scaled frequencies need " + RotaryQuoted(kFactor) + ", " +
                            RotaryQuoted(kLow) + ", " + RotaryQuoted(kHigh) + " and " +
                            RotaryQuoted(kPositions) + "; give all four or none");
}

absl::Status ExpectScaling(const Op& op) {
  const std::string scaling = AttrString(op, kScaling);
  if (op.attrs.contains(kScaling) && scaling != kLinear && scaling != kYarn) {
    return Mismatch("attribute \"scaling\" is \"" + scaling + '"',
                    R"(use "linear" or "yarn", or leave it out for that of Llama 3.1)");
  }
  RETURN_IF_ERROR(ExpectNumbers(op, scaling));
  const bool yarn = scaling == kYarn;
  if (AttrBool(op, kExact) && !yarn) {
    return Mismatch("attribute \"exact\" is given without YaRN's scaling", "leave it out");
  }
  for (const std::string_view name : {kFactor, kLow, kHigh, kAttentionFactor}) {
    RETURN_IF_ERROR(ExpectPositive(op, name));
  }
  if (!op.attrs.contains(kPositions)) return absl::OkStatus();
  if (AttrInt(op, kPositions) < 1) {
    return WrongNumber(kPositions, static_cast<double>(AttrInt(op, kPositions)),
                       "use the number of positions of the first training, as 8192");
  }
  if (yarn && AttrDouble(op, "theta") == 1) {
    return WrongNumber("theta", 1, "YaRN scales frequencies that differ, as those of 10000");
  }
  // The ramp of YaRN may be a step.
  const double low = AttrDouble(op, kLow), high = AttrDouble(op, kHigh);
  if (yarn ? high >= low : high > low) return absl::OkStatus();
  return WrongNumber(kHigh, high,
                     (yarn ? "use no less than " : "use more than ") + RotaryQuoted(kLow));
}

absl::Status ExpectRotated(const Op& op, const Tensor& x) {
  const int64_t d = x.shape.dims.back(), rotated = AttrInt(op, kRotated, d);
  if (op.attrs.contains(kRotated)) {
    const bool odd = rotated % 2 != 0;
    if (rotated >= 1 && rotated + (odd ? 1 : 0) <= d &&
        !(odd && AttrString(op, kScaling) == kYarn)) {
      return absl::OkStatus();
    }
    return Mismatch(
        "attribute \"rotated\" is " + std::to_string(rotated) + " with " + Describe("x", x),
        "use a number of a head's elements, an even one for YaRN");
  }
  if (rotated % 2 == 0) return absl::OkStatus();
  return Mismatch(Describe("x", x) + " has heads of an odd size",
                  "rotary turns pairs of elements: make the last dimension even");
}

// The positions [b, t] of all tokens, or the position [1] of the first.
absl::Status ExpectPositions(const Tensor& positions, const Tensor& x) {
  RETURN_IF_ERROR(ExpectIds("positions", positions));
  if (positions.shape.dims == Dims{1}) return absl::OkStatus();
  return ExpectDims("positions", positions, Part(x.shape, 0, 2).dims,
                    "one position for each token of " + Describe("x", x) +
                        ", or shape [1], the position of the first");
}

Specs InferRotary(const OpView& v) {
  const Tensor& x = v.in(0);
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  RETURN_IF_ERROR(ExpectRank("x", x, 3));
  RETURN_IF_ERROR(ExpectRotated(v.op, x));
  RETURN_IF_ERROR(ExpectPositive(v.op, "theta", "use a positive number, as 10000"));
  RETURN_IF_ERROR(ExpectScaling(v.op));
  if (v.n_inputs() > 1) RETURN_IF_ERROR(ExpectPositions(v.in(1), x));
  return std::vector<OutputSpec>{{x.shape, x.dtype}};
}

// Positions [b, t] are split as the tokens are; the position of the first token is replicated.
Rows RotaryRows(const OpView& v) {
  const bool each = v.n_inputs() > 1 && v.in(1).shape.rank() == 2;
  Rows rows;
  for (Signature row : LinearAlikeRows(v)) {
    const Sbp sbp = row.in[0];
    const bool tokens = sbp.split() && sbp.dim < 2;
    if (sbp.split() && (sbp.dim == v.in(0).shape.rank() - 1 || (sbp.dim == 1 && !each))) continue;
    if (v.n_inputs() > 1 && !(tokens && each)) row.in[1] = B();
    rows.push_back(std::move(row));
  }
  return rows;
}

InputGrads RotaryGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  std::vector<TensorId> grads(op.inputs.size(), -1);
  std::vector<TensorId> inputs = op.inputs;
  inputs[0] = g.output_grads[0];
  AttrMap attrs = op.attrs;
  attrs["inverse"] = !AttrBool(op, "inverse");
  grads[0] = AddGradient(g, "rotary", ".dx", std::move(inputs), std::move(attrs));
  return grads;
}

Samples RotarySamples(const SampleSizes& s) {
  const AttrMap theta = {{"theta", 10000.0}};
  AttrMap scaled = {{"theta", 500000.0}, {"inverse", true}, {std::string(kFactor), 8.0}};
  scaled.insert({{std::string(kLow), 1.0}, {std::string(kHigh), 4.0}});
  scaled.insert({std::string(kPositions), int64_t{64}});
  const AttrMap linear = {{"theta", 10000.0},
                          {std::string(kScaling), std::string(kLinear)},
                          {std::string(kFactor), 4.0},
                          {std::string(kRotated), int64_t{2}}};
  AttrMap yarn = scaled;
  yarn.insert({{std::string(kScaling), std::string(kYarn)}, {std::string(kExact), true}});
  yarn.insert({std::string(kAttentionFactor), 1.25});
  const SampleTensor each = SampleTensor::Ids({s.b, s.t}, 100000);
  Samples samples = {{{{{s.b, s.t, s.heads, 2, s.d}}}, theta},
                     {{{{s.b, s.t, s.heads, s.d}}, each}, scaled},
                     {{{{s.b, s.t, s.d}}, SampleTensor::Ids({1}, 100)}, theta},
                     {{{{s.b, s.t, s.heads, s.d}}, each}, yarn},
                     {{{{s.b, s.t, s.heads, 6}}, each}, linear}};
  if (s.large) {  // several tokens a block of a GPU, and one
    samples.push_back({{{{2, 9, 5, 128}}}, theta});
    AttrMap part = yarn;
    part[std::string(kRotated)] = int64_t{64};
    samples.push_back({{{{2, 9, 5, 128}}}, std::move(part)});
    samples.push_back({{{{2, 3, 5, 512}}, SampleTensor::Ids({2, 3}, 1000)}, theta});
  }
  return AlsoNarrow(samples);
}

}  // namespace

std::vector<OpDef> RotaryOps() {
  return {{.kind = "rotary",
           .usage = "x[b, t, ..., d], (positions[b, t] or [1]) -> y",
           .inputs = {1, 2},
           .attrs = {{"theta", AttrType::kDouble, true},
                     {"inverse", AttrType::kBool},
                     {std::string(kFactor), AttrType::kDouble},
                     {std::string(kLow), AttrType::kDouble},
                     {std::string(kHigh), AttrType::kDouble},
                     {std::string(kPositions), AttrType::kInt},
                     {std::string(kScaling), AttrType::kString},
                     {std::string(kExact), AttrType::kBool},
                     {std::string(kAttentionFactor), AttrType::kDouble},
                     {std::string(kRotated), AttrType::kInt}},
           .infer = InferRotary,
           .signatures = RotaryRows,
           .gradient = RotaryGradient,
           .flops = PerElement(3),
           .positions = Positions::kInput,
           .precision = {Precision::kNarrow},
           .samples = RotarySamples}};
}

}  // namespace oneflow
