// attention: q[b, t, g, r, d], k[b, s, g, d], v[b, s, g, d] -> out, shaped as q, and lse[b, g, r,
// t], the log of the sum of exp(scores) of each row, from which the gradient recomputes the scores.
// The r query heads of a group share its keys and values; q without the dimension r has one.
//
// A query sees a key of its document at its position or before it, and at most `window` - 1 before
// it. Positions are data, two more inputs, and with them documents may be, another two. Without
// positions they are the indices of rows; without documents all rows are of one. Only where
// positions are data may a device have some of a sample's queries, with all of its keys.
//
// Scores are q k times `scale`, and with `soft_cap` c they become c tanh(score / c). With `sinks`,
// input sinks[g, r] (or [g]) behind v, a row has one score more: that of its head, whose weight
// multiplies no value. lse has it, so the gradients of q, k and v need no sinks; theirs is an op,
//
//   attention_sinks_grad: dout, out, lse, sinks -> dsinks = -Σ exp(sink - lse) (dout . out)
//
// over samples and queries: the gradient of a score is weight (dout . value - dout . out), and a
// sink's value is 0.
//
// packed_attention reads queries, keys and values where a linear wrote them, instead of copies that
// split_qkv makes; packed_attention_grad writes their gradients likewise. The pass `fuse` makes
// both.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/attention_dims.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// The inputs of a kind: [dout], q, k, v or qkv, [sinks] or [out, lse], and perhaps positions and
// documents.
struct Form {
  bool grad, packed;

  int q() const { return grad ? 1 : 0; }                // the first of queries, keys and values
  int parts() const { return q() + (packed ? 1 : 3); }  // behind them
  // The first input that is of positions.
  int base() const { return parts() + (grad ? 2 : 0); }
  int Base(const Op& op) const { return base() + (HasSinks(op) ? 1 : 0); }
  // Positions and documents, of queries and keys: 0, 2 or 4 inputs.
  int Where(const OpView& v) const { return v.n_inputs() - Base(v.op); }
  bool HasSinks(const Op& op) const { return !grad && AttrBool(op, "sinks"); }
};
constexpr Form kForward{false, false}, kBackward{true, false};
constexpr Form kPackedForward{false, true}, kPackedBackward{true, true};

absl::StatusOr<QkvShapes> FindShapes(const Form& form, const OpView& v) {
  if (form.packed) return SplitQkv(v.in(form.q()), AttrBool(v.op, "parts_first"));
  const Tensor &q = v.in(form.q()), &k = v.in(form.q() + 1), &values = v.in(form.q() + 2);
  RETURN_IF_ERROR(ExpectQueriesAndKeys(q, k, values));
  return QkvShapes{q.shape, k.shape, values.shape};
}

// The shape of the sinks of queries q: [g, r] or [g].
Shape SinksShape(const Shape& q) { return Part(q, 2, q.rank() - 1); }

// Floating point inputs are of one type but lse and sinks, which may be wider.
absl::Status ExpectTypes(const Form& form, const OpView& v) {
  std::vector<std::string> roles;
  if (form.grad) roles.push_back("dout");
  const std::vector<std::string> qkv = {"q", "k", "v"};
  form.packed ? roles.push_back("qkv")
              : static_cast<void>(roles.insert(roles.end(), qkv.begin(), qkv.end()));
  if (form.grad) roles.insert(roles.end(), {"out", "lse"});
  if (form.HasSinks(v.op)) {
    if (form.Where(v) < 0) {
      return Mismatch("has the attribute \"sinks\" and no such input", "give a logit of each head");
    }
    roles.push_back("sinks");
  }
  std::vector<int> narrow;
  for (int i = 0; i < static_cast<int>(roles.size()); ++i) {
    if (roles[i] != "lse" && roles[i] != "sinks") narrow.push_back(i);
  }
  RETURN_IF_ERROR(ExpectFloat(v, roles, narrow));
  for (const int i : narrow) RETURN_IF_ERROR(ExpectSameType(v, roles, 0, i));
  return absl::OkStatus();
}

absl::Status ExpectWhere(const Form& form, const OpView& v, const QkvShapes& shapes) {
  const Dims queries = Part(shapes.q, 0, 2).dims, keys = Part(shapes.k, 0, 2).dims;
  if (form.Where(v) == 0) {
    if (queries == keys) return absl::OkStatus();
    return Mismatch("queries and keys differ in number, " + std::to_string(queries[1]) + " and " +
                        std::to_string(keys[1]),
                    "give positions of both");
  }
  const int n = form.Where(v), first = form.Base(v.op);
  if (n % 2 != 0) {
    return Mismatch("has positions or documents of queries without those of keys", "give both");
  }
  const char* roles[] = {"q_positions", "k_positions", "q_documents", "k_documents"};
  for (int i = 0; i < n; ++i) {
    const Tensor& tensor = v.in(first + i);
    RETURN_IF_ERROR(ExpectIds(roles[i], tensor));
    RETURN_IF_ERROR(ExpectDims(roles[i], tensor, i % 2 == 0 ? queries : keys,
                               i % 2 == 0 ? "a number for each query" : "a number for each key"));
  }
  return absl::OkStatus();
}

absl::StatusOr<QkvShapes> CheckInputs(const Form& form, const OpView& v) {
  RETURN_IF_ERROR(ExpectTypes(form, v));
  ASSIGN_OR_RETURN(QkvShapes shapes, FindShapes(form, v));
  RETURN_IF_ERROR(ExpectScores(v.op));
  if (form.HasSinks(v.op)) {
    RETURN_IF_ERROR(ExpectDims(
        "sinks", v.in(form.parts()), SinksShape(shapes.q).dims,
        "a logit of each head of " + Describe(form.packed ? "qkv" : "q", v.in(form.q()))));
  }
  RETURN_IF_ERROR(ExpectWhere(form, v, shapes));
  return shapes;
}

template <const Form& form>
Specs InferForward(const OpView& v) {
  ASSIGN_OR_RETURN(const QkvShapes shapes, CheckInputs(form, v));
  const DType dtype = v.in(form.q()).dtype;
  return std::vector<OutputSpec>{{shapes.q, dtype}, {LseShape(shapes.q), AccumulationType(dtype)}};
}

template <const Form& form>
Specs InferBackward(const OpView& v) {
  ASSIGN_OR_RETURN(const QkvShapes shapes, CheckInputs(form, v));
  const int out = form.parts();
  const std::string of = "as follows from " + Describe(form.packed ? "qkv" : "q", v.in(1));
  RETURN_IF_ERROR(ExpectDims("dout", v.in(0), shapes.q.dims, of));
  RETURN_IF_ERROR(ExpectDims("out", v.in(out), shapes.q.dims, of));
  RETURN_IF_ERROR(ExpectDims("lse", v.in(out + 1), LseShape(shapes.q).dims, of));
  const DType dtype = v.in(0).dtype;
  if (form.packed) return std::vector<OutputSpec>{{v.in(1).shape, dtype}};
  return std::vector<OutputSpec>{{shapes.q, dtype}, {shapes.k, dtype}, {shapes.v, dtype}};
}

// The layouts of one row: `q` is that of out and of gradients of both, too, `dkv` of the gradients
// of keys and values, `q_where` and `k_where` of positions and documents.
struct Layouts {
  Sbp q, kv, dkv, qkv, lse, sinks, q_where, k_where;
};

template <const Form& form>
Rows AttentionRows(const OpView& v) {
  const auto row = [&v](const Layouts& x) {
    Signature row;
    if (form.grad) row.in.push_back(x.q);
    if (form.packed) {
      row.in.push_back(x.qkv);
    } else {
      row.in.insert(row.in.end(), {x.q, x.kv, x.kv});
    }
    if (form.grad) row.in.insert(row.in.end(), {x.q, x.lse});
    if (form.HasSinks(v.op)) row.in.push_back(x.sinks);
    for (int i = 0; i < form.Where(v); i += 2) {
      row.in.insert(row.in.end(), {x.q_where, x.k_where});
    }
    if (!form.grad) {
      row.out = {x.q, x.lse};
    } else if (form.packed) {
      row.out = {x.qkv};
    } else {
      row.out = {x.q, x.dkv, x.dkv};
    }
    return row;
  };
  // Samples and groups are independent.
  const Sbp group = S(AttrBool(v.op, "parts_first") ? 3 : 2);
  Rows rows = {AllB(v), row({S(0), S(0), S(0), S(0), S(0), B(), S(0), S(0)}),
               row({S(2), S(2), S(2), group, S(1), S(0), B(), B()})};
  if (form.packed) return rows;
  // The heads of a group are, too, and queries that know their positions, but each adds to the
  // gradients of the keys that they share.
  const int rank = v.in(form.q()).shape.rank();
  if (rank == 5) rows.push_back(row({S(3), B(), P(), B(), S(2), S(1), B(), B()}));
  if (form.Where(v) > 0) {
    rows.push_back(row({S(1), B(), P(), B(), S(rank - 2), B(), S(1), B()}));
  }
  return rows;
}

InputGrads AttentionGradient(GradientContext& g) {
  RETURN_IF_ERROR(OnlyFirstOutput(g, "the lse of an attention"));
  const Op op = g.graph.ops[g.op];
  const int sinks = kForward.parts();
  std::vector<TensorId> grads(op.inputs.size(), -1);
  std::vector<TensorId> inputs = {g.output_grads[0]};
  inputs.insert(inputs.end(), op.inputs.begin(), op.inputs.begin() + sinks);
  inputs.insert(inputs.end(), {op.outputs[0], op.outputs[1]});
  inputs.insert(inputs.end(), op.inputs.begin() + kForward.Base(op), op.inputs.end());
  AttrMap attrs = op.attrs;
  attrs.erase("sinks");
  const TensorId first =
      AddGradient(g, "attention_grad", ".dq", std::move(inputs), std::move(attrs), 3);
  for (int i = 0; i < 3; ++i) grads[i] = first + i;
  if (kForward.HasSinks(op) && g.needs_grad[sinks]) {
    grads[sinks] = AddGradient(g, "attention_sinks_grad", ".dsinks",
                               {g.output_grads[0], op.outputs[0], op.outputs[1], op.inputs[sinks]});
  }
  return grads;
}

Specs InferSinksGrad(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"dout", "out", "lse", "sinks"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, {"dout", "out"}, 0, 1));
  const Tensor& out = v.in(1);
  RETURN_IF_ERROR(ExpectRank("out", out, 4));
  const std::string of = "as follows from " + Describe("out", out);
  RETURN_IF_ERROR(ExpectDims("dout", v.in(0), out.shape.dims, of));
  RETURN_IF_ERROR(ExpectDims("lse", v.in(2), LseShape(out.shape).dims, of));
  RETURN_IF_ERROR(ExpectDims("sinks", v.in(3), SinksShape(out.shape).dims, of));
  return std::vector<OutputSpec>{{v.in(3).shape, v.in(3).dtype}};
}

// A sum over samples and queries, of each head.
Rows SinksGradRows(const OpView& v) {
  const int rank = v.in(0).shape.rank();
  const auto row = [](Sbp out, Sbp lse, Sbp sinks, Sbp dsinks) {
    return Signature{{out, out, lse, sinks}, {dsinks}};
  };
  Rows rows = {AllB(v), row(S(0), S(0), B(), P()), row(S(2), S(1), S(0), S(0))};
  if (rank == 5) rows.push_back(row(S(3), S(2), S(1), S(1)));
  rows.push_back(row(S(1), S(rank - 2), B(), P()));
  return rows;
}

// Of the keys that a query sees: the most, and the mean over the positions of one document.
struct KeysSeen {
  double most = 0, mean = 0;
};

KeysSeen CountKeys(int64_t keys, int64_t window) {
  if (keys == 0) return {};
  const auto s = static_cast<double>(keys);
  const double most = window == 0 ? s : std::min(static_cast<double>(window), s);
  return {most, (most * (most + 1) / 2 + (s - most) * most) / s};
}

// Pairs of a query and a key that it sees, over samples and heads, times d: the pairs that are
// computed, not all t s. Positions and documents are not known here: queries are taken to be spread
// over the positions of one document. Each product costs 2 a pair and element.
template <const Form& form>
double VisibleElements(const OpView& v) {
  const absl::StatusOr<QkvShapes> shapes = FindShapes(form, v);
  if (!shapes.ok()) return 0;
  return static_cast<double>(shapes->q.elements()) *
         CountKeys(shapes->keys()[1], AttrInt(v.op, "window")).mean;
}

// Two products: scores and weighted values.
template <const Form& form>
double ForwardFlops(const OpView& v) {
  return 2 * 2 * VisibleElements<form>(v);
}
// Five: scores again, and the gradients of weights, values, queries and keys.
template <const Form& form>
double BackwardFlops(const OpView& v) {
  return 5 * 2 * VisibleElements<form>(v);
}

// As published counts have them: scores and weighted values of each query with all keys, or with as
// many as its window has, and twice as much for the gradient, which scores made again are no part
// of. Causality hides about half of these pairs.
template <const Form& form>
CountedFlops CountFlops(const LocalOp& op) {
  const int64_t keys = op.in[form.packed ? form.q() : form.q() + 1][1];
  const double products = form.grad ? 4 : 2;
  const auto elements = static_cast<double>(Product(form.grad ? op.in[0] : op.out[0]));
  const KeysSeen seen = CountKeys(keys, AttrInt(op, "window"));
  return {.model = 2 * products * elements * seen.most,
          .hidden = 2 * products * elements * (seen.most - seen.mean)};
}

template <const Form& form>
AttentionSpec FindSpec(const LocalOp& op) {
  const Dims& keys = op.in[form.packed ? form.q() : form.q() + 1];
  return {keys[1], keys.back(), form.grad};
}

template <const Form& form>
int64_t CpuWorkspace(const LocalOp& op, int threads) {
  const Dims& keys = op.in[form.packed ? form.q() : form.q() + 1];
  return AttentionWorkspace(keys[1], keys.back(), threads);
}

template <const Form& form>
int64_t CudaWorkspace(const LocalOp& op) {
  return AttentionGradScratch(Product(op.in[form.base() - 1]));
}

// The sizes of a sample. `r` 0: q has no dimension for the heads of a group.
struct SampleShape {
  int64_t b, t, s, g, r, d;
};

// What else a sample has. `scores`: scale and soft cap; sinks, if the kind reads them.
struct SampleOptions {
  int64_t window = 0;
  int where = 0;  // inputs of positions and documents
  bool scores = false, sinks = false;
};

template <const Form& form>
OpSample MakeSample(const SampleShape& n, const SampleOptions& o, bool narrow) {
  const auto tensor = [narrow](Dims dims, double low, double high) {
    SampleTensor t{std::move(dims), low, high};
    t.narrow = narrow;
    return t;
  };
  const Dims heads = n.r == 0 ? Dims{n.b, n.t, n.g, n.d} : Dims{n.b, n.t, n.g, n.r, n.d};
  const Dims sums = n.r == 0 ? Dims{n.b, n.g, n.t} : Dims{n.b, n.g, n.r, n.t};
  const SampleTensor out = tensor(heads, -1, 1);
  const double most = form.grad ? 1 : 2;  // of queries, keys and values
  OpSample sample;
  if (form.grad) sample.in.push_back(out);
  if (form.packed) {
    const Dims qkv = n.r == 0 ? Dims{n.b, n.t, 3, n.g, n.d} : Dims{n.b, n.t, n.g, n.r + 2, n.d};
    sample.in.push_back(tensor(qkv, -most, most));
    sample.attrs["parts_first"] = n.r == 0;
  } else {
    const SampleTensor k = tensor({n.b, n.s, n.g, n.d}, -most, most);
    sample.in.insert(sample.in.end(), {tensor(heads, -most, most), k, k});
  }
  // A log of sums that leaves weights below 1.
  if (form.grad) sample.in.insert(sample.in.end(), {out, {sums, 4, 5}});
  if (o.sinks && !form.grad) {
    sample.in.push_back({n.r == 0 ? Dims{n.g} : Dims{n.g, n.r}, -1, 3});
    sample.attrs["sinks"] = true;
  }
  for (int i = 0; i < o.where; i += 2) {
    const int64_t below = i == 0 ? n.t : 2;
    sample.in.push_back(SampleTensor::Ids({n.b, n.t}, below));
    sample.in.push_back(SampleTensor::Ids({n.b, n.s}, below));
  }
  if (o.window > 0) sample.attrs["window"] = o.window;
  if (o.scores) sample.attrs["scale"] = 0.5, sample.attrs["soft_cap"] = 1.5;
  return sample;
}

template <const Form& form>
Samples MakeAttentionSamples(const SampleSizes& s) {
  Samples samples;
  const int64_t window = s.t / 2 + 1, more = form.packed ? s.t : s.t + 3;
  for (const bool narrow : {false, true}) {
    const auto add = [&](const SampleShape& n, const SampleOptions& o) {
      samples.push_back(MakeSample<form>(n, o, narrow));
    };
    add({s.b, s.t, s.t, s.heads, 0, s.d}, {});
    add({s.b, s.t, s.t, s.heads, 2, s.d}, {});
    add({s.b, s.t, s.t, s.heads, 2, s.d}, {window});
    add({s.b, s.t, more, s.heads, 2, s.d}, {0, 4});
    add({s.b, s.t, s.t, s.heads, 0, s.d}, {window, 4});
    add({s.b, s.t, more, s.heads, 2, s.d}, {0, 2});
    add({s.b, s.t, s.t, s.heads, 2, s.d}, {.scores = true});
    if (form.grad) continue;  // it has no sinks
    add({s.b, s.t, s.t, s.heads, 0, s.d}, {.sinks = true});
    add({s.b, s.t, more, s.heads, 2, s.d}, {window, 4, true, true});
  }
  if (!s.large) return samples;
  samples.push_back(MakeSample<form>({1, 130, 130, 1, 0, 128}, {}, false));
  // In a window a tile of a kernel has tiles before it, and after it, that it does not see.
  samples.push_back(MakeSample<form>({1, 200, 200, 1, 0, 8}, {70}, false));
  for (const int64_t d : {64, 128}) {  // those that tensor cores multiply
    samples.push_back(MakeSample<form>({1, 200, 200, 1, 0, d}, {}, true));
    samples.push_back(MakeSample<form>({1, 150, 150, 1, 2, d}, {0, 0, true, true}, true));
    samples.push_back(MakeSample<form>({1, 200, 200, 1, 0, d}, {70, 0, true, true}, true));
    samples.push_back(MakeSample<form>({1, 150, form.packed ? 150 : 200, 1, 2, d}, {0, 4}, true));
  }
  return samples;
}

Samples SinksGradSamples(const SampleSizes& s) {
  Samples samples;
  for (const bool narrow : {false, true}) {
    SampleTensor out{{s.b, s.t, s.heads, s.d}}, grouped{{s.b, s.t, s.heads, 2, s.d}};
    out.narrow = grouped.narrow = narrow;
    samples.push_back({{out, out, {{s.b, s.heads, s.t}, 4, 5}, {{s.heads}}}});
    samples.push_back({{grouped, grouped, {{s.b, s.heads, 2, s.t}, 4, 5}, {{s.heads, 2}}}});
  }
  return samples;
}

template <const Form& form>
OpDef Define(std::string kind, std::string usage) {
  OpDef def{.kind = std::move(kind),
            .usage = std::move(usage),
            .inputs = {form.base(), form.base() + (form.grad ? 4 : 5)},
            .outputs = form.grad ? (form.packed ? 1 : 3) : 2,
            .attrs = {{"window", AttrType::kInt},
                      {"scale", AttrType::kDouble},
                      {"soft_cap", AttrType::kDouble}},
            .signatures = AttentionRows<form>,
            .own_products = true,
            .attention = FindSpec<form>,
            .counted_flops = CountFlops<form>,
            .overwrites = true,
            .cpu_workspace = CpuWorkspace<form>,
            .samples = MakeAttentionSamples<form>};
  if (form.packed) def.attrs.push_back({"parts_first", AttrType::kBool, /*required=*/true});
  if constexpr (form.grad) {
    def.infer = InferBackward<form>;
    def.flops = BackwardFlops<form>;
    def.cuda_workspace = CudaWorkspace<form>;
    def.precision.assign(form.base() - 1, Precision::kNarrow);
    def.precision.push_back(Precision::kWide);  // lse
  } else {
    def.infer = InferForward<form>;
    def.flops = ForwardFlops<form>;
    def.attrs.push_back({"sinks", AttrType::kBool});
    def.precision.assign(form.parts(), Precision::kNarrow);
    def.precision.push_back(Precision::kWide);  // sinks
    def.selective = true;
  }
  return def;
}

}  // namespace

std::vector<OpDef> AttentionOps() {
  OpDef forward =
      Define<kForward>("attention",
                       "q[b, t, g, r, d] or q[b, t, g, d], k[b, s, g, d], v[b, s, g, d], "
                       "(sinks[g, r]), (q_positions[b, t], k_positions[b, s], (q_documents[b, t], "
                       "k_documents[b, s])) -> out, lse[b, g, r, t]");
  forward.gradient = AttentionGradient;
  return {
      std::move(forward),
      Define<kBackward>("attention_grad",
                        "dout, q, k, v, out, lse, (q_positions, k_positions, "
                        "(q_documents, k_documents)) -> dq, dk, dv"),
      Define<kPackedForward>("packed_attention",
                             "qkv, (sinks), (q_positions, k_positions, "
                             "(q_documents, k_documents)) -> out, lse"),
      Define<kPackedBackward>("packed_attention_grad",
                              "dout, qkv, out, lse, (q_positions, k_positions, "
                              "(q_documents, k_documents)) -> dqkv"),
      {.kind = "attention_sinks_grad",
       .usage = "dout, out, lse, sinks -> dsinks",
       .inputs = {4},
       .infer = InferSinksGrad,
       .signatures = SinksGradRows,
       .flops = PerElement(2),
       .kernel_class = KernelClass::kRows,
       .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kWide},
       .cuda_workspace = [](const LocalOp& op) { return AttentionGradScratch(Product(op.in[2])); },
       .samples = SinksGradSamples}};
}

}  // namespace oneflow
