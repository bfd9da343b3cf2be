#include "oneflow_core/recipe/foreign_names.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow {
namespace {

// Names that other programs use, separated by blanks, and what is said of each.
struct Foreign {
  std::string_view names, text;
};

// The flag of the same meaning, where it is no field with a row. Only where every value means the
// same.
constexpr Foreign kSame[] = {
    {"max_new_tokens", "tokens"},
};

// What to write instead.
constexpr Foreign kAdvice[] = {
    {"tensor_model_parallel_size tensor_parallel_degree tensor_parallel_size tensor_parallel tp "
     "tp_size",
     "write an axis of the mesh of `oneflow compile`: --mesh=tensor=N, beside others as in "
     "--mesh=pipe=4,data=8,tensor=2"},
    {"pipeline_model_parallel_size pipeline_parallel_degree pipeline_parallel_size "
     "pipeline_stages pp pp_size",
     "write an axis of the mesh of `oneflow compile`: --mesh=pipe=N, beside others as in "
     "--mesh=pipe=4,data=8,tensor=2"},
    {"data_parallel_size data_parallel_replicate_degree dp dp_size",
     "write an axis of the mesh of `oneflow compile`: --mesh=data=N, beside others as in "
     "--mesh=pipe=4,data=8,tensor=2"},
    {"data_parallel_shard_degree", "write --mesh=data=N --shard=weights of `oneflow compile`"},
    {"context_parallel_size context_parallel_degree cp",
     "write --mesh=context=N of `oneflow compile`"},
    {"expert_model_parallel_size expert_parallel_degree",
     "write --mesh=expert=N of `oneflow compile`"},
    {"num_experts", "write --experts=N of `oneflow model llama`"},
    {"optimizer_cpu_offload cpu_offload offload_optimizer offload_optimizer_device "
     "optimizer_offload_fraction",
     "write --update_on=host (the host's processors update), or --offload=states"},
    {"fsdp_offload enable_cpu_offload", "write --shard=weights --offload=weights --update_on=host"},
    {"cpu_offloading_num_layers offload_activations",
     "write --offload=activations, or activations:SHARE"},
    {"micro_batch_size local_batch_size batch_size train_micro_batch_size_per_gpu "
     "per_device_train_batch_size pipeline_parallel_microbatch_size",
     "it counts sequences; --micro_batches counts micro-batches: write --micro_batches=M, M = "
     "batch / (sequences of a micro-batch x size of axis data)"},
    {"gradient_accumulation_steps",
     "write --micro_batches=M, the micro-batches of a step on each device; --batch counts all "
     "sequences of a step"},
    {"num_layers_per_virtual_pipeline_stage num_virtual_stages_per_pipeline_rank",
     "write --schedule=interleaved --chunks=V, V slices of the model on each stage"},
    {"pipeline_parallel_schedule", "write --schedule=1f1b, gpipe, interleaved or zero_bubble"},
    {"pipeline_parallel_layers_per_stage", "write --stage_layers=N,N,..."},
    {"recompute_granularity recompute_activations checkpoint_activations gradient_checkpointing",
     "write --recompute=attention (Megatron-LM's selective) or --recompute=full"},
    {"recompute_method recompute_num_layers",
     "write --recompute=full:N, N blocks of each slice of the model along the pipe (Megatron-LM's "
     "method block), or --recompute=full, each block by itself (uniform, 1 layer)"},
    {"use_distributed_optimizer zero_stage fsdp use_fsdp",
     "write --shard=states (ZeRO 1), gradients (ZeRO 2) or weights (ZeRO 3, FSDP)"},
    {"hidden_dropout attention_dropout",
     "write --dropout=RATE of `oneflow model`; probabilities of attention have it with "
     "--attention=unfused"},
    {"disable_bias_linear",
     "write --bias=false of `oneflow model gpt`; norms have none then, either; `oneflow model "
     "llama` has none"},
    {"group_query_attention", "write --groups=N of `oneflow model llama`"},
    {"swiglu use_rotary_position_embeddings position_embedding_type normalization",
     "write `oneflow model llama`, which has RMS norms, rotary positions and a gated MLP"},
    {"use_rope_scaling",
     "write a preset of Llama 3.1 or --rope_scaling=8,1,4,8192 of `oneflow model llama`"},
    {"rope_scaling_factor",
     "write --rope_scaling=FACTOR,1,4,8192 of `oneflow model llama`, as presets of Llama 3.1 and "
     "3.2 have it"},
    {"rotary_percent", "leave it out: rotary positions turn all elements of a head"},
    {"window_size",
     "write --window=N of `oneflow model llama`: the positions that a query sees, its own among "
     "them; 4096 for Megatron-LM's (4095,0)"},
    {"untie_embeddings_and_output_weights", "write --tied=false of `oneflow model`"},
    {"use_flash_attn", "write --attention=fused of `oneflow model`, which is the default"},
    {"max_position_embeddings", "write --sequence=N of `oneflow model`: both are one number here"},
    {"bf16", "write --precision=bf16"},
    {"fp16 loss_scale", "write --precision=bf16; there is no fp16 and no loss scaling"},
    {"dtype mixed_precision_param", "write --precision=bf16 or f32"},
    {"overlap_grad_reduce overlap_param_gather tp_comm_overlap",
     "write --overlap=true; it is so where devices are GPUs"},
    {"reset_position_ids reset_attention_mask eod_mask_loss",
     "write --documents: positions begin anew, documents do not see each other, ends have no "
     "label"},
    {"eval_iters", "it counts steps; --eval_batches=N counts micro-batches"},
    {"lr_warmup_fraction", "write --warmup_steps=N"},
    {"lr_warmup_samples", "write --warmup_steps=N, in steps"},
    {"train_samples", "write --steps=N, in steps of --batch sequences"},
    {"load load_checkpoint", "write --checkpoint_dir=FOLDER --resume"},
    {"data_path train_data dataset_path",
     "write --data=FILE, and --data=PREFIX.bin of Megatron's files"},
    {"split", "write --eval_fraction=0.1 for the last tenth of --data"},
    {"skip_train", "write --resume with a --steps that is done, and --eval_data"},
    {"num_processes nproc_per_node num_gpus world_size",
     "write --processes=N, or start one process for each block of devices with srun or torchrun"},
    {"log_interval", "write --metrics=FILE: it has a line for each step"},
    {"tensorboard_dir", "write --tensorboard=FOLDER"},
    {"wandb wandb_project wandb_log report_to",
     "write --metrics=FILE, and send it on with `oneflow follow --metrics=FILE --to=wandb`"},
    {"model config", "write --graph=FILE, which `oneflow model FAMILY --out=FILE` makes"},
};

// True if `names`, separated by blanks, has the name behind the last dot of `name`.
bool Lists(std::string_view names, std::string_view name) {
  name.remove_prefix(name.rfind('.') + 1);  // npos + 1 is 0
  const std::vector<std::string> list = absl::StrSplit(ToAbsl(names), ' ', absl::SkipEmpty());
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Calls f(foreign names, name of the field or flag) of all that mean the same.
template <typename F>
void ForEachSame(const F& f) {
  for (const auto rows : {ModelRows(), RecipeRows(), OptimizerRows(), RunRows()}) {
    for (const Row& row : rows) f(row.foreign, row.name);
  }
  for (const Foreign& same : kSame) f(same.names, same.text);
}

}  // namespace

std::string_view FlagMeantBy(std::string_view name) {
  std::string_view meant;
  ForEachSame([&](std::string_view names, std::string_view ours) {
    if (Lists(names, name)) meant = ours;
  });
  return meant;
}

std::string_view AdviceOn(std::string_view name) {
  for (const Foreign& advice : kAdvice) {
    if (Lists(advice.names, name)) return advice.text;
  }
  return "";
}

std::vector<std::string> ForeignNames() {
  std::vector<std::string> names;
  ForEachSame([&](std::string_view list, std::string_view) {
    for (const auto name : absl::StrSplit(ToAbsl(list), ' ', absl::SkipEmpty())) {
      names.emplace_back(ToStd(name));
    }
  });
  return names;
}

}  // namespace oneflow
