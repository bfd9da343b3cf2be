#include "tools/oneflow/cli/foreign_flags.h"

#include <span>
#include <utility>

namespace oneflow {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// Only where every value means the same.
constexpr Pair kSame[] = {
    {"num_layers", "layers"},
    {"n_layers", "layers"},
    {"n_layer", "layers"},
    {"num_attention_heads", "heads"},
    {"n_heads", "heads"},
    {"n_head", "heads"},
    {"hidden_size", "hidden"},
    {"n_embd", "hidden"},
    {"num_query_groups", "groups"},
    {"num_key_value_heads", "groups"},
    {"n_kv_heads", "groups"},
    {"kv_channels", "head_dim"},
    {"ffn_hidden_size", "inner"},
    {"intermediate_size", "inner"},
    {"rotary_base", "theta"},
    {"rope_theta", "theta"},
    {"rms_norm_eps", "norm_epsilon"},
    {"qk_layernorm", "qk_norm"},
    {"add_qkv_bias", "qkv_bias"},
    {"sliding_window", "window"},
    {"seq_length", "sequence"},
    {"seq_len", "sequence"},
    {"block_size", "sequence"},
    {"vocab_size", "vocab"},
    {"global_batch_size", "batch"},
    {"train_batch_size", "batch"},
    {"lr", "learning_rate"},
    {"min_lr", "min_learning_rate"},
    {"lr_decay_style", "lr_schedule"},
    {"decay_type", "lr_schedule"},
    {"lr_scheduler_type", "lr_schedule"},
    {"lr_warmup_iters", "warmup_steps"},
    {"warmup_iters", "warmup_steps"},
    {"warmup_num_steps", "warmup_steps"},
    {"lr_decay_iters", "decay_steps"},
    {"clip_grad", "clip"},
    {"grad_clip", "clip"},
    {"gradient_clipping", "clip"},
    {"max_norm", "clip"},
    {"max_grad_norm", "clip"},
    {"adam_beta1", "beta1"},
    {"adam_beta2", "beta2"},
    {"adam_eps", "epsilon"},
    {"adam_epsilon", "epsilon"},
    {"eps", "epsilon"},
    {"wd", "weight_decay"},
    {"train_iters", "steps"},
    {"training_steps", "steps"},
    {"max_iters", "steps"},
    {"max_steps", "steps"},
    {"eval_interval", "eval_every"},
    {"save", "checkpoint_dir"},
    {"save_interval", "checkpoint_every"},
    {"max_new_tokens", "tokens"},
};

constexpr std::string_view kTensor =
    "write an axis of the mesh of `oneflow compile`: --mesh=tensor=N, beside others as in "
    "--mesh=pipe=4,data=8,tensor=2";
constexpr std::string_view kPipe =
    "write an axis of the mesh of `oneflow compile`: --mesh=pipe=N, beside others as in "
    "--mesh=pipe=4,data=8,tensor=2";
constexpr std::string_view kDataAxis =
    "write an axis of the mesh of `oneflow compile`: --mesh=data=N, beside others as in "
    "--mesh=pipe=4,data=8,tensor=2";
constexpr std::string_view kMicroBatch =
    "it counts sequences; --micro_batches counts micro-batches: write --micro_batches=M, M = batch "
    "/ (sequences of a micro-batch x size of axis data)";
constexpr std::string_view kChunks =
    "write --schedule=interleaved --chunks=V, V slices of the model on each stage";
constexpr std::string_view kContext = "write --mesh=context=N of `oneflow compile`";
constexpr std::string_view kExpertAxis = "write --mesh=expert=N of `oneflow compile`";
constexpr std::string_view kExperts = "write --experts=N of `oneflow model llama`";
constexpr std::string_view kHostUpdates =
    "write --update_on=host (the host's processors update), or --offload=states";
constexpr std::string_view kHostActivations = "write --offload=activations, or activations:SHARE";
constexpr std::string_view kRecompute =
    "write --recompute=attention (Megatron-LM's selective) or --recompute=full";
constexpr std::string_view kRecomputeBlocks =
    "write --recompute=full:N, N blocks of each slice of the model along the pipe (Megatron-LM's "
    "method block), or --recompute=full, each block by itself (uniform, 1 layer)";
constexpr std::string_view kZero =
    "write --shard=states (ZeRO 1), gradients (ZeRO 2) or weights (ZeRO 3, FSDP)";
constexpr std::string_view kDocuments =
    "write --documents: positions begin anew, documents do not see each other, ends have no label";
constexpr std::string_view kDropout =
    "write --dropout=RATE of `oneflow model`; probabilities of attention have it with "
    "--attention=unfused";
constexpr std::string_view kLlama =
    "write `oneflow model llama`, which has RMS norms, rotary positions and a gated MLP";
constexpr std::string_view kProcesses =
    "write --processes=N, or start one process for each block of devices with srun or torchrun";
constexpr std::string_view kOverlap = "write --overlap=true; it is so where devices are GPUs";
constexpr std::string_view kNoF16 = "write --precision=bf16; there is no fp16 and no loss scaling";
constexpr std::string_view kLoad = "write --checkpoint_dir=FOLDER --resume";
constexpr std::string_view kData = "write --data=FILE, and --data=PREFIX.bin of Megatron's files";

constexpr Pair kAdvice[] = {
    {"tensor_model_parallel_size", kTensor},
    {"tensor_parallel_degree", kTensor},
    {"tensor_parallel_size", kTensor},
    {"tensor_parallel", kTensor},
    {"tp", kTensor},
    {"tp_size", kTensor},
    {"pipeline_model_parallel_size", kPipe},
    {"pipeline_parallel_degree", kPipe},
    {"pipeline_parallel_size", kPipe},
    {"pipeline_stages", kPipe},
    {"pp", kPipe},
    {"pp_size", kPipe},
    {"data_parallel_size", kDataAxis},
    {"data_parallel_replicate_degree", kDataAxis},
    {"dp", kDataAxis},
    {"dp_size", kDataAxis},
    {"data_parallel_shard_degree", "write --mesh=data=N --shard=weights of `oneflow compile`"},
    {"context_parallel_size", kContext},
    {"context_parallel_degree", kContext},
    {"cp", kContext},
    {"expert_model_parallel_size", kExpertAxis},
    {"expert_parallel_degree", kExpertAxis},
    {"num_experts", kExperts},
    {"optimizer_cpu_offload", kHostUpdates},
    {"cpu_offload", kHostUpdates},
    {"offload_optimizer", kHostUpdates},
    {"offload_optimizer_device", kHostUpdates},
    {"optimizer_offload_fraction", kHostUpdates},
    {"fsdp_offload", "write --shard=weights --offload=weights --update_on=host"},
    {"enable_cpu_offload", "write --shard=weights --offload=weights --update_on=host"},
    {"cpu_offloading_num_layers", kHostActivations},
    {"offload_activations", kHostActivations},
    {"micro_batch_size", kMicroBatch},
    {"local_batch_size", kMicroBatch},
    {"batch_size", kMicroBatch},
    {"train_micro_batch_size_per_gpu", kMicroBatch},
    {"per_device_train_batch_size", kMicroBatch},
    {"pipeline_parallel_microbatch_size", kMicroBatch},
    {"gradient_accumulation_steps",
     "write --micro_batches=M, the micro-batches of a step on each device; --batch counts all "
     "sequences of a step"},
    {"num_layers_per_virtual_pipeline_stage", kChunks},
    {"num_virtual_stages_per_pipeline_rank", kChunks},
    {"pipeline_parallel_schedule", "write --schedule=1f1b, gpipe, interleaved or zero_bubble"},
    {"pipeline_parallel_layers_per_stage", "write --stage_layers=N,N,..."},
    {"recompute_granularity", kRecompute},
    {"recompute_activations", kRecompute},
    {"recompute_method", kRecomputeBlocks},
    {"recompute_num_layers", kRecomputeBlocks},
    {"checkpoint_activations", kRecompute},
    {"gradient_checkpointing", kRecompute},
    {"use_distributed_optimizer", kZero},
    {"zero_stage", kZero},
    {"fsdp", kZero},
    {"use_fsdp", kZero},
    {"hidden_dropout", kDropout},
    {"attention_dropout", kDropout},
    {"disable_bias_linear",
     "write --bias=false of `oneflow model gpt`; norms have none then, either; `oneflow model "
     "llama` has none"},
    {"group_query_attention", "write --groups=N of `oneflow model llama`"},
    {"swiglu", kLlama},
    {"use_rotary_position_embeddings", kLlama},
    {"position_embedding_type", kLlama},
    {"normalization", kLlama},
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
    {"fp16", kNoF16},
    {"loss_scale", kNoF16},
    {"dtype", "write --precision=bf16 or f32"},
    {"mixed_precision_param", "write --precision=bf16 or f32"},
    {"overlap_grad_reduce", kOverlap},
    {"overlap_param_gather", kOverlap},
    {"tp_comm_overlap", kOverlap},
    {"reset_position_ids", kDocuments},
    {"reset_attention_mask", kDocuments},
    {"eod_mask_loss", kDocuments},
    {"eval_iters", "it counts steps; --eval_batches=N counts micro-batches"},
    {"lr_warmup_fraction", "write --warmup_steps=N"},
    {"lr_warmup_samples", "write --warmup_steps=N, in steps"},
    {"train_samples", "write --steps=N, in steps of --batch sequences"},
    {"load", kLoad},
    {"load_checkpoint", kLoad},
    {"data_path", kData},
    {"train_data", kData},
    {"dataset_path", kData},
    {"split", "write --eval_fraction=0.1 for the last tenth of --data"},
    {"skip_train", "write --resume with a --steps that is done, and --eval_data"},
    {"num_processes", kProcesses},
    {"nproc_per_node", kProcesses},
    {"num_gpus", kProcesses},
    {"world_size", kProcesses},
    {"log_interval", "write --metrics=FILE: it has a line for each step"},
    {"tensorboard_dir", "write --metrics=FILE: it has a JSON line for each step"},
    {"model", "write --graph=FILE, which `oneflow model FAMILY --out=FILE` makes"},
    {"config", "write --graph=FILE, which `oneflow model FAMILY --out=FILE` makes"},
};

std::string_view Find(std::span<const Pair> pairs, std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) name.remove_prefix(dot + 1);
  for (const auto& [foreign, text] : pairs) {
    if (foreign == name) return text;
  }
  return "";
}

}  // namespace

std::string_view FlagMeantBy(std::string_view name) { return Find(kSame, name); }

std::string_view AdviceOn(std::string_view name) { return Find(kAdvice, name); }

std::vector<std::string> ForeignNames() {
  std::vector<std::string> names;
  for (const auto& [foreign, flag] : kSame) names.emplace_back(foreign);
  return names;
}

}  // namespace oneflow
