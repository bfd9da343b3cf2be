// What each system cannot run at all, and what it does otherwise than any recipe says.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/foreign/emit/round_systems.h"
#include "training/hugging_face/model_graph.h"

namespace oneflow::foreign {
namespace {

std::string EmitFlag(System system) { return absl::StrCat("--emit=", ToAbsl(SystemWord(system))); }

absl::Status Lacks(System system, const std::string& what, const std::string& hint) {
  return InputError(EmitFlag(system), absl::StrCat(ToAbsl(SystemName(system)), " has no ", what),
                    hint);
}

constexpr char kOtherSystem[] = "use --emit=megatron, or another model";

bool IsLlama31Scaling(const proto::RopeScaling& s) {
  return s.low() == 1 && s.high() == 4 && s.positions() == 8192;
}

// Numbers of decoders that no configuration of these systems is made of here.
constexpr std::string_view kOwnNumbers[] = {
    "rotary_share", "attention_scale", "attention_cap",   "logit_cap",   "sinks",
    "norms",        "norm_offset",     "norm_all_heads",  "activation",  "proj_bias",
    "router_bias",  "expert_bias",     "embedding_scale", "routed_scale"};

// Refuses a decoder that differs from Llama by one of them.
absl::Status CheckDecoder(System system, const proto::Model& model) {
  if (!model.blocks().run().empty()) {
    return Lacks(system, "pattern of blocks that differ in what is written here",
                 "use a model whose blocks are alike");
  }
  const proto::Model llama = MakeModel("family: 'llama'");
  for (const std::string_view name : kOwnNumbers) {
    const Row& row = *FindRow(ModelRows(), name);
    if (!HasField(row, model)) continue;
    const std::string text = FieldText(row, model);
    if (text == FieldText(row, llama)) continue;
    return InputError(
        EmitFlag(system),
        absl::StrCat("makes no configuration of a model with --", ToAbsl(name), "=", text),
        "use another model");
  }
  const proto::RopeScaling& scaling = model.rope_scaling();
  if (scaling.factor() == 0 || scaling.kind() == proto::RopeScaling::LLAMA3) {
    return absl::OkStatus();
  }
  return InputError(EmitFlag(system),
                    "makes no configuration of scaled rotary frequencies but those of Llama 3.1",
                    "use another model");
}

bool IsMixture(const proto::Model& model) { return model.experts() > 0; }

}  // namespace

absl::Status CheckMegatron(System system, const Job& job, const AxisDegrees& degrees) {
  const proto::Model& model = job.model;
  RETURN_IF_ERROR(CheckDecoder(system, model));
  if (model.rope_scaling().factor() > 0 && !IsLlama31Scaling(model.rope_scaling())) {
    return Lacks(system,
                 "scaled rotary frequencies but those of Llama 3.1: factor, then 1, 4 and 8192",
                 "use --rope_scaling=FACTOR,1,4,8192 of `oneflow model llama`");
  }
  if (model.theta() != std::floor(model.theta())) {
    return Lacks(system, absl::StrCat("rotary base that is no whole number, as ", model.theta()),
                 "use a whole number for --theta of `oneflow model llama`");
  }
  if (degrees.context > 1 && model.sequence() % (2 * degrees.context) != 0) {
    return Lacks(system,
                 absl::StrCat("context axis of ", degrees.context, " for sequences of ",
                              model.sequence(), ", which are split in twice as many parts"),
                 "use sequences of a multiple of twice the axis");
  }
  if (model.heads() % degrees.tensor != 0) {
    return Lacks(
        system,
        absl::StrCat("way to split ", model.heads(), " heads over ", degrees.tensor, " devices"),
        "use a divisor of the heads as the axis tensor");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FindTitanModule(const proto::Model& model) {
  std::string lacks;
  if (model.family() != "llama") {
    lacks = "learned positions and layer norms (the family " + model.family() + ")";
  } else if (model.qkv_bias()) {
    lacks = "biases of queries, keys and values";
  } else if (model.window() > 0) {
    lacks = "sliding window";
  } else if (model.shared_inner() > 0) {
    lacks = "width of a shared expert other than that of the others";
  } else if (IsMixture(model) && model.slots() > 0) {
    lacks = "queues of experts that drop tokens";
  }
  const bool equal_heads = model.heads() * model.head_dim() == model.hidden();
  const bool llama3 = !IsMixture(model) && !model.tied() && !model.qk_norm() && equal_heads;
  const bool scaled = model.rope_scaling().factor() > 0;
  if (lacks.empty() && !llama3 && scaled) {
    lacks =
        "scaled rotary frequencies beside tied embeddings, norms of queries, experts or heads "
        "of another width";
  }
  if (!lacks.empty()) return Lacks(System::kTorchtitan, lacks, kOtherSystem);
  return llama3 ? "llama3" : "qwen3";
}

absl::Status CheckTorchtitan(const Job& job, const AxisDegrees& degrees) {
  RETURN_IF_ERROR(CheckDecoder(System::kTorchtitan, job.model));
  ASSIGN_OR_RETURN(const std::string module, FindTitanModule(job.model));
  constexpr System kTitan = System::kTorchtitan;
  if (module == "qwen3" && degrees.pipe > 1) {
    return Lacks(kTitan, "pipeline for the models of its qwen3, of which this is one",
                 "search with --fix=pipe=1, or use --emit=megatron");
  }
  if (job.model.groups() % degrees.tensor != 0) {
    return Lacks(kTitan,
                 absl::StrCat("way to split ", job.model.groups(),
                              " groups of keys and values over ", degrees.tensor, " devices"),
                 "use a divisor of the groups as the axis tensor");
  }
  const int64_t parts = degrees.tensor * (degrees.context > 1 ? 2 * degrees.context : 1);
  if (job.model.sequence() % parts != 0) {
    return Lacks(kTitan,
                 absl::StrCat("way to split ", job.model.sequence(), " positions into ", parts),
                 "use a sequence that tensor x 2 x context divides");
  }
  return absl::OkStatus();
}

absl::Status CheckTrainer(System system, const Job& job, const AxisDegrees& degrees) {
  const std::pair<const char*, int64_t> axes[] = {{"tensor", degrees.tensor},
                                                  {"pipe", degrees.pipe},
                                                  {"context", degrees.context},
                                                  {"expert", degrees.expert}};
  for (const auto& [name, size] : axes) {
    if (size == 1) continue;
    return Lacks(system,
                 absl::StrCat("axis ", name,
                              " under the Trainer of Hugging Face, which splits the batch alone"),
                 absl::StrCat("search with --fix=", name, "=1, or use --emit=megatron"));
  }
  const absl::Status known = DescribeModelGraph(BuildModel(job.model)).status();
  return known.ok() ? known : Annotate(known, EmitFlag(system));
}

namespace {

void DescribeMegatron(const Job& job, const AxisDegrees& degrees, std::vector<std::string>* lines) {
  const proto::Model& model = job.model;
  const int64_t over = model.vocab() % degrees.tensor;
  if (over != 0) {
    lines->push_back(absl::StrCat("the table of the vocabulary has ", degrees.tensor - over,
                                  " more rows, to be split over tensor"));
  }
  if (model.family() == "gpt" && !model.bias()) {
    lines->push_back(absl::StrCat("its layer norms have biases: ",
                                  (2 * model.layers() + 1) * model.hidden(), " more parameters"));
  }
  if (model.family() == "gpt" && model.dropout() > 0) {
    lines->emplace_back("dropout masks are stored");
  }
  if (!IsMixture(model)) return;
  if (model.slots() > 0 && model.slot_groups() != model.experts()) {
    lines->push_back(absl::StrCat("each expert has its own queue on each device, and not ",
                                  model.slot_groups(), " groups of experts"));
  }
  if (model.routed_positions() > 0) {
    lines->push_back(absl::StrCat("experts are evened out over a sequence, and not over ",
                                  model.routed_positions(), " positions"));
  }
  if (model.experts_per_token() == 1 && model.norm_topk_prob()) {
    lines->emplace_back("the weight of a token's only expert is its probability, and not 1");
  }
  if (degrees.context > 1 && degrees.expert > 1) {
    lines->emplace_back("experts are split over context before data");
  }
}

void DescribeTitan(const Job& job, const AxisDegrees& degrees, std::vector<std::string>* lines) {
  const proto::Model& model = job.model;
  if (job.optimizer.weight_decay() > 0) lines->emplace_back("norms decay, too");
  if (degrees.pipe > 1 && CountSplit(job.recipe) == 3) {
    const double bytes = 4.0 * static_cast<double>(job.parameters) /
                         static_cast<double>(degrees.pipe * degrees.tensor);
    lines->push_back(absl::StrCat(
        "gradients add up whole on each device of a stage until its last micro-batch: about ",
        std::llround(bytes / (1 << 20)), " MiB more"));
  }
  if (!IsMixture(model)) return;
  if (model.aux_loss_coeff() > 0) {
    lines->push_back(absl::StrCat("no loss evens out experts (aux_loss_coeff ",
                                  ExactText(model.aux_loss_coeff()),
                                  " here): biases of their choice do"));
  }
  if (model.z_loss_coeff() > 0) lines->emplace_back("no loss keeps logits of routers small");
}

void DescribeTrainer(std::vector<std::string>* lines) {
  lines->emplace_back("logits are copied to f32 for the loss");
}

}  // namespace

std::vector<std::string> FindDifferences(System system, const Job& job) {
  std::vector<std::string> lines;
  const absl::StatusOr<AxisDegrees> degrees = FindDegrees(job.recipe);
  if (!degrees.ok()) return lines;
  switch (system) {
    case System::kMegatron:
    case System::kBridge: DescribeMegatron(job, *degrees, &lines); break;
    case System::kTorchtitan: DescribeTitan(job, *degrees, &lines); break;
    case System::kDeepSpeed:
    case System::kAccelerate: DescribeTrainer(&lines); break;
  }
  return lines;
}

}  // namespace oneflow::foreign
