// Tables of vectors: looked up by id (embedding) or by position (positional_embedding).
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// --- embedding: table[V, H], ids[...] -> scale * [..., H] ---

Specs InferEmbedding(const OpView& v) {
  const Tensor &table = v.in(0), &ids = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"table"}, {0}));
  RETURN_IF_ERROR(ExpectIds("ids", ids));
  RETURN_IF_ERROR(ExpectRank("ids", ids, 1));
  if (table.shape.rank() != 2) {
    return Mismatch(Describe("table", table) + " must be [vocab, hidden]", "give two dimensions");
  }
  RETURN_IF_ERROR(ExpectPositive(v.op, "scale"));
  const std::string dtype = AttrString(v.op, "dtype", Name(table.dtype));
  if (dtype != Name(table.dtype) && dtype != "f32") {
    return Mismatch("attribute \"dtype\" is " + dtype + " with " + Describe("table", table),
                    "use f32 where the table is bf16");
  }
  const DType y = table.dtype == DType::kBF16 && dtype == "f32" ? DType::kF32 : table.dtype;
  return std::vector<OutputSpec>{{Join(ids.shape, Part(table.shape, 1, 2)), y}};
}

// A table split by rows yields zeros for ids of other rows, so the partial results sum to the full
// one.
Rows EmbeddingRows(const OpView& v) {
  const int rank = v.in(1).shape.rank();
  Rows rows = LeadRows(v, rank, {0});
  rows.push_back({{S(0), B()}, {P()}});
  rows.push_back({{S(1), B()}, {S(rank)}});
  return rows;
}

InputGrads EmbeddingGradient(GradientContext& g) {
  std::vector<TensorId> grads = {-1, -1};
  const Op op = g.graph.ops[g.op];
  const int64_t vocab = g.graph.tensors[op.inputs[0]].shape.dims[0];
  AttrMap attrs = {{"vocab", vocab}};
  if (op.attrs.contains("scale")) attrs["scale"] = AttrDouble(op, "scale");
  grads[0] = AddGradient(g, "embedding_grad", ".dtable", {op.inputs[1], g.output_grads[0]},
                         std::move(attrs));
  return grads;
}

Specs InferEmbeddingGrad(const OpView& v) {
  const Tensor &ids = v.in(0), &dy = v.in(1);
  RETURN_IF_ERROR(ExpectIds("ids", ids));
  RETURN_IF_ERROR(ExpectRank("ids", ids, 1));
  const int lead = ids.shape.rank();
  if (!IsFloat(dy.dtype) || dy.dtype == DType::kBF16 || dy.shape.rank() != lead + 1 ||
      Part(dy.shape, 0, lead) != ids.shape) {
    return Mismatch(Describe("dy", dy) + " must be f32 or f64, with the shape of " +
                    Describe("ids", ids) + " and one dimension more");
  }
  const int64_t vocab = AttrInt(v.op, "vocab");
  if (vocab < 1) return Mismatch("attribute \"vocab\" is " + std::to_string(vocab));
  return std::vector<OutputSpec>{{Join(Shape{vocab}, Part(dy.shape, lead, lead + 1)), dy.dtype}};
}

// Without a split input the gradient may still be made split by rows: each device keeps its own
// ids.
Rows EmbeddingGradRows(const OpView& v) {
  const int lead = v.in(0).shape.rank();
  Rows rows = {AllB(v)};
  for (int i = 0; i < lead; ++i) rows.push_back({{S(i), S(i)}, {P()}});
  rows.push_back({{B(), B()}, {S(0)}});
  rows.push_back({{B(), S(lead)}, {S(1)}});
  rows.push_back({{B(), P()}, {P()}});
  return rows;
}

// --- positional_embedding: x[b, t, H], table[T, H] -> x + table[0:t] ---

absl::Status ExpectTable(const OpView& v) {
  const Tensor &x = v.in(0), &table = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"x", "table"}));
  if (x.shape.rank() != 3 || table.shape.rank() != 2 || x.shape.dims[2] != table.shape.dims[1]) {
    return Mismatch(Describe("x", x) + " and " + Describe("table", table) +
                    " must be [batch, seq, hidden] and [positions, hidden]");
  }
  return absl::OkStatus();
}

Specs InferPositional(const OpView& v) {
  const Tensor &x = v.in(0), &table = v.in(1);
  RETURN_IF_ERROR(ExpectTable(v));
  if (x.shape.dims[1] > table.shape.dims[0]) {
    return Mismatch(Describe("x", x) + " is longer than " + Describe("table", table),
                    "use a longer table or a shorter sequence");
  }
  return std::vector<OutputSpec>{{x.shape, x.dtype}};
}

// If x is split by positions, a device adds the rows of its own.
Rows PositionalRows(const OpView& v) {
  Rows rows = LeadRows(v, 2, {1});
  rows.push_back({{S(2), S(1)}, {S(2)}});
  return rows;
}

InputGrads PositionalGradient(GradientContext& g) {
  const TensorId dy = g.output_grads[0];
  std::vector<TensorId> grads = {dy, -1};
  if (g.needs_grad[1]) {
    const TensorId table = g.graph.ops[g.op].inputs[1];
    const int64_t length = g.graph.tensors[table].shape.dims[0];
    grads[1] = AddGradient(g, "positional_embedding_grad", ".dtable", {dy}, {{"length", length}});
  }
  return grads;
}

// --- positional_embedding_at: x[b, t, H], table[T, H], position[1] -> x + table[p : p + t] ---

// Positions are data, so t may also be longer than what is left of the table.
Specs InferPositionalAt(const OpView& v) {
  RETURN_IF_ERROR(ExpectTable(v));
  RETURN_IF_ERROR(ExpectIds("position", v.in(2)));
  RETURN_IF_ERROR(ExpectDims("position", v.in(2), {1}, "one number"));
  return std::vector<OutputSpec>{{v.in(0).shape, v.in(0).dtype}};
}

Rows PositionalAtRows(const OpView& v) {
  return {AllB(v), {{S(0), B(), B()}, {S(0)}}, {{S(2), S(1), B()}, {S(2)}}};
}

Specs InferPositionalGrad(const OpView& v) {
  const Tensor& dy = v.in(0);
  const int64_t length = AttrInt(v.op, "length");
  RETURN_IF_ERROR(ExpectFloat(v, {"dy"}));
  if (dy.shape.rank() != 3 || length < dy.shape.dims[1]) {
    return Mismatch(Describe("dy", dy) +
                    " must be [batch, seq, hidden] with seq at most \"length\" " +
                    std::to_string(length));
  }
  return std::vector<OutputSpec>{{Join(Shape{length}, Part(dy.shape, 2, 3)), dy.dtype}};
}

Rows PositionalGradRows(const OpView& v) {
  return {AllB(v), {{S(0)}, {P()}}, {{S(1)}, {P()}}, {{S(2)}, {S(1)}}, {{P()}, {P()}}};
}

Samples EmbeddingSamples(const SampleSizes& s) {
  const SampleTensor table{{s.vocab, s.c}}, ids = SampleTensor::Ids({s.b, s.t}, s.vocab);
  return {{{table, ids}},
          {{table, ids}, {{"scale", 2.7}}},
          {{table.Narrow(), ids}},
          {{table.Narrow(), ids}, {{"scale", 2.7}}},
          {{table.Narrow(), ids}, {{"dtype", std::string("f32")}}}};
}

Samples EmbeddingGradSamples(const SampleSizes& s) {
  const std::vector<SampleTensor> in = {SampleTensor::Ids({s.b, s.t}, s.vocab), {{s.b, s.t, s.c}}};
  Samples samples = {{in, {{"vocab", s.vocab}}}, {in, {{"vocab", s.vocab}, {"scale", 2.7}}}};
  if (s.large) {
    samples.push_back({{SampleTensor::Ids({700}, 30), {{700, 1100}}}, {{"vocab", int64_t{30}}}});
  }
  return samples;
}

}  // namespace

std::vector<OpDef> EmbeddingOps() {
  return {
      {.kind = "embedding",
       .usage = "table[V, H], ids[...] -> [..., H]",
       .inputs = {2},
       .attrs = {{"scale", AttrType::kDouble},
                 // f32: what rows of a bf16 table become.
                 OwnAttr("dtype", AttrType::kString)},
       .infer = InferEmbedding,
       .signatures = EmbeddingRows,
       .gradient = EmbeddingGradient,
       .flops = NoFlops,
       .kernel_class = KernelClass::kGather,
       .indices = {.input = 1, .of = 0, .dim = 0},
       .looks_up = true,
       // As the table rests: bf16 where that is frozen.
       .precision = {Precision::kEither},
       .exact = true,
       .samples = EmbeddingSamples},
      {.kind = "embedding_grad",
       .usage = "ids[...], dy[..., H] -> dtable[V, H]",
       .inputs = {2},
       .attrs = {{"vocab", AttrType::kInt, true}, {"scale", AttrType::kDouble}},
       .infer = InferEmbeddingGrad,
       .signatures = EmbeddingGradRows,
       .flops = PerElement(1, 1),
       .kernel_class = KernelClass::kGather,
       .indices = {.input = 0, .of = -1, .dim = 0},
       .exact = true,
       .samples = EmbeddingGradSamples},
      {.kind = "positional_embedding",
       .usage = "x[b, t, H], table[T, H] -> x + table[0:t]",
       .inputs = {2},
       .infer = InferPositional,
       .signatures = PositionalRows,
       .gradient = PositionalGradient,
       .flops = PerElement(1),
       .positions = Positions::kTable,
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{{{s.b, s.t, s.c}}, {{s.t + 2, s.c}}}}};
       }},
      {.kind = "positional_embedding_at",
       .usage = "x[b, t, H], table[T, H], position[1] -> x + table[position : position + t]",
       .inputs = {3},
       .infer = InferPositionalAt,
       .signatures = PositionalAtRows,
       .flops = PerElement(1),
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{{{s.b, s.t, s.c}}, {{s.t + 2, s.c}}, SampleTensor::Ids({1}, s.t + 2)}}};
       }},
      {.kind = "positional_embedding_grad",
       .usage = "dy[b, t, H] -> dtable[T, H]",
       .inputs = {1},
       .attrs = {{"length", AttrType::kInt, true}},
       .infer = InferPositionalGrad,
       .signatures = PositionalGradRows,
       .flops = PerElement(1),
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{{{s.b, s.t, s.c}}}, {{"length", s.t + 2}}}};
       }},
  };
}

}  // namespace oneflow
