// Generating with caches, on every kind of mesh, against program `generate` of a plan that trains:
// the full window recomputed for every token, with no cache at all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "compiler/compile.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/mesh.h"
#include "tests/e2e/add_sinks.h"
#include "tests/e2e/small_run.h"
#include "tools/oneflow/model/language_model.h"

namespace oneflow {
namespace {

using Tokens = std::vector<int32_t>;

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Weights are a function of seed and name: all plans of a model begin with the same.
std::unique_ptr<Runtime> Start(const proto::Plan& plan, int threads = 2) {
  RuntimeOptions options;
  options.threads = threads;
  auto runtime = Runtime::Create(plan, options).value();
  RunContext context;
  context.seed = 5;
  REQUIRE(runtime->Run("init", context, 1).ok());
  return runtime;
}

proto::Plan PlanToGenerate(const SmallRun& run, const std::string& mesh) {
  PlanRequest request{.recipe = MakeRecipe("--purpose=generation --schedule=gpipe --mesh=" + mesh)};
  request.recipe.set_batch(ParseMesh(mesh)->devices());
  proto::Graph graph = BuildModel(run.model);
  if (run.edit) run.edit(&graph);
  return Compile(graph, "small", request).value();
}

// Logits of the last token of the window, from `generate`, which knows nothing of caches.
std::vector<float> LogitsWithoutCache(Runtime& runtime, const proto::Model& model,
                                      const Tokens& tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t begin = WindowBegin(n, model.sequence());
  std::vector<float> logits(model.vocab());
  RunContext context;
  context.load = [&](const Piece& piece) {
    auto* ids = reinterpret_cast<int32_t*>(piece.data);
    std::fill_n(ids, piece.slice->elements(), 0);
    std::copy(tokens.begin() + begin, tokens.end(), ids);
    return absl::OkStatus();
  };
  context.save = [&](const Piece& piece) {
    const auto* rows = reinterpret_cast<const float*>(piece.data);
    std::copy_n(rows + (n - begin - 1) * model.vocab(), model.vocab(), logits.begin());
    return absl::OkStatus();
  };
  REQUIRE(runtime.Run("generate", context, 1).ok());
  return logits;
}

SmallRun SmallModel(int64_t sequence) {
  SmallRun run;
  run.Set("mesh", "");
  run.model.set_sequence(sequence);
  return run;
}

// Greedy: `length` tokens after `prompt`, each compared.
void CheckGreedy(const SmallRun& run, const std::string& mesh, Tokens tokens, int length) {
  INFO("sequence " << run.model.sequence() << ", mesh " << mesh);
  const auto plain = Start(CompileSmall(run));
  const proto::Plan plan = PlanToGenerate(run, mesh);
  const auto cached = Start(plan);
  LanguageModel model(*cached, *FactsOfModel(plan));
  for (int i = 0; i < length; ++i) {
    const std::vector<float> expected = LogitsWithoutCache(*plain, run.model, tokens);
    const auto logits = model.Next(tokens);
    INFO("token " << i << ": " << logits.status().ToString());
    REQUIRE(logits.ok());
    double apart = 0;
    for (size_t v = 0; v < expected.size(); ++v) {
      apart = std::max(apart, std::abs(double{(*logits)[v]} - expected[v]));
    }
    REQUIRE(apart < 1e-5);
    REQUIRE(ArgMax(*logits) == ArgMax(expected));
    tokens.push_back(ArgMax(expected));
  }
}
void CheckGreedy(int64_t sequence, const std::string& mesh, Tokens tokens, int length) {
  CheckGreedy(SmallModel(sequence), mesh, std::move(tokens), length);
}

}  // namespace

TEST_CASE("the window jumps by half a sequence") {
  std::vector<int64_t> begins;
  for (int64_t n : {1, 8, 9, 12, 13, 16, 17, 100}) begins.push_back(WindowBegin(n, 8));
  CHECK(begins == std::vector<int64_t>{0, 0, 4, 4, 8, 8, 12, 92});
  CHECK(WindowBegin(5, 1) == 4);
  for (int64_t n = 1; n < 50; ++n) {
    for (int64_t sequence : {1, 2, 5, 8}) {
      const int64_t seen = n - WindowBegin(n, sequence);
      CHECK((seen >= 1 && seen <= sequence && (n <= sequence || 2 * seen > sequence)));
    }
  }
}

TEST_CASE("a text is entered in pieces that are mostly full") {
  const auto pieces = [](int64_t sequence, int64_t left) {
    const std::vector<Prefill> prefills = FindPrefills(sequence);
    std::vector<int64_t> positions;
    while (left > 0) {
      const Prefill* next = NextPrefill(prefills, left);
      positions.push_back(next == nullptr ? 1 : next->positions);
      left -= positions.back();
    }
    return positions;
  };
  using Pieces = std::vector<int64_t>;
  CHECK(pieces(1024, 255) == Pieces{256});
  CHECK(pieces(1024, 192) == Pieces{256});
  CHECK(pieces(1024, 191) == Pieces{64, 64, 64});
  CHECK(pieces(1024, 600) == Pieces{256, 256, 64, 16, 16});
  CHECK(pieces(1024, 2) == Pieces{1, 1});
  CHECK(pieces(1024, 3) == Pieces{16});
  CHECK(pieces(40, 39) == Pieces{40});
  CHECK(pieces(8, 5) == Pieces{8});
}

TEST_CASE("cached and not cached agree on every mesh, within a window and past it") {
  for (const char* mesh : {"", "tensor=2", "pipe=2", "data=2", "pipe=2,tensor=2"}) {
    CheckGreedy(8, mesh, {3, 1, 4}, 20);
  }
}

TEST_CASE("a prompt may be one token, longer than a piece of prefill, or longer than the window") {
  CheckGreedy(8, "", {7}, 3);
  Tokens prompt;
  for (int i = 0; i < 130; ++i) prompt.push_back(i * 7 % 21);
  CheckGreedy(150, "", prompt, 3);  // pieces of 64, 64 and 1, which is decoded, as is the last
  CheckGreedy(100, "tensor=2", prompt, 2);
  CheckGreedy(1, "", {2, 3}, 2);
}

TEST_CASE("so do they where attention has sinks, a window, a scale and a cap") {
  SmallRun run = SmallModel(8);
  run.edit = [](proto::Graph* graph) {
    *graph = BuildModel(MakeModel(
        "family: 'llama' layers: 2 hidden: 16 inner: 12 heads: 4 groups: 2 head_dim: 4 sequence: 8 "
        "vocab: 21 window: 5"));
    AddSinks(2, 2, graph);
  };
  for (const char* mesh : {"", "tensor=2x2"}) CheckGreedy(run, mesh, {3, 1, 4}, 9);
}

TEST_CASE("how tokens were asked for does not change bits") {
  const proto::Plan plan = PlanToGenerate(SmallModel(8), "");
  const ModelFacts facts = *FactsOfModel(plan);
  const Tokens tokens = {3, 1, 4, 1, 5, 9};
  std::vector<std::vector<float>> all;
  for (const int threads : {1, 2}) {
    for (const size_t first : {1, 3, 6}) {
      const auto runtime = Start(plan, threads);
      LanguageModel model(*runtime, facts);
      REQUIRE(model.Next(std::span(tokens).first(first)).ok());
      const auto logits = model.Next(tokens).value();
      all.emplace_back(logits.begin(), logits.end());
      CHECK(all.back() == all.front());
    }
  }
}

TEST_CASE("a position outside of the cache is refused while it runs") {
  const proto::Plan plan = PlanToGenerate(SmallModel(8), "");
  const auto runtime = Start(plan);
  RunContext context;
  context.load = [](const Piece& piece) {
    std::fill_n(reinterpret_cast<int32_t*>(piece.data), piece.slice->elements(), 8);
    return absl::OkStatus();
  };
  context.save = [](const Piece&) { return absl::OkStatus(); };
  const absl::Status status = runtime->Run("decode", context, 1);
  CHECK_THAT(std::string(status.message()), Catch::Contains("position 8 is outside"));
}

TEST_CASE("a plan that generates holds weights and caches, no optimizer") {
  const SmallRun run = SmallModel(8);
  const proto::Plan plan = PlanToGenerate(run, "");
  std::string programs;
  for (const proto::Program& program : plan.program()) programs += program.name() + " ";
  CHECK(programs == "init prefill decode save load ");
  int64_t caches = 0;
  for (const proto::Register& r : plan.persistent()) {
    if (r.name().ends_with(".cache")) caches += r.slot_bytes();
  }
  CHECK(caches == run.model.layers() * 2 * run.model.sequence() * run.model.hidden() * 4);
  for (const proto::Variable& v : plan.variable()) {
    CHECK_FALSE(v.name().ends_with(".cache"));
    CHECK_FALSE(v.name().ends_with("/m"));
  }
}

}  // namespace oneflow
