#include "training/checkpoint/checkpoint.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "training/checkpoint/checkpoint_for_test.h"
#include "training/checkpoint/manifest.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

TEST_CASE("Any placement loads what any other has saved") {
  const TemporaryDirectory dir;
  for (int from = 0; from < 5; ++from) {
    const std::string folder = Save(dir.path(), from, PlacementNumber(from));
    const auto reader = *CheckpointReader::Open(folder);
    for (int to = 0; to < 5; ++to) CheckLoads(*reader, PlacementNumber(to));
  }
}

// The checksum of a manifest from its variables on, which contains those of all slices.
std::string SumOfSlices(const std::string& manifest) {
  const size_t begin = manifest.find("\n\"variables\"");
  const std::string slices = manifest.substr(begin, manifest.rfind("\n\"xxh3\"") - begin);
  return Checksum(std::as_bytes(std::span(slices)));
}

TEST_CASE("However many processes save, the bytes are those of one") {
  const TemporaryDirectory dir;
  // The sums of checkpoints by a release that knew one process only.
  const std::vector<std::string> sums = {"aeaa76869a02d96c", "35557d203036e6ec", "a971b12116280cb2",
                                         "faacdfc41a2286b2", "bacebc30c9ab152b"};
  int compared = 0;
  for (int n = 0; n < 5; ++n) {
    const Placement placement = PlacementNumber(n);
    const std::string alone = Save(dir.path() + "/alone", n, placement);
    const std::string manifest = ReadFile(alone + "/manifest.json");
    CHECK(SumOfSlices(manifest) == sums[n]);
    CheckLoads(**CheckpointReader::Open(alone), PlacementNumber(0));
    for (const int processes : {2, 3, 4, 6, 8}) {
      if (placement.mesh.devices() % processes != 0) continue;
      const std::string many = Save(dir.path() + "/many", n, placement, processes);
      for (const auto& entry : fs::directory_iterator(alone)) {
        REQUIRE(ReadFile(entry.path()) == ReadFile(fs::path(many) / entry.path().filename()));
        ++compared;
      }
      CHECK(std::distance(fs::directory_iterator(many), {}) ==
            std::distance(fs::directory_iterator(alone), {}));
    }
  }
  CHECK(compared > 40);
}

TEST_CASE("A checkpoint knows where it comes from") {
  const TemporaryDirectory dir;
  const std::string folder = Save(dir.path() + "/a/b", 20, PlacementNumber(1));
  CHECK(folder == dir.path() + "/a/b/step-00000020");
  const auto reader = *CheckpointReader::Open(folder);
  CHECK(reader->step() == 20);
  CHECK(reader->seed() == 5);
  CHECK(reader->graph().name() == "tiny");
  CHECK(reader->recipe().batch() == 8);
  CHECK(reader->optimizer().learning_rate() == 0.1);
  CHECK(reader->mesh() == "1");
  CHECK(reader->tokens() == 0);

  proto::Plan plan = TestPlan({});
  *plan.mutable_mesh() = ToProto(*ParseMesh("pipe=2,data=8x4"));
  const CheckpointInfo info = {.step = 1, .tokens = 900};
  REQUIRE(BeginAttempt(dir.path(), 0).ok());
  auto writer = *CheckpointWriter::Create(dir.path(), plan, info, {});
  const std::vector<std::string> parts = {*writer->Finish()};
  const auto other = *CheckpointReader::Open(*CommitParts(dir.path(), plan, info, {}, parts));
  CHECK(other->mesh() == "pipe=2,data=8x4");
  CHECK(other->tokens() == 900);
}

TEST_CASE("Devices save at once; the manifest does not show who was first") {
  const TemporaryDirectory dir;
  const Placement placement = PlacementNumber(3);
  const std::string alone = Save(dir.path() + "/alone", 1, placement);
  const std::string top = dir.path() + "/together";
  REQUIRE(BeginAttempt(top, 0).ok());
  auto writer = *CheckpointWriter::Create(top, TestPlan(), {1, kSeed}, {});
  std::vector<absl::Status> statuses(placement.mesh.devices());
  std::vector<std::thread> threads;
  threads.reserve(statuses.size());
  for (int rank = 0; rank < placement.mesh.devices(); ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = WriteRank(*writer, placement, rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) CHECK(status.ok());
  const std::vector<std::string> parts = {*writer->Finish()};
  const std::string together = *CommitParts(top, TestPlan(), {1, kSeed}, {}, parts);
  CheckLoads(**CheckpointReader::Open(together), PlacementNumber(0));
  CHECK(ReadFile(alone + "/manifest.json") == ReadFile(together + "/manifest.json"));
}

TEST_CASE("A checkpoint is complete or absent") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/step-00000007";
  const std::string temporary = dir.path() + "/attempt-0.tmp/step-00000007";
  REQUIRE(BeginAttempt(dir.path(), 0).ok());
  {
    const CheckpointInfo info = {.step = 7};
    auto writer = *CheckpointWriter::Create(dir.path(), TestPlan(), info, {});
    REQUIRE(WriteRank(*writer, PlacementNumber(1), 0).ok());
    CHECK(fs::exists(temporary + "/rank-00000.bin"));
  }
  CHECK(fs::is_empty(temporary));
  {
    const CheckpointInfo info = {.step = 7};
    auto writer = *CheckpointWriter::Create(dir.path(), TestPlan(), info, {});
    REQUIRE(WriteRank(*writer, PlacementNumber(1), 0).ok());
    const std::vector<std::string> parts = {*writer->Finish()};
    const absl::Status half = CommitParts(dir.path(), TestPlan(), info, {}, parts).status();
    CHECK(Message(half) == "w: has 63 of 105 elements of [5,7,3]");
    CHECK_FALSE(fs::exists(folder));
  }
  CHECK(fs::exists(temporary));  // it was handed over
  EndAttempt(dir.path(), 0);
  CHECK(fs::is_empty(dir.path()));

  // Leftovers of a crash do no harm.
  for (const std::string left : {"attempt-0.tmp", "attempt-3.ended.tmp", "step-00000007.tmp"}) {
    fs::create_directories(dir.path() + "/" + left + "/step-00000007");
    dir.Write(left + "/rank-00009.bin", "half");
    dir.Write(left + "/step-00000007/rank-00009.bin", "half");
  }
  CHECK_FALSE(LatestCheckpoint(dir.path()).ok());
  Save(dir.path(), 7, PlacementNumber(1));
  CHECK_FALSE(fs::exists(folder + "/rank-00009.bin"));
  CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("Saving a step again replaces its checkpoint") {
  const TemporaryDirectory dir;
  Save(dir.path(), 7, PlacementNumber(1));
  const std::string folder = Save(dir.path(), 7, PlacementNumber(0));
  CHECK_FALSE(fs::exists(folder + "/rank-00001.bin"));
  CHECK_FALSE(fs::exists(dir.path() + "/attempt-0.tmp"));
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
  CHECK(skipped.empty());  // incomplete ones are older
  fs::remove_all(dir.path() + "/step-100000000");
  CHECK(*LatestCheckpoint(dir.path()) == dir.path() + "/step-00000020");
  CHECK(*LatestCheckpoint(dir.path(), &skipped) == dir.path() + "/step-00000020");
  CHECK(skipped == dir.path() + "/step-00000300");
}

TEST_CASE("ListCheckpoints: newest first, complete or not") {
  const TemporaryDirectory dir;
  CHECK(ListCheckpoints(dir.path() + "/no").status().code() == absl::StatusCode::kNotFound);
  CHECK(ListCheckpoints(dir.path())->empty());
  Save(dir.path(), 9, PlacementNumber(0));
  Save(dir.path(), 100000000, PlacementNumber(0));
  fs::create_directories(dir.path() + "/step-00000021");
  fs::create_directories(dir.path() + "/attempt-1.tmp/step-00000022");
  const auto all = *ListCheckpoints(dir.path());
  REQUIRE(all.size() == 3);
  CHECK((all[0].step == 100000000 && all[0].complete));
  CHECK((all[1].folder == dir.path() + "/step-00000021" && !all[1].complete));
  CHECK((all[2].step == 9 && all[2].complete));
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
  CHECK_THAT(Message(BeginAttempt(file, 0)), Catch::StartsWith(file + ": cannot be written to"));
  REQUIRE(BeginAttempt(dir.path(), 0).ok());
  const WriterOptions share = {.ranks = {0, 1}};
  auto writer = *CheckpointWriter::Create(dir.path(), TestPlan(), {}, share);
  const std::string name = "no";
  const Dims dims = {1};
  const Slice slice = {{0}, {1}};
  Piece piece = {.name = &name, .dims = &dims, .slice = &slice};
  CHECK(writer->Write(piece).code() == absl::StatusCode::kInternal);
  piece.name = &kVariables[0].name;
  CHECK(writer->Write(piece).code() == absl::StatusCode::kInternal);
  CHECK_THAT(Message(WriteRank(*writer, PlacementNumber(1), 1)),
             Catch::Contains("saved by rank 1, which is not of this process"));
}

}  // namespace
}  // namespace oneflow
