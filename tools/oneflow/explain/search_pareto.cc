#include "tools/oneflow/explain/search_pareto.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/plan/plan_format.h"
#include "planning/recipe/make_plan.h"
#include "planning/recipe/price_queues.h"
#include "planning/search/pareto.h"
#include "planning/search/pareto_page.h"
#include "planning/search/pareto_text.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/explain/simulated_page.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// Compiles the point's plan once more, and writes it and its page, `name`.plan and `name`.html. A
// plan that is written has room for any routing of experts: where that does not fit, there is only
// the page of the price.
absl::StatusOr<PointPage> WritePoint(const SearchSpec& spec, const ParetoPoint& point,
                                     const std::string& name) {
  PlanRequest any = CandidateRequest(spec.given, point.plan.candidate), request = any;
  SetUsableBytes(point.capacity, request.cluster.mutable_device());
  ASSIGN_OR_RETURN(Planned planned, MakePlan(spec.source, request));
  PricedPlan priced{.plan = std::move(planned.plan), .imbalance = request.imbalance};
  PointPage page{name + ".html"};
  if (FindImbalance(priced.plan) > 0) {
    priced.price = priced.plan;
    any.imbalance = 0;
    absl::StatusOr<Planned> worst = MakePlan(spec.source, any);
    if (absl::IsResourceExhausted(worst.status())) {
      page.why_no_plan =
          absl::StrCat("it would have room for any routing of experts: ", worst.status().message());
    } else {
      RETURN_IF_ERROR(worst.status());
      priced.plan = std::move(worst->plan);
    }
  }
  const std::string path = FLAGS_out + "/" + name;
  if (page.why_no_plan.empty()) RETURN_IF_ERROR(WritePlan(priced.plan, path + ".plan"));
  ASSIGN_OR_RETURN(const std::string text, SimulatedPage(request.cluster, priced, "train", 2));
  RETURN_IF_ERROR(WriteFile(path + ".html", text));
  return page;
}

// index.html, and plan-1.html and plan-1.plan of the first plan of the front.
absl::Status WritePages(const SearchSpec& spec, const ResultFrame& frame,
                        const ParetoResult& result) {
  std::vector<PointPage> pages(result.points.size());
  int number = 0;
  for (size_t i = 0; i < result.points.size(); ++i) {
    if (!result.points[i].on_front) continue;
    const std::string name = absl::StrCat("plan-", ++number);
    ASSIGN_OR_RETURN(pages[i], WritePoint(spec, result.points[i], name));
    if (pages[i].why_no_plan.empty()) continue;
    RETURN_IF_ERROR(Print(absl::StrCat("no ", name, ".plan: ", pages[i].why_no_plan, "\n")));
  }
  RETURN_IF_ERROR(WriteFile(FLAGS_out + "/index.html", ParetoPage(frame, result, pages)));
  return Print(
      absl::StrCat(number, " plans, their pages and a figure: ", FLAGS_out, "/index.html\n"));
}

// Before the search, so that its result has a folder.
absl::Status MakeFolder() {
  std::error_code error;
  fs::create_directories(FLAGS_out, error);
  if (!error) return absl::OkStatus();
  return InputError("--out=" + FLAGS_out, "cannot be made: " + error.message(),
                    "give the path of a folder");
}

absl::Status CheckFlags(const std::string& format) {
  if (FLAGS_price_per_device_hour < 0 ||
      FLAGS_price_per_device_hour != FLAGS_price_per_device_hour) {
    return InputError(absl::StrCat("--price_per_device_hour=", FLAGS_price_per_device_hour),
                      "is no price", "use 0 or more, e.g. 2.5");
  }
  if (!FLAGS_why_not.empty()) {
    return InputError("--why_not", "compares with one best plan, and --pareto finds several",
                      "leave one of the two out");
  }
  if (!FLAGS_out_recipe.empty()) {
    return InputError("--out_recipe=" + FLAGS_out_recipe,
                      "is of one plan, and --pareto finds several", "leave one of the two out");
  }
  if (!FLAGS_emit_schedule.empty()) {
    return InputError("--emit_schedule=" + FLAGS_emit_schedule,
                      "is of one plan, and --pareto finds several", "leave one of the two out");
  }
  if (!FLAGS_emit.empty()) {
    return InputError("--emit=" + FLAGS_emit, "is of one plan, and --pareto finds several",
                      "leave one of the two out");
  }
  if (format == "html" && FLAGS_out.empty()) {
    return InputError("--out", "is missing", "--format=html writes a folder: --out=front");
  }
  if (format != "html" && !FLAGS_out.empty()) {
    return InputError("--out=" + FLAGS_out, "names one plan, and --pareto finds several",
                      "write --format=html, for a folder with all of them, or leave it out");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SearchFront(const SearchSpec& spec, const std::vector<int64_t>& devices,
                         const SearchOptions& options, const ResultFrame& frame) {
  const std::string& format = FLAGS_format;
  RETURN_IF_ERROR(CheckFlags(format));
  if (format == "html") RETURN_IF_ERROR(MakeFolder());
  ASSIGN_OR_RETURN(
      const ParetoResult result,
      FindPareto(spec,
                 {.search = options, .devices = devices, .price = FLAGS_price_per_device_hour}));
  if (format == "html") return WritePages(spec, frame, result);
  const Report report = DescribeFront(frame, result);
  return Print(report.text, report.json, 1);
}

}  // namespace oneflow
