#include "actor_runtime/kernel/support.h"

#include <glog/logging.h>

#include "oneflow_core/op/op_def.h"

namespace oneflow {
const Port& In(const KernelSetup& s, int i) {
  CHECK_LT(i, s.in.size()) << s.name << " (" << s.kind << ")";
  CHECK_EQ(s.in[i].size(), 1) << s.name << " (" << s.kind << "): input " << i;
  return s.in[i][0];
}

int64_t DimsProduct(const Dims& dims, int begin, int end) {
  if (end < 0) end = static_cast<int>(dims.size());
  int64_t p = 1;
  for (int i = begin; i < end; ++i) p *= dims[i];
  return p;
}

int64_t Elements(const Port& port) { return DimsProduct(port.local(), 0); }
int64_t LastDim(const Port& port) { return port.local().empty() ? 1 : port.local().back(); }
int64_t CountRows(const Port& port) {
  return port.local().empty()
             ? 1
             : DimsProduct(port.local(), 0, static_cast<int>(port.local().size()) - 1);
}

LocalOp MakeLocalOp(const KernelSetup& s) {
  LocalOp local{s.attrs, {}, {}};
  for (int i = 0; i < static_cast<int>(s.in.size()); ++i) local.in.push_back(In(s, i).local());
  for (const Port& port : s.out) local.out.push_back(port.local());
  if (!s.in.empty()) local.dtype = In(s, 0).dtype;
  return local;
}

ProductSpec FindProduct(const KernelSetup& s) {
  return FindOpDef(s.kind, s.attrs)->product(MakeLocalOp(s));
}

absl::Status NeedWorkspace(const KernelSetup& s, int64_t bytes) {
  if (s.workspace_bytes >= bytes) return absl::OkStatus();
  return absl::InternalError(s.name + " (" + s.kind + "): needs " + std::to_string(bytes) +
                             " bytes of workspace, the plan gives " +
                             std::to_string(s.workspace_bytes));
}

}  // namespace oneflow
