// Training on packed documents is training on each document alone: losses and norms agree, on one
// device and on meshes, and do not where documents see each other.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/kernel/run_context.h"
#include "actor_runtime/random/random.h"
#include "compiler/compile.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/train/learning_rate.h"

namespace oneflow {
namespace {

constexpr int64_t kSequence = 24, kVocab = 29, kSteps = 3;
constexpr int32_t kEnd = 28;
// Two samples, of three documents each; tokens with the end. The last one of a sample is cut: its
// end is the label of the sample's last token.
constexpr int64_t kSamples = 2, kDocuments = 3;
constexpr int64_t kLengths[kSamples][kDocuments] = {{7, 9, 9}, {1, 20, 4}};

// Document `d` of sample `s` of a step: some words, and the end.
std::vector<int32_t> Document(int64_t step, int64_t s, int64_t d) {
  static const RandomStream words(11, "words");
  std::vector<int32_t> tokens;
  for (int64_t j = 0; j + 1 < kLengths[s][d]; ++j) {
    const int64_t index = ((step * kSamples + s) * kDocuments + d) * 100 + j;
    tokens.push_back(static_cast<int32_t>(words.Below(static_cast<uint64_t>(index), kEnd)));
  }
  tokens.push_back(kEnd);
  return tokens;
}

// Samples of several documents, one after the other.
class Packed : public TokenSource {
 public:
  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    auto at = tokens.begin();
    for (int64_t d = 0; d < kDocuments; ++d)
      at = std::ranges::copy(Document(step, sample, d), at).out;
    if (at != tokens.end()) throw std::logic_error("the documents do not fill the sample");
    return absl::OkStatus();
  }
};

// The same documents, each at the beginning of a sample of its own, and nothing but ends after it.
class Alone : public TokenSource {
 public:
  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    std::ranges::fill(tokens, kEnd);
    std::ranges::copy(Document(step, sample / kDocuments, sample % kDocuments), tokens.begin());
    return absl::OkStatus();
  }
};

struct Case {
  proto::Graph graph;
  bool documents = true;  // of Train
  std::string mesh, recompute = "none";
  int64_t batch = kSamples, micro_batches = 1;
  int32_t end = kEnd;
  std::string schedule = "1f1b";
};

proto::Plan CompileCase(const Case& c) {
  PlanRequest request{
      .recipe = MakeRecipe(absl::StrCat("--mesh=", c.mesh, " --batch=", c.batch,
                                        " --micro_batches=", c.micro_batches,
                                        " --recompute=", c.recompute, " --schedule=", c.schedule))};
  request.recipe.set_documents(c.documents);
  proto::Optimizer& optimizer = request.optimizer;
  optimizer.set_learning_rate(1e-3);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_epsilon(1e-3);  // an update follows its gradient, not the sign of it
  request.cluster.mutable_device()->set_kernel_threads(1);
  return Compile(c.graph, "documents", request).value();
}

struct Result {
  std::vector<double> losses, norms;
};

Result Train(const Case& c, const TokenSource& tokens) {
  const proto::Plan plan = CompileCase(c);
  const auto runtime =
      Runtime::Create(plan, {.threads = ParseMesh(c.mesh).value().devices()}).value();
  Result result{std::vector<double>(kSteps), std::vector<double>(kSteps)};
  RunContext context;
  context.seed = 5;
  if (!runtime->Run("init", context, 1).ok()) throw std::runtime_error("init");
  context.micro_batches = c.micro_batches;
  context.micro_batch_size = c.batch / c.micro_batches;
  context.tokens = &tokens;
  context.end_of_text = c.end;
  const proto::Optimizer& o = plan.optimizer();
  context.optimizer = [&](int64_t step) {
    return StepNumbers{
        LearningRate(o, step, kSteps), o.beta1(), o.beta2(), o.epsilon(), 0, 0, step};
  };
  context.report = [&](int64_t step, std::span<const double> values) {
    result.losses[step] = values[0];
    result.norms[step] = values[1];
  };
  const absl::Status trained = runtime->Run("train", context, kSteps);
  if (!trained.ok()) throw std::runtime_error(trained.ToString());
  return result;
}

proto::Graph SmallGpt() {
  return BuildModel(MakeModel(absl::StrCat(
      "family: 'gpt' layers: 2 heads: 2 hidden: 16 sequence: ", kSequence, " vocab: ", kVocab)));
}

proto::Graph SmallLlama(int64_t window) {
  return BuildModel(MakeModel(absl::StrCat(
      "family: 'llama' layers: 2 hidden: 16 inner: 32 heads: 4 groups: 2 head_dim: 8 sequence: ",
      kSequence, " vocab: ", kVocab, " qk_norm: true window: ", window)));
}

// Only the loss knows of ends: all tokens before are seen, and positions are those of the sample.
proto::Graph LossAlone(proto::Graph graph) {
  for (proto::Op& op : *graph.mutable_op()) {
    if (op.kind() == "input" && op.attr().at("source").s() == "labels") {
      (*op.mutable_attr())["source"].set_s("document_labels");
    }
    if (op.kind() == "softmax_cross_entropy") {
      (*op.mutable_attr())["ignore_negative"].set_b(true);
    }
  }
  return graph;
}

double Largest(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  }
  return largest;
}

TEST_CASE("Packed documents train as each of them alone") {
  for (const auto& [name, graph] : {std::pair("gpt", SmallGpt()), std::pair("llama", SmallLlama(0)),
                                    std::pair("llama with a window", SmallLlama(5))}) {
    INFO(name);
    const Case alone{.graph = LossAlone(graph),
                     .documents = false,
                     .batch = kSamples * kDocuments,
                     .micro_batches = 3};
    const Result reference = Train(alone, Alone());
    REQUIRE(reference.losses[kSteps - 1] != reference.losses[0]);
    for (const auto& [mesh, micro_batches, recompute] :
         {std::tuple("", 1, "none"), std::tuple("", 2, "full"), std::tuple("data=2", 1, "none"),
          std::tuple("tensor=2", 1, "selective"), std::tuple("pipe=2,tensor=2", 2, "none")}) {
      INFO(mesh << ", " << micro_batches << " micro-batches, " << recompute);
      const Result packed = Train(
          {.graph = graph, .mesh = mesh, .recompute = recompute, .micro_batches = micro_batches},
          Packed());
      CHECK(Largest(packed.losses, reference.losses) < 2e-6);
      CHECK(Largest(packed.norms, reference.norms) < 2e-5);
    }
    // The reference does not agree with anything: what sees other documents differs.
    const Result joined = Train({.graph = LossAlone(graph), .documents = false}, Packed());
    CHECK(Largest(joined.norms, reference.norms) > 1e-3);
  }
}

// Samples of few different tokens: 0 stands once in a step, 1 in each sample, and the rest are 2;
// or all are 2.
class Few : public TokenSource {
 public:
  explicit Few(bool alike) : alike_(alike) {}
  absl::Status Sample(int64_t, int64_t sample, std::span<int32_t> tokens) const override {
    std::ranges::fill(tokens, 2);
    if (alike_) return absl::OkStatus();
    tokens[3 + sample] = 1;
    if (sample == 1) tokens[9] = 0;
    return absl::OkStatus();
  }

 private:
  const bool alike_;
};

// A mixture of which a token sees itself alone: documents change no activation. Its routers balance
// their experts with factor 100 `balance`.
proto::Graph SmallMixture(double balance) {
  proto::Model config = MakeModel(absl::StrCat(
      "family: 'llama' layers: 2 hidden: 16 inner: 12 heads: 4 groups: 4 head_dim: 4 sequence: ",
      kSequence, " vocab: ", kVocab, " window: 1 experts: 4 aux_loss_coeff: ", 100 * balance,
      " z_loss_coeff: ", 10 * balance, " routed_positions: 4"));
  return BuildModel(config);
}

// The norm of what the losses of routers add to the gradient of the first step: with that of the
// labels l and of the routers r, |l + 2 r|² - 2 |l + r|² + |l|² = 2 |r|².
double NormOfRouters(Case c, const TokenSource& tokens) {
  const auto squared = [&](double balance) {
    proto::Graph graph = SmallMixture(balance);
    c.graph = c.documents ? graph : LossAlone(graph);
    const double norm = Train(c, tokens).norms[0];
    REQUIRE(std::isfinite(norm));
    return norm * norm;
  };
  return std::sqrt((squared(2) - 2 * squared(1) + squared(0)) / 2);
}

TEST_CASE("Losses of routers are means over a step, however many of its labels count") {
  const int64_t batch = 4;
  for (const bool alike : {false, true}) {
    const Few few(alike);
    // No document ends: all labels count, as they do where nothing is counted.
    const double all = NormOfRouters({.batch = batch}, few);
    REQUIRE(all > 1);
    for (const auto& [mesh, micro_batches, schedule] :
         {std::tuple("", 1, "1f1b"), std::tuple("data=2", 2, "1f1b"),
          std::tuple("pipe=2,data=2", 2, "1f1b"), std::tuple("pipe=2", 4, "zero_bubble"),
          std::tuple("data=2,expert=2", 1, "1f1b")}) {
      if (alike && mesh[0] == 'p') continue;
      Case c{.mesh = mesh, .batch = batch, .micro_batches = micro_batches, .schedule = schedule};
      // All but one label count; most; five, or none.
      for (const int32_t end : {0, 1, 2}) {
        if (alike && end < 2) continue;
        for (const bool documents : {true, false}) {
          if (!documents && mesh[0] != 0) continue;
          INFO(mesh << ", end " << end << (documents ? ", documents" : ", their loss alone"));
          c.end = end, c.documents = documents;
          CHECK(NormOfRouters(c, few) == Approx(all).epsilon(1e-4));
        }
      }
    }
  }
}

TEST_CASE("Evaluation keeps documents apart, too; programs that are fed take one") {
  const proto::Plan plan = CompileCase({.graph = SmallGpt()});
  const auto reads = [&](const std::string& program, const std::string& source) {
    return std::ranges::any_of(plan.program(), [&](const proto::Program& p) {
      return p.name() == program && std::ranges::any_of(p.actor(), [&](const proto::Actor& a) {
               const auto it = a.attr().find("source");
               return it != a.attr().end() && it->second.s() == source;
             });
    });
  };
  for (const char* source : {"positions", "documents", "document_labels"}) {
    CHECK(reads("train", source));
    CHECK(reads("eval", source));
    CHECK_FALSE(reads("generate", source));
  }
  CHECK_FALSE(reads("train", "labels"));
  CHECK(reads("generate", "tokens"));
}

}  // namespace
}  // namespace oneflow
