// Update rules against plain ones: three stages of one weight each, trained by plans whose weights
// lag, and by loops in double that keep every version of every weight.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actor_runtime/exec/interleaved_for_test.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/kernel/kernel.h"
#include "compiler/compile.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

constexpr int kStages = 3;
constexpr int64_t kVocab = 11, kHidden = 6, kLength = 5, kRows = 2;  // sequences a micro-batch

using Values = std::vector<double>;
using Weights = std::vector<Values>;  // by stage: embedding [V, H], linear [H, H], linear [H, V]

constexpr char kGraph[] = R"g(
  name: "chain" loss: "loss"
  op { name: "tokens" kind: "input" dtype: I32 shape { dim { name: "batch" } dim { size: 5 } }
       attr { key: "source" value { s: "tokens" } } }
  op { name: "labels" kind: "input" dtype: I32 shape { dim { name: "batch" } dim { size: 5 } }
       attr { key: "source" value { s: "labels" } } stage: 2 }
  op { name: "e" kind: "variable" shape { dim { size: 11 } dim { size: 6 } }
       attr { key: "init" value { s: "normal" } } attr { key: "init_value" value { f: 0.7 } } }
  op { name: "w" kind: "variable" shape { dim { size: 6 } dim { size: 6 } } stage: 1
       attr { key: "init" value { s: "normal" } } attr { key: "init_value" value { f: 0.7 } } }
  op { name: "u" kind: "variable" shape { dim { size: 6 } dim { size: 11 } } stage: 2
       attr { key: "init" value { s: "normal" } } attr { key: "init_value" value { f: 0.7 } } }
  op { name: "x" kind: "embedding" input: "e" input: "tokens" }
  op { name: "h" kind: "linear" input: "x" input: "w" stage: 1 }
  op { name: "y" kind: "linear" input: "h" input: "u" stage: 2 }
  op { name: "loss" kind: "softmax_cross_entropy" input: "y" input: "labels" stage: 2 }
)g";

// Learnable: a token tells the next.
class Chain : public TokenSource {
 public:
  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    int64_t token = (step * 7 + sample * 3) % kVocab;
    for (int32_t& t : tokens)
      t = static_cast<int32_t>(std::exchange(token, (token * 5 + 3) % kVocab));
    return absl::OkStatus();
  }
};

StepNumbers Numbers(int64_t step) { return {2e-2, 0.9, 0.95, 1e-3, 0.1, 0, step}; }

// --- the plain rules ---

// y += x w for x [rows, k], w [k, n]; or with a side transposed.
void AddProduct(const Values& x, const Values& w, int64_t rows, int64_t k, int64_t n, Values* y) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l) (*y)[i * n + j] += x[i * k + l] * w[l * n + j];
}

Values Transposed(const Values& x, int64_t rows, int64_t columns) {
  Values t(x.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) t[j * rows + i] = x[i * columns + j];
  return t;
}

// The loss of a micro-batch, times `scale`; its gradients are added to `grads`.
double Differentiate(const Weights& w, int64_t step, int64_t first, double scale, Weights* grads) {
  const int64_t n = kRows * kLength;
  std::vector<int32_t> tokens, labels, sample(kLength + 1);
  for (int64_t r = 0; r < kRows; ++r) {
    CHECK(Chain().Sample(step, first + r, sample).ok());
    tokens.insert(tokens.end(), sample.begin(), sample.end() - 1);
    labels.insert(labels.end(), sample.begin() + 1, sample.end());
  }
  Values x(n * kHidden), h(n * kHidden, 0), y(n * kVocab, 0);
  for (int64_t i = 0; i < n; ++i) std::copy_n(&w[0][tokens[i] * kHidden], kHidden, &x[i * kHidden]);
  AddProduct(x, w[1], n, kHidden, kHidden, &h);
  AddProduct(h, w[2], n, kHidden, kVocab, &y);
  double loss = 0;
  for (int64_t i = 0; i < n; ++i) {  // y becomes its gradient
    double sum = 0;
    for (int64_t v = 0; v < kVocab; ++v) sum += std::exp(y[i * kVocab + v]);
    loss += (std::log(sum) - y[i * kVocab + labels[i]]) * scale;
    for (int64_t v = 0; v < kVocab; ++v) {
      y[i * kVocab + v] = (std::exp(y[i * kVocab + v]) / sum - (v == labels[i] ? 1 : 0)) * scale;
    }
  }
  Values dh(n * kHidden, 0), dx(n * kHidden, 0);
  AddProduct(Transposed(h, n, kHidden), y, kHidden, n, kVocab, &(*grads)[2]);
  AddProduct(y, Transposed(w[2], kHidden, kVocab), n, kVocab, kHidden, &dh);
  AddProduct(Transposed(x, n, kHidden), dh, kHidden, n, kHidden, &(*grads)[1]);
  AddProduct(dh, Transposed(w[1], kHidden, kHidden), n, kHidden, kHidden, &dx);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < kHidden; ++j)
      (*grads)[0][tokens[i] * kHidden + j] += dx[i * kHidden + j];
  return loss;
}

struct Trained {
  Values losses;
  Weights weights;
};

// Every weight has a list of its versions; step t reads the newest but `lag` of its stage.
Trained TrainPlainly(const Weights& start, const std::vector<int64_t>& lag, int64_t micro_batches,
                     int64_t steps) {
  Trained result;
  std::vector<Weights> versions = {start};
  Weights m, v;
  for (const Values& w : start) m.emplace_back(w.size(), 0), v.emplace_back(w.size(), 0);
  const double scale = 1.0 / static_cast<double>(kRows * kLength * micro_batches);
  for (int64_t t = 0; t < steps; ++t) {
    Weights seen, grads;
    for (int s = 0; s < kStages; ++s) {
      seen.push_back(versions[std::max<int64_t>(0, t - lag[s])][s]);
      grads.emplace_back(start[s].size(), 0);
    }
    double loss = 0;
    for (int64_t i = 0; i < micro_batches; ++i)
      loss += Differentiate(seen, t, i * kRows, scale, &grads);
    result.losses.push_back(loss);
    Weights next = versions.back();
    const StepNumbers n = Numbers(t);
    for (int s = 0; s < kStages; ++s) {
      for (size_t i = 0; i < next[s].size(); ++i) {
        const double g = grads[s][i];
        m[s][i] = n.beta1 * m[s][i] + (1 - n.beta1) * g;
        v[s][i] = n.beta2 * v[s][i] + (1 - n.beta2) * g * g;
        const double m_hat = m[s][i] / (1 - std::pow(n.beta1, t + 1));
        const double v_hat = v[s][i] / (1 - std::pow(n.beta2, t + 1));
        next[s][i] -= n.learning_rate *
                      (m_hat / (std::sqrt(v_hat) + n.epsilon) + n.weight_decay * next[s][i]);
      }
    }
    versions.push_back(std::move(next));
  }
  result.weights = versions.back();
  return result;
}

// --- the plans ---

struct Case {
  std::string schedule;
  int64_t staleness, micro_batches;
  std::vector<int64_t> lag;  // what the rule means, by stage
};

proto::Plan MakePlan(const Case& c) {
  const auto source = ParseGraphSource(kGraph, "chain").value();
  PlanRequest request{.recipe = MakeRecipe("--mesh=pipe=3")};
  request.recipe.set_batch(kRows * c.micro_batches);
  request.recipe.set_micro_batches(c.micro_batches);
  request.recipe.set_schedule(c.schedule);
  request.recipe.set_staleness(c.staleness);
  return Compile(source.graph, "chain", request).value();
}

// The newest version of every weight: the last slot, between runs.
template <typename AnyRuntime>
Weights ReadWeights(const proto::Plan& plan, const AnyRuntime& runtime) {
  Weights weights(kStages);
  for (const proto::Register& r : plan.persistent()) {
    if (r.name() != "e" && r.name() != "w" && r.name() != "u") continue;
    const auto bytes = runtime.PersistentBytes(r.stage(), r.id(), r.slots() - 1);
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    const int64_t n = r.layout().dim(0) * r.layout().dim(1);
    weights[r.stage()].assign(values, values + n);
  }
  return weights;
}

// init, then two runs of `rounds` rounds each; `run(program, context, rounds)`.
template <typename AnyRuntime, typename Run>
Trained TrainByPlan(const proto::Plan& plan, const AnyRuntime& runtime, int64_t rounds, Run run,
                    Weights* start) {
  const Chain tokens;
  RunContext context;
  context.seed = 3;
  REQUIRE(run("init", context, 1) == absl::OkStatus());
  *start = ReadWeights(plan, runtime);
  const int64_t round = StepsARound(plan);
  Trained result;
  result.losses.resize(2 * rounds * round);
  context.tokens = &tokens;
  context.micro_batches = plan.program(1).micro_batches();
  context.micro_batch_size = kRows;
  context.optimizer = Numbers;
  context.report = [&](int64_t step, std::span<const double> values) {
    result.losses[step] = values[0];
  };
  for (int part = 0; part < 2; ++part) {
    context.first_step = part * rounds * round;
    REQUIRE(run("train", context, rounds) == absl::OkStatus());
  }
  result.weights = ReadWeights(plan, runtime);
  return result;
}

double Distance(const Trained& a, const Trained& b) {
  double most = 0;
  for (size_t i = 0; i < a.losses.size(); ++i)
    most = std::max(most, std::abs(a.losses[i] - b.losses[i]));
  for (int s = 0; s < kStages; ++s) {
    for (size_t i = 0; i < a.weights[s].size(); ++i)
      most = std::max(most, std::abs(a.weights[s][i] - b.weights[s][i]));
  }
  return most;
}

const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>{
      {"1f1b", 0, 2, {0, 0, 0}},       // an update a step
      {"1f1b", 0, 6, {0, 0, 0}},       // synchronised every three steps of two micro-batches
      {"2bw", 0, 4, {1, 1, 1}},        // double-buffered weights
      {"2bw", 0, 1, {1, 1, 1}},        // fewer micro-batches than the way is long
      {"1f1b", 2, 2, {2, 2, 2}},       // bounded staleness
      {"pipedream", 0, 1, {2, 1, 0}},  // weight stashing
  };
  return cases;
}

}  // namespace

TEST_CASE("every update rule does what its plain form does, in both runtimes") {
  for (const Case& c : Cases()) {
    INFO(c.schedule << ", staleness " << c.staleness << ", micro-batches " << c.micro_batches);
    const proto::Plan plan = MakePlan(c);
    const int64_t rounds = c.lag[0] == 0 ? 8 : 1, steps = 2 * rounds * StepsARound(plan);
    const auto threaded = Runtime::Create(plan, {.threads = kStages}).value();
    Weights start;
    const Trained by_plan = TrainByPlan(
        plan, *threaded, rounds,
        [&](const char* program, const RunContext& context, int64_t n) {
          return threaded->Run(program, context, n);
        },
        &start);
    const Trained plain = TrainPlainly(start, c.lag, c.micro_batches, steps);
    CHECK(plain.losses.back() < plain.losses.front() - 0.2);  // it learns
    CHECK(Distance(by_plan, plain) < 1e-4);
    if (c.lag[0] > 0)
      CHECK(Distance(TrainPlainly(start, {0, 0, 0}, c.micro_batches, steps), plain) > 1e-2);

    for (uint64_t seed = 0; seed < 3; ++seed) {
      const auto runtime = Runtime::Create(plan, Interleaved(seed)).value();
      const Trained interleaved = TrainByPlan(
          plan, *runtime, rounds,
          [&](const char* program, const RunContext& context, int64_t n) {
            return runtime->Run(program, context, n);
          },
          &start);
      CHECK(interleaved.losses == by_plan.losses);
      CHECK(interleaved.weights == by_plan.weights);
    }
  }
}

TEST_CASE("between rounds eval and save see the newest version, and load fills all of them") {
  for (const Case& c : Cases()) {
    INFO(c.schedule << ", staleness " << c.staleness);
    const proto::Plan plan = MakePlan(c);
    const auto runtime = Runtime::Create(plan, {.threads = kStages}).value();
    Weights start;
    const Trained trained = TrainByPlan(
        plan, *runtime, /*rounds=*/1,
        [&](const char* program, const RunContext& context, int64_t n) {
          return runtime->Run(program, context, n);
        },
        &start);
    const Chain tokens;
    double loss = 0;
    std::map<std::string, std::vector<float>> saved;
    RunContext context;
    context.tokens = &tokens;
    context.micro_batch_size = kRows;
    context.report = [&](int64_t, std::span<const double> values) { loss = values[0]; };
    context.save = [&](const Piece& piece) {
      const auto* values = reinterpret_cast<const float*>(piece.data);
      saved[*piece.name].assign(values, values + piece.slice->elements());
      return absl::OkStatus();
    };
    REQUIRE(runtime->Run("eval", context, 1) == absl::OkStatus());
    REQUIRE(runtime->Run("save", context, 1) == absl::OkStatus());
    Weights unused = start;
    CHECK(loss == Approx(Differentiate(trained.weights, 0, 0, 1.0 / (kRows * kLength), &unused)));
    const std::vector<float>& w = saved.at("w");
    CHECK(Values(w.begin(), w.end()) == trained.weights[1]);

    const auto other = Runtime::Create(plan, {.threads = kStages}).value();
    context.load = [&](const Piece& piece) {
      std::memcpy(piece.data, saved.at(*piece.name).data(), 4 * piece.slice->elements());
      return absl::OkStatus();
    };
    REQUIRE(other->Run("load", context, 1) == absl::OkStatus());
    for (const proto::Register& r : plan.persistent()) {
      const auto newest = runtime->PersistentBytes(r.stage(), r.id(), r.slots() - 1);
      for (int slot = 0; slot < r.slots(); ++slot) {
        const auto loaded = other->PersistentBytes(r.stage(), r.id(), slot);
        CHECK(std::memcmp(loaded.data(), newest.data(), 4 * saved.at(r.name()).size()) == 0);
      }
    }
  }
}

TEST_CASE("weights have as many slots as versions, and are read as far back as they lag") {
  for (const Case& c : Cases()) {
    INFO(c.schedule << ", staleness " << c.staleness);
    const proto::Plan plan = MakePlan(c);
    for (const proto::Actor& actor : plan.program(1).actor()) {
      for (const proto::Input& input : actor.input()) {
        if (input.register_() >= plan.persistent_size()) continue;
        const proto::Register& r = plan.persistent(input.register_());
        const bool update = actor.kernel() == "next_adamw";
        CHECK(input.initial_fills() == (update ? 1 : 1 + c.lag[r.stage()]));
        CHECK(r.slots() >= 1 + c.lag[r.stage()]);
        CHECK(r.slots() <= std::max<int64_t>(1, 2 * c.lag[r.stage()]) + 1);
      }
    }
  }
}

}  // namespace oneflow
