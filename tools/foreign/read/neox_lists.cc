// Settings of GPT-NeoX that no reader asks for. Those of DeepSpeed's sections are in ds_lists.cc.
#include "tools/foreign/read/neox.h"

namespace oneflow::foreign {
namespace {

constexpr ListedKeys kNeoxKeys[] = {
    {List::kNoEffect,
     "data_path use_shared_fs train_data_paths train_label_data_paths train_reward_data_paths "
     "test_data_paths test_label_data_paths test_reward_data_paths valid_data_paths "
     "valid_label_data_paths valid_reward_data_paths pos_train_data_paths neg_train_data_paths "
     "pos_train_label_data_paths neg_train_label_data_paths pos_valid_data_paths "
     "neg_valid_data_paths pos_valid_label_data_paths neg_valid_label_data_paths "
     "pos_test_data_paths neg_test_data_paths pos_test_label_data_paths neg_test_label_data_paths "
     "train_data_weights valid_data_weights test_data_weights weight_by_num_documents "
     "weighted_sampler_alpha data_impl pack_impl dataset_impl allow_chopped mmap_warmup save "
     "s3_path s3_chunk_size config_files load checkpoint_validation_with_forward_pass "
     "checkpoint_scale checkpoint_factor extra_save_iters no_save_optim no_save_rng no_load_optim "
     "no_load_rng finetune eval_iters keep_last_n_checkpoints eval_interval split vocab_file "
     "merge_file num_workers exit_interval short_seq_prob eod_mask_loss seed onnx_safe "
     "train_epochs"},
    {List::kNoEffect,
     "use_wandb wandb_group wandb_run_name wandb_team wandb_project wandb_host "
     "wandb_init_all_ranks git_hash log_dir tensorboard_dir use_comet comet_workspace "
     "comet_project "
     "comet_experiment_name comet_tags comet_others comet_experiment peak_theoretical_tflops "
     "log_interval log_grad_pct_zeros log_param_norm log_grad_norm log_optimizer_states "
     "log_gradient_noise_scale gradient_noise_scale_n_batches gradient_noise_scale_cpu_offload "
     "memory_profiling memory_profiling_path profile profile_step_start profile_step_stop "
     "char_level_ppl"},
    {List::kNoEffect,
     "distributed_backend local_rank rank lazy_mpu_init adlr_autoresume adlr_autoresume_interval "
     "deepscale deepscale_config deepspeed_mpi deepspeed_slurm user_script iteration do_train "
     "do_valid do_test deepspeed launcher master_port master_addr force_multi autotuning_run "
     "no_ssh_check comment account deepspeed_extra_args detect_nvlink_pairs world_size "
     "is_pipe_parallel ssh_port no_ssh"},
    {List::kNoEffect,
     "text_gen_type precompute_model_name temperature top_p top_k return_logits maximum_tokens "
     "prompt_end sample_input_file sample_output_file num_samples recompute eval_results_prefix "
     "eval_tasks serve_model_weights weight_server_port online_dataserver_ips "
     "online_dataserver_ports"},
    {List::kNoEffect,
     "fused_kernels_build_path init_method init_method_std output_layer_init_method "
     "use_cpu_initialization override_lr_scheduler use_checkpoint_lr_scheduler "
     "rotary_save_freqs_buffer opt_pos_emb_offset synchronize_each_layer profile_backward "
     "hysteresis loss_scale_window min_scale dynamic_loss_scale fp16_lm_cross_entropy "
     "attention_softmax_in_fp32 apply_query_key_layer_scaling rpe_num_buckets rpe_max_distance "
     "deepspeed_activation_checkpointing contiguous_checkpointing output_layer_parallelism "
     "optimizer_type batch_size clip_grad padded_vocab_size zero_stage zero_reduce_scatter "
     "zero_contiguous_gradients zero_reduce_bucket_size zero_allgather_bucket_size lr "
     "moe_jitter_eps moe_lbl_in_fp32 scalenorm_epsilon"},
    {List::kDefault,
     "scaled_upper_triang_masked_softmax_fusion scaled_masked_softmax_fusion bias_gelu_fusion "
     "bias_dropout_fusion rope_fusion layernorm_fusion rmsnorm_fusion use_flashattn_swiglu "
     "pipe_partition_method"},
    {List::kNoEquivalent, "loss_scale", "of fp16; here bf16, which needs none"},
    {List::kNoEquivalent, "partition_activations",
     "what is kept is split over the tensor axis: 1 / tensor of its bytes, and a gather a block"},
    {List::kNoEquivalent, "te_columnparallel te_rowparallel te_layernorm_mlp te_mha te_fp8_mha",
     "kernels of Transformer Engine, with fp8 where fp8 is on"},
    {List::kNoEffect,
     "te_fp8_format te_fp8_wgrad te_fp8_amax_history_len te_fp8_amax_compute_algo te_fp8_margin"},
    {List::kNoEquivalent, "num_unique_layers param_sharing_style",
     "blocks share their variables: fewer parameters", "grouped"},
    {List::kNoEquivalent, "sparsity_config sparsity_config.*",
     "attention to a part of the positions: fewer FLOPs than here"},
    {List::kNoEquivalent, "soft_prompt_tuning soft_prompt_tuning.*",
     "a prompt alone is trained: the other weights have no states"},
    {List::kNoEquivalent, "use_mup coord_check save_base_shapes base_shapes_file mup_*",
     "learning rates and initial values by width; no byte or second"},
    {List::kNoEquivalent, "mamba_* gmlp_attn_dim dim_att head_size ffn_dim",
     "of blocks that are no attention"},
    {List::kNoEquivalent, "use_bnb_optimizer", "states of 1 byte each in place of 4"},
    {List::kNoEquivalent,
     "train_impl dpo_* kto_* kl_impl kl_div_beta fp32_reinforce reinforce_leave_one_out z_loss",
     "another loss, some with a second model", "normal true 0.1 1.0 mse"},
    {List::kNoEffect, "curriculum_seqlen"},
};

}  // namespace

std::span<const ListedKeys> NeoxLists() { return kNeoxKeys; }

}  // namespace oneflow::foreign
