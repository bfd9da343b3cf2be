#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tools/foreign/read/read_for_test.h"
#include "tools/foreign/read/torchtitan_parts.h"

namespace oneflow::foreign {
namespace {

using Counts = std::vector<int64_t>;

absl::StatusOr<Facts> TryRead(const std::string& text, const std::string& command,
                              const ForeignInput& input = {}) {
  return ReadBy(TorchtitanReader(), text.starts_with("{") ? "config.json" : "config.toml", text,
                command, input);
}

Facts Read(const std::string& text, const std::string& command, const ForeignInput& input = {}) {
  const absl::StatusOr<Facts> facts = TryRead(text, command, input);
  INFO(facts.status());
  REQUIRE(facts.ok());
  return *facts;
}

const Setting& Find(const Facts& facts, const std::string& name) {
  for (const Setting& setting : facts.settings) {
    if (setting.name == name) return setting;
  }
  FAIL("no setting " << name);
  return facts.settings.front();
}

std::string Toml(const std::string& parallelism, const std::string& training = "",
                 const std::string& model = "8B") {
  return "[model]\nname = \"llama3\"\nflavor = \"" + model +
         "\"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n" + training + "\n[parallelism]\n" +
         parallelism + "\n";
}

std::string Named(const std::string& config, const std::string& words = "", int nodes = 1) {
  return "torchrun --nnodes " + std::to_string(nodes) +
         " --nproc_per_node 8 -m torchtitan.train --module " +
         config.substr(0, config.find("_", config.starts_with("deepseek") ? 9 : 0)) + " --config " +
         config + " " + words;
}

constexpr const char* kRun =
    "torchrun --nproc_per_node 8 -m torchtitan.train "
    "--job.config_file ./config.toml";

TEST_CASE("a file of 2025 says degrees, batch and numbers, its command beats it") {
  const Facts facts = Read(R"(
[job]
description = "x"
[model]
name = "llama3"
flavor = "8B"
[optimizer]
lr = 3e-4
[lr_scheduler]
warmup_steps = 600
decay_ratio = 0.2
min_lr_factor = 0.1
[training]
local_batch_size = 2
global_batch_size = 64
seq_len = 8192
steps = 30_000
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
)",
                           "NGPU=8 CONFIG_FILE=./config.toml ./run_train.sh "
                           "--lr_scheduler.warmup_steps 500 --compile.no-enable");
  CHECK(facts.devices == 8);
  CHECK(facts.degrees.data == 8);
  CHECK(facts.batch.micro_batches == 4);
  CHECK(facts.model.parameters == 8030261248);
  CHECK(facts.model.model->rope_scaling().factor() == 8);
  CHECK(facts.sharding.what == "weights");
  CHECK(facts.sharding.ways == 8);
  CHECK(facts.sharding.gather == "each use");
  CHECK(facts.sharding.reduce == "each micro-batch");
  CHECK(facts.recompute.here == "selective");
  CHECK(facts.precision.here == "bf16");
  CHECK(facts.optimizer.warmup_steps == 500);
  CHECK(facts.optimizer.beta2 == 0.95);
  CHECK(facts.optimizer.min_learning_rate == Approx(3e-5));
  CHECK(!facts.optimizer.decay_steps);
  CHECK(FindList(facts, "lr_scheduler.decay_ratio") == "has no equivalent");
  CHECK(Find(facts, "lr_scheduler.decay_ratio").note.find("step 24000") != std::string::npos);
  CHECK(FindList(facts, "job.description") == "has no effect on a plan");
  CHECK(FindList(facts, "NGPU") == "taken");
  CHECK(FindList(facts, "CONFIG_FILE") == "taken");
  CHECK(FindList(facts, "--compile.no-enable") == "is our default");
  CHECK(Find(facts, "--lr_scheduler.warmup_steps").overrides.starts_with("600"));
  CHECK(facts.broken.empty());
}

TEST_CASE("names of early 2025 mean what the later ones do") {
  const Facts facts = Read(R"(
[model]
name = "llama3"
flavor = "8B"
tokenizer_path = "x"
[lr_scheduler]
lr_min = 0.1
[training]
batch_size = 4
seq_len = 8192
warmup_steps = 100
compile = true
tensor_parallel_degree = 2
data_parallel_shard_degree = -1
[experimental]
context_parallel_degree = 2
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 4
pipeline_parallel_split_points = ["layers.20"]
[float8]
enable_fsdp_float8_all_gather = true
[checkpoint]
enable_checkpoint = true
)",
                           "torchrun --nnodes 2 --nproc_per_node 8 train.py "
                           "--job.config_file config.toml");
  CHECK(facts.degrees.tensor == 2);
  CHECK(facts.degrees.context == 2);
  CHECK(facts.degrees.pipe == 2);
  CHECK(facts.degrees.data == 2);
  CHECK(facts.batch.micro == 1);
  CHECK(facts.batch.micro_batches == 4);
  CHECK(facts.schedule.stage_layers == Counts{20, 12});
  CHECK(facts.optimizer.warmup_steps == 100);
  CHECK(facts.optimizer.min_learning_rate == Approx(8e-5));
  CHECK(FindList(facts, "float8.enable_fsdp_float8_all_gather") == "has no effect on a plan");
  CHECK(facts.broken.empty());
}

TEST_CASE("files of 2024") {
  const auto read = [](const std::string& model, const std::string& training) {
    return Read("[model]\nname = \"" + model +
                    "\"\nflavor = \"7B\"\n[training]\nbatch_size = 8\nseq_len = 4096\n"
                    "fp8_linear = \"\"\ncompile = false\n" +
                    training,
                "torchrun --nnodes 4 --nproc_per_node 8 train.py --job.config_file config.toml");
  };
  const Facts first = read("llama2",
                           "data_parallel_degree = -1\ntensor_parallel_degree = 2\n"
                           "pipeline_parallel_degree = 4\n");
  CHECK(first.broken.empty());
  CHECK(first.model.parameters == 6738415616);
  CHECK(first.degrees.data == 4);
  CHECK(first.sharding.ways == 4);
  CHECK(first.batch.micro == 2);  // as many micro-batches as stages
  CHECK(first.schedule.stage_layers == Counts{8, 8, 8, 8});
  CHECK(FindList(first, "training.data_parallel_degree") == "taken");
  CHECK(FindList(first, "training.fp8_linear") == "is our default");
  const Facts ddp = read("llama2",
                         "data_parallel_degree = -1\ndata_parallel_type = \"ddp\"\n"
                         "enable_loss_parallel = false\n");
  CHECK(ddp.sharding.what == "none");
  CHECK(ddp.degrees.data == 32);
  CHECK(FindList(ddp, "training.enable_loss_parallel") == "has no equivalent");
  CHECK(SplitOldTitanLayers(4, 30) == Counts{7, 8, 8, 7});
}

TEST_CASE("llama3 has scaled rotary positions since October 2025") {
  const auto factor = [](const std::string& batch) {
    const Facts facts = Read("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\n" + batch +
                                 " = 1\nseq_len = 8192\n[float8]\nmoe_fqns = [\"experts\"]\n",
                             "");
    CHECK(facts.broken.empty());
    return facts.model.model->rope_scaling().factor();
  };
  CHECK(factor("batch_size") == 0);
  CHECK(factor("local_batch_size") == 8);
}

TEST_CASE("copies of shards, HSDP, beside tensor and context") {
  const Facts facts = Read(Toml("data_parallel_replicate_degree = 2\n"
                                "data_parallel_shard_degree = 8\ntensor_parallel_degree = 2\n"
                                "context_parallel_degree = 2\n"
                                "context_parallel_rotate_method = \"alltoall\""),
                           "");
  CHECK(facts.devices == 64);  // torchtitan starts on no other number
  CHECK(facts.degrees.data == 16);
  CHECK(facts.sharding.over == std::vector<std::string>{"data", "context"});
  CHECK(facts.sharding.ways == 16);
  CHECK(facts.sharding.replicas == 2);
  CHECK(facts.sequence_parallel);
  CHECK(FindList(facts, "parallelism.context_parallel_rotate_method") == "has no equivalent");
  // torchtitan's default: every second block.
  CHECK(facts.recompute.here == "full:16");
  CHECK(!facts.recompute.is_exact);
}

TEST_CASE("no shards at all is plain data parallelism") {
  const Facts facts = Read(Toml("data_parallel_replicate_degree = 8\n"
                                "data_parallel_shard_degree = 1",
                                "mixed_precision_param = \"bfloat16\""),
                           kRun);
  CHECK(facts.degrees.data == 8);
  CHECK(facts.sharding.what == "none");
  CHECK(facts.sharding.ways == 1);
  CHECK(facts.precision.compute == "bf16");
  CHECK(facts.broken.empty());
  // Beside another axis torchtitan has none, and computes in f32.
  const Facts tensor = Read(Toml("data_parallel_replicate_degree = 4\n"
                                 "data_parallel_shard_degree = 1\ntensor_parallel_degree = 2"),
                            kRun);
  REQUIRE(tensor.broken.size() == 1);
  CHECK(tensor.broken[0].theirs == "DDP has not supported > 1D parallelism");
  CHECK(Read(Toml("data_parallel_shard_degree = 1\ntensor_parallel_degree = 8"), kRun)
            .precision.compute == "f32");
}

TEST_CASE("Llama 3 70B on 256 GPUs: FP8, a pipe of virtual stages") {
  const Facts facts = Read(R"(
[model]
name = "llama3"
flavor = "70B"
converters = ["float8"]
[training]
local_batch_size = 16
global_batch_size = 512
seq_len = 8192
[parallelism]
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_layers_per_stage = 7
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "full"
[quantize.linear.float8]
enable_fsdp_float8_all_gather = true
filter_fqns = ["output"]
emulate = false
)",
                           "", {.devices = 256});
  CHECK(facts.schedule.name == "interleaved");
  CHECK(facts.schedule.chunks == 3);
  CHECK(facts.schedule.stage_layers == Counts{6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 6, 5});
  CHECK(facts.batch.micro == 1);
  CHECK(facts.batch.micro_batches == 64);
  CHECK(facts.sharding.gather == "once a step");  // a pipe keeps what it has gathered
  CHECK(facts.sharding.reduce == "once a step");
  CHECK(facts.recompute.here == "full");
  CHECK(facts.precision.compute == "fp8 in products, bf16 elsewhere");
  CHECK(facts.precision.here == "bf16");
  CHECK(FindList(facts, "model.converters") == "has no equivalent");
  CHECK(FindList(facts, "quantize.linear.float8.filter_fqns") == "has no equivalent");
  CHECK(FindList(facts, "quantize.linear.float8.emulate") == "is our default");
  CHECK(FindList(facts, "parallelism.enable_async_tensor_parallel") == "has no equivalent");
  CHECK(Find(facts, "training.global_batch_size").note.find("drains 4 times") != std::string::npos);
}

TEST_CASE("schedules of a pipe, and lists of modules") {
  const auto read = [](const std::string& schedule, const std::string& more = "") {
    return Read(Toml("pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"" + schedule +
                     "\"\n" + more),
                kRun);
  };
  const Facts plain = read("1F1B");
  CHECK(plain.schedule.name == "1f1b");
  CHECK(plain.schedule.stage_layers == Counts{8, 9, 8, 7});
  CHECK(plain.recompute.here == "full:4/4/4/3");
  CHECK(read("GPipe").schedule.name == "gpipe");
  CHECK(read("interleaved1f1b").schedule.chunks == 2);
  CHECK(read("InterleavedZeroBubble").schedule.name == "zero_bubble");
  CHECK(FindList(read("ZBVZeroBubble"), "parallelism.pipeline_parallel_schedule") ==
        "has no equivalent");
  CHECK(read("1F1B",
             "pipeline_parallel_first_stage_less_layers = 0\n"
             "pipeline_parallel_last_stage_less_layers = 0")
            .schedule.stage_layers == Counts{8, 8, 8, 8});
  CHECK(read("1F1B", "fsdp_reshard_after_forward = \"always\"").sharding.gather == "each use");
  CHECK(read("2F2B").broken.size() == 1);
  const auto read_parts = [](const std::string& schedule) {
    return Read(Toml("pipeline_parallel_degree = 2\npipeline_parallel_schedule = \"" + schedule +
                         "\"\nmodule_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\", "
                         "\"layers.1\"], [\"layers.2\", \"layers.3\", \"layers.4\", \"layers.5\", "
                         "\"norm\", \"output\"]]",
                     "", "debugmodel"),
                kRun);
  };
  for (const char* schedule : {"1F1B", "InterleavedZeroBubble"}) {
    CHECK(read_parts(schedule).schedule.stage_layers == Counts{2, 4});
    CHECK(read_parts(schedule).broken.empty());
  }
  CHECK(read_parts("ZBVZeroBubble").broken.size() == 1);
  std::string why;
  CHECK(SplitTitanLayers(4, 3, 1, 4, &why).empty());
  CHECK(why == "output_weight (4) exceeds minimum layers per stage (2).");
}

TEST_CASE("configurations of 2026 by name") {
  const Facts llama = Read("", Named("llama3_70b", "--training.global_batch_size=128", 8));
  CHECK(llama.degrees.tensor == 8);
  CHECK(llama.degrees.data == 8);
  CHECK(llama.batch.micro_batches == 2);
  CHECK(llama.recompute.here == "full");
  CHECK(llama.optimizer.learning_rate == 1.5e-4);
  CHECK(llama.optimizer.decay_steps == 1000);
  CHECK(llama.model.from == "--module llama3 --config llama3_70b");
  CHECK(FindList(llama, "--config") == "taken");
  CHECK(Read("", Named("llama3_8b")).recompute.here == "selective");
  CHECK(Read("", Named("llama3_8b_mxfp8")).precision.here == "bf16");

  const Facts qwen = Read("", Named("qwen3_30b_a3b", "--parallelism.expert-parallel-degree 8"));
  CHECK(qwen.degrees.expert == 8);
  CHECK(qwen.model.model->experts() == 128);
  CHECK(qwen.model.parameters == 30532122624);
  CHECK(qwen.model.differences.empty());

  // A model that cannot be built: its nearest, and what differs.
  const Facts latent = Read("", Named("deepseek_v3_16b"));
  CHECK(latent.model.parameters == 15706484224);
  CHECK(!latent.model.differences.empty());
  CHECK(Read("", Named("llama3_8b", "activation-checkpoint:full")).recompute.here == "full");
}

TEST_CASE("what is not here is asked for") {
  const Facts own = Read("",
                         "torchrun --nproc_per_node 8 -m torchtitan.train --module a.b "
                         "--config mine --training.seq_len 4096");
  CHECK(own.questions.size() == 2);  // the model and the batch
  CHECK(!own.model.model);
  CHECK(!own.batch.global);
  const Facts file = Read("",
                          "torchrun --nproc_per_node 8 -m torchtitan.train "
                          "--job.config_file nowhere.toml");
  CHECK(file.questions.size() == 3);
  const Facts devices = Read(Toml("tensor_parallel_degree = 2"), "");
  REQUIRE(devices.questions.size() == 1);
  CHECK(devices.questions[0].what == "how many GPUs");
  CHECK(!devices.degrees.data);
  // A file of torchtitan's own tree is known without it.
  CHECK(Read("",
             "NGPU=16 CONFIG_FILE=./torchtitan/models/llama3/train_configs/llama3_70b.toml "
             "./run_train.sh")
            .degrees.tensor == 8);
  const absl::StatusOr<Facts> image = TryRead("", Named("flux_dev"));
  CHECK(image.status().message() ==
        "--module=flux: flux makes images: it is not a model of text; a model of text, such as "
        "llama3");
}

TEST_CASE("the JSON that a configuration dumps") {
  const Facts facts = Read(R"({
 "model_spec": {"name": "llama3", "flavor": "8B", "model": {"dim": 4096, "layers": [{"x": 1}]}},
 "hf_assets_path": "x", "dump_folder": "out",
 "optimizer": {"param_groups": [{"pattern": ".*", "optimizer_name": "AdamW", "optimizer_kwargs":
   {"lr": 0.0002, "betas": [0.9, 0.98], "eps": 1e-08, "weight_decay": 0.05}}]},
 "training": {"num_tokens_per_microbatch_per_dp_rank": 16384, "num_tokens_per_train_step": 1048576,
   "max_context_length": 8192, "steps": 1000, "max_norm": 1.0},
 "parallelism": {"data_parallel_shard_degree": -1, "pipeline_parallel_degree": 2,
   "num_pp_microbatches": 8, "tensor_parallel_degree": 1, "expert_parallel_degree": 1},
 "activation_checkpoint": {"preserve_rng_state": true, "determinism_check": "default",
   "debug": false},
 "lr_scheduler": {"warmup_steps": 200, "decay_ratio": null, "min_lr_factor": 0.0}
})",
                           "", {.devices = 16});
  CHECK(facts.form == "JSON that its configuration dumps");
  CHECK(facts.batch.micro == 2);
  CHECK(facts.batch.global == 128);
  CHECK(facts.batch.micro_batches == 8);
  CHECK(facts.recompute.here == "full");
  CHECK(facts.optimizer.learning_rate == 0.0002);
  CHECK(facts.optimizer.beta2 == 0.98);
  CHECK(facts.schedule.stage_layers == Counts{16, 16});
  CHECK(FindList(facts, "optimizer.param_groups[0].optimizer_kwargs.lr") == "taken");
  CHECK(facts.broken.empty());
}

TEST_CASE("the JSON of early 2026 has converters as objects") {
  const Facts facts = Read(R"({
 "model_spec": {"name": "llama3", "flavor": "405B", "model": {"dim": 16384}},
 "tokenizer": {}, "loss": {}, "dataloader": {"dataset": "c4", "infinite": true},
 "model_converters": {"converters": [{"recipe_name": "rowwise", "filter_fqns": ["output"],
   "emulate": false}], "print_after_conversion": false},
 "optimizer": {"name": "AdamW", "lr": 8e-05, "beta1": 0.9, "beta2": 0.95, "eps": 1e-08,
   "weight_decay": 0.1, "implementation": "fused"},
 "training": {"local_batch_size": 2, "global_batch_size": -1, "seq_len": 8192, "steps": 3000},
 "parallelism": {"data_parallel_shard_degree": 16, "tensor_parallel_degree": 8,
   "module_fqns_per_model_part": null, "pipeline_parallel_schedule_csv": ""},
 "activation_checkpoint": {"mode": "full", "selective_ac_option": "op"}
})",
                           "");
  CHECK(facts.devices == 128);
  CHECK(facts.precision.compute == "fp8 in products, bf16 elsewhere");
  CHECK(facts.batch.global == 32);
  CHECK(facts.recompute.here == "full");
  CHECK(facts.broken.empty());
  for (const Setting& setting : facts.settings) CHECK(setting.list != List::kUnknown);
}

TEST_CASE("a rate without a decay, and no clipping") {
  const Facts facts = Read("[lr_scheduler]\ndecay_ratio = 0.0\n" +
                               Toml("data_parallel_shard_degree = 8", "max_norm = inf"),
                           "");
  CHECK(facts.optimizer.schedule == "constant");
  CHECK(facts.optimizer.clip == 0.0);
  CHECK(FindList(facts, "lr_scheduler.decay_ratio") == "taken");
}

TEST_CASE("rules that a configuration breaks") {
  const auto broken = [](const std::string& toml, int64_t devices) {
    const Facts facts = Read(toml, "", {.devices = devices});
    REQUIRE(facts.broken.size() == 1);
    return facts.broken[0];
  };
  const BrokenRule world = broken(Toml("tensor_parallel_degree = 8\npipeline_parallel_degree = 4\n"
                                       "context_parallel_degree = 2"),
                                  48);
  CHECK(world.numbers == "48 is not a multiple of 1 x 2 x 8 x 4 = 64");
  CHECK(world.theirs ==
        "Invalid parallel dims: dp_replicate(1) * dp_shard(0) * cp(2) * tp(8) * "
        "pp(4) != WORLD_SIZE(48)");
  CHECK(world.hint == "64 GPUs, or --parallelism.pipeline_parallel_degree 3");
  CHECK(broken(Toml("data_parallel_shard_degree = 4\ntensor_parallel_degree = 2"), 16).numbers ==
        "16 is not 1 x 4 x 1 x 2 x 1 = 8");
  const BrokenRule batch = broken(Toml("", "global_batch_size = 100"), 8);
  CHECK(batch.numbers == "100 is not a multiple of 2 x 8 = 16");
  CHECK(batch.hint == "--training.global_batch_size 96 or 112");
  const BrokenRule typo = broken(Toml("pipline_parallel_degree = 4"), 8);
  CHECK(typo.rule == "no unknown key");
  CHECK(typo.where == "config.toml:9");
  CHECK(typo.theirs == "Invalid field names in parallelism data: {'pipline_parallel_degree'}.");
  CHECK(typo.hint == "parallelism.pipeline_parallel_degree = 4");
  CHECK(
      broken(Toml("pipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 3"), 8).rule ==
      "a local batch is a multiple of the pipe's micro-batch");
  CHECK(broken(Toml("expert_parallel_degree = 3", "", "8B"), 8).numbers ==
        "8 is not a multiple of 3");
  CHECK(broken(Toml("pipeline_parallel_degree = 2\npipeline_parallel_layers_per_stage = 12"), 8)
            .numbers == "3 is not a multiple of 2: 32 + 1 + 1 layers in slices of 12");
  CHECK(broken(Toml("context_parallel_degree = 8", "[validation]\nenable = true"), 12).rule ==
        "GPUs must be a multiple of replicas x context x tensor x pipe");
  const Facts flag = Read("", Named("llama3_8b", "--parallelism.tensor_paralel_degree 2"));
  REQUIRE(flag.broken.size() == 1);
  CHECK(flag.broken[0].theirs == "Unrecognized options: --parallelism.tensor_paralel_degree");
  const Facts config = Read("", Named("llama3_8bb"));
  REQUIRE(config.broken.size() == 1);
  CHECK(config.broken[0].hint == "--config llama3_8b");
}

TEST_CASE("bad values of torchtitan are errors") {
  CHECK(TryRead(Toml("tensor_parallel_degree = 0"), kRun).status().message() ==
        "config.toml:9: parallelism.tensor_parallel_degree=0: is no degree; a number of GPUs from "
        "1");
  CHECK(TryRead(Toml("tensor_parallel_degree = 1.5"), kRun).status().message() ==
        "config.toml:9: parallelism.tensor_parallel_degree=1.5: is no whole number");
}

}  // namespace
}  // namespace oneflow::foreign
