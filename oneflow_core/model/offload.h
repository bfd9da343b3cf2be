// The data that rests in the host's memory instead of the device's, between its uses.
//
//   activations   forward tensors that the backward reads: out after they are written, back before
//                 their first reader of the backward
//   states        the moments of the optimizer, and the f32 master if products read a cast of it
//                 that is made once a step; they stream through the device in the update
//   weights       the weights that the model reads: copied in for each use, ahead of it
//
// With update_on_host the host's processors update: gradients are copied out, and states stay in
// the host's memory. The weights that devices read are copied in once a step.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// Parses "none", or "activations[:SHARE|:all]", "states", "weights", several joined by commas.
// Errors name `flag`.
absl::StatusOr<proto::Offload> ParseOffload(const std::string& flag, std::string_view text);
// Prints the words of ParseOffload.
std::string ToString(const proto::Offload& offload);

}  // namespace oneflow
