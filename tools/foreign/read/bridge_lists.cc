// Settings of Megatron-Bridge and NeMo beside Megatron's own: megatron/bridge/training/config.py
// and nemo/collections of releases from 2023 to August 2026.
#include "tools/foreign/read/bridge_parts.h"

namespace oneflow::foreign {
namespace {

using enum List;

constexpr ListedKeys kBridgeLists[] = {
    {kNoEffect,
     "profiling.* ft.* straggler.* nvrx_straggler.* inprocess_restart.* tensor_inspect.* "
     "rerun_state_machine.* env_vars* optimizer_config_override_provider* _target_ "
     "parallel_output scatter_embedding_sequence_parallel use_transformer_engine_full_layer_spec "
     "dense_grouped_gemm transformer_layer_spec transformer_layer_spec.* hf_model_id "
     "hf_model_revision restore_modelopt_state use_arbitrary_attention_mask generation_config "
     "generation_config.* check_optimizer_step_success skip_sync_grad_norm_across_mp "
     "lr_decay_steps lr_warmup_steps"},
    {kNoEffect,
     "dataset.random_seed random_seed blend blend.* blend_per_split split_matrix path_to_cache "
     "mmap_bin_files mock tokenizer tokenizer.* fast_cache_load defer_npy_index_mmap "
     "create_attention_mask drop_last_partial_validation_sequence add_extra_token_to_sequence "
     "dataset.data_parallel_size dataset.sequence_parallel_size dataset.hybrid_context_parallel "
     "dataset.context_parallel_size sequences_per_dataset token_dtype_code "
     "sft_mock_dataset_config_json varlen_mock_dataset_config_json varlen_sbhd_validation "
     "data_sharding pin_memory drop_last persistent_workers dataloader_save dataloader_load "
     "skip_train_metrics_log mlflow_* comet_* use_tokenizer_vocab_size hf_tokenizer_kwargs "
     "hf_tokenizer_kwargs.* sp_tokenizer_kwargs chat_template_path tokenizer_prompt_format "
     "image_tag_type force_system_message storage_writers_per_rank async_write_results_mp_mode "
     "custom_manager_class also_save_hf_checkpoint hf_source_path hf_trust_remote_code "
     "hf_distributed_save hf_save_every_n_ranks external_gpu_device_mapping "
     "enable_megatron_core_experimental use_decentralized_pg eval_context_parallel_size "
     "source.* enable_offline_packing enable_in_batch_packing offline_packing_specs* "
     "autocast_enabled wandb_* tensorboard_* tp_comm_overlap_cfg tp_comm_overlap_cfg.*"},
    {kNoEquivalent, "inter_document_masking",
     "documents of a sample do not see each other: write --documents"},
    {kNoEquivalent, "logit_dtype", "logits in another type: their bytes", "float32"},
    {kNoEquivalent, "seq_len_interpolation_factor",
     "positions are interpolated: the same bytes and time", "1"},
    {kNoEquivalent, "finetune_lr", "a rate of fine-tuning: numbers, no bytes"},
    {kNoEquivalent, "num_epochs max_steps",
     "the length of the run follows from the data: no bytes and no time of a step"},
    {kNoEquivalent, "fp32", "all in f32: write --precision=f32, twice the bytes of activations"},
    {kNoEquivalent, "peft peft.*",
     "adapters are trained and the weights are not: fewer bytes of states"},
    // NeMo 1.
    {kNoEffect,
     "name restore_from_path defaults hydra.* exp_manager.* run.* trainer.accelerator "
     "trainer.logger trainer.enable_checkpointing trainer.use_distributed_sampler "
     "trainer.replace_sampler_ddp trainer.max_epochs trainer.max_time trainer.log_every_n_steps "
     "trainer.val_check_interval trainer.limit_val_batches trainer.limit_test_batches "
     "trainer.limit_train_batches trainer.accumulate_grad_batches trainer.benchmark "
     "trainer.enable_model_summary trainer.enable_progress_bar trainer.num_sanity_val_steps "
     "trainer.check_val_every_n_epoch trainer.callbacks* trainer.fast_dev_run model.data.* "
     "model.tokenizer.* model.nsys_profile.* megatron_timer_kwargs.* mcore_gpt pre_process "
     "post_process use_scaled_init_method do_layer_norm_weight_decay attention_type "
     "normalize_attention_scores get_attention_mask_from_fusion native_amp_init_scale "
     "native_amp_growth_interval megatron_amp_O2 grad_allreduce_chunk_size_mb grad_div_ar_fusion "
     "resume_from_checkpoint onnx_safe apex_transformer_log_level gradient_as_bucket_view "
     "sync_batch_comm nccl_communicator_config_path transformer_engine use_flash_attention "
     "reduce_amax use_emha enable_megatron_timers gc_interval name ub_tp_comm_overlap_cfg "
     "model.ub_tp_comm_overlap_cfg.* dist_ckpt_format dist_ckpt_parallel_save "
     "dist_ckpt_parallel_load dist_ckpt_load_on_device dist_ckpt_parallel_dist_opt "
     "dist_ckpt_torch_dist_multiproc dist_ckpt_load_strictness async_save sharp tp_comm_overlap "
     "tp_comm_atomic_ag tp_comm_atomic_rs precision target nemo_version "
     "model.optim.bucket_cap_mb model.optim.overlap_grad_sync model.optim.overlap_param_sync "
     "model.optim.contiguous_grad_buffer model.optim.contiguous_param_buffer "
     "model.optim.grad_sync_dtype model.optim.dtype model.optim.grad_allreduce_in_fp32 "
     "model.optim.overlap_param_gather_with_optimizer_step model.optim.align_param_gather "
     "fsdp_sharded_checkpoint fsdp_grad_reduce_dtype defaults[* s3_checkpointing.* "
     "restore_from_ckpt reset_lr reset_lr_steps validation_param_sync_overlap dist_ckpt_* "
     "model.megatron_timer_kwargs.*"},
    {kNoEquivalent, "fsdp", "weights are split by PyTorch's FSDP"},
    {kNoEquivalent, "model.mcore_customization_config.* apply_embedding_scaling",
     "blocks of another kind: the same bytes and about the same time"},
    {kNoEquivalent, "teacher.* model.teacher.* kd_config.* model.kd_config.*",
     "a teacher runs beside the model: its weights, and a forward more a micro-batch"},
    {kNoEquivalent, "freeze_*", "frozen weights: fewer bytes of gradients and states"},
    {kNoEquivalent, "model.optim.sched.constant_steps optim.lr_scheduler.constant_steps",
     "steps at the least learning rate at the end: numbers, no bytes"},
    {kNoEquivalent, "ffn_dropout", "dropout within the MLP: a mask of its activations"},
    {kNoEquivalent, "headscale transformer_block_type", "blocks of another kind", "pre_ln"},
    {kNoEquivalent, "fp8_e4m3", "products in FP8"},
    {kDefault, "fp8_hybrid"},
    {kNoEquivalent, "activations_checkpoint_layers_per_pipeline",
     "fewer blocks are recomputed in later stages: bytes and time by stage", ""},
    // NeMo 2.
    {kNoEffect,
     "log.* resume.* data.* optim.* trainer.strategy.* trainer.plugins.* trainer.precision "
     "ckpt_* gradient_as_bucket_view progress_interval"},
};

}  // namespace

std::span<const ListedKeys> BridgeLists() { return kBridgeLists; }

}  // namespace oneflow::foreign
