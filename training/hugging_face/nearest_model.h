// The model that can be built and is nearest to a foreign one, with every difference of the two.
//
//   ASSIGN_OR_RETURN(const NearestModel nearest, FindNearestModel(architecture, "config.json"));
//   nearest.differences   // empty: the model is the same
//
// Its plan answers what a planner is asked about the foreign model; it must not be trained in its
// place. A graph made of it states the differences (Graph::approximates), and is refused by
// whatever runs graphs (CheckExact in oneflow_core/graph/graph_proto.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"
#include "proto/recipe.pb.h"
#include "training/hugging_face/architecture.h"

namespace oneflow {

struct NearestModel {
  proto::Model model;  // complete
  std::vector<ModelDifference> differences;
  ArchitectureSize theirs;
  ArchitectureSize of_model;  // the sums of the differences are theirs minus these
};

// `where` begins errors: numbers that no model has, as no layers.
absl::StatusOr<NearestModel> FindNearestModel(const Architecture& architecture,
                                              const std::string& where);

// A line for each difference, as "parallel branches; nearest: one after the other: 5,120
// parameters fewer, 20.0 KiB in f32; FLOPs a token the same".
std::vector<std::string> DifferenceLines(std::span<const ModelDifference> differences);

// The graph of the nearest model. With differences its name is "NAME (approximate)".
proto::Graph BuildNearestGraph(const NearestModel& nearest, const std::string& name);

}  // namespace oneflow
