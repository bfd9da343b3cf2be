// Weights of folders, and checkpoints whose frozen variables are in one.
#include "training/checkpoint/base.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "actor_runtime/random/random.h"
#include "oneflow_core/base/temporary_directory.h"
#include "oneflow_core/tensor/bf16.h"
#include "training/checkpoint/checkpoint_for_test.h"
#include "training/hugging_face/model_config.h"
#include "training/hugging_face/model_graph.h"
#include "training/hugging_face/safetensors.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

// A folder of a small GPT-2: element i of tensor t is t + i / 1024.
HuggingFaceConfig WriteModel(const std::string& folder) {
  HuggingFaceConfig config = {.model_type = "gpt2", .dtype = "f32"};
  proto::Model& model = config.model;
  model.set_family("gpt");
  model.set_layers(1), model.set_heads(2), model.set_hidden(4), model.set_sequence(3);
  model.set_vocab(5), model.set_tied(true), model.set_norm_epsilon(1e-5), model.set_dropout(0);
  fs::create_directories(folder);
  REQUIRE(WriteDurably(folder + "/config.json", ConfigText(config)).ok());
  std::vector<FileTensor> tensors;
  for (const WantedVariable& wanted : ListVariables(*BuildModelGraph(config, {}))) {
    int64_t block = -1;
    const VariableParts& row = *FindParts(GptFiles(), wanted.name, &block);
    for (const FilePart& part : ListParts(row, wanted.dims)) {
      tensors.push_back({.name = FileName(GptFiles(), TensorName(part, block)),
                         .type = FileType::kF32,
                         .dims = TensorDims(part, wanted.dims, 0)});
    }
  }
  SafetensorsWriter writer =
      *SafetensorsWriter::Create(folder + "/model.safetensors", {{"format", "pt"}}, tensors);
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::vector<float> values(Product(tensors[t].dims));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(t) + static_cast<float>(i) / 1024;
    }
    REQUIRE(writer.Write(t, 0, values).ok());
  }
  REQUIRE(writer.Finish().ok());
  return config;
}

struct Read {
  std::vector<float> f32;
  std::vector<Bf16> bf16;
};

// The slice in both types.
Read LoadBoth(const WeightSource& weights, const std::string& name, const Dims& dims,
              const Slice& slice) {
  Read read = {std::vector<float>(slice.elements()), std::vector<Bf16>(slice.elements())};
  Piece piece;
  piece.name = &name, piece.dims = &dims, piece.slice = &slice;
  piece.data = reinterpret_cast<std::byte*>(read.f32.data());
  REQUIRE(weights.Load(piece).ok());
  piece.dtype = DType::kBF16;
  piece.data = reinterpret_cast<std::byte*>(read.bf16.data());
  REQUIRE(weights.Load(piece).ok());
  for (size_t i = 0; i < read.f32.size(); ++i) {
    CHECK(read.bf16[i].bits == ToBf16(read.f32[i]).bits);
  }
  return read;
}

// w is frozen, and b is trained. The graph has the base, if it has a path.
proto::Plan FrozenPlan(const proto::Base& base) {
  proto::Plan plan = TestPlan();
  for (const char* name : {"w", "b"}) {
    proto::Op& op = *plan.mutable_graph()->add_op();
    op.set_name(name);
    op.set_kind("variable");
    if (std::string(name) == "w") (*op.mutable_attr())["frozen"].set_b(true);
  }
  if (base.path().empty()) return plan;
  *plan.mutable_graph()->mutable_base() = base;
  plan.mutable_variable(0)->set_frozen(true);
  return plan;
}

std::string SavePlan(const std::string& dir, const proto::Plan& plan) {
  REQUIRE(BeginAttempt(dir, 0).ok());
  const CheckpointInfo info = {.step = 1};
  const auto writer = CheckpointWriter::Create(dir, plan, info, {}).value();
  for (int v = 0; v < plan.variable_size(); ++v) {
    if (plan.variable(v).frozen()) continue;
    const Slice all = {Dims(kVariables[v].dims.size(), 0), kVariables[v].dims};
    std::vector<float> values = Values(v, all);
    Piece piece;
    piece.name = &kVariables[v].name, piece.dims = &kVariables[v].dims, piece.slice = &all;
    piece.data = reinterpret_cast<std::byte*>(values.data());
    REQUIRE(writer->Write(piece).ok());
  }
  const std::string part = writer->Finish().value();
  return CommitParts(dir, plan, info, {}, {&part, 1}).value();
}

}  // namespace

TEST_CASE("base: a folder of Hugging Face gives slices of its variables in either type") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/model";
  const HuggingFaceConfig config = WriteModel(folder);
  const auto weights = OpenWeights(folder).value();
  CHECK(weights->notes().model_type == "gpt2");
  CHECK(weights->notes().dtype == "f32");
  CHECK(weights->notes().vocab == 5);
  REQUIRE(weights->model_files()->size() == 1);
  CHECK(weights->model_files()->front().name == "config.json");
  CHECK_FALSE(weights->tokenizer().known());
  CHECK(weights->Has("wte"));
  CHECK_FALSE(weights->Has("wte/m"));
  const Read all = LoadBoth(*weights, "wte", {5, 4}, {{0, 0}, {5, 4}});
  CHECK(all.f32[7] == 7.0F / 1024);
  const Read some = LoadBoth(*weights, "wte", {5, 4}, {{3, 1}, {2, 2}});
  CHECK(some.f32 == std::vector<float>{13.0F / 1024, 14.0F / 1024, 17.0F / 1024, 18.0F / 1024});
  // Of a vocabulary that is padded, the rest is zero.
  const Read padded = LoadBoth(*weights, "wte", {8, 4}, {{4, 3}, {2, 1}});
  CHECK(padded.f32 == std::vector<float>{19.0F / 1024, 0});
  proto::Variable variable;
  variable.set_name("wte");
  variable.set_dtype(proto::BF16);
  variable.mutable_layout()->add_dim(4);
  variable.mutable_layout()->add_dim(4);
  CHECK_THAT(Message(weights->Check(variable, "m")),
             Contains("variable wte is [5,4] there, [4,4] in the plan"));
  variable.mutable_layout()->set_dim(0, 6);
  CHECK(weights->Check(variable, "m").ok());
  variable.set_dtype(proto::F64);
  CHECK_THAT(Message(weights->Check(variable, "m")), Contains("is f64 in the plan"));
  variable.set_name("other");
  variable.set_dtype(proto::F32);
  CHECK_THAT(Message(weights->Check(variable, "m")), Contains("has no variable other [6,4]"));
}

TEST_CASE("base: its hash is that of the weights alone, and says that they are others") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/model";
  WriteModel(folder);
  const proto::Base base = DescribeBase(folder).value();
  CHECK(base.path() == fs::canonical(folder).string());
  CHECK(base.hash().size() == 32);
  REQUIRE(WriteDurably(folder + "/README.md", "text").ok());
  CHECK(HashWeights(folder).value() == base.hash());
  CHECK(OpenBase(base, "").ok());
  fs::rename(folder, dir.path() + "/moved");
  CHECK_THAT(Message(OpenBase(base, "").status()),
             Contains("/model: holds no weights") && Contains("say with --base=FOLDER"));
  CHECK(OpenBase(base, dir.path() + "/moved").value()->folder() == dir.path() + "/moved");
  std::string bytes = ReadFile(dir.path() + "/moved/model.safetensors");
  bytes.back() ^= 1;
  REQUIRE(WriteDurably(dir.path() + "/moved/model.safetensors", bytes).ok());
  CHECK_THAT(Message(OpenBase(base, dir.path() + "/moved").status()),
             Contains("/moved: has other weights than the base") && Contains(base.hash()));
  CHECK(OpenBase(base, dir.path() + "/moved", /*verifies=*/false).ok());
}

TEST_CASE("base: a checkpoint holds what is trained, and reads the rest from its base") {
  const TemporaryDirectory dir;
  const std::string first = SavePlan(dir.path() + "/first", FrozenPlan({}));
  const proto::Base base = DescribeBase(dir.path() + "/first").value();
  CHECK(base.path() == fs::canonical(first).string());
  const proto::Plan plan = FrozenPlan(base);
  const std::string second = SavePlan(dir.path() + "/second", plan);
  const auto reader = CheckpointReader::Open(second).value();
  CHECK(reader->Has("w"));
  CHECK(reader->CheckSameVariables(plan).ok());
  CHECK(reader->CheckWeights(plan).ok());
  CHECK(reader->Verify().ok());
  CheckLoads(*reader, PlacementNumber(3));
  // A frozen variable may rest in bf16.
  const Slice slice = {{1, 0, 1}, {2, 7, 1}};
  std::vector<Bf16> narrow(slice.elements());
  Piece piece;
  piece.name = &kVariables[0].name, piece.dims = &kVariables[0].dims, piece.slice = &slice;
  piece.dtype = DType::kBF16;
  piece.data = reinterpret_cast<std::byte*>(narrow.data());
  REQUIRE(reader->Load(piece).ok());
  const std::vector<float> wide = Values(0, slice);
  for (size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i].bits == ToBf16(wide[i]).bits);

  fs::rename(dir.path() + "/first", dir.path() + "/moved");
  const auto lost = CheckpointReader::Open(second).value();  // the base is not asked for yet
  CHECK_THAT(Message(lost->CheckVariables(plan)), Contains("holds no weights"));
  const auto found = CheckpointReader::Open(second, {.base = dir.path() + "/moved"}).value();
  CHECK(found->CheckVariables(plan).ok());
}

TEST_CASE("base: a variable that no folder has begins as program init has it") {
  proto::Variable variable;
  variable.set_name("h.0.attn.proj.lora_a");
  variable.set_init("normal");
  variable.set_init_value(0.5);
  const Dims dims = {3, 4};
  const Slice slice = {{1, 1}, {2, 2}};
  std::vector<float> values(4);
  Piece piece;
  piece.name = &variable.name(), piece.dims = &dims, piece.slice = &slice;
  piece.data = reinterpret_cast<std::byte*>(values.data());
  REQUIRE(FillInitial(variable, 7, piece).ok());
  std::vector<double> normals(12);
  RandomStream(7, variable.name()).Normals(0, normals);
  const int at[] = {5, 6, 9, 10};
  for (int i = 0; i < 4; ++i) CHECK(values[i] == static_cast<float>(0.5 * normals[at[i]]));
  variable.set_init("zeros");
  REQUIRE(FillInitial(variable, 7, piece).ok());
  CHECK(values == std::vector<float>(4, 0));
}

}  // namespace oneflow
