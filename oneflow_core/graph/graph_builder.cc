#include "oneflow_core/graph/graph_builder.h"

#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {

using Value = GraphBuilder::Value;

GraphBuilder::GraphBuilder(std::string name) { graph_.set_name(std::move(name)); }

Value GraphBuilder::Append(proto::Op op) {
  op.set_stage(stage_);
  if (block_ >= 0) op.set_block(block_);
  *graph_.add_op() = std::move(op);
  return {graph_.op().rbegin()->name()};
}

Value GraphBuilder::Source(proto::Op op, const NamedDims& dims, DType dtype) {
  proto::Shape* shape = op.mutable_shape();
  for (const NamedDim& dim : dims) {
    proto::Shape::Dim* added = shape->add_dim();
    added->set_size(dim.size);
    added->set_name(dim.name);
  }
  if (dtype != DType::kF32) op.set_dtype(ToProto(dtype));
  return Append(std::move(op));
}

Value GraphBuilder::Input(std::string name, NamedDims dims, std::string source, DType dtype) {
  proto::Op op;
  op.set_name(std::move(name));
  op.set_kind("input");
  *op.mutable_attr() = AttrsToProto({{"source", std::move(source)}});
  return Source(std::move(op), dims, dtype);
}

Value GraphBuilder::Variable(std::string name, NamedDims dims, Init init, DType dtype) {
  proto::Op op;
  op.set_name(std::move(name));
  op.set_kind("variable");
  AttrMap attrs = {{"init", init.kind}};
  if (init.kind != "zeros" && init.kind != "ones") attrs["init_value"] = init.value;
  if (init.decay) attrs["decay"] = *init.decay;
  *op.mutable_attr() = AttrsToProto(attrs);
  return Source(std::move(op), dims, dtype);
}

Value GraphBuilder::Fill(std::string name, Dims dims, double value) {
  return Op("fill", std::move(name), {}, {{"dims", std::move(dims)}, {"value", value}});
}

Value GraphBuilder::Op(std::string kind, std::string name, const std::vector<Value>& inputs,
                       AttrMap attrs) {
  proto::Op op;
  op.set_name(std::move(name));
  op.set_kind(std::move(kind));
  for (const Value& input : inputs) {
    if (!input.none()) op.add_input(input.name);
  }
  *op.mutable_attr() = AttrsToProto(attrs);
  return Append(std::move(op));
}

namespace {

AttrMap Transposes(bool a, bool b) {
  AttrMap attrs;
  if (a) attrs["transpose_a"] = true;
  if (b) attrs["transpose_b"] = true;
  return attrs;
}

}  // namespace

Value GraphBuilder::Matmul(std::string name, Value a, Value b, bool transpose_a, bool transpose_b) {
  return Op("matmul", std::move(name), {a, b}, Transposes(transpose_a, transpose_b));
}

Value GraphBuilder::BatchMatmul(std::string name, Value a, Value b, bool transpose_a,
                                bool transpose_b) {
  return Op("batch_matmul", std::move(name), {a, b}, Transposes(transpose_a, transpose_b));
}

Value GraphBuilder::Linear(std::string name, Value x, Value w, Value bias, LinearOptions options) {
  AttrMap attrs;
  if (options.contract != 1) attrs["contract"] = int64_t{options.contract};
  if (options.transpose_w) attrs["transpose_w"] = true;
  if (options.wide) attrs["wide"] = true;
  return Op("linear", std::move(name), {x, w, bias}, std::move(attrs));
}

Value GraphBuilder::Embedding(std::string name, Value table, Value ids, double scale) {
  AttrMap attrs;
  if (scale != 1) attrs["scale"] = scale;
  return Op("embedding", std::move(name), {table, ids}, std::move(attrs));
}

Value GraphBuilder::PositionalEmbedding(std::string name, Value x, Value table) {
  return Op("positional_embedding", std::move(name), {x, table});
}

Value GraphBuilder::LayerNorm(std::string name, Value x, Value gamma, Value beta, double epsilon) {
  AttrMap attrs;
  if (epsilon != 1e-5) attrs["epsilon"] = epsilon;
  return Op("layer_norm", std::move(name), {x, gamma, beta}, std::move(attrs));
}

Value GraphBuilder::RmsNorm(std::string name, Value x, Value gamma, double epsilon, double offset) {
  AttrMap attrs;
  if (epsilon != 1e-5) attrs["epsilon"] = epsilon;
  if (offset != 0) attrs["offset"] = offset;
  return Op("rms_norm", std::move(name), {x, gamma}, std::move(attrs));
}

Value GraphBuilder::RmsNormOver(std::string name, Value x, Value gamma, const Dims& sizes,
                                double epsilon) {
  const auto dims = static_cast<int64_t>(sizes.size());
  AttrMap attrs = {{"of", Product(sizes)}};
  if (epsilon != 1e-5) attrs["epsilon"] = epsilon;
  const Value sums = Op("square_sums", name + "_sums", {x}, {{"dims", dims}});
  return Op("rms_scale", std::move(name), {x, sums, gamma}, std::move(attrs));
}

Value GraphBuilder::Gated(std::string name, Value gate, Value up, std::string activation) {
  return Op("gated", std::move(name), {gate, up}, {{"activation", std::move(activation)}});
}

Value GraphBuilder::Rotary(std::string name, Value x, const RotaryOptions& options,
                           Value positions) {
  AttrMap attrs = {{"theta", options.theta}};
  if (options.rotated != 0) attrs["rotated"] = options.rotated;
  if (options.scaling) {
    using Kind = RotaryOptions::Scaling::Kind;
    const RotaryOptions::Scaling& s = *options.scaling;
    attrs["scale_factor"] = s.factor;
    if (s.kind == Kind::kLinear) attrs["scaling"] = std::string("linear");
    if (s.kind != Kind::kLinear) {
      attrs["low_frequency_factor"] = s.low;
      attrs["high_frequency_factor"] = s.high;
      attrs["original_positions"] = s.positions;
    }
    if (s.kind == Kind::kYarn) {
      attrs["scaling"] = std::string("yarn");
      if (s.exact) attrs["exact"] = true;
      if (s.attention_factor != 1) attrs["attention_factor"] = s.attention_factor;
    }
  }
  return Op("rotary", std::move(name), {x, positions}, std::move(attrs));
}

Value GraphBuilder::SplitQkv(std::string name, Value qkv, bool parts_first) {
  return Op("split_qkv", std::move(name), {qkv}, {{"parts_first", parts_first}});
}

Value GraphBuilder::Attention(std::string name, Value q, Value k, Value v,
                              const AttentionOptions& options) {
  AttrMap attrs;
  if (options.window != 0) attrs["window"] = options.window;
  if (options.scale != 0) attrs["scale"] = options.scale;
  if (options.soft_cap != 0) attrs["soft_cap"] = options.soft_cap;
  if (!options.sinks.none()) attrs["sinks"] = true;
  return Op("attention", std::move(name), {q, k, v, options.sinks}, std::move(attrs));
}

Value GraphBuilder::Gelu(std::string name, Value x) { return Op("gelu", std::move(name), {x}); }

Value GraphBuilder::Dropout(std::string name, Value x, double rate) {
  return Op("dropout", std::move(name), {x}, {{"rate", rate}});
}

Value GraphBuilder::StoredDropout(std::string name, Value x, double rate) {
  return Op("stored_dropout", std::move(name), {x}, {{"rate", rate}});
}

Value GraphBuilder::SplitHeads(std::string name, Value qkv) {
  return Op("split_heads", std::move(name), {qkv});
}

Value GraphBuilder::CausalSoftmax(std::string name, Value x, double scale) {
  return Op("causal_softmax", std::move(name), {x}, {{"scale", scale}});
}

Value GraphBuilder::SwapDims(std::string name, Value x) {
  return Op("swap_dims", std::move(name), {x});
}

Value GraphBuilder::CausalAttention(std::string name, Value qkv) {
  return Op("causal_attention", std::move(name), {qkv});
}

Value GraphBuilder::Add(std::string name, Value a, Value b) {
  return Op("add", std::move(name), {a, b});
}

Value GraphBuilder::SoftCap(std::string name, Value x, double cap) {
  return Op("soft_cap", std::move(name), {x}, {{"cap", cap}});
}

Value GraphBuilder::SoftmaxCrossEntropy(std::string name, Value logits, Value labels) {
  return Op("softmax_cross_entropy", std::move(name), {logits, labels});
}

void GraphBuilder::Loss(const Value& loss) { graph_.set_loss(loss.name); }

void GraphBuilder::Output(const Value& output) { graph_.add_output(output.name); }

void GraphBuilder::SetMesh(const Mesh& mesh) { *graph_.mutable_mesh() = ToProto(mesh); }

void GraphBuilder::Family(std::string family) { graph_.set_family(std::move(family)); }

void GraphBuilder::Stage(int stage) { stage_ = stage; }

void GraphBuilder::Block(int block) { block_ = block; }

void GraphBuilder::Constrain(const Value& tensor, const std::string& axis, Sbp sbp) {
  const size_t colon = tensor.name.find(':');
  const int output = colon == std::string::npos ? 0 : std::stoi(tensor.name.substr(colon + 1));
  const std::string op_name = tensor.name.substr(0, colon);
  // From the back: what is constrained was mostly just added.
  for (int i = graph_.op_size() - 1; i >= 0; --i) {
    proto::Op* op = graph_.mutable_op(i);
    if (op->name() != op_name) continue;
    while (op->sbp_size() <= output) op->add_sbp();
    (*op->mutable_sbp(output)->mutable_on())[axis] = ToString(sbp);
    return;
  }
  if (first_error_.ok()) {
    first_error_ = InputError(graph_.name(), "no tensor \"" + tensor.name + "\" to constrain");
  }
}

absl::StatusOr<Graph> GraphBuilder::Build() const {
  RETURN_IF_ERROR(first_error_);
  return GraphFromProto(graph_, graph_.name());
}

}  // namespace oneflow
