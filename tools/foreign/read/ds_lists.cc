// Keys of DeepSpeed's JSON that no reader asks for.
#include "tools/foreign/read/ds_config.h"

namespace oneflow::foreign {
namespace {

constexpr ListedKeys kDeepSpeedKeys[] = {
    {List::kNoEffect,
     "steps_per_print wall_clock_breakdown memory_breakdown dump_state log_level "
     "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer tensorboard tensorboard.enabled "
     "tensorboard.output_path tensorboard.job_name wandb wandb.enabled wandb.group wandb.team "
     "wandb.project csv_monitor csv_monitor.enabled csv_monitor.output_path csv_monitor.job_name "
     "comet comet.enabled comet.samples_log_interval comet.project comet.workspace comet.api_key "
     "comet.experiment_name comet.experiment_key comet.online comet.mode flops_profiler "
     "flops_profiler.* comms_logger comms_logger.enabled comms_logger.verbose "
     "comms_logger.prof_all comms_logger.debug comms_logger.prof_ops autotuning autotuning.* "
     "checkpoint checkpoint.* nebula nebula.* datastates.* aio aio.* timers.* monitor_config.* "
     "dataloader_drop_last vocabulary_size disable_allgather managed_gradient_accumulation "
     "prescale_gradients gradient_predivide_factor gradient_allreduce_op graph_harvesting "
     "use_data_before_expert_parallelism data_parallel_group data_efficiency.seed "
     "data_efficiency.enabled curriculum_learning.enabled deepspeed"},
    {List::kNoEffect,
     "fp16.auto_cast fp16.loss_scale_window fp16.initial_scale_power fp16.hysteresis "
     "fp16.consecutive_hysteresis fp16.min_loss_scale fp16.fp16 fp16.type fp16.opt_level "
     "bf16.immediate_grad_update bf16.check_grad_overflow bf16.check_overflow "
     "bfloat16.immediate_grad_update amp.opt_level amp.* torch_autocast.dtype "
     "torch_autocast.enabled torch_autocast.lower_precision_safe_modules data_types.param_dtype "
     "data_types.buffer_dtype"},
    {List::kDefault,
     "zero_optimization.overlap_comm zero_optimization.contiguous_gradients "
     "zero_optimization.reduce_scatter zero_optimization.allgather_partitions "
     "zero_optimization.use_multi_rank_bucket_allreduce zero_optimization.memory_efficient_linear "
     "zero_optimization.offload_optimizer.pin_memory zero_optimization.offload_param.pin_memory "
     "zero_optimization.cpu_offload_use_pin_memory"},
    {List::kNoEffect,
     "zero_optimization.load_from_fp32_weights zero_optimization.elastic_checkpoint "
     "zero_optimization.ignore_unused_parameters zero_optimization.legacy_stage1 "
     "zero_optimization.round_robin_gradients zero_optimization.grad_hooks "
     "zero_optimization.stage3_gather_16bit_weights_on_model_save "
     "zero_optimization.stage3_gather_fp16_weights_on_model_save "
     "zero_optimization.gather_16bit_weights_on_model_save "
     "zero_optimization.pipeline_loading_checkpoint zero_optimization.override_module_apply "
     "zero_optimization.log_trace_cache_warnings zero_optimization.enable_sanity_checks "
     "zero_optimization.save_muon_momentum_buffer_in_memory zero_optimization.leaf_module.* "
     "zero_optimization.offload_optimizer.nvme_path zero_optimization.offload_param.nvme_path "
     "zero_optimization.offload_optimizer.buffer_count "
     "zero_optimization.offload_param.buffer_count "
     "zero_optimization.offload_optimizer.fast_init zero_optimization.offload_param.max_in_cpu "
     "zero_optimization.offload_optimizer.pipeline_read "
     "zero_optimization.offload_optimizer.pipeline_write "
     "zero_optimization.offload_optimizer.pipeline "
     "zero_optimization.offload_optimizer.cpuadam_cores_perc "
     "zero_optimization.stage3_module_granularity_threshold "
     "zero_optimization.module_granularity_threshold "
     "zero_optimization.stage3_use_all_reduce_for_fetch_params "
     "zero_optimization.use_all_reduce_for_fetch_params "
     "zero_optimization.offload_optimizer zero_optimization.offload_param"},
    {List::kNoEquivalent,
     "zero_optimization.reduce_bucket_size zero_optimization.allgather_bucket_size "
     "zero_optimization.allgather_size allgather_size",
     "buffers of as many elements; here an exchange has its own bytes (--bucket_bytes)",
     "auto 5e8"},
    {List::kNoEquivalent,
     "zero_optimization.stage3_max_live_parameters zero_optimization.max_live_parameters "
     "zero_optimization.stage3_max_reuse_distance zero_optimization.max_reuse_distance",
     "gathered weights stay until so many are live: up to 2 bytes each; here a block's own",
     "auto 1e9"},
    {List::kNoEquivalent,
     "zero_optimization.stage3_prefetch_bucket_size zero_optimization.prefetch_bucket_size",
     "elements gathered ahead, of ZeRO 3 alone", "auto 5e7"},
    {List::kNoEquivalent,
     "zero_optimization.stage3_param_persistence_threshold "
     "zero_optimization.param_persistence_threshold "
     "zero_optimization.stage3_model_persistence_threshold "
     "zero_optimization.model_persistence_threshold",
     "smaller variables stay replicated: 2 bytes for each of their parameters", "auto 1e5"},
    {List::kNoEquivalent, "zero_optimization.sub_group_size",
     "elements that are updated together, with buffers of as many", "auto 1e9 1e12"},
    {List::kNoEquivalent, "zero_optimization.offload_param.buffer_size",
     "buffers between NVMe and the host", "auto 1e8"},
    {List::kNoEquivalent, "zero_optimization.stage3_allgather_sequential",
     "weights are gathered one by one: less memory, more time"},
    {List::kNoEquivalent,
     "zero_optimization.zero_quantized_weights "
     "zero_optimization.zero_quantized_nontrainable_weights",
     "weights are gathered in 1 byte a parameter in place of 2"},
    {List::kNoEquivalent,
     "zero_optimization.zero_quantized_gradients zero_optimization.zeropp_loco_param "
     "zero_optimization.zeropp_loco_param.*",
     "gradients are exchanged in 0.5 byte a parameter"},
    {List::kNoEquivalent, "zero_optimization.mics_hierarchical_params_gather",
     "weights are gathered within nodes first: other times"},
    {List::kNoEquivalent,
     "zero_optimization.offload_optimizer.super_offload zero_optimization.zenflow "
     "zero_optimization.zenflow.*",
     "the update on the host overlaps the next step"},
    {List::kNoEquivalent, "activation_checkpointing.partition_activations",
     "what is kept is split over the tensor axis: 1 / tensor of its bytes, and a gather a block"},
    {List::kNoEffect,
     "activation_checkpointing activation_checkpointing.contiguous_memory_optimization "
     "activation_checkpointing.number_checkpoints activation_checkpointing.profile "
     "activation_checkpointing.synchronize_checkpoint_boundary activation_checkpointing.*"},
    {List::kNoEquivalent, "communication_data_type seq_parallel_communication_data_type",
     "gradients are exchanged in 2 bytes each; here in f32", "fp32"},
    {List::kNoEquivalent, "fp32_allreduce", "gradients are exchanged in f32, as here", "true"},
    {List::kNoEquivalent, "bf16.bf16_optimizer_states",
     "states of 2 bytes each: 4 bytes a parameter fewer than here"},
    {List::kNoEquivalent, "sparse_gradients", "gradients of embeddings are exchanged by row"},
    {List::kNoEquivalent, "sparse_attention sparse_attention.*",
     "attention to a part of the positions: fewer FLOPs than here"},
    {List::kNoEquivalent, "compression_training.* weight_quantization.* quantize_training.*",
     "weights are quantised or pruned in training; no byte of training fewer"},
    {List::kNoEquivalent, "progressive_layer_drop.*", "layers are dropped at random: fewer FLOPs"},
    {List::kNoEquivalent, "eigenvalue.*", "an analysis beside training"},
    {List::kNoEquivalent, "curriculum_learning.* data_efficiency.*",
     "sequences grow during training: the first steps take less"},
    {List::kNoEquivalent,
     "hybrid_engine.enabled hybrid_engine.max_out_tokens "
     "hybrid_engine.inference_tp_size hybrid_engine.release_inference_cache "
     "hybrid_engine.pin_parameters hybrid_engine.tp_gather_partition_size "
     "hybrid_engine.enable_cuda_graph",
     "texts are generated between steps: memory of the cache"},
    {List::kNoEquivalent, "elasticity elasticity.*",
     "the batch follows the GPUs that there are; a plan has one batch"},
    {List::kNoEquivalent, "compile.deepcompile compile.* compile",
     "kernels and prefetches by a compiler of theirs"},
    {List::kDefault,
     "pipeline.pipe_partitioned pipeline.grad_partitioned pipeline.partition "
     "pipeline.seed_layers pipeline.activation_checkpoint_interval pipeline.*"},
    {List::kNoEffect,
     "tensor_parallel.preset_model tensor_parallel.partition_config.* tensor_parallel.dtype "
     "tensor_parallel.tp_overlap_comm tensor_parallel.tp.tp_grain_size "
     "tensor_parallel.keep_module_on_host tensor_parallel.injection_policy_tuple"},
    {List::kNoEffect,
     "optimizer.legacy_fusion optimizer.params.bias_correction optimizer.params.torch_adam "
     "optimizer.params.amsgrad optimizer.params.freeze_step optimizer.params.cuda_aware "
     "optimizer.params.comm_backend_name optimizer.params.momentum optimizer.params.fused "
     "optimizer.params.max_coeff optimizer.params.min_coeff optimizer.params.coeff_beta "
     "optimizer.params.factor_* optimizer.params.threshold optimizer.params.var_* "
     "optimizer.params.local_step_* optimizer.params.muon_lr optimizer.params.adam_lr "
     "optimizer.params.set_grad_none optimizer.params.nesterov optimizer.params.*"},
    {List::kNoEffect,
     "scheduler.params scheduler.params.last_batch_iteration optimizer.params scheduler optimizer"},
    {List::kNoEquivalent, "scheduler.params.*", "of another course of the learning rate", "auto"},
    {List::kNoEffect,
     "expert_parallel.use_grouped_mm expert_parallel.preset_model expert_parallel.*"},
};

}  // namespace

std::span<const ListedKeys> DeepSpeedLists() { return kDeepSpeedKeys; }

}  // namespace oneflow::foreign
