// What rests in the host's memory instead of the device's, between its uses.
//
//   activations   what the backward reads of the forward: out after it is written, back before the
//                 first reader of the backward
//   states        the moments of the optimizer, and the f32 master where products read a cast of it
//                 that is made once a step; they stream through the device in the update
//   weights       what the model reads: copied in for each use, ahead of it
//
// With update_on_host the host's processors update: gradients are copied out, and states stay in
// the host's memory. The weights that devices read are copied in once a step.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace oneflow {

struct Offload {
  struct Activations {
    // Of the bytes kept for the backward, that go out at most; nullopt: as many as hide behind
    // compute.
    std::optional<double> share;
    // Also those whose time between the uses is shorter than the way there and back.
    bool all = false;
    bool operator==(const Activations&) const = default;
  };
  std::optional<Activations> activations;
  bool states = false, weights = false;
  bool update_on_host = false;

  bool empty() const { return !activations && !states && !weights && !update_on_host; }
  bool operator==(const Offload&) const = default;
};

// "none", or "activations[:SHARE|:all]", "states", "weights", several joined by commas. Errors name
// `flag`.
absl::StatusOr<Offload> ParseOffload(const std::string& flag, std::string_view text);
// "device" or "host".
absl::StatusOr<bool> ParseUpdateOn(const std::string& flag, std::string_view text);
// The words of ParseOffload.
std::string ToString(const Offload& offload);

}  // namespace oneflow
