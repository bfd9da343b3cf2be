#include "tools/oneflow/explain/emit_plan.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/search/plan_words.h"
#include "tools/foreign/emit/nearest_plan.h"
#include "tools/oneflow/cli/check_outputs.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/shell_word.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;
using foreign::EmittedFile;
using foreign::NearestPlan;

absl::Status WriteEmitted(const Arguments& args, const std::vector<EmittedFile>& files) {
  for (const EmittedFile& file : files) {
    const fs::path path = fs::path(FLAGS_emit_out) / file.name;
    RETURN_IF_ERROR(CheckNotRead(args, "--emit_out", path.string()));
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return InputError("--emit_out=" + FLAGS_emit_out, "cannot be made: " + error.message(),
                        "give the path of a folder");
    }
    RETURN_IF_ERROR(Annotate(WriteFile(path.string(), file.text), "--emit_out"));
    if (!file.executable) continue;
    constexpr fs::perms kRun =
        fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
    fs::permissions(path, kRun, fs::perm_options::add, error);
  }
  return absl::OkStatus();
}

// "+1.2 %".
std::string GrowthText(double before, double after) {
  const double change = after / before - 1;
  return absl::StrCat(change < 0 ? "-" : "+", PercentText(std::abs(change)));
}

std::string CostText(const NearestPlan& nearest) {
  std::string text;
  if (nearest.seconds > 0 && nearest.seconds_before > 0) {
    const double more = nearest.seconds - nearest.seconds_before;
    absl::StrAppend(&text, "step ", TimeText(nearest.seconds), ", ", more < 0 ? "-" : "+",
                    TimeText(std::abs(more)), " (",
                    GrowthText(nearest.seconds_before, nearest.seconds), ")");
  }
  const int64_t bytes = nearest.bytes - nearest.bytes_before;
  absl::StrAppend(&text, text.empty() ? "" : "; ", ShortBytesText(nearest.bytes), " a device, ",
                  bytes < 0 ? "-" : "+", ShortBytesText(std::abs(bytes)));
  return text;
}

// The flags with which `oneflow compile` makes the rounded plan.
std::string FlagsOfJob(const foreign::Job& job) {
  std::vector<std::string> words;
  const auto add = [&](std::span<const Row> rows, const google::protobuf::Message& message) {
    for (const Row& row : rows) {
      if (!row.is_flag || !HasField(row, message) || (row.form != nullptr && row.form->is_file)) {
        continue;
      }
      words.push_back(
          ShellWord(absl::StrCat("--", ToAbsl(row.name), "=", FieldText(row, message))));
    }
  };
  add(RecipeRows(), job.recipe);
  add(OptimizerRows(), job.optimizer);
  return absl::StrJoin(words, " ");
}

std::string RowText(const std::string& text) { return text.empty() ? "auto" : text; }

Report DescribeNearest(foreign::System system, const NearestPlan& nearest) {
  const std::string name(foreign::SystemName(system));
  const auto& rounded = nearest.rounded;
  Report report;
  auto& [text, json] = report;
  if (rounded.roundings.empty()) {
    text = absl::StrCat("for ", name, ": the plan as it is\n");
  } else {
    text = absl::StrCat("for ", name, ", rounded to what it can: ", CostText(nearest), "\n");
  }
  json = {
      {"system", std::string(foreign::SystemWord(system))}, {"step_seconds", nearest.seconds},
      {"step_seconds_before", nearest.seconds_before},      {"bytes_a_device", nearest.bytes},
      {"bytes_a_device_before", nearest.bytes_before},      {"flags", FlagsOfJob(rounded.job)},
      {"roundings", nlohmann::ordered_json::array()},       {"differences", rounded.differences}};
  for (const foreign::Rounding& r : rounded.roundings) {
    absl::StrAppend(&text, "  ", r.row, " ", RowText(r.to), " instead of ", RowText(r.from), ": ",
                    r.why, "\n");
    json["roundings"].push_back(
        {{"choice", r.row}, {"from", r.from}, {"to", r.to}, {"why", r.why}});
  }
  for (const std::string& line : rounded.differences) {
    absl::StrAppend(&text, "  otherwise than here: ", line, "\n");
  }
  return report;
}

}  // namespace

absl::Status PrintBesideFiles(const std::string& text, const EmitReport& emitted) {
  const std::string all = text + emitted.report.text;
  if (emitted.files.empty()) return Print(all);
  std::fputs(all.c_str(), stderr);
  return Print(emitted.files);
}

absl::Status CheckEmitFlags(const Arguments& args) {
  if (!FLAGS_emit.empty()) return absl::OkStatus();
  for (const std::string name : {"emit_out", "steps", "seed"}) {
    // A file says all of a run, and of it what the verb does not do is passed over.
    if (!args.Given(name) || args.of_recipe.contains(name)) continue;
    return InputError(absl::StrCat("--", name, "=", args.Repeated(name)[0]),
                      "acts on nothing without --emit", "add --emit=megatron, or leave it out");
  }
  return absl::OkStatus();
}

absl::StatusOr<EmitReport> EmitPlan(const Arguments& args, const proto::Plan& plan,
                                    double imbalance,
                                    const absl::StatusOr<proto::Cluster>& cluster) {
  EmitReport emitted;
  if (FLAGS_emit.empty()) return emitted;
  ASSIGN_OR_RETURN(const foreign::System system, foreign::FindSystem(FLAGS_emit));
  RETURN_IF_ERROR(cluster.status());
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  ASSIGN_OR_RETURN(const foreign::Job job, foreign::JobFromPlan(plan, run, *cluster));
  ASSIGN_OR_RETURN(const NearestPlan nearest,
                   foreign::FindNearestPlan(system, job, {plan, *cluster, imbalance}));
  const std::vector<EmittedFile> files = foreign::WriteFor(system, nearest.rounded.job);
  emitted.report = DescribeNearest(system, nearest);
  auto& [text, json] = emitted.report;
  json["files"] = nlohmann::ordered_json::array();
  for (const EmittedFile& file : files) {
    json["files"].push_back({{"name", file.name}, {"text", file.text}});
    if (FLAGS_emit_out.empty()) {
      if (files.size() > 1) absl::StrAppend(&emitted.files, "# ==> ", file.name, "\n");
      emitted.files += file.text;
    } else {
      absl::StrAppend(&text, "  ", (fs::path(FLAGS_emit_out) / file.name).string(), "\n");
    }
  }
  if (!FLAGS_emit_out.empty()) RETURN_IF_ERROR(WriteEmitted(args, files));
  return emitted;
}

}  // namespace oneflow
