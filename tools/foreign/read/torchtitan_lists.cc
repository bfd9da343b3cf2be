#include <array>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/torchtitan_parts.h"

namespace oneflow::foreign {
namespace {

struct TitanRename {
  std::string_view from, to;  // a prefix if it ends with a dot
};

// From the most special to the most general: the first that fits is taken.
constexpr TitanRename kTitanRenames[] = {
    {"experimental.pipeline_parallel_", "parallelism.pipeline_parallel_"},
    {"experimental.context_parallel_", "parallelism.context_parallel_"},
    {"experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
    {"experimental.enable_compiled_autograd", "parallelism.enable_compiled_autograd"},
    {"compile.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
    {"training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"},
    {"training.data_parallel_degree", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_", "parallelism.data_parallel_"},
    {"training.pipeline_parallel_", "parallelism.pipeline_parallel_"},
    {"experimental.data_parallel_", "parallelism.data_parallel_"},
    {"training.fsdp_reshard_after_forward", "parallelism.fsdp_reshard_after_forward"},
    {"training.disable_loss_parallel", "parallelism.disable_loss_parallel"},
    {"training.batch_size", "training.local_batch_size"},
    {"training.warmup_steps", "lr_scheduler.warmup_steps"},
    {"training.compile", "compile.enable"},
    {"training.seed", "debug.seed"},
    {"training.deterministic", "debug.deterministic"},
    {"training.debug_moe_force_load_balance", "debug.moe_force_load_balance"},
    {"lr_scheduler.lr_min", "lr_scheduler.min_lr_factor"},
    {"training.enable_float8_linear", "quantize.linear.float8.enable_float8_linear"},
    {"training.enable_fsdp_fp8_all_gather", "quantize.linear.float8.enable_fsdp_float8_all_gather"},
    {"training.enable_fsdp_float8_all_gather",
     "quantize.linear.float8.enable_fsdp_float8_all_gather"},
    {"training.precompute_float8_dynamic_scale_for_fsdp",
     "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp"},
    {"float8.moe_fqns_prototype", "quantize.grouped_mm.float8.fqns"},
    {"float8.moe_fqns", "quantize.grouped_mm.float8.fqns"},
    {"float8.", "quantize.linear.float8."},
    {"mx.moe_fqns_prototype", "quantize.grouped_mm.mx.fqns"},
    {"mx.moe_fqns", "quantize.grouped_mm.mx.fqns"},
    {"mx.", "quantize.linear.mx."},
    {"quantize.dense.", "quantize.linear."},
    {"quantize.moe.", "quantize.grouped_mm."},
    {"model_converters.", "model."},
    {"model.tokenizer_path", "model.hf_assets_path"},
    {"hf_assets_path", "model.hf_assets_path"},
    {"dump_folder", "job.dump_folder"},
    {"debug.print_config", "job.print_config"},
    {"debug.save_config_file", "job.save_config_file"},
    {"job.print_args", "job.print_config"},
    {"job.save_config_folder", "job.save_config_file"},
    {"checkpoint.enable_checkpoint", "checkpoint.enable"},
    {"checkpoint.model_weights_only", "checkpoint.last_save_model_only"},
    {"checkpoint.last_save_model_weights_only", "checkpoint.last_save_model_only"},
    {"checkpoint.last_save_in_safetensors_format", "checkpoint.last_save_in_hf"},
    {"checkpoint.initial_load_model_weights_only", "checkpoint.initial_load_model_only"},
    {"memory_estimation.enabled", "memory_estimation.enable"},
    {"validation.enabled", "validation.enable"},
    {"profiler.", "profiling."},
    {"validator.dataloader.dataset_path", "validation.dataset_path"},
    {"validator.dataloader.dataset", "validation.dataset"},
    {"validator.", "validation."},
    {"dataloader.dataset_path", "training.dataset_path"},
    {"dataloader.dataset", "training.dataset"},
    {"activation_checkpoint.force_recompute_mm_shapes_by_fqns",
     "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns"},
};

constexpr std::string_view kQuantizeKeys =
    "quantize.linear.float8.enable_fsdp_float8_all_gather "
    "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp "
    "quantize.linear.float8.recipe_name quantize.linear.float8.filter_fqns "
    "quantize.linear.float8.force_recompute_fp8_weight_in_bwd quantize.linear.float8.emulate "
    "quantize.linear.float8.scaling_type_input quantize.linear.float8.scaling_type_weight "
    "quantize.linear.float8.scaling_type_grad_output "
    "quantize.linear.mx.recipe_name quantize.linear.mx.filter_fqns "
    "quantize.linear.mx.mxfp8_dim1_cast_kernel_choice "
    "quantize.linear.mx.use_fp8_dim1_cast_triton_kernel "
    "quantize.grouped_mm.float8.fqns quantize.grouped_mm.mx.fqns "
    "quantize.grouped_mm.mx.recipe_name";

const std::array kTitanLists = {
    ListedKeys{List::kNoEffect,
               "job.dump_folder job.description job.print_config job.save_config_file "
               "job.use_for_integration_test model.hf_assets_path model.print_after_conversion "
               "profiling.enable_profiling profiling.save_traces_folder profiling.profile_freq "
               "profiling.profiler_active profiling.profiler_warmup profiling.profiler_repeat "
               "profiling.profiler_skip_first profiling.profiler_skip_first_wait "
               "profiling.enable_memory_snapshot profiling.save_memory_snapshot_folder "
               "profiling.memory_snapshot_freq profiling.memory_snapshot_max_entries "
               "profiling.trace_post_processor "
               "metrics.log_freq metrics.enable_tensorboard metrics.disable_color_printing "
               "metrics.enable_color_printing metrics.save_tb_folder metrics.save_for_all_ranks "
               "metrics.rank_0_only metrics.enable_wandb metrics.disable_logging_from_checkpoint "
               "training.dataset training.dataset_path training.gc_freq training.gc_debug "
               "training.disable_cuda_graphs "
               "training.dataloader.num_workers training.dataloader.persistent_workers "
               "training.dataloader.pin_memory training.dataloader.prefetch_factor "
               "validation.dataloader.num_workers validation.dataloader.persistent_workers "
               "validation.dataloader.pin_memory validation.dataloader.prefetch_factor"},
    ListedKeys{
        List::kNoEffect,
        "checkpoint.enable checkpoint.enable_ft_dataloader_checkpoints checkpoint.folder "
        "checkpoint.interval checkpoint.interval_type checkpoint.initial_load_path "
        "checkpoint.initial_load_model_only checkpoint.initial_load_in_hf "
        "checkpoint.initial_load_in_hf_quantized checkpoint.last_save_model_only "
        "checkpoint.last_save_in_hf checkpoint.export_dtype checkpoint.async_mode "
        "checkpoint.keep_latest_k checkpoint.load_step checkpoint.exclude_from_loading "
        "checkpoint.enable_first_step_checkpoint checkpoint.create_seed_checkpoint "
        "checkpoint.load_only "
        "validation.enable validation.dataset validation.dataset_path "
        "validation.local_batch_size validation.seq_len validation.freq validation.steps "
        "comm.init_timeout_seconds comm.train_timeout_seconds comm.trace_buf_size "
        "comm.save_traces_folder comm.save_traces_file_prefix comm.mode "
        "memory_estimation.enable memory_estimation.disable_fake_mode "
        "debug.seed debug.deterministic debug.deterministic_warn_only debug.detect_anomaly "
        "debug.enable_structured_logging debug.spmd_typechecking debug.batch_invariant "
        "optimizer.implementation optimizer.fused optimizer.optimizer_factory_kwargs_by_name "
        "parallelism.enable_compiled_autograd parallelism.spmd_backend "
        "parallelism.enable_fsdp_symm_mem parallelism.context_parallel_ptrr_mask_key "
        "parallelism.pipeline_parallel_expert_parallel_overlap "
        "activation_checkpoint.early_stop activation_checkpoint.preserve_rng_state "
        "activation_checkpoint.determinism_check activation_checkpoint.debug "
        "activation_checkpoint.visualize_memory_budget_pareto "
        "compile.components compile.backend model_spec.model.*"},
    // Sections whose keys depend on the classes that a configuration chooses.
    ListedKeys{List::kNoEffect, "dataloader.* tokenizer.* validation.dataloader.* loss.*"},
    ListedKeys{List::kNoEquivalent, "model.converters[*",
               "layers are replaced by others: products in FP8, or adapters"},
    // Sections without a key.
    ListedKeys{
        List::kDefault,
        "job profiling metrics model optimizer lr_scheduler training training.dataloader "
        "parallelism checkpoint activation_checkpoint compile float8 mx quantize "
        "quantize.linear quantize.linear.float8 quantize.linear.mx quantize.grouped_mm "
        "quantize.grouped_mm.float8 quantize.grouped_mm.mx comm memory_estimation "
        "fault_tolerance experimental validation validation.dataloader debug override tokenizer "
        "dataloader loss model_spec model_spec.model"},
    ListedKeys{List::kDefault, "compile.enable"},
    ListedKeys{List::kNoEquivalent, "parallelism.enable_async_tensor_parallel",
               "collectives of the tensor axis run in pieces beside their products: time"},
    ListedKeys{List::kNoEquivalent, "parallelism.disable_loss_parallel",
               "the logits are gathered over the tensor axis: tensor times their bytes"},
    ListedKeys{List::kNoEquivalent, "parallelism.context_parallel_rotate_method",
               "keys and values go round a ring: fewer bytes at once, more messages", "allgather"},
    ListedKeys{List::kNoEquivalent, "parallelism.context_parallel_load_balancer",
               "positions are balanced in another way than as pairs of head and tail", "headtail"},
    ListedKeys{List::kNoEquivalent, "parallelism.pipeline_parallel_schedule_csv",
               "an order of a file: time and bytes of the pipe differ from the schedule's"},
    ListedKeys{List::kNoEquivalent, "parallelism.expert_parallel_comm_backend",
               "kernels of their own exchange the tokens of experts: time", "standard"},
    ListedKeys{List::kNoEquivalent, "parallelism.hybridep_non_blocking_expert_capacity_factor",
               "buffers of experts have a fixed size: bytes, and tokens beyond it are dropped"},
    ListedKeys{List::kNoEquivalent, "optimizer.early_step_in_backward",
               "each weight is updated as its gradient is made: bytes of gradients are saved"},
    ListedKeys{List::kNoEquivalent, "optimizer.param_groups*",
               "groups of parameters with numbers of their own: numbers, no bytes"},
    ListedKeys{List::kNoEquivalent,
               "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
               "products of these shapes are recomputed, too: bytes for time",
               "[\"moe.router.gate\"] moe.router.gate"},
    ListedKeys{List::kNoEquivalent, "debug.moe_force_load_balance",
               "experts get equal shares by force: no imbalance in time or bytes"},
    ListedKeys{List::kNoEquivalent, "model.norm_type", "another norm: time",
               "rmsnorm"
               " fused_rmsnorm compiled_rmsnorm"},
    ListedKeys{List::kNoEquivalent, "hf_transformers.model",
               "a model by its name at Hugging Face: give it as --model=NAME"},
    ListedKeys{List::kNoEquivalent, "model.use_flex_attn", "attention by generated kernels: time"},
    ListedKeys{List::kNoEquivalent, "model.attn_mask_type",
               "attention stays within documents: fewer FLOPs", "causal"},
    ListedKeys{List::kNoEquivalent,
               "fault_tolerance.enable fault_tolerance.group_size "
               "fault_tolerance.semi_sync_method",
               "copies join and leave during the run, or meet only every few steps: time"},
    ListedKeys{List::kNoEffect,
               "fault_tolerance.process_group fault_tolerance.process_group_timeout_ms "
               "fault_tolerance.replica_id fault_tolerance.min_replica_size "
               "fault_tolerance.sync_steps fault_tolerance.should_quantize "
               "fault_tolerance.fragment_sync_delay fault_tolerance.fragment_update_alpha "
               "fault_tolerance.num_fragments fault_tolerance.module_fqns_per_model_fragment"},
    ListedKeys{List::kNoEquivalent,
               "experimental.custom_import experimental.custom_args_module "
               "experimental.custom_model_path job.custom_config_module override.imports",
               "code of the user's own, which is not read: it may change everything"},
};

}  // namespace

std::string TitanKey(std::string_view key) {
  std::string name(key);
  for (const TitanRename& rename : kTitanRenames) {
    const bool is_prefix = rename.from.ends_with('.') || rename.from.ends_with('_');
    if (is_prefix ? name.starts_with(rename.from) : name == rename.from) {
      return absl::StrCat(ToAbsl(rename.to), name.substr(rename.from.size()));
    }
  }
  return name;
}

bool IsTitanNameBeforeScaling(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  for (const std::string_view old :
       {"training.batch_size", "training.warmup_steps", "training.compile",
        "training.tensor_parallel_degree", "training.enable_loss_parallel", "training.fp8_linear",
        "training.data_parallel_degree", "training.data_parallel_shard_degree",
        "training.data_parallel_replicate_degree", "training.pipeline_parallel_degree",
        "experimental.context_parallel_degree", "experimental.pipeline_parallel_degree",
        "experimental.pipeline_parallel_schedule", "experimental.enable_async_tensor_parallel",
        "checkpoint.enable_checkpoint", "checkpoint.model_weights_only", "model.norm_type",
        "float8.enable_float8_linear", "metrics.rank_0_only"}) {
    if (name == old) return true;
  }
  return false;
}

std::span<const ListedKeys> TitanLists() { return kTitanLists; }

std::string_view TitanQuantizeKeys() { return kQuantizeKeys; }

}  // namespace oneflow::foreign
