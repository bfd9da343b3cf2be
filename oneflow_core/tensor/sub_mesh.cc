#include "oneflow_core/tensor/sub_mesh.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include <glog/logging.h>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr int kMaxStride = std::numeric_limits<int>::max();

std::vector<int> DenseStrides(const Mesh& mesh) {
  std::vector<int> strides(mesh.axes.size(), 1);
  for (size_t a = strides.size(); a-- > 1;) {
    // CheckSubMesh comes later, and refuses what does not fit.
    const int64_t stride = int64_t{strides[a]} * mesh.axes[a].size;
    strides[a - 1] = static_cast<int>(std::clamp<int64_t>(stride, 0, kMaxStride));
  }
  return strides;
}

// Axes from the largest stride to the smallest: as digits of a device's number.
std::vector<int> BySlowest(const SubMesh& sub) {
  std::vector<int> order(sub.strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return sub.strides[a] > sub.strides[b]; });
  return order;
}

}  // namespace

SubMesh DenseSubMesh(Mesh mesh, int first) {
  std::vector<int> strides = DenseStrides(mesh);
  return {std::move(mesh), std::move(strides), first};
}

absl::Status CheckSubMesh(const SubMesh& sub, int devices, std::string_view where) {
  RETURN_IF_ERROR(CheckMesh(sub.mesh, where));
  CHECK_EQ(sub.strides.size(), sub.mesh.axes.size());
  if (sub.mesh.stage_axis() >= 0) {
    return InputError(where, "sub-mesh " + ToString(sub) + " has an axis \"pipe\"",
                      "a sub-mesh lies within a stage: set `stage` instead");
  }
  int64_t span = 0;  // from coordinate 0 to the last, over the axes that are faster
  std::vector<int> order = BySlowest(sub);
  std::reverse(order.begin(), order.end());
  for (const int axis : order) {
    const int size = sub.mesh.axes[axis].size;
    if (sub.strides[axis] < 1 || (size > 1 && sub.strides[axis] <= span)) {
      return InputError(where,
                        "sub-mesh " + ToString(sub) + " names a device twice: axis \"" +
                            sub.mesh.axes[axis].name + "\" has stride " +
                            std::to_string(sub.strides[axis]),
                        "a stride steps over all devices of the faster axes; leave it out for "
                        "neighbours");
    }
    span += static_cast<int64_t>(size - 1) * sub.strides[axis];
  }
  if (sub.first >= 0 && sub.first + span < devices) return absl::OkStatus();
  return InputError(where,
                    "sub-mesh " + ToString(sub) + " reaches from device " +
                        std::to_string(sub.first) + " to " + std::to_string(sub.first + span) +
                        " of a stage of " + std::to_string(devices),
                    "use a larger mesh, or a smaller sub-mesh");
}

int DeviceAt(const SubMesh& sub, const Coordinate& c) {
  int device = sub.first;
  for (size_t a = 0; a < c.size(); ++a) device += c[a] * sub.strides[a];
  return device;
}

std::optional<Coordinate> CoordinateIn(const SubMesh& sub, int device) {
  Coordinate c(sub.strides.size(), 0);
  int rest = device - sub.first;
  if (rest < 0) return std::nullopt;
  for (const int axis : BySlowest(sub)) {
    const int size = sub.mesh.axes[axis].size;
    c[axis] = size == 1 ? 0 : rest / sub.strides[axis];
    if (c[axis] >= size) return std::nullopt;
    rest -= c[axis] * sub.strides[axis];
  }
  if (rest != 0) return std::nullopt;
  return c;
}

int PlaceInStage(const Mesh& mesh, const Coordinate& c) {
  int place = 0;
  for (int a = 0; a < static_cast<int>(mesh.axes.size()); ++a) {
    if (a != mesh.stage_axis()) place = place * mesh.axes[a].size + c[a];
  }
  return place;
}

int DevicesOfStage(const Mesh& mesh) { return mesh.devices() / mesh.stages(); }

std::string ToString(const SubMesh& sub) {
  const std::vector<int> dense = DenseStrides(sub.mesh);
  std::string text;
  for (size_t a = 0; a < sub.strides.size(); ++a) {
    text +=
        (a > 0 ? "," : "") + sub.mesh.axes[a].name + '=' + std::to_string(sub.mesh.axes[a].size);
    if (sub.strides[a] != dense[a]) text += ':' + std::to_string(sub.strides[a]);
  }
  if (sub.first != 0 || text.empty()) text += '@' + std::to_string(sub.first);
  return text;
}

}  // namespace oneflow
