// The definition of a kind of op: everything the compiler knows about it. Kinds that belong
// together are one file (op/linear.cc, op/layer_norm.cc, ...; op/elementwise.cc for the simple
// ones), and op/registry.cc collects all in one constant table. There is no registration at run
// time. Every property of a kind is a field of its row, so that passes, cost model, verifier and
// tests name no kinds.
//
// An op definition is not a kernel: it never computes. The kernel of the same key is in
// actor_runtime/kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/attention_spec.h"
#include "oneflow_core/op/op_sample.h"
#include "oneflow_core/op/product_spec.h"

namespace oneflow {

// Shapes and dtypes of the inputs, as an op sees them.
struct OpView {
  const Graph& graph;
  const Op& op;
  int n_inputs() const { return static_cast<int>(op.inputs.size()); }
  const Tensor& in(int i) const { return graph.tensors[op.inputs[i]]; }
  const Tensor& out(int i) const { return graph.tensors[op.outputs[i]]; }
  const Dims& in_dims(int i) const { return in(i).shape.dims; }
};

// One row of a 1-D SBP table: an assignment to inputs and outputs that needs no communication.
struct Signature {
  std::vector<Sbp> in, out;
  // The number of parts divides this, so that two splits of different tensors are aligned. 0: any
  // number.
  int64_t divided = 0;
  bool operator==(const Signature&) const = default;
};

struct OutputSpec {
  Shape shape;
  DType dtype = DType::kF32;
};

// The input of an op's gradient function.
struct GradientContext {
  Graph& graph;                        // gradient ops are appended to it, as Phase::kBackward
  OpId op;                             // the forward op
  std::vector<TensorId> output_grads;  // one for each output; -1: no gradient reaches it
  std::vector<bool> needs_grad;        // one for each input
};

enum class AttrType { kInt, kDouble, kBool, kString, kInts };
struct AttrDef {
  std::string name;
  AttrType type;
  bool required = false;
  bool own = false;  // only passes may set it
};

// The type in which an op reads an input when the compiler computes in bf16
// (compiler/passes/mixed_precision.cc).
enum class Precision : uint8_t {
  kWide,      // f32
  kNarrow,    // bf16
  kEither,    // as it was made
  kStream,    // of the residual stream: bf16 where that is, else f32
  kToStream,  // added to the stream, or the gradient of what read it: bf16 where it is, else either
  kBias,      // of a product: bf16 where biases are, else f32
};

// The source of positions for an op that depends on those of its tokens. Without an input for them
// they are the indices of a sequence.
enum class Positions : uint8_t {
  kNone,   // it does not depend on them
  kInput,  // an input behind all others, which may be left out
  kTable,  // it adds the rows of a table, input 1: that of index i to token i
  kWhole,  // a token sees all before it: there is no input
};

// An input of indices (ids of tokens, labels): each selects one element along a dimension of
// another tensor of the op. No kernel checks them, because a device with a part of that tensor
// ignores the others' indices. A negative one selects nothing, and is a mistake unless the op has
// the attribute `ignore_negative`.
struct Indices {
  int input = -1;  // which input they are; -1: there is none
  int of = 0;      // the input that they select from; -1: output 0
  int dim = 0;     // the dimension; -1: the last
};

// The figures of a device that give the time of a kernel (oneflow_core/cost/kernel_cost.h).
enum class KernelClass : uint8_t {
  kElements,  // element by element
  kRows,      // sums and maxima of rows: norms, softmax, losses
  kGather,    // rows that indices select
  kProducts,
  kAttention,
};

// FLOPs of the matrix products of an op as MFU and HFU count them (docs/performance.md).
struct CountedFlops {
  double model = 0;       // of the products that the model asks for, forward or backward
  double recomputed = 0;  // of products of the forward that the kernel computes once more
  double hidden = 0;  // of `model`: of pairs that causality hides, which no kernel needs to compute
};

// The number of inputs of an op: {2}, {2, 3} or {1, kAnyNumber}.
inline constexpr int kAnyNumber = -1;
struct Arity {
  int least = 0, most = least;
};

struct OpDef {
  std::string kind;
  // A kind may have several forms, each with a row: the op that a product's kernel applies to its
  // result, as the attribute `then` names it. Empty for the plain one.
  std::string then;
  std::string usage;  // "x[..., c...], w[c..., o...], (bias[o...]) -> [..., o...]", for messages
  Arity inputs;
  int outputs = 1;
  // The first `updates` inputs are variables, and as many first outputs their new values. The op
  // updates them in place, so input and output have the same layout and no boxing between. Only
  // passes may add such an op.
  int updates = 0;
  // The next `versioned_updates` inputs are variables with several versions, one a slot. The output
  // of the same index is the next version, in the slot after the newest.
  int versioned_updates = 0;
  std::vector<AttrDef> attrs;
  // Infers shapes and dtypes of the outputs; errors lack the op's name, which the caller adds.
  std::function<absl::StatusOr<std::vector<OutputSpec>>(const OpView&)> infer;
  // Returns all rows of the 1-D table for these shapes, the preferred first; all-B is always among
  // them, except for kinds that fix their output (boxing).
  std::function<std::vector<Signature>(const OpView&)> signatures;
  // Appends gradient ops; returns the gradient of each input, -1 if none flows. It has the input's
  // shape, but for `mean_nll`: see op/cross_entropy.cc. Called if at least one input needs one; the
  // gradients of the others are not used. Null: not differentiable (gradients stop).
  std::function<absl::StatusOr<std::vector<TensorId>>(GradientContext&)> gradient;
  // Floating point operations of the logical op (matrix products count 2 m n k; the rest a few an
  // element).
  std::function<double(const OpView&)> flops;
  // The matrix product, or batch of them, that the op is. Null for all others. A device has a
  // separate rate for products. All other work is element by element in f32, for any types of
  // inputs and outputs.
  std::function<ProductSpec(const LocalOp&)> product;
  // True if the op is several products, which the kernel splits into tiles of its own.
  bool own_products = false;
  // The sizes of attention in one kernel. Null for all others.
  std::function<AttentionSpec(const LocalOp&)> attention;
  // True if the values between those products are rounded to the type of the factors.
  bool rounds_between = false;
  // Null: those of `product`, or none. Required of own_products that have a kernel.
  std::function<CountedFlops(const LocalOp&)> counted_flops;
  bool HasProducts() const { return product != nullptr || own_products; }
  // The class of a kind without products; FindKernelClass has all.
  KernelClass kernel_class = KernelClass::kElements;
  KernelClass FindKernelClass() const {
    if (attention != nullptr) return KernelClass::kAttention;
    return HasProducts() ? KernelClass::kProducts : kernel_class;
  }
  Indices indices;
  Positions positions = Positions::kNone;
  // True if the kernel reads as much as it writes of the input that the indices select from.
  bool looks_up = false;
  // True if its kernel only overwrites its outputs, so they cannot add up over micro-batches. A
  // product of matrices into bf16 cannot, either.
  bool overwrites = false;
  // For an op that does not overwrite all its outputs: the number of first ones that are
  // overwritten in each firing, while others add up. Gradients of activations beside one of a
  // weight are an example.
  int fresh = 0;
  // True if it drops elements at random. Only training does.
  bool random = false;
  // Precision by input; inputs after the last entry have that of the last. Empty: all are read as
  // f32.
  std::vector<Precision> precision;
  // True if it can write output 0 in bf16 though it reads f32, if its attribute `dtype` says so.
  bool may_round = false;
  // Bytes of scratch for one firing; null: those of its product, if it is one, else none. On a CPU
  // `threads` work at once.
  std::function<int64_t(const LocalOp&, int threads)> cpu_workspace;
  std::function<int64_t(const LocalOp&)> cuda_workspace;
  // The kernels of the kind. Kinds of graphs alone have none, nor do those that become exchanges or
  // actors of the host.
  bool on_cpu = true, on_cuda = true;
  // For a kind that only passes may add: the hint for a user who wrote one.
  std::string instead;
  // True if `recompute: selective` recomputes it in the backward: it takes little time, and its
  // outputs much memory.
  bool selective = false;
  // True if it is never recomputed: its outputs are small, and decide the rest of a step. So the
  // backward must have those of the forward; another computation of scores, perhaps rounded in
  // another way, might decide otherwise.
  bool decides = false;
  // True if its sums have a fixed order, or it has none: the same bits on every kind of device.
  bool exact = false;
  // Ops of this kind for tests, of all shapes and types that kernels distinguish. They need no
  // attribute `then`.
  std::function<std::vector<OpSample>(const SampleSizes&)> samples;
};

// The definition of a kind (of its plain form), or of a form by its name; nullptr if there is none.
const OpDef* FindOpDef(std::string_view kind);
const OpDef* FindOpDef(std::string_view kind, const AttrMap& attrs);
inline const OpDef* FindOpDef(const Op& op) { return FindOpDef(op.kind, op.attrs); }
// The name of a form, by which costs are known: "linear", "linear+gelu".
std::string FormName(std::string_view kind, std::string_view then);
std::string FormName(std::string_view kind, const AttrMap& attrs);
inline std::string FormName(const Op& op) { return FormName(op.kind, op.attrs); }
// The samples of a row, with the attribute `then` of its form.
std::vector<OpSample> MakeSamples(const OpDef& def, const SampleSizes& sizes);
// All rows, sorted by the name of the form.
const std::vector<OpDef>& OpDefs();
// All kinds, sorted by name.
std::vector<std::string> OpKinds();

}  // namespace oneflow
