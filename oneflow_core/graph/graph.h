// The graph that passes work on: ops and tensors in two vectors, joined by indices. A value: copy
// it, compare its printed form (graph_text.h), throw it away.
//
// Invariants (checked by VerifyGraph):
//  1. ops are in topological order; an op reads only outputs of earlier ops.
//  2. every tensor has exactly one producer; tensor.producer/output name it.
//  3. op.kind is in the registry, its attributes and number of inputs fit its definition.
//  4. after infer_sbp: every tensor's sbp has an entry for each mesh axis; after insert_boxing: the
//     ops' signatures hold.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"

namespace oneflow {

using TensorId = int32_t;
using OpId = int32_t;

using Attr = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>>;
using AttrMap = std::map<std::string, Attr, std::less<>>;

// The frequency of an op in a step: forward and backward fire once a micro-batch; prepare and
// update fire once a step, before the first and after the last micro-batch. Phases may read earlier
// ones.
enum class Phase : uint8_t { kPrepare, kForward, kBackward, kUpdate };
inline constexpr int kPhases = 4;

// True if ops of the phase fire once a step.
constexpr bool IsOnceAStep(Phase phase) {
  return phase == Phase::kPrepare || phase == Phase::kUpdate;
}

struct Tensor {
  std::string name;  // "op" for output 0, "op:1" for output 1
  Shape shape;
  DType dtype = DType::kF32;
  OpId producer = -1;
  int output = 0;                         // index among the producer's outputs
  std::map<std::string, Sbp> constraint;  // requested SBP, by axis name
  std::set<std::string> usual;            // axes of these that AnnotateModel chose, not the user
  NdSbp sbp;                              // filled in by infer_sbp
};

struct Op {
  std::string name;  // unique
  std::string kind;
  std::vector<TensorId> inputs, outputs;
  AttrMap attrs;
  int stage = 0;
  int chunk = 0;   // which of the stage's slices of the model; 0 for what fires once a step
  int block = -1;  // block of the model that it belongs to, 0-based; -1: outside of the blocks
  Phase phase = Phase::kForward;
  std::string recompute;    // ops of one such name are computed again together, in the backward
  bool recomputed = false;  // a clone that recomputes a forward op
  // The memory of its outputs, and the processor that computes it
  // (compiler/passes/rest_on_host.cc).
  bool in_host_memory = false;  // devices copy what they read of it, for each use
  bool copied_once = false;     // or once a step, before the first micro-batch
  bool on_host = false;         // the host's processors compute it, in their memory
  std::string scope;            // the logical op it came from (itself, for the user's ops)
  std::string why;              // for ops a pass added: the reason, one sentence
  std::string written_at;       // "gpt.textproto:12"; empty: not known
};

// Begins an error about an op: "gpt.textproto:12: op fc", or "op fc".
std::string Where(const Op& op);

struct Graph {
  std::string name;
  std::string family;  // "gpt", "llama", ...: oneflow_core/model/family.h; empty: not stated
  Mesh mesh;
  std::vector<Op> ops;
  std::vector<Tensor> tensors;
  TensorId loss = -1;
  std::vector<TensorId> outputs;

  // Appends an op with `n_outputs` fresh tensors (shapes filled in by inference); returns its id.
  OpId AddOp(std::string kind, std::string name, std::vector<TensorId> inputs, AttrMap attrs,
             int n_outputs = 1);
  // Appends one more output tensor to an op; returns its id.
  TensorId AddOutput(OpId op);
  const Op* FindOp(std::string_view op_name) const;  // nullptr if there is none
  TensorId FindTensor(std::string_view name) const;  // "op" or "op:2"; -1 if there is none
  const Op& Producer(TensorId t) const { return ops[tensors[t].producer]; }
};

// Typed access to attributes. The op's definition has checked presence and type, so these CHECK.
int64_t AttrInt(const Op& op, std::string_view key, int64_t fallback = 0);
double AttrDouble(const Op& op, std::string_view key, double fallback = 0);
bool AttrBool(const Op& op, std::string_view key, bool fallback = false);
std::string AttrString(const Op& op, std::string_view key, std::string_view fallback = "");

// A reader of a tensor: for tensor t, (op, input index) in op order.
struct Use {
  OpId op;
  int input;
};
std::vector<std::vector<Use>> FindUses(const Graph& graph);

// True for a source whose shape the user gives: "input" or "variable".
bool HasOwnShape(std::string_view kind);
// True for a variable that nothing trains: it has no gradient and no states, and no step writes it.
bool IsFrozen(const Op& op);

}  // namespace oneflow
