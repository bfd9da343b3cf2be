// Ops that fire once a step: the norm of all gradients, the update of each variable, and sums of
// what was counted.
#include <numeric>

#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

absl::Status ExpectScalarF64(std::string_view role, const Tensor& tensor) {
  if (tensor.shape.rank() == 0 && tensor.dtype == DType::kF64) return absl::OkStatus();
  return Mismatch(Describe(role, tensor) + " must be f64[]");
}

// The dimension whose sums stay apart; -1: one sum of all.
int DimApart(const Op& op) { return static_cast<int>(AttrInt(op, "dim", -1)); }

Specs InferSumSquares(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"g"}));
  const int dim = DimApart(v.op), rank = v.in(0).shape.rank();
  if (dim < -1 || dim >= rank) {
    return Mismatch("attribute \"dim\" is " + std::to_string(dim) + ", and " +
                    Describe("g", v.in(0)) + " has " + std::to_string(rank) + " dimensions");
  }
  const Shape shape = dim < 0 ? Shape{} : Part(v.in(0).shape, dim, dim + 1);
  return std::vector<OutputSpec>{{shape, DType::kF64}};
}

Rows SumSquaresRows(const OpView& v) {
  Rows rows = {AllB(v)};
  for (int i = 0; i < v.in(0).shape.rank(); ++i) {
    rows.push_back({{S(i)}, {i == DimApart(v.op) ? S(0) : P()}});
  }
  return rows;
}

int64_t SquaresWorkspace(const LocalOp& op) {
  const Dims& dims = op.in[0];
  const auto it = op.attrs.find("dim");
  if (it == op.attrs.end()) return SumSquaresScratch(Product(dims));
  const auto dim = dims.begin() + std::get<int64_t>(it->second);
  return SumSquaresApartScratch(Product(Dims(dims.begin(), dim)), *dim,
                                Product(Dims(dim + 1, dims.end())));
}

Specs InferSumInOrder(const OpView& v) {
  const Tensor& x = v.in(0);
  if (x.shape.rank() != 1 || x.dtype != DType::kF64) {
    return Mismatch(Describe("x", x) + " must be f64[n]");
  }
  return std::vector<OutputSpec>{{Shape{}, DType::kF64}};
}

Specs InferGlobalNorm(const OpView& v) {
  for (int i = 0; i < v.n_inputs(); ++i) {
    RETURN_IF_ERROR(ExpectScalarF64("input " + std::to_string(i), v.in(i)));
  }
  return std::vector<OutputSpec>{{Shape{}, DType::kF64}};
}

// The last input of adamw and next_adamw is then the number of labels that count: the gradient is a
// sum over them.
bool IsCounted(const OpView& v) { return AttrBool(v.op, "counted"); }

// Checks adamw and next_adamw: their first four inputs obey the same rules.
Specs InferAdamw(const OpView& v) {
  const Tensor& w = v.in(0);
  const std::vector<std::string> roles = {"w", "m", "v", "g"};
  RETURN_IF_ERROR(ExpectFloat(v, roles));
  for (int i = 1; i < 4; ++i) {
    RETURN_IF_ERROR(ExpectDims(roles[i], v.in(i), w.shape.dims, "that of " + Describe("w", w)));
  }
  const int others = v.n_inputs() - (IsCounted(v) ? 1 : 0);
  const int most = v.op.kind == "adamw" ? 5 : 4;
  if (others < 4 || others > most) {
    return Mismatch("attribute \"counted\" does not fit " + std::to_string(v.n_inputs()) +
                    " inputs");
  }
  if (others > 4) RETURN_IF_ERROR(ExpectScalarF64("norm", v.in(4)));
  if (IsCounted(v)) RETURN_IF_ERROR(ExpectScalarF64("count", v.in(others)));
  return std::vector<OutputSpec>(3, OutputSpec{w.shape, w.dtype});
}

Rows AdamwRows(const OpView& v) {
  std::vector<int> scalars(v.n_inputs() - 4);
  std::iota(scalars.begin(), scalars.end(), 4);
  return LeadRows(v, v.in(0).shape.rank(), scalars);
}

// Sums of counts, such as those of choices in several blocks.
Specs InferAddCounts(const OpView& v) {
  const Tensor& first = v.in(0);
  for (int i = 0; i < v.n_inputs(); ++i) {
    const Tensor& x = v.in(i);
    if (x.shape.rank() != 1 || x.dtype != DType::kF64 || x.shape.dims != first.shape.dims) {
      return Mismatch(Describe("input " + std::to_string(i), x) + " must be f64[n], as " +
                      Describe("input 0", first));
    }
  }
  return std::vector<OutputSpec>{{first.shape, DType::kF64}};
}

// Checks even_bias and next_even_bias.
Specs InferEvenBias(const OpView& v) {
  const Tensor &bias = v.in(0), &counts = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"bias"}));
  if (bias.shape.rank() != 1) return Mismatch(Describe("bias", bias) + " must be [experts]");
  RETURN_IF_ERROR(ExpectDims("counts", counts, {bias.shape.dims[0] + 1},
                             "one for each of " + Describe("bias", bias) + ", and one more"));
  if (counts.dtype != DType::kF64) return Mismatch(Describe("counts", counts) + " must be f64");
  if (v.n_inputs() > 2) RETURN_IF_ERROR(ExpectScalarF64("norm", v.in(2)));
  return std::vector<OutputSpec>{{bias.shape, bias.dtype}};
}

// Counts as count_choices gives them.
Samples EvenBiasSamples(const SampleSizes& s, bool with_norm) {
  SampleTensor counts = SampleTensor::Wide({s.o + 1});
  for (int64_t e = 0; e <= s.o; ++e) {
    counts.given.push_back(static_cast<double>((e * 5 + 3) % 7));
  }
  const AttrMap attrs = {{"rate", 0.25}};
  Samples samples = {{{SampleTensor{{s.o}}, counts}, attrs}};
  if (with_norm) samples.push_back({{SampleTensor{{s.o}}, counts, SampleTensor::Wide({})}, attrs});
  return samples;
}

const SampleTensor kNorm = SampleTensor::Wide({}), kCount{{}, 3, 9, 0, true};

// Squares are not negative.
SampleTensor Squares(const SampleSizes& s) { return {{s.c, s.o}, 0, 1}; }

constexpr const char* kInstead = "set `loss`: `train` adds the optimizer";
constexpr const char* kInsteadOfBias = "give `route` a `bias_rate`: `train` adds its rule";

}  // namespace

std::vector<OpDef> OptimizerOps() {
  return {
      {.kind = "sum_squares",
       .usage = "g -> f64[], or with `dim` f64[size of that dimension]",
       .inputs = {1},
       .attrs = {{"dim", AttrType::kInt}},
       .infer = InferSumSquares,
       .signatures = SumSquaresRows,
       .flops = PerElement(2),
       .cuda_workspace = SquaresWorkspace,
       .samples = [](const SampleSizes& s) -> Samples {
         Samples samples = {{{{{s.c, s.o}}}, {}}};
         for (const int64_t dim : {0, 1, 2}) {
           samples.push_back({{{{s.c, s.heads, s.o}}}, {{"dim", dim}}});
         }
         samples.push_back({{{{s.c}}}, {{"dim", int64_t{0}}}});
         return samples;
       }},
      {.kind = "sum_in_order",
       .usage = "x (f64[n]) -> f64[], from the first to the last",
       .inputs = {1},
       .infer = InferSumInOrder,
       .signatures = OnlyB,
       .flops = PerElement(4),  // a sum waits for the one before it
       .overwrites = true,
       .samples = [](const SampleSizes& s) -> Samples {
         return {{{SampleTensor::Wide({s.c * s.o})}}};
       }},
      {.kind = "global_norm",
       .usage = "s1, s2, ... (f64[]) -> f64[]",
       .inputs = {1, kAnyNumber},
       .infer = InferGlobalNorm,
       .signatures = OnlyB,
       .flops = [](const OpView& v) { return static_cast<double>(v.n_inputs()); },
       .overwrites = true,
       .samples = [](const SampleSizes&) -> Samples {
         return {{{kNorm, kNorm}}};
       }},
      {.kind = "adamw",
       .usage = "w, m, v, g, (norm (f64[])), (count (f64[])) -> w, m, v",
       .inputs = {4, 6},
       .outputs = 3,
       .updates = 3,
       .attrs = {{"decay", AttrType::kBool},
                 {"counted", AttrType::kBool},
                 // Of w, m, v (0, 1, 2), those that are read and written in different registers:
                 // their old values are the actor's last inputs.
                 OwnAttr("apart", AttrType::kInts)},
       .infer = InferAdamw,
       .signatures = AdamwRows,
       .flops = PerElement(14),
       .overwrites = true,
       .instead = kInstead,
       .samples = [](const SampleSizes& s) -> Samples {
         const SampleTensor w{{s.c, s.o}}, v = Squares(s);
         return {{{w, w, v, w, kNorm}, {{"decay", true}}},
                 {{w, w, v, w}, {{"decay", true}}},
                 {{w, w, v, w, kNorm, kCount}, {{"counted", true}}}};
       }},
      {.kind = "next_adamw",
       .usage = "m, v, w, g, (count (f64[])) -> m, v, next w",
       .inputs = {4, 5},
       .outputs = 3,
       .updates = 2,
       .versioned_updates = 1,
       .attrs = {{"decay", AttrType::kBool}, {"counted", AttrType::kBool}},
       .infer = InferAdamw,
       .signatures = AdamwRows,
       .flops = PerElement(14),
       .overwrites = true,
       .instead = kInstead,
       .samples = [](const SampleSizes& s) -> Samples {
         const SampleTensor w{{s.c, s.o}};
         return {{{w, Squares(s), w, w}, {{"decay", true}}},
                 {{w, Squares(s), w, w, kCount}, {{"counted", true}}}};
       }},
      {.kind = "add_counts",
       .usage = "c1, c2, ... (f64[n]) -> f64[n]",
       .inputs = {1, kAnyNumber},
       .infer = InferAddCounts,
       .signatures = LinearAlikeRows,
       .flops = [](const OpView& v) { return static_cast<double>(v.n_inputs()); },
       .overwrites = true,
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         const SampleTensor counts = SampleTensor::Wide({s.o});
         return {{{counts, counts, counts}}, {{counts}}};
       }},
      {.kind = "even_bias",
       .usage = "bias[E], counts (f64[E + 1]), (norm (f64[])) -> bias",
       .inputs = {2, 3},
       .updates = 1,
       .attrs = {{"rate", AttrType::kDouble, true}},
       .infer = InferEvenBias,
       .signatures = OnlyB,
       .flops = PerElement(2),
       .overwrites = true,
       .instead = kInsteadOfBias,
       .exact = true,
       .samples = [](const SampleSizes& s) { return EvenBiasSamples(s, /*with_norm=*/true); }},
      {.kind = "next_even_bias",
       .usage = "bias[E], counts (f64[E + 1]) -> next bias",
       .inputs = {2},
       .versioned_updates = 1,
       .attrs = {{"rate", AttrType::kDouble, true}},
       .infer = InferEvenBias,
       .signatures = OnlyB,
       .flops = PerElement(2),
       .overwrites = true,
       .instead = kInsteadOfBias,
       .exact = true,
       .samples = [](const SampleSizes& s) { return EvenBiasSamples(s, /*with_norm=*/false); }},
  };
}

}  // namespace oneflow
