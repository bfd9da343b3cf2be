#include "planning/search/fixes.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

// Whether it is a value of that choice.
absl::Status CheckText(std::string_view name, std::string_view value) {
  proto::Recipe recipe;
  return SetField(*FindRow(RecipeRows(), name), value, &recipe, "--fix=");
}

bool IsAxis(const std::string& name) {
  return std::find(std::begin(kSearchedAxes), std::end(kSearchedAxes), name) !=
         std::end(kSearchedAxes);
}

// A part "NAME=VALUE" of a text, and how it is written in errors.
struct Written {
  std::string where, name, value;
};

absl::StatusOr<int64_t> ParseNumber(const Written& fix, int64_t least) {
  int64_t number = 0;
  if (absl::SimpleAtoi(fix.value, &number) && number >= least && number <= int64_t{1} << 31) {
    return number;
  }
  return InputError(fix.where, absl::StrCat("\"", fix.value, "\" is no number that it may have"),
                    absl::StrCat("use ", least, " or more"));
}

absl::StatusOr<bool> ParseBool(const Written& fix) {
  if (fix.value == "true") return true;
  if (fix.value == "false") return false;
  return InputError(fix.where, "is neither true nor false", "write true or false");
}

absl::StatusOr<std::vector<int>> ParseLayers(const Written& fix) {
  std::vector<int> layers;
  for (const absl::string_view part : absl::StrSplit(fix.value, ',')) {
    if (absl::SimpleAtoi(part, &layers.emplace_back()) && layers.back() >= 0) continue;
    return InputError(fix.where, absl::StrCat("\"", part, "\" is no number of layers"),
                      "write e.g. stage_layers=2,3,3,2");
  }
  return layers;
}

absl::Status CheckRecompute(const Written& fix) {
  const absl::Status known = CheckText("recompute", fix.value);
  if (known.ok()) return known;
  return Annotate(known, fix.where);
}

template <typename T>
absl::Status SetOnce(const Written& fix, T value, std::optional<T>* to) {
  if (*to && **to != value) {
    return InputError(fix.where, "contradicts an earlier --fix of the same name", "give it once");
  }
  *to = std::move(value);
  return absl::OkStatus();
}

absl::Status AddDegree(const Written& fix, Fixes* fixes) {
  ASSIGN_OR_RETURN(const int64_t degree, ParseNumber(fix, 1));
  const auto [at, is_new] = fixes->degrees.emplace(fix.name, static_cast<int>(degree));
  if (is_new || at->second == degree) return absl::OkStatus();
  return InputError(fix.where,
                    absl::StrCat("contradicts an earlier --fix=", fix.name, "=", at->second),
                    "give it once");
}

absl::Status AddNumber(const Written& fix, std::optional<int64_t>* to, int64_t least) {
  ASSIGN_OR_RETURN(const int64_t number, ParseNumber(fix, least));
  return SetOnce(fix, number, to);
}

absl::Status AddText(const Written& fix, const absl::Status& valid,
                     std::optional<std::string>* to) {
  RETURN_IF_ERROR(valid);
  return SetOnce(fix, fix.value, to);
}

absl::Status UnknownFix(const Written& fix) {
  if (fix.name == "mesh") {
    return InputError(fix.where, "the mesh is fixed axis by axis",
                      "write --fix=pipe=2,data=4,tensor=1");
  }
  const std::string nearest = Nearest(fix.name, FixNames());
  return InputError(fix.where, "\"" + fix.name + "\" is nothing that the search chooses",
                    absl::StrCat(nearest.empty() ? "" : "did you mean " + nearest + "? ",
                                 "it chooses ", absl::StrJoin(FixNames(), ", ")));
}

absl::Status AddFix(const Written& fix, Fixes* fixes) {
  if (fix.value.empty()) {
    return InputError(fix.where, "has no value", "write --fix=NAME=VALUE, as --fix=tensor=8");
  }
  if (IsAxis(fix.name)) return AddDegree(fix, fixes);
  if (fix.name == "micro_batches") return AddNumber(fix, &fixes->micro_batches, 1);
  if (fix.name == "micro_batch_size") return AddNumber(fix, &fixes->micro_batch_size, 1);
  if (fix.name == "extra_in_flight") return AddNumber(fix, &fixes->extra_in_flight, 0);
  if (fix.name == "chunks") {
    ASSIGN_OR_RETURN(const int64_t chunks, ParseNumber(fix, 1));
    return SetOnce(fix, static_cast<int>(chunks), &fixes->chunks);
  }
  if (fix.name == "sequence_parallel") {
    ASSIGN_OR_RETURN(const bool split, ParseBool(fix));
    return SetOnce(fix, split, &fixes->sequence_parallel);
  }
  if (fix.name == "stage_layers") {
    ASSIGN_OR_RETURN(const std::vector<int> layers, ParseLayers(fix));
    return SetOnce(fix, layers, &fixes->stage_layers);
  }
  if (fix.name == "schedule") {
    return AddText(fix, Annotate(FindSchedule(fix.value).status(), fix.where), &fixes->schedule);
  }
  if (fix.name == "shard") {
    return AddText(fix, CheckText("shard", fix.value), &fixes->shard);
  }
  if (fix.name == "offload") {
    return AddText(fix, CheckText("offload", fix.value), &fixes->offload);
  }
  if (fix.name == "recompute") return AddText(fix, CheckRecompute(fix), &fixes->recompute);
  return UnknownFix(fix);
}

}  // namespace

std::vector<std::string> FixNames() {
  std::vector<std::string> names(std::begin(kSearchedAxes), std::end(kSearchedAxes));
  names.insert(names.end(),
               {"micro_batches", "micro_batch_size", "schedule", "chunks", "extra_in_flight",
                "sequence_parallel", "shard", "recompute", "offload", "stage_layers"});
  return names;
}

absl::Status AddFixes(const std::string& flag, const std::string& text, Fixes* fixes) {
  std::vector<Written> parts;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == absl::string_view::npos && !parts.empty()) {
      absl::StrAppend(&parts.back().value, ",", part);
      continue;
    }
    parts.push_back({"", std::string(part.substr(0, equals)), ""});
    if (equals != absl::string_view::npos)
      parts.back().value = std::string(part.substr(equals + 1));
  }
  for (Written& part : parts) {
    part.where = absl::StrCat(flag, part.name, part.value.empty() ? "" : "=", part.value);
    RETURN_IF_ERROR(AddFix(part, fixes));
  }
  return absl::OkStatus();
}

std::vector<std::string> ListFixes(const Fixes& fixes) {
  std::vector<std::string> list;
  const auto add = [&](const char* name, const auto& value) {
    if (value) list.push_back(absl::StrCat(name, "=", *value));
  };
  for (const std::string_view axis : kSearchedAxes) {
    const auto at = fixes.degrees.find(std::string(axis));
    if (at != fixes.degrees.end()) list.push_back(absl::StrCat(at->first, "=", at->second));
  }
  add("micro_batches", fixes.micro_batches);
  add("micro_batch_size", fixes.micro_batch_size);
  add("schedule", fixes.schedule);
  add("chunks", fixes.chunks);
  add("extra_in_flight", fixes.extra_in_flight);
  if (fixes.sequence_parallel) {
    list.push_back(absl::StrCat("sequence_parallel=", *fixes.sequence_parallel ? "true" : "false"));
  }
  add("shard", fixes.shard);
  add("recompute", fixes.recompute);
  add("offload", fixes.offload);
  if (fixes.stage_layers) {
    list.push_back("stage_layers=" + absl::StrJoin(*fixes.stage_layers, ","));
  }
  return list;
}

std::string ToString(const Fixes& fixes) { return absl::StrJoin(ListFixes(fixes), ","); }

Fixes WithoutFix(Fixes fixes, const std::string& name) {
  fixes.degrees.erase(name);
  if (name == "micro_batches") fixes.micro_batches.reset();
  if (name == "micro_batch_size") fixes.micro_batch_size.reset();
  if (name == "schedule") fixes.schedule.reset();
  if (name == "chunks") fixes.chunks.reset();
  if (name == "extra_in_flight") fixes.extra_in_flight.reset();
  if (name == "sequence_parallel") fixes.sequence_parallel.reset();
  if (name == "shard") fixes.shard.reset();
  if (name == "recompute") fixes.recompute.reset();
  if (name == "offload") fixes.offload.reset();
  if (name == "stage_layers") fixes.stage_layers.reset();
  return fixes;
}

}  // namespace oneflow
