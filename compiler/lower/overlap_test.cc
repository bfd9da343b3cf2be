#include "compiler/lower/overlap.h"

#include <catch2/catch.hpp>
#include <string>

#include "oneflow_core/graph/graph_for_test.h"

namespace oneflow {
namespace {

constexpr Phase kPrepare = Phase::kPrepare, kForward = Phase::kForward,
                kBackward = Phase::kBackward, kUpdate = Phase::kUpdate;

struct Example : GraphForTest {
  Example() : GraphForTest("data=2,tensor=2") {}
  Lane FindLane(const std::string& op, bool gathers_ahead = false) const {
    return ExchangeLanes(graph, gathers_ahead)[graph.FindOp(op) - graph.ops.data()];
  }
};

}  // namespace

TEST_CASE("exchanges of once a step stand together") {
  Example e;
  const TensorId w = e.Add(kForward, "variable", "w", {}, {S(0), B()});
  const TensorId cast = e.Add(kPrepare, "cast", "cast", {w}, {S(0), B()});
  e.Add(kPrepare, "all_gather", "prepared", {cast}, {B(), B()});
  e.Add(kPrepare, "all_gather", "at_once", {w}, {B(), B()});
  const TensorId dw = e.Add(kBackward, "matmul_grad_b", "dw", {}, {P(), B()});
  const TensorId g = e.Add(kUpdate, "reduce_scatter", "gradient", {dw}, {S(0), B()});
  const TensorId squares = e.Add(kUpdate, "sum_squares", "squares", {g}, {P(), B()});
  e.Add(kUpdate, "all_reduce", "norm", {squares}, {B(), B()});
  // As the update reads a variable, which is laid out otherwise on another stage.
  e.Add(kUpdate, "all_gather", "old", {w}, {B(), B()});
  for (const char* op : {"prepared", "at_once", "gradient", "norm", "old"}) {
    INFO(op);
    CHECK(e.FindLane(op) == Lane::kGradient);
  }
  for (const char* op : {"w", "cast", "dw", "squares"}) {
    INFO(op);
    CHECK(e.FindLane(op) == Lane::kCompute);
  }
}

TEST_CASE("exchanges of activations and their gradients stand together") {
  Example e;
  const TensorId w = e.Add(kForward, "variable", "w", {}, {B(), S(0)});
  const TensorId y = e.Add(kForward, "matmul", "y", {w, w}, {S(0), P()});
  const TensorId sum = e.Add(kForward, "all_reduce", "sum", {y}, {S(0), B()});
  // Of an activation, however much was made of it on the way.
  const TensorId part = e.Add(kForward, "slice", "part", {sum}, {S(0), S(1)});
  e.Add(kForward, "all_gather", "whole", {part}, {S(0), B()});
  const TensorId dy = e.Add(kBackward, "matmul_grad_a", "dy", {sum}, {S(0), P()});
  e.Add(kBackward, "reduce_scatter", "dx", {dy}, {S(0), S(1)});
  e.Add(kBackward, "all_gather", "again", {part}, {S(0), B()});
  for (const char* op : {"sum", "whole", "dx", "again"}) {
    INFO(op);
    CHECK(e.FindLane(op) == Lane::kCollective);
  }
  CHECK(e.FindLane("part") == Lane::kCompute);
}

TEST_CASE("what is gathered of a variable in every micro-batch stays where it is read") {
  Example e;
  const TensorId w = e.Add(kForward, "variable", "w", {}, {S(0), S(1)});
  const TensorId half = e.Add(kForward, "all_gather", "half", {w}, {B(), S(1)});
  e.Add(kForward, "all_gather", "whole", {half}, {B(), B()});
  const TensorId cast = e.Add(kPrepare, "cast", "cast", {w}, {S(0), S(1)});
  e.Add(kBackward, "all_to_all", "of_cast", {cast}, {B(), S(1)});
  // Over one axis once a step, over the other anew.
  const TensorId once = e.Add(kPrepare, "all_gather", "once", {cast}, {S(0), B()});
  const TensorId part = e.Add(kForward, "slice", "part", {once}, {S(0), S(1)});
  e.Add(kForward, "all_gather", "anew", {part}, {B(), S(1)});
  for (const char* op : {"half", "whole", "of_cast", "part", "anew"}) {
    INFO(op);
    CHECK(e.FindLane(op) == Lane::kCompute);
  }
  CHECK(e.FindLane("once") == Lane::kGradient);

  // If gathers may run ahead: all but one that waits for a kernel.
  for (const char* op : {"half", "whole", "of_cast"}) {
    INFO(op);
    CHECK(e.FindLane(op, /*gathers_ahead=*/true) == Lane::kGather);
  }
  for (const char* op : {"part", "anew"}) {
    INFO(op);
    CHECK(e.FindLane(op, /*gathers_ahead=*/true) == Lane::kCompute);
  }
  CHECK(e.FindLane("once", /*gathers_ahead=*/true) == Lane::kGradient);
}

TEST_CASE("a gather runs ahead only where its own task reads it") {
  Example e;
  const TensorId w = e.Add(kForward, "variable", "w", {}, {S(0), B()});
  const TensorId both = e.Add(kForward, "all_gather", "both", {w}, {B(), B()});
  const TensorId sent = e.Add(kForward, "all_gather", "sent", {w}, {B(), B()});
  const TensorId own = e.Add(kForward, "all_gather", "own", {w}, {B(), B()});
  e.Add(kForward, "matmul", "y", {both, own}, {B(), B()});
  e.Add(kBackward, "matmul", "dx", {both}, {B(), B()});
  e.stage = 1;
  e.Add(kForward, "transfer", "transfer", {sent}, {B(), B()});
  CHECK(e.FindLane("both", /*gathers_ahead=*/true) == Lane::kCompute);
  CHECK(e.FindLane("sent", /*gathers_ahead=*/true) == Lane::kCompute);
  CHECK(e.FindLane("own", /*gathers_ahead=*/true) == Lane::kGather);
}

TEST_CASE("a cast for a use goes with the gathers that alone read it") {
  Example e;
  const TensorId w = e.Add(kForward, "variable", "w", {}, {S(0), B()});
  const TensorId alone = e.Add(kForward, "cast", "alone", {w}, {S(0), B()});
  const TensorId alone_full = e.Add(kForward, "all_gather", "alone.g", {alone}, {B(), B()});
  const TensorId read = e.Add(kForward, "cast", "read", {w}, {S(0), B()});
  const TensorId read_full = e.Add(kForward, "all_gather", "read.g", {read}, {B(), B()});
  const TensorId kept = e.Add(kForward, "cast", "kept", {w}, {S(0), B()});
  const TensorId kept_full = e.Add(kForward, "all_gather", "kept.g", {kept}, {B(), B()});
  e.Add(kForward, "matmul", "y", {alone_full, read_full}, {B(), B()});
  e.Add(kForward, "gelu", "part", {read}, {S(0), B()});
  e.Add(kBackward, "matmul", "dx", {kept_full}, {B(), B()});
  for (const char* op : {"alone", "alone.g"}) {
    INFO(op);
    CHECK(e.FindLane(op) == Lane::kCompute);
    CHECK(e.FindLane(op, /*gathers_ahead=*/true) == Lane::kGather);
  }
  // A gather does not run ahead of a cast that compute makes.
  for (const char* op : {"read", "read.g", "kept", "kept.g"}) {
    INFO(op);
    CHECK(e.FindLane(op, /*gathers_ahead=*/true) == Lane::kCompute);
  }
}

TEST_CASE("reductions of gradients stand apart where only a sum waits for them") {
  Example e;
  const auto add_up = [&](const std::string& of, TensorId part) {
    const TensorId sum = e.Add(kBackward, "add_n", of + ".sum", {part}, {S(0), P()});
    e.Add(kUpdate, "adamw", of + ".update", {sum}, {S(0), P()});
  };
  const TensorId dw = e.Add(kBackward, "matmul_grad_b", "dw", {}, {P(), P()});
  add_up("dw", e.Add(kBackward, "reduce_scatter", "straight", {dw}, {S(0), P()}));
  // By way of a slice; over two axes, with zeros around the part.
  const TensorId sum = e.Add(kBackward, "all_reduce", "sliced", {dw}, {B(), P()});
  add_up("bias", e.Add(kBackward, "slice", "slice", {sum}, {S(0), P()}));
  const TensorId half = e.Add(kBackward, "reduce_scatter", "first", {dw}, {P(), S(1)});
  const TensorId both = e.Add(kBackward, "reduce_scatter", "second", {half}, {S(0), S(1)});
  add_up("filled", e.Add(kBackward, "zero_fill", "zero_fill", {both}, {S(0), P()}));
  for (const char* op : {"straight", "sliced", "first", "second"}) {
    INFO(op);
    CHECK(e.FindLane(op) == Lane::kReduction);
  }
  for (const char* op : {"slice", "zero_fill"}) {
    INFO(op);
    CHECK(e.FindLane(op) == Lane::kCompute);
  }
  // Another kernel of the backward reads the slice, too; an exchange waits for it.
  const TensorId read = e.Add(kBackward, "all_reduce", "read", {dw}, {B(), P()});
  const TensorId part = e.Add(kBackward, "slice", "part", {read}, {S(0), P()});
  add_up("read", part);
  e.Add(kBackward, "gelu", "reader", {part}, {S(0), P()});
  const TensorId early = e.Add(kBackward, "all_reduce", "early", {dw}, {B(), P()});
  const TensorId rows = e.Add(kBackward, "slice", "rows", {early}, {S(0), P()});
  add_up("late", e.Add(kBackward, "all_to_all", "late", {rows}, {S(1), P()}));
  CHECK(e.FindLane("read") == Lane::kCollective);
  CHECK(e.FindLane("early") == Lane::kCollective);
  CHECK(e.FindLane("late") == Lane::kReduction);
}

TEST_CASE("what no devices of one stage meet for has no such lane, in no phase") {
  for (const Phase phase : {kForward, kBackward, kUpdate}) {
    Example e;
    const TensorId x = e.Add(phase, "gelu", "x", {}, {B(), B()});
    const TensorId part = e.Add(phase, "slice", "slice", {x}, {S(0), B()});
    e.Add(phase, "zero_fill", "zero_fill", {part}, {P(), B()});
    e.stage = 1;
    e.Add(phase, "transfer", "transfer", {x}, {B(), B()});
    for (const char* op : {"x", "slice", "zero_fill", "transfer"}) {
      INFO(op);
      CHECK(e.FindLane(op) == Lane::kCompute);
    }
  }
}

}  // namespace oneflow
