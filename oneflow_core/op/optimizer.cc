// Ops that fire once a step: the norm of all gradients and the update of each variable.
#include "oneflow_core/op/families.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

absl::Status ExpectScalarF64(std::string_view role, const Tensor& tensor) {
  if (tensor.shape.rank() == 0 && tensor.dtype == DType::kF64) return absl::OkStatus();
  return Mismatch(Describe(role, tensor) + " must be f64[]");
}

Specs InferSumSquares(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"g"}));
  return std::vector<OutputSpec>{{Shape{}, DType::kF64}};
}

Rows SumSquaresRows(const OpView& v) {
  Rows rows = {AllB(v)};
  for (int i = 0; i < v.in(0).shape.rank(); ++i) rows.push_back({{S(i)}, {P()}});
  return rows;
}

Specs InferGlobalNorm(const OpView& v) {
  for (int i = 0; i < v.n_inputs(); ++i) {
    RETURN_IF_ERROR(ExpectScalarF64("input " + std::to_string(i), v.in(i)));
  }
  return std::vector<OutputSpec>{{Shape{}, DType::kF64}};
}

Rows OnlyB(const OpView& v) { return {AllB(v)}; }

// Checks adamw and next_adamw: their first four inputs obey the same rules.
Specs InferAdamw(const OpView& v) {
  const Tensor& w = v.in(0);
  const std::vector<std::string> roles = {"w", "m", "v", "g"};
  RETURN_IF_ERROR(ExpectFloat(v, roles));
  for (int i = 1; i < 4; ++i) {
    RETURN_IF_ERROR(ExpectDims(roles[i], v.in(i), w.shape.dims, "that of " + Describe("w", w)));
  }
  if (v.n_inputs() > 4) RETURN_IF_ERROR(ExpectScalarF64("norm", v.in(4)));
  return std::vector<OutputSpec>(3, OutputSpec{w.shape, w.dtype});
}

Rows AdamwRows(const OpView& v) {
  const std::vector<int> norm = v.n_inputs() > 4 ? std::vector<int>{4} : std::vector<int>{};
  return LeadRows(v, v.in(0).shape.rank(), norm);
}

}  // namespace

std::vector<OpDef> OptimizerOps() {
  return {
      {.kind = "sum_squares",
       .usage = "g -> f64[]",
       .min_inputs = 1,
       .max_inputs = 1,
       .infer = InferSumSquares,
       .signatures = SumSquaresRows,
       .flops = PerElement(2)},
      {.kind = "global_norm",
       .usage = "s1, s2, ... (f64[]) -> f64[]",
       .min_inputs = 1,
       .max_inputs = -1,
       .infer = InferGlobalNorm,
       .signatures = OnlyB,
       .flops = [](const OpView& v) { return static_cast<double>(v.n_inputs()); },
       .overwrites = true},
      {.kind = "adamw",
       .usage = "w, m, v, g, (norm (f64[])) -> w, m, v",
       .min_inputs = 4,
       .max_inputs = 5,
       .outputs = 3,
       .updates = 3,
       .attrs = {{"decay", AttrType::kBool}},
       .infer = InferAdamw,
       .signatures = AdamwRows,
       .flops = PerElement(14),
       .overwrites = true},
      {.kind = "next_adamw",
       .usage = "m, v, w, g -> m, v, next w",
       .min_inputs = 4,
       .max_inputs = 4,
       .outputs = 3,
       .updates = 2,
       .versioned_updates = 1,
       .attrs = {{"decay", AttrType::kBool}},
       .infer = InferAdamw,
       .signatures = AdamwRows,
       .flops = PerElement(14),
       .overwrites = true},
  };
}

}  // namespace oneflow
