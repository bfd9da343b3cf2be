// Common parts of the tests of checkpoints: a plan of three variables, several layouts of them, and
// values that identify elements.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/kernel/run_context.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/plan.pb.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow {

struct TestVariable {
  std::string name;
  Dims dims;
};
inline const std::vector<TestVariable> kVariables = {{"w", {5, 7, 3}}, {"b", {11}}, {"s", {}}};

// Model "tiny", f32.
proto::Plan TestPlan(const std::vector<TestVariable>& variables = kVariables);

// Element i of variable v is 1000 v + i.
std::vector<float> Values(int v, const Slice& slice);

// A mesh of several devices and the layout of each variable on it.
struct Placement {
  Mesh mesh;
  std::vector<std::vector<Layout::Split>> splits;  // for each of kVariables
};
Placement PlacementNumber(int n);  // 0 to 4

// WriteRank writes the pieces of a rank, except those that a lower rank holds, too. LoadRank loads
// all of them.
absl::Status WriteRank(CheckpointWriter& writer, const Placement& placement, int rank);
absl::Status LoadRank(const CheckpointReader& reader, const Placement& placement, int rank);

// The plan of a placement: its mesh, and a register for each of kVariables.
proto::Plan PlacedPlan(const Placement& placement);

// Writes as `processes` processes, each with an equal share of the placement's ranks, one after the
// other, the last one first. Returns their parts.
constexpr uint64_t kSeed = 5;
absl::StatusOr<std::vector<std::string>> WriteParts(const std::string& dir, int64_t step,
                                                    const Placement& placement, int processes,
                                                    const WriterOptions& options = {});
// A file, and one in a folder.
std::shared_ptr<const ModelFiles> TestModelFiles();
// Saves by that many processes, as a separate attempt; returns the folder.
absl::StatusOr<std::string> TrySave(const std::string& dir, int64_t step,
                                    const Placement& placement, int processes,
                                    const WriterOptions& options = {},
                                    std::shared_ptr<const ModelFiles> files = nullptr);
std::string Save(const std::string& dir, int64_t step, const Placement& placement,
                 int processes = 1);
// REQUIREs that every rank loads the saved values.
void CheckLoads(const CheckpointReader& reader, const Placement& placement);

std::string Message(const absl::Status& status);
std::string ReadFile(const std::string& path);

}  // namespace oneflow
