// Settings of TrainingArguments (transformers 4 and 5), and of the public scripts around it, that
// no reader asks for.
#include "tools/foreign/read/hf_trainer.h"

namespace oneflow::foreign {
namespace {

constexpr ListedKeys kTrainingArguments[] = {
    {List::kNoEffect,
     "output_dir overwrite_output_dir do_train do_eval do_predict eval_strategy "
     "evaluation_strategy prediction_loss_only per_device_eval_batch_size "
     "per_gpu_eval_batch_size eval_accumulation_steps eval_delay torch_empty_cache_steps "
     "num_train_epochs log_level log_level_replica log_on_each_node logging_dir "
     "logging_strategy logging_first_step logging_steps logging_nan_inf_filter save_strategy "
     "save_steps save_total_limit save_safetensors save_on_each_node save_only_model "
     "restore_callback_states_from_checkpoint enable_jit_checkpoint seed data_seed local_rank "
     "bf16_full_eval fp16_full_eval ddp_backend ddp_timeout ddp_broadcast_buffers "
     "ddp_find_unused_parameters ddp_static_graph debug dataloader_drop_last eval_steps "
     "dataloader_num_workers dataloader_prefetch_factor dataloader_pin_memory "
     "dataloader_persistent_workers dataloader_in_order dataloader_multiprocessing_context "
     "past_index run_name project trackio_space_id trackio_bucket_id trackio_static_space_id "
     "disable_tqdm remove_unused_columns label_names load_best_model_at_end "
     "metric_for_best_model greater_is_better ignore_data_skip accelerator_config "
     "group_by_length length_column_name train_sampling_strategy report_to "
     "skip_memory_metrics use_legacy_prediction_loop push_to_hub resume_from_checkpoint "
     "hub_model_id hub_strategy hub_token hub_private_repo hub_always_push hub_revision "
     "push_to_hub_model_id push_to_hub_organization push_to_hub_token "
     "gradient_checkpointing_kwargs activation_checkpointing_kwargs "
     "gradient_checkpointing_kwargs.* "
     "include_inputs_for_metrics include_for_metrics eval_do_concat_batches jit_mode_eval "
     "full_determinism ray_scope include_tokens_per_second include_num_input_tokens_seen "
     "batch_eval_metrics eval_on_start eval_use_gather_object average_tokens_across_devices "
     "use_cache dispatch_batches split_batches fp16_backend half_precision_backend "
     "fp16_opt_level tpu_num_cores tpu_metrics_debug no_cuda use_cpu use_mps_device "
     "xpu_backend use_ipex _n_gpu"},
    // Those that readers ask for, so that a misspelt one has a nearest name.
    {List::kTaken,
     "per_device_train_batch_size per_gpu_train_batch_size gradient_accumulation_steps "
     "learning_rate weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm max_steps "
     "lr_scheduler_type lr_scheduler_kwargs warmup_ratio warmup_steps bf16 fp16 optim adafactor "
     "deepspeed fsdp fsdp_config gradient_checkpointing activation_checkpointing "
     "model_name_or_path config_name block_size max_seq_length model_max_length torch_dtype dtype "
     "parallelism_config"},
    {List::kDefault, "ddp_bucket_cap_mb fsdp_transformer_layer_cls_to_wrap"},
    {List::kNoEquivalent, "fsdp_min_num_params", "units of FSDP by their size; here by use"},
    {List::kNoEquivalent, "torch_compile torch_compile_backend torch_compile_mode torchdynamo",
     "fused kernels of theirs take less time and memory; a plan has its own"},
    {List::kNoEquivalent,
     "use_liger_kernel enable_liger_kernel liger_* use_liger liger_kernel_config "
     "liger_kernel_config.*",
     "fused kernels; logits are made in pieces, as --loss_pieces=auto does"},
    {List::kNoEquivalent, "label_smoothing_factor", "another loss; no byte or second"},
    {List::kNoEquivalent, "neftune_noise_alpha", "noise on embeddings; no byte or second"},
    {List::kNoEquivalent, "auto_find_batch_size",
     "the micro-batch is halved until it fits; a plan has one size"},
    {List::kNoEquivalent, "optim_args optim_target_modules", "arguments of another optimizer"},
    {List::kNoEquivalent, "tf32", "products of f32 in TF32 take less time"},
    {List::kNoEquivalent, "mp_parameters sharded_ddp", "another library's parallelism"},
};

constexpr ListedKeys kScriptWords[] = {
    // run_clm.py and those beside it.
    {List::kNoEffect,
     "model_type tokenizer_name cache_dir use_fast_tokenizer model_revision token "
     "use_auth_token trust_remote_code low_cpu_mem_usage dataset_name dataset_config_name "
     "train_file validation_file test_file max_train_samples max_eval_samples streaming "
     "overwrite_cache validation_split_percentage preprocessing_num_workers keep_linebreaks "
     "with_tracking checkpointing_steps no_keep_linebreaks "
     "per_device_eval_batch_size use_slow_tokenizer"},
    {List::kNoEquivalent, "config_overrides",
     "numbers of the model are replaced; say the model with --model"},
    // trl.
    {List::kNoEffect,
     "dataset_config dataset_train_split dataset_test_split dataset_streaming "
     "ignore_bias_buffers chat_template_path dataset_text_field dataset_kwargs dataset_kwargs.* "
     "dataset_num_proc dataset_batch_size eos_token pad_token truncation_mode shuffle_dataset "
     "packing packing_strategy pad_to_multiple_of eval_packing completion_only_loss "
     "assistant_only_loss model_init_kwargs model_init_kwargs.* config"},
    {List::kNoEquivalent, "padding_free",
     "sequences of a micro-batch without padding: fewer positions than here"},
    {List::kNoEquivalent, "loss_type", "another loss; no byte or second", "nll"},
    {List::kNoEquivalent, "attn_implementation",
     "scores of attention are kept: 2 x heads x sequence x sequence bytes or more a block",
     "sdpa flash_attention_2 flash_attention_3 flash_attn_2 fa2 flex_attention "
     "kernels-community/flash-attn2 kernels-community/flash-attn3 "
     "kernels-community/vllm-flash-attn3 kernels-community/flash-attn"},
    {List::kNoEquivalent,
     "use_peft lora_* use_rslora use_dora use_lora peft_* finetuning_type adapter lora_rank "
     "lora_target lora_dropout pissa_init",
     "adapters alone are trained: the other weights have no gradients and no states",
     "full lora_full"},
    {List::kNoEquivalent,
     "load_in_8bit load_in_4bit bnb_4bit_* use_bnb_nested_quant quantization_bit "
     "quantization_method quantize_4bit use_qlora double_quantization",
     "weights of 4 or 8 bits: 0.5 or 1 byte a parameter in place of 2"},
    {List::kNoEquivalent, "activation_offloading",
     "what blocks keep rests on the host: --offload=activations"},
    {List::kNoEquivalent, "router_aux_loss_coef", "the coefficient of the load-balancing loss"},
    {List::kNoEquivalent,
     "use_muon use_galore galore_* use_apollo apollo_* use_badam badam_* use_adam_mini use_lomo "
     "use_q_galore optim_target_modules*",
     "another optimizer: its states have other bytes than the 8 a parameter of AdamW's"},
    {List::kNoEquivalent, "pure_bf16 bf16_full",
     "weights, gradients and states are all in bf16: 8 bytes a parameter in place of 16"},
    {List::kNoEquivalent, "fp8 fp8_* enable_fp8",
     "products in fp8: half the bytes of operands, up to twice the rate"},
    {List::kNoEquivalent, "use_unsloth unsloth_* cut_cross_entropy",
     "fused kernels of theirs take less time and memory; a plan has its own"},
    {List::kNoEquivalent, "qat qat.*", "weights are quantised in training; no byte fewer"},
    {List::kNoEquivalent,
     "freeze_trainable_layers freeze_trainable_modules freeze_extra_modules unfrozen_parameters",
     "some weights alone are trained: the others have no gradients and no states"},
    {List::kDefault, "flash_attention flash_attn sdp_attention"},
    {List::kNoEffect, "neat_packing"},
    // DeepSpeed-Chat and other public scripts.
    {List::kNoEffect,
     "data_path data_split data_output_path sft_only_data_path enable_tensorboard "
     "tensorboard_path print_loss offload_dir eval_interval eval_iters log_interval save "
     "load save_interval data_file data_dir data train_data eval_data wandb_project wandb_name "
     "wandb_entity wandb_run_name use_wandb log_dir checkpoint_dir ckpt_dir save_dir resume "
     "num_workers random_seed epochs num_epochs epoch backend dist_backend master_port "
     "tokenizer tokenizer_path dataset datasets dataset_path dtype_eval"},
    // LLaMA-Factory and axolotl.
    {List::kNoEffect,
     "stage template max_samples overwrite_cache dataset_dir plot_loss include_effective_tokens "
     "val_set_size eval_dataset dataloader_num_workers mask_history train_on_prompt "
     "datasets.* dataset_prepared_path special_tokens.* tokens chat_template evals_per_epoch "
     "saves_per_epoch eval_table_size wandb_* hub_model_id strict local_rank "
     "early_stopping_patience "
     "tokenizer_type model_config_type is_llama_derived_model trust_remote_code xformers_attention "
     "tokenizer_config pad_to_sequence_len sample_packing eval_sample_packing train_on_inputs "
     "auto_resume_from_checkpoints loss_watchdog_threshold loss_watchdog_patience debug "
     "gradient_checkpointing_kwargs.* plugins"},
};

}  // namespace

std::span<const ListedKeys> TrainerLists() { return kTrainingArguments; }
std::span<const ListedKeys> ScriptLists() { return kScriptWords; }

}  // namespace oneflow::foreign
