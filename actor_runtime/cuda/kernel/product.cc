#include "actor_runtime/cuda/kernel/product.h"

#include <algorithm>
#include <memory>
#include <string>

#include "actor_runtime/cuda/kernel/finish_product.h"
#include "actor_runtime/cuda/kernel/matmul_plan.h"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {
namespace {

using Then = ProductSpec::Then;
using Plan = std::shared_ptr<const MatmulPlan>;

// Rows of a panel are a multiple of this: then panels of every type begin at multiples of 64 bytes.
constexpr int64_t kPanelRows = 32;

// The setup's product with its types. Operands of a call are found by it.
struct Problem {
  ProductSpec p;
  DType in = DType::kF32, out = DType::kF32, bias = DType::kF32;

  bool HasBias() const { return p.bias_input >= 0; }
  bool IsPlain() const { return p.then == Then::kNothing; }
  const void* Bias(const KernelCall& call) const {
    return HasBias() ? call.in[p.bias_input][0] : nullptr;
  }
  // Input 2 where it is an operand of what is done to the product.
  const void* Other(const KernelCall& call) const {
    return p.then == Then::kNothing || p.then == Then::kGelu ? nullptr : call.in[2][0];
  }
  const void* Third(const KernelCall& call) const {
    return p.then == Then::kGatedGrad ? call.in[3][0] : nullptr;
  }
  void* Second(const KernelCall& call) const { return call.out.size() > 1 ? call.out[1] : nullptr; }
};

cudaDataType FindType(DType dtype) { return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

absl::StatusOr<Problem> MakeProblem(const KernelSetup& s) {
  Problem problem{.p = FindProduct(s), .in = In(s, 0).dtype, .out = s.out[0].dtype};
  if (problem.HasBias()) problem.bias = In(s, problem.p.bias_input).dtype;
  const DType in = problem.in, out = problem.out;
  const bool known =
      (in == DType::kF32 && out == in) || (in == DType::kBF16 && (out == in || out == DType::kF32));
  const bool bias_known = problem.bias == DType::kF32 || problem.bias == out;
  if (!known || !bias_known || In(s, 1).dtype != in) {
    return absl::UnimplementedError(
        s.name + ": no CUDA kernel \"" + s.kind + "\" for dtypes " + std::string(Name(in)) + ", " +
        std::string(Name(In(s, 1).dtype)) + " -> " + std::string(Name(out)));
  }
  if (problem.p.then == Then::kAdd && out == DType::kBF16) {
    return absl::UnimplementedError(s.name + ": what is added to a product is not rounded");
  }
  return problem;
}

MatmulShape MakeShape(const Problem& problem) {
  const ProductSpec& p = problem.p;
  return {.batch = problem.p.batch,
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .in = FindType(problem.in),
          .out = FindType(problem.out)};
}

FinishSpec MakeFinish(const Problem& problem) {
  return {.rows = problem.p.batch * problem.p.m,
          .columns = problem.p.n,
          .then = problem.p.then,
          .silu = problem.p.silu,
          .product = problem.out,
          .out = problem.out,
          .bias = problem.bias};
}

// The library's epilogue for all operations on the product. Its matrices of gelu's inputs have a
// multiple of 8 columns.
absl::StatusOr<cublasLtEpilogue_t> ChooseEpilogue(const Problem& problem) {
  const bool bias = problem.HasBias();
  if (bias && problem.bias != problem.out) {
    return absl::UnimplementedError("a bias of another type than the result's");
  }
  const Then then = problem.p.then;
  if (then == Then::kGated || then == Then::kGatedGrad) {
    return absl::UnimplementedError("the library has no gated epilogue");
  }
  if ((then == Then::kGelu || then == Then::kGeluGrad) && problem.p.n % 8 != 0) {
    return absl::UnimplementedError("rows that are not multiples of 8");
  }
  if (then == Then::kGelu) {
    return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  }
  if (then == Then::kGeluGrad) return CUBLASLT_EPILOGUE_DGELU;
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// A product that is nothing but a call of the library.
absl::StatusOr<Kernel> MakeFused(const KernelSetup& s, const Problem& problem,
                                 const Libraries& libraries) {
  MatmulShape shape = MakeShape(problem);
  ASSIGN_OR_RETURN(shape.epilogue, ChooseEpilogue(problem));
  shape.workspace_bytes = kLibraryProductScratch;
  ASSIGN_OR_RETURN(const Plan plan, MatmulPlan::Make(shape, libraries));
  return Kernel([problem, plan](const KernelCall& call) {
    const Then then = problem.p.then;
    MatmulOperands o{.a = call.in[problem.p.a_input][0],
                     .b = call.in[problem.p.b_input][0],
                     .c = call.out[0],
                     .d = call.out[0],
                     .bias = problem.Bias(call),
                     .beta = call.accumulate ? 1.0f : 0.0f};
    if (then == Then::kAdd) o.c = problem.Other(call), o.beta = 1;
    // The library calls the gelu its result, and what it reads the auxiliary one.
    if (then == Then::kGelu) o.d = problem.Second(call), o.aux = call.out[0];
    if (then == Then::kGeluGrad) o.aux = const_cast<void*>(problem.Other(call));
    return plan->Run(o, call.workspace, FindStream(call));
  });
}

// A plain product to output 0 and the rest done to it there.
absl::StatusOr<Kernel> MakeFinishedInPlace(const KernelSetup& s, const Problem& problem,
                                           const Libraries& libraries) {
  MatmulShape shape = MakeShape(problem);
  shape.workspace_bytes = kLibraryProductScratch;
  ASSIGN_OR_RETURN(const Plan plan, MatmulPlan::Make(shape, libraries));
  return Kernel([problem, plan, spec = MakeFinish(problem)](const KernelCall& call) {
    void* out = call.out[0];
    RETURN_IF_ERROR(plan->Run({.a = call.in[problem.p.a_input][0],
                               .b = call.in[problem.p.b_input][0],
                               .c = out,
                               .d = out,
                               .beta = call.accumulate ? 1.0f : 0.0f},
                              call.workspace, FindStream(call)));
    return FinishProduct(spec,
                         {.product = out,
                          .bias = problem.Bias(call),
                          .other = problem.Other(call),
                          .third = problem.Third(call),
                          .out = out,
                          .second = problem.Second(call)},
                         FindStream(call));
  });
}

void* Behind(void* base, int64_t elements, DType dtype) {
  return static_cast<std::byte*>(base) + elements * static_cast<int64_t>(ElementBytes(dtype));
}
const void* Behind(const void* base, int64_t elements, DType dtype) {
  return Behind(const_cast<void*>(base), elements, dtype);
}

// Panels of rows, f32 in the second half of the workspace, that become bf16 as they are finished.
absl::StatusOr<Kernel> MakeFinishedInPanels(const KernelSetup& s, const Problem& problem,
                                            const Libraries& libraries) {
  const ProductSpec& p = problem.p;
  CHECK(problem.p.batch == 1 && !p.transpose_a) << s.name;  // in a linear op rows are independent
  constexpr int64_t kHalf = kLibraryProductScratch / 2;
  const int64_t fitting = kHalf / (p.n * int64_t{sizeof(float)});
  const int64_t rows = p.m <= fitting ? p.m : fitting / kPanelRows * kPanelRows;
  if (rows == 0) {
    return absl::UnimplementedError("rows of a bf16 result that are too long for an f32 bias");
  }
  MatmulShape shape = MakeShape(problem);
  shape.out = CUDA_R_32F;
  shape.workspace_bytes = kHalf;
  shape.m = rows;
  ASSIGN_OR_RETURN(const Plan full, MatmulPlan::Make(shape, libraries));
  Plan last = full;
  if (p.m % rows != 0) {
    shape.m = p.m % rows;
    ASSIGN_OR_RETURN(last, MatmulPlan::Make(shape, libraries));
  }
  return Kernel([problem, rows, full, last](const KernelCall& call) {
    const ProductSpec& p = problem.p;
    FinishSpec spec = MakeFinish(problem);
    spec.product = DType::kF32;
    void* const panel = call.workspace.data() + kHalf;
    for (int64_t row = 0; row < p.m; row += rows) {
      spec.rows = std::min(rows, p.m - row);
      const MatmulPlan& plan = spec.rows == rows ? *full : *last;
      RETURN_IF_ERROR(plan.Run({.a = Behind(call.in[p.a_input][0], row * p.k, problem.in),
                                .b = call.in[p.b_input][0],
                                .d = panel},
                               call.workspace, FindStream(call)));
      // Row `row` of a tensor as large as the result; null stays null.
      const auto at_row = [&](auto* base) {
        return base == nullptr ? nullptr : Behind(base, row * p.n, problem.out);
      };
      RETURN_IF_ERROR(FinishProduct(spec,
                                    {.product = panel,
                                     .bias = problem.Bias(call),
                                     .other = at_row(problem.Other(call)),
                                     .third = at_row(problem.Third(call)),
                                     .out = at_row(call.out[0]),
                                     .second = at_row(problem.Second(call))},
                                    FindStream(call)));
    }
    return absl::OkStatus();
  });
}

// A sum of no products: zeros, and the operations on them. With accumulation the output stays.
Kernel MakeEmptySum(const Problem& problem) {
  return [problem, spec = MakeFinish(problem)](const KernelCall& call) {
    return FinishProduct(spec,
                         {.product = call.accumulate ? call.out[0] : nullptr,
                          .bias = problem.Bias(call),
                          .other = problem.Other(call),
                          .third = problem.Third(call),
                          .out = call.out[0],
                          .second = problem.Second(call)},
                         FindStream(call));
  };
}

absl::StatusOr<Kernel> MakeAny(const KernelSetup& s, const Problem& problem,
                               const Libraries& libraries) {
  const ProductSpec& p = problem.p;
  if (problem.p.batch == 0 || p.m == 0 || p.n == 0) {
    return Kernel([](const KernelCall&) { return absl::OkStatus(); });
  }
  if (p.k == 0) return MakeEmptySum(problem);
  // Neither more nor less: algorithms, and so bits, depend on it.
  RETURN_IF_ERROR(NeedWorkspace(s, kLibraryProductScratch));
  absl::StatusOr<Kernel> fused = MakeFused(s, problem, libraries);
  const bool nothing_to_finish = problem.IsPlain() && !problem.HasBias();
  if (nothing_to_finish || !absl::IsUnimplemented(fused.status())) return fused;
  return problem.HasBias() && problem.out == DType::kBF16
             ? MakeFinishedInPanels(s, problem, libraries)
             : MakeFinishedInPlace(s, problem, libraries);
}

}  // namespace

absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup, const Libraries& libraries) {
  ASSIGN_OR_RETURN(const Problem problem, MakeProblem(setup));
  const bool may_add = problem.IsPlain() && problem.out != DType::kBF16;
  absl::StatusOr<Kernel> kernel = MakeAny(setup, problem, libraries);
  if (!kernel.ok()) return Annotate(kernel.status(), setup.name);
  return Kernel([may_add, name = setup.name, call_it = *std::move(kernel)](const KernelCall& call) {
    if (call.accumulate && !may_add) {
      return absl::InternalError(name + ": a product that is not a plain sum is not added up");
    }
    const absl::Status status = call_it(call);
    return status.ok() ? status : Annotate(status, name);
  });
}

}  // namespace oneflow::cuda
