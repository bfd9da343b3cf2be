// SubMesh: a mesh of its own over some of the devices of a stage, or over all of them in another
// shape. Devices are counted within their stage, from 0 in rank order: what holds for one stage
// holds for all.
//
// Examples, in text form, on a stage of six devices:
//   "x=2,y=3"     all six as 2 x 3, whatever axes the stage has
//   "a=3@1"       devices 1, 2, 3
//   "a=2:3@2"     devices 2 and 5: a stride of 3
//
// Not a stage: it shares devices with other sub-meshes, and its ops stand in the stage's order.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {

struct SubMesh {
  Mesh mesh;                 // its axes
  std::vector<int> strides;  // devices from one coordinate to the next, for each axis
  int first = 0;             // the device of coordinate 0
  auto operator<=>(const SubMesh&) const = default;
};

// The axes as neighbours from device `first` on, the last axis fastest.
SubMesh DenseSubMesh(Mesh mesh, int first = 0);

// Strides are at least 1, no two coordinates are one device, and all are among the `devices` of a
// stage; no axis is named "pipe". `where` begins the error.
absl::Status CheckSubMesh(const SubMesh& sub, int devices, std::string_view where);

// Require what CheckSubMesh checks.
int DeviceAt(const SubMesh& sub, const Coordinate& c);
std::optional<Coordinate> CoordinateIn(const SubMesh& sub, int device);  // nothing: it is outside

// Where the device at `c` of the whole mesh stands in its stage; devices of a stage.
int PlaceInStage(const Mesh& mesh, const Coordinate& c);
int DevicesOfStage(const Mesh& mesh);

std::string ToString(const SubMesh& sub);  // strides that are those of neighbours are left out

}  // namespace oneflow
