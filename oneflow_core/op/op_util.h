// Small builders for the definitions in this folder: error texts, shapes that keep their dimension
// names, rows of SBP tables, gradient ops, products, samples. Internal to op/: no other folder
// includes it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

using Specs = absl::StatusOr<std::vector<OutputSpec>>;
using Rows = std::vector<Signature>;
using InputGrads = absl::StatusOr<std::vector<TensorId>>;
using Samples = std::vector<OpSample>;

// --- Errors. The op's name is added by the caller of `infer` ---

std::string Describe(std::string_view role, const Tensor& tensor);         // "x f32[4,5]"
absl::Status Mismatch(std::string_view what, std::string_view hint = "");  // INVALID_ARGUMENT
// Checks that inputs 0, 1, ... (called `roles`) are of one floating point type. Only those listed
// in `narrow` may be bf16, which then stands for f32.
absl::Status ExpectFloat(const OpView& v, const std::vector<std::string>& roles,
                         const std::vector<int>& narrow = {});
// Checks that inputs i and j are of one type; `roles` as above.
absl::Status ExpectSameType(const OpView& v, const std::vector<std::string>& roles, int i, int j);
absl::Status ExpectIds(std::string_view role, const Tensor& tensor);  // i32
absl::Status ExpectRank(std::string_view role, const Tensor& tensor, int at_least);
// Checks that `tensor` has these sizes; `of` names their source: "the output dims of w".
absl::Status ExpectDims(std::string_view role, const Tensor& tensor, const Dims& dims,
                        std::string_view of);

// Checks [batch, seq, 3, heads, head_dim]: queries, keys and values of attention.
absl::Status ExpectQkv(const Tensor& qkv);

// Checks that attribute `activation` is one that `gated` has; `fused`: that a product's kernel has.
absl::Status ExpectActivation(const Op& op, bool fused = false);

// Checks that attribute `rate` is the rate of a dropout: at least 0 and below 1.
absl::Status ExpectRate(const Op& op, std::string_view rate);

// "attribute "theta" is 0", and the hint.
absl::Status WrongNumber(std::string_view attribute, double value, std::string_view hint);
// Checks that an attribute, a number, is positive and finite, if it is there.
absl::Status ExpectPositive(const Op& op, std::string_view attribute,
                            std::string_view hint = "use a positive number");

// Checks that attribute `epsilon` of a norm is positive.
absl::Status ExpectEpsilon(const Op& op);
// The type of a norm's y: that of x (input 0), or the narrower one that the attribute `dtype`
// names.
absl::StatusOr<DType> NormOutputType(const OpView& v);

// --- Shapes, with the names of their dimensions ---

Shape Part(const Shape& shape, int begin, int end);  // dimensions [begin, end)
Shape Join(const Shape& a, const Shape& b);          // those of a, then those of b
// The dimensions but the last, and their number; of an op: those of its first input.
inline int LeadingDims(const Tensor& x) { return x.shape.rank() - 1; }
inline int LeadingDims(const OpView& v) { return LeadingDims(v.in(0)); }
inline Shape RowShape(const OpView& v) { return Part(v.in(0).shape, 0, LeadingDims(v)); }

// --- Rows ---

Signature AllB(const OpView& v);
inline Rows OnlyB(const OpView& v) { return {AllB(v)}; }
// All-B; and for each of the first `dims` dimensions i a row with S(i) everywhere except that the
// inputs listed in `replicated` are B.
Rows LeadRows(const OpView& v, int dims, const std::vector<int>& replicated = {});
// Rows of ops whose inputs and outputs all have one shape: all-B, and all S(i).
Rows AlikeRows(const OpView& v);
// The same, and all-P: for sums.
Rows LinearAlikeRows(const OpView& v);

// --- Gradients ---

// Appends a backward op for the op that is being differentiated: named after it plus `suffix`, on
// its stage, in its scope. Returns the first output; the others follow it.
TensorId AddGradient(GradientContext& g, std::string_view kind, std::string_view suffix,
                     std::vector<TensorId> inputs, AttrMap attrs = {}, int n_outputs = 1);
// Adds the gradient of a tensor that nothing depends on: a fill of zeros.
TensorId AddZeros(GradientContext& g, TensorId like);
// The op whose dropout mask `op` applies: its attribute `mask`, or itself.
std::string MaskName(const Op& op);
// An error if a gradient reaches an output after the first: those are saved values (mean, lse).
absl::Status OnlyFirstOutput(const GradientContext& g, std::string_view saved);

// --- Costs ---

// Returns a count of `per_element` operations for each element of input `input`.
std::function<double(const OpView&)> PerElement(double per_element, int input = 0);
inline double NoFlops(const OpView&) { return 0; }
inline constexpr double kGeluFlops = 10, kGeluGradFlops = 18;  // an element
inline constexpr double kSoftCapFlops = 10, kSoftCapGradFlops = 4;
// Operations of `gated` for an element, with the attribute `activation` of `op`.
double GatedFlops(const Op& op);
double GatedGradFlops(const Op& op);

// --- The op on one device ---

int64_t AttrInt(const LocalOp& op, std::string_view key, int64_t fallback = 0);
bool AttrBool(const LocalOp& op, std::string_view key);
// The op that its kernel applies to its product: OpDef::then.
std::string_view FindThen(const LocalOp& op);
// Attributes with each `activation` of `gated`, or of products' kernels: for samples.
std::vector<AttrMap> ActivationAttrs(bool fused = false);
// True if the attribute `activation` is "silu".
bool HasSilu(const LocalOp& op);
// Elements over dimensions [begin, end); end < 0: to the last.
int64_t CountElements(const Dims& dims, int begin = 0, int end = -1);

// --- Samples ---

// Returns `samples`, and the same with narrow tensors if they are floating point.
Samples AlsoNarrow(const Samples& samples);

// --- Attributes ---

// An attribute that only passes may set.
inline AttrDef OwnAttr(std::string name, AttrType type) {
  return {std::move(name), type, /*required=*/false, /*own=*/true};
}

}  // namespace oneflow
