#include "compiler/lower/gather_uses.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "compiler/lower/overlap.h"
#include "oneflow_core/graph/graph_for_test.h"

namespace oneflow {
namespace {

struct Example : GraphForTest {
  Example() : GraphForTest("data=2,tensor=2") {}

  int block = -1;  // of what is added next

  TensorId AddIn(Phase phase, const std::string& kind, const std::string& name,
                 const std::vector<TensorId>& inputs, const NdSbp& sbp) {
    const TensorId t = Add(phase, kind, name, inputs, sbp);
    graph.ops[graph.tensors[t].producer].block = block;
    return t;
  }
  // A variable of so many elements, gathered over data.
  TensorId Gathered(const std::string& name, int64_t elements, Phase phase = Phase::kForward) {
    dims = {elements};
    const TensorId w = AddIn(Phase::kForward, "variable", name, {}, {S(0), B()});
    return AddIn(phase, "all_gather", name + ".g", {w}, {B(), B()});
  }
  void Read(const std::string& name, const std::vector<TensorId>& reads,
            Phase phase = Phase::kForward) {
    AddIn(phase, "matmul", name, reads, {B(), B()});
  }

  // The same, cast before it is gathered.
  TensorId GatheredCast(const std::string& name, int64_t elements) {
    dims = {elements};
    const TensorId w = AddIn(Phase::kForward, "variable", name, {}, {S(0), B()});
    const TensorId cast = AddIn(Phase::kForward, "cast", name + ".cast", {w}, {S(0), B()});
    return AddIn(Phase::kForward, "all_gather", name + ".g", {cast}, {B(), B()});
  }

  // "a.g b.g | c.g; d.g": uses apart by "; ", exchanges of a use by " | ". "(a.cast) a.g": casts.
  std::string Uses() const {
    std::string text;
    for (const GatherUse& use : FindGatherUses(graph, ExchangeLanes(graph, true))) {
      if (!text.empty()) text += "; ";
      for (const OpId cast : use.casts) text += "(" + graph.ops[cast].name + ") ";
      for (size_t i = 0; i < use.exchanges.size(); ++i) {
        if (i > 0) text += " | ";
        for (size_t j = 0; j < use.exchanges[i].size(); ++j) {
          text += (j > 0 ? " " : "") + graph.ops[use.exchanges[i][j]].name;
        }
      }
    }
    return text;
  }
};

}  // namespace

TEST_CASE("a block is a use, forward and backward apart, in the order of readers") {
  Example e;
  std::vector<std::vector<TensorId>> gathered;
  for (e.block = 0; e.block < 2; ++e.block) {
    const std::string name = "h" + std::to_string(e.block);
    gathered.push_back({e.Gathered(name + ".a", 16), e.Gathered(name + ".b", 64)});
  }
  for (e.block = 0; e.block < 2; ++e.block) {
    for (const TensorId w : gathered[e.block]) e.Read("y" + std::to_string(w), {w});
  }
  for (e.block = 1; e.block >= 0; --e.block) {
    const TensorId in_backward =
        e.Gathered("h" + std::to_string(e.block) + ".back", 16, Phase::kBackward);
    e.Read("dx" + std::to_string(e.block), {in_backward}, Phase::kBackward);
  }
  CHECK(e.Uses() == "h0.a.g h0.b.g; h1.a.g h1.b.g; h1.back.g; h0.back.g");
}

TEST_CASE("exchanges that do not do the same are apart, in an order in which they can be issued") {
  Example e;
  e.block = 0;
  e.dims = {16, 16};
  const TensorId w = e.AddIn(Phase::kForward, "variable", "w", {}, {S(0), S(1)});
  const TensorId half = e.AddIn(Phase::kForward, "all_gather", "half", {w}, {B(), S(1)});
  const TensorId full = e.AddIn(Phase::kForward, "all_gather", "full", {half}, {B(), B()});
  const TensorId other = e.AddIn(Phase::kForward, "all_to_all", "turned", {w}, {S(1), S(1)});
  const TensorId a = e.Gathered("a", 16);
  e.Read("x", {a, other});
  e.Read("y", {full});
  CHECK(e.Uses() == "a.g half | turned | full");
}

TEST_CASE("what stands outside of blocks is joined up to the bytes of the largest use") {
  Example e;
  const TensorId table = e.Gathered("table", 100), positions = e.Gathered("positions", 10);
  e.Read("embed", {table});
  e.Read("add", {positions});
  e.block = 0;
  e.Read("y", {e.Gathered("h0", 50)});
  e.block = -1;
  const TensorId gain = e.Gathered("gain", 10), head = e.Gathered("head", 80),
                 more = e.Gathered("more", 80);
  e.Read("norm", {gain});
  e.Read("logits", {head});
  e.Read("others", {more});
  CHECK(e.Uses() == "table.g positions.g; h0.g; gain.g head.g; more.g");
}

TEST_CASE("a weight that takes two exchanges is one use, which counts the bytes of both") {
  Example e;
  e.dims = {16, 16};
  const TensorId table = e.AddIn(Phase::kForward, "variable", "table", {}, {S(1), S(0)});
  const TensorId rows = e.AddIn(Phase::kForward, "all_gather", "rows", {table}, {B(), S(0)});
  const TensorId columns = e.AddIn(Phase::kForward, "all_to_all", "columns", {rows}, {B(), S(1)});
  const TensorId positions = e.Gathered("positions", 64), more = e.Gathered("more", 64);
  e.Read("embed", {columns});
  e.Read("add", {positions});
  e.Read("others", {more});
  e.block = 0;
  e.Read("y", {e.Gathered("h0", 50)});
  CHECK(e.Uses() == "rows positions.g | columns; more.g; h0.g");
}

TEST_CASE("two exchanges of a weight stay together where others read the first, far apart") {
  Example e;
  e.dims = {16, 16};
  const TensorId table = e.AddIn(Phase::kForward, "variable", "table", {}, {S(1), S(0)});
  const TensorId rows = e.AddIn(Phase::kForward, "all_gather", "rows", {table}, {B(), S(0)});
  const TensorId columns = e.AddIn(Phase::kForward, "all_to_all", "columns", {rows}, {B(), S(1)});
  e.Read("before", {e.Gathered("first", 256)});
  e.Read("embed", {columns});
  e.block = 0;
  e.Read("y", {e.Gathered("h0", 50)});
  e.block = -1;
  e.Read("logits", {rows});
  CHECK(e.Uses() == "first.g; rows | columns; h0.g");
}

TEST_CASE("casts of a block stand before its gathers, cast or not") {
  Example e;
  e.block = 0;
  const TensorId gain = e.Gathered("gain", 16), a = e.GatheredCast("a", 64),
                 b = e.GatheredCast("b", 64);
  e.Read("x", {gain});
  e.Read("y", {b});
  e.Read("z", {a});
  e.block = 1;
  e.Read("next", {e.GatheredCast("c", 64)});
  CHECK(e.Uses() == "(b.cast) (a.cast) gain.g b.g a.g; (c.cast) c.g");
}

TEST_CASE("a weight that is read on both sides of a block is a use of its own") {
  Example e;
  const TensorId tied = e.Gathered("tied", 100), positions = e.Gathered("positions", 10);
  e.Read("embed", {tied});
  e.Read("add", {positions});
  e.block = 0;
  e.Read("y", {e.Gathered("h0", 50)});
  e.block = -1;
  e.Read("logits", {tied});
  CHECK(e.Uses() == "tied.g; positions.g; h0.g");
}

}  // namespace oneflow
