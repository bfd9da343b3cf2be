#include <catch2/catch.hpp>

#include "tools/foreign/read/read_for_test.h"

namespace oneflow::foreign {
namespace {

const std::string kWords =
    " run_clm.py --model_name_or_path model --block_size 512 "
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 "
    "--max_steps 100 --output_dir out --train_file x.json ";

// A run whose accelerate file has `yaml` in it.
Facts OfYaml(const std::string& yaml, const std::string& flags = "",
             const std::string& words = kWords) {
  return ReadWell(
      {{"run.sh", absl::StrCat("accelerate launch --config_file a.yaml ", flags, words)},
       {"a.yaml", yaml},
       {"ds.json", R"({"bf16": {"enabled": "auto"}, "train_batch_size": "auto",
                     "zero_optimization": {"stage": 3}, "gradient_clipping": "auto"})"},
       {"fsdp.json", R"({"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
                     "activation_checkpointing": true, "backward_prefetch": "backward_pre"})"},
       {"model/config.json", kTinyLlama}});
}

const std::string kFsdp =
    "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\n"
    "mixed_precision: bf16\nmachine_rank: 0\n";

TEST_CASE("strategies of FSDP 1") {
  const auto of = [](const std::string& strategy) {
    return ShardText(OfYaml(kFsdp + "fsdp_config:\n  fsdp_sharding_strategy: " + strategy + "\n"));
  };
  CHECK(of("FULL_SHARD") == "weights in 16 x 1, each use, once a step");
  CHECK(of("1") == "weights in 16 x 1, each use, once a step");
  CHECK(of("SHARD_GRAD_OP") == "weights in 16 x 1, once a step, once a step");
  CHECK(of("HYBRID_SHARD") == "weights in 8 x 2, each use, once a step");
  CHECK(of("HYBRID_SHARD_ZERO2") == "weights in 8 x 2, once a step, once a step");
  CHECK(of("NO_SHARD") == "none in 1 x 1, , once a step");
  CHECK(BrokenText(OfYaml(kFsdp + "fsdp_config:\n  fsdp_sharding_strategy: FULL_SHRD\n")) ==
        "the sharding strategy is one that FSDP has: FULL_SHRD\n");
}

TEST_CASE("FSDP 2") {
  const Facts facts = OfYaml(kFsdp + R"(fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: false
  fsdp_offload_params: true
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
)");
  CHECK(facts.system == "accelerate");
  CHECK(BrokenText(facts) == "");
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 16, 128 = 2 x 4");
  CHECK(ShardText(facts) == "weights in 16 x 1, each micro-batch, once a step");
  CHECK((facts.offload.states && facts.offload.weights && facts.offload.update));
  CHECK(facts.recompute.here == "full");
  CHECK(facts.precision.compute == "bf16");
  CHECK(facts.devices_a_node == 8);
  CHECK(NamesIn(facts, List::kUnknown) == "");
  CHECK(FindList(facts, "fsdp_config.fsdp_state_dict_type") == "has no effect on a plan");
  CHECK(FindList(facts, "fsdp_config.fsdp_auto_wrap_policy") == "is our default");
  CHECK(BrokenText(OfYaml(kFsdp + "fsdp_config: {fsdp_version: 2, "
                                  "fsdp_reshard_after_forward: FULL_SHARD}\n")) ==
        "reshard_after_forward of FSDP 2 is true or false: FULL_SHARD\n");
}

TEST_CASE("parallelism_config") {
  const std::string fsdp = kFsdp + "fsdp_config: {fsdp_version: 2}\n";
  const Facts facts = OfYaml(fsdp + R"(parallelism_config:
  parallelism_config_dp_replicate_size: 2
  parallelism_config_dp_shard_size: 2
  parallelism_config_tp_size: 2
  parallelism_config_cp_size: 2
  parallelism_config_cp_comm_strategy: allgather
)");
  CHECK(ShapeText(facts) == "2 x 1 x 2 x 4, 32 = 2 x 4");
  CHECK(ShardText(facts) == "weights in 4 x 2, each use, once a step");
  CHECK(BrokenText(facts) == "");
  CHECK(BrokenText(OfYaml(fsdp + "parallelism_config: {parallelism_config_dp_shard_size: 4, "
                                 "parallelism_config_tp_size: 2}\n")) ==
        "num_processes = dp_replicate x dp_shard x tp x cp: 16 is not 1 x 4 x 2 x 1 = 8\n");
  CHECK(BrokenText(OfYaml(fsdp + "parallelism_config: {parallelism_config_dp_shard_size: 1, "
                                 "parallelism_config_cp_size: 4, parallelism_config_sp_size: 4}\n"))
            .starts_with("cp_size and sp_size exclude each other: 4 and 4"));
}

TEST_CASE("DDP, and flags that beat the file") {
  const std::string yaml =
      "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 4\n"
      "mixed_precision: 'no'\ngpu_ids: all\n";
  const Facts facts =
      OfYaml(yaml, "--num_processes 8 --mixed_precision fp16 --main_process_port 1");
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 8, 64 = 2 x 4");
  CHECK(ShardText(facts) == "none in 1 x 1, , once a step");
  CHECK(facts.devices_from == "--num_processes 8");
  CHECK(facts.precision.compute == "fp16, dynamic loss scale");
  CHECK(FindList(facts, "--mixed_precision") == "has no equivalent");
  CHECK(FindList(facts, "--num_processes") == "taken");
  CHECK(FindList(facts, "num_processes") == "taken");
  CHECK(FindList(facts, "gpu_ids") == "has no effect on a plan");
  CHECK(facts.optimizer.learning_rate == 5e-5);
  CHECK(facts.optimizer.schedule == "linear");
  CHECK(OfYaml(yaml, "", kWords + "--bf16").precision.compute == "bf16");
  const Facts fsdp = OfYaml(yaml, "--use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP");
  CHECK(ShardText(fsdp) == "weights in 4 x 1, once a step, once a step");
}

TEST_CASE("DeepSpeed through accelerate") {
  const std::string own =
      "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\n"
      "mixed_precision: bf16\ndeepspeed_config:\n";
  const Facts facts = OfYaml(own + R"(  gradient_accumulation_steps: 4
  gradient_clipping: 1.0
  offload_optimizer_device: cpu
  offload_param_device: none
  zero3_init_flag: false
  zero_stage: 2
)");
  CHECK(BrokenText(facts) == "");
  CHECK(facts.together_with == std::vector<std::string>{"deepspeed", "hf-trainer"});
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 8, 64 = 2 x 4");
  CHECK(ShardText(facts) == "gradients in 8 x 1, once a step, each micro-batch");
  CHECK(facts.offload.states);
  CHECK(facts.precision.compute == "bf16");
  CHECK(FindList(facts, "deepspeed_config.zero_stage") == "taken");
  CHECK(FindList(facts, "deepspeed_config.zero3_init_flag") == "has no effect on a plan");
  CHECK(BrokenText(OfYaml(own + "  gradient_accumulation_steps: 1\n  zero_stage: 3\n")) ==
        "DeepSpeed's gradient_accumulation_steps = TrainingArguments' "
        "gradient_accumulation_steps: 1 is not 4\n");
}

TEST_CASE("DeepSpeed's own file through accelerate") {
  const std::string yaml =
      "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\n"
      "deepspeed_config:\n  deepspeed_config_file: ds.json\n"
      "  zero3_init_flag: true\n";
  const Facts facts = OfYaml(yaml, "", kWords + "--bf16");
  CHECK(BrokenText(facts) == "");
  CHECK(ShardText(facts) == "weights in 8 x 1, each use, each micro-batch");
  CHECK(facts.precision.compute == "bf16");
  CHECK(FindList(facts, "zero_optimization.stage") == "taken");
  CHECK(BrokenText(OfYaml(yaml + "  zero_stage: 3\nmixed_precision: bf16\n", "", kWords + "--bf16"))
            .find("beside deepspeed_config_file the file says nothing that the JSON says: "
                  "deepspeed_config.zero_stage\n") == 0);
}

TEST_CASE("DeepSpeed by a word of TrainingArguments beats accelerate's file") {
  const Facts facts = OfYaml("distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n", "",
                             kWords + "--bf16 --deepspeed ds.json");
  CHECK(facts.system == "accelerate");
  CHECK(BrokenText(facts) == "");
  CHECK(ShardText(facts) == "weights in 8 x 1, each use, each micro-batch");
  CHECK(FindList(facts, "zero_optimization.stage") == "taken");
}

TEST_CASE("gradients that are reduced in each micro-batch") {
  const std::string yaml = kFsdp + "fsdp_config: {fsdp_version: 2}\n";
  const auto of = [&](const std::string& config) {
    return OfYaml(yaml, "", kWords + "--accelerator_config '" + config + "'");
  };
  const Facts facts = of(R"({"gradient_accumulation_kwargs": {"sync_each_batch": true}})");
  CHECK(ShardText(facts) == "weights in 16 x 1, each use, each micro-batch");
  CHECK(FindList(facts, "--accelerator_config") == "taken");
  for (const char* other :
       {R"({"gradient_accumulation_kwargs": {"sync_each_batch": false}})",
        R"({"gradient_accumulation_kwargs": null})", R"({"split_batches": true})", "config.json"}) {
    CHECK(of(other).sharding.reduce == "once a step");
    CHECK(FindList(of(other), "--accelerator_config") == "has no effect on a plan");
  }
}

TEST_CASE("a learning rate that falls by a polynomial") {
  const auto least = [](const std::string& kwargs) {
    return OfYaml(kFsdp + "fsdp_config: {fsdp_version: 2}\n", "",
                  kWords + "--lr_scheduler_type polynomial " + kwargs)
        .optimizer.min_learning_rate;
  };
  CHECK(least("") == 1e-7);
  CHECK(least(R"(--lr_scheduler_kwargs '{"lr_end": 1e-5, "power": 1.0}')") == 1e-5);
}

TEST_CASE("Megatron-LM through accelerate") {
  const Facts facts = OfYaml(R"(distributed_type: MEGATRON_LM
num_machines: 1
num_processes: 8
mixed_precision: bf16
megatron_lm_config:
  megatron_lm_tp_degree: 2
  megatron_lm_pp_degree: 2
  megatron_lm_num_micro_batches: 8
  megatron_lm_sequence_parallelism: true
  megatron_lm_recompute_activations: true
  megatron_lm_use_distributed_optimizer: true
  megatron_lm_gradient_clipping: 1.0
)");
  CHECK(ShapeText(facts) == "2 x 2 x 1 x 2, 32 = 2 x 8");
  CHECK(ShardText(facts) == "states in 2 x 1, once a step, once a step");
  CHECK(facts.sequence_parallel);
  CHECK(facts.recompute.here == "attention");
  CHECK(facts.schedule.stage_layers == std::vector<int64_t>{4, 4});
}

TEST_CASE("contradictions of accelerate's file") {
  CHECK(BrokenText(OfYaml("distributed_type: MULTI_GPU\nnum_machines: 3\nnum_processes: 16\n")) ==
        "num_processes must be a multiple of num_machines: 16 is not a multiple of 3\n");
  const Facts facts = OfYaml("distributed_type: MULTI_GPU\nnum_proceses: 16\nnum_machines: 1\n");
  CHECK(BrokenText(facts) == "no unknown key at the top of accelerate's file: num_proceses\n");
  CHECK(facts.broken[0].hint == "num_processes");
  CHECK(NamesIn(facts, List::kUnknown) == "num_proceses");
  CHECK(AskedText(facts) == "how many GPUs\n");
  CHECK(BrokenText(OfYaml(kFsdp + "fsdp_config: {fsdp_cpu_ram_efficient_loading: true, "
                                  "fsdp_sync_module_states: false}\n")) ==
        "fsdp_cpu_ram_efficient_loading needs fsdp_sync_module_states: true with false\n");
}

TEST_CASE("a script of the user's own") {
  const Facts facts = OfYaml(kFsdp + "fsdp_config: {}\n", "",
                             " train.py --model model --seq_len 128 --batch_size 4 --lr 1e-3");
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 16, 64 = 4 x 1");
  CHECK(facts.together_with.empty());
  CHECK(facts.optimizer.learning_rate == 1e-3);
  CHECK(!facts.optimizer.beta2);
  CHECK(AskedText(OfYaml(kFsdp + "fsdp_config: {}\n", "", " train.py --model model --seq_len 8")) ==
        "how many sequences a step takes\n");
}

TEST_CASE("the Trainer without accelerate's launcher") {
  const auto read = [](const std::string& words) {
    return ReadWell({{"run.sh", "torchrun --nproc_per_node 8" + kWords + words},
                     {"fsdp.json", R"({"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
                       "activation_checkpointing": true})"},
                     {"model/config.json", kTinyLlama}});
  };
  const Facts fsdp = read("--fsdp 'full_shard auto_wrap offload' --fsdp_config fsdp.json --bf16");
  CHECK(fsdp.system == "hf-trainer");
  CHECK(ShardText(fsdp) == "weights in 8 x 1, each use, once a step");
  CHECK(fsdp.offload.weights);
  CHECK(fsdp.recompute.here == "full");
  CHECK(FindList(fsdp, "transformer_layer_cls_to_wrap") == "is our default");
  const Facts ddp = read("--gradient_checkpointing true --optim adamw_torch_fused");
  CHECK(ShardText(ddp) == "none in 1 x 1, , once a step");
  CHECK(ddp.recompute.here == "full");
  CHECK(FindList(ddp, "--optim") == "taken");
  CHECK(ddp.precision.compute == "f32");
}

TEST_CASE("a file of words") {
  const Facts facts = ReadWell({{"run.sh", "torchrun --nproc_per_node 4 src/train.py sft.yaml"},
                                {"sft.yaml",
                                 "model_name_or_path: model\ncutoff_len: 256\n"
                                 "per_device_train_batch_size: 1\nbf16: true\n"
                                 "gradient_accumulation_steps: 8\noutput_dir: x\n"
                                 "learning_rate: 1.0e-5\nlr_scheduler_type: cosine\n"
                                 "warmup_ratio: 0.1\nfinetuning_type: lora\n"
                                 "deepspeed: ds.json\n"},
                                {"ds.json", R"({"train_batch_size": "auto",
                                  "train_micro_batch_size_per_gpu": "auto",
                                  "gradient_accumulation_steps": "auto",
                                  "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 1}})"},
                                {"model/config.json", kTinyLlama}});
  CHECK(facts.system == "deepspeed");
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 4, 32 = 1 x 8");
  CHECK(facts.sequence == 256);
  CHECK(facts.optimizer.learning_rate == 1e-5);
  CHECK(FindList(facts, "finetuning_type") == "has no equivalent");
}

TEST_CASE("axolotl's file, with options of FSDP inside") {
  const Facts facts =
      ReadWell({{"run.sh", "accelerate launch --num_processes 4 -m axolotl.cli.train a.yml"},
                {"a.yml",
                 "base_model: model\nmodel_type: LlamaForCausalLM\n"
                 "tokenizer_type: AutoTokenizer\nliger_rope: true\n"
                 "sequence_len: 128\nsample_packing: true\n"
                 "gradient_accumulation_steps: 2\nmicro_batch_size: 3\n"
                 "optimizer: adamw_torch_fused\nlr_scheduler: cosine\n"
                 "learning_rate: 2e-5\nflash_attention: true\noutput_dir: o\n"
                 "fsdp:\nfsdp_config:\n"},
                {"model/config.json", kTinyLlama}});
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 4, 24 = 3 x 2");
  CHECK(facts.sequence == 128);
  CHECK(FindList(facts, "liger_rope") == "has no equivalent");
  CHECK(FindList(facts, "flash_attention") == "is our default");
  CHECK(FindList(facts, "sample_packing") == "has no effect on a plan");
}

TEST_CASE("an object of FSDP's options in a file of words") {
  const Facts facts = ReadWell({{"run.sh", "torchrun --nproc_per_node 8 train.py w.yaml"},
                                {"w.yaml",
                                 "model_name_or_path: model\nblock_size: 128\noutput_dir: o\n"
                                 "per_device_train_batch_size: 1\nfsdp: full_shard auto_wrap\n"
                                 "fsdp_config:\n  fsdp_state_dict_type: FULL_STATE_DICT\n"
                                 "  fsdp_activation_checkpointing: true\n  forward_prefetch: true\n"
                                 "use_galore: true\npure_bf16: true\n"},
                                {"model/config.json", kTinyLlama}});
  CHECK(FindList(facts, "fsdp_config.fsdp_state_dict_type") == "has no effect on a plan");
  CHECK(FindList(facts, "fsdp_config.fsdp_activation_checkpointing") == "taken");
  CHECK(FindList(facts, "fsdp_config.forward_prefetch") == "is our default");
  CHECK(FindList(facts, "use_galore") == "has no equivalent");
  CHECK(FindList(facts, "pure_bf16") == "has no equivalent");
  CHECK(facts.recompute.here == "full");
}

TEST_CASE("values that accelerate does not have") {
  const auto broken = [](const std::string& type, const std::string& precision) {
    return BrokenText(ReadWell({{"a.yaml",
                                 "compute_environment: LOCAL_MACHINE\n"
                                 "num_processes: 8\nnum_machines: 1\n"
                                 "distributed_type: " +
                                     type + "\nmixed_precision: " + precision + "\n"}}));
  };
  CHECK(broken("FSPD", "bf16") == "distributed_type is one that accelerate has: FSPD\n");
  CHECK(broken("MULTI_GPU", "bfloat16") == "mixed_precision is no, fp16, bf16 or fp8: bfloat16\n");
  CHECK(broken("'NO'", "no").empty());
}

}  // namespace
}  // namespace oneflow::foreign
