// Facts about a plan that drivers need.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct ModelFacts {
  int64_t sequence = 0;  // tokens of a sequence
  int64_t vocab = 0;     // size of the logits' last dimension
};
// The facts of a plan whose graph reads tokens; an input error for others.
absl::StatusOr<ModelFacts> FactsOfModel(const proto::Plan& plan);

// Names of the tensors that the `feed` or `fetch` actors of a program exchange, sorted.
std::vector<std::string> HostTensorNames(const proto::Plan& plan, const std::string& program,
                                         const std::string& kernel);

}  // namespace oneflow
