// Ops without inputs: data, variables, constants.
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

absl::Status ExpectBound(const Shape& shape) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dims[i] >= 1) continue;
    return Mismatch(
        "shape " + ToString(shape) + ": dimension " + std::to_string(i) + " has no size yet",
        "give a size; \"batch\" is bound by the micro-batch size");
  }
  return absl::OkStatus();
}

absl::Status ExpectOneOf(std::string_view attr, const std::string& value,
                         const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& k : known) {
    if (k == value) return absl::OkStatus();
    list += (list.empty() ? "\"" : ", \"") + k + '"';
  }
  return Mismatch("attribute \"" + std::string(attr) + "\" is \"" + value + '"', "use " + list);
}

// Shape and dtype of sources are the user's: inference keeps what stands on the tensor.
Specs InferInput(const OpView& v) {
  const Tensor& x = v.out(0);
  const std::string source = AttrString(v.op, "source", "feed");
  RETURN_IF_ERROR(ExpectBound(x.shape));
  RETURN_IF_ERROR(ExpectOneOf("source", source,
                              {"tokens", "next_tokens", "labels", "next_labels", "positions",
                               "documents", "document_labels", "next_document_labels", "feed"}));
  if (source != "feed") {
    RETURN_IF_ERROR(ExpectIds(source, x));
    if (x.shape.rank() != 2) {
      return Mismatch(Describe(source, x) + " must be [batch, seq]", "give two dimensions");
    }
  }
  if (x.dtype == DType::kBF16) return Mismatch("inputs are not bf16", "use F32");
  return std::vector<OutputSpec>{{x.shape, x.dtype}};
}

Specs InferVariable(const OpView& v) {
  const Tensor& w = v.out(0);
  RETURN_IF_ERROR(ExpectBound(w.shape));
  RETURN_IF_ERROR(ExpectOneOf("init", AttrString(v.op, "init", "zeros"),
                              {"normal", "uniform", "zeros", "ones", "constant"}));
  const bool narrow = w.dtype == DType::kBF16 && AttrBool(v.op, "narrow");
  if (w.dtype != DType::kF32 && w.dtype != DType::kF64 && !narrow) {
    return Mismatch("variables are not " + std::string(Name(w.dtype)), "use F32");
  }
  return std::vector<OutputSpec>{{w.shape, w.dtype}};
}

// The dtype is its creator's choice (a seed gradient has the loss's), f32 unless set.
Specs InferFill(const OpView& v) {
  const auto it = v.op.attrs.find("dims");
  Shape shape(it == v.op.attrs.end() ? Dims{} : std::get<std::vector<int64_t>>(it->second));
  RETURN_IF_ERROR(ExpectBound(shape));
  const DType dtype = v.out(0).dtype;
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    return Mismatch("constants are not " + std::string(Name(dtype)), "use F32");
  }
  return std::vector<OutputSpec>{{shape, dtype}};
}

Rows SourceRows(const OpView& v) { return LeadRows(v, v.out(0).shape.rank()); }

// The samples of a step in as many parts, and of each the number of its labels that count.
Specs InferCountAhead(const OpView& v) {
  const int64_t parts = AttrInt(v.op, "parts"), sequence = AttrInt(v.op, "sequence");
  if (parts < 1 || sequence < 1) {
    return Mismatch("attributes \"parts\" and \"sequence\" are " + std::to_string(parts) + " and " +
                    std::to_string(sequence));
  }
  return std::vector<OutputSpec>{{Shape({parts}), DType::kF64}};
}

// The same constant everywhere: a piece of it is never worth a message, so B is enough.
Rows FillRows(const OpView& v) { return {AllB(v)}; }

}  // namespace

std::vector<OpDef> SourceOps() {
  return {
      {.kind = "input",
       .usage = "-> x (the op's shape)",
       .attrs = {{"source", AttrType::kString},
                 // Slices of the sequence, mirrored (tensor/mirrored.h): the order of its tokens.
                 OwnAttr("mirrored", AttrType::kInt),
                 // The input that a replica on another stage stands for.
                 OwnAttr("input", AttrType::kString)},
       .infer = InferInput,
       .signatures = SourceRows,
       .flops = NoFlops,
       .on_cpu = false,
       .on_cuda = false},
      {.kind = "variable",
       .usage = "-> w (the op's shape)",
       .attrs =
           {{"init", AttrType::kString},
            {"init_value", AttrType::kDouble},
            {"decay", AttrType::kBool},
            // Nothing trains it: it has no gradient and no states (docs/fine_tuning.md).
            {"frozen", AttrType::kBool},
            // Mesh axes, "data,expert": a variable that is split over them and read as B is
            // gathered once a step; else anew in every micro-batch and pass.
            {"gather_once", AttrType::kString},
            // Mesh axes over which states are split along `split_dim`, over which the gradient
            // is, and over which it is summed as a micro-batch ends without a split
            // (model/sharding.h); `gather_shared`: a forward and its backward share a gather.
            {"states", AttrType::kString},
            {"gradients", AttrType::kString},
            {"reduced", AttrType::kString},
            {"split_dim", AttrType::kInt},
            {"gather_shared", AttrType::kBool},
            // What rests in the host's memory: "states,weights,update" (model/annotate_offload.h).
            {"host", AttrType::kString},
            // The variable that a replica on another stage, or a state of the optimizer,
            // stands for.
            OwnAttr("variable", AttrType::kString),
            // It rests in bf16 (compiler/passes/mixed_precision.cc).
            OwnAttr("narrow", AttrType::kBool),
            // Nothing initialises, saves or loads it.
            OwnAttr("transient", AttrType::kBool),
            // Versions it holds, and by how many updates a step's lag behind.
            OwnAttr("versions", AttrType::kInt),
            OwnAttr("lag", AttrType::kInt)},
       .infer = InferVariable,
       .signatures = SourceRows,
       .flops = NoFlops,
       .on_cpu = false,
       .on_cuda = false},
      {.kind = "count_ahead",
       .usage = "-> counts (f64[parts])",
       .attrs = {{"parts", AttrType::kInt, true},
                 {"sequence", AttrType::kInt, true},    // labels of a sample
                 {"documents", AttrType::kBool, true},  // the last of each has none
                 {"next", AttrType::kBool}},            // labels after the next
       .infer = InferCountAhead,
       .signatures = SourceRows,
       .flops = NoFlops,
       .on_cpu = false,
       .on_cuda = false,
       .instead = "write count_labels, which counts those of a micro-batch",
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{}, {{"parts", s.b}, {"sequence", s.t}, {"documents", true}}}};
       }},
      {.kind = "fill",
       .usage = "-> x[dims...]",
       .attrs = {{"value", AttrType::kDouble, true}, {"dims", AttrType::kInts}},
       .infer = InferFill,
       .signatures = FillRows,
       .flops = NoFlops,
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{}, {{"value", 0.25}, {"dims", Dims{s.b, s.t, s.c}}}}};
       }},
  };
}

}  // namespace oneflow
