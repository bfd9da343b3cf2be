#include "oneflow_core/model/family.h"

#include "absl/strings/match.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

absl::Status UnknownPreset(std::string_view name, const std::vector<std::string>& presets) {
  std::string nearest = Nearest(name, presets), all;
  for (const std::string& preset : presets) {
    // "gpt3" is short for gpt3-175b.
    if (nearest.empty() && absl::StartsWithIgnoreCase(preset, ToAbsl(name))) nearest = preset;
    all += (all.empty() ? "" : ", ") + preset;
  }
  return InputError("--preset=" + std::string(name), "no such preset",
                    nearest.empty() ? "use one of " + all : "did you mean " + nearest + "?");
}

}  // namespace oneflow
