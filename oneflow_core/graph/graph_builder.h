// GraphBuilder: writes a logical graph from C++, one call an op of docs/ops.md.
//
//   GraphBuilder g("mlp");
//   auto x = g.Input("x", {{"batch", 0}, {"hidden", 64}});
//   auto w = g.Variable("fc.weight", {{"hidden", 64}, {"inner", 256}}, Normal(0.02));
//   auto b = g.Variable("fc.bias", {{"inner", 256}}, Zeros());
//   auto y = g.Gelu("act", g.Linear("fc", x, w, b));
//   g.Output(y);
//   ASSIGN_OR_RETURN(Graph graph, g.Build());
//
// It computes nothing and infers nothing. Mistakes (a name used twice, a value of another builder)
// are kept and reported by Build, so that a model reads as straight-line code. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph.h"
#include "proto/graph.pb.h"

namespace oneflow {

// A size, with a name if it has one. {"batch", 0} is bound at compile time.
struct NamedDim {
  NamedDim(int64_t size) : size(size) {}  // NOLINT: {64, 64} is a shape
  NamedDim(std::string name, int64_t size) : name(std::move(name)), size(size) {}
  std::string name;
  int64_t size;
};
using NamedDims = std::vector<NamedDim>;

// The initial value of a variable.
struct Init {
  std::string kind;
  double value = 0;                // standard deviation, bound or constant
  std::optional<bool> decay = {};  // whether AdamW decays the variable; default: rank >= 2
};
inline Init NoDecay(Init init) { return {std::move(init.kind), init.value, false}; }
inline Init Normal(double deviation) { return {"normal", deviation}; }
inline Init Uniform(double bound) { return {"uniform", bound}; }  // of -bound to bound
inline Init Zeros() { return {"zeros", 0}; }
inline Init Ones() { return {"ones", 0}; }
inline Init Constant(double value) { return {"constant", value}; }

struct LinearOptions {
  int contract = 1;          // dimensions of x that are summed over
  bool transpose_w = false;  // w is [out..., in...]
  bool wide = false;         // computes in f32 whatever the precision
};

// Rotary position embeddings.
struct RotaryOptions {
  double theta = 10000;
  // Scaled frequencies; none by default. `low` and `high` count turns over `positions`: a frequency
  // of fewer turns than `low` is divided by `factor`, one of more than `high` is not.
  struct Scaling {
    enum class Kind { kLlama3, kLinear, kYarn };
    double factor = 1, low = 1, high = 4;
    int64_t positions = 8192;
    Kind kind = Kind::kLlama3;
    bool exact = false;           // YaRN: the borders of its ramp are not rounded to frequencies
    double attention_factor = 1;  // YaRN: of cosines and sines
  };
  std::optional<Scaling> scaling = {};
  int64_t rotated = 0;  // first elements of a head that are turned; 0: all
};

class GraphBuilder {
 public:
  // A tensor of the graph under construction: a name, free to copy. A default one is "none", for
  // optional inputs.
  struct Value {
    std::string name;
    bool none() const { return name.empty(); }
    Value output(int i) const { return {i == 0 ? name : name + ':' + std::to_string(i)}; }
  };

  struct AttentionOptions {
    int64_t window = 0;   // the last positions that a query sees; 0: all before it
    double scale = 0;     // of scores; 0: 1 / sqrt(head_dim)
    double soft_cap = 0;  // scores become cap * tanh(score / cap); 0: they do not
    Value sinks = {};  // a logit of each query head that takes part in the softmax, with no value
  };

  explicit GraphBuilder(std::string name);

  // Sources.
  Value Input(std::string name, NamedDims dims, std::string source = "feed",
              DType dtype = DType::kF32);
  Value Variable(std::string name, NamedDims dims, Init init, DType dtype = DType::kF32);
  Value Fill(std::string name, Dims dims, double value);

  // Ops. An op with several outputs returns output 0; .output(i) names the others.
  Value Matmul(std::string name, Value a, Value b, bool transpose_a = false,
               bool transpose_b = false);
  Value Linear(std::string name, Value x, Value w, Value bias = {}, LinearOptions options = {});
  Value Embedding(std::string name, Value table, Value ids, double scale = 1);
  Value PositionalEmbedding(std::string name, Value x, Value table);
  Value LayerNorm(std::string name, Value x, Value gamma, Value beta = {}, double epsilon = 1e-5);
  // `offset` is added to gamma.
  Value RmsNorm(std::string name, Value x, Value gamma, double epsilon = 1e-5, double offset = 0);
  // Over all dimensions that gamma has: devices that split one of them add up its squares.
  Value RmsNormOver(std::string name, Value x, Value gamma, const Dims& sizes, double epsilon);
  Value Gelu(std::string name, Value x);
  Value Gated(std::string name, Value gate, Value up, std::string activation = "silu");
  // Without positions, those of a sequence are 0, 1, ...
  Value Rotary(std::string name, Value x, const RotaryOptions& options, Value positions = {});
  Value Dropout(std::string name, Value x, double rate);
  Value StoredDropout(std::string name, Value x, double rate);  // .output(1) is the mask
  Value CausalAttention(std::string name, Value qkv);
  // Queries; .output(1) keys, .output(2) values.
  Value SplitQkv(std::string name, Value qkv, bool parts_first);
  Value Attention(std::string name, Value q, Value k, Value v, const AttentionOptions& options);
  Value SplitHeads(std::string name, Value qkv);  // queries; .output(1) keys, .output(2) values
  Value BatchMatmul(std::string name, Value a, Value b, bool transpose_a = false,
                    bool transpose_b = false);
  Value CausalSoftmax(std::string name, Value x, double scale = 1);
  Value SwapDims(std::string name, Value x);
  Value Add(std::string name, Value a, Value b);
  Value SoftCap(std::string name, Value x, double cap);  // cap * tanh(x / cap)
  Value SoftmaxCrossEntropy(std::string name, Value logits, Value labels);
  // Adds an op of any kind of the registry. Inputs that are "none" are left out.
  Value Op(std::string kind, std::string name, const std::vector<Value>& inputs,
           AttrMap attrs = {});

  // Facts about the graph. Loss and outputs may be any tensors.
  void Loss(const Value& loss);
  void Output(const Value& output);
  void SetMesh(const Mesh& mesh);
  void Family(std::string family);
  // Ops added from now on are on this stage.
  void Stage(int stage);
  // Ops added from now on belong to this block of the model; -1: to none.
  void Block(int block);
  // The tensor must have this SBP on this axis.
  void Constrain(const Value& tensor, const std::string& axis, Sbp sbp);

  const proto::Graph& proto() const { return graph_; }
  // Returns the graph as passes want it, or the first mistake.
  absl::StatusOr<Graph> Build() const;

 private:
  Value Source(proto::Op op, const NamedDims& dims, DType dtype);
  Value Append(proto::Op op);

  proto::Graph graph_;
  int stage_ = 0, block_ = -1;
  absl::Status first_error_;
};

}  // namespace oneflow
