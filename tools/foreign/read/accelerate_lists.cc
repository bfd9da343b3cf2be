// Settings of accelerate that no reader asks for.
#include "tools/foreign/read/accelerate.h"

namespace oneflow::foreign {
namespace {

constexpr ListedKeys kAccelerateKeys[] = {
    {List::kNoEffect,
     "compute_environment debug downcast_bf16 enable_cpu_affinity machine_rank "
     "main_training_function rdzv_backend rdzv_conf same_network use_cpu main_process_ip "
     "main_process_port gpu_ids quiet q cpu tee t log_dir role max_restarts monitor_interval "
     "module m no_python num_cpu_threads_per_process mpirun_config mpirun_* commands command_file "
     "tpu_name tpu_zone tpu_use_cluster tpu_use_sudo tpu_vm tpu_env tpu_cluster no_tpu_cluster "
     "tpu vm env aws_access_key_id aws_secret_access_key fsdp_config deepspeed_config "
     "parallelism_config megatron_lm_config dynamo_config fp8_config use_xpu ipex_config "
     "ipex_config.* sagemaker_* num_processes_per_node use_parallelism_config"},
    {List::kNoEffect,
     "fsdp_cpu_ram_efficient_loading fsdp_state_dict_type fsdp_sync_module_states "
     "fsdp_use_orig_params fsdp_ignored_modules fsdp_limit_all_gathers fsdp_xla fsdp_xla_*"},
    {List::kDefault, "fsdp_transformer_layer_cls_to_wrap fsdp_transformer_cls_names_to_wrap"},
    {List::kNoEquivalent, "fsdp_auto_wrap_policy",
     "units of FSDP: without those of blocks, more weights are gathered at once",
     "TRANSFORMER_BASED_WRAP"},
    {List::kNoEquivalent, "fsdp_min_num_params", "units of FSDP by their size; here by use",
     "100000000"},
    {List::kNoEquivalent, "fsdp_backward_prefetch",
     "when the next unit is gathered in the backward; here --prefetch",
     "BACKWARD_PRE NO_PREFETCH 1"},
    {List::kDefault, "fsdp_forward_prefetch"},
    {List::kNoEquivalent, "dynamo_backend dynamo_use_regional_compilation",
     "fused kernels of theirs take less time and memory; a plan has its own", "no eager"},
    {List::kNoEffect, "dynamo_mode dynamo_use_fullgraph dynamo_use_dynamic dynamo_*"},
    {List::kNoEffect,
     "zero3_init_flag zero3_save_16bit_model offload_optimizer_nvme_path offload_param_nvme_path "
     "deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher "
     "deepspeed_moe_layer_cls_names deepspeed_hostfile"},
    {List::kNoEquivalent, "seq_parallel_communication_data_type",
     "gradients are exchanged in 2 bytes each; here in f32", "fp32"},
    {List::kNoEquivalent, "fp8_*",
     "products in fp8: half the bytes of operands, up to twice the rate"},
    {List::kNoEffect,
     "parallelism_config_cp_backend parallelism_config_sp_backend "
     "parallelism_config_sp_attn_implementation parallelism_config_sp_seq_length_is_variable"},
    {List::kNoEffect,
     "megatron_lm_no_load_optim megatron_lm_no_save_optim megatron_lm_eod_mask_loss "
     "megatron_lm_calculate_per_token_loss megatron_lm_attention_softmax_in_fp32 "
     "megatron_lm_attention_backend"},
    {List::kNoEquivalent, "megatron_lm_use_custom_fsdp", "another FSDP, of Megatron's own"},
    {List::kNoEquivalent, "megatron_lm_use_precision_aware_optimizer",
     "states of other precisions than f32"},
    {List::kNoEquivalent, "megatron_lm_overlap_cpu_optimizer_d2h_h2d",
     "copies of the update on the host overlap it"},
    {List::kNoEffect, "megatron_lm_use_rotary_position_embeddings"},
};

}  // namespace

std::span<const ListedKeys> AccelerateLists() { return kAccelerateKeys; }

}  // namespace oneflow::foreign
