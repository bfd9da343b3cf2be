#include "actor_runtime/cuda/emulated/cublas_lt.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "oneflow_core/tensor/bf16.h"

struct cublasLtContext {};

struct cublasLtMatmulDescTwin {
  cublasComputeType_t compute;
  cudaDataType scale;
  int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_ld = 0;
  int32_t aux_type = -1, bias_type = -1;
};

struct cublasLtMatrixLayoutTwin {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t ld;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct cublasLtMatmulPreferenceTwin {
  uint64_t workspace = 0;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

namespace oneflow::emulated {
namespace {

using Desc = cublasLtMatmulDescTwin;
using Layout = cublasLtMatrixLayoutTwin;

std::atomic<bool> epilogues_allowed{true};

// The emulated library has one algorithm, bound to the arguments of the heuristic.
constexpr uint64_t kAlgorithm = 0x6f6e65666c6f77;
enum AlgoWord { kKind, kProblem, kWorkspace, kAlignment0 };

constexpr uint32_t kGeluBit = CUBLASLT_EPILOGUE_GELU, kAuxBit = 128;
constexpr uint32_t kBiasBit = CUBLASLT_EPILOGUE_BIAS;
bool IsDgelu(uint32_t epilogue) { return epilogue == CUBLASLT_EPILOGUE_DGELU; }
bool HasAux(uint32_t epilogue) { return (epilogue & kAuxBit) != 0; }
bool HasBias(uint32_t epilogue) { return (epilogue & kBiasBit) != 0; }

size_t CudaElementBytes(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

// Everything that a product depends on but the addresses, folded into a word.
uint64_t Fingerprint(const Desc& desc, const Layout* const (&layouts)[4]) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  for (int64_t word : {int64_t{desc.compute}, int64_t{desc.trans_a}, int64_t{desc.trans_b},
                       int64_t{desc.epilogue}, desc.aux_ld}) {
    add(static_cast<uint64_t>(word));
  }
  for (const Layout* l : layouts) {
    for (uint64_t word :
         {static_cast<uint64_t>(l->type), l->rows, l->columns, static_cast<uint64_t>(l->ld),
          static_cast<uint64_t>(l->batch), static_cast<uint64_t>(l->stride)}) {
      add(word);
    }
  }
  return hash;
}

bool Fits(const Layout& l) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
  if (l.rows == 0 || l.columns == 0 || l.batch < 1) return false;
  if (l.rows > kMost || l.columns > kMost || l.ld < static_cast<int64_t>(l.rows)) return false;
  return l.batch == 1 || l.stride >= 0;
}

// True if the shapes match: op(A) is m x k, op(B) k x n, C and D m x n.
bool ShapesAgree(const Desc& desc, const Layout* const (&l)[4]) {
  for (const Layout* layout : l) {
    if (!Fits(*layout) || layout->batch != l[0]->batch) return false;
  }
  const bool ta = desc.trans_a == CUBLAS_OP_T, tb = desc.trans_b == CUBLAS_OP_T;
  const uint64_t m = ta ? l[0]->columns : l[0]->rows, k = ta ? l[0]->rows : l[0]->columns;
  const uint64_t n = tb ? l[1]->rows : l[1]->columns, k_of_b = tb ? l[1]->columns : l[1]->rows;
  return k == k_of_b && l[2]->rows == m && l[2]->columns == n && l[3]->rows == m &&
         l[3]->columns == n;
}

// The rows of the documented table for CUBLAS_COMPUTE_32F that the project asks for.
bool TypesAreListed(const Desc& desc, const Layout* const (&l)[4]) {
  if (desc.compute != CUBLAS_COMPUTE_32F || desc.scale != CUDA_R_32F) return false;
  const cudaDataType in = l[0]->type, out = l[3]->type;
  if (l[1]->type != in || l[2]->type != out) return false;
  if (in == CUDA_R_32F) return out == CUDA_R_32F;
  return in == CUDA_R_16BF && (out == CUDA_R_16BF || out == CUDA_R_32F);
}

bool EpilogueIsListed(const Desc& desc, const Layout& d) {
  switch (desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: return true;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU: break;
    default: return false;
  }
  // The bias and the input of gelu have the result's type.
  if (HasBias(desc.epilogue) && desc.bias_type != -1 && desc.bias_type != d.type) return false;
  if (!HasAux(desc.epilogue)) return true;
  if (desc.aux_type != -1 && desc.aux_type != d.type) return false;
  // No batch stride of the auxiliary matrix is known here.
  return d.batch == 1 && desc.aux_ld % 8 == 0 && desc.aux_ld >= static_cast<int64_t>(d.rows);
}

// The heuristic judges the alignment of these by their addresses.
bool EpiloguePointersAreAligned(const Desc& desc) {
  const auto at = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  if (HasBias(desc.epilogue) && (desc.bias == nullptr || at(desc.bias) % 4 != 0)) return false;
  return !HasAux(desc.epilogue) || (desc.aux != nullptr && at(desc.aux) % 16 == 0);
}

// A column-major matrix of either type.
struct Matrix {
  Layout layout;
  std::byte* data;

  float Read(int64_t row, int64_t column) const {
    const std::byte* at = data + (row + column * layout.ld) * CudaElementBytes(layout.type);
    if (layout.type == CUDA_R_32F) return *reinterpret_cast<const float*>(at);
    return ToFloat(*reinterpret_cast<const Bf16*>(at));
  }
  void Write(int64_t row, int64_t column, float value) const {
    std::byte* at = data + (row + column * layout.ld) * CudaElementBytes(layout.type);
    if (layout.type == CUDA_R_32F) {
      *reinterpret_cast<float*>(at) = value;
    } else {
      *reinterpret_cast<Bf16*>(at) = ToBf16(value);
    }
  }
  Matrix At(int64_t batch) const {
    return {layout, data + batch * layout.stride * CudaElementBytes(layout.type)};
  }
};

Matrix MakeMatrix(const void* data, const Layout& layout) {
  return {layout, static_cast<std::byte*>(const_cast<void*>(data))};
}

constexpr float kGeluScale = 0.7978845608028654f, kGeluCube = 0.044715f;

float Gelu(float x) { return 0.5f * x * (1 + std::tanh(kGeluScale * (x + kGeluCube * x * x * x))); }

float GeluSlope(float x) {
  const float t = std::tanh(kGeluScale * (x + kGeluCube * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCube * x * x);
}

struct Call {
  Desc desc;
  float alpha, beta;
  Matrix a, b, c, d;
  std::byte* workspace;
  size_t workspace_bytes;
};

// op(X) as rows of floats: the loops below then run over memory in its order.
std::vector<float> Dense(const Matrix& x, bool transposed, int64_t rows, int64_t columns) {
  std::vector<float> dense(rows * columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      dense[i * columns + j] = transposed ? x.Read(j, i) : x.Read(i, j);
    }
  }
  return dense;
}

void Finish(const Call& call, const Matrix& c, const Matrix& d, int64_t row, int64_t column,
            float sum) {
  float value = call.alpha * sum;
  if (call.beta != 0) value += call.beta * c.Read(row, column);
  const uint32_t epilogue = call.desc.epilogue;
  if (HasBias(epilogue)) {
    Layout vector = d.layout;
    vector.ld = static_cast<int64_t>(vector.rows);
    value += MakeMatrix(call.desc.bias, vector).Read(row, 0);
  }
  if (HasAux(epilogue)) {
    Layout of_aux = d.layout;
    of_aux.ld = call.desc.aux_ld;
    const Matrix aux = MakeMatrix(call.desc.aux, of_aux);
    if (IsDgelu(epilogue)) {
      value *= GeluSlope(aux.Read(row, column));
    } else {
      aux.Write(row, column, value);
    }
  }
  if ((epilogue & kGeluBit) != 0) value = Gelu(value);
  d.Write(row, column, value);
}

void Multiply(const Call& call) {
  // A product may leave anything in its workspace.
  if (call.workspace_bytes > 0) std::memset(call.workspace, 0xff, call.workspace_bytes);
  const bool ta = call.desc.trans_a == CUBLAS_OP_T, tb = call.desc.trans_b == CUBLAS_OP_T;
  const auto m = static_cast<int64_t>(call.d.layout.rows);
  const auto n = static_cast<int64_t>(call.d.layout.columns);
  const auto k = static_cast<int64_t>(ta ? call.a.layout.rows : call.a.layout.columns);
  std::vector<float> sums(m);
  for (int batch = 0; batch < call.d.layout.batch; ++batch) {
    const Matrix c = call.c.At(batch), d = call.d.At(batch);
    // A column of the result is a sum of columns of op(A).
    const std::vector<float> a = Dense(call.a.At(batch), !ta, k, m);
    const std::vector<float> b = Dense(call.b.At(batch), tb, k, n);
    for (int64_t column = 0; column < n; ++column) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t i = 0; i < k; ++i) {
        const float factor = b[i * n + column];
        for (int64_t row = 0; row < m; ++row) sums[row] += a[i * m + row] * factor;
      }
      for (int64_t row = 0; row < m; ++row) Finish(call, c, d, row, column, sums[row]);
    }
  }
}

// The bytes from a matrix's first element to behind its last.
size_t Extent(const Layout& l) {
  const int64_t last = (l.batch - 1) * l.stride + (static_cast<int64_t>(l.columns) - 1) * l.ld;
  return (last + static_cast<int64_t>(l.rows)) * CudaElementBytes(l.type);
}

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto at = reinterpret_cast<uintptr_t>(a), bt = reinterpret_cast<uintptr_t>(b);
  return at < bt + b_bytes && bt < at + a_bytes;
}

// Sets *field to the value that `value` points to; false where the sizes differ.
template <typename T>
bool Assign(T* field, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return false;
  std::memcpy(field, value, bytes);
  return true;
}

cublasStatus_t MakeStatus(bool assigned) {
  return assigned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

void AllowCublasLtEpilogues(bool allow) { epilogues_allowed = allow; }

}  // namespace oneflow::emulated

using oneflow::emulated::Assign;
using oneflow::emulated::EnterLibrary;
using oneflow::emulated::MakeStatus;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!EnterLibrary("cublasLtCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_INVALID_VALUE: return "an invalid value";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "execution failed";
    default: return "another error";
  }
}

size_t cublasLtGetVersion() { return CUBLAS_VER_MAJOR * 10000; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType scale) {
  if (!EnterLibrary("cublasLtMatmulDescCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
  *desc = new cublasLtMatmulDescTwin{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return MakeStatus(Assign(&desc->trans_a, value, bytes));
    case CUBLASLT_MATMUL_DESC_TRANSB: return MakeStatus(Assign(&desc->trans_b, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return MakeStatus(Assign(&desc->epilogue, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return MakeStatus(Assign(&desc->bias, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return MakeStatus(Assign(&desc->aux, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return MakeStatus(Assign(&desc->aux_ld, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return MakeStatus(Assign(&desc->aux_type, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return MakeStatus(Assign(&desc->bias_type, value, bytes));
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  if (!EnterLibrary("cublasLtMatrixLayoutCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
  *layout = new cublasLtMatrixLayoutTwin{type, rows, columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return MakeStatus(Assign(&layout->batch, value, bytes));
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return MakeStatus(Assign(&layout->stride, value, bytes));
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (!EnterLibrary("cublasLtMatmulPreferenceCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
  *preference = new cublasLtMatmulPreferenceTwin;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return MakeStatus(Assign(&preference->workspace, value, bytes));
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return MakeStatus(Assign(&preference->schemes, value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: {
      const int operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
      return MakeStatus(Assign(&preference->alignment[operand], value, bytes));
    }
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  using namespace oneflow::emulated;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested < 1 || results == nullptr || returned == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *returned = 0;
  if (!EnterLibrary("cublasLtMatmulAlgoGetHeuristic")) return CUBLAS_STATUS_INTERNAL_ERROR;
  const Layout* const layouts[4] = {a, b, c, d};
  if (!ShapesAgree(*desc, layouts)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool plain = desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  if (!TypesAreListed(*desc, layouts) || !EpilogueIsListed(*desc, *d) ||
      !EpiloguePointersAreAligned(*desc) || !(plain || epilogues_allowed)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  cublasLtMatmulHeuristicResult_t& result = results[0];
  result = {};
  constexpr uint64_t kWanted = 4096;
  result.workspaceSize = std::min(preference->workspace, kWanted);
  result.algo.data[kKind] = kAlgorithm;
  result.algo.data[kProblem] = Fingerprint(*desc, layouts);
  result.algo.data[kWorkspace] = result.workspaceSize;
  for (int i = 0; i < 4; ++i) {
    // No algorithm asks for more than vectors of 16 bytes.
    result.algo.data[kAlignment0 + i] = std::min(preference->alignment[i], 16u);
  }
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  using namespace oneflow::emulated;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!EnterLibrary("cublasLtMatmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (algo == nullptr || algo->data[kKind] != kAlgorithm) return CUBLAS_STATUS_INVALID_VALUE;
  const Layout* const layouts[4] = {a_layout, b_layout, c_layout, d_layout};
  if (algo->data[kProblem] != Fingerprint(*desc, layouts)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const void* const addresses[4] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    const auto at = reinterpret_cast<uintptr_t>(addresses[i]);
    if (at == 0 || at % algo->data[kAlignment0 + i] != 0) return CUBLAS_STATUS_INVALID_VALUE;
    // Only C may be where D is, and then it is the same matrix.
    if (i < 2 && Overlap(addresses[i], Extent(*layouts[i]), d, Extent(*d_layout))) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  if (c != d && Overlap(c, Extent(*c_layout), d, Extent(*d_layout))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!EpiloguePointersAreAligned(*desc)) return CUBLAS_STATUS_INVALID_VALUE;
  const size_t needed = algo->data[kWorkspace];
  if (needed > workspace_bytes || (needed > 0 && reinterpret_cast<uintptr_t>(workspace) % 16)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto number = [](const void* p) { return *static_cast<const float*>(p); };
  const Call call{*desc,
                  number(alpha),
                  number(beta),
                  MakeMatrix(a, *a_layout),
                  MakeMatrix(b, *b_layout),
                  MakeMatrix(c, *c_layout),
                  MakeMatrix(d, *d_layout),
                  static_cast<std::byte*>(workspace),
                  needed};
  const cudaError_t error = EnqueueHost(stream, "cublasLtMatmul", [call] { Multiply(call); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
