#include "actor_runtime/kernel/attributes.h"

#include <utility>
#include <variant>

#include "glog/logging.h"

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
std::vector<int64_t> IntsAttr(const KernelSetup& s, std::string_view key) {
  return Get<std::vector<int64_t>>(s, key, {});
}

}  // namespace oneflow
