// rotary: x[b, t, ..., d], (positions) -> y: rotary position embeddings. Element j < d / 2 of a
// head and element j + d / 2 are a pair, turned by the angle position * theta^(-2 j / d); a head at
// position 0 keeps its values. The frequencies of Llama 3.1 are scaled by their wavelength. It is
// linear in x, and its gradient turns the other way.
#include <array>
#include <cmath>
#include <sstream>
#include <string_view>

#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

constexpr std::string_view kFactor = "scale_factor", kLow = "low_frequency_factor";
constexpr std::string_view kHigh = "high_frequency_factor", kPositions = "original_positions";

std::string RotaryQuoted(std::string_view name) { return '"' + std::string(name) + '"'; }

absl::Status WrongNumber(std::string_view attribute, double value, std::string_view hint) {
  std::ostringstream text;
  text << "attribute " << RotaryQuoted(attribute) << " is " << value;
  return Mismatch(text.str(), hint);
}

bool IsPositive(double value) { return value > 0 && std::isfinite(value); }  // not so for NaN

// All attributes of the scaling, or none.
absl::Status ExpectScaling(const Op& op) {
  constexpr std::array kAll = {kFactor, kLow, kHigh, kPositions};
  std::string_view given, missing;
  for (const std::string_view name : kAll) {
    (op.attrs.find(name) != op.attrs.end() ? given : missing) = name;
  }
  if (given.empty()) return absl::OkStatus();
  if (!missing.empty()) {
    return Mismatch(
        "attribute " + RotaryQuoted(given) + " is given without " + RotaryQuoted(missing),
        "scaled frequencies need " + RotaryQuoted(kFactor) + ", " + RotaryQuoted(kLow) + ", " +
            RotaryQuoted(kHigh) + " and " + RotaryQuoted(kPositions) + "; give all four or none");
  }
  for (const std::string_view name : {kFactor, kLow, kHigh}) {
    const double value = AttrDouble(op, name);
    if (!IsPositive(value)) return WrongNumber(name, value, "use a positive number");
  }
  if (AttrInt(op, kPositions) < 1) {
    return WrongNumber(kPositions, static_cast<double>(AttrInt(op, kPositions)),
                       "use the number of positions of the first training, as 8192");
  }
  if (AttrDouble(op, kHigh) > AttrDouble(op, kLow)) return absl::OkStatus();
  return WrongNumber(kHigh, AttrDouble(op, kHigh), "use more than " + RotaryQuoted(kLow));
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
  if (x.shape.dims.back() % 2 != 0) {
    return Mismatch(Describe("x", x) + " has heads of an odd size",
                    "rotary turns pairs of elements: make the last dimension even");
  }
  const double theta = AttrDouble(v.op, "theta");
  if (!IsPositive(theta)) return WrongNumber("theta", theta, "use a positive number, as 10000");
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
  const SampleTensor each = SampleTensor::Ids({s.b, s.t}, 100000);
  Samples samples = {{{{{s.b, s.t, s.heads, 2, s.d}}}, theta},
                     {{{{s.b, s.t, s.heads, s.d}}, each}, scaled},
                     {{{{s.b, s.t, s.d}}, SampleTensor::Ids({1}, 100)}, theta}};
  if (s.large) {  // several tokens a block of a GPU, and one
    samples.push_back({{{{2, 9, 5, 128}}}, theta});
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
                     {std::string(kPositions), AttrType::kInt}},
           .infer = InferRotary,
           .signatures = RotaryRows,
           .gradient = RotaryGradient,
           .flops = PerElement(3),
           .positions = Positions::kInput,
           .precision = {Precision::kNarrow},
           .samples = RotarySamples}};
}

}  // namespace oneflow
