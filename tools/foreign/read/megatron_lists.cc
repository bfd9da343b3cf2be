// Settings of Megatron-LM and of its configuration classes that no reader asks for: what each does
// to a plan. Source: megatron/training/arguments.py, megatron/training/config and
// megatron/core (transformer_config.py, model_parallel_config.py, optimizer_config.py,
// distributed_data_parallel_config.py) of releases from 2024 to August 2026.
#include "tools/foreign/read/megatron_facts.h"

namespace oneflow::foreign {
namespace {

using enum List;

constexpr ListedKeys kLists[] = {
    // Data, records, checkpoints, seeds, processes.
    {kNoEffect,
     "data_path data_args_path per_split_data_args_path data_cache_path train_data_path "
     "valid_data_path test_data_path split mock_data num_workers dataloader_type "
     "dataloader_fast_cache_load dataloader_defer_npy_index_mmap no_mmap_bin_files "
     "num_dataset_builder_threads per_dataset_sequences_path multiple_validation_sets "
     "validation_set_names full_validation mid_level_dataset_surplus renormalize_blend_weights "
     "object_storage_cache_path s3_cache_path allow_ambiguous_pad_tokens vocab_file merge_file "
     "vocab_extra_ids tokenizer_model tokenizer_metadata tokenizer_special_tokens special_tokens "
     "tiktoken_pattern tiktoken_num_special_tokens tiktoken_special_tokens legacy_tokenizer "
     "null_tokenizer_eod_id null_tokenizer_pad_id tokenizer_hf_use_fast tokenizer_hf_no_use_fast "
     "tokenizer_hf_include_special_tokens tokenizer_hf_no_include_special_tokens "
     "tokenizer_sentencepiece_legacy tokenizer_sentencepiece_ignore_extra_whitespaces "
     "trust_remote_code chat_template use_tokenizer_model_from_checkpoint_args "
     "no_use_tokenizer_model_from_checkpoint_args save_tokenizer_assets use_gigatoken fim_data "
     "fim_rate fim_spm_rate fim_split_sample fim_fragment_rate fim_no_prefix fim_prefix_token "
     "fim_middle_token fim_suffix_token fim_pad_token fim_eod_token sample_rate mask_prob "
     "short_seq_prob no_create_attention_mask_in_dataloader create_attention_mask_in_dataloader "
     "seed data_parallel_random_init init_method init_method_std init_method_xavier_uniform "
     "output_layer_init_method embedding_init_method embedding_init_method_std "
     "use_cpu_initialization perform_initialization no_initialization init_model_with_meta_device "
     "lazy_mpu_init te_rng_tracker use_te_rng_tracker inference_rng_tracker deterministic_mode "
     "batch_invariant_mode batch_invariant_backend enable_experimental"},
    {kNoEffect,
     "save load save_interval save_retain_interval most_recent_k persistent_save_interval "
     "no_save_optim no_save_rng no_load_optim no_load_rng save_optim save_rng load_optim load_rng "
     "finetune pretrained_checkpoint use_checkpoint_args use_checkpoint_opt_param_scheduler "
     "override_opt_param_scheduler use_mp_args_from_checkpoint_args ckpt_step ckpt_format "
     "dist_ckpt_format use_dist_ckpt auto_detect_ckpt_format ckpt_convert_format "
     "ckpt_convert_save ckpt_convert_update_legacy_dist_opt_format ckpt_fully_parallel_save "
     "ckpt_fully_parallel_load no_ckpt_fully_parallel_save fully_parallel_save "
     "fully_parallel_load ckpt_fully_parallel_save_process_group "
     "ckpt_fully_parallel_load_process_group ckpt_fully_parallel_load_exchange_algo "
     "ckpt_fully_parallel_load_per_rank_objects ckpt_assume_constant_structure "
     "ckpt_drop_redundant_extra_state ckpt_load_validate_sharding_integrity "
     "ckpt_pg_tensors_cache_create ckpt_pg_tensors_cache_path dist_ckpt_strictness "
     "dist_ckpt_workers dist_ckpt_save_pre_mcore_014 dist_ckpt_optim_fully_reshardable "
     "distrib_optim_fully_reshardable_mem_efficient hetereogenous_dist_checkpoint async_save "
     "async_strategy async_ckpt_cpu_priority async_ckpt_io_priority async_ckpt_use_cpu_shm "
     "use_persistent_ckpt_worker exit_on_missing_checkpoint non_persistent_save_interval "
     "non_persistent_ckpt_type non_persistent_global_ckpt_dir non_persistent_local_ckpt_dir "
     "non_persistent_local_ckpt_algo replication replication_jump replication_factor "
     "verify_integrity strict_fsdp_dtensor_load no_strict_fsdp_dtensor_load "
     "load_main_params_from_ckpt load_model_opt_format override_ckpt_iteration enable_msc "
     "disable_msc consumed_train_samples consumed_valid_samples iterations_to_skip skip_train "
     "result_rejected_tracker_filename"},
    {kNoEffect,
     "eval_interval eval_iters start_eval_at_iter eval_global_batch_size eval_micro_batch_size "
     "test_mode exit_interval exit_duration_in_mins exit_signal exit_signal_handler "
     "exit_signal_handler_for_dataloader exit_signal_handler_for_training log_interval "
     "log_throughput log_throughput_to_tensorboard log_params_norm log_num_zeros_in_grad "
     "log_progress log_energy log_straggler log_device_memory_used log_memory_interval "
     "log_timers_to_tensorboard log_validation_ppl_to_tensorboard log_memory_to_tensorboard "
     "log_world_size_to_tensorboard log_l2_norm_grad_to_tensorboard "
     "log_runtime_to_tensorboard log_loss_scale_to_tensorboard "
     "no_log_loss_scale_to_tensorboard log_max_attention_logit logging_level timing_log_level "
     "timing_log_option throughput_window_size runtime_time_unit memory_keys filter_warnings "
     "modules_to_filter set_level_for_all_loggers tensorboard_dir tensorboard_log_interval "
     "tensorboard_queue_size wandb_project wandb_exp_name wandb_entity wandb_save_dir "
     "no_one_logger enable_one_logger one_logger_project one_logger_run_name one_logger_async "
     "app_tag_run_name "
     "app_tag_run_version config_logger_dir save_config_filepath profile profile_step_start "
     "profile_step_end profile_ranks use_pytorch_profiler use_nsys_profiler nvtx_ranges "
     "record_shapes record_memory_history memory_snapshot_path "
     "pytorch_profiler_collect_callstack pytorch_profiler_collect_chakra "
     "pytorch_profiler_collect_shapes flight_recorder_dump_path flight_recorder_* otel_* "
     "moe_per_layer_logging save_wgrads_interval save_dgrads_interval save_params_interval "
     "save_activations_interval save_tokens_per_expert_interval moe_routing_trace_* "
     "dump_param_to_param_group_map iter_per_epoch adlr_autoresume adlr_autoresume_interval "
     "distributed_backend distributed_timeout_minutes distributed_timeout_seconds_after_init "
     "local_rank rank world_size use_gloo_process_groups disable_gloo_process_groups "
     "nccl_communicator_config_path high_priority_stream_groups fake_process_group "
     "run_workload_inspector_server enable_ft_package calc_ft_timeouts ft_num_warmup_iters "
     "inprocess_* straggler_ctrlr_port straggler_minmax_count disable_straggler_on_startup "
     "rerun_mode error_injection_rate error_injection_type check_for_nan_in_loss_and_grad "
     "no_check_for_nan_in_loss_and_grad check_for_nan_in_loss check_for_nan_in_grad "
     "check_for_spiky_loss check_for_large_grads check_weight_hash_across_dp_replicas_interval "
     "gpu_sniff_test_interval grad_norm_skip_threshold manual_gc manual_gc_interval "
     "manual_gc_eval no_manual_gc_eval train_sync_interval empty_unused_memory_level rerun_*"},
    // Of other programs: inference, reinforcement learning, vision, retrieval.
    {kNoEffect,
     "inference_* rl_* grpo_* langrl_* perform_rl_step refit_method retro_* dino_* bert_* "
     "biencoder_* ict_* retriever_* indexer_* vision_* img_h img_w num_classes num_channels "
     "patch_dim classes_fraction data_per_class_fraction swin_backbone_type mask_type "
     "mask_factor head_lr_mult embedding_path block_data_path evidence_data_path "
     "titles_data_path metadata_path query_in_block_prob use_one_sent_docs output_bert_embeddings "
     "spec cuda_graph_warmup_steps flash_decode decode_only_cuda_graphs enable_chunked_prefill "
     "disable_chunked_prefill mlp_chunks_for_prefill nccl_all_reduce_for_prefill "
     "symmetric_ar_type use_legacy_static_engine cache_mla_latents batch_size "
     "max_tokens_to_oom num_speculative_tokens onnx_safe logits_load_* logits_save_*"},
    // What is so here, too.
    {kDefault,
     "use_mcore_models transformer_impl use_flash_attn attention_backend "
     "flash_attention_version overlap_grad_reduce overlap_param_gather overlap_p2p_comm "
     "overlap_p2p_communication_warmup_flush overlap_p2p_comm_warmup_flush batch_p2p_comm "
     "batch_p2p_sync align_grad_reduce align_param_gather delay_param_gather delay_grad_reduce "
     "tp_comm_overlap tp_comm_overlap_cfg tp_comm_overlap_ag tp_comm_overlap_rs "
     "tp_comm_overlap_rs_dgrad tp_comm_split_ag tp_comm_split_rs tp_comm_atomic_ag "
     "tp_comm_atomic_rs tp_comm_bulk_dgrad tp_comm_bulk_wgrad tp_comm_bootstrap_backend "
     "ddp_bucket_size bucket_size ddp_num_buckets num_buckets average_in_collective "
     "ddp_average_in_collective ddp_pad_buckets_for_high_nccl_busbw "
     "pad_buckets_for_high_nccl_busbw gradient_accumulation_fusion masked_softmax_fusion "
     "bias_activation_fusion bias_gelu_fusion bias_swiglu_fusion bias_dropout_fusion "
     "apply_rope_fusion cross_entropy_loss_fusion cross_entropy_fusion_impl persist_layer_norm "
     "fused_residual_rmsnorm fused_single_qkv_rope use_te_activation_func "
     "use_transformer_engine_op_fuser moe_permute_fusion moe_router_fusion moe_grouped_gemm "
     "moe_use_legacy_grouped_gemm moe_token_dispatcher_type moe_router_dtype "
     "moe_shared_expert_overlap "
     "overlap_moe_expert_parallel_comm deallocate_pipeline_outputs variable_seq_lengths "
     "calculate_per_token_loss no_position_embedding add_position_embedding "
     "decoder_num_layers decoder_seq_length async_tensor_model_parallel_allreduce "
     "scatter_gather_tensors_in_pipeline _cpu_offloading_context rope_fusion "
     "data_parallel_size model_parallel_size yaml_cfg cp_comm_type attention_softmax_in_fp32 "
     "apply_query_key_layer_scaling autocast_dtype enable_autocast params_dtype pipeline_dtype "
     "use_tp_pp_dp_mapping create_all_gather_group standalone_embedding_stage "
     "no_pin_cpu_grads no_pin_cpu_params pin_cpu_grads "
     "pin_cpu_params overlap_cpu_optimizer_d2h_h2d use_torch_optimizer_for_cpu_offload "
     "clone_scatter_output_in_embedding memory_efficient_layer_norm "
     "barrier_with_L1_time no_barrier_with_level_1_timing cpu_offloading_double_buffering "
     "fsdp_double_buffer suggested_communication_unit_size keep_fp8_transpose_cache "
     "fsdp_manual_registration use_nccl_ub nccl_ub disable_symmetric_registration use_sharp "
     "sharp_enabled_group pipeline_model_parallel_comm_backend gradient_reduce_div_fusion "
     "no_gradient_reduce_div_fusion moe_pad_expert_input_to_capacity moe_token_drop_policy "
     "moe_use_upcycling moe_upcycling_granularity openai_gelu "
     "weight_decay_incr_style wgrad_deferral_limit defer_embedding_wgrad_compute "
     "delay_wgrad_compute high_priority_a2a_comm_stream moe_enable_deepep "
     "moe_deepep_num_sms moe_flex_dispatcher_backend moe_flex_dispatcher_num_sms "
     "moe_hybridep_* moe_permute_fusion_into_hybridep moe_apply_probs_on_input "
     "optimizer_cuda_graph store_param_remainders disable_jit_fuser "
     "no_scatter_gather_tensors_in_pipeline first_last_layers_bf16 num_layers_at_start_in_bf16 "
     "num_layers_at_end_in_bf16 fp8_margin fp8_interval moe_router_padding_for_fp8 "
     "moe_router_padding_for_quantization loss_scale_window hysteresis min_loss_scale "
     "initial_loss_scale use_ring_exchange_p2p dataloader_inter_document_masking"},
    // Of Megatron-DeepSpeed and of scripts before 2022.
    {kNoEffect,
     "deepspeed deepspeed_config deepscale deepscale_config deepspeed_mpi data_impl codecarbon_dir "
     "log_batch_size_to_tensorboard log_optimizer_states_to_tensorboard kill_switch_path "
     "train_weighted_split_paths train_weighted_split_paths_path valid_weighted_split_paths "
     "valid_weighted_split_paths_path test_weighted_split_paths test_weighted_split_paths_path "
     "valid_num_workers abort_on_unmet_fused_kernel_constraints tokenizer_name_or_path inference "
     "skip_train_iteration_range universal_checkpoint custom_token_counting ds_inference "
     "ds_pipeline_enabled no_pipeline_parallel train_tokens lr_decay_tokens lr_warmup_tokens "
     "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps "
     "steps_per_print wall_clock_breakdown gradient_clipping zero_optimization.* "
     "data_types.* bf16.* prescale_gradients zero_allow_untested_optimizer "
     "zero_force_ds_cpu_optimizer tensorboard.* flops_profiler.* comms_logger.* "
     "synchronize_each_layer contigious_checkpointing partition_activations profile_backward"},
    {kNoEquivalent, "fp16.*", "fp16 and its loss scaling: here bf16, of the same bytes"},
    {kNoEquivalent, "embed_layernorm sync_tp_duplicated_parameters",
     "a norm behind the table of tokens: 2 rows of weights more"},
    {kNoEquivalent,
     "ds_sequence_parallel_size cpu_optimizer cpu_torch_adam checkpoint_in_cpu remote_device "
     "use_pin_memory mlp_type topk moe_expert_parallel_size moe_min_capacity moe_loss_coeff "
     "moe_train_capacity_factor moe_eval_capacity_factor curriculum_learning.* data_efficiency.* "
     "create_moe_param_group use_tutel",
     "a split, an offload or experts in DeepSpeed's way: see the flags of the same kind here", "1"},
    // Kernels and overlap that is turned off there: here the faster way is taken.
    {kNoEffect,
     "no_masked_softmax_fusion no_bias_gelu_fusion no_bias_swiglu_fusion no_bias_dropout_fusion "
     "no_rope_fusion no_persist_layer_norm no_gradient_accumulation_fusion "
     "no_overlap_p2p_communication no_async_tensor_model_parallel_allreduce no_delay_grad_reduce "
     "no_align_grad_reduce no_align_param_gather no_clone_scatter_output_in_embedding "
     "disable_tp_comm_bulk_dgrad disable_tp_comm_bulk_wgrad disable_tp_comm_overlap_ag "
     "disable_tp_comm_overlap_rs disable_tp_comm_split_ag disable_tp_comm_split_rs "
     "tp_comm_overlap_disable_qkv tp_comm_overlap_disable_fc1 disable_parameter_transpose_cache "
     "DDP_impl no_contiguous_buffers_in_local_ddp no_query_key_layer_scaling "
     "disable_bf16_reduced_precision_matmul moe_router_force_load_balancing "
     "moe_router_force_biased no_data_sharding"},
    {kNoEquivalent,
     "fp8_recipe fp8_amax_history_len fp8_amax_compute_algo fp8_wgrad no_fp8_wgrad "
     "fp8_dot_product_attention fp8_multi_head_attention fp8_output_proj fp8_quantizer_factory "
     "tp_only_amax_red te_precision_config_file quant_recipe",
     "products in FP8: here in bf16, which take up to twice the time"},
    {kNoEquivalent,
     "fp8_param_gather fp8_param fp4_param_gather fp4_param reuse_grad_buf_for_mxfp8_param_ag",
     "weights are kept and gathered in FP8: here in bf16, 1 byte more a parameter that a device "
     "holds, and twice the time of a gather"},
    {kNoEquivalent,
     "fp4_format fp4 fp4_recipe fp4_quantizer_factory kitchen_config_file kitchen_recipe_number "
     "use_kitchen use_kitchen_attention kitchen_attention_backend",
     "products in FP4 or of a library of its own: here in bf16, which take up to four times the "
     "time"},
    {kNoEquivalent, "loss_scale", "fp16 and its loss scaling: here bf16, of the same bytes"},
    {kNoEquivalent, "fp16_lm_cross_entropy",
     "the loss in fp16: here in f32, or in pieces (--loss_pieces)"},
    {kNoEquivalent,
     "use_precision_aware_optimizer main_grads_dtype main_params_dtype exp_avg_dtype "
     "exp_avg_sq_dtype megatron_fsdp_main_params_dtype megatron_fsdp_main_grads_dtype "
     "megatron_fsdp_grad_comm_dtype",
     "states or gradients of fewer bits: here f32, up to 8 bytes more a parameter over the "
     "devices that share them",
     "fp32 float32"},
    {kNoEquivalent, "rampup_batch_size step_batch_size_schedule",
     "a batch that grows: here it is the last one from the beginning; plan each size for itself"},
    {kNoEquivalent, "decrease_batch_size_if_needed",
     "a batch that follows the devices: fixed here"},
    {kNoEquivalent,
     "start_weight_decay end_weight_decay wd_incr_steps decoupled_lr decoupled_min_lr "
     "lr_wsd_decay_style lr_wsd_decay_iters lr_wsd_decay_samples wsd_decay_steps "
     "apply_wd_to_qk_layernorm decoupled_weight_decay no_weight_decay_cond_type sgd_momentum "
     "muon_* adaptive_muon_* soap_* lion_beta1 lion_beta2 use_layer_wise_distributed_optimizer "
     "no_use_layer_wise_param_layout",
     "a schedule or an optimizer of another kind: no bytes and no time but for states other than "
     "AdamW's",
     "1"},
    {kDefault, "fp32_residual_connection"},
    {kNoEquivalent, "layernorm_zero_centered_gamma apply_layernorm_1p",
     "weights of norms count from 1: the same bytes and time, and other numbers in a checkpoint"},
    {kNoEquivalent, "apply_residual_connection_post_layernorm",
     "the residual is taken behind the norm: the same bytes and time"},
    {kNoEquivalent,
     "rotary_interleaved rotary_seq_len_interpolation_factor no_rope_freq "
     "original_max_position_embeddings rotary_scaling_factor rope_type mscale mscale_all_dim "
     "beta_fast beta_slow yarn_* no_yarn_correction_range_round_to_int mrope_section "
     "relative_attention_num_buckets relative_attention_max_distance",
     "positions are computed in another way: the same bytes and time"},
    {kNoEquivalent,
     "softmax_type softmax_scale attention_output_gate qk_l2_norm qk_clip qk_clip_alpha "
     "qk_clip_threshold glu_linear_offset activation_func_clamp_value "
     "activation_func_fp8_input_store window_attn_skip_freq linear_attention_freq "
     "experimental_attention_variant experimental_attention_variant_loss_scale_func dsa_* "
     "linear_*",
     "attention or activations of another kind: here softmax attention of all blocks, of other "
     "time and bytes",
     "vanilla"},
    {kNoEquivalent,
     "mla_down_proj_fusion "
     "mtp_loss_scaling_factor mtp_grad_scale_func mtp_hsm mtp_detach_heads "
     "mtp_hybrid_override_pattern mtp_standalone mtp_use_repeated_layer use_mup mup_* mhc_* "
     "enable_mhc_connections moe_latent_size "
     "heterogeneous_* hybrid_* is_hybrid_model mamba_* disable_mamba_mem_eff_path "
     "use_mamba_mem_eff_path gdp_* moe_shared_expert_gate",
     "blocks of another kind: the plan has those of the nearest model, of other bytes and time"},
    {kNoEquivalent,
     "moe_router_topk_scaling_factor moe_router_num_groups moe_router_group_topk "
     "moe_router_topk_limited_devices moe_input_jitter_eps moe_router_quantile_balancing_ema "
     "moe_enable_routing_replay moe_token_dropping moe_mlp_glu_interleave_size "
     "moe_shared_expert_glu_interleave_size moe_grad_scale_func",
     "another routing of tokens to experts: the same bytes, and exchanges of about the same time",
     "1"},
    {kNoEquivalent,
     "moe_layer_recompute distribute_saved_activations fine_grained_activation_offloading "
     "offload_modules min_offloaded_tensor_size activation_offload_fraction "
     "delta_offload_bytes_across_pp_ranks fine_grained_offloading_max_inflight_offloads "
     "delay_offload_until_cuda_graph num_microbatches_with_partial_activation_checkpoints "
     "moe_paged_stash moe_paged_stash_* gdp_num_chunk_states_to_recompute "
     "mhc_recompute_layer_num ep_overlap_early_attn_memory_release",
     "what is kept for the backward is chosen otherwise: see --recompute and --offload"},
    {kNoEquivalent,
     "encoder_tensor_model_parallel_size encoder_pipeline_model_parallel_size "
     "pipeline_model_parallel_split_rank hierarchical_context_parallel_sizes "
     "hybrid_context_parallel gtp_* expert_gtp_weight_remat_size "
     "tensor_parallel_num_weight_shards expert_tensor_parallel_num_weight_shards moe_extended_tp "
     "outer_dp_sharding_strategy enable_full_sharding_in_hsdp max_seqlen_per_dp_cp_rank",
     "a split of another kind: the plan has none of it, and more bytes a device", "1 no_shard"},
    {kNoEquivalent,
     "cuda_graph_impl enable_cuda_graph external_cuda_graph cuda_graph_scope cuda_graph_modules "
     "cuda_graph_use_single_mempool cuda_graph_retain_backward_graph "
     "megatron_fsdp_cuda_graph_mode",
     "launches of kernels are recorded once: here each is launched, whose time is planned"},
    {kNoEquivalent, "freeze_all_layers sft sft_tokenizer_prompt_format",
     "fine-tuning of frozen weights or of chats: the plan trains all weights"},
    // How it is done there, without a choice here.
    {kNoEffect,
     "overlap_param_gather_with_optimizer_step reduce_scatter_with_fp32_accumulation "
     "ddp_reduce_scatter_with_fp32_accumulation param_name_patterns_for_fp32_local_accumulation "
     "ddp_param_name_patterns_for_fp32_local_accumulation megatron_fsdp_* fsdp_* "
     "keep_fp8_transpose_cache_when_using_custom_fsdp cpu_offloading_retain_pinned_cpu_buffers "
     "use_same_sampling_seed_across_dp_ranks overlap_dispatch_backward_with_experts_wgrad "
     "moe_dispatch_fwd_dtype moe_combine_bwd_dtype moe_expert_rank_capacity_factor "
     "moe_single_grouped_bias moe_single_grouped_weight moe_use_grouped_tensor "
     "moe_pad_experts_for_cuda_graph_inference moe_ncclep_zero_copy use_legacy_models "
     "use_grouped_gemm_for_dense_mlp use_grouped_gemm_for_shared_expert "
     "use_fused_weighted_squared_relu use_inference_optimized_layers mlp_chunks_for_training "
     "output_logit_dtype phase_transition_iterations finalize_model_grads_func grad_scale_func "
     "grad_sync_func no_sync_func param_sync_func timers fn fault_injector_*"},
    // Documents of a sample.
    {kNoEquivalent, "reset_position_ids reset_attention_mask eod_mask_loss",
     "documents of a sample see each other nevertheless: labels or positions alone are their own"},
};

}  // namespace

std::span<const ListedKeys> MegatronLists() { return kLists; }

}  // namespace oneflow::foreign
