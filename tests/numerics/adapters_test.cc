// Adapters against plain algebra: with W' = W + f A B a model without adapters has the same loss,
// and its gradient G of W' gives those of the adapters, f G B^T and f A^T G. The model without them
// is held against PyTorch by numerics_test. Error of a tensor: max |a - b| / max |b|, under 1e-4.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/random/random.h"
#include "compiler/compile.h"
#include "oneflow_core/model/adapters.h"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

using Weights = std::map<std::string, std::vector<float>>;

constexpr double kMost = 1e-4;
constexpr int64_t kBatch = 4;
constexpr double kBeta1 = 0.9;

Dims ListSizes(const proto::Op& variable) {
  Dims dims;
  for (const auto& dim : variable.shape().dim()) dims.push_back(dim.size());
  return dims;
}

const proto::Op& FindVariable(const proto::Graph& graph, const std::string& name) {
  return *std::find_if(graph.op().begin(), graph.op().end(),
                       [&](const proto::Op& op) { return op.name() == name; });
}

// Larger than an initialisation would make them, B not zero: mistakes show.
Weights MakeWeights(const proto::Graph& graph) {
  Weights weights;
  for (const proto::Op& op : graph.op()) {
    if (op.kind() != "variable") continue;
    std::vector<double> normals(static_cast<size_t>(Product(ListSizes(op))));
    RandomStream(3, op.name()).Normals(0, normals);
    const double around = op.attr().at("init").s() == "ones" ? 1 : 0;
    for (const double n : normals) {
      weights[op.name()].push_back(static_cast<float>(around + 0.15 * n));
    }
  }
  return weights;
}

class Drawn : public TokenSource {
 public:
  absl::Status Sample(int64_t /*step*/, int64_t sample, std::span<int32_t> tokens) const override {
    uint64_t index = static_cast<uint64_t>(sample) * 100;
    for (int32_t& t : tokens) t = static_cast<int32_t>(stream_.Below(index++, 21));
    return absl::OkStatus();
  }

 private:
  RandomStream stream_{5, "tokens"};
};

struct Result {
  double loss = 0;
  Weights gradients;
};

// One step: its loss, and the gradients of what is trained, from their first moments.
Result TrainOnce(const proto::Graph& graph, const Weights& weights, const std::string& flags) {
  PlanRequest request{.recipe = MakeRecipe(flags)};
  request.recipe.set_batch(kBatch);
  const auto plan = Compile(graph, "adapters", request).value();
  const auto runtime = Runtime::Create(plan, {}).value();
  const Drawn tokens;
  RunContext context;
  context.micro_batches = request.recipe.micro_batches();
  context.micro_batch_size = kBatch / request.recipe.micro_batches();
  context.tokens = &tokens;
  const auto runs = [](const Piece& piece, auto visit) {
    ForRuns(*piece.dims, *piece.slice, 0, piece.slice->elements(), visit);
    return absl::OkStatus();
  };
  context.load = [&](const Piece& piece) {
    auto* local = reinterpret_cast<float*>(piece.data);
    const auto values = weights.find(*piece.name);
    return runs(piece, [&](int64_t element, int64_t index, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        local[element + i] = values == weights.end() ? 0 : values->second[index + i];
      }
    });
  };
  REQUIRE(runtime->Run("load", context, 1).ok());
  Result result;
  context.optimizer = [](int64_t step) {
    return StepNumbers{1e-3, kBeta1, 0.95, 1e-8, 0.1, 0, step};
  };
  context.report = [&](int64_t, std::span<const double> values) { result.loss = values[0]; };
  REQUIRE(runtime->Run("train", context, 1).ok());
  context.save = [&](const Piece& piece) {
    if (!piece.name->ends_with("/m")) return absl::OkStatus();
    std::vector<float>& full = result.gradients[piece.name->substr(0, piece.name->size() - 2)];
    full.resize(Product(*piece.dims));
    const auto* local = reinterpret_cast<const float*>(piece.data);
    return runs(piece, [&](int64_t element, int64_t index, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        full[index + i] = local[element + i] / static_cast<float>(1 - kBeta1);
      }
    });
  };
  REQUIRE(runtime->Run("save", context, 1).ok());
  return result;
}

// Of an adapter, for each element of its weight or part (row-major [in, out]) its index there.
struct Matrix {
  int64_t in = 1, out = 1, rank = 1;
  std::vector<int64_t> index;
};

Matrix FindMatrix(const proto::Graph& graph, const Adapter& adapter, const FamilyFiles& files) {
  Matrix m;
  const Dims a = ListSizes(FindVariable(graph, adapter.a));
  const Dims dims = ListSizes(FindVariable(graph, adapter.weight));
  m.rank = a.back();
  m.in = Product(a) / m.rank;
  m.out = Product(ListSizes(FindVariable(graph, adapter.b))) / m.rank;
  Slice box = {Dims(dims.size(), 0), dims};
  int64_t block = -1;
  if (adapter.part >= 0) {
    box = PartBox(FindParts(files, adapter.weight, &block)->parts[adapter.part], dims, 0);
  }
  ForRuns(dims, box, 0, box.elements(), [&](int64_t, int64_t index, int64_t count) {
    for (int64_t i = 0; i < count; ++i) m.index.push_back(index + i);
  });
  REQUIRE(static_cast<int64_t>(m.index.size()) == m.in * m.out);
  return m;
}

Weights Merge(const proto::Graph& graph, Weights weights, const FamilyFiles& files) {
  for (const Adapter& adapter : ListAdapters(graph)) {
    const Matrix m = FindMatrix(graph, adapter, files);
    const std::vector<float>&a = weights.at(adapter.a), &b = weights.at(adapter.b);
    for (int64_t i = 0; i < m.in; ++i) {
      for (int64_t o = 0; o < m.out; ++o) {
        double sum = 0;
        for (int64_t r = 0; r < m.rank; ++r) sum += double{a[i * m.rank + r]} * b[r * m.out + o];
        weights.at(adapter.weight)[m.index[i * m.out + o]] +=
            static_cast<float>(adapter.factor * sum);
      }
    }
  }
  return weights;
}

double LargestError(const std::vector<float>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0, error = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(actual[i] - expected[i]));
  }
  return error / largest;
}

void CheckModel(const std::string& model, const std::string& lora, const std::string& flags) {
  INFO(model << ", " << lora << ", " << flags);
  const proto::Graph plain = BuildModel(MakeModel(model));
  proto::Lora said;
  REQUIRE(kLoraForm.parse("--lora", lora, &said).ok());
  const proto::Graph graph = AddAdapters(plain, said).value();
  const FamilyFiles& files = plain.family() == "gpt" ? GptFiles() : LlamaFiles();
  const Weights weights = MakeWeights(graph);
  const Result full = TrainOnce(plain, Merge(graph, weights, files), "--micro_batches=2");
  const Result adapted = TrainOnce(graph, weights, "--micro_batches=2 " + flags);
  CHECK(std::abs(adapted.loss - full.loss) < kMost * full.loss);
  const std::vector<Adapter> adapters = ListAdapters(graph);
  CHECK(adapted.gradients.size() == 2 * adapters.size());
  for (const Adapter& adapter : adapters) {
    INFO(adapter.at);
    const Matrix m = FindMatrix(graph, adapter, files);
    const std::vector<float>& gradient = full.gradients.at(adapter.weight);
    std::vector<double> of_a(m.in * m.rank), of_b(m.rank * m.out);
    for (int64_t i = 0; i < m.in; ++i) {
      for (int64_t o = 0; o < m.out; ++o) {
        const double g = adapter.factor * gradient[m.index[i * m.out + o]];
        for (int64_t r = 0; r < m.rank; ++r) {
          of_a[i * m.rank + r] += g * weights.at(adapter.b)[r * m.out + o];
          of_b[r * m.out + o] += g * weights.at(adapter.a)[i * m.rank + r];
        }
      }
    }
    CHECK(LargestError(adapted.gradients.at(adapter.a), of_a) < kMost);
    CHECK(LargestError(adapted.gradients.at(adapter.b), of_b) < kMost);
  }
}

constexpr char kGpt[] = "family: 'gpt' layers: 2 heads: 2 hidden: 16 sequence: 8 vocab: 21";
constexpr char kLlama[] =
    "family: 'llama' layers: 2 heads: 4 groups: 2 hidden: 16 inner: 24 head_dim: 4 sequence: 8 "
    "vocab: 21 qkv_bias: true qk_norm: true";

TEST_CASE("A model with adapters computes what one with the merged weights does") {
  CheckModel(kGpt, "rank:3,alpha:5", "");
  CheckModel(kLlama, "rank:3,alpha:5", "");
  CheckModel(kLlama, "rank:4,alpha:3,rslora,targets:q+v+down", "--fuse=false");
}

TEST_CASE("The same on eight devices") {
  CheckModel(kGpt, "rank:3,alpha:5", "--mesh=pipe=2,data=2,tensor=2");
  CheckModel(kLlama, "rank:3,alpha:5", "--mesh=data=2,tensor=2x2 --shard=weights");
}

}  // namespace
}  // namespace oneflow
