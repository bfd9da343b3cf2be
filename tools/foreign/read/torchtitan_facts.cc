#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/torchtitan_facts.h"
#include "tools/foreign/read/torchtitan_parts.h"

namespace oneflow::foreign {
namespace {

// "parallelism.pipeline_parallel_degree = 4" for a misspelt key.
std::string MendUnknown(const Setting& setting) {
  constexpr std::string_view kBegin = "did you mean ";
  if (!setting.note.starts_with(kBegin)) return absl::StrCat("leave out ", setting.name);
  std::string near = setting.note.substr(kBegin.size());
  if (near.ends_with('?')) near.pop_back();
  const std::string value = setting.ValueText();
  if (value.empty()) return near;
  return absl::StrCat(near, near.starts_with('-') ? " " : " = ", value);
}

}  // namespace

void TitanFacts::ReadOptimizer() {
  OptimizerFacts& optimizer = facts_.optimizer;
  optimizer.name = absl::AsciiStrToLower(Text("optimizer.name", "AdamW"));
  optimizer.learning_rate = Number("optimizer.lr").value_or(8e-4);
  optimizer.beta1 = Number("optimizer.beta1").value_or(0.9);
  optimizer.beta2 = Number("optimizer.beta2").value_or(0.95);
  optimizer.epsilon = Number("optimizer.eps").value_or(1e-8);
  optimizer.weight_decay = Number("optimizer.weight_decay").value_or(0.1);
  // The JSON of later 2026 has groups of parameters; that of all others is the last.
  if (titan_.root != nullptr && titan_.root->contains("optimizer") &&
      (*titan_.root)["optimizer"].contains("param_groups")) {
    const nlohmann::ordered_json& groups = (*titan_.root)["optimizer"]["param_groups"];
    if (groups.is_array() && !groups.empty() && groups.back().contains("optimizer_kwargs")) {
      const nlohmann::ordered_json& numbers = groups.back()["optimizer_kwargs"];
      const auto number = [&](const char* key, std::optional<double>* value) {
        if (numbers.contains(key) && numbers[key].is_number()) *value = numbers[key].get<double>();
      };
      number("lr", &optimizer.learning_rate);
      number("eps", &optimizer.epsilon);
      number("weight_decay", &optimizer.weight_decay);
      if (numbers.contains("betas") && numbers["betas"].is_array() &&
          numbers["betas"].size() == 2 && numbers["betas"][0].is_number() &&
          numbers["betas"][1].is_number()) {
        optimizer.beta1 = numbers["betas"][0].get<double>();
        optimizer.beta2 = numbers["betas"][1].get<double>();
      }
      for (const Setting& setting : std::vector<Setting>(given_.all())) {
        if (groups.size() == 1 && setting.key.starts_with("optimizer.param_groups[")) {
          given_.Put(setting.key, List::kTaken);
        }
      }
    }
  }
  // inf clips nothing.
  const nlohmann::json* norm = given_.Value("training.max_norm");
  const bool is_infinite =
      norm != nullptr && ((norm->is_number_float() && std::isinf(norm->get<double>())) ||
                          (norm->is_string() && norm->get<std::string>() == "inf"));
  optimizer.clip = is_infinite ? 0 : Number("training.max_norm").value_or(1.0);
  optimizer.steps = Int("training.steps").value_or(10000);
  const int64_t total = Int("lr_scheduler.total_steps").value_or(*optimizer.steps);
  optimizer.warmup_steps = std::min(Int("lr_scheduler.warmup_steps").value_or(200), total);
  optimizer.schedule = Text("lr_scheduler.decay_type", "linear");
  const std::optional<double> ratio = Number("lr_scheduler.decay_ratio");
  const double least = Number("lr_scheduler.min_lr_factor").value_or(0);
  optimizer.min_learning_rate = *optimizer.learning_rate * least;
  if (optimizer.schedule != "linear" && optimizer.schedule != "cosine") {
    given_.Put("lr_scheduler.decay_type", List::kNoEquivalent,
               "a decay by the square root of its progress: numbers, no bytes");
  }
  if (!ratio) {
    optimizer.decay_steps = total;
  } else {
    const int64_t decay = std::llround(static_cast<double>(total) * *ratio);
    if (decay == 0) {
      optimizer.schedule = "constant";
    } else if (decay >= total - *optimizer.warmup_steps) {
      optimizer.decay_steps = total;
      given_.Put("lr_scheduler.decay_ratio", List::kTaken);
    } else {
      given_.Put("lr_scheduler.decay_ratio", List::kNoEquivalent,
                 absl::StrCat("stable until step ", total - decay,
                              ", then decay over the last part: numbers, no bytes"));
    }
  }
  if (optimizer.name != "adamw") {
    given_.Put("optimizer.name", List::kNoEquivalent,
               optimizer.name == "adam" ? "decay is added to the gradient: numbers, no bytes"
                                        : "another optimizer: bytes of its states, and numbers");
  }
  const bool is_offloaded = Bool("training.enable_cpu_offload", false);
  facts_.offload.states = facts_.offload.weights = facts_.offload.update = is_offloaded;
}

absl::Status TitanFacts::ReadModel() {
  const std::string name = Text("model.name", "llama3");
  const std::string flavor = Text("model.flavor", "debugmodel");
  const bool is_image_model = name.starts_with("flux");
  const bool has_flavor = given_.Has("model.flavor") || titan_.named.Has("model.flavor");
  // A file or a configuration that is not here may be of any model.
  const bool is_open = titan_.is_named_unknown || titan_.lacks_file;
  if (!input_.model.empty()) return ReadModelOfFlag(input_, &facts_);
  if (is_open && !has_flavor && !is_image_model) return absl::OkStatus();
  const bool scales_rope =
      std::none_of(given_.all().begin(), given_.all().end(),
                   [](const Setting& s) { return IsTitanNameBeforeScaling(s.name); });
  TitanModel found = FindTitanModel(name, flavor, scales_rope);
  if (!found.shape) {
    if (is_image_model) {
      return InputError(given_.Where(given_.Has("model.name") ? "model.name" : "module"),
                        absl::StrCat(name, " ", found.what_is_wrong), found.hint);
    }
    facts_.questions.push_back(
        {absl::StrCat("which model ", name, " ", flavor, " is: it ", found.what_is_wrong,
                      found.hint.empty() ? "" : absl::StrCat(" (", found.hint, "?)")),
         "--model=NAME"});
    return absl::OkStatus();
  }
  if (facts_.sequence) found.shape->sequence = *facts_.sequence;
  ASSIGN_OR_RETURN(facts_.model, MakeModelFacts(*found.shape));
  facts_.model.from = titan_.model_from;
  facts_.model.vocab_given = found.shape->vocab;
  if (found.shape->experts == 0) facts_.degrees.expert_tensor = 1;
  return absl::OkStatus();
}

void TitanFacts::SortSettings() {
  for (const Setting& setting : titan_.launcher) given_.Add(setting);
  given_.Sort(TitanLists());
  // torchtitan stops at a key that it does not know, but where the user's own code adds some.
  bool has_own_keys = false;
  for (const char* key : {"job.custom_config_module", "experimental.custom_args_module"}) {
    const Setting* setting = given_.Find(key);
    has_own_keys |= setting != nullptr && !setting->ValueText().empty();
  }
  for (const Setting& setting : given_.all()) {
    if (setting.list != List::kUnknown || has_own_keys) continue;
    const std::vector<std::string> path = absl::StrSplit(setting.key, '.');
    const bool is_flag = setting.name.starts_with("-");
    facts_.broken.push_back({.rule = is_flag ? "no unknown flag" : "no unknown key",
                             .numbers = setting.name,
                             .theirs = is_flag
                                           ? absl::StrCat("Unrecognized options: ", setting.name)
                                           : absl::StrCat("Invalid field names in ", path.front(),
                                                          " data: {'", path.back(), "'}."),
                             .hint = MendUnknown(setting),
                             .where = setting.where});
  }
  facts_.settings = given_.all();
}

absl::StatusOr<Facts> TitanFacts::Make() {
  facts_.form = titan_.form;
  given_.Keep(titan_.named.status());
  ReadDegrees();
  ReadBatch();
  RETURN_IF_ERROR(given_.status());
  RETURN_IF_ERROR(ReadModel());
  ReadSchedule();
  ReadSharding();
  ReadRecompute();
  ReadPrecision();
  ReadOptimizer();
  CheckPositions();
  RETURN_IF_ERROR(given_.status());
  SortSettings();
  return facts_;
}

absl::StatusOr<Facts> MakeTitanFacts(const ForeignInput& input, TitanSources* titan) {
  return TitanFacts(input, titan).Make();
}

}  // namespace oneflow::foreign
