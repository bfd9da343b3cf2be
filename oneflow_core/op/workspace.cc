#include "oneflow_core/op/workspace.h"

#include <algorithm>

#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

// All threads together multiply. A kernel may compute the transpose of the result instead.
int64_t ProductOnCpu(const ProductSpec& p) {
  if (p.Empty()) return 0;  // an empty piece: nothing to multiply
  return std::max(ProductWorkspace(p.m, p.n, p.k), ProductWorkspace(p.n, p.m, p.k));
}

}  // namespace

int64_t WorkspaceBytes(proto::DeviceKind device, std::string_view kind, const LocalOp& op,
                       int threads) {
  const OpDef* def = FindOpDef(kind, op.attrs);
  if (def == nullptr) return 0;
  if (device == proto::CUDA) {
    if (def->cuda_workspace) return def->cuda_workspace(op);
    return def->product ? kLibraryProductScratch : 0;
  }
  if (def->cpu_workspace) return def->cpu_workspace(op, threads);
  return def->product ? ProductOnCpu(def->product(op)) : 0;
}

}  // namespace oneflow
