#include "oneflow_core/tensor/mesh.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <glog/logging.h>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr std::string_view kPipe = "pipe";
constexpr std::string_view kMend = "write axis=size, e.g. pipe=2,data=2,tensor=2";

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool IsAxisName(std::string_view name) {
  if (name.empty() || name[0] < 'a' || name[0] > 'z') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

// "8x4" -> {8, 4}. Empty if it is not a list of numbers.
std::vector<int> ParseFactors(std::string_view text) {
  std::vector<int> factors;
  for (const std::string_view part : Split(text, 'x')) {
    int size = 0;
    const char* end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, size);
    if (error != std::errc() || stop != end) return {};
    factors.push_back(size);
  }
  return factors;
}

// The number of axes from `first` on that are name.0, name.1, ...: one axis that was factored.
size_t FactorsFrom(const std::vector<Mesh::Axis>& axes, size_t first, std::string* name) {
  const std::string& text = axes[first].name;
  if (text.size() < 3 || text.substr(text.size() - 2) != ".0") return 0;
  *name = text.substr(0, text.size() - 2);
  size_t n = 1;
  while (first + n < axes.size() && axes[first + n].name == *name + '.' + std::to_string(n)) ++n;
  return n >= 2 ? n : 0;
}

}  // namespace

int Mesh::devices() const {
  int n = 1;
  for (const Axis& axis : axes) n *= axis.size;
  return n;
}

int Mesh::stage_axis() const { return FindAxis(kPipe); }

int Mesh::stages() const {
  const int axis = stage_axis();
  return axis < 0 ? 1 : axes[axis].size;
}

int Mesh::FindAxis(std::string_view name) const {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Coordinate Mesh::RankToCoordinate(int rank) const {
  CHECK(rank >= 0 && rank < devices()) << "rank " << rank << " of " << ToString(*this);
  Coordinate c(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    c[i] = rank % axes[i].size;
    rank /= axes[i].size;
  }
  return c;
}

int Mesh::CoordinateToRank(const Coordinate& c) const {
  CHECK_EQ(c.size(), axes.size());
  int rank = 0;
  for (size_t i = 0; i < axes.size(); ++i) rank = rank * axes[i].size + c[i];
  return rank;
}

int Mesh::RankToStage(int rank) const {
  const int axis = stage_axis();
  return axis < 0 ? 0 : RankToCoordinate(rank)[axis];
}

std::vector<int> Mesh::Peers(const Coordinate& c, const std::vector<int>& along) const {
  Coordinate origin = c;
  for (const int axis : along) origin[axis] = 0;
  std::vector<int> ranks = {CoordinateToRank(origin)};
  int stride = 1;
  // From the fastest axis to the slowest, so that each round appends larger ranks only.
  for (int i = static_cast<int>(axes.size()) - 1; i >= 0; stride *= axes[i--].size) {
    if (std::find(along.begin(), along.end(), i) == along.end()) continue;
    const size_t n = ranks.size();
    for (int k = 1; k < axes[i].size; ++k) {
      for (size_t r = 0; r < n; ++r) ranks.push_back(ranks[r] + k * stride);
    }
  }
  return ranks;
}

std::vector<int> Distance(const Coordinate& a, const Coordinate& b) {
  std::vector<int> distance = {0};
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    distance.push_back(std::abs(a[i] - b[i]));
    distance[0] += a[i] != b[i];
  }
  return distance;
}

absl::Status CheckMesh(const Mesh& mesh, std::string_view where) {
  int64_t devices = 1;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const Mesh::Axis& axis = mesh.axes[i];
    const std::string quoted = "axis \"" + axis.name + "\"";
    if (!IsAxisName(axis.name)) {
      return InputError(where, quoted + " has no valid name",
                        "use lower-case letters, digits and _, a letter first");
    }
    if (mesh.FindAxis(axis.name) != static_cast<int>(i)) {
      return InputError(where, quoted + " is given twice", "give each axis once");
    }
    if (axis.name.starts_with("pipe.")) {
      return InputError(where, "axis \"pipe\" selects the stage and cannot be factored",
                        "give it one size");
    }
    if (axis.size < 1) {
      return InputError(where, quoted + " has size " + std::to_string(axis.size),
                        "sizes are at least 1");
    }
    devices *= axis.size;
    if (devices > kMaxDevices) {
      return InputError(where, "has more than " + std::to_string(kMaxDevices) + " devices",
                        "use smaller sizes");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Mesh> ParseMesh(std::string_view text) {
  const std::string where = "--mesh=" + std::string(text);
  Mesh mesh;
  if (text.empty() || text == "1") return mesh;
  for (const std::string_view part : Split(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return InputError(where, "\"" + std::string(part) + "\" has no size", kMend);
    }
    const std::string name(part.substr(0, equals));
    const std::string size(part.substr(equals + 1));
    const std::vector<int> factors = ParseFactors(size);
    if (factors.empty()) {
      return InputError(where, "\"" + size + "\" is no size for axis \"" + name + "\"", kMend);
    }
    for (size_t i = 0; i < factors.size(); ++i) {
      const bool unfactored = factors.size() == 1;
      mesh.axes.push_back({unfactored ? name : name + '.' + std::to_string(i), factors[i]});
    }
  }
  RETURN_IF_ERROR(CheckMesh(mesh, where));
  return mesh;
}

std::string ToString(const Mesh& mesh) {
  if (mesh.axes.empty()) return "1";
  std::string text, name;
  for (size_t i = 0; i < mesh.axes.size();) {
    if (i > 0) text += ',';
    const size_t factors = FactorsFrom(mesh.axes, i, &name);
    text += (factors > 0 ? name : mesh.axes[i].name) + '=' + std::to_string(mesh.axes[i].size);
    for (size_t k = 1; k < factors; ++k) text += 'x' + std::to_string(mesh.axes[i + k].size);
    i += std::max<size_t>(1, factors);
  }
  return text;
}

}  // namespace oneflow
