#include <catch2/catch.hpp>

#include "tools/foreign/read/read_for_test.h"

namespace oneflow::foreign {
namespace {

const std::string kModel = R"({
  # a decoder with parallel branches
  "pipe-parallel-size": 2,
  "model-parallel-size": 2,
  "num_layers": 8, "hidden_size": 256, "num_attention_heads": 8,
  "seq_length": 512, "max_position_embeddings": 512,
  "pos_emb": "rotary", "rotary_pct": 0.25, "no_weight_tying": true, "gpt_j_residual": true,
  "attention_config": [[["flash"], 8]],
  "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.9, 0.95], "eps": 1.0e-8}},
  "min_lr": 0.0001, "lr_decay_style": "cosine", "train_iters": 1000, "warmup": 0.05,
  "zero_optimization": {"stage": 1, "reduce_bucket_size": 500000000, "overlap_comm": True},
  "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 6,
  "checkpoint_activations": true, "partition_activations": true,
  "fp16": {"enabled": true, "loss_scale": 0, "hysteresis": 2},
)";
const std::string kSite = "data_path: x\nhostfile: hosts\nsave: out\ncheckpoint_factor: 10\n";

// A run whose first file has `more` in it.
Facts OfModel(const std::string& more, const std::string& site = kSite,
              const std::string& hosts = "a slots=8\nb slots=8\n") {
  return ReadWell({{"run.sh", "python ./deepy.py train.py -d conf model site.yml\n"},
                   {"conf/model.yml", kModel + more + "}\n"},
                   {"conf/site.yml", site},
                   {"hosts", hosts}});
}

TEST_CASE("files of GPT-NeoX are read together") {
  const Facts facts = OfModel("");
  CHECK(facts.system == "gpt-neox");
  CHECK(BrokenText(facts) == "");
  CHECK(AskedText(facts) == "");
  CHECK(facts.devices == 16);
  CHECK(ShapeText(facts) == "2 x 2 x 1 x 4, 96 = 4 x 6");
  CHECK(ShardText(facts) == "states in 4 x 1, once a step, once a step");
  CHECK(facts.schedule.name == "1f1b");
  CHECK(facts.schedule.stage_layers == std::vector<int64_t>{4, 4});
  CHECK(facts.precision.compute == "fp16, dynamic loss scale");
  CHECK(facts.optimizer.name == "adamw");
  CHECK(facts.optimizer.min_learning_rate == 0.0001);
  CHECK(facts.optimizer.warmup_steps == 50);
  CHECK(facts.optimizer.decay_steps == 1000);
  CHECK(facts.optimizer.weight_decay == 0.1);
  CHECK(facts.recompute.here == "full");
  CHECK(NamesIn(facts, List::kUnknown) == "");
  CHECK(FindList(facts, "pipe-parallel-size") == "taken");
  CHECK(FindList(facts, "rotary_pct") == "has no equivalent");
  CHECK(FindList(facts, "gpt_j_residual") == "has no equivalent");
  CHECK(FindList(facts, "fp16.enabled") == "has no equivalent");
  CHECK(FindList(facts, "data_path") == "has no effect on a plan");
  REQUIRE(facts.model.model);
  // 50,257 tokens, up to a multiple of 256, and two norms with biases in each block.
  CHECK(facts.model.model->vocab() == 50432);
  CHECK(facts.model.vocab_rule == "up to a multiple of 128 x model_parallel_size = 256");
  CHECK(facts.model.parameters == 8 * (12 * 256 * 256 + 13 * 256) + 2 * 50432 * 256 + 2 * 256);
}

TEST_CASE("a llama of GPT-NeoX") {
  const Facts facts = ReadWell({{"llama.yml", R"({"pipe_parallel_size": 0,
    "model_parallel_size": 1, "make_vocab_size_divisible_by": 1, "num_layers": 4,
    "hidden_size": 256, "intermediate_size": 1536, "num_attention_heads": 8, "num_kv_heads": 4,
    "seq_length": 512, "max_position_embeddings": 512, "pos_emb": "rotary", "rotary_pct": 1,
    "rotary_emb_base": 500000, "no_weight_tying": true, "norm": "rmsnorm",
    "rms_norm_epsilon": 1.0e-5, "use_bias_in_norms": false, "use_bias_in_attn_linear": false,
    "use_bias_in_mlp": false, "activation": "swiglu", "mlp_multiple_of": 256,
    "tokenizer_type": "TiktokenTokenizer", "vocab_file": "cl100k_base", "precision": "bfloat16",
    "num_gpus": 8, "train_batch_size": 32, "optimizer": {"type": "Adam", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 3}, "data_types": {"grad_accum_dtype": "fp32"}})"}});
  CHECK(BrokenText(facts) == "");
  CHECK(ShapeText(facts) == "1 x 1 x 1 x 8, 32 = 4 x 1");
  CHECK(ShardText(facts) == "weights in 8 x 1, each use, each micro-batch");
  CHECK(facts.precision.compute == "bf16");
  CHECK(!facts.precision.gradients_in_bf16);
  REQUIRE(facts.model.model);
  CHECK(facts.model.model->family() == "llama");
  CHECK(facts.model.model->inner() == 512);
  CHECK(facts.model.model->groups() == 4);
  CHECK(facts.model.model->vocab() == 100277);
  CHECK(facts.model.differences.empty());
  CHECK(facts.optimizer.schedule == "linear");
}

TEST_CASE("contradictions of GPT-NeoX's files") {
  CHECK(BrokenText(OfModel("\"num_unknown\": 3")) == "no unknown key: num_unknown\n");
  CHECK(BrokenText(OfModel("", kSite + "seq_length: 256\n")) ==
        "a key stands in one of the files: seq_length\n");
  CHECK(BrokenText(OfModel("\"train_batch_size\": 100")) ==
        "train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x data: "
        "100 is not 4 x 6 x 4 = 96\n");
  const Facts devices = OfModel("", kSite, "a slots=6\n");
  CHECK(BrokenText(devices) ==
        "GPUs must be a multiple of tensor x pipe x context: 6 is not a "
        "multiple of 2 x 2 x 1 = 4\n");
  CHECK(devices.broken[0].theirs ==
        "(global_num_gpus / pp_size) / mp_size [(6 / 2) / 2] must be a whole number");
  CHECK(
      BrokenText(OfModel("\"precision\": \"bfloat16\"")) ==
      "precision agrees with the sections fp16 and bf16: precision bfloat16 beside fp16.enabled\n");
  CHECK(BrokenText(OfModel("", "data_path: x\nhostfile: hosts\nsave: out\n")) ==
        "save needs checkpoint_factor or extra_save_iters: save out\n");
  CHECK(BrokenText(OfModel("\"moe_num_experts\": 4, \"moe_top_k\": 2")) == "");
}

TEST_CASE("a pipeline and ZeRO 2 exclude each other") {
  const Facts facts = ReadWell({{"x.yml", R"({"pipe_parallel_size": 1, "model_parallel_size": 3,
    "num_layers": 4, "hidden_size": 256, "num_attention_heads": 8, "seq_length": 1024,
    "max_position_embeddings": 512, "num_gpus": 6, "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 2}, "min_lr": 0.1,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3}}})"}});
  CHECK(BrokenText(facts) ==
        "num_attention_heads must be a multiple of model_parallel_size: 8 is not a multiple of 3\n"
        "max_position_embeddings is at least seq_length: 512 is less than 1024\n"
        "min_lr is at most lr: 0.1 is more than 0.001\n"
        "pipe_parallel_size of 1 or more needs ZeRO 0 or 1: pipe_parallel_size 1 with stage 2\n");
}

TEST_CASE("what GPT-NeoX's files do not say") {
  const Facts facts = ReadWell({{"x.yml", R"({"pipe_parallel_size": 0, "num_layers": 4,
    "hidden_size": 256, "num_attention_heads": 8, "seq_length": 128,
    "max_position_embeddings": 128, "tokenizer_type": "SPMTokenizer", "vocab_file": "t.model"})"}});
  CHECK(AskedText(facts) ==
        "how many tokens the tokenizer has\n"
        "how many sequences a step takes\nhow many GPUs\n");
  const Facts some = ReadWell({{"x.yml",
                                "pipe_parallel_size: 0\nnum_gpus: 8\n"
                                "train_micro_batch_size_per_gpu: 1\n"}});
  CHECK(AskedText(some).starts_with("what num_layers is\nwhat hidden_size is\n"));
}

TEST_CASE("deepspeed_extra_args go into DeepSpeed's JSON") {
  const Facts facts = ReadWell({{"x.yml", R"({"pipe_parallel_size": 0, "num_layers": 4,
    "hidden_size": 256, "num_attention_heads": 8, "seq_length": 128, "num_gpus": 8,
    "max_position_embeddings": 128, "train_micro_batch_size_per_gpu": 1,
    "deepspeed_extra_args": {"comms_logger": {"enabled": true, "verbose": true}}})"}});
  CHECK(BrokenText(facts).empty());
  CHECK(FindList(facts, "deepspeed_extra_args.comms_logger.enabled") == "has no effect on a plan");
  CHECK(NamesIn(facts, List::kUnknown).empty());
}

}  // namespace
}  // namespace oneflow::foreign
