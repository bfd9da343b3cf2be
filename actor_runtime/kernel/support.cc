#include "actor_runtime/kernel/support.h"

#include <variant>

#include <glog/logging.h>

namespace oneflow {
namespace {

template <typename T>
T Get(const KernelSetup& s, std::string_view key, T fallback) {
  const auto it = s.attrs.find(key);
  if (it == s.attrs.end()) return fallback;
  const T* value = std::get_if<T>(&it->second);
  CHECK(value != nullptr) << s.name << ": attribute " << key << " has another type";
  return *value;
}

}  // namespace

int64_t IntAttr(const KernelSetup& s, std::string_view key, int64_t fallback) {
  return Get<int64_t>(s, key, fallback);
}
double DoubleAttr(const KernelSetup& s, std::string_view key, double fallback) {
  const auto it = s.attrs.find(key);
  if (it != s.attrs.end() && std::holds_alternative<int64_t>(it->second)) {
    return static_cast<double>(std::get<int64_t>(it->second));  // "{ i: 1 }" is a number too
  }
  return Get<double>(s, key, fallback);
}
bool BoolAttr(const KernelSetup& s, std::string_view key, bool fallback) {
  return Get<bool>(s, key, fallback);
}
std::string StringAttr(const KernelSetup& s, std::string_view key, std::string fallback) {
  return Get<std::string>(s, key, std::move(fallback));
}

const Port& In(const KernelSetup& s, int i) {
  CHECK_LT(i, s.in.size()) << s.name << " (" << s.kind << ")";
  CHECK_EQ(s.in[i].size(), 1) << s.name << " (" << s.kind << "): input " << i;
  return s.in[i][0];
}

int64_t ProductOf(const Dims& dims, int begin, int end) {
  if (end < 0) end = static_cast<int>(dims.size());
  int64_t p = 1;
  for (int i = begin; i < end; ++i) p *= dims[i];
  return p;
}

int64_t Elements(const Port& port) { return ProductOf(port.local(), 0); }
int64_t LastDim(const Port& port) { return port.local().empty() ? 1 : port.local().back(); }
int64_t RowsOf(const Port& port) {
  return port.local().empty()
             ? 1
             : ProductOf(port.local(), 0, static_cast<int>(port.local().size()) - 1);
}

absl::Status NeedWorkspace(const KernelSetup& s, int64_t bytes) {
  if (s.workspace_bytes >= bytes) return absl::OkStatus();
  return absl::InternalError(s.name + " (" + s.kind + "): needs " + std::to_string(bytes) +
                             " bytes of workspace, the plan gives " +
                             std::to_string(s.workspace_bytes));
}

}  // namespace oneflow
