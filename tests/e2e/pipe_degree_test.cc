// Law 6 with a cluster: what a plan computes depends neither on the number of its stages nor on
// anything else that only says when and where it is computed.
//
// A draw is a GPT (tied or not) or a mixture of experts, a cluster, the axes of a stage, a batch
// and its micro-batches, of documents or not, and how states and weights are split; and of these a
// plan of one stage with the defaults, and one of 1 to 4 stages with any schedule, overlap,
// buckets, recompute, limit of memory and order in which the axes are written. Compared are the
// layouts of all ops in all programs and the order of the axes, that also with a plan that splits
// neither states nor weights; and of the draws that also train, each loss, norm and weight. The
// short form draws 10 and trains 2; ONEFLOW_TEST_FULL draws 300 and trains 60.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "catch2/catch.hpp"
#include "google/protobuf/text_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/recipe/make_plan.h"
#include "proto/cluster.pb.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "tests/e2e/small_run.h"
#include "tools/oneflow/cli/known_clusters.h"

namespace oneflow {
namespace {

using Axes = std::vector<std::string>;  // "data=2"

bool Full() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr; }

proto::Cluster Known(const std::string& name) {
  proto::Cluster cluster;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(ReadClusterText(name)->text, &cluster));
  return cluster;
}

// What bits depend on.
struct Problem {
  proto::Model model = MakeModel("family: 'gpt'");
  int64_t experts = 0;  // of a Llama of the same sizes
  bool documents = false;
  proto::Cluster cluster;
  std::string cluster_name;
  Axes axes;  // of a stage
  int64_t batch = 0, micro_batches = 1;
  bool split_positions = false;
  proto::DataType precision = proto::F32;
  std::string shard = "none";
};

// What they do not depend on.
struct Manner {
  int stages = 1;
  Axes written;  // the axes, the stages' among them, as --mesh has them
  std::string schedule = "1f1b";
  int chunks = 1;
  int64_t extra_in_flight = 0;
  std::string overlap = "auto";
  int64_t bucket_bytes = 25'000'000;
  std::string recompute = "none";
  double memory = 0;  // of what the plan of one stage takes; 0: no limit
};

proto::Graph BuildProblem(const Problem& p) {
  if (p.experts == 0) return BuildModel(p.model);
  return BuildModel(MakeModel(absl::StrCat(
      "family: 'llama' layers: ", p.model.layers(), " hidden: ", p.model.hidden(),
      " inner: 24 heads: ", p.model.heads(), " groups: 2 head_dim: ",
      p.model.hidden() / p.model.heads(), " sequence: ", p.model.sequence(),
      " vocab: ", p.model.vocab(), " tied: ", p.model.tied(), " qk_norm: true experts: ", p.experts,
      " experts_per_token: ", p.experts / 3, " z_loss_coeff: 0.01")));
}

std::string Text(const Problem& p) {
  return absl::StrCat(p.cluster_name, " ", absl::StrJoin(p.axes, ","), " batch ", p.batch, " M ",
                      p.micro_batches, " layers ", p.model.layers(), " heads ", p.model.heads(),
                      " hidden ", p.model.hidden(), " sequence ", p.model.sequence(), " vocab ",
                      p.model.vocab(), p.model.tied() ? " tied" : "", " experts ", p.experts,
                      p.documents ? " documents" : "", p.split_positions ? " positions split" : "",
                      p.precision == proto::BF16 ? " bf16" : "", " shard ", p.shard);
}

std::string Text(const Manner& m) {
  return absl::StrCat(absl::StrJoin(m.written, ","), " ", m.schedule, " chunks ", m.chunks,
                      " extra ", m.extra_in_flight, " overlap ", m.overlap, " buckets ",
                      m.bucket_bytes, " recompute ", m.recompute, " memory ", m.memory);
}

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}

  template <typename T>
  T One(const std::vector<T>& of) {
    return of[random_() % of.size()];
  }

  proto::Cluster Cluster(std::string* name) {
    *name = One<std::string>({"a100", "h200", "nodes", "processes"});
    if (*name != "nodes" && *name != "processes") return Known(*name);
    const bool cpu = *name == "processes";
    proto::Cluster cluster;
    proto::Device& device = *cluster.mutable_device();
    device.set_kind(cpu ? proto::Device::CPU : proto::Device::CUDA);
    device.set_peak_flops(cpu ? 5e10 : One<double>({1e12, 6e13}));
    device.set_memory_bandwidth(cpu ? 2e10 : One<double>({2e11, 3e12}));
    device.set_firing_seconds(One<double>({0, 1e-7, 2e-6}));
    device.set_kernel_threads(1);
    for (const bool inner : {true, false}) {
      proto::Level& level = *cluster.add_level();
      level.set_size(inner ? One<int64_t>({2, 4, 8}) : 64);
      level.set_latency(inner ? 1e-6 : One<double>({2e-6, 3e-5}));
      level.set_bandwidth(inner ? One<double>({1e10, 3e11}) : One<double>({1e8, 2e9, 4e10}));
    }
    return cluster;
  }

  Problem DrawProblem() {
    Problem p;
    p.cluster = Cluster(&p.cluster_name);
    p.axes = One<Axes>({{"data=2", "tensor=2"},
                        {"data=2", "tensor=2"},
                        {"data=4", "tensor=2"},
                        {"data=2", "tensor=4"},
                        {"data=2x2"},
                        {"tensor=4"},
                        {"data=4"},
                        {"data=2", "seq=2"},
                        {"data=2", "expert=2"}});
    p.model.set_layers(One<int64_t>({4, 8}));
    p.model.set_heads(4);
    p.model.set_hidden(One<int64_t>({16, 40, 64}));
    p.model.set_sequence(One<int64_t>({8, 12}));
    p.model.set_vocab(One<int64_t>({37, 256}));
    p.model.set_tied(One<int>({0, 1}) == 1);
    p.model.set_bias(One<int>({0, 1}) == 1);
    p.model.set_dropout(One<double>({0, 0.1}));
    p.micro_batches = One<int64_t>({1, 3, 4});
    p.batch = p.micro_batches * One<int64_t>({4, 8, 9});
    p.split_positions = One<int>({0, 1}) == 1;
    p.precision = One<proto::DataType>({proto::F32, proto::BF16});
    p.shard = One<std::string>({"none", "states", "gradients", "weights"});
    p.experts = One<int64_t>({0, 0, 4, 6});
    p.documents = One<int>({0, 1}) == 1;
    return p;
  }

  Manner DrawManner(const Problem& p) {
    Manner m;
    m.stages = One<int>({1, 2, 2, 4, 4});
    m.written = p.axes;
    if (m.stages > 1) m.written.push_back(absl::StrCat("pipe=", m.stages));
    std::shuffle(m.written.begin(), m.written.end(), random_);
    m.schedule = One<std::string>({"1f1b", "gpipe", "zero_bubble", "interleaved"});
    const bool interleaves = p.micro_batches % m.stages == 0 && p.model.layers() >= 2 * m.stages;
    if (m.schedule == "interleaved" && !interleaves) m.schedule = "1f1b";
    if (m.schedule == "interleaved") m.chunks = 2;
    if (m.schedule == "zero_bubble") m.extra_in_flight = One<int64_t>({0, 2});
    m.overlap = One<std::string>({"auto", "true", "false"});
    m.bucket_bytes = One<int64_t>({25'000'000, 1, 5000});
    m.recompute = One<std::string>(
        {"none", "full", "attention", "attention,gather", "full:1,none:1,selective"});
    m.memory = One<double>({0, 0, 1, 0.5});
    return m;
  }

 private:
  std::mt19937 random_;
};

absl::StatusOr<proto::Plan> CompileAs(const Problem& p, const Manner& m, int64_t memory) {
  PlanRequest request{
      .recipe = MakeRecipe(absl::StrCat(
          "--mesh=", absl::StrJoin(m.written, ","), " --batch=", p.batch,
          " --micro_batches=", p.micro_batches, " --schedule=", m.schedule, " --chunks=", m.chunks,
          " --extra_in_flight=", m.extra_in_flight, " --recompute=", m.recompute,
          " --overlap=", m.overlap, " --bucket_bytes=", m.bucket_bytes, " --shard=", p.shard,
          " --state_layouts=true")),
      .cluster = p.cluster};
  request.recipe.set_precision(p.precision);
  request.recipe.set_documents(p.documents);
  request.recipe.set_sequence_parallel(p.split_positions);
  request.cluster.mutable_device()->set_memory_bytes(memory);
  proto::Optimizer& optimizer = request.optimizer;
  optimizer.set_learning_rate(1e-2);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_epsilon(1e-8);
  optimizer.set_weight_decay(0.1);
  optimizer.set_clip(1);
  ASSIGN_OR_RETURN(Planned planned, MakePlan({BuildProblem(p), "drawn", {}}, request));
  return std::move(planned.plan);
}

Manner Plain(const Problem& p) {
  Manner m;
  m.written = p.axes;
  return m;
}

// The rows by program, axis and op.
std::map<std::string, std::string> Layouts(const proto::Graph& graph) {
  std::map<std::string, std::string> layouts;
  for (const proto::OpLayout& layout : graph.layout()) {
    const std::vector<std::string> ops = absl::StrSplit(layout.ops(), ' ', absl::SkipEmpty());
    for (const std::string& op : ops) {
      layouts[absl::StrCat(layout.program(), " ", layout.axis(), " ", op)] = layout.signature();
    }
  }
  return layouts;
}

// The axes of a stage, in their order.
std::string AxesOfStage(const proto::Plan& plan) {
  std::string axes;
  for (const auto& axis : plan.mesh().axis()) {
    if (axis.name() != "pipe") absl::StrAppend(&axes, axis.name(), " ");
  }
  return axes;
}

void CheckAlike(const proto::Plan& one, const proto::Plan& other) {
  CHECK(AxesOfStage(one) == AxesOfStage(other));
  const auto want = Layouts(one.graph()), is = Layouts(other.graph());
  CHECK(want.size() > 50);
  std::vector<std::string> differ;
  for (const auto& [op, row] : want) {
    const auto found = is.find(op);
    if (found != is.end() && found->second == row) continue;
    differ.push_back(op + ": " + row + ", not " + (found == is.end() ? "there" : found->second));
  }
  CHECK(absl::StrJoin(differ, "\n") == "");
  CHECK(is.size() == want.size());
}

Trained TrainWith(const Problem& p, const Manner& m, const proto::Plan& plan) {
  SmallRun run;
  run.model = p.model;
  run.recipe.set_documents(p.documents);
  run.Set("mesh", absl::StrJoin(m.written, ","));
  run.recipe.set_batch(p.batch);
  run.recipe.set_micro_batches(p.micro_batches);
  run.steps = 3;
  return TrainAndSave(run, plan);
}

TEST_CASE("neither stages nor schedule nor anything of memory moves a layout, or a bit") {
  const int draws = Full() ? 300 : 10, trained = Full() ? 60 : 2;
  Draws draw(20261124);
  int compiled = 0, trained_so_far = 0, refused = 0;
  for (int i = 0; compiled < draws; ++i) {
    REQUIRE(i < 4 * draws);
    const Problem problem = draw.DrawProblem();
    const Manner plain = Plain(problem), manner = draw.DrawManner(problem);
    INFO(Text(problem) << "\n" << Text(manner));
    const absl::StatusOr<proto::Plan> one = CompileAs(problem, plain, /*memory=*/0);
    if (!one.ok()) continue;  // a batch too small for the mesh
    const auto memory =
        static_cast<int64_t>(manner.memory * static_cast<double>(MostDeviceBytes(*one)));
    const absl::StatusOr<proto::Plan> other = CompileAs(problem, manner, memory);
    if (memory > 0 && absl::IsResourceExhausted(other.status())) {
      ++refused;
      continue;
    }
    INFO(other.status().ToString());
    REQUIRE(other.ok());
    ++compiled;
    CheckAlike(*one, *other);
    if (problem.shard != "none") {
      Problem unsplit = problem;
      unsplit.shard = "none";
      const proto::Plan plan = CompileAs(unsplit, plain, /*memory=*/0).value();
      CHECK(AxesOfStage(plan) == AxesOfStage(*other));
    }
    if (trained_so_far == trained || compiled * trained < trained_so_far * draws) continue;
    ++trained_so_far;
    CHECK(TrainWith(problem, manner, *other) == TrainWith(problem, plain, *one));
  }
  CHECK(trained_so_far == trained);
  CHECK((refused > 0 || !Full()));
}

TEST_CASE("the pipe degree on two nodes and more changes no bit") {
  Problem p;
  p.model.set_layers(4);
  p.model.set_hidden(40);
  p.model.set_heads(4);
  p.model.set_sequence(12);
  p.model.set_vocab(256);
  p.model.set_dropout(0.1);
  p.cluster = Known("h200");
  p.axes = {"data=2", "tensor=2"};
  p.split_positions = true;
  p.batch = 24;
  p.micro_batches = 3;
  const Manner plain = Plain(p);
  const proto::Plan one = CompileAs(p, plain, /*memory=*/0).value();
  const Trained expected = TrainWith(p, plain, one);
  CHECK(expected.variables.size() > 50);
  for (const int stages : {2, 4}) {
    INFO(stages << " stages");
    Manner manner = plain;
    manner.written.push_back(absl::StrCat("pipe=", stages));
    const proto::Plan other = CompileAs(p, manner, /*memory=*/0).value();
    CheckAlike(one, other);
    CHECK(TrainWith(p, manner, other) == expected);
  }
}

}  // namespace
}  // namespace oneflow
