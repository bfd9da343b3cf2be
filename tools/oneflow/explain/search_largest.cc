#include "tools/oneflow/explain/search_largest.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "planning/search/largest.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/shell_word.h"

namespace oneflow {
namespace {

std::string GivenText(const Arguments& args, const std::string& name) {
  const std::vector<std::string> values = args.Repeated(name);
  return values.empty() ? "" : ShellWord(absl::StrCat("--", name, "=", values[0]));
}

}  // namespace

absl::Status SearchLargest(const Arguments& args, const SearchSpec& spec,
                           const SearchOptions& options, const ResultFrame& frame) {
  for (const char* name :
       {"why_not", "pareto", "out", "out_recipe", "emit", "emit_schedule", "top"}) {
    if (!args.Given(name)) continue;
    return InputError(absl::StrCat("--", name), "acts on nothing with --largest",
                      "leave one of the two out");
  }
  if (frame.capacity == 0) {
    return InputError("--memory", "is missing: without it everything fits",
                      "give the capacity of a device, as --memory=80GB");
  }
  RETURN_IF_ERROR(CheckBlocks(spec.source));
  const proto::Model model =
      FLAGS_graph.empty() ? args.file.model() : FindPresetModel(spec.source.graph);
  const std::vector<Growth> growths = ListGrowths(
      spec, model, {GivenText(args, "graph"), GivenText(args, "batch"), frame.given_flags});
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::vector<Largest> found;
  auto left = std::ranges::count_if(growths, [](const Growth& g) { return g.unknown.empty(); });
  for (const Growth& growth : growths) {
    found.emplace_back();
    if (!growth.unknown.empty()) continue;
    SearchOptions one = options;
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    one.budget_seconds =
        std::max(0.0, options.budget_seconds - spent) / static_cast<double>(left--);
    ASSIGN_OR_RETURN(found.back(), FindLargest(growth, one));
  }
  const Report report = DescribeLargest(frame, growths, found);
  return Print(report.text, report.json, 1);
}

}  // namespace oneflow
