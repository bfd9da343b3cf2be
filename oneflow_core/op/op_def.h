// The definition of a kind of op: everything the compiler knows about it. One file an op family
// (op/linear.cc, op/layer_norm.cc, ...; op/elementwise.cc for the simple ones), collected in one
// constant table by op/registry.cc. There is no registration at run time.
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
};

// Products of matrices among an op's computations: a device has a separate rate for them. All
// other work is element by element in f32, whatever the types of inputs and outputs.
enum class Products : uint8_t {
  kNone,
  kOne,    // output 0 is the product of inputs 0 and 1, up to what is done to it on the way
  kBatch,  // the same for each matrix in their last two dimensions
  kOwn,    // several, which the kernel splits into its own tiles: attention
};

// An input of indices (ids of tokens, labels): each selects one element along a dimension of
// another tensor of the op. No kernel checks them, because a device with a part of that tensor
// ignores the others' indices.
struct Indices {
  int input = -1;  // which input they are; -1: there is none
  int of = 0;      // the input that they select from; -1: output 0
  int dim = 0;     // the dimension; -1: the last
};

struct OpDef {
  std::string kind;
  std::string usage;  // "x[..., c...], w[c..., o...], (bias[o...]) -> [..., o...]", for messages
  int min_inputs = 0, max_inputs = 0;  // max -1: any number
  int outputs = 1;
  // The first `updates` inputs are variables, and as many first outputs their new values. The op
  // updates them in place, so input and output have the same layout and no boxing between. Such an
  // op is the compiler's own.
  int updates = 0;
  // The next `versioned_updates` inputs are variables with several versions, one a slot. The output
  // of the same index is the next version, in the slot after the newest.
  int versioned_updates = 0;
  std::vector<AttrDef> attrs;
  // Shapes and dtypes of the outputs; a clear error (without the op's name: the caller adds it).
  std::function<absl::StatusOr<std::vector<OutputSpec>>(const OpView&)> infer;
  // All rows of the 1-D table for these shapes, best-liked first; all-B is always among them,
  // except for kinds that fix their output (boxing).
  std::function<std::vector<Signature>(const OpView&)> signatures;
  // Appends gradient ops; returns the gradient of each input (-1 where needs_grad is false, or
  // where none flows). It has the input's shape, but for `mean_nll`: see op/cross_entropy.cc. Null:
  // not differentiable (gradients stop).
  std::function<absl::StatusOr<std::vector<TensorId>>(GradientContext&)> gradient;
  // Floating point operations of the logical op (matrix products count 2 m n k; the rest a few an
  // element).
  std::function<double(const OpView&)> flops;
  // Which products of matrices these are, all but a few.
  Products products = Products::kNone;
  Indices indices;
  // True if its kernel only overwrites its outputs, so they cannot add up over micro-batches. A
  // product of matrices into bf16 is one more that cannot.
  bool overwrites = false;
};

// The definition of a kind; nullptr if there is none.
const OpDef* FindOpDef(std::string_view kind);
// All kinds, sorted by name.
std::vector<std::string> OpKinds();

}  // namespace oneflow
