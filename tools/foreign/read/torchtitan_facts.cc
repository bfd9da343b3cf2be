#include "tools/foreign/read/torchtitan_facts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/torchtitan_parts.h"

namespace oneflow::foreign {
namespace {

// Values as torchtitan sees them: what the user gave, else what the named configuration sets.
class TitanFacts {
 public:
  TitanFacts(const ForeignInput& input, TitanSources* titan)
      : input_(input), titan_(*titan), given_(titan->settings), facts_(titan->facts) {}

  absl::StatusOr<Facts> Make();

 private:
  std::optional<int64_t> Int(std::string_view key) {
    const std::optional<int64_t> value = given_.Int(key);
    return value ? value : titan_.named.Int(key);
  }
  std::optional<double> Number(std::string_view key) {
    const std::optional<double> value = given_.Number(key);
    return value ? value : titan_.named.Number(key);
  }
  std::string Text(std::string_view key, std::string_view otherwise) {
    std::optional<std::string> value = given_.Text(key);
    if (!value) value = titan_.named.Text(key);
    return value.value_or(std::string(otherwise));
  }
  bool Bool(std::string_view key, bool otherwise) {
    std::optional<bool> value = given_.Bool(key);
    if (!value) value = titan_.named.Bool(key);
    return value.value_or(otherwise);
  }
  // A degree: at least 1, but `least`.
  int64_t Degree(std::string_view key, int64_t least = 1);
  std::string WhereOf(std::string_view key) const {
    const Setting* setting = given_.Find(key);
    return setting == nullptr ? "" : setting->where;
  }
  void Break(std::string rule, std::string numbers, std::string theirs, std::string mend,
             std::string_view key) {
    facts_.broken.push_back({std::move(rule), std::move(numbers), std::move(theirs),
                             std::move(mend), WhereOf(key)});
  }

  void ReadDegrees();
  void CheckWorld();
  void ReadBatch();
  void ReadTokens(int64_t slots);
  void ReadSchedule();
  void ReadStages(bool is_single);
  std::vector<std::vector<std::string>> ModulesOfParts();
  void ReadSharding();
  void ReadRecompute();
  void ReadPrecision();
  void ReadConverters();
  void ReadOptimizer();
  absl::Status ReadModel();
  void CheckPositions();
  void SortSettings();

  const ForeignInput& input_;
  TitanSources& titan_;
  Settings& given_;
  Facts& facts_;
  int64_t replicate_ = 1, shard_ = -1;
  int64_t local_ = 0;  // sequences of a forward of all of the pipe's micro-batches
  std::string schedule_;
};

int64_t TitanFacts::Degree(std::string_view key, int64_t least) {
  const int64_t degree = Int(key).value_or(least == -1 ? -1 : 1);
  if (degree >= 1 || degree == least) return degree;
  given_.Refuse(key, "is no degree", least == -1 ? "a number of GPUs, or -1 for those that are left"
                                                 : "a number of GPUs from 1");
  return 1;
}

void TitanFacts::ReadDegrees() {
  Degrees& degrees = facts_.degrees;
  replicate_ = Degree("parallelism.data_parallel_replicate_degree");
  shard_ = Degree("parallelism.data_parallel_shard_degree", -1);
  degrees.tensor = Degree("parallelism.tensor_parallel_degree");
  degrees.pipe = Degree("parallelism.pipeline_parallel_degree");
  degrees.context = Degree("parallelism.context_parallel_degree");
  degrees.expert = Degree("parallelism.expert_parallel_degree");
  degrees.expert_tensor = Degree("parallelism.expert_tensor_parallel_degree");
  const bool has_sequence_parallel = Bool("parallelism.enable_sequence_parallel", true);
  facts_.sequence_parallel = degrees.tensor > 1 && has_sequence_parallel;

  const int64_t rest = replicate_ * degrees.tensor * degrees.pipe * degrees.context;
  if (!facts_.devices && shard_ > 0) {
    // torchtitan starts on no other number.
    facts_.devices = rest * shard_;
    facts_.devices_from = "the product of the degrees";
  }
  if (!facts_.devices) {
    facts_.questions.push_back({"how many GPUs", "--devices=NODESxGPUS"});
    return;
  }
  CheckWorld();
}

void TitanFacts::CheckWorld() {
  Degrees& degrees = facts_.degrees;
  const int64_t world = *facts_.devices;
  const int64_t rest = replicate_ * degrees.tensor * degrees.pipe * degrees.context;
  const int64_t shard = shard_ > 0 ? shard_ : world / rest;
  if (shard * rest == world && shard >= 1) {
    shard_ = shard;
    degrees.data = replicate_ * shard;
  } else {
    const std::string product =
        absl::StrCat(replicate_, " x ", shard_ > 0 ? absl::StrCat(shard_, " x ") : "",
                     degrees.context, " x ", degrees.tensor, " x ", degrees.pipe);
    const bool is_rest = shard_ < 0;
    // A pipe or tensor degree that would do beside the others.
    std::string mend = absl::StrCat(rest * std::max<int64_t>(1, is_rest ? (world + rest - 1) / rest
                                                                        : shard_),
                                    " GPUs");
    for (int64_t pipe = degrees.pipe - 1; pipe >= 1; --pipe) {
      const int64_t other = rest / degrees.pipe * pipe * (is_rest ? 1 : shard_);
      if (is_rest ? world % other != 0 : world != other) continue;
      absl::StrAppend(&mend, ", or --parallelism.pipeline_parallel_degree ", pipe);
      break;
    }
    if (!is_rest && world % rest == 0 && world >= rest) {
      absl::StrAppend(&mend, ", or --parallelism.data_parallel_shard_degree ", world / rest);
    }
    Break(is_rest ? "GPUs must be a multiple of replicas x context x tensor x pipe"
                  : "GPUs must be replicas x shards x context x tensor x pipe",
          is_rest ? absl::StrCat(world, " is not a multiple of ", product, " = ", rest)
                  : absl::StrCat(world, " is not ", product, " = ", rest * shard_),
          absl::StrCat("Invalid parallel dims: dp_replicate(", replicate_, ") * dp_shard(", shard,
                       ") * cp(", degrees.context, ") * tp(", degrees.tensor, ") * pp(",
                       degrees.pipe, ") != WORLD_SIZE(", world, ")"),
          mend, "parallelism.tensor_parallel_degree");
    if (!is_rest) degrees.data = std::nullopt;
    return;
  }
  if (degrees.expert > 1) {
    if (degrees.expert_tensor != 1 && degrees.expert_tensor != degrees.tensor) {
      Break("the tensor degree of experts is 1 or that of the others",
            absl::StrCat(degrees.expert_tensor, " is neither 1 nor ", degrees.tensor),
            "Currently we only support ETP=TP or ETP=1",
            "--parallelism.expert_tensor_parallel_degree 1",
            "parallelism.expert_tensor_parallel_degree");
    }
    const int64_t ranks = shard_ * degrees.context * degrees.tensor;
    const int64_t taken = degrees.expert * degrees.expert_tensor;
    if (ranks % taken != 0) {
      Break("shards x context x tensor must be a multiple of expert x tensor within experts",
            absl::StrCat(ranks, " is not a multiple of ", taken),
            absl::StrCat("ep(", degrees.expert, ") does not divide dp_shard * cp * tp (", ranks,
                         ")"),
            absl::StrCat("--parallelism.expert_parallel_degree ",
                         std::gcd(ranks, degrees.expert)),
            "parallelism.expert_parallel_degree");
    }
  } else {
    degrees.expert_tensor = degrees.tensor;
  }
  if (!titan_.is_2026 && shard_ * degrees.context == 1 && replicate_ > 1 && world > replicate_) {
    Break("copies without shards stand beside no other axis",
          absl::StrCat("replicas ", replicate_, ", shards 1, but tensor x pipe is ",
                       degrees.tensor * degrees.pipe),
          "DDP has not supported > 1D parallelism",
          "--parallelism.data_parallel_replicate_degree 1 "
          "--parallelism.data_parallel_shard_degree -1",
          "parallelism.data_parallel_replicate_degree");
  }
}

// Since August 2026 a batch counts slots of tokens.
void TitanFacts::ReadTokens(int64_t slots) {
  const int64_t length = *facts_.sequence;
  const int64_t micro_batches = Int("parallelism.num_pp_microbatches").value_or(1);
  const int64_t parts = facts_.degrees.pipe > 1 ? micro_batches : 1;
  if (slots % length != 0) {
    given_.Refuse("training.num_tokens_per_microbatch_per_dp_rank",
                  absl::StrCat("is no multiple of the context of ", length),
                  absl::StrCat(slots / length * length + length, ", so that sequences are whole"));
    return;
  }
  facts_.batch.micro = slots / length;
  local_ = *facts_.batch.micro * parts;
  const int64_t total = Int("training.num_tokens_per_train_step").value_or(-1);
  if (total > 0) {
    facts_.batch.global = total / length;
  } else if (facts_.degrees.data) {
    facts_.batch.global = local_ * *facts_.degrees.data;
  }
}

void TitanFacts::ReadBatch() {
  const bool has_length = given_.Has("training.max_context_length");
  facts_.sequence =
      has_length ? Int("training.max_context_length") : Int("training.seq_len").value_or(2048);
  if (input_.sequence) facts_.sequence = input_.sequence;
  if (!facts_.sequence || *facts_.sequence < 1) {
    given_.Refuse("training.seq_len", "is no length of a sequence", "a number from 1");
    return;
  }
  if (const std::optional<int64_t> slots =
          Int("training.num_tokens_per_microbatch_per_dp_rank");
      slots) {
    ReadTokens(*slots);
  } else {
    local_ = Int("training.local_batch_size").value_or(8);
    facts_.batch.micro = local_;
    const std::optional<int64_t> size = Int("parallelism.pipeline_parallel_microbatch_size");
    const std::optional<int64_t> count = Int("parallelism.pipeline_parallel_microbatches");
    if (facts_.degrees.pipe > 1) {
      facts_.batch.micro =
          count ? std::max<int64_t>(1, local_ / std::max<int64_t>(1, *count)) : size.value_or(1);
    }
    const int64_t global = Int("training.global_batch_size").value_or(-1);
    if (global > 0) {
      facts_.batch.global = global;
    } else if (facts_.degrees.data) {
      facts_.batch.global = local_ * *facts_.degrees.data;
    }
  }
  if (!facts_.batch.micro || *facts_.batch.micro < 1 || local_ < 1) {
    given_.Refuse("training.local_batch_size", "is no number of sequences", "a number from 1");
    return;
  }
  if (local_ % *facts_.batch.micro != 0) {
    Break("a local batch is a multiple of the pipe's micro-batch",
          absl::StrCat(local_, " is not a multiple of ", *facts_.batch.micro),
          absl::StrCat("Batch size ", local_, " must be divisible by microbatch_size ",
                       *facts_.batch.micro, "."),
          absl::StrCat("--parallelism.pipeline_parallel_microbatch_size ",
                       std::gcd(local_, *facts_.batch.micro)),
          "parallelism.pipeline_parallel_microbatch_size");
    return;
  }
  if (!facts_.batch.global || !facts_.degrees.data) return;
  const int64_t global = *facts_.batch.global, data = *facts_.degrees.data;
  if (global % (local_ * data) != 0) {
    const int64_t steps = std::max<int64_t>(1, global / (local_ * data));
    Break("the global batch must be a multiple of the local batch x data",
          absl::StrCat(global, " is not a multiple of ", local_, " x ", data, " = ",
                       local_ * data),
          absl::StrCat("global batch size must be multiple of local batch size times data-parallel "
                       "degree (",
                       global, " % (", local_, " * ", data, ") != 0)"),
          absl::StrCat("--training.global_batch_size ", steps * local_ * data, " or ",
                       (steps + 1) * local_ * data),
          "training.global_batch_size");
    return;
  }
  facts_.batch.micro_batches = global / (*facts_.batch.micro * data);
  if (facts_.degrees.pipe > 1 && global > local_ * data &&
      given_.Has("training.global_batch_size")) {
    given_.Put("training.global_batch_size", List::kTaken,
               absl::StrCat("the pipe drains ", global / (local_ * data),
                            " times a step: here it does once"));
  }
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
  const auto known = std::find_if(std::begin(kSchedules), std::end(kSchedules), [&](const Known& k) {
    return absl::EqualsIgnoreCase(ToAbsl(k.name), schedule_);
  });
  const bool has_pipe = facts_.degrees.pipe > 1;
  if (known == std::end(kSchedules)) {
    if (!has_pipe) return;
    Break("a schedule is one of PyTorch's", schedule_,
          absl::StrCat("Unknown schedule ", schedule_, ". The valid options are 1F1B, "
                       "Interleaved1F1B, GPipe, LoopedBFS, InterleavedZeroBubble, ..."),
          "--parallelism.pipeline_parallel_schedule 1F1B",
          "parallelism.pipeline_parallel_schedule");
    return;
  }
  if (has_pipe) facts_.schedule.name = std::string(known->here);
  if (has_pipe && (known->is_v || known->here == "LoopedBFS")) {
    given_.Put("parallelism.pipeline_parallel_schedule", List::kNoEquivalent,
               known->is_v ? "the second slice of a stage runs back through the pipe: its first "
                             "stage has also the last slice; time and bytes by stage differ"
                           : "all forwards of a slice come before the next slice's: bytes as gpipe");
  }
  ReadStages(known->is_single);
}

void TitanFacts::ReadStages(bool is_single) {
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
    if (a_slice && *a_slice > 0) slices = (layers + first + last + *a_slice - 1) / *a_slice;
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
    schedule.stage_layers = SplitTitanLayers(slices, layers, first, last, &why);
    if (schedule.stage_layers.empty()) {
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
          slices % pipe != 0 ? absl::StrCat("num_stages ", slices,
                                            " must be evenly divisible by pp_degree ", pipe)
                             : "",
          "lists of modules for each slice", "parallelism.module_fqns_per_model_part");
    return;
  }
  if (is_single ? schedule.chunks != 1 : schedule.chunks < 2) {
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

void TitanFacts::ReadSharding() {
  const std::string policy = Text("parallelism.fsdp_reshard_after_forward", "default");
  const Degrees& degrees = facts_.degrees;
  ShardingFacts& sharding = facts_.sharding;
  if (policy != "default" && policy != "always" && policy != "never") {
    Break("fsdp_reshard_after_forward is default, always or never", policy,
          absl::StrCat("Invalid reshard_after_forward_policy: ", policy, "."),
          "--parallelism.fsdp_reshard_after_forward default",
          "parallelism.fsdp_reshard_after_forward");
  }
  // Each backward reduces its gradients, but those within a run of the pipe.
  const bool has_pipe = degrees.pipe > 1;
  sharding.reduce = has_pipe ? "once a step" : "each micro-batch";
  if (shard_ == 1 && degrees.context == 1) {
    sharding.ways = 1;
    if (replicate_ == 1) sharding.reduce = "once a step";
    return;
  }
  sharding.what = "weights";
  if (shard_ != 1) sharding.over.push_back("data");
  if (degrees.context > 1) sharding.over.push_back("context");
  if (shard_ > 0) sharding.ways = shard_ * degrees.context;
  sharding.replicas = replicate_;
  const bool is_resharded = policy == "always" || (policy == "default" && !has_pipe);
  sharding.gather = is_resharded ? "each use" : has_pipe ? "once a step" : "each micro-batch";
  if (has_pipe) {
    sharding.note =
        "gradients of a stage stay in one piece on each device until its last micro-batch";
  }
}

void TitanFacts::ReadRecompute() {
  RecomputeFacts& recompute = facts_.recompute;
  std::string mode = Text("activation_checkpoint.mode", "selective");
  std::replace(mode.begin(), mode.end(), '-', '_');
  const std::string option =
      Text("activation_checkpoint.selective_ac_option", titan_.is_2026 ? "op" : "2");
  const std::optional<double> budget = Number("activation_checkpoint.memory_budget");
  // What the JSON of later 2026 has of its policy are the keys of its class, or null.
  if (titan_.root != nullptr && titan_.is_2026 && !given_.Has("activation_checkpoint.mode") &&
      titan_.root->contains("activation_checkpoint")) {
    const nlohmann::ordered_json& policy = (*titan_.root)["activation_checkpoint"];
    mode = policy.is_null()                    ? "none"
           : policy.contains("memory_budget")  ? "memory_budget"
           : policy.contains("force_recompute_mm_shapes_by_fqns") ? "selective"
                                                                  : "full";
  }
  if (mode == "none" || mode.empty()) return;
  recompute.blocks = "all";
  int64_t each = 0;
  if (mode == "full" || (mode == "selective" && (option == "0" || option == "1"))) {
    recompute.what = "block";
    recompute.here = "full";
  } else if (mode == "selective" && option == "op") {
    recompute.what = "cheap ops: all but products, of which every second is made again";
    recompute.here = "selective";
  } else if (mode == "selective" && absl::SimpleAtoi(option, &each) && each > 1) {
    // torchtitan counts the blocks of a rank; the last of each run of `each` is wrapped.
    recompute.what = "block";
    recompute.blocks = absl::StrCat("one of ", each);
    recompute.is_exact = false;
    std::vector<int64_t> counts;
    if (facts_.schedule.stage_layers.size() > 1) {
      for (const int64_t blocks : facts_.schedule.stage_layers) counts.push_back(blocks / each);
    } else if (facts_.model.model) {
      counts.push_back(facts_.model.model->layers() / each);
    }
    if (std::equal(counts.begin() + !counts.empty(), counts.end(), counts.begin())) {
      counts.resize(std::min<size_t>(1, counts.size()));
    }
    recompute.here = counts.empty() ? "full" : absl::StrCat("full:", absl::StrJoin(counts, "/"));
  } else if (mode == "memory_budget") {
    const double share = budget.value_or(0.5);
    recompute.what = absl::StrCat("what a solver chooses for ", share,
                                  " of the bytes between full and no recompute");
    recompute.here = share <= 0 ? "full" : share >= 1 ? "none" : "selective";
    recompute.is_exact = share <= 0;
    given_.Put("activation_checkpoint.memory_budget", List::kNoEquivalent,
               "a solver's choice by ops: bytes and time lie between full and none");
  } else {
    Break("recompute is none, full, selective (op or a number) or memory_budget",
          absl::StrCat(mode, mode == "selective" ? absl::StrCat(" ", option) : ""),
          mode == "selective" ? absl::StrCat("Invalid selective AC option: ", option,
                                             ". Valid options: 'op' or a positive int "
                                             "representing layer frequency")
                              : absl::StrCat("Invalid AC mode: ", mode,
                                             ". Valid modes: ('full', 'selective')"),
          "--activation_checkpoint.mode selective --activation_checkpoint.selective_ac_option op",
          "activation_checkpoint.mode");
  }
}

void TitanFacts::ReadPrecision() {
  const auto short_name = [](const std::string& name) -> std::string {
    if (name == "bfloat16") return "bf16";
    if (name == "float32") return "f32";
    if (name == "float16") return "f16";
    return name;
  };
  PrecisionFacts& precision = facts_.precision;
  const std::string param = short_name(Text("training.mixed_precision_param", "bfloat16"));
  const std::string reduce = short_name(Text("training.mixed_precision_reduce", "float32"));
  const std::string type = short_name(Text("training.dtype", "float32"));
  precision.compute = type == "bf16" ? "bf16" : param;
  precision.master = type;
  precision.here = precision.compute == "bf16" ? "bf16" : "f32";
  precision.gradients_in_bf16 = reduce == "bf16" || type == "bf16";
  if (type == "bf16") {
    given_.Put("training.dtype", List::kNoEquivalent,
               "weights, gradients and states are all in bf16: 8 bytes a parameter, not 16");
  }
  // FSDP casts the weights; where nothing is split, only plain data parallelism has autocast.
  const Degrees& degrees = facts_.degrees;
  if (!titan_.is_2026 && shard_ == 1 && degrees.context == 1 &&
      (degrees.tensor > 1 || degrees.pipe > 1) && precision.compute != precision.master) {
    precision.compute = precision.here = precision.master;
    given_.Put("training.mixed_precision_param", List::kTaken,
               "acts only with FSDP or plain data parallelism: this run computes in f32");
  }
  ReadConverters();
}

void TitanFacts::ReadConverters() {
  std::vector<std::string> names;
  const nlohmann::json* value = given_.Value("model.converters");
  if (value == nullptr) value = titan_.named.Value("model.converters");
  if (value != nullptr && value->is_array()) {
    for (const nlohmann::json& name : *value) {
      names.push_back(name.is_string() ? name.get<std::string>() : "unknown");
    }
  } else if (value != nullptr && value->is_string()) {
    names = absl::StrSplit(value->get<std::string>(), ',', absl::SkipEmpty());
  }
  const bool is_on_by_flag = Bool("quantize.linear.float8.enable_float8_linear", false);
  bool has_float8 = is_on_by_flag, has_mx = false, has_other = false;
  for (const std::string& name : names) {
    const std::string lower = absl::AsciiStrToLower(name);
    if (lower.find("float8") != std::string::npos) {
      has_float8 = true;
    } else if (lower.find("mx") != std::string::npos) {
      has_mx = true;
    } else {
      has_other = true;
    }
  }
  if (names.empty()) given_.Put("model.converters", List::kDefault);
  const bool is_fp8 = has_float8 || has_mx;
  if (is_fp8) {
    facts_.precision.compute =
        absl::StrCat(has_mx ? "mxfp8" : "fp8", " in products, bf16 elsewhere");
  }
  if (!names.empty()) {
    given_.Put("model.converters", List::kNoEquivalent,
               is_fp8      ? "products in FP8: less time, bytes as in bf16"
               : has_other ? "layers are replaced by others, which are not known here"
                           : "");
  }
  const std::vector<std::string> keys = absl::StrSplit(ToAbsl(TitanQuantizeKeys()), ' ');
  for (const std::string& key : keys) {
    const bool acts = key.find(".mx.") == std::string::npos ? has_float8 : has_mx;
    const bool is_gather = key.ends_with("enable_fsdp_float8_all_gather");
    const Setting* setting = given_.Find(key);
    const bool is_off = setting != nullptr && absl::AsciiStrToLower(setting->ValueText()) == "false";
    if (setting == nullptr) {
      given_.Put(key, List::kNoEffect);  // known, if misspelt
    } else if (!acts || is_off) {
      given_.Put(key, acts ? List::kDefault : List::kNoEffect);
    } else {
      given_.Put(key, List::kNoEquivalent,
                 is_gather ? "weights are gathered in FP8: half the bytes of bf16"
                           : "products in FP8");
    }
  }
}

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
      if (groups.size() == 1) given_.Put("optimizer.param_groups", List::kTaken);
    }
  }
  optimizer.clip = Number("training.max_norm").value_or(1.0);
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
    const int64_t decay = std::llround(total * *ratio);
    if (decay >= total - *optimizer.warmup_steps) {
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
  const bool is_asked = !facts_.questions.empty() && !given_.Has("model.flavor") &&
                        !titan_.named.Has("model.flavor");
  if (!input_.model.empty() || is_asked) return absl::OkStatus();
  TitanModel found = FindTitanModel(name, flavor);
  if (!found.shape) {
    if (found.what_is_wrong.starts_with("makes images")) {
      return InputError(given_.Has("model.name") ? given_.Where("model.name") : titan_.named_from,
                        absl::StrCat(name, " ", found.what_is_wrong), found.mend);
    }
    facts_.questions.push_back(
        {absl::StrCat("which model ", name, " ", flavor, " is: it ", found.what_is_wrong,
                      found.mend.empty() ? "" : absl::StrCat(" (", found.mend, "?)")),
         "--model=NAME"});
    return absl::OkStatus();
  }
  if (facts_.sequence) found.shape->sequence = *facts_.sequence;
  ASSIGN_OR_RETURN(facts_.model, MakeModelFacts(*found.shape));
  facts_.model.from = titan_.model_from;
  facts_.model.vocab_given = found.shape->vocab;
  return absl::OkStatus();
}

void TitanFacts::CheckPositions() {
  const Degrees& degrees = facts_.degrees;
  if (!facts_.sequence) return;
  const int64_t parts = (facts_.sequence_parallel ? degrees.tensor : 1) *
                        (degrees.context > 1 ? 2 * degrees.context : 1);
  if (*facts_.sequence % parts == 0) return;
  Break("a sequence must be a multiple of tensor x 2 x context",
        absl::StrCat(*facts_.sequence, " is not a multiple of ", parts),
        absl::StrCat("Sequence length ", *facts_.sequence,
                     " must be divisible by the product of TP degree (", degrees.tensor,
                     ") and 2 * CP degree (", degrees.context, ")."),
        absl::StrCat("--training.seq_len ", (*facts_.sequence / parts + 1) * parts),
        "training.seq_len");
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
    facts_.broken.push_back(
        {.rule = is_flag ? "no unknown flag" : "no unknown key",
         .numbers = setting.name,
         .theirs = is_flag ? absl::StrCat("Unrecognized options: ", setting.name)
                           : absl::StrCat("Invalid field names in ", path.front(), " data: {'",
                                          path.back(), "'}."),
         .mend = setting.note.empty() ? absl::StrCat("leave out ", setting.name) : setting.note,
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

}  // namespace

absl::StatusOr<Facts> MakeTitanFacts(const ForeignInput& input, TitanSources* titan) {
  return TitanFacts(input, titan).Make();
}

}  // namespace oneflow::foreign
