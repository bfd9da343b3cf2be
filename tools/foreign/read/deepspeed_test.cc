#include <catch2/catch.hpp>

#include "tools/foreign/read/read_for_test.h"

namespace oneflow::foreign {
namespace {

const std::string kRun = R"(deepspeed --num_nodes 2 --num_gpus 8 run_clm.py \
  --deepspeed ds.json --model_name_or_path model --block_size 1024 \
  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --learning_rate 1e-4 \
  --max_steps 1000 --bf16 --output_dir out --train_file x.json)";

// A run whose JSON has `json` in it.
Facts OfJson(const std::string& json, const std::string& run = kRun) {
  return ReadWell({{"run.sh", run}, {"ds.json", json}, {"model/config.json", kTinyLlama}});
}

Facts OfOwn(const std::string& json, const std::string& words = "", int gpus = 8) {
  return OfJson(json, absl::StrCat("deepspeed --num_gpus ", gpus, " train.py --model model ",
                                   "--seq_len 512 --deepspeed --deepspeed_config ds.json ", words));
}

TEST_CASE("auto is what TrainingArguments say") {
  const Facts facts = OfJson(R"({
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto", "loss_scale_window": 500},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
      "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto",
      "warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
    "zero_optimization": {"stage": 3, "overlap_comm": true, "contiguous_gradients": true,
      "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
      "stage3_param_persistence_threshold": "auto", "sub_group_size": 1e9,
      "stage3_max_live_parameters": 2e9, "stage3_max_reuse_distance": 1e9,
      "stage3_gather_16bit_weights_on_model_save": true},
    "steps_per_print": 2000, "wall_clock_breakdown": false})");
  CHECK(facts.system == "deepspeed");
  CHECK(facts.together_with == std::vector<std::string>{"hf-trainer"});
  CHECK(BrokenText(facts) == "");
  CHECK(AskedText(facts) == "");
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 16, 128 = 2 x 4");
  CHECK(ShardText(facts) == "weights in 16 x 1, each use, each micro-batch");
  CHECK(facts.precision.compute == "bf16");
  CHECK(facts.optimizer.learning_rate == 1e-4);
  CHECK(facts.optimizer.schedule == "linear");
  CHECK(facts.optimizer.decay_steps == 1000);
  CHECK(facts.optimizer.warmup_steps == 0);
  CHECK(facts.optimizer.clip == 1);
  CHECK(facts.sequence == 1024);
  CHECK(FindList(facts, "optimizer.params.betas") == "taken");
  CHECK(FindList(facts, "zero_optimization.stage3_prefetch_bucket_size") == "is our default");
  CHECK(FindList(facts, "zero_optimization.stage3_max_live_parameters") == "has no equivalent");
  CHECK(FindList(facts, "zero_optimization.sub_group_size") == "is our default");
  CHECK(NamesIn(facts, List::kUnknown) == "");
}

TEST_CASE("numbers that are not the Trainer's own are a broken rule") {
  const Facts facts = OfJson(R"({"train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": "auto", "bf16": {"enabled": true},
    "zero_optimization": {"stage": 2}})");
  REQUIRE(facts.broken.size() == 1);
  CHECK(BrokenText(facts) ==
        "DeepSpeed's train_micro_batch_size_per_gpu = TrainingArguments' "
        "per_device_train_batch_size: 4 is not 2\n");
  CHECK(facts.broken[0].theirs.find("mismatch TrainingArguments") != std::string::npos);
  CHECK(BrokenText(OfJson(R"({"bf16": {"enabled": false}, "zero_optimization": {"stage": 2}})")) ==
        "DeepSpeed's bf16.enabled = TrainingArguments' bf16: false is not true\n");
}

TEST_CASE("auto without a Trainer is asked about") {
  const Facts facts = OfOwn(R"({"train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}})");
  CHECK(AskedText(facts).find("in place of \"auto\" of") != std::string::npos);
  CHECK(AskedText(facts).find("how many sequences a step takes") != std::string::npos);
  CHECK(BrokenText(facts) == "");
}

TEST_CASE("two numbers of a batch give the third") {
  CHECK(ShapeText(OfOwn(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2})")) ==
        "1 x 1 x 1 x 8, 64 = 2 x 4");
  CHECK(ShapeText(OfOwn(R"({"train_batch_size": 64, "gradient_accumulation_steps": 2})")) ==
        "1 x 1 x 1 x 8, 64 = 4 x 2");
  CHECK(ShapeText(OfOwn(R"({"train_batch_size": 64})")) == "1 x 1 x 1 x 8, 64 = 8 x 1");
  CHECK(ShapeText(OfOwn(R"({"train_micro_batch_size_per_gpu": 3})")) ==
        "1 x 1 x 1 x 8, 24 = 3 x 1");
  CHECK(ShapeText(OfOwn(R"({"train_micro_batch_size_per_gpu": 3,
                            "gradient_accumulation_steps": 5})")) == "1 x 1 x 1 x 8, 120 = 3 x 5");
}

TEST_CASE("contradictions of a batch") {
  const Facts facts = OfOwn(R"({"train_batch_size": 512, "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 2}})",
                            "", 24);
  REQUIRE(facts.broken.size() == 1);
  CHECK(facts.broken[0].numbers == "512 is not 4 x 8 x 24 = 768");
  CHECK(facts.broken[0].theirs.find("512 != 4 * 8 * 24") != std::string::npos);
  CHECK(facts.broken[0].hint ==
        "train_batch_size 768 with 8 micro-batches, or 480 with 5, or 576 "
        "with 6, or data 16 in place of 24");
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 24, 512 = 4 x 8");
  CHECK(facts.broken[0].where.find("ds.json:1") == 0);
  // 100 / 8 / 8 is 1, and 1 x 8 x 8 is not 100.
  CHECK(OfOwn(R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 8})")
            .broken.at(0)
            .numbers == "100 is not 8 x 1 x 8 = 64");
  CHECK(OfOwn(R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 4})")
            .broken.at(0)
            .numbers == "8 is not 4 x 0 x 8 = 0");
}

TEST_CASE("GPUs that nobody says are asked about") {
  const Facts facts = OfJson(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2})",
                             "python train.py --model model --seq_len 512 --deepspeed "
                             "--deepspeed_config ds.json");
  CHECK(AskedText(facts) == "how many GPUs\n");
  CHECK(ShapeText(facts) == "1 x 1 x 1 x ?, 64 = 2 x ?");
}

TEST_CASE("ZeRO with groups") {
  const Facts hpz = OfOwn(R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4, "zero_quantized_weights": true,
      "zero_quantized_gradients": false}})",
                          "", 16);
  CHECK(ShardText(hpz) == "weights in 16 x 1, each use, each micro-batch");
  CHECK(FindList(hpz, "zero_optimization.zero_hpz_partition_size") == "has no equivalent");
  CHECK(FindNote(hpz, "zero_optimization.zero_hpz_partition_size").find("group of 4") !=
        std::string::npos);
  CHECK(FindList(hpz, "zero_optimization.zero_quantized_weights") == "has no equivalent");
  CHECK(FindList(hpz, "zero_optimization.zero_quantized_gradients") == "is our default");
  const Facts mics = OfOwn(R"({"train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 3, "mics_shard_size": 8}})",
                           "", 32);
  CHECK(ShardText(mics) == "weights in 8 x 4, each use, each micro-batch");
  CHECK(BrokenText(OfOwn(R"({"train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 3, "mics_shard_size": 5}})")) ==
        "GPUs must be a multiple of mics_shard_size: 8 is not a multiple of 5\n");
}

TEST_CASE("what rests on the host") {
  const Facts nvme = OfOwn(R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {
    "stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/x", "pin_memory": true},
    "offload_param": {"device": "cpu", "pin_memory": true, "buffer_size": 3e8}},
    "aio": {"block_size": 262144, "queue_depth": 32}})");
  CHECK((nvme.offload.states && nvme.offload.update && nvme.offload.weights));
  CHECK(FindList(nvme, "zero_optimization.offload_optimizer.device") == "has no equivalent");
  CHECK(FindList(nvme, "zero_optimization.offload_param.device") == "taken");
  CHECK(FindList(nvme, "aio.block_size") == "has no effect on a plan");
  const Facts old = OfOwn(R"({"train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 2, "cpu_offload": true}})");
  CHECK((old.offload.states && !old.offload.weights));
  const Facts ignored = OfOwn(R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {
    "stage": 2, "offload_param": {"device": "cpu"}}})");
  CHECK(!ignored.offload.weights);
  CHECK(BrokenText(OfOwn(R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2,
    "offload_optimizer": {"device": "cpu", "ratio": 0.3}}})")) ==
        "offload_optimizer.ratio below 1 needs ZeRO 3: ratio 0.3 with stage 2\n");
}

TEST_CASE("precisions and optimizers") {
  const Facts fp16 = OfOwn(R"({"train_micro_batch_size_per_gpu": 1,
    "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16},
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3}},
    "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000,
      "warmup_num_steps": 100, "cos_min_ratio": 0.1, "warmup_type": "log"}}})");
  CHECK(fp16.precision.compute == "fp16, dynamic loss scale");
  CHECK(fp16.precision.here == "bf16");
  CHECK(FindList(fp16, "fp16.enabled") == "has no equivalent");
  CHECK(fp16.optimizer.name == "adamw");
  CHECK(fp16.optimizer.schedule == "cosine");
  CHECK(*fp16.optimizer.min_learning_rate == Approx(1e-4));
  CHECK(fp16.optimizer.decay_steps == 5000);
  CHECK(fp16.optimizer.beta2 == 0.999);
  CHECK(FindList(fp16, "scheduler.params.warmup_type") == "has no equivalent");
  const Facts lamb = OfOwn(R"({"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0.5,
    "optimizer": {"type": "OneBitLamb", "params": {"lr": 2e-3, "freeze_step": 100}},
    "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3,
      "cycle_first_step_size": 300}},
    "data_types": {"grad_accum_dtype": "fp32"}, "communication_data_type": "fp32"})");
  CHECK(FindList(lamb, "optimizer.type") == "has no equivalent");
  CHECK(lamb.optimizer.schedule == "onecycle");
  CHECK(lamb.optimizer.learning_rate == 1e-3);
  CHECK(lamb.optimizer.clip == 0.5);
  CHECK(FindList(lamb, "communication_data_type") == "is our default");
  CHECK(BrokenText(OfOwn(R"({"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": true},
    "bf16": {"enabled": true}})")) ==
        "bf16 and fp16 exclude each other: bf16.enabled and fp16.enabled are both true\n");
}

TEST_CASE("degrees beside data") {
  const Facts facts = OfOwn(R"({"train_micro_batch_size_per_gpu": 1,
    "tensor_parallel": {"autotp_size": 2}, "sequence_parallel_size": 4,
    "zero_optimization": {"stage": 1}})",
                            "", 16);
  CHECK(ShapeText(facts) == "2 x 1 x 4 x 2, 2 = 1 x 1");
  CHECK(ShardText(facts) == "states in 8 x 1, once a step, once a step");
  const Facts pipe = OfOwn(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
    "zero_optimization": {"stage": 1}, "pipeline": {"seed_layers": true}})",
                           "-p 4");
  CHECK(ShapeText(pipe) == "1 x 4 x 1 x 2, 64 = 2 x 16");
  CHECK(pipe.schedule.name == "1f1b");
  CHECK(pipe.schedule.stage_layers == std::vector<int64_t>{2, 2, 2, 2});
  CHECK(BrokenText(OfOwn(R"({"train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 2}})",
                         "--pipeline_parallel_size 2")) ==
        "a pipeline needs ZeRO 0 or 1: pipe 2 with split gradients\n");
  CHECK(BrokenText(OfOwn(R"({"train_micro_batch_size_per_gpu": 1, "sequence_parallel_size": 3})"))
            .starts_with("GPUs must be a multiple of tensor x pipe x context: 8 is not"));
}

TEST_CASE("keys that DeepSpeed refuses, and those that it drops") {
  const Facts facts = OfOwn(R"({"train_micro_batch_size_per_gpu": 1, "zero_optimisation": true,
    "zero_optimization": {"stage": 2, "overlap_com": true}, "tensorboard": {"enable": true}})");
  CHECK(BrokenText(facts) ==
        "no unknown key in zero_optimization: zero_optimization.overlap_com\n"
        "no unknown key in tensorboard: tensorboard.enable\n");
  CHECK(NamesIn(facts, List::kUnknown) ==
        "zero_optimisation zero_optimization.overlap_com tensorboard.enable");
  CHECK(FindNote(facts, "zero_optimization.overlap_com") ==
        "did you mean zero_optimization.overlap_comm?");
  CHECK(BrokenText(OfOwn(R"({"train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 4}})")) == "zero_optimization.stage is one of 0, 1, 2, 3: 4\n");
}

TEST_CASE("a bad value is an input error that names its place") {
  const absl::StatusOr<Facts> facts = ReadFirst(
      {{"ds.json", "{\"train_batch_size\": 8,\n \"zero_optimization\": {\"stage\": \"two\"}}"}});
  REQUIRE(!facts.ok());
  CHECK(facts.status().message() == "ds.json:2: zero_optimization.stage=two: is no number");
}

TEST_CASE("words of a user's own script") {
  const Facts facts = OfOwn(R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}})",
                            "--gradient_checkpointing --rank_of_things 4 --max_seq_len 256");
  CHECK(FindList(facts, "--rank_of_things") == "has no effect on a plan");
  CHECK(FindNote(facts, "--rank_of_things") == "of the user's own script");
  CHECK(FindList(facts, "--gradient_checkpointing") == "taken");
  CHECK(facts.recompute.here == "full");
  CHECK(facts.sequence == 256);
}

TEST_CASE("words that TrainingArguments do not have") {
  const std::string json = R"({"train_batch_size": "auto", "bf16": {"enabled": "auto"}})";
  const Facts facts = OfJson(json, kRun + " --warmup_step_count 3");
  CHECK(BrokenText(facts) == "no unknown argument: --warmup_step_count\n");
  CHECK(facts.broken[0].theirs ==
        "Some specified arguments are not used by the HfArgumentParser: --warmup_step_count 3");
  CHECK(NamesIn(facts, List::kUnknown) == "--warmup_step_count");
  std::string own = kRun;
  own.replace(own.find("run_clm.py"), 10, "my_sft.py --weight_decy 0.1 --my_word 3");
  const Facts near = OfJson(json, own);
  CHECK(BrokenText(near) == "no unknown argument: --weight_decy\n");
  CHECK(FindList(near, "--my_word") == "has no effect on a plan");
}

TEST_CASE("words that change bytes and have no equivalent") {
  const Facts facts = OfJson(
      R"({"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}})",
      kRun +
          " --optim paged_adamw_8bit --lr_scheduler_type cosine_with_min_lr "
          "--lr_scheduler_kwargs '{\"min_lr\": 1e-6}' --warmup_ratio 0.03 --load_in_4bit true");
  CHECK(FindList(facts, "--optim") == "has no equivalent");
  CHECK(facts.optimizer.name == "paged_adamw_8bit");
  CHECK(facts.optimizer.schedule == "cosine");
  CHECK(facts.optimizer.min_learning_rate == 1e-6);
  CHECK(facts.optimizer.warmup_steps == 30);
  CHECK(FindList(facts, "--lr_scheduler_kwargs") == "taken");
  CHECK(FindList(facts, "--load_in_4bit") == "has no equivalent");
}

TEST_CASE("hosts of the launcher") {
  const std::string json = R"({"train_micro_batch_size_per_gpu": 1})";
  const std::string run =
      "deepspeed --hostfile hosts train.py --model model --seq_len 512 "
      "--deepspeed_config ds.json";
  const auto read = [&](const std::string& hosts, const std::string& command) {
    return ReadWell({{"run.sh", command},
                     {"ds.json", json},
                     {"hosts", hosts},
                     {"model/config.json", kTinyLlama}});
  };
  const Facts same = read("a slots=8\n# b slots=8\nc slots=8\n", run);
  CHECK(same.devices == 16);
  CHECK(same.devices_a_node == 8);
  CHECK(same.devices_from == "hosts: 2 x 8 slots");
  const Facts differ = read("a slots=8\nb slots=4\n", run);
  CHECK(differ.devices == 12);
  CHECK(differ.devices_a_node == 0);
  CHECK(read("a slots=8\nb slots=8\n", "deepspeed --num_gpus 4 " + run.substr(10)).devices == 8);
  CHECK(BrokenText(read("a slots=8\na slots=8\nb 8\n", run)) ==
        "a host stands once in the host file: a\n"
        "a line of the host file is \"NAME slots=N\": b 8\n");
}

TEST_CASE("a file that nobody gave, a model that nobody knows") {
  const Facts facts = ReadWell({{"run.sh", kRun}});
  CHECK(AskedText(facts) ==
        "which model model is: no folder with a config.json, and no public name that is known\n"
        "what is in ds.json\n");
}

TEST_CASE("DeepSpeed-Chat says stage and offload in words") {
  const Facts facts = ReadWell(
      {{"run.sh",
        "deepspeed -i a:0,1@b:0,1 main.py --model_name_or_path model --max_seq_len 128 "
        "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --num_warmup_steps 0 "
        "--zero_stage 3 --offload --dtype bf16 --deepspeed --output_dir o"},
       {"model/config.json", kTinyLlama}});
  CHECK(AskedText(facts).empty());
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 4, 32 = 2 x 4");
  CHECK(facts.devices_a_node == 2);
  CHECK(ShardText(facts) == "weights in 4 x 1, each use, each micro-batch");
  CHECK((facts.offload.states && facts.offload.update && facts.offload.weights));
  CHECK(FindList(facts, "--offload") == "taken");
}

TEST_CASE("values that DeepSpeed does not have") {
  const auto read = [](const std::string& more) {
    return ReadWell({{"run.sh",
                      "deepspeed --num_gpus 8 t.py --model model --seq_len 128 "
                      "--deepspeed_config ds.json"},
                     {"ds.json", R"({"train_batch_size": 8, )" + more + "}"},
                     {"model/config.json", kTinyLlama}});
  };
  const auto broken = [&](const std::string& more) { return BrokenText(read(more)); };
  CHECK(broken(R"("optimizer": {"type": "AdmW", "params": {"lr": 1e-4}})") ==
        "optimizer.type is one that DeepSpeed or torch.optim has: AdmW\n");
  CHECK(broken(R"("optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "wd": 0.1}})") ==
        "no unknown key in optimizer.params: optimizer.params.wd\n");
  CHECK(broken(R"("scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 1}})") ==
        "WarmupDecayLR needs total_num_steps: there is none\n");
  CHECK(broken(R"("zero_optimization": {"stage": 3, "offload_param": {"device": "disk"}})") ==
        "offload_param.device is none, cpu or nvme: disk\n");
  // WarmupLR has a rate of its own.
  const Facts rate = read(R"("optimizer": {"type": "Adam", "params": {"lr": 1e-4}},
                             "scheduler": {"type": "WarmupLR", "params": {}})");
  CHECK(rate.optimizer.learning_rate == 1e-3);
  CHECK(NamesIn(rate, List::kUnknown).empty());
}

}  // namespace
}  // namespace oneflow::foreign
