// cuBLASLt's matrices are column-major. A row-major matrix is the column-major one of its
// transpose, so the library is asked for dT = bT aT: its A is our b, its B our a, and its rows are
// our columns.
#include "actor_runtime/cuda/kernel/matmul_plan.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr uint32_t kAlignment = 64;  // of the addresses of tensors

bool HasBias(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool HasAux(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_DGELU;
}

// The heuristic judges by an address how operands of an epilogue are aligned, and does not read
// there.
void* AlignedAddress() { return reinterpret_cast<void*>(uintptr_t{1} << 20); }

}  // namespace

absl::StatusOr<std::shared_ptr<const MatmulPlan>> MatmulPlan::Make(const MatmulShape& shape,
                                                                   const Libraries& libraries) {
  std::shared_ptr<MatmulPlan> plan(new MatmulPlan(shape, libraries));
  RETURN_IF_ERROR(plan->Describe());
  RETURN_IF_ERROR(plan->ChooseAlgorithm());
  return plan;
}

MatmulPlan::~MatmulPlan() {
  for (cublasLtMatrixLayout_t layout : {a_, b_, d_}) {
    if (layout != nullptr) lt_.MatrixLayoutDestroy(layout);
  }
  if (desc_ != nullptr) lt_.MatmulDescDestroy(desc_);
}

absl::Status MatmulPlan::SetLayout(cublasLtMatrixLayout_t* layout, cudaDataType type, int64_t rows,
                                   int64_t columns) {
  RETURN_IF_ERROR(lt_.ToStatus(lt_.MatrixLayoutCreate(layout, type, rows, columns, rows),
                               "cublasLtMatrixLayoutCreate"));
  if (shape_.batch == 1) return absl::OkStatus();
  const auto batch = static_cast<int32_t>(shape_.batch);
  const int64_t stride = rows * columns;
  RETURN_IF_ERROR(
      lt_.ToStatus(lt_.MatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                sizeof(batch)),
                   "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT"));
  return lt_.ToStatus(
      lt_.MatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                   sizeof(stride)),
      "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET");
}

absl::Status MatmulPlan::Describe() {
  const auto [batch, m, n, k, transpose_a, transpose_b, in, out, epilogue, bytes] = shape_;
  RETURN_IF_ERROR(transpose_b ? SetLayout(&a_, in, k, n) : SetLayout(&a_, in, n, k));
  RETURN_IF_ERROR(transpose_a ? SetLayout(&b_, in, m, k) : SetLayout(&b_, in, k, m));
  RETURN_IF_ERROR(SetLayout(&d_, out, n, m));
  // Never TF32: f32 is what a plan says.
  RETURN_IF_ERROR(lt_.ToStatus(lt_.MatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                               "cublasLtMatmulDescCreate"));
  const auto set = [this](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return lt_.ToStatus(lt_.MatmulDescSetAttribute(desc_, attribute, &value, sizeof(value)),
                        "cublasLtMatmulDescSetAttribute");
  };
  const auto operation = [](bool transpose) -> int32_t {
    return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, operation(transpose_b)));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, operation(transpose_a)));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue)));
  if (HasAux(epilogue)) RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, n));
  return SetEpilogue(AlignedAddress(), AlignedAddress());
}

absl::Status MatmulPlan::SetEpilogue(const void* bias, void* aux) const {
  if (HasBias(shape_.epilogue)) {
    RETURN_IF_ERROR(lt_.ToStatus(
        lt_.MatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)),
        "CUBLASLT_MATMUL_DESC_BIAS_POINTER"));
  }
  if (!HasAux(shape_.epilogue)) return absl::OkStatus();
  return lt_.ToStatus(lt_.MatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                                 &aux, sizeof(aux)),
                      "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER");
}

absl::Status MatmulPlan::ChooseAlgorithm() {
  cublasLtMatmulPreference_t handle = nullptr;
  RETURN_IF_ERROR(
      lt_.ToStatus(lt_.MatmulPreferenceCreate(&handle), "cublasLtMatmulPreferenceCreate"));
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        decltype(lt_.MatmulPreferenceDestroy)>
      preference(handle, lt_.MatmulPreferenceDestroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return lt_.ToStatus(
        lt_.MatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{shape_.workspace_bytes}));
  // Parts of a split sum are added in f32, in a separate step: their order is fixed, and a bf16
  // result is rounded once.
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                      uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
  for (auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    RETURN_IF_ERROR(set(operand, kAlignment));
  }
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  RETURN_IF_ERROR(lt_.ToStatus(lt_.MatmulAlgoGetHeuristic(handle_, desc_, a_, b_, d_, d_,
                                                          preference.get(), 1, &result, &found),
                               "cublasLtMatmulAlgoGetHeuristic"));
  if (found == 0 || result.state != CUBLAS_STATUS_SUCCESS) {
    return absl::UnimplementedError(absl::StrCat(
        "cuBLASLt ", lt_.version, " has no algorithm for ", shape_.batch, " x [", shape_.m, ", ",
        shape_.k, "] x [", shape_.k, ", ", shape_.n, "] with epilogue ",
        static_cast<int>(shape_.epilogue), " and ", shape_.workspace_bytes, " bytes of workspace"));
  }
  algo_ = result.algo;
  workspace_bytes_ = result.workspaceSize;
  return absl::OkStatus();
}

absl::Status MatmulPlan::Run(const MatmulOperands& o, std::span<std::byte> workspace,
                             cudaStream_t stream) const {
  RETURN_IF_ERROR(SetEpilogue(o.bias, o.aux));
  const float one = 1;
  const void* c = o.beta == 0 ? o.d : o.c;
  return lt_.ToStatus(lt_.Matmul(handle_, desc_, &one, o.b, a_, o.a, b_, &o.beta, c, d_, o.d, d_,
                                 &algo_, workspace.data(), workspace_bytes_, stream),
                      "cublasLtMatmul");
}

}  // namespace oneflow::cuda
