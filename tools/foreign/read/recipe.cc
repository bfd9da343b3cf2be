#include "tools/foreign/read/recipe.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow::foreign {
namespace {

// The mesh, and the axes that "data" of a sharding and the experts are.
struct MeshWords {
  std::string text;        // "pipe=4,data=2x4,tensor=2"
  std::string shard_axes;  // "data.1+context"
  std::string experts;     // "data.1"; "" if experts are split over none
};

// The axis data in factors: copies of what is sharded outside, experts inside.
MeshWords MakeMesh(const Facts& facts, std::vector<std::string>& notes) {
  const DegreeFacts& d = facts.degrees;
  const int64_t data = d.data.value_or(1);
  std::vector<int64_t> factors = {data};
  std::string shard_data = "data";
  const ShardingFacts& sharding = facts.sharding;
  const int64_t replicas = sharding.what == "none" ? 1 : sharding.replicas;
  if (replicas > 1 && data % replicas == 0 && data / replicas > 1) {
    factors = {replicas, data / replicas};
    shard_data = "data.1";
  }
  MeshWords words;
  if (d.expert > 1) {
    // Where tensor axes split experts, too, the ranks of experts are of data (and context) alone.
    const bool of_tensor = d.expert_tensor == 1 && d.tensor > 1;
    int64_t expert = of_tensor ? d.expert / std::gcd(d.expert, d.tensor) : d.expert;
    if (of_tensor && expert == 1) {
      words.experts = "tensor";
    } else {
      expert = std::gcd(expert, data);
      if (expert != d.expert) {
        notes.push_back(absl::StrCat("experts are split in ", expert, " over data, not in ",
                                     d.expert, ": devices of other axes hold the same ones"));
      }
      if (expert == data) {
        words.experts = factors.size() == 1 ? "data" : "";
      } else if (expert > 1 && factors.size() == 1) {
        factors = {data / expert, expert};
        words.experts = "data.1";
      }
      if (factors.size() == 2 && words.experts.empty() && factors[1] == expert) {
        words.experts = "data.1";
      }
    }
  }
  std::vector<std::string> axes;
  if (d.pipe > 1) axes.push_back(absl::StrCat("pipe=", d.pipe));
  if (data > 1 || d.pipe * d.context * d.tensor == 1) {
    axes.push_back("data=" + absl::StrJoin(factors, "x"));
  }
  if (d.context > 1) axes.push_back(absl::StrCat("context=", d.context));
  if (d.tensor > 1) axes.push_back(absl::StrCat("tensor=", d.tensor));
  words.text = absl::StrJoin(axes, ",");
  std::vector<std::string> over;
  for (const std::string& axis : sharding.over) {
    if (axis == "data" && data > 1) over.push_back(shard_data);
    if (axis == "context" && d.context > 1) over.push_back("context");
  }
  words.shard_axes = absl::StrJoin(over, "+");
  return words;
}

// What is split, each with the axes: "states:data,gradients:data".
std::string ShardText(const ShardingFacts& sharding, const std::string& axes) {
  if (sharding.what == "none" || axes.empty()) return "none";
  std::vector<std::string> parts = {"states:" + axes};
  if (sharding.what != "states") {
    // FSDP of which each device sums its own gradients until the step ends cannot keep a split
    // weight's gradient whole here: it is split, and reduced once a micro-batch.
    parts.push_back("gradients:" + axes);
  }
  if (sharding.what == "weights") parts.push_back("weights:" + axes);
  return absl::StrJoin(parts, ",");
}

class ChoiceMaker {
 public:
  explicit ChoiceMaker(ForeignRecipe* made) : made_(made) {}

  void Add(const std::string& field, const std::string& text, std::vector<std::string> settings) {
    const Row* row = FindRow(RecipeRows(), field);
    const absl::Status status = SetField(*row, text, &made_->recipe);
    if (status_.ok()) status_ = status;
    made_->choices.push_back({field, text, std::move(settings)});
  }
  void AddText(const char* field, const std::string& text) {
    const absl::Status status = SetField(*FindRow(OptimizerRows(), field), text, &made_->optimizer);
    if (status_.ok()) status_ = status;
  }
  void AddNumber(const char* field, const std::optional<double>& value) {
    if (value) AddText(field, ExactText(*value));
  }
  void AddNumber(const char* field, const std::optional<int64_t>& value) {
    if (value) AddText(field, absl::StrCat(*value));
  }
  const absl::Status& status() const { return status_; }

 private:
  ForeignRecipe* made_;
  absl::Status status_;
};

// Gradients that are summed in each micro-batch over data axes that do not split them.
void AddReduce(const Facts& facts, const MeshWords& mesh, ChoiceMaker& choices) {
  const ShardingFacts& sharding = facts.sharding;
  if (sharding.reduce != "each micro-batch" || facts.batch.micro_batches.value_or(1) == 1) return;
  const bool splits = sharding.what == "gradients" || sharding.what == "weights";
  if (!splits && facts.degrees.data.value_or(1) > 1) {
    choices.Add("reduce", "each_micro_batch", {});
  } else if (splits && mesh.shard_axes.starts_with("data.1")) {
    choices.Add("reduce", "each_micro_batch:data.0", {});
  }
}

// Blocks whose weights are gathered ahead, of elements; none if the files do not say them.
std::optional<int64_t> CountBlocksAhead(const Facts& facts) {
  const ModelFacts& model = facts.model;
  if (!facts.sharding.prefetch_elements || !model.model) return std::nullopt;
  const proto::Model& shape = *model.model;
  const int64_t tables = (shape.tied() ? 1 : 2) * shape.vocab() * shape.hidden();
  const int64_t blocks = std::max<int64_t>(1, shape.layers());
  const int64_t block = std::max<int64_t>(1, (model.parameters - tables) / blocks);
  const int64_t most = static_cast<int64_t>(FindRow(RecipeRows(), "prefetch")->most);
  return std::min(most, (*facts.sharding.prefetch_elements + block / 2) / block);
}

}  // namespace

absl::StatusOr<ForeignRecipe> MakeForeignRecipe(const Facts& facts) {
  ForeignRecipe made;
  ChoiceMaker choices(&made);
  const MeshWords mesh = MakeMesh(facts, made.notes);
  const BatchFacts& batch = facts.batch;
  if (!batch.global) {
    return InputError("the batch of a step", "is not said by the files", "add --batch=SEQUENCES");
  }
  choices.Add("device", "cuda", {});
  choices.Add(
      "mesh", mesh.text,
      {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"});
  if (!mesh.experts.empty()) choices.Add("experts", mesh.experts, {"expert_model_parallel_size"});
  if (facts.sequence_parallel && facts.degrees.tensor > 1) {
    choices.Add("sequence_parallel", "true", {"sequence_parallel"});
  }
  if (facts.degrees.tensor > 1) choices.Add("split_products", "true", {});
  choices.Add("shard", ShardText(facts.sharding, mesh.shard_axes), {"use_distributed_optimizer"});
  if (facts.sharding.what == "weights" && facts.sharding.gather == "each micro-batch") {
    choices.Add("gather", "each_micro_batch", {});
  } else if (facts.sharding.what == "weights" && facts.sharding.gather == "once a step") {
    choices.Add("gather", "once", {});
  }
  AddReduce(facts, mesh, choices);
  if (const std::optional<int64_t> blocks = CountBlocksAhead(facts)) {
    choices.Add("prefetch", absl::StrCat(*blocks), {"stage3_prefetch_bucket_size"});
  }
  if (facts.sharding.what == "weights" && facts.sharding.reduce == "once a step") {
    made.notes.push_back(
        "gradients stay whole on each device until the step ends there; here they are split, and "
        "reduced in each micro-batch: fewer bytes, more exchanges");
  }
  choices.Add("batch", absl::StrCat(*batch.global), {"global_batch_size"});
  choices.Add("micro_batches", absl::StrCat(batch.micro_batches.value_or(1)),
              {"micro_batch_size", "gradient_accumulation_steps"});
  const ScheduleFacts& schedule = facts.schedule;
  if (schedule.name != "none") {
    const bool known = schedule.name == "1f1b" || schedule.name == "gpipe" ||
                       schedule.name == "interleaved" || schedule.name == "zero_bubble";
    if (!known) {
      made.notes.push_back(absl::StrCat("the schedule is ", schedule.name, ", here ",
                                        schedule.chunks > 1 ? "interleaved" : "1f1b"));
    }
    const std::string name = known ? schedule.name : schedule.chunks > 1 ? "interleaved" : "1f1b";
    choices.Add("schedule", name, {"pipeline_parallel_schedule"});
    if (schedule.chunks > 1) {
      choices.Add("chunks", absl::StrCat(schedule.chunks),
                  {"num_layers_per_virtual_pipeline_stage"});
    }
    if (!schedule.stage_layers.empty()) {
      choices.Add("stage_layers", absl::StrJoin(schedule.stage_layers, ","),
                  {"pipeline_model_parallel_layout", "decoder_first_pipeline_num_layers"});
    }
  }
  std::string recompute = facts.recompute.here;
  const bool splits_positions =
      facts.degrees.context > 1 || (facts.sequence_parallel && facts.degrees.tensor > 1);
  if (facts.recompute.gathers_again && splits_positions) recompute += ",gather";
  if (recompute != "none") {
    choices.Add("recompute", recompute, {"recompute_granularity", "recompute_method"});
  }
  if (facts.precision.compute.starts_with("fp8")) {
    made.notes.push_back("products are in bf16; in FP8 they take down to half of that time");
  }
  if (!facts.recompute.is_exact) {
    made.notes.push_back(
        absl::StrCat("recompute of ", facts.recompute.what, ", here ", facts.recompute.here));
  }
  choices.Add("precision", facts.precision.here, {"bf16", "fp16", "fp8_format"});
  if (facts.precision.residual_f32) {
    choices.Add("residual", "f32", {"fp32_residual_connection"});
  }
  if (facts.separate_documents) choices.Add("documents", "true", {"reset_attention_mask"});
  std::vector<std::string> offload;
  if (facts.offload.activations) {
    offload.push_back(facts.offload.activations_share < 1
                          ? absl::StrCat("activations:", facts.offload.activations_share)
                          : "activations");
  }
  if (facts.offload.states) offload.emplace_back("states");
  if (facts.offload.weights) offload.emplace_back("weights");
  // States that the host updates are there.
  if (facts.offload.update) {
    choices.Add("update_on", "host", {"optimizer_cpu_offload"});
    offload.erase(std::remove(offload.begin(), offload.end(), "states"), offload.end());
  }
  if (!offload.empty()) choices.Add("offload", absl::StrJoin(offload, ","), {"cpu_offloading"});
  RETURN_IF_ERROR(choices.status());

  const OptimizerFacts& o = facts.optimizer;
  choices.AddNumber("learning_rate", o.learning_rate);
  choices.AddNumber("min_learning_rate", o.min_learning_rate);
  choices.AddNumber("beta1", o.beta1);
  choices.AddNumber("beta2", o.beta2);
  choices.AddNumber("epsilon", o.epsilon);
  choices.AddNumber("weight_decay", o.weight_decay);
  choices.AddNumber("clip", o.clip);
  if (o.schedule == "constant" || o.schedule == "linear" || o.schedule == "cosine") {
    choices.AddText("lr_schedule", o.schedule);
  } else {
    made.notes.push_back(absl::StrCat("the learning rate decays by ", o.schedule,
                                      ", here it is constant: no bytes and no time"));
  }
  choices.AddNumber("warmup_steps", o.warmup_steps);
  if (o.decay_steps && o.schedule != "constant") {
    choices.AddNumber("decay_steps", o.decay_steps);
  }
  RETURN_IF_ERROR(choices.status());
  return made;
}

}  // namespace oneflow::foreign
