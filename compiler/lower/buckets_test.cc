// Which exchanges of once a step are joined, in which order they come, and that devices which
// issue them so never wait for each other.
#include "compiler/lower/buckets.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/boxing/boxing_primitive.h"
#include "compiler/lower/overlap.h"
#include "oneflow_core/graph/graph_for_test.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

constexpr Phase kPrepare = Phase::kPrepare, kForward = Phase::kForward,
                kBackward = Phase::kBackward, kUpdate = Phase::kUpdate;
constexpr int64_t kNoLimit = 1 << 30;

using Joined = std::vector<std::vector<OpId>>;

Joined JoinBuckets(const Graph& graph, int64_t bytes) {
  return Buckets(graph, ExchangeLanes(graph, /*gathers_ahead=*/false), bytes);
}

// "a+b c": buckets in order.
std::string Text(const Graph& graph, int64_t bytes = kNoLimit) {
  std::string text;
  for (const std::vector<OpId>& bucket : JoinBuckets(graph, bytes)) {
    if (!text.empty()) text += ' ';
    for (const OpId id : bucket) text += (id == bucket[0] ? "" : "+") + graph.ops[id].name;
  }
  return text;
}

// Gradients on data=2,tensor=2: tensors of 64 bytes.
struct Example : GraphForTest {
  Example() : GraphForTest("data=2,tensor=2") {}
  TensorId Gradient(NdSbp sbp = {P(), B()}) {
    return Add(kBackward, "matmul_grad_b", "d" + std::to_string(graph.ops.size()), {},
               std::move(sbp));
  }
  TensorId Exchange(std::string name, TensorId of, std::string kind = "all_reduce",
                    NdSbp to = {B(), B()}) {
    return Add(kUpdate, std::move(kind), std::move(name), {of}, std::move(to));
  }
  TensorId Kernel(std::string name, std::vector<TensorId> of, NdSbp sbp = {P(), B()}) {
    return Add(kUpdate, "add_n", std::move(name), std::move(of), std::move(sbp));
  }
};

}  // namespace

TEST_CASE("small exchanges that do the same along the same axes are one") {
  Example e;
  for (const char* name : {"a", "b", "c"}) e.Exchange(name, e.Gradient());
  CHECK(Text(e.graph) == "a+b+c");
}

TEST_CASE("exchanges of another kind, group, reduction, stage or phase stay apart") {
  SECTION("kind") {
    Example e;
    e.Exchange("a", e.Gradient());
    e.Exchange("b", e.Gradient(), "reduce_scatter", {S(0), B()});
    e.Exchange("c", e.Gradient());
    CHECK(Text(e.graph) == "b a+c");
  }
  SECTION("group") {
    Example e;
    e.Exchange("a", e.Gradient({P(), B()}));
    e.Exchange("b", e.Gradient({B(), P()}));
    e.Exchange("c", e.Gradient({P(), P()}));
    CHECK(Text(e.graph) == "a b c");
  }
  SECTION("reduction") {
    Example e;
    e.Exchange("a", e.Gradient({P(), B()}));
    e.Exchange("b", e.Gradient({PMax(), B()}));
    CHECK(Text(e.graph) == "a b");
  }
  SECTION("stage") {
    Example e;
    e.Exchange("a", e.Gradient());
    e.stage = 1;
    e.Exchange("b", e.Gradient());
    CHECK(Text(e.graph) == "a b");
  }
  SECTION("phase") {
    Example e;
    const TensorId w = e.Add(kForward, "variable", "w", {}, {S(0), B()});
    e.Add(kPrepare, "all_gather", "a", {w}, {B(), B()});
    e.Add(kUpdate, "all_gather", "b", {w}, {B(), B()});
    CHECK(Text(e.graph) == "a b");
  }
}

TEST_CASE("of two exchanges where one waits for the other each is alone") {
  SECTION("straight") {
    Example e;
    const TensorId a = e.Exchange("a", e.Gradient({P(), P()}), "all_reduce", {B(), P()});
    e.Exchange("b", e.Gradient({B(), P()}));
    e.Exchange("c", a);
    CHECK(Text(e.graph) == "a b c");
  }
  SECTION("through a kernel") {
    Example e;
    const TensorId a = e.Exchange("a", e.Gradient());
    e.Exchange("b", e.Kernel("squares", {a}));
    CHECK(Text(e.graph) == "a b");
  }
  SECTION("through a kernel that only stands behind one that does") {
    Example e;
    e.Kernel("squares", {e.Exchange("a", e.Gradient())});
    e.Exchange("b", e.Kernel("sum", {e.Gradient()}));
    e.Exchange("c", e.Gradient());
    CHECK(Text(e.graph).find("a+b") == std::string::npos);
  }
  SECTION("through a kernel that stands behind one of another stage's") {
    Example e;
    const TensorId a = e.Exchange("a", e.Gradient());
    e.stage = 1;
    const TensorId there = e.Add(kUpdate, "transfer", "there", {a}, {B(), B()});
    e.Kernel("behind", {there});
    const TensorId sum = e.Kernel("sum", {e.Gradient()});
    e.stage = 0;
    e.Exchange("b", e.Add(kUpdate, "transfer", "back", {sum}, {P(), B()}));
    CHECK(Text(e.graph) == "a b");
  }
  SECTION("so in what is prepared") {
    Example e;
    const TensorId v = e.Add(kForward, "variable", "v", {}, {S(0), B()});
    const TensorId w = e.Add(kForward, "variable", "w", {}, {S(0), B()});
    const TensorId a = e.Add(kPrepare, "all_gather", "a", {v}, {B(), B()});
    e.Add(kPrepare, "cast", "behind", {a}, {B(), B()});
    const TensorId before = e.Add(kPrepare, "cast", "before", {w}, {S(0), B()});
    e.Add(kPrepare, "all_gather", "b", {before}, {B(), B()});
    CHECK(Text(e.graph) == "a b");
  }
}

TEST_CASE("gradients that can go during the backward do not wait for those that cannot") {
  Example e;
  e.Exchange("a", e.Gradient());
  e.Exchange("late", e.Kernel("sum", {e.Gradient(), e.Gradient()}));
  e.stage = 1;
  const TensorId d = e.Gradient();
  e.stage = 0;
  e.Exchange("sent", e.Add(kUpdate, "transfer", "here", {d}, {P(), B()}));
  e.Exchange("b", e.Gradient());
  CHECK(Text(e.graph) == "late+sent a+b");
}

TEST_CASE("kernels before all members or behind them keep none apart") {
  Example e;
  const TensorId first = e.Kernel("first", {e.Gradient()});
  const TensorId second = e.Kernel("second", {e.Gradient()});
  const TensorId a = e.Exchange("a", first), b = e.Exchange("b", second);
  e.Kernel("norm", {a, b});
  CHECK(Text(e.graph) == "a+b");
}

TEST_CASE("transfers wait for no kernels but those whose results they send") {
  Example e;
  e.Kernel("squares", {e.Exchange("a", e.Gradient())});
  const TensorId d = e.Gradient();
  e.stage = 1;
  e.Exchange("c", e.Add(kUpdate, "transfer", "there", {d}, {P(), B()}));
  e.Exchange("d", e.Kernel("sum", {e.Gradient()}));
  CHECK(Text(e.graph) == "a c+d");
}

TEST_CASE("a bucket of several holds no more than it may, and a large one leaves room in it") {
  Example e;
  e.Exchange("a", e.Gradient());
  e.dims = {1000};
  e.Exchange("large", e.Gradient());
  e.dims = {16};
  e.Exchange("b", e.Gradient());
  e.Exchange("c", e.Gradient());
  CHECK(Text(e.graph, 128) == "large a+b c");
  CHECK(Text(e.graph, 127) == "a large b c");
  CHECK(Text(e.graph, 1) == "a large b c");
}

TEST_CASE("what counts is the larger of what an exchange reads and writes on a device") {
  for (const bool gathers : {false, true}) {
    Example e;
    for (const char* name : {"a", "b"}) {
      const TensorId w =
          e.Add(kForward, "variable", name + std::string("/w"), {}, {gathers ? S(0) : P(), B()});
      e.Exchange(name, w, gathers ? "all_gather" : "reduce_scatter", {gathers ? B() : S(0), B()});
    }
    CHECK(Text(e.graph, 128) == "a+b");
    CHECK(Text(e.graph, 127) == "a b");
  }
}

TEST_CASE(
    "gradients are exchanged with the last of a bucket, weights are gathered with the first") {
  Example e;
  const std::vector<TensorId> d = {e.Gradient(), e.Gradient(), e.Gradient()};
  e.Exchange("a", d[0]);
  e.Exchange("b", d[1], "reduce_scatter", {S(0), B()});
  e.Exchange("c", d[2]);
  const TensorId w = e.Add(kForward, "variable", "w", {}, {S(0), S(0)});
  e.Add(kPrepare, "all_gather", "p", {w}, {S(0), B()});
  e.Add(kPrepare, "all_to_all", "q", {w}, {B(), S(0)});
  e.Add(kPrepare, "all_gather", "r", {w}, {S(0), B()});
  CHECK(Text(e.graph) == "b a+c p+r q");
}

TEST_CASE("a bucket comes behind those that it waits for, however these have grown") {
  Example e;
  const TensorId a = e.Exchange("a", e.Gradient());
  e.Exchange("b", e.Kernel("squares", {a}));
  e.Exchange("c", e.Gradient());  // with a, and so before b
  CHECK(Text(e.graph) == "a+c b");
}

namespace {

// A graph of updates, and of what is prepared, as passes might leave it and worse: up to three
// stages that send to each other.
class GraphDraw {
 public:
  explicit GraphDraw(uint32_t seed) : random_(seed), b_("pipe=3,data=2,tensor=2") {
    for (const Phase phase : {kPrepare, kUpdate}) {
      tensors_.clear();
      const int stages = 1 + Below(3);
      for (int i = 0; i < 3 * stages; ++i) {
        b_.stage = i % stages;
        Add(phase == kPrepare ? kForward : kBackward, phase == kPrepare ? "variable" : "add_n", {},
            AnySbp());
      }
      for (int n = Below(40); n > 0; --n) AddAny(phase, stages);
    }
  }

  const Graph& graph() const { return b_.graph; }

 private:
  int Below(int64_t n) { return static_cast<int>(random_() % n); }
  TensorId AnyOf(int stage) {
    const std::vector<TensorId>& all = tensors_[stage];
    return all[Below(std::ssize(all))];
  }
  NdSbp AnySbp() {
    const auto any = [&] { return std::vector{B(), P(), S(0)}[Below(3)]; };
    return {B(), any(), Below(4) == 0 ? any() : B()};
  }
  void Add(Phase phase, const std::string& kind, std::vector<TensorId> inputs, NdSbp sbp) {
    const std::string name = "op" + std::to_string(b_.graph.ops.size());
    b_.dims = {Below(4) == 0 ? 64 : 16};
    tensors_[b_.stage].push_back(b_.Add(phase, kind, name, std::move(inputs), std::move(sbp)));
  }

  // Mostly an exchange; a kernel of one or two tensors; between stages a transfer.
  void AddAny(Phase phase, int stages) {
    const int stage = Below(stages);
    const TensorId from = AnyOf(stage);
    const NdSbp sbp = b_.graph.tensors[from].sbp, to = AnySbp();
    const bool crosses = phase == kUpdate && stages > 1 && Below(6) == 0;
    b_.stage = crosses ? (stage + 1 + Below(stages - 1)) % stages : stage;
    if (crosses) return Add(phase, "transfer", {from}, sbp);
    const std::string kind(sbp == to ? "" : PrimitiveBetween(b_.graph.mesh, sbp, to).kind);
    if (IsExchange(kind) && Below(3) > 0) return Add(phase, kind, {from}, to);
    std::vector<TensorId> inputs = {from};
    if (Below(2) == 0) inputs.push_back(AnyOf(stage));
    Add(phase, "add_n", std::move(inputs), AnySbp());
  }

  std::mt19937 random_;
  GraphForTest b_;
  std::map<int, std::vector<TensorId>> tensors_;  // by stage
};

// Plays a step of once a step: on each stage one queue of kernels in op order and one of exchanges
// in the order given; one of transfers for each pair of stages, in op order. What is prepared comes
// first. Returns the first op that is never reached; "" if there is none.
class Play {
 public:
  Play(const Graph& graph, const Joined& buckets) : graph_(graph), done_(graph.ops.size(), false) {
    for (const Phase phase : {kPrepare, kUpdate}) {
      for (const std::vector<OpId>& bucket : buckets) {
        const Op& op = graph.ops[bucket[0]];
        if (op.phase == phase) queues_[{"exchange", op.stage, -1}].push_back(bucket);
      }
      for (OpId id = 0; id < std::ssize(graph.ops); ++id) {
        if (const auto queue = FindQueue(id); queue && graph.ops[id].phase == phase) {
          queues_[*queue].push_back({id});
        }
      }
    }
  }

  std::string Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& [name, queue] : queues_) {
        for (; !queue.empty() && IsReady(queue.front()); moved = true) {
          for (const OpId id : queue.front()) done_[id] = true;
          queue.erase(queue.begin());
        }
      }
    }
    for (OpId id = 0; id < std::ssize(graph_.ops); ++id) {
      if (OnceAStep(id) && !done_[id]) return graph_.ops[id].name;
    }
    return "";
  }

 private:
  using Queue = std::tuple<std::string, int, int>;

  bool OnceAStep(OpId id) const { return IsOnceAStep(graph_.ops[id].phase); }
  std::optional<Queue> FindQueue(OpId id) const {
    const Op& op = graph_.ops[id];
    if (!OnceAStep(id)) return std::nullopt;
    if (op.kind == "transfer") return Queue{op.kind, graph_.Producer(op.inputs[0]).stage, op.stage};
    return IsExchange(op.kind) ? std::nullopt : std::optional(Queue{"kernel", op.stage, -1});
  }
  bool IsReady(const std::vector<OpId>& ops) const {
    return std::all_of(ops.begin(), ops.end(), [&](OpId id) {
      const std::vector<TensorId>& inputs = graph_.ops[id].inputs;
      return std::all_of(inputs.begin(), inputs.end(), [&](TensorId t) {
        const OpId producer = graph_.tensors[t].producer;
        return done_[producer] || !OnceAStep(producer);
      });
    });
  }

  const Graph& graph_;
  std::vector<bool> done_;  // by op
  std::map<Queue, std::vector<std::vector<OpId>>> queues_;
};

// What every bucket must be, but for the order.
void CheckBuckets(const Graph& graph, const Joined& buckets, int64_t bytes) {
  std::set<OpId> seen;
  for (const std::vector<OpId>& bucket : buckets) {
    const Op& first = graph.ops[bucket[0]];
    int64_t most = 0;
    for (const OpId id : bucket) {
      const Op& op = graph.ops[id];
      CHECK(seen.insert(id).second);
      CHECK(op.kind == first.kind);
      CHECK(op.stage == first.stage);
      CHECK(op.phase == first.phase);
      const Tensor& to = graph.tensors[op.outputs[0]];
      most += to.sbp[1].split() || to.sbp[2].split() ? 0 : 4 * to.shape.elements();
    }
    CHECK((bucket.size() == 1 || most <= bytes));
  }
  const std::vector<Lane> lanes = ExchangeLanes(graph, /*gathers_ahead=*/false);
  CHECK(std::ssize(seen) == std::count(lanes.begin(), lanes.end(), Lane::kGradient));
}

}  // namespace

TEST_CASE("devices that issue kernels and buckets in their orders never wait for each other") {
  size_t joined = 0, sent = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const GraphDraw draw(seed);
    const Graph& graph = draw.graph();
    for (const int64_t bytes : {int64_t{200}, kNoLimit}) {
      const Joined buckets = JoinBuckets(graph, bytes);
      INFO("seed " << seed << ", at most " << bytes << " bytes: " << Text(graph, bytes));
      CheckBuckets(graph, buckets, bytes);
      CHECK(Play(graph, buckets).Run() == "");
      for (const std::vector<OpId>& bucket : buckets) joined += bucket.size() - 1;
    }
    for (const Op& op : graph.ops) sent += op.kind == "transfer";
  }
  CHECK(joined > 700);
  CHECK(sent > 500);
}

}  // namespace oneflow
