// Orders that a user writes: what ParseOrder accepts, and what compile makes of it, against a token
// game on the orders alone.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/schedule/order_file.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

struct PipeShape {
  int stages = 1, chunks = 1, micro_batches = 1;
  bool splits_backward = false;
  bool overlap = false, cuda = false;
  int ahead = -1;  // weights are split over two devices and gathered so many uses ahead
};

struct WrittenTask {
  char part = 'F';
  int micro_batch = 0, chunk = 0;
  auto operator<=>(const WrittenTask&) const = default;
};
using Orders = std::vector<std::vector<WrittenTask>>;

std::string ToText(const Orders& orders) {
  std::string text;
  for (const std::vector<WrittenTask>& order : orders) {
    absl::StrAppend(&text, "stage { task: \"");
    for (const auto& [part, micro_batch, chunk] : order) {
      absl::StrAppend(&text, std::string(1, part), micro_batch, ".", chunk, " ");
    }
    absl::StrAppend(&text, "\" }\n");
  }
  return text;
}

// The orders played one task at a time, by what a pipe of stages * chunks positions is: activations
// go up it, gradients come down.
class TokenGame {
 public:
  explicit TokenGame(const PipeShape& shape) : shape_(shape) {}

  bool MayTake(int stage, const WrittenTask& task) const {
    const auto& [part, micro_batch, chunk] = task;
    const int position = chunk * shape_.stages + stage;
    const bool last = position + 1 == shape_.stages * shape_.chunks;
    const auto done = [&](char other, int at) { return done_.count({other, micro_batch, at}) > 0; };
    switch (part) {
      case 'F': return position == 0 || done('F', position - 1);
      case 'B': return done('F', position) && (last || done('B', position + 1));
      default: return done('B', position);
    }
  }
  void Take(int stage, const WrittenTask& task) {
    done_[{task.part, task.micro_batch, task.chunk * shape_.stages + stage}] = true;
  }

 private:
  const PipeShape shape_;
  std::map<std::tuple<char, int, int>, bool> done_;  // part, micro-batch, position
};

bool IsLive(const PipeShape& shape, const Orders& orders) {
  TokenGame game(shape);
  std::vector<size_t> next(orders.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < orders.size(); ++s) {
      for (; next[s] < orders[s].size(); moved = true, ++next[s]) {
        if (!game.MayTake(static_cast<int>(s), orders[s][next[s]])) break;
        game.Take(static_cast<int>(s), orders[s][next[s]]);
      }
    }
  }
  for (size_t s = 0; s < orders.size(); ++s) {
    if (next[s] < orders[s].size()) return false;
  }
  return true;
}

// A game of all stages in which any task that may come next does: so the orders are live.
Orders DrawLive(std::mt19937& random, const PipeShape& shape) {
  const std::string parts = shape.splits_backward ? "FBW" : "FB";
  TokenGame game(shape);
  Orders orders(shape.stages);
  std::map<std::tuple<int, char, int>, int> taken;  // stage, part, chunk: micro-batches
  for (;;) {
    std::vector<std::pair<int, WrittenTask>> may;
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (const char part : parts) {
        for (int chunk = 0; chunk < shape.chunks; ++chunk) {
          const WrittenTask task{part, taken[{stage, part, chunk}], chunk};
          if (task.micro_batch == shape.micro_batches || !game.MayTake(stage, task)) continue;
          may.emplace_back(stage, task);
        }
      }
    }
    if (may.empty()) return orders;
    const auto& [stage, task] = may[random() % may.size()];
    game.Take(stage, task);
    orders[stage].push_back(task);
    ++taken[{stage, task.part, task.chunk}];
  }
}

// Neighbours of one stage change places, where micro-batches of a task stay in turn.
void Swap(std::mt19937& random, Orders* orders) {
  std::vector<WrittenTask>& order = (*orders)[random() % orders->size()];
  if (order.size() < 2) return;
  const size_t at = random() % (order.size() - 1);
  if (order[at].part == order[at + 1].part && order[at].chunk == order[at + 1].chunk) return;
  std::swap(order[at], order[at + 1]);
}

absl::StatusOr<proto::Plan> CompileOrder(const PipeShape& shape,
                                         const proto::PipelineOrder& order) {
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_layers(9), config.set_heads(1), config.set_hidden(4), config.set_sequence(4),
      config.set_vocab(8);
  const bool sharded = shape.ahead >= 0;
  PlanRequest options{
      .recipe = MakeRecipe(absl::StrCat(
          "--mesh=pipe=", shape.stages, sharded ? ",data=2" : "",
          " --batch=", shape.micro_batches * (sharded ? 2 : 1),
          " --micro_batches=", shape.micro_batches, " --device=", shape.cuda ? "cuda" : "cpu",
          sharded         ? absl::StrCat(" --overlap --shard=weights --prefetch=", shape.ahead)
          : shape.overlap ? " --overlap"
                          : " --overlap=false"))};
  *options.recipe.mutable_order() = order;
  return Compile(BuildModel(config), "gpt", options);
}

}  // namespace

TEST_CASE("a stage receives in the order in which the other sends") {
  const proto::PipelineOrder order =
      ParseOrder(
          "stage { task: \"F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0\" }\n"
          "stage { task: \"F0.0 F1.0 F0.1 B0.1 B0.0 F1.1 B1.1 B1.0\" }\n",
          "own")
          .value();
  const auto plan = CompileOrder({.stages = 2, .chunks = 2, .micro_batches = 2}, order);
  INFO(plan.status().ToString());
  CHECK(plan.ok());
}

TEST_CASE("every live set of orders compiles to a plan that is proved, and no dead one is read") {
  std::mt19937 random(5);
  int live = 0, dead = 0;
  for (int i = 0; i < 90; ++i) {
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    const PipeShape shape{.stages = 2 + below(2),
                          .chunks = 1 + i % 3,
                          .micro_batches = 1 + below(4),
                          .splits_backward = below(3) == 0,
                          .overlap = below(3) == 0,
                          .cuda = below(4) == 0};
    Orders orders = DrawLive(random, shape);
    for (int swaps = below(2) * below(6); swaps > 0; --swaps) Swap(random, &orders);
    const std::string text = ToText(orders);
    INFO("draw " << i << "\n" << text);
    const absl::StatusOr<proto::PipelineOrder> order = ParseOrder(text, "own");
    INFO(order.status().ToString());
    REQUIRE(order.ok() == IsLive(shape, orders));
    ++(order.ok() ? live : dead);
    if (!order.ok()) continue;
    const absl::StatusOr<proto::Plan> plan = CompileOrder(shape, *order);
    INFO(plan.status().ToString());
    CHECK(plan.ok());
  }
  CHECK(live > 50);
  CHECK(dead > 10);
}

TEST_CASE("whatever the orders, gathers that run ahead keep them live") {
  std::mt19937 random(11);
  for (int i = 0; i < 60; ++i) {
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    const PipeShape shape{.stages = 2 + below(2),
                          .chunks = 1 + i % 3,
                          .micro_batches = 1 + below(4),
                          .splits_backward = below(3) == 0,
                          .cuda = below(4) == 0,
                          .ahead = 1 + below(3)};
    const std::string text = ToText(DrawLive(random, shape));
    INFO("draw " << i << ", " << shape.ahead << " ahead\n" << text);
    const proto::PipelineOrder order = ParseOrder(text, "own").value();
    const proto::Plan plan = CompileOrder(shape, order).value();
    int gathers = 0;
    for (const proto::Stream& stream : plan.program(1).stream())
      gathers += stream.name() == "gather";
    CHECK(gathers == shape.stages);
  }
}

}  // namespace oneflow
