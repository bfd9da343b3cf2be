#include "actor_runtime/checkpoint/checkpoint.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "actor_runtime/checkpoint/manifest.h"
#include "actor_runtime/data/temporary_directory.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

struct TestVariable {
  std::string name;
  Dims dims;
};
const std::vector<TestVariable> kVariables = {{"w", {5, 7, 3}}, {"b", {11}}, {"s", {}}};

proto::Plan TestPlan(const std::vector<TestVariable>& variables = kVariables) {
  proto::Plan plan;
  plan.set_model("tiny");
  plan.set_fingerprint("f00d");
  plan.mutable_graph()->set_name("tiny");
  plan.mutable_train()->set_batch(8);
  plan.mutable_train()->mutable_optimizer()->set_learning_rate(0.1);
  for (const TestVariable& v : variables) {
    proto::Variable* variable = plan.add_variable();
    variable->set_name(v.name);
    variable->set_dtype(proto::F32);
    *variable->mutable_layout() = ToProto(Layout{v.dims, {}});
  }
  return plan;
}

// Element i of variable v is 1000 v + i.
std::vector<float> Values(int v, const Slice& slice) {
  const Dims& dims = kVariables[v].dims;
  std::vector<float> values;
  for (int64_t e = 0; e < slice.elements(); ++e) {
    int64_t at = 0, rest = e, stride = 1;
    for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
      at += (slice.begin[d] + rest % slice.size[d]) * stride;
      rest /= slice.size[d];
      stride *= dims[d];
    }
    values.push_back(static_cast<float>(1000 * v + at));
  }
  return values;
}

// A mesh of several devices and how each variable lies on it.
struct Placement {
  Mesh mesh;
  std::vector<std::vector<Layout::Cut>> cuts;  // for each of kVariables
};

Placement PlacementNumber(int n) {
  switch (n) {
    case 0: return {*ParseMesh("data=1"), {{}, {}, {}}};
    case 1: return {*ParseMesh("data=2"), {{{0, 0}}, {{0, 0}}, {}}};
    case 2: return {*ParseMesh("data=2,tensor=3"), {{{1, 1}}, {{0, 1}}, {}}};
    case 3: return {*ParseMesh("data=2,tensor=3"), {{{1, 1}, {0, 0}}, {{0, 0}, {0, 1}}, {}}};
    default: return {*ParseMesh("data=8"), {{{2, 0}}, {{0, 0}}, {}}};  // empty parts, too
  }
}

template <typename Fn>
void ForEachPiece(const Placement& placement, int rank, Fn fn) {
  for (int v = 0; v < static_cast<int>(kVariables.size()); ++v) {
    const Layout layout = {kVariables[v].dims, placement.cuts[v]};
    const Slice slice = SliceOf(layout, placement.mesh, placement.mesh.CoordinateOf(rank));
    Piece piece = {
        .name = &kVariables[v].name, .dims = &kVariables[v].dims, .slice = &slice, .rank = rank};
    fn(v, piece);
  }
}

absl::Status WriteRank(CheckpointWriter& writer, const Placement& placement, int rank) {
  absl::Status status;
  ForEachPiece(placement, rank, [&](int v, Piece& piece) {
    std::vector<float> values = Values(v, *piece.slice);
    piece.data = reinterpret_cast<std::byte*>(values.data());
    status.Update(writer.Write(piece));
  });
  return status;
}

std::string Save(const std::string& dir, int64_t step, const Placement& placement) {
  auto writer = *CheckpointWriter::Create(dir, TestPlan(), {.step = step, .seed = 5});
  for (int rank = 0; rank < placement.mesh.devices(); ++rank) {
    REQUIRE(WriteRank(*writer, placement, rank).ok());
  }
  return *writer->Commit();
}

void CheckLoads(const CheckpointReader& reader, const Placement& placement) {
  for (int rank = 0; rank < placement.mesh.devices(); ++rank) {
    ForEachPiece(placement, rank, [&](int v, Piece& piece) {
      std::vector<float> values(piece.slice->elements(), -1);
      piece.data = reinterpret_cast<std::byte*>(values.data());
      REQUIRE(reader.Load(piece).ok());
      REQUIRE(values == Values(v, *piece.slice));
    });
  }
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What the manifest says of each slice but for its place: of replicas, the first to come is kept.
std::vector<std::string> StoredSlices(const std::string& folder) {
  const Manifest manifest = *ParseManifest(ReadFile(folder + "/manifest.json"), folder);
  std::vector<std::string> slices;
  for (const StoredVariable& v : manifest.variables) {
    for (const StoredSlice& s : v.slices) {
      slices.push_back(v.name + ToString(s.slice.begin) + ToString(s.slice.size) + s.checksum);
    }
  }
  return slices;
}

TEST_CASE("Any placement loads what any other has saved") {
  const TemporaryDirectory dir;
  for (int from = 0; from < 5; ++from) {
    const std::string folder = Save(dir.path(), from, PlacementNumber(from));
    const auto reader = *CheckpointReader::Open(folder);
    for (int to = 0; to < 5; ++to) CheckLoads(*reader, PlacementNumber(to));
  }
}

TEST_CASE("A checkpoint knows where it comes from") {
  const TemporaryDirectory dir;
  const std::string folder = Save(dir.path() + "/a/b", 20, PlacementNumber(1));
  CHECK(folder == dir.path() + "/a/b/step-00000020");
  const auto reader = *CheckpointReader::Open(folder);
  CHECK(reader->step() == 20);
  CHECK(reader->seed() == 5);
  CHECK(reader->graph().name() == "tiny");
  CHECK(reader->train().batch() == 8);
  CHECK(reader->train().optimizer().learning_rate() == 0.1);
  CHECK(reader->mesh() == "1");
  CHECK(reader->tokens() == 0);

  proto::Plan plan = TestPlan({});
  *plan.mutable_mesh() = ToProto(*ParseMesh("pipe=2,data=8x4"));
  auto writer = *CheckpointWriter::Create(dir.path(), plan, {.step = 1, .tokens = 900});
  const auto other = *CheckpointReader::Open(*writer->Commit());
  CHECK(other->mesh() == "pipe=2,data=8x4");
  CHECK(other->tokens() == 900);
}

TEST_CASE("Devices save at once; the manifest does not show who was first") {
  const TemporaryDirectory dir;
  const Placement placement = PlacementNumber(3);
  const std::string alone = Save(dir.path() + "/alone", 1, placement);
  auto writer = *CheckpointWriter::Create(dir.path() + "/together", TestPlan(), {1, 5});
  std::vector<absl::Status> statuses(placement.mesh.devices());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < placement.mesh.devices(); ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = WriteRank(*writer, placement, rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) CHECK(status.ok());
  const std::string together = *writer->Commit();
  CheckLoads(**CheckpointReader::Open(together), PlacementNumber(0));
  CHECK(StoredSlices(alone) == StoredSlices(together));
}

TEST_CASE("A checkpoint is complete or absent") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/step-00000007";
  {
    auto writer = *CheckpointWriter::Create(dir.path(), TestPlan(), {.step = 7});
    REQUIRE(WriteRank(*writer, PlacementNumber(1), 0).ok());
    CHECK_FALSE(fs::exists(folder));
    const absl::Status half = writer->Commit().status();
    CHECK(Message(half) == "w: has 63 of 105 elements of [5,7,3]");
    CHECK_FALSE(fs::exists(folder));
    CHECK(fs::exists(folder + ".tmp"));
  }
  CHECK_FALSE(fs::exists(folder + ".tmp"));

  // The leftovers of a crash do no harm.
  fs::create_directories(folder + ".tmp");
  std::ofstream(folder + ".tmp/rank-00009.bin") << "half";
  CHECK_FALSE(LatestCheckpoint(dir.path()).ok());
  Save(dir.path(), 7, PlacementNumber(1));
  CHECK_FALSE(fs::exists(folder + "/rank-00009.bin"));
  CHECK_FALSE(fs::exists(folder + ".tmp"));
}

TEST_CASE("Saving a step again replaces its checkpoint") {
  const TemporaryDirectory dir;
  Save(dir.path(), 7, PlacementNumber(1));
  const std::string folder = Save(dir.path(), 7, PlacementNumber(0));
  CHECK_FALSE(fs::exists(folder + "/rank-00001.bin"));
  CHECK_FALSE(fs::exists(folder + ".tmp"));
  CheckLoads(**CheckpointReader::Open(folder), PlacementNumber(2));
}

TEST_CASE("LatestCheckpoint: the highest complete step") {
  const TemporaryDirectory dir;
  CHECK(LatestCheckpoint(dir.path() + "/no").status().code() == absl::StatusCode::kNotFound);
  CHECK(LatestCheckpoint(dir.path()).status().code() == absl::StatusCode::kNotFound);
  for (int64_t step : {9, 100000000, 20}) Save(dir.path(), step, PlacementNumber(0));
  fs::create_directories(dir.path() + "/step-00000021");       // no manifest
  fs::create_directories(dir.path() + "/step-00000300");       // nor here
  fs::create_directories(dir.path() + "/step-999999999.tmp");  // not renamed
  dir.Write("step-notes", "");
  dir.Write("step-00000400", "");
  std::string skipped = "?";
  CHECK(*LatestCheckpoint(dir.path(), &skipped) == dir.path() + "/step-100000000");
  CHECK(skipped.empty());  // what is not complete comes before
  fs::remove_all(dir.path() + "/step-100000000");
  CHECK(*LatestCheckpoint(dir.path()) == dir.path() + "/step-00000020");
  CHECK(*LatestCheckpoint(dir.path(), &skipped) == dir.path() + "/step-00000020");
  CHECK(skipped == dir.path() + "/step-00000300");
}

TEST_CASE("A damaged checkpoint is refused, by file and variable") {
  const TemporaryDirectory dir;
  const std::string folder = Save(dir.path(), 1, PlacementNumber(1));
  const std::string file = folder + "/rank-00001.bin";
  const std::string bytes = ReadFile(file);
  const auto error = [&](const std::string& content) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
    const absl::Status status = CheckpointReader::Open(folder).status();
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    return Message(status);
  };
  // Rank 1 holds rows 3 and 4 of w (168 bytes at 0), then elements 6 to 10 of b (20 bytes at 192).
  std::string flipped = bytes;
  flipped[100] ^= 1;
  CHECK(error(flipped) ==
        file +
            ": is damaged: variable w does not match its checksum; "
            "use another checkpoint (remove this folder to resume from the one before)");
  flipped = bytes;
  flipped[192] ^= 0x40;
  CHECK_THAT(error(flipped), Catch::Contains("variable b does not match"));
  CHECK(error(bytes.substr(0, 200)) == file +
                                           ": is cut short: variable b needs 20 bytes at 192, "
                                           "the file has 200; use another checkpoint (remove this "
                                           "folder to resume from the one before)");
  CHECK_THAT(error(""), Catch::Contains("variable w needs 168 bytes at 0, the file has 0"));
  fs::remove(file);
  const absl::Status missing = CheckpointReader::Open(folder).status();
  CHECK(Message(missing) == file +
                                ": is missing; it holds variable w; use another checkpoint (remove "
                                "this folder to resume from the one before)");
  std::ofstream(file, std::ios::binary) << bytes;
  CHECK(CheckpointReader::Open(folder).ok());

  fs::remove(folder + "/manifest.json");
  const absl::Status absent = CheckpointReader::Open(folder).status();
  CHECK(absent.code() == absl::StatusCode::kNotFound);
  CHECK_THAT(Message(absent), Catch::StartsWith(folder + ": no checkpoint"));
}

TEST_CASE("An empty graph, or empty facts of training, are told where they are read") {
  for (const std::string name : {"/graph.textproto", "/train.textproto"}) {
    const TemporaryDirectory dir;
    const std::string folder = Save(dir.path(), 1, PlacementNumber(1));
    std::ofstream(folder + name, std::ios::trunc).close();
    const absl::Status status = CheckpointReader::Open(folder).status();
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK(Message(status) == folder + name +
                                 ": is empty; use another checkpoint (remove this folder to resume "
                                 "from the one before)");
  }
}

TEST_CASE("A plan of another model is refused, with both sides") {
  const TemporaryDirectory dir;
  const std::string folder = Save(dir.path(), 1, PlacementNumber(1));
  const auto reader = *CheckpointReader::Open(folder);
  CHECK(reader->CheckVariables(TestPlan()).ok());
  CHECK(reader->CheckVariables(TestPlan({{"b", {11}}})).ok());

  proto::Plan other = TestPlan({{"w", {5, 7, 4}}});
  other.set_model("wide");
  CHECK(Message(reader->CheckVariables(other)) ==
        folder +
            ": holds model \"tiny\", the plan is for \"wide\": variable w is f32[5,7,3] there, "
            "f32[5,7,4] in the plan; use a checkpoint of the same model");
  CHECK_THAT(
      Message(reader->CheckVariables(TestPlan({{"w2", {5}}}))),
      Catch::Contains("holds another model, which is named \"tiny\", too: it has no variable "
                      "w2 f32[5]"));
  proto::Plan doubles = TestPlan();
  doubles.mutable_variable(1)->set_dtype(proto::F64);
  CHECK_THAT(Message(reader->CheckVariables(doubles)),
             Catch::Contains("variable b is f32[11] there, f64[11] in the plan"));

  const std::string name = "x";
  const Slice slice;
  const Dims dims;
  CHECK_FALSE(reader->Load({.name = &name, .dims = &dims, .slice = &slice}).ok());
}

TEST_CASE("CheckSameVariables: a plan that lacks variables of the checkpoint is refused") {
  const TemporaryDirectory dir;
  const std::string folder = Save(dir.path(), 1, PlacementNumber(1));
  const auto reader = *CheckpointReader::Open(folder);
  CHECK(reader->CheckSameVariables(TestPlan()).ok());
  CHECK(Message(reader->CheckSameVariables(TestPlan({{"s", {}}, {"w", {5, 7, 3}}}))) ==
        folder +
            ": holds another model, which is named \"tiny\", too: the plan has no variable "
            "b f32[11]; use a checkpoint of the same model");
  CHECK_THAT(Message(reader->CheckSameVariables(TestPlan({{"b", {11}}}))),
             Catch::Contains("the plan has no variable w f32[5,7,3] and 1 more; use"));
  // The other way round, too.
  CHECK_THAT(Message(reader->CheckSameVariables(
                 TestPlan({{"w", {5, 7, 3}}, {"b", {11}}, {"s", {}}, {"w2", {5}}}))),
             Catch::Contains("it has no variable w2 f32[5]"));
}

TEST_CASE("CheckpointWriter: mistakes") {
  const TemporaryDirectory dir;
  const std::string file = dir.Write("file", "");
  CHECK_THAT(Message(CheckpointWriter::Create(file, TestPlan(), {}).status()),
             Catch::StartsWith(file + ": cannot be written to"));
  auto writer = *CheckpointWriter::Create(dir.path(), TestPlan(), {});
  const std::string name = "no";
  const Dims dims = {1};
  const Slice slice = {{0}, {1}};
  Piece piece = {.name = &name, .dims = &dims, .slice = &slice};
  CHECK(writer->Write(piece).code() == absl::StatusCode::kInternal);
  piece.name = &kVariables[0].name;
  CHECK(writer->Write(piece).code() == absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace oneflow
