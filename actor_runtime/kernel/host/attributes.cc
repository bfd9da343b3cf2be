#include "actor_runtime/kernel/host/attributes.h"

#include <algorithm>
#include <variant>

#include "glog/logging.h"

namespace oneflow {
namespace {

const Attr* Find(const KernelSetup& setup, std::string_view key) {
  const auto it = setup.attrs.find(key);
  return it == setup.attrs.end() ? nullptr : &it->second;
}

template <typename T>
const T& Get(const KernelSetup& setup, std::string_view key, const Attr& attr) {
  const T* value = std::get_if<T>(&attr);
  CHECK(value != nullptr) << setup.name << ": attribute " << key << " has the wrong type";
  return *value;
}

}  // namespace

std::string StringAttribute(const KernelSetup& setup, std::string_view key,
                            std::string_view fallback) {
  const Attr* attr = Find(setup, key);
  return attr == nullptr ? std::string(fallback) : Get<std::string>(setup, key, *attr);
}

double NumberAttribute(const KernelSetup& setup, std::string_view key, double fallback) {
  const Attr* attr = Find(setup, key);
  if (attr == nullptr) return fallback;
  if (const auto* i = std::get_if<int64_t>(attr)) return static_cast<double>(*i);
  return Get<double>(setup, key, *attr);
}

bool BoolAttribute(const KernelSetup& setup, std::string_view key) {
  const Attr* attr = Find(setup, key);
  return attr != nullptr && Get<bool>(setup, key, *attr);
}

std::vector<int64_t> IntsAttribute(const KernelSetup& setup, std::string_view key) {
  const Attr* attr = Find(setup, key);
  if (attr == nullptr) return {};
  return Get<std::vector<int64_t>>(setup, key, *attr);
}

bool IsFirstAlong(const KernelSetup& setup, const std::vector<int64_t>& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
    CHECK(axis >= 0 && axis < static_cast<int64_t>(setup.coordinate.size()))
        << setup.name << ": no mesh axis " << axis;
    return setup.coordinate[axis] == 0;
  });
}

}  // namespace oneflow
