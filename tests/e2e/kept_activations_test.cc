// The bytes that blocks keep from forward to backward equal the formulas of Korthikanti et al. 2022
// ("Reducing Activation Recomputation in Large Transformer Models", section 4), to the byte: 16-bit
// activations, masks of a byte, unfused attention. s, b, h, a, t: sequence, micro-batch, hidden
// size, heads, tensor-parallel degree.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catch2/catch.hpp"
#include "oneflow_core/plan/plan_lookup.h"
#include "tests/e2e/small_run.h"
#include "tools/oneflow/explain/model_memory.h"

namespace oneflow {
namespace {

constexpr int64_t kLayers = 8, s = 32, b = 4, h = 64, a = 8;
constexpr int64_t sbh = s * b * h, ass_b = a * s * s * b;

SmallRun PaperRun(const std::string& mesh = "", const std::string& recompute = "") {
  SmallRun run;
  run.model = MakeModel(absl::StrCat(
      "family: 'gpt' layers: ", kLayers, " heads: ", a, " hidden: ", h, " sequence: ", s,
      " vocab: 128 dropout: 0.1 attention: 'unfused' masks: 'stored'"));
  run.Set("mesh", mesh);
  run.Set("recompute", recompute);
  run.Set("--precision=bf16 --residual=bf16");
  run.recipe.set_batch(8 * b);
  run.Set("--micro_batches=8");
  return run;
}

ModelMemory CompiledMemory(const SmallRun& run, int stage = 0) {
  return MemoryOfStage(CompileSmall(run), stage).value();
}

SmallRun Split(SmallRun run) {
  run.Set("--sequence_parallel");
  return run;
}

TEST_CASE("a block keeps what the paper lists, each tensor with its bytes") {
  const proto::Plan plan = CompileSmall(PaperRun());
  const auto net = MakePlanNet(plan, *FindProgram(plan, "train")).value();
  std::map<std::string, int64_t> kept, statistics;
  for (const KeptRegister& r : KeptRegisters(net, 0)) {
    if (r.block == 1) (r.statistics ? statistics : kept)[r.proto->name()] = r.proto->slot_bytes();
  }
  const std::map<std::string, int64_t> paper = {
      {"h.0.mlp.add", 2 * sbh},              // input of the first layer norm
      {"h.1.ln_1", 2 * sbh},                 // of the products of queries, keys and values
      {"h.1.attn.core.split", 2 * sbh},      // queries
      {"h.1.attn.core.split:1", 2 * sbh},    // keys
      {"h.1.attn.core.split:2", 2 * sbh},    // values
      {"h.1.attn.core.softmax", 2 * ass_b},  // output of the softmax
      {"h.1.attn.core.drop:1", ass_b},       // mask of its dropout
      {"h.1.attn.core.drop", 2 * ass_b},     // output of its dropout
      {"h.1.attn.core", 2 * sbh},            // input of the projection
      {"h.1.attn.drop:1", sbh},              // mask
      {"h.1.attn.add", 2 * sbh},             // input of the second layer norm
      {"h.1.ln_2", 2 * sbh},                 // of the first product
      {"h.1.mlp.fc", 8 * sbh},               // of gelu
      {"h.1.mlp.gelu", 8 * sbh},             // of the second product
      {"h.1.mlp.drop:1", sbh},               // mask
  };
  CHECK(kept == paper);
  // The paper omits two f32 for each row and layer norm.
  CHECK(statistics == std::map<std::string, int64_t>{{"h.1.ln_1:1", 4 * s * b},
                                                     {"h.1.ln_1:2", 4 * s * b},
                                                     {"h.1.ln_2:1", 4 * s * b},
                                                     {"h.1.ln_2:2", 4 * s * b}});
}

TEST_CASE("no parallelism: sbh (34 + 5 a s / h) a layer") {
  CHECK(CompiledMemory(PaperRun()).kept_in_blocks == kLayers * (34 * sbh + 5 * ass_b));
}

TEST_CASE("tensor parallel: sbh (10 + 24 / t + 5 a s / (h t))") {
  for (const int64_t t : {2, 4}) {
    const std::string mesh = "tensor=" + std::to_string(t);
    CHECK(CompiledMemory(PaperRun(mesh)).kept_in_blocks ==
          kLayers * (10 * sbh + (24 * sbh + 5 * ass_b) / t));
    CHECK(CompiledMemory(PaperRun(mesh, "attention")).kept_in_blocks ==
          kLayers * (10 * sbh + 24 * sbh / t));
  }
}

TEST_CASE("sequence parallel: sbh (34 / t + 5 a s / (h t))") {
  for (const int64_t t : {2, 4}) {
    const std::string mesh = "tensor=" + std::to_string(t);
    CHECK(CompiledMemory(Split(PaperRun(mesh, "gather"))).kept_in_blocks ==
          kLayers * (34 * sbh + 5 * ass_b) / t);
    CHECK(CompiledMemory(Split(PaperRun(mesh, "attention,gather"))).kept_in_blocks ==
          kLayers * 34 * sbh / t);
    // Without the second gather two inputs of products, of 2 sbh each, are kept replicated.
    CHECK(CompiledMemory(Split(PaperRun(mesh, "attention"))).kept_in_blocks ==
          kLayers * (4 * sbh + 30 * sbh / t));
  }
}

TEST_CASE("full recompute: 2 sbh") {
  CHECK(CompiledMemory(PaperRun("", "full")).kept_in_blocks == kLayers * 2 * sbh);
  CHECK(CompiledMemory(PaperRun("tensor=2", "full")).kept_in_blocks == kLayers * 2 * sbh);
}

// Where a block that is recomputed stands before one that is not, the input of the latter is not
// kept: it is recomputed with the block that makes it.
TEST_CASE("full recompute of some blocks: the more of them, the fewer bytes") {
  const int64_t layer = 34 * sbh + 5 * ass_b;
  int64_t arena = INT64_MAX;
  for (int64_t blocks = 0; blocks <= kLayers; ++blocks) {
    const std::string policy = blocks == 0         ? "none"
                               : blocks == kLayers ? "full"
                                                   : "full:" + std::to_string(blocks);
    INFO(policy);
    const proto::Plan plan = CompileSmall(PaperRun("", policy));
    const auto memory = MemoryOfStage(plan, 0).value();
    const int64_t input = blocks > 0 && blocks < kLayers ? 2 * sbh : 0;
    CHECK(memory.kept_in_blocks == blocks * 2 * sbh + (kLayers - blocks) * layer - input);
    // The last block is recomputed when its backward begins: at once it is all there.
    if (blocks < kLayers) {
      CHECK(plan.memory(0).arena_bytes() < arena);
    } else {
      CHECK(plan.memory(0).arena_bytes() <= arena);
    }
    arena = plan.memory(0).arena_bytes();
  }
  CHECK(CompiledMemory(PaperRun("", "full:3,attention:4")).kept_in_blocks ==
        3 * 2 * sbh + (4 * 34 - 2) * sbh + layer);
}

TEST_CASE("blocks of each stage: the first, which holds the most micro-batches, recomputes most") {
  const int64_t layer = 34 * sbh + 5 * ass_b;
  const SmallRun run = PaperRun("pipe=4", "full:2/1/0/0,attention:0/0/1/0");
  const int64_t kept[] = {2 * 2 * sbh, 2 * sbh + layer - 2 * sbh, 34 * sbh + layer, 2 * layer};
  for (int stage = 0; stage < 4; ++stage) {
    INFO("stage " << stage);
    CHECK(CompiledMemory(run, stage).kept_in_blocks == (4 - stage) * kept[stage]);
  }
}

TEST_CASE("1F1B: stage s of p holds p - s micro-batches, the first as much as all layers") {
  const int64_t layer = 34 * sbh + 5 * ass_b;
  for (const int64_t p : {2, 4}) {
    for (int64_t stage = 0; stage < p; ++stage) {
      INFO("stage " << stage << " of " << p);
      const SmallRun run = PaperRun("pipe=" + std::to_string(p));
      CHECK(CompiledMemory(run, static_cast<int>(stage)).kept_in_blocks ==
            kLayers / p * (p - stage) * layer);
    }
  }
}

TEST_CASE("interleaved: times 1 + (p - 1) / (p v)") {
  const int64_t layer = 34 * sbh + 5 * ass_b;
  for (const auto& [p, v] : {std::pair(2, 2), std::pair(2, 4), std::pair(4, 2)}) {
    INFO("p " << p << " v " << v);
    SmallRun run = PaperRun("pipe=" + std::to_string(p));
    run.Set("--schedule=interleaved");
    run.recipe.set_chunks(v);
    CHECK(CompiledMemory(run).kept_in_blocks == kLayers * layer * (p * v + p - 1) / (p * v));
  }
}

TEST_CASE("states of matrices in blocks: 18 bytes a parameter, 12 h^2 of them a layer") {
  CHECK(CompiledMemory(PaperRun()).matrices_of_blocks == 18 * kLayers * 12 * h * h);
  CHECK(CompiledMemory(PaperRun("pipe=2,tensor=2")).matrices_of_blocks ==
        18 * kLayers * 12 * h * h / 4);
}

// In GiB: all four models with ONEFLOW_TEST_FULL (docs/results/activations-2026-11-21.txt).
TEST_CASE("the published bytes of 22B and 175B come out exactly") {
  constexpr double kGiB = 1 << 30;
  struct Row {
    int layers, heads, hidden, stages, batch, micro_batches, chunks;
    double states, tensor_parallel, selective;
  };
  std::vector<Row> rows = {{48, 64, 6144, 1, 4, 1, 1, 45.5625, 59.25, 9.5625},
                           {96, 96, 12288, 8, 64, 64, 3, 45.5625, 66.84375, 12.3515625}};
  if (std::getenv("ONEFLOW_TEST_FULL") != nullptr) {
    rows.push_back({105, 128, 20480, 35, 280, 280, 3, 31.640625, 114.0234375, 23.076171875});
    rows.push_back({128, 160, 25600, 64, 512, 512, 1, 32.958984375, 131.25, 26.5625});
  }
  for (const Row& row : rows) {
    INFO(row.layers << " layers of " << row.hidden);
    SmallRun run = PaperRun("pipe=" + std::to_string(row.stages) + ",tensor=8");
    run.model.set_layers(row.layers), run.model.set_heads(row.heads),
        run.model.set_hidden(row.hidden);
    run.model.set_sequence(2048), run.model.set_vocab(51200);
    run.recipe.set_batch(row.batch);
    run.recipe.set_micro_batches(row.micro_batches);
    if (row.chunks > 1) {
      run.Set("--schedule=interleaved");
      run.recipe.set_chunks(row.chunks);
    }
    const ModelMemory memory = CompiledMemory(run);
    CHECK(static_cast<double>(memory.matrices_of_blocks) == row.states * kGiB);
    CHECK(static_cast<double>(memory.kept_in_blocks) == row.tensor_parallel * kGiB);
    run.Set("--recompute=attention,gather");
    CHECK(static_cast<double>(CompiledMemory(Split(run)).kept_in_blocks) == row.selective * kGiB);
  }
}

TEST_CASE("the fused graph keeps less: nothing of s x s, and no masks") {
  SmallRun run = PaperRun();
  run.model.set_attention("fused");
  run.model.set_masks("recomputed");
  const ModelMemory memory = CompiledMemory(run);
  CHECK(memory.kept_in_blocks == kLayers * 32 * sbh);
  // Statistics of layer norms, and the log-sum-exp of each head's rows.
  CHECK(memory.kept_statistics == kLayers * (4 * 4 + 4 * a) * s * b);
}

TEST_CASE("a plan that does not train, or has no such stage, is refused") {
  proto::Plan plan = CompileSmall(PaperRun());
  CHECK(MemoryOfStage(plan, 1).status().message() == "stage 1: is not of the plan; it has 1");
  plan.clear_program();
  CHECK(MemoryOfStage(plan, 0).status().message() ==
        "plan of gpt: has no program \"train\"; compile a graph that has a loss");
}

}  // namespace
}  // namespace oneflow
