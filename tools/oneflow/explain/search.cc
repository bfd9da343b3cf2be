// oneflow search: the best plan for a model, a cluster and a memory.
#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_format.h"
#include "planning/recipe/make_plan.h"
#include "planning/recipe/price_queues.h"
#include "planning/search/candidate.h"
#include "planning/search/plan_words.h"
#include "planning/search/result_text.h"
#include "planning/search/search.h"
#include "planning/search/side_by_side.h"
#include "planning/search/simplest.h"
#include "planning/search/why_not.h"
#include "planning/simulate/simulate_on.h"
#include "tools/oneflow/cli/device_range.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/interrupt.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/shell_word.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/explain/emit_plan.h"
#include "tools/oneflow/explain/emit_schedule.h"
#include "tools/oneflow/explain/keep_freed_memory.h"
#include "tools/oneflow/explain/plan_origin.h"
#include "tools/oneflow/explain/recipe_file.h"
#include "tools/oneflow/explain/search_largest.h"
#include "tools/oneflow/explain/search_pareto.h"

namespace oneflow {
namespace {

constexpr int64_t kMostPlans = 1000;

// The flags that compile takes, too, as they were given, and the kind of devices. Without --memory
// with --pareto and --graph and --batch with --largest, where they differ; and without --recipe,
// where the graph is given: what it says is among the flags.
std::string GivenFlags(const Arguments& args, proto::DeviceKind kind) {
  std::vector<std::string> words;
  for (const auto& [name, value] : args.flags) {
    const bool own =
        name == "out" || name == "format" || name == "threads" || name == "imbalance" ||
        name == "emit" || name == "emit_out" || name == "emit_schedule" || name == "steps" ||
        name == "seed" || (name == "memory" && FLAGS_pareto) ||
        ((name == "graph" || name == "batch" || name == "sequence" || name == "approximate") &&
         FLAGS_largest) ||
        (name == "recipe" && !FLAGS_graph.empty()) || FindRow(CandidateRows(), name) != nullptr;
    if (own || FindFlag(verbs::kCompile, name) == nullptr) continue;
    words.push_back(ShellWord(absl::StrCat("--", name, "=", value)));
  }
  if (kind == proto::CUDA && !args.Given("device")) words.emplace_back("--device=cuda");
  return absl::StrJoin(words, " ");
}

absl::StatusOr<SearchSpec> SpecFromFlags(const Arguments& args, int64_t devices) {
  SearchSpec spec;
  if (FLAGS_cluster.empty()) {
    return InputError("--cluster",
                      "is missing: a search compares times, which need the rates of "
                      "devices and links",
                      "give --cluster=h100, or a file that `oneflow calibrate` writes");
  }
  spec.devices = devices;
  for (const std::string& fix : args.Repeated("fix")) {
    RETURN_IF_ERROR(AddFixes("--fix=", fix, &spec.fixed));
  }
  ASSIGN_OR_RETURN(spec.source, GraphFromFlags(args));
  if (!FLAGS_out_recipe.empty()) RETURN_IF_ERROR(CheckExact(spec.source.graph, "recipe"));
  if (spec.source.graph.has_mesh()) {
    PrintNotice("warning: the mesh of " + spec.source.file + " is not used: search chooses one");
  }
  ASSIGN_OR_RETURN(proto::Recipe recipe, RecipeFromFlags(args));
  for (const Row& row : RecipeRows()) {
    if (row.searched != Searched::kGiven) ClearField(row, &recipe);
  }
  ASSIGN_OR_RETURN(spec.given, RequestFromFlags(args, std::move(recipe)));
  RETURN_IF_ERROR(PriceQueues(args, spec.source.graph, &spec.given));
  const bool gpus = spec.given.cluster.device().kind() == proto::Device::CUDA;
  if (!args.Given("device")) spec.given.recipe.set_device(gpus ? proto::CUDA : proto::CPU);
  RETURN_IF_ERROR(CheckDevices(spec.given.cluster, {{{"data", static_cast<int>(spec.devices)}}}));
  return spec;
}

// --devices: one number, or several with --pareto.
absl::StatusOr<std::vector<int64_t>> DevicesFromFlags() {
  if (FLAGS_devices.empty()) {
    return InputError("--devices", "is missing", "write e.g. --devices=64");
  }
  if (FLAGS_pareto) return ParseDeviceRange(FLAGS_devices);
  if (FLAGS_price_per_device_hour != 0) {
    return InputError("--price_per_device_hour", "acts on nothing without --pareto",
                      "add --pareto, or leave it out");
  }
  ASSIGN_OR_RETURN(const int64_t devices, ParseDevices(FLAGS_devices));
  return std::vector<int64_t>{devices};
}

absl::StatusOr<SearchOptions> ReadSearchOptions(const Arguments& args) {
  if (!(FLAGS_budget_seconds > 0)) {
    return InputError(absl::StrCat("--budget_seconds=", FLAGS_budget_seconds),
                      "leaves no time to search", "use e.g. 60");
  }
  if (FLAGS_top > kMostPlans) {
    return InputError(absl::StrCat("--top=", FLAGS_top), "is more plans than are kept",
                      absl::StrCat("use at most ", kMostPlans));
  }
  SearchOptions options{.budget_seconds = FLAGS_budget_seconds, .top = static_cast<int>(FLAGS_top)};
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  options.threads = CountThreads(run);
  return options;
}

// A recipe has no words for these, so with them it names the cluster that the plan keeps.
bool ChangesCluster(const Arguments& args) {
  return args.Given("memory") || args.Given("reserve") || args.Given("system");
}

// The recipe of a plan, for --out_recipe.
absl::Status WriteRecipe(const Arguments& args, const proto::Plan& plan) {
  ASSIGN_OR_RETURN(const proto::Model model, ModelFromFlags(args));
  const std::string cluster = ChangesCluster(args) ? FLAGS_out : FLAGS_cluster;
  const std::string text =
      RecipeFileText("Made by oneflow search.", MakeRecipeFile(plan, model, cluster));
  return Annotate(WriteFile(FLAGS_out_recipe, text), "--out_recipe");
}

// The parts that a flag names, each with what is fixed for all.
absl::StatusOr<std::vector<NamedPart>> PartsFromFlag(const Arguments& args, const std::string& flag,
                                                     const Fixes& fixed) {
  std::vector<NamedPart> parts;
  for (const std::string& text : args.Repeated(flag)) {
    parts.push_back({text, fixed});
    RETURN_IF_ERROR(AddFixes("--" + flag + "=", text, &parts.back().fixes));
  }
  return parts;
}

// The plan that is shown first, which was priced where experts drop nothing.
struct FirstPlan {
  absl::StatusOr<proto::Plan> to_write;  // with room for any routing; or why there is none
  proto::Plan priced;                    // for --emit
  std::string text;                      // what it needs then, and up to which imbalance it fits
};

absl::StatusOr<FirstPlan> FindFirst(const SearchSpec& spec, size_t first,
                                    const SearchResult& result, nlohmann::ordered_json* json) {
  PlanRequest request = CandidateRequest(spec.given, result.found[first].candidate);
  FirstPlan shown{.to_write = result.best};
  const bool writes = !FLAGS_out.empty() || !FLAGS_out_recipe.empty() || !FLAGS_emit.empty() ||
                      !FLAGS_emit_schedule.empty();
  if (first != 0 && (writes || spec.given.imbalance > 0)) {
    ASSIGN_OR_RETURN(Planned planned, MakePlan(spec.source, request));
    shown.to_write = std::move(planned.plan);
  }
  if (!FLAGS_emit.empty()) shown.priced = *shown.to_write;
  if (FindImbalance(*shown.to_write) == 0) return shown;
  const proto::Plan price = *std::move(shown.to_write);
  shown.text = absl::StrCat("plan 1 needs ", ShortBytesText(MostDeviceBytes(price)),
                            " at an imbalance of experts of ", request.imbalance);
  PlanRequest any = request;
  any.imbalance = 0;
  const double begin = CpuSeconds();
  absl::StatusOr<Planned> worst = MakePlan(spec.source, any);
  if (!absl::IsResourceExhausted(worst.status())) {
    RETURN_IF_ERROR(worst.status());
    const int64_t bytes = MostDeviceBytes(worst->plan);
    (*json)["worst_bytes_a_device"] = bytes;
    absl::StrAppend(&shown.text, ", ", ShortBytesText(bytes), " at the worst\n");
    shown.to_write = std::move(worst->plan);
  } else {
    ASSIGN_OR_RETURN(const MostImbalance most, FindMostImbalance(spec.source, request, price,
                                                                 {.a_plan = CpuSeconds() - begin}));
    (*json)["fits_up_to"] = most.value;
    absl::StrAppend(&shown.text, ", and too much at the worst: it fits up to ", most.Text(), "\n");
    shown.to_write = absl::ResourceExhaustedError(absl::StrCat(
        "plan 1 fits up to ", most.Text(),
        " of experts, and a plan that is written has room for any: search with less --memory, or "
        "for a model with ",
        SlotsFlags(most.value, price)));
  }
  return shown;
}

absl::Status WriteFirst(const Arguments& args, const absl::StatusOr<proto::Plan>& plan) {
  if (FLAGS_out.empty() && FLAGS_out_recipe.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(plan.status());
  if (!FLAGS_out.empty()) RETURN_IF_ERROR(WritePlan(*plan, FLAGS_out));
  return FLAGS_out_recipe.empty() ? absl::OkStatus() : WriteRecipe(args, *plan);
}

absl::StatusOr<Report> EmitFirst(const absl::StatusOr<proto::Plan>& plan) {
  if (FLAGS_emit_schedule.empty()) return Report{};
  RETURN_IF_ERROR(plan.status());
  return EmitSchedule(*plan);
}

absl::Status CompareParts(const Arguments& args, const SearchSpec& spec,
                          const SearchOptions& options, const ResultFrame& frame) {
  for (const char* name :
       {"largest", "why_not", "pareto", "out", "out_recipe", "emit", "emit_schedule", "top"}) {
    if (!args.Given(name)) continue;
    return InputError(absl::StrCat("--", name),
                      "acts on nothing with --compare, which shows one plan of each part",
                      "leave one of the two out");
  }
  ASSIGN_OR_RETURN(const std::vector<NamedPart> parts, PartsFromFlag(args, "compare", spec.fixed));
  KeepFreedMemory();
  const std::vector<Side> sides = SearchSides(spec, parts, options);
  const Report report = DescribeSides(frame, sides);
  const bool any = std::any_of(sides.begin(), sides.end(), [](const Side& side) {
    return side.result.ok() && !side.result->found.empty();
  });
  if (!any) return absl::ResourceExhaustedError("--compare: no part has a plan\n" + report.text);
  return Print(report.text, report.json, 1);
}

absl::Status SearchBest(const Arguments& args, const SearchSpec& spec, const SearchOptions& options,
                        const ResultFrame& frame) {
  if (!FLAGS_out_recipe.empty() && ChangesCluster(args) && FLAGS_out.empty()) {
    return InputError("--out_recipe",
                      "cannot say --memory, --reserve and --system but by the plan that was made "
                      "for them",
                      "add --out=best.plan, or a file of --cluster with these numbers");
  }
  ASSIGN_OR_RETURN(const std::vector<NamedPart> parts, PartsFromFlag(args, "why_not", spec.fixed));
  KeepFreedMemory();
  SearchOptions first = options, rest = options;
  if (!parts.empty()) first.budget_seconds *= 1 - kWhyNotShare;
  ASSIGN_OR_RETURN(SearchResult result, Search(spec, first));
  std::string why_not;
  if (!parts.empty()) {
    rest.budget_seconds = std::max(0.0, options.budget_seconds - result.seconds);
    why_not = ExplainWhyNot(SearchSides(spec, parts, rest)[0], frame.capacity, &result);
  }
  if (result.found.empty()) return NothingFound(frame, result);
  Report report = DescribeResult(frame, result);
  ASSIGN_OR_RETURN(
      const FirstPlan shown,
      FindFirst(spec, FindSimplest(result.found, frame.capacity), result, &report.json));
  absl::Status written = WriteFirst(args, shown.to_write);
  const std::string file = FLAGS_out.empty() || !written.ok() ? "" : "plan 1: " + FLAGS_out + "\n";
  if (!why_not.empty()) report.json["why_not"] = why_not;
  const absl::StatusOr<Report> schedule = EmitFirst(shown.to_write);
  written.Update(schedule.status());
  const bool has_schedule = schedule.ok() && !FLAGS_emit_schedule.empty();
  if (has_schedule) report.json["emit_schedule"] = schedule->json;
  ASSIGN_OR_RETURN(const EmitReport emitted,
                   EmitPlan(args, shown.priced, spec.given.imbalance, spec.given.cluster));
  if (!FLAGS_emit.empty()) report.json["emit"] = emitted.report.json;
  const std::string text =
      report.text + shown.text + why_not + file + (has_schedule ? "plan 1: " + schedule->text : "");
  RETURN_IF_ERROR(FLAGS_format == "json" ? Print("", report.json, 1)
                                         : PrintBesideFiles(text, emitted));
  return written;
}

absl::Status SearchPlans(const Arguments& args) {
  RETURN_IF_ERROR(CheckEmitFlags(args));
  if (FLAGS_format == "html" && !FLAGS_pareto) {
    return InputError("--format=html", "is a page of --pareto alone",
                      "use text, json, or add --pareto");
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> devices, DevicesFromFlags());
  ASSIGN_OR_RETURN(const SearchSpec spec, SpecFromFlags(args, devices.back()));
  ASSIGN_OR_RETURN(SearchOptions options, ReadSearchOptions(args));
  ProgressLine line;
  options.observe = [&](const SearchProgress& progress) { line.Print(ProgressText(progress)); };
  std::atomic<bool> is_interrupted = false;
  const Interrupt interrupt([&] { is_interrupted = true; });
  options.stop = [&] { return is_interrupted.load(); };
  const ResultFrame frame{.model = spec.source.graph.name(),
                          .cluster = spec.given.cluster.name(),
                          .devices = spec.devices,
                          .capacity = UsableBytes(spec.given.cluster.device()),
                          .kept = KeptBytes(spec.given.cluster.device()),
                          .given_flags = GivenFlags(args, spec.given.recipe.device()),
                          .space = DescribeSpace(spec),
                          .imbalance = spec.given.imbalance};
  if (args.Given("compare")) return CompareParts(args, spec, options, frame);
  if (FLAGS_largest) return SearchLargest(args, spec, options, frame);
  if (FLAGS_pareto) return SearchFront(spec, devices, options, frame);
  return SearchBest(args, spec, options, frame);
}

}  // namespace

Verb SearchVerb() {
  return {verbs::kSearch, "find the best plan for a model, a cluster and a memory",
          "oneflow search --graph=gpt.textproto --devices=8 --batch=8 --cluster=h100 "
          "--precision=bf16 --fix=context=1,tensor=1,pipe=2 --out=best.plan\n"
          "oneflow search --graph=gpt.textproto --devices=2 --batch=4 --cluster=a100 --memory=60GB "
          "--fix=tensor=1,context=1 --why_not=pipe=2\n"
          "oneflow search --graph=gpt.textproto --devices=2 --batch=4 --cluster=h100 "
          "--compare=data=2,shard=weights --compare=pipe=2,recompute=full\n"
          "oneflow search --graph=gpt.textproto --devices=2 --batch=4 --cluster=h100 --memory=1GB "
          "--reserve=0 --largest --budget_seconds=5\n"
          "oneflow search --graph=gpt.textproto --devices=2..8 --batch=8 --cluster=h100 --pareto "
          "--price_per_device_hour=2 --fix=tensor=1,context=1,micro_batches=1\n",
          SearchPlans};
}

}  // namespace oneflow
