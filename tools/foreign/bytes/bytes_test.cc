#include "tools/foreign/bytes/bytes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/model/model.h"
#include "tools/foreign/bytes/setup.h"
#include "tools/foreign/bytes/systems.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {
namespace {

constexpr char kGpt175[] =
    "family: 'gpt' layers: 96 hidden: 12288 heads: 96 sequence: 2048 vocab: 51200 tied: true";
constexpr char kLlama8[] =
    "family: 'llama' layers: 32 hidden: 4096 heads: 32 groups: 8 head_dim: 128 inner: 14336 vocab: "
    "128256 sequence: 8192 tied: false";
constexpr int64_t kLlama8Parameters = 8'030'261'248;

Facts MakeFacts(const char* system, const char* text, int64_t devices) {
  Facts facts;
  facts.system = system;
  proto::Model model;
  REQUIRE(ParseText(text, "model", "is no model", &model).ok());
  facts.model.model = CompleteModel(std::move(model)).value();
  facts.devices = devices;
  facts.devices_a_node = 8;
  facts.sequence = facts.model.model->sequence();
  facts.batch.micro = 1;
  facts.batch.micro_batches = 16;
  facts.precision.compute = "bf16";
  return facts;
}

SystemBytes Count(Facts& facts) {
  CompleteDegrees({}, &facts);
  REQUIRE(facts.broken.empty());
  return TheirBytes(facts).value();
}

const ByteLine& Find(const std::vector<ByteLine>& lines, const std::string& what) {
  for (const ByteLine& line : lines) {
    if (absl::StartsWith(line.what, what)) return line;
  }
  FAIL("no line " << what);
  return lines.front();
}

Facts Gpt175() {
  Facts facts = MakeFacts("megatron-lm", kGpt175, 512);
  facts.degrees.tensor = facts.degrees.pipe = 8;
  facts.schedule.name = "1f1b";
  facts.schedule.stage_layers.assign(8, 12);
  facts.batch.micro_batches = 192;
  facts.sequence_parallel = true;
  facts.dropout_hidden = facts.dropout_attention = 0.1;
  facts.recompute = {.what = "core of attention", .blocks = "all", .here = "attention"};
  return facts;
}

Facts Llama8(const char* system) {
  Facts facts = MakeFacts(system, kLlama8, 8);
  facts.model.parameters = kLlama8Parameters;
  facts.sharding = {
      .what = "weights", .over = {"data"}, .gather = "each use", .reduce = "each micro-batch"};
  facts.recompute = {.what = "block", .blocks = "all", .here = "full"};
  return facts;
}

// A block: 12 h^2 + 7 h split over tensor, 6 h not; 8 of them split make 226,576,896 a device.
constexpr int64_t kGptBlock = (12LL * 12288 * 12288 + 7 * 12288) / 8 + 6 * 12288;
// The first stage has the table of 51,200 words over 8 devices and that of 2,048 positions.
constexpr int64_t kGptStage = 12 * kGptBlock + 51'200LL * 12'288 / 8 + 2'048 * 12'288;

TEST_CASE("GPT-3 175B on 8 x 8 x 8 as Megatron-LM counts") {
  Facts facts = Gpt175();
  const SystemBytes bytes = Count(facts);
  CHECK(bytes.system == "Megatron-LM");
  CHECK(bytes.device == "a device of stage 0 of 8");
  CHECK(kGptStage == 2'822'731'776);
  // 18 bytes a parameter.
  CHECK(bytes.Sum("weights") == 2 * kGptStage);
  CHECK(bytes.Sum("gradients") == 4 * kGptStage);
  CHECK(bytes.Sum("states") == 12 * kGptStage);
  CHECK(Find(bytes.lines, "weights").formula == "2 bytes x 2,822,731,776");
  // 34 s b h / t for 12 blocks of 8 micro-batches; 8 bytes and a mask of each token's embedding.
  const int64_t blocks = 96LL * 2048 * 34 * 12288 / 8;
  CHECK(bytes.Sum("activations") == blocks + 8LL * 2048 * (8 + 12288) / 8);
  CHECK(bytes.Sum("logits") == 0);
  CHECK(bytes.host.empty());
  CHECK(bytes.total() == 18 * kGptStage + bytes.Sum("activations"));
}

TEST_CASE("what changes the bytes of Megatron-LM") {
  Facts facts = Gpt175();
  const int64_t blocks = Count(facts).Sum("activations");
  SECTION("with the distributed optimizer, 6 + 12/d") {
    facts.sharding = {.what = "states", .over = {"data"}};
    const SystemBytes bytes = Count(facts);
    CHECK(bytes.Sum("states") == 12 * kGptStage / 8);
    CHECK(Find(bytes.lines, "masters").formula == "12 bytes x 2,822,731,776 / 8");
  }
  SECTION("gradients in bf16 are copied to f32 for the update: 4 + 16/d") {
    facts.sharding = {.what = "states", .over = {"data"}};
    facts.precision.gradients_in_bf16 = true;
    const SystemBytes bytes = Count(facts);
    CHECK(bytes.Sum("weights") + bytes.Sum("gradients") == 4 * kGptStage);
    CHECK(bytes.Sum("states") == 16 * kGptStage / 8);
  }
  SECTION("in f32 there is no master") {
    facts.precision.compute = "f32";
    const SystemBytes bytes = Count(facts);
    CHECK(bytes.total() - bytes.Sum("activations") == 16 * kGptStage);
  }
  SECTION("without sequence parallelism, 10 s b h are on each device") {
    facts.sequence_parallel = false;
    const int64_t a_block = 2048LL * (10 * 12288 + 24 * 12288 / 8);
    CHECK(Count(facts).Sum("activations") == 96 * a_block + 8LL * 2048 * (8 + 12288));
  }
  SECTION("interleaving holds 1 + (p - 1) / (p v) as much") {
    facts.schedule = {"interleaved", 2, std::vector<int64_t>(16, 6)};
    const SystemBytes bytes = Count(facts);
    CHECK(static_cast<double>(bytes.Sum("activations")) / static_cast<double>(blocks) ==
          Approx(1 + 7.0 / 16));
    CHECK(absl::StartsWith(Find(bytes.lines, "inputs of norms").formula,
                           "12 blocks x 23/2 micro-batches x 2,048 tokens"));
  }
  SECTION("full recompute keeps 2 s b h of a block, and one whole block") {
    facts.recompute = {.what = "block", .blocks = "all", .here = "full"};
    const SystemBytes bytes = Count(facts);
    CHECK(Find(bytes.lines, "the block's input").bytes == 96LL * 2048 * 2 * 12288 / 8);
    CHECK(Find(bytes.lines, "the block that is").bytes == 2048LL * 34 * 12288 / 8);
  }
  SECTION("the first 5 blocks of each stage, fewer micro-batches than stages") {
    facts.recompute = {.what = "block", .blocks = "the first 5 of each stage", .here = "full:5"};
    facts.batch.micro_batches = 3;
    const SystemBytes bytes = Count(facts);
    CHECK(Find(bytes.lines, "the block's input").bytes == 15LL * 2048 * 2 * 12288 / 8);
    CHECK(Find(bytes.lines, "attention's output").bytes == 21LL * 2048 * 2 * 12288 / 8);
  }
  SECTION("scores in memory: 5 a s / h") {
    facts.recompute = {};
    facts.settings = {{.name = "--transformer-impl", .key = "transformer_impl", .value = "local"}};
    CHECK(Find(Count(facts).lines, "scores").bytes == 96LL * 2048 * 5 * 96 * 2048 / 8);
  }
  SECTION("modules that Megatron computes again") {
    facts.recompute = {.what = "mlp, layernorm", .here = "full", .is_exact = false};
    const SystemBytes bytes = Count(facts);
    // Of 34 h remain the inputs of norms, 8 h of attention and the masks.
    CHECK(bytes.Sum("activations") == 96LL * 2048 * 14 * 12288 / 8 + 8LL * 2048 * 12296 / 8);
  }
  SECTION("states on the host") {
    facts.offload.states = facts.offload.update = true;
    const SystemBytes bytes = Count(facts);
    CHECK(bytes.Sum("states") == 0);
    CHECK(bytes.host_total() == 8 * 16 * kGptStage);
    CHECK(absl::StrContains(BytesSentence(bytes, {}), " GiB of a node's host"));
  }
  SECTION("context splits positions, and the states with data") {
    facts.degrees.context = 2;
    facts.sharding = {.what = "states", .over = {"data", "context"}};
    const SystemBytes bytes = Count(facts);
    CHECK(bytes.Sum("activations") == blocks / 2);
    CHECK(bytes.Sum("states") == 12 * kGptStage / 8);
  }
  SECTION("moments in other types") {
    facts.settings = {{.key = "use_precision_aware_optimizer"},
                      {.key = "exp_avg_dtype", .value = "bf16"},
                      {.key = "exp_avg_sq_dtype", .value = "fp8"}};
    CHECK(Count(facts).Sum("states") == 7 * kGptStage);
  }
}

// The figures are those of theoretical_memory_usage.py itself, of 2026-08-22.
TEST_CASE("Megatron-LM's own estimator") {
  Facts facts = Gpt175();
  SystemBytes bytes = Count(facts);
  CHECK(bytes.printed[0].bytes == 50'348'611'584);
  CHECK(bytes.printed[1].bytes == 10'292'838'400);
  facts.sequence_parallel = false;
  facts.recompute.here = "full";
  facts.schedule = {"interleaved", 2, std::vector<int64_t>(16, 6)};
  bytes = Count(facts);
  CHECK(bytes.printed[1].bytes == 47'708'937'830);

  Facts llama = MakeFacts("megatron-bridge", kLlama8, 16);
  llama.degrees.tensor = 2;
  llama.sequence_parallel = true;
  llama.sharding = {.what = "states", .over = {"data"}};
  llama.recompute.what = "core of attention";
  llama.recompute.here = "attention";
  bytes = Count(llama);
  CHECK(bytes.system == "Megatron-Bridge");
  CHECK(bytes.printed[0].bytes == 30'114'478'080);
  CHECK(bytes.printed[1].bytes == 19'365'134'336);
}

TEST_CASE("Mixtral 8x7B, experts over 8 devices, as Megatron-LM counts") {
  Facts facts = MakeFacts("megatron-lm",
                          "family: 'llama' layers: 32 hidden: 4096 heads: 32 groups: 8 head_dim: "
                          "128 inner: 14336 vocab: 32000 sequence: 4096 tied: false experts: 8 "
                          "experts_per_token: 2",
                          32);
  facts.degrees.pipe = 4;
  facts.degrees.expert = 8;
  facts.schedule.name = "1f1b";
  facts.schedule.stage_layers.assign(4, 8);
  facts.sharding = {.what = "states", .over = {"data"}};
  const SystemBytes bytes = Count(facts);
  // A block: 2 h (h + 1,024) of attention, 2 h of norms, 8 h of the router; one expert of 3 h f.
  const int64_t h = 4096;
  const int64_t dense = 8 * (2 * h * (h + 1024) + 10 * h) + 32000 * h;
  const int64_t expert = 8 * 3 * h * 14336;
  CHECK(bytes.Sum("weights") == 2 * (dense + expert));
  CHECK(bytes.Sum("gradients") == 4 * (dense + expert));
  // Each expert is on one device only: its states are not split.
  CHECK(bytes.Sum("states") == 12 * (dense / 8 + expert));
  CHECK(Find(bytes.lines, "tokens sent").bytes == 32LL * 4096 * 2 * 2 * h);
  CHECK(Find(bytes.lines, "experts' gate").bytes == 32LL * 4096 * 12 * 14336);
  CHECK(bytes.printed[0].bytes == 28'869'238'272);
  CHECK(bytes.printed[1].bytes == 19'236'893'491);
}

TEST_CASE("Llama 3 8B under ZeRO 3 on 8 devices") {
  Facts facts = Llama8("deepspeed");
  facts.together_with = {"hf-trainer"};
  facts.precision.gradients_in_bf16 = true;
  SystemBytes bytes = Count(facts);
  CHECK(bytes.system == "DeepSpeed");
  const int64_t embedding = 128'256 * 4096;
  CHECK(bytes.Sum("weights") == kLlama8Parameters / 4);
  CHECK(bytes.Sum("weights") + bytes.Sum("gradients") + bytes.Sum("states") ==
        18 * kLlama8Parameters / 8);
  CHECK(bytes.Sum("buffers") == 4 * embedding);
  // Its estimator counts the same.
  CHECK(bytes.printed[0].bytes == 18 * kLlama8Parameters / 8 + 4 * embedding);
  CHECK(Find(bytes.lines, "the block's input").bytes == 32LL * 8192 * 2 * 4096);
  // Norms 16 h, attention 2 (2 h + 2 x 1,024), the MLP 8 f.
  CHECK(Find(bytes.lines, "the block that is").bytes ==
        8192LL * (16 * 4096 + 4 * 4096 + 4 * 1024 + 8 * 14336));
  CHECK(bytes.Sum("logits") == 8192LL * 10 * 128'256);

  facts.offload.states = facts.offload.update = true;
  bytes = Count(facts);
  CHECK(bytes.Sum("gradients") + bytes.Sum("states") == 0);
  CHECK(bytes.host_total() == 16 * kLlama8Parameters * 3 / 2);
  facts.offload.weights = true;
  bytes = Count(facts);
  CHECK(bytes.Sum("weights") == 0);
  CHECK(bytes.printed[0].bytes == 4 * embedding);
  CHECK(bytes.host_total() == 18 * kLlama8Parameters * 3 / 2);
  facts.offload = {.weights = true};
  CHECK(Count(facts).host_total() == 2 * kLlama8Parameters * 3 / 2);
}

TEST_CASE("Llama 2 7B under ZeRO 0 to 2, with offload") {
  constexpr int64_t kParameters = 6'738'415'616;
  Facts facts = MakeFacts("deepspeed",
                          "family: 'llama' layers: 32 hidden: 4096 heads: 32 groups: 32 head_dim: "
                          "128 inner: 11008 vocab: 32000 sequence: 4096 tied: false",
                          8);
  facts.model.parameters = kParameters;
  facts.precision.gradients_in_bf16 = true;
  const auto states = [&](const char* what) {
    facts.sharding = {.what = what, .over = {"data"}};
    const SystemBytes bytes = Count(facts);
    return bytes.Sum("weights") + bytes.Sum("gradients") + bytes.Sum("states");
  };
  // 16 bits of weights and gradients, f32 of gradients, masters and two moments.
  CHECK(states("none") == 20 * kParameters);
  CHECK(states("states") == 4 * kParameters + 16 * kParameters / 8);
  CHECK(states("gradients") == 2 * kParameters + 18 * kParameters / 8);
  CHECK(Count(facts).printed[0].bytes == 2 * kParameters + 18 * kParameters / 8);
  facts.precision.gradients_in_bf16 = false;  // sums in f32, whole under ZeRO 1
  CHECK(states("states") == 8 * kParameters + 12 * kParameters / 8);
  facts.precision = {.compute = "bf16", .gradients_in_bf16 = true};
  facts.offload.states = facts.offload.update = true;
  CHECK(states("gradients") == 2 * kParameters);
  const SystemBytes bytes = Count(facts);
  CHECK(bytes.printed[0].bytes == 2 * kParameters);
  // max(4 x 8 devices, 16) bytes with half as much for buffers: 301.2 GiB.
  CHECK(bytes.host_total() == 32 * kParameters * 3 / 2);
}

TEST_CASE("GPT-NeoX splits states over data, and blocks over tensor") {
  Facts facts = MakeFacts("gpt-neox", kGpt175, 64);
  facts.degrees.tensor = 8;
  facts.sharding = {.what = "states", .over = {"data"}};
  facts.precision = {.compute = "fp16, dynamic loss scale", .gradients_in_bf16 = true};
  const SystemBytes bytes = Count(facts);
  CHECK(bytes.system == "GPT-NeoX");
  const int64_t parameters = 96 * kGptBlock + 51'200LL * 12'288 / 8 + 2'048 * 12'288 + 2 * 12'288;
  CHECK(bytes.Sum("states") == 12 * parameters / 8);
  CHECK(bytes.Sum("gradients") == 2 * parameters + 4 * parameters / 8);
  CHECK(bytes.printed.empty());
}

TEST_CASE("FSDP under accelerate") {
  Facts facts = Llama8("accelerate");
  facts.precision.gradients_in_bf16 = true;
  const int64_t embedding = 128'256 * 4096, block = 218'112'000;
  SystemBytes bytes = Count(facts);
  CHECK(bytes.system == "FSDP");
  CHECK(bytes.Sum("weights") + bytes.Sum("gradients") + bytes.Sum("states") ==
        16 * kLlama8Parameters / 8);
  // Two blocks, the embedding and the head; and the gradient of the head.
  CHECK(bytes.Sum("buffers") == 2 * (2 * block + 2 * embedding) + 2 * embedding);
  SECTION("gradients that are reduced once a step are whole until then") {
    facts.sharding.reduce = "once a step";
    bytes = Count(facts);
    CHECK(bytes.Sum("gradients") == 4 * kLlama8Parameters / 8 + 2 * kLlama8Parameters);
  }
  SECTION("SHARD_GRAD_OP keeps what it gathered") {
    facts.sharding.gather = "once a step";
    CHECK(Count(facts).Sum("buffers") == 2 * kLlama8Parameters + 2 * embedding);
  }
  SECTION("HYBRID_SHARD splits within a node") {
    facts.devices = 32;
    facts.sharding.replicas = 4;
    bytes = Count(facts);
    CHECK(bytes.Sum("states") == 8 * kLlama8Parameters / 8);
  }
  SECTION("NO_SHARD") {
    facts.sharding = {};
    bytes = Count(facts);
    CHECK(bytes.system == "DDP");
    CHECK(bytes.Sum("weights") + bytes.Sum("gradients") + bytes.Sum("states") ==
          16 * kLlama8Parameters);
    CHECK(bytes.Sum("buffers") == 6 * kLlama8Parameters);
  }
  SECTION("parameters on the host") {
    facts.offload.weights = facts.offload.states = facts.offload.update = true;
    bytes = Count(facts);
    CHECK(bytes.Sum("weights") + bytes.Sum("states") == 0);
    CHECK(bytes.host_total() == 16 * kLlama8Parameters);
  }
  SECTION("under DeepSpeed or Megatron-LM, their formulas") {
    facts.together_with = {"deepspeed"};
    CHECK(Count(facts).system == "DeepSpeed");
    facts.together_with = {"megatron-lm"};
    CHECK(Count(facts).system == "Megatron-LM");
  }
}

TEST_CASE("torchtitan") {
  Facts facts = Llama8("torchtitan");
  facts.recompute = {.what = "cheap ops", .blocks = "all", .here = "selective"};
  SystemBytes bytes = Count(facts);
  const int64_t embedding = 128'256 * 4096, block = 218'112'000;
  // The head is gathered without the embedding; its gradient is in bf16, then in f32.
  CHECK(bytes.Sum("buffers") == 2 * (2 * block + embedding) + 6 * embedding);
  // Every second product: its input, queries, values, attention, the gate, the way down.
  CHECK(bytes.Sum("activations") ==
        32LL * 8192 * 2 * (4 * 4096 + 1024 + 14336) + 8192LL * (8 + 4 * 4096));
  facts.recompute = {};
  const int64_t eager = Count(facts).Sum("activations");
  facts.settings = {{.key = "compile.enable", .value = "true"}};
  CHECK(eager - Count(facts).Sum("activations") == 32LL * 8192 * 2 * 14336);
}

TEST_CASE("text and JSON") {
  Facts facts = Gpt175();
  const SystemBytes bytes = Count(facts);
  const std::string sentence = BytesSentence(bytes, {.bytes = 50LL << 30});
  CHECK(sentence ==
        "as Megatron-LM counts: 56.9 GiB (weights 5.3, gradients 10.5, states 31.5, activations "
        "9.6); ours 50.0 GiB, exact and proved");
  const auto json = BytesJson(bytes, {.bytes = 7});
  CHECK(json["bytes"] == bytes.total());
  CHECK(json["ours"] == 7);
  CHECK(json["lines"][0]["formula"] == "2 bytes x 2,822,731,776");
  CHECK(json["printed"].size() == bytes.printed.size());
  CHECK(absl::StrContains(json["leaves_out"].dump(), "workspaces of Transformer Engine"));
  CHECK(BytesJson(bytes, {})["ours"].is_null());
}

TEST_CASE("a command as people paste it") {
  ForeignInput input;
  for (const auto word : absl::StrSplit(
           "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size "
           "4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
           "--num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 "
           "--position-embedding-type rope --swiglu --normalization RMSNorm --disable-bias-linear "
           "--untie-embeddings-and-output-weights --vocab-size 128256 --hidden-dropout 0 "
           "--attention-dropout 0 --tensor-model-parallel-size 2 --sequence-parallel "
           "--micro-batch-size 1 --global-batch-size 128 --bf16 --use-distributed-optimizer",
           ' ')) {
    input.words.emplace_back(word);
  }
  const Facts facts = ReadForeign(input).value();
  const SystemBytes bytes = TheirBytes(facts).value();
  // 128,256 words are a multiple of 256 already. Norms and nothing else are on both devices.
  const int64_t norms = 65 * 4096;
  const int64_t parameters = (kLlama8Parameters - norms) / 2 + norms;
  CHECK(bytes.Sum("weights") == 2 * parameters);
  CHECK(bytes.Sum("states") == 12 * parameters / 8);
  // 8 h + 2 (2 h + 2 x 1,024) + 6 f of a block; logits in f32.
  CHECK(bytes.Sum("activations") ==
        32LL * 8192 * (12 * 4096 + 4 * 1024 + 6 * 14336) / 2 + 8192LL * (8 + 4 * 4096) / 2);
  CHECK(bytes.Sum("logits") == 8192LL * 4 * 128'256 / 2);
}

TEST_CASE("what the formulas need is asked for") {
  const auto refuses = [](const auto& change, const char* what) {
    Facts facts = Gpt175();
    CompleteDegrees({}, &facts);
    change(facts);
    const absl::Status status = TheirBytes(facts).status();
    INFO(status.message());
    CHECK(absl::StrContains(std::string(status.message()), what));
  };
  refuses([](Facts& f) { f.model.model.reset(); }, "add --model=MODEL");
  refuses([](Facts& f) { f.devices.reset(); }, "add --devices=NODESxGPUS");
  refuses([](Facts& f) { f.sequence.reset(); }, "add --sequence=POSITIONS");
  refuses([](Facts& f) { f.batch.micro.reset(); }, "add --batch=SEQUENCES");
  refuses([](Facts& f) { f.system = "colossalai"; }, "no formula is known");
  refuses([](Facts& f) { f.broken = {{.numbers = "48 is no multiple", .hint = "64 GPUs"}}; },
          "breaks a rule: 48 is no multiple; 64 GPUs");
}

}  // namespace
}  // namespace oneflow::foreign
