#include "compiler/schedule/schedule.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

const std::vector<Schedule>& Table() {
  static const auto& table =
      *new std::vector<Schedule>{{"1f1b", OneFOneBOrder}, {"gpipe", GPipeOrder}};
  return table;
}

}  // namespace

absl::StatusOr<Schedule> FindSchedule(std::string_view name) {
  if (name.empty()) return Table()[0];
  std::string known;
  for (const Schedule& schedule : Table()) {
    if (schedule.name == name) return schedule;
    absl::StrAppend(&known, known.empty() ? "" : ", ", schedule.name);
  }
  return InputError("schedule", absl::StrCat("\"", ToAbsl(name), "\" is not known"),
                    "use one of: " + known);
}

std::string ToString(const StageOrder& order) {
  std::string text;
  for (const PartRun& run : order) {
    std::string parts;
    for (Part part : run.parts) {
      absl::StrAppend(&parts, parts.empty() ? "" : " ", part == Part::kForward ? "F" : "B");
    }
    if (run.parts.size() > 1) parts = absl::StrCat("(", parts, ")");
    absl::StrAppend(&text, text.empty() ? "" : " ", parts, "×", run.repeat);
  }
  return text;
}

}  // namespace oneflow
