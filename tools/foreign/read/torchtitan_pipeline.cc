// How torchtitan splits a model over a pipe.
#include <algorithm>

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

std::vector<int64_t> SplitTitanLayers(int64_t slices, int64_t layers, int64_t first, int64_t last,
                                      std::string* why) {
  if (slices == 1) return {layers};
  const int64_t effective = layers + first + last;
  if (slices > effective) {
    *why = absl::StrCat("Number of stages (", slices, ") cannot be greater than effective layers (",
                        effective, ")");
    return {};
  }
  const int64_t even = effective / slices;
  for (const auto& [name, weight] : {std::pair("input_weight", first), {"output_weight", last}}) {
    if (weight > even) {
      *why = absl::StrCat(name, " (", weight, ") exceeds minimum layers per stage (", even, ").");
      return {};
    }
  }
  std::vector<int64_t> blocks(slices, even);
  for (int64_t slice = 0; slice < effective % slices; ++slice) ++blocks[slice];
  blocks.front() -= first;
  blocks.back() -= last;
  return blocks;
}

std::vector<int64_t> SplitOldTitanLayers(int64_t slices, int64_t layers) {
  if (slices < 1 || slices > layers) return {};
  std::vector<int64_t> blocks(slices, layers / slices);
  int64_t extra = layers % slices;
  for (int64_t slice = 1; slice + 1 < slices && extra > 0; ++slice, --extra) ++blocks[slice];
  blocks.back() += extra;
  return blocks;
}

std::vector<int64_t> CountTitanModules(const std::vector<std::vector<std::string>>& parts) {
  std::vector<int64_t> blocks;
  for (const std::vector<std::string>& part : parts) {
    int64_t count = 0;
    for (const std::string& name : part) count += name.starts_with("layers.");
    blocks.push_back(count);
  }
  return blocks;
}

// {"tok_embeddings,layers.0", ...} of a command, [["tok_embeddings", "layers.0"], ...] of a file.
std::vector<std::vector<std::string>> TitanFacts::ModulesOfParts() {
  const std::string key = "parallelism.module_fqns_per_model_part";
  std::vector<std::vector<std::string>> parts;
  const nlohmann::json* value = given_.Value(key);
  nlohmann::json of_file;
  if (value == nullptr && titan_.root != nullptr && titan_.root->contains("parallelism")) {
    const nlohmann::ordered_json& section = (*titan_.root)["parallelism"];
    if (!section.contains("module_fqns_per_model_part")) return {};
    of_file = section["module_fqns_per_model_part"];
    if (of_file.is_null()) return {};
    value = &of_file;
  }
  if (value == nullptr) return {};
  const auto split = [](const nlohmann::json& words) {
    std::vector<std::string> names;
    if (words.is_string()) {
      names = absl::StrSplit(words.get<std::string>(), absl::ByAnyChar(", "), absl::SkipEmpty());
    } else if (words.is_array()) {
      for (const nlohmann::json& word : words) {
        if (word.is_string()) names.push_back(word.get<std::string>());
      }
    }
    return names;
  };
  if (!value->is_array()) return {split(*value)};
  for (const nlohmann::json& part : *value) parts.push_back(split(part));
  return parts;
}

void TitanFacts::ReadSchedule() {
  schedule_ = Text("parallelism.pipeline_parallel_schedule", "1F1B");
  if (schedule_.empty()) schedule_ = "1F1B";
  struct Known {
    std::string_view name, here;
    bool is_single = false, is_v = false;
  };
  constexpr Known kSchedules[] = {
      {"1F1B", "1f1b", true},
      {"GPipe", "gpipe", true},
      {"Interleaved1F1B", "interleaved"},
      {"LoopedBFS", "LoopedBFS"},
      {"InterleavedZeroBubble", "zero_bubble"},
      {"ZBVZeroBubble", "ZBVZeroBubble", false, true},
      {"DualPipeV", "DualPipeV", false, true},
      {"PipelineScheduleSingle", "1f1b", true},
      {"PipelineScheduleMulti", "PipelineScheduleMulti"},
      {"FlexibleInterleaved1F1B", "interleaved"},
  };
  const auto known = std::find_if(
      std::begin(kSchedules), std::end(kSchedules),
      [&](const Known& k) { return absl::EqualsIgnoreCase(ToAbsl(k.name), schedule_); });
  const bool has_pipe = facts_.degrees.pipe > 1;
  if (known == std::end(kSchedules)) {
    if (!has_pipe) return;
    Break("a schedule is one of PyTorch's", schedule_,
          absl::StrCat("Unknown schedule ", schedule_,
                       ". The valid options are 1F1B, "
                       "Interleaved1F1B, GPipe, LoopedBFS, InterleavedZeroBubble, ..."),
          "--parallelism.pipeline_parallel_schedule 1F1B",
          "parallelism.pipeline_parallel_schedule");
    return;
  }
  if (has_pipe) facts_.schedule.name = std::string(known->here);
  if (has_pipe && (known->is_v || known->here == "LoopedBFS")) {
    given_.Put("parallelism.pipeline_parallel_schedule", List::kNoEquivalent,
               known->is_v
                   ? "the second slice of a stage runs back through the pipe: its first "
                     "stage has also the last slice; time and bytes by stage differ"
                   : "all forwards of a slice come before the next slice's: bytes as gpipe");
  }
  ReadStages(known->is_single, known->is_v);
}

void TitanFacts::ReadStages(bool is_single, bool is_v) {
  const int64_t first = Int("parallelism.pipeline_parallel_first_stage_less_layers").value_or(1);
  const int64_t last = Int("parallelism.pipeline_parallel_last_stage_less_layers").value_or(1);
  const std::optional<int64_t> a_slice = Int("parallelism.pipeline_parallel_layers_per_stage");
  const std::vector<std::vector<std::string>> parts = ModulesOfParts();
  const nlohmann::json* points = given_.Value("parallelism.pipeline_parallel_split_points");
  const int64_t pipe = facts_.degrees.pipe;
  if (pipe == 1 || !facts_.model.model || first < 0 || last < 0) return;
  const int64_t layers = facts_.model.model->layers();
  ScheduleFacts& schedule = facts_.schedule;
  if (!parts.empty()) {
    schedule.stage_layers = CountTitanModules(parts);
  } else if (points != nullptr && !(points->is_structured() && points->empty()) &&
             !(points->is_string() && points->get<std::string>().empty())) {
    int64_t before = 0;
    std::vector<std::string> names;
    if (points->is_array()) {
      for (const nlohmann::json& name : *points) {
        if (name.is_string()) names.push_back(name.get<std::string>());
      }
    } else if (points->is_string()) {
      names = absl::StrSplit(points->get<std::string>(), ',');
    }
    for (const std::string& name : names) {
      int64_t layer = 0;
      if (!name.starts_with("layers.") || !absl::SimpleAtoi(name.substr(7), &layer)) {
        given_.Refuse("parallelism.pipeline_parallel_split_points",
                      absl::StrCat(name, " is no block"), "layers.N");
        return;
      }
      schedule.stage_layers.push_back(layer - before);
      before = layer;
    }
    schedule.stage_layers.push_back(layers - before);
  } else {
    int64_t slices = pipe * (is_single ? 1 : 2);
    if (a_slice && *a_slice > 0) {
      const int64_t counted = HasOldPipe() ? layers : layers + first + last;
      slices = (counted + *a_slice - 1) / *a_slice;
    }
    if (slices % pipe != 0) {
      Break("slices must be a multiple of the pipe",
            absl::StrCat(slices, " is not a multiple of ", pipe, ": ", layers, " + ", first, " + ",
                         last, " layers in slices of ", *a_slice),
            absl::StrCat("Number of virtual stages (", slices,
                         ") must be divisible by pipeline parallel size (", pipe, ")."),
            absl::StrCat("--parallelism.pipeline_parallel_layers_per_stage ",
                         (layers + first + last + pipe - 1) / pipe / (is_single ? 1 : 2)),
            "parallelism.pipeline_parallel_layers_per_stage");
      return;
    }
    std::string why;
    schedule.stage_layers = HasOldPipe() ? SplitOldTitanLayers(slices, layers)
                                         : SplitTitanLayers(slices, layers, first, last, &why);
    if (schedule.stage_layers.empty()) {
      if (why.empty()) why = "Total stages cannot be greater than the number of layers";
      Break("each slice must have a layer", why, why,
            "a smaller --parallelism.pipeline_parallel_degree, or first and last stages with 0 "
            "less layers",
            "parallelism.pipeline_parallel_degree");
      return;
    }
  }
  const int64_t slices = schedule.stage_layers.size();
  schedule.chunks = std::max<int64_t>(1, slices / pipe);
  int64_t total = 0;
  for (const int64_t blocks : schedule.stage_layers) total += blocks;
  const std::string list = absl::StrJoin(schedule.stage_layers, " + ");
  if (slices % pipe != 0 || total != layers) {
    Break(slices % pipe != 0 ? "slices must be a multiple of the pipe"
                             : "parts must have each block of the model once",
          slices % pipe != 0 ? absl::StrCat(slices, " is not a multiple of ", pipe)
                             : absl::StrCat(list, " = ", total, ", not ", layers),
          slices % pipe != 0
              ? absl::StrCat("num_stages ", slices, " must be evenly divisible by pp_degree ", pipe)
              : "",
          "lists of modules for each slice", "parallelism.module_fqns_per_model_part");
    return;
  }
  // Parts by their modules are not counted there, and PyTorch runs a schedule of several slices
  // with one, unless it goes through the stages in the form of a V.
  const bool may_have_one = !parts.empty() && !is_v;
  if (is_single ? schedule.chunks != 1 : schedule.chunks < 2 && !may_have_one) {
    Break(is_single ? "1F1B and GPipe have one slice a stage"
                    : "an interleaved schedule has two slices a stage or more",
          absl::StrCat(schedule.chunks, " slices a stage with ", schedule_),
          absl::StrCat(is_single ? "Single stage schedule requires exactly 1 stage per rank, but "
                                   "got "
                                 : "Multi-stage schedule requires at least 2 stages per rank, but "
                                   "got ",
                       schedule.chunks, " stages per rank."),
          is_single ? "--parallelism.pipeline_parallel_schedule Interleaved1F1B"
                    : "--parallelism.pipeline_parallel_schedule 1F1B",
          "parallelism.pipeline_parallel_schedule");
  }
}

}  // namespace oneflow::foreign
