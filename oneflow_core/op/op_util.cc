#include "oneflow_core/op/op_util.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "oneflow_core/op/activation.h"

namespace oneflow {

std::string Describe(std::string_view role, const Tensor& tensor) {
  return std::string(role) + ' ' + std::string(Name(tensor.dtype)) + ToString(tensor.shape);
}

absl::Status Mismatch(std::string_view what, std::string_view hint) {
  std::string message(what);
  if (!hint.empty()) message += "; " + std::string(hint);
  return absl::InvalidArgumentError(message);
}

namespace {

absl::Status DifferInType(const OpView& v, const std::vector<std::string>& roles, int i, int j) {
  return Mismatch(
      Describe(roles[i], v.in(i)) + " and " + Describe(roles[j], v.in(j)) + " differ in type",
      "give both one dtype");
}

}  // namespace

absl::Status ExpectFloat(const OpView& v, const std::vector<std::string>& roles,
                         const std::vector<int>& narrow) {
  for (int i = 0; i < static_cast<int>(roles.size()); ++i) {
    const Tensor& tensor = v.in(i);
    if (!IsFloat(tensor.dtype)) {
      return Mismatch(Describe(roles[i], tensor) + " is not of a floating point type");
    }
    if (tensor.dtype == DType::kBF16 &&
        std::find(narrow.begin(), narrow.end(), i) == narrow.end()) {
      return Mismatch(Describe(roles[i], tensor) + " is read as f32 only", "cast it");
    }
    if (AccumulationType(tensor.dtype) != AccumulationType(v.in(0).dtype))
      return DifferInType(v, roles, 0, i);
  }
  return absl::OkStatus();
}

absl::Status ExpectSameType(const OpView& v, const std::vector<std::string>& roles, int i, int j) {
  return v.in(i).dtype == v.in(j).dtype ? absl::OkStatus() : DifferInType(v, roles, i, j);
}

absl::Status ExpectIds(std::string_view role, const Tensor& tensor) {
  if (tensor.dtype == DType::kI32) return absl::OkStatus();
  return Mismatch(Describe(role, tensor) + " must be of type i32: it holds ids",
                  "set dtype: I32 on the op that makes it");
}

absl::Status ExpectRank(std::string_view role, const Tensor& tensor, int at_least) {
  if (tensor.shape.rank() >= at_least) return absl::OkStatus();
  return Mismatch(Describe(role, tensor) + " needs at least " + std::to_string(at_least) +
                  " dimension(s)");
}

absl::Status ExpectDims(std::string_view role, const Tensor& tensor, const Dims& dims,
                        std::string_view of) {
  if (tensor.shape.dims == dims) return absl::OkStatus();
  return Mismatch(Describe(role, tensor) + " must have shape " + ToString(dims) + ", " +
                  std::string(of));
}

absl::Status ExpectQkv(const Tensor& qkv) {
  if (qkv.shape.rank() == 5 && qkv.shape.dims[2] == 3) return absl::OkStatus();
  return Mismatch(Describe("qkv", qkv) + " must be [batch, seq, 3, heads, head_dim]",
                  "make it with a linear whose w is [hidden, 3, heads, head_dim]");
}

absl::Status WrongNumber(std::string_view attribute, double value, std::string_view hint) {
  std::ostringstream text;
  text << "attribute \"" << attribute << "\" is " << value;
  return Mismatch(text.str(), hint);
}

absl::Status ExpectPositive(const Op& op, std::string_view attribute, std::string_view hint) {
  const double value = AttrDouble(op, attribute, 1);
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();  // not so for NaN
  return WrongNumber(attribute, value, hint);
}

absl::Status ExpectRate(const Op& op, std::string_view rate) {
  const double value = AttrDouble(op, rate);
  if (value >= 0 && value < 1) return absl::OkStatus();  // not so for NaN
  return WrongNumber(rate, value,
                     "a part of the elements is dropped: use 0 or more and less than 1");
}

absl::Status ExpectActivation(const Op& op, bool fused) {
  const std::string activation = AttrString(op, "activation");
  const Activation* found = FindActivation(activation);
  if (found != nullptr && (found->fused || !fused)) return absl::OkStatus();
  std::string names;
  for (const Activation& a : Activations()) {
    if (fused && !a.fused) continue;
    names.append(names.empty() ? "use one of \"" : ", \"").append(a.name) += '"';
  }
  return Mismatch("attribute \"activation\" is \"" + activation + '"', names);
}

absl::Status ExpectEpsilon(const Op& op) {
  if (AttrDouble(op, "epsilon", 1e-5) > 0) return absl::OkStatus();
  return Mismatch("attribute \"epsilon\" is not positive", "use 1e-5");
}

absl::StatusOr<DType> NormOutputType(const OpView& v) {
  const DType x = v.in(0).dtype;
  const auto attr = v.op.attrs.find("dtype");
  if (attr == v.op.attrs.end()) return x;
  ASSIGN_OR_RETURN(const DType y, ParseDType(std::get<std::string>(attr->second)));
  if (AccumulationType(y) != DType::kF32 || (x == DType::kBF16 && y != x)) {
    return Mismatch(
        "attribute \"dtype\" is " + std::string(Name(y)) + " with " + Describe("x", v.in(0)),
        "use bf16, or f32 where x is f32");
  }
  return x == DType::kF64 ? x : y;
}

Shape Part(const Shape& shape, int begin, int end) {
  Shape part(Dims(shape.dims.begin() + begin, shape.dims.begin() + end));
  if (!shape.names.empty()) {
    part.names.assign(shape.names.begin() + begin, shape.names.begin() + end);
  }
  return part;
}

Shape Join(const Shape& a, const Shape& b) {
  Shape joined = a;
  joined.dims.insert(joined.dims.end(), b.dims.begin(), b.dims.end());
  if (a.names.empty() && b.names.empty()) return joined;
  joined.names.resize(a.dims.size());
  joined.names.insert(joined.names.end(), b.names.begin(), b.names.end());
  joined.names.resize(joined.dims.size());
  return joined;
}

namespace {

Signature Everywhere(const OpView& v, Sbp sbp) {
  return {std::vector<Sbp>(v.op.inputs.size(), sbp), std::vector<Sbp>(v.op.outputs.size(), sbp)};
}

}  // namespace

Signature AllB(const OpView& v) { return Everywhere(v, B()); }

Rows LeadRows(const OpView& v, int dims, const std::vector<int>& replicated) {
  Rows rows = {AllB(v)};
  for (int i = 0; i < dims; ++i) {
    Signature row = Everywhere(v, S(i));
    for (const int input : replicated) row.in[input] = B();
    rows.push_back(std::move(row));
  }
  return rows;
}

Rows AlikeRows(const OpView& v) { return LeadRows(v, v.in(0).shape.rank()); }

Rows LinearAlikeRows(const OpView& v) {
  Rows rows = AlikeRows(v);
  rows.push_back(Everywhere(v, P()));
  return rows;
}

TensorId AddGradient(GradientContext& g, std::string_view kind, std::string_view suffix,
                     std::vector<TensorId> inputs, AttrMap attrs, int n_outputs) {
  const Op forward = g.graph.ops[g.op];  // a copy: AddOp may move the ops
  const std::string wish = forward.name + std::string(suffix);
  std::string name = wish;
  for (int i = 2; g.graph.FindOp(name) != nullptr; ++i) name = wish + '.' + std::to_string(i);
  const OpId id = g.graph.AddOp(std::string(kind), std::move(name), std::move(inputs),
                                std::move(attrs), n_outputs);
  Op& added = g.graph.ops[id];
  added.phase = Phase::kBackward;
  added.stage = forward.stage;
  added.written_at = forward.written_at;
  added.chunk = forward.chunk;
  added.block = forward.block;
  added.scope = forward.scope.empty() ? forward.name : forward.scope;
  return added.outputs[0];
}

TensorId AddZeros(GradientContext& g, TensorId like) {
  const TensorId zeros = AddGradient(g, "fill", ".zeros", {},
                                     {{"value", 0.0}, {"dims", g.graph.tensors[like].shape.dims}});
  g.graph.tensors[zeros].dtype = g.graph.tensors[like].dtype;
  return zeros;
}

std::string MaskName(const Op& op) { return AttrString(op, "mask", op.name); }

absl::Status OnlyFirstOutput(const GradientContext& g, std::string_view saved) {
  for (size_t i = 1; i < g.output_grads.size(); ++i) {
    if (g.output_grads[i] >= 0) {
      return Mismatch("the loss depends on its output " + std::to_string(i) + ": " +
                          std::string(saved) + " is not differentiable",
                      "use its output 0 only");
    }
  }
  return absl::OkStatus();
}

double GatedFlops(const Op& op) { return FindActivation(AttrString(op, "activation"))->flops; }
double GatedGradFlops(const Op& op) {
  return FindActivation(AttrString(op, "activation"))->grad_flops;
}

Samples AlsoNarrow(const Samples& samples) {
  Samples all = samples;
  for (OpSample sample : samples) {
    for (SampleTensor& tensor : sample.in) {
      if (tensor.ids == 0 && !tensor.mask) tensor.narrow = true;
    }
    all.push_back(std::move(sample));
  }
  return all;
}

int64_t AttrInt(const LocalOp& op, std::string_view key, int64_t fallback) {
  const auto it = op.attrs.find(key);
  return it == op.attrs.end() ? fallback : std::get<int64_t>(it->second);
}

std::vector<AttrMap> ActivationAttrs(bool fused) {
  std::vector<AttrMap> all;
  for (const Activation& a : Activations()) {
    if (a.fused || !fused) all.push_back({{"activation", std::string(a.name)}});
  }
  return all;
}

bool HasSilu(const LocalOp& op) {
  const auto it = op.attrs.find("activation");
  return it != op.attrs.end() && std::get<std::string>(it->second) == "silu";
}

bool AttrBool(const LocalOp& op, std::string_view key) {
  const auto it = op.attrs.find(key);
  return it != op.attrs.end() && std::get<bool>(it->second);
}

std::string_view FindThen(const LocalOp& op) {
  const auto it = op.attrs.find("then");
  return it == op.attrs.end() ? std::string_view() : std::get<std::string>(it->second);
}

int64_t CountElements(const Dims& dims, int begin, int end) {
  if (end < 0) end = static_cast<int>(dims.size());
  int64_t elements = 1;
  for (int i = begin; i < end; ++i) elements *= dims[i];
  return elements;
}

std::function<double(const OpView&)> PerElement(double per_element, int input) {
  return [per_element, input](const OpView& v) {
    return per_element * static_cast<double>(v.in(input).shape.elements());
  };
}

}  // namespace oneflow
