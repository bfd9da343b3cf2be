// Logits in pieces: training gives the losses of whole logits on any mesh, and what changes no bit
// elsewhere changes none here; no tensor of a plan is as large as the logits, and its arena is as
// much smaller.
#include <algorithm>
#include <string>

#include "catch2/catch.hpp"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/verify_plan.h"
#include "proto/plan.pb.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

// A micro-batch has 192 rows: 3 pieces of 64, or 6 of 32, the least that a piece has.
SmallRun MakeRun(const std::string& mesh, int64_t pieces) {
  SmallRun run;
  run.model.set_layers(2), run.model.set_sequence(48);
  run.Set("--batch=8 --micro_batches=2");
  run.steps = 5;
  run.Set("mesh", mesh);
  run.recipe.set_loss_pieces(pieces);
  return run;
}

// Puts a soft cap between the logits and the loss.
void CapLogits(proto::Graph* graph) {
  for (int at = 0; at < graph->op_size(); ++at) {
    if (graph->op(at).kind() != "softmax_cross_entropy") continue;
    proto::Op* cap = graph->add_op();
    cap->set_kind("soft_cap"), cap->set_name("capped");
    cap->add_input(graph->op(at).input(0));
    (*cap->mutable_attr())["cap"].set_f(2);
    graph->mutable_op(at)->set_input(0, "capped");
    for (int i = graph->op_size() - 1; i > at; --i) graph->mutable_op()->SwapElements(i, i - 1);
    return;
  }
}

// The head of a GPT is the table of its embedding; this one has a head of its own, and capped
// logits.
SmallRun MakeLlamaRun(const std::string& mesh, int64_t pieces) {
  SmallRun run = MakeRun(mesh, pieces);
  run.edit = [](proto::Graph* graph) {
    proto::Model config = MakeModel("family: 'llama'");
    config.set_layers(2), config.set_hidden(16), config.set_inner(24), config.set_heads(2),
        config.set_groups(2);
    config.set_head_dim(8), config.set_sequence(48), config.set_vocab(21), config.set_tied(false);
    *graph = BuildModel(config);
    CapLogits(graph);
  };
  return run;
}

TEST_CASE("logits in pieces give the losses of whole ones, of a tied head and of another") {
  for (const auto make : {MakeRun, MakeLlamaRun}) {
    const SmallResult full = Train(make("", 0));
    CHECK(Train(make("", 1)) == full);  // to the bit
    for (const std::string mesh : {"", "data=2", "tensor=2", "pipe=2"}) {
      for (const int64_t count : {3, 8}) {
        INFO(mesh << ", " << count << " pieces");
        const SmallResult pieces = Train(make(mesh, count));
        CHECK(LargestDifference(pieces, full) < 1e-5);
        // Rows do not depend on pieces; sums over them, in the gradient of the head, do.
        if (mesh.empty()) CHECK(pieces.losses[0] == full.losses[0]);
      }
    }
  }
}

TEST_CASE("so do bf16, split weights, and losses that count their labels") {
  for (const std::string mesh : {"data=2", "pipe=2,data=2"}) {
    SmallRun run = MakeRun(mesh, 0);
    run.Set("--precision=bf16 --residual=bf16 --shard=weights");
    run.edit = [](proto::Graph* graph) {
      for (proto::Op& op : *graph->mutable_op()) {
        if (op.kind() == "softmax_cross_entropy") {
          (*op.mutable_attr())["ignore_negative"].set_b(true);
        }
      }
      CapLogits(graph);
    };
    const SmallResult full = Train(run);
    run.Set("--loss_pieces=3");
    CHECK(LargestDifference(Train(run), full) < 1e-5);
  }
}

TEST_CASE("stages, schedule, threads and recomputation change no bit of pieces") {
  const SmallResult one = Train(MakeRun("", 3));
  for (const std::string schedule : {"1f1b", "gpipe", "zero_bubble"}) {
    SmallRun run = MakeRun("pipe=2", 3);
    run.recipe.set_schedule(schedule);
    CHECK(Train(run) == one);
  }
  SmallRun run = MakeRun("", 3);
  run.Set("--recompute=full");
  CHECK(Train(run) == one);
  run.threads = 2;
  CHECK(Train(run) == one);
}

// 2,048 rows of 4,096 f32.
constexpr int64_t kLogitBytes = 2048 * 4096 * 4;

proto::Plan CompileWide(int64_t pieces) {
  SmallRun run;
  run.model.set_layers(1), run.model.set_sequence(256), run.model.set_vocab(4096);
  run.Set("--micro_batches=1");
  run.recipe.set_loss_pieces(pieces);
  return CompileSmall(run);
}

int64_t ArenaBytes(const proto::Plan& plan) { return plan.memory(0).arena_bytes(); }

int64_t LargestRegister(const proto::Plan& plan) {
  int64_t most = 0;
  for (const char* program : {"train", "eval"}) {
    for (const proto::Register& r : FindProgram(plan, program)->register_()) {
      most = std::max(most, r.slot_bytes());
    }
  }
  return most;
}

TEST_CASE("no tensor is as large as the logits, and the arena is smaller by them") {
  const proto::Plan full = CompileWide(0), pieces = CompileWide(8);
  CHECK(LargestRegister(full) == kLogitBytes);
  // A piece, with up to 12 MiB of scratch for its products, is the largest.
  CHECK(LargestRegister(pieces) < kLogitBytes / 8 + (12 << 20));
  CHECK(ArenaBytes(full) - ArenaBytes(pieces) > kLogitBytes / 2);
}

TEST_CASE("a plan in which the gradient of an activation adds up is refused") {
  proto::Plan plan = CompileSmall(MakeRun("", 3));
  CHECK(VerifyPlan(plan) == absl::OkStatus());
  proto::Program* train = nullptr;
  for (proto::Program& program : *plan.mutable_program()) {
    if (program.name() == "train") train = &program;
  }
  REQUIRE(train != nullptr);
  for (const proto::Actor& actor : train->actor()) {
    if (actor.kernel() != "linear_row_stats_grad") continue;
    for (proto::Register& r : *train->mutable_register_()) {
      if (r.id() == actor.output(0)) r.set_fill_mode(proto::Register::ACCUMULATE);
      if (r.id() == actor.output(0)) r.set_fires_per_fill(2);
    }
  }
  CHECK_FALSE(VerifyPlan(plan).ok());
}

}  // namespace
}  // namespace oneflow
