#include "planning/search/largest.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/adapters.h"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "planning/search/plan_words.h"

namespace oneflow {
namespace {

constexpr int64_t kParts = 16;               // of a size, to which it is told apart
constexpr double kProbeShare = .2;           // of the time of a growth, for one size at most
constexpr int64_t kMostSteps = 4096;         // of a model
constexpr int64_t kMostSequences = 1 << 16;  // of a device
constexpr const char* kNoNumbers =
    "the numbers of the model are not known: make the graph of a preset (`oneflow model FAMILY "
    "--preset=NAME`), or give the model in a recipe (--recipe, without --graph)";

constexpr const char* kNoTime = "not tried, since the time was over";
constexpr const char* kNoTimeForMore = "no larger one was tried, since the time was over";
constexpr const char* kNoneTried = "no larger one was tried";

// The file of a graph that is yet to be written.
constexpr const char* kGraphFile = "largest.textproto";

// Sets a number by its row.
void SetNumber(std::span<const Row> rows, std::string_view name, int64_t number,
               google::protobuf::Message* message) {
  CHECK(SetField(*FindRow(rows, name), absl::StrCat(number), message).ok());
}

std::string JoinFlags(std::vector<std::string> flags) {
  std::erase(flags, "");
  return absl::StrJoin(flags, " ");
}

// What the graph of the search has beside its model, the larger ones have, too.
absl::StatusOr<SearchSpec> WithModel(const SearchSpec& spec, const proto::Model& model) {
  SearchSpec grown = spec;
  ASSIGN_OR_RETURN(proto::Graph graph, AdaptLike(spec.source.graph, BuildModel(model)));
  grown.source = {std::move(graph), "", {}};
  FillBlocks(&grown.source.graph);
  return grown;
}

std::string ParametersText(const proto::Model& model) {
  const double count = static_cast<double>(CountParameters(BuildModel(model)));
  const bool billions = count >= 1e9;
  return absl::StrFormat("%.3g %s parameters", count / (billions ? 1e9 : 1e6),
                         billions ? "B" : "M");
}

// A growth of models: `change` makes the model of a step.
Growth GrowModels(const SearchSpec& spec, const GivenTexts& given, std::string what,
                  std::function<proto::Model(int64_t)> change) {
  const auto complete = [change](int64_t step) { return CompleteModel(change(step)); };
  Growth growth{.what = std::move(what), .most = kMostSteps};
  growth.make = [&spec, complete](int64_t step) -> absl::StatusOr<SearchSpec> {
    ASSIGN_OR_RETURN(const proto::Model model, complete(step));
    return WithModel(spec, model);
  };
  growth.name = [complete](int64_t step) { return ParametersText(*complete(step)); };
  growth.flags = [given](int64_t) {
    return JoinFlags({absl::StrCat("--graph=", kGraphFile), given.batch, given.others});
  };
  growth.write = [change, &spec](int64_t step) {
    proto::Model said = change(step);
    const proto::Graph& graph = spec.source.graph;
    if (graph.has_lora()) *said.mutable_lora() = graph.lora();
    if (!graph.train_only().empty()) said.set_train_only(graph.train_only());
    const std::string family = said.family();
    said.clear_family();
    return absl::StrCat("oneflow model ", family, " ", FlagsText(ModelRows(), said),
                        " --out=", kGraphFile);
  };
  return growth;
}

// A family's presets by parameters, with the sequence of the model.
std::vector<proto::Model> ListPresets(const std::string& of_family, int64_t sequence) {
  std::vector<std::pair<int64_t, proto::Model>> presets;
  for (const Family& family : Families()) {
    if (family.name != of_family) continue;
    for (const Preset& preset : family.presets) {
      proto::Model said;
      said.set_family(of_family);
      said.set_preset(preset.name);
      SetNumber(ModelRows(), "sequence", sequence, &said);
      const absl::StatusOr<proto::Model> complete = CompleteModel(said);
      if (complete.ok()) presets.emplace_back(CountParameters(BuildModel(*complete)), said);
    }
  }
  std::ranges::stable_sort(presets, {}, [](const auto& preset) { return preset.first; });
  std::vector<proto::Model> models;
  for (auto& [parameters, said] : presets) models.push_back(std::move(said));
  return models;
}

constexpr const char* kFlag = "--largest: ";
constexpr const char* kOneMicroBatch = "micro_batches=1";

Growth GrowBatch(const SearchSpec& spec, const GivenTexts& given) {
  const int64_t devices = spec.devices;
  Growth growth{.what = "batch of one micro-batch", .most = kMostSequences};
  growth.make = [&spec, devices](int64_t step) -> absl::StatusOr<SearchSpec> {
    SearchSpec grown = spec;
    SetNumber(RecipeRows(), "batch", step * devices, &grown.given.recipe);
    RETURN_IF_ERROR(AddFixes(kFlag, kOneMicroBatch, &grown.fixed));
    return grown;
  };
  Fixes fixed = spec.fixed;
  if (!AddFixes(kFlag, kOneMicroBatch, &fixed).ok()) {
    growth.unknown =
        absl::StrCat("it is sought with one micro-batch, and ", spec.fixed.recipe.micro_batches(),
                     " are fixed: leave micro_batches out of --fix");
  }
  growth.name = [devices](int64_t step) {
    return absl::StrCat(DigitsText(step * devices), " sequences, ", DigitsText(step), " a device");
  };
  growth.flags = [given, devices](int64_t step) {
    proto::Recipe said;
    SetNumber(RecipeRows(), "batch", step * devices, &said);
    return JoinFlags({given.graph, FlagsText(RecipeRows(), said), given.others});
  };
  return growth;
}

// Why a size has no plan, behind its name.
std::string WhyNot(const absl::StatusOr<SearchResult>& result) {
  if (!result.ok()) return absl::StrCat(": ", result.status().message());
  const SearchCounts& counts = result->counts;
  if (counts.groups > 0 && counts.cannot_fit == counts.groups) {
    return " does not fit, as a bound of bytes says";
  }
  return counts.open > 0 ? ": no plan was found within the time" : ": no plan was found";
}

FoundPlan PlanOfEstimate(const EstimatedPlan& estimated, double imbalance) {
  const bool priced = FindDegree(FindMesh(estimated.candidate), "expert") > 1;
  return {.candidate = estimated.candidate,
          .step_seconds = estimated.step_seconds,
          .bytes = static_cast<int64_t>(estimated.bytes),
          .imbalance = priced ? imbalance : 0};
}

}  // namespace

absl::StatusOr<Largest> FindLargest(const Growth& growth, const SearchOptions& options,
                                    const SearchFunction& search) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto left = [&] {
    if (options.stop && options.stop()) return 0.0;
    return options.budget_seconds - std::chrono::duration<double>(Clock::now() - start).count();
  };
  Largest largest, compiled;
  // True if a plan of the size fits.
  const auto probe = [&](int64_t step, double seconds) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const SearchSpec spec, growth.make(step));
    SearchOptions one = options;
    one.budget_seconds = seconds;
    one.top = 1;
    one.first_fit = true;
    const absl::StatusOr<SearchResult> result = search(spec, one);
    const bool found = result.ok() && !result->found.empty();
    if (!found && !(result.ok() && result->estimated)) {
      largest.next = step;
      largest.why = WhyNot(result);
      return false;
    }
    largest.step = step;
    largest.compiled = found;
    largest.plan =
        found ? result->found[0] : PlanOfEstimate(*result->estimated, spec.given.imbalance);
    if (found) compiled = largest;
    if (!found) largest.bytes_error = result->estimated->bytes_error;
    return true;
  };
  const double share = kProbeShare * options.budget_seconds;
  const auto is_last = [&](int64_t step) { return growth.most > 0 && step >= growth.most; };
  for (int64_t step = 1;; step = is_last(2 * step) ? growth.most : 2 * step) {
    const double seconds = left();
    largest.why = largest.step == 0 ? kNoTime : kNoTimeForMore;
    if (seconds <= 0) break;
    ASSIGN_OR_RETURN(const bool fits, probe(step, std::min(share, seconds)));
    if (fits && is_last(step)) largest.why = kNoneTried;
    if (!fits || is_last(step)) break;
  }
  while (largest.next - largest.step > std::max<int64_t>(1, largest.step / kParts)) {
    const double seconds = left();
    if (seconds <= 0) break;
    const int64_t middle = (largest.step + largest.next) / 2;
    RETURN_IF_ERROR(probe(middle, std::min(share, seconds)).status());
  }
  if (const double seconds = left(); !largest.compiled && seconds > 0) {
    ASSIGN_OR_RETURN(const bool fits, probe(largest.step, seconds));
    if (!fits) {  // short plans said too little
      largest.step = compiled.step;
      largest.compiled = true;
      largest.plan = compiled.plan;
    }
  }
  return largest;
}

proto::Model FindPresetModel(const proto::Graph& adapted) {
  const proto::Graph graph = RemoveAdapters(adapted);
  for (const Family& family : Families()) {
    for (const Preset& preset : family.presets) {
      if (preset.name != graph.name()) continue;
      proto::Model said;
      said.set_family(std::string(family.name));
      said.set_preset(preset.name);
      SetNumber(ModelRows(), "sequence", FindSequence(graph), &said);
      const absl::StatusOr<proto::Model> model = CompleteModel(said);
      if (!model.ok()) continue;
      const proto::Graph made = BuildModel(*model);
      if (made.op_size() == graph.op_size() && CountParameters(made) == CountParameters(graph)) {
        return said;
      }
    }
  }
  return {};
}

std::vector<Growth> ListGrowths(const SearchSpec& spec, const proto::Model& model,
                                const GivenTexts& given) {
  std::vector<Growth> growths;
  const absl::StatusOr<proto::Model> numbers = CompleteModel(model);
  const bool known = model.has_family() && numbers.ok();
  if (!known) {
    for (const char* what : {"preset", "layers", "sequence"}) {
      growths.push_back({.what = what, .unknown = kNoNumbers});
    }
  } else {
    const int64_t unit = FindSequence(BuildModel(*numbers));
    const auto presets =
        std::make_shared<std::vector<proto::Model>>(ListPresets(model.family(), unit));
    growths.push_back(GrowModels(spec, given, "preset", [presets](int64_t step) {
      return (*presets)[static_cast<size_t>(step - 1)];
    }));
    growths.back().most = static_cast<int64_t>(presets->size());
    growths.back().name = [presets, size = growths.back().name](int64_t step) {
      return absl::StrCat((*presets)[static_cast<size_t>(step - 1)].preset(), ", ", size(step));
    };
    growths.push_back(GrowModels(spec, given, "layers", [model](int64_t step) {
      proto::Model grown = model;
      SetNumber(ModelRows(), "layers", step, &grown);
      return grown;
    }));
    growths.back().name = [size = growths.back().name](int64_t step) {
      return absl::StrCat(step, " layers, ", size(step));
    };
    growths.push_back(GrowModels(spec, given, "sequence", [model, unit](int64_t step) {
      proto::Model grown = model;
      SetNumber(ModelRows(), "sequence", step * unit, &grown);
      return grown;
    }));
    const double most = FindRow(ModelRows(), "sequence")->most / static_cast<double>(unit);
    growths.back().most = std::min(kMostSteps, static_cast<int64_t>(most));
    growths.back().name = [unit](int64_t step) {
      return absl::StrCat("sequences of ", DigitsText(step * unit));
    };
  }
  growths.push_back(GrowBatch(spec, given));
  return growths;
}

Report DescribeLargest(const ResultFrame& asked, const std::vector<Growth>& growths,
                       const std::vector<Largest>& found) {
  using Json = nlohmann::ordered_json;
  std::vector<PlanRow> rows;
  Json list = Json::array();
  for (size_t i = 0; i < growths.size(); ++i) {
    const Growth& growth = growths[i];
    const Largest& largest = found[i];
    Json member = {{"what", growth.what}, {"flags", nullptr}};
    const std::string limit =
        absl::StrCat(largest.next > 0 ? growth.name(largest.next) : "", largest.why);
    if (!growth.unknown.empty() || largest.step == 0) {
      const std::string& why = growth.unknown.empty() ? limit : growth.unknown;
      rows.push_back({{growth.what}, nullptr, {why}});
      member["none"] = why;
    } else {
      const FoundPlan& plan = largest.plan;
      const std::string flags = absl::StrCat(growth.flags(largest.step), " ", PlanFlags(plan));
      PlanRow row{{growth.what}, &plan, {growth.name(largest.step), limit}};
      if (largest.compiled) {
        member.update(FoundPlanJson(plan, "A", flags));
      } else {
        row.plan = nullptr;
        row.first.push_back(absl::StrCat("estimated, not compiled: ", TimeText(plan.step_seconds),
                                         ", ", EstimatedBytesText(plan.bytes, largest.bytes_error),
                                         plan.imbalance > 0 ? ", experts priced" : ""));
        member.update(Json{
            {"step_seconds", plan.step_seconds}, {"bytes_a_device", plan.bytes}, {"flags", flags}});
      }
      member["compiled"] = largest.compiled;
      member["size"] = growth.name(largest.step);
      if (growth.write) {
        row.below.push_back(growth.write(largest.step));
        member["model"] = growth.write(largest.step);
      }
      member["limit"] = limit;
      row.below.push_back("oneflow compile " + flags);
      rows.push_back(std::move(row));
    }
    list.push_back(std::move(member));
  }
  const ResultFrame frame = MakeFrame(asked, rows);
  std::string text =
      absl::StrCat(FrameText(frame), "\n", frame.space, "\n", PlanTable({"largest"}, rows),
                   "\neach is the first plan that fits, not the fastest; sizes are told "
                   "apart to a sixteenth where the time is enough\n",
                   BandLines(rows), MfuLines(rows), PriceLines(rows));
  return {std::move(text), FrameJson(frame, {{"largest", std::move(list)}})};
}

}  // namespace oneflow
