#include "oneflow_core/graph/block_classes.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "oneflow_core/graph/graph_builder.h"

namespace oneflow {
namespace {

// A block in which everything that tests change is a field.
struct BlockFacts {
  int64_t window = 0, inner = 16;
  Init init = Normal(0.02);
  bool dense = true;          // with a second product
  bool marked = false;        // its user says what is recomputed
  std::string from = "";      // what its sum reads of others; empty: the stream
  std::string kind = "gelu";  // of its activation
};

using Edit = std::function<void(int block, BlockFacts* facts)>;

proto::Graph Chain(int blocks, const Edit& edit) {
  GraphBuilder g("chain");
  const auto ids = g.Input("ids", {2, 8}, "tokens", DType::kI32);
  const auto angles = g.Gelu("angles", g.Input("angle", {8}));
  auto x = g.Embedding("embed", g.Variable("table", {64, 16}, Normal(0.02)), ids);
  for (int b = 0; b < blocks; ++b) {
    BlockFacts facts;
    edit(b, &facts);
    const std::string h = "h." + std::to_string(b) + ".";
    g.Block(b);
    const auto w = g.Variable(h + "w", {16, facts.inner}, facts.init);
    const auto a = g.Attention(h + "attn", x, g.Op("add", h + "turn", {x, angles}), x,
                               {.window = facts.window});
    auto y = g.Op(facts.kind, h + "act", {g.Linear(h + "fc", a, w)});
    if (facts.dense) y = g.Linear(h + "back", y, g.Variable(h + "v", {facts.inner, 16}, Zeros()));
    x = g.Add(h + "add", facts.from.empty() ? x : GraphBuilder::Value{facts.from}, y);
  }
  g.Block(-1);
  g.Output(g.Gelu("last", x));
  proto::Graph graph = g.proto();
  for (proto::Op& op : *graph.mutable_op()) {
    BlockFacts facts;
    if (op.has_block()) edit(op.block(), &facts);
    if (facts.marked && op.kind() == "gelu") op.set_recompute(op.name());
  }
  return graph;
}

std::string Pattern(int blocks, const Edit& edit) {
  return FindBlockClasses(Chain(blocks, edit)).PatternText();
}

TEST_CASE("block classes: blocks are of one class unless an op differs") {
  CHECK(Pattern(1, [](int, BlockFacts*) {}) == "a");
  CHECK(Pattern(4, [](int, BlockFacts*) {}) == "4*a");
  CHECK(Pattern(4, [](int b, BlockFacts* f) { f->window = b == 2 ? 4 : 0; }) == "2*a b a");
  CHECK(Pattern(4, [](int b, BlockFacts* f) { f->inner = b == 1 ? 32 : 16; }) == "a b 2*a");
  CHECK(Pattern(4, [](int b, BlockFacts* f) { f->kind = b == 3 ? "silu" : "gelu"; }) == "3*a b");
  CHECK(Pattern(4, [](int b, BlockFacts* f) { f->marked = b == 0; }) == "a 3*b");
  CHECK(Pattern(4, [](int b, BlockFacts* f) {
          f->marked = true;
          if (b == 2) f->from = "embed";
        }) == "2*a b a");
  CHECK(Pattern(4, [](int b, BlockFacts* f) {
          if (b == 2) f->from = "h.0.add";
        }) == "2*a b a");
}

TEST_CASE("block classes: a variable may begin otherwise") {
  CHECK(Pattern(3, [](int b, BlockFacts* f) { f->init = b == 1 ? Uniform(2) : Ones(); }) == "3*a");
  CHECK(Pattern(3, [](int b, BlockFacts* f) { f->init = b == 1 ? NoDecay(Ones()) : Ones(); }) ==
        "a b a");
}

TEST_CASE("block classes: blocks behind shorter ones are like those behind longer ones") {
  const auto dense_until = [](int until) {
    return [until](int b, BlockFacts* f) { f->dense = b < until; };
  };
  CHECK(Pattern(4, dense_until(0)) == "4*a");
  CHECK(Pattern(4, dense_until(1)) == "a 3*b");
  CHECK(Pattern(4, dense_until(3)) == "3*a b");
  CHECK(Pattern(6, [](int b, BlockFacts* f) { f->dense = b % 2 == 0; }) == "3*(a b)");
}

TEST_CASE("block classes: blocks number from 0 without a gap") {
  proto::Graph graph = Chain(3, [](int, BlockFacts*) {});
  for (const int number : {7, 1 << 30}) {
    for (proto::Op& op : *graph.mutable_op()) {
      if (op.has_block() && op.block() >= 2) op.set_block(number);
    }
    CHECK(FindBlockClasses(graph).class_of.empty());
  }
  for (proto::Op& op : *graph.mutable_op()) op.clear_block();
  const BlockClasses none = FindBlockClasses(graph);
  CHECK(none.size() == 0);
  CHECK(none.PatternText().empty());
}

std::string Fold(const std::string& letters) {
  BlockClasses classes;
  for (const char letter : letters) classes.class_of.push_back(letter - 'a');
  return classes.PatternText();
}

TEST_CASE("block classes: the text of a pattern folds what repeats") {
  CHECK(Fold("aaaab") == "4*a b");
  CHECK(Fold("abab") == "2*(a b)");
  CHECK(Fold("aaabaaab") == "2*(3*a b)");
  CHECK(Fold("abbbbb") == "a 5*b");
  CHECK(Fold("abc") == "a b c");
  CHECK(Fold("aabababc") == "2*a 2*(b a) b c");
  std::string gemma;
  for (int i = 0; i < 62; ++i) gemma += i % 6 == 5 ? 'b' : 'a';
  CHECK(Fold(gemma) == "10*(5*a b) 2*a");
}

TEST_CASE("block classes: counts and names") {
  const BlockClasses classes{{0, 1, 1, 0, 2, 1}};
  CHECK(classes.size() == 3);
  CHECK(classes.FirstBlocks() == std::vector<int>{0, 1, 4});
  CHECK(classes.CountBlocks() == std::vector<int>{2, 3, 1});
  for (const auto& [index, name] :
       {std::pair(0, "a"), {25, "z"}, {26, "aa"}, {27, "ab"}, {701, "zz"}, {702, "aaa"}}) {
    CHECK(BlockClassName(index) == name);
    CHECK(ParseBlockClassName(name) == index);
  }
  for (const char* const name : {"", "A", "a1", "aaaaaa"}) CHECK(!ParseBlockClassName(name));
}

}  // namespace
}  // namespace oneflow
