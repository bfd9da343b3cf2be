// The tokenizer that a checkpoint contains.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "actor_runtime/checkpoint/checkpoint.h"
#include "actor_runtime/checkpoint/checkpoint_for_test.h"
#include "actor_runtime/data/temporary_directory.h"

namespace oneflow {
namespace {

TokenizerFiles Example() {
  return {{"gpt2:small", "0123456789abcdef"},
          {0, 7},
          {{"vocab.json", "{\"a\":0}"}, {"merges.txt", "a b\n"}}};
}

// The folder of a checkpoint with the tokenizer.
std::string SaveWith(const std::string& dir, const TokenizerFiles& files) {
  const Placement placement = PlacementNumber(0);
  REQUIRE(BeginAttempt(dir, 0).ok());
  const auto parts = WriteParts(dir, 3, placement, 1);
  REQUIRE(parts.ok());
  const CheckpointInfo info = {.step = 3,
                               .seed = kSeed,
                               .tokenizer = files.id,
                               .tokenizer_files = std::make_shared<TokenizerFiles>(files)};
  const absl::StatusOr<std::string> folder = CommitParts(dir, TestPlan(), info, {}, *parts);
  INFO(folder.status());
  REQUIRE(folder.ok());
  EndAttempt(dir, 0);
  return *folder;
}

}  // namespace

TEST_CASE("Checkpoint tokenizer: what was saved is read, byte for byte") {
  const TemporaryDirectory dir;
  const std::string folder = SaveWith(dir.path(), Example());
  const auto reader = CheckpointReader::Open(folder);
  INFO(reader.status());
  REQUIRE(reader.ok());
  REQUIRE((*reader)->tokenizer_files() != nullptr);
  CHECK(*(*reader)->tokenizer_files() == Example());
  CHECK((*reader)->tokenizer() == Example().id);
  CHECK(TokenizerSpecIn(folder) == "gpt2:" + folder);
  CHECK(ReadFile(folder + "/merges.txt") == "a b\n");
  CheckLoads(**reader, PlacementNumber(0));
}

TEST_CASE("Checkpoint tokenizer: none where no files are known") {
  const TemporaryDirectory dir;
  TokenizerFiles bytes = {BytesTokenizerId(), {}, {}};
  const std::string folder = SaveWith(dir.path() + "/a", bytes);
  CHECK((*CheckpointReader::Open(folder))->tokenizer_files() == nullptr);
  CHECK((*CheckpointReader::Open(folder))->tokenizer() == bytes.id);
  CHECK_THAT(ReadFile(folder + "/manifest.json"),
             Catch::Contains("{\"name\":\"bytes\",\"hash\":\"0000000000000100\"},\n"));
}

TEST_CASE("Checkpoint tokenizer: damage is found when the checkpoint is opened") {
  const TemporaryDirectory dir;
  const std::string folder = SaveWith(dir.path(), Example());
  const std::string path = folder + "/vocab.json";
  std::ofstream(path) << "{\"b\":0}";
  const absl::Status damaged = CheckpointReader::Open(folder).status();
  CHECK(damaged.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(Message(damaged), Catch::StartsWith(path + ": is damaged: bytes 0 to 7, block 0"));
  std::filesystem::remove(path);
  const absl::Status missing = CheckpointReader::Open(folder).status();
  CHECK(missing.code() == absl::StatusCode::kDataLoss);
  CHECK(Message(missing) ==
        path + ": is missing; it holds the tokenizer of its data; use another checkpoint");
}

}  // namespace oneflow
