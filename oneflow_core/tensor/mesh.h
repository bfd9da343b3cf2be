// Mesh: named axes of devices. A rank is the row-major index of a coordinate, the last axis
// fastest, so the last named axis joins neighbours. The axis "pipe", if there is one, selects the
// stage.
//
// Text form: "pipe=2,data=2,tensor=2". An axis may be factored, "data=8x4": it becomes the axes
// data.0 = 8 and data.1 = 4. "" and "1" mean one device.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

using Coordinate = std::vector<int>;  // one index for each axis

struct Mesh {
  struct Axis {
    std::string name;
    int size = 1;
    auto operator<=>(const Axis&) const = default;
  };
  std::vector<Axis> axes;

  int devices() const;                        // product of the sizes; 1 without axes
  int stage_axis() const;                     // index of "pipe"; -1 without it
  int stages() const;                         // size of "pipe"; 1 without it
  int FindAxis(std::string_view name) const;  // -1 if there is none
  Coordinate RankToCoordinate(int rank) const;
  int CoordinateToRank(const Coordinate& c) const;
  int RankToStage(int rank) const;
  // Ranks whose coordinates equal c except along `along`, which take all values; ascending.
  std::vector<int> Peers(const Coordinate& c, const std::vector<int>& along) const;
  auto operator<=>(const Mesh&) const = default;
};

// The distance of two devices: the number of axes on which they differ, then the difference on
// each, the outermost first. Compared as a vector, the nearer one is less.
std::vector<int> Distance(const Coordinate& a, const Coordinate& b);

inline constexpr int64_t kMaxDevices = int64_t{1} << 20;

// Checks that axis names are well-formed and unique, sizes at least 1, "pipe" is not factored, and
// there are at most kMaxDevices. `where` begins the error.
absl::Status CheckMesh(const Mesh& mesh, std::string_view where);

// Reads the text form and checks it; errors begin with "--mesh=<text>".
absl::StatusOr<Mesh> ParseMesh(std::string_view text);
std::string ToString(const Mesh& mesh);  // the inverse: "data=8x4"; "1" without axes

}  // namespace oneflow
