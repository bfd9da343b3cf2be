// The files that a checkpoint contains: of its tokenizer, and of an imported model.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "oneflow_core/base/temporary_directory.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/checkpoint_for_test.h"

namespace oneflow {
namespace {

TokenizerFiles Example() {
  return {{"gpt2:small", "0123456789abcdef"},
          {0, 7},
          {{"vocab.json", "{\"a\":0}"}, {"merges.txt", "a b\n"}}};
}

// The folder of a checkpoint with the tokenizer.
std::string SaveWith(const std::string& dir, const TokenizerFiles& files,
                     const ModelFiles& model_files = {}) {
  const Placement placement = PlacementNumber(0);
  REQUIRE(BeginAttempt(dir, 0).ok());
  const auto parts = WriteParts(dir, 3, placement, 1).value();
  const CheckpointInfo info = {.step = 3,
                               .seed = kSeed,
                               .tokenizer = files.id,
                               .tokenizer_files = std::make_shared<TokenizerFiles>(files),
                               .model_files = std::make_shared<ModelFiles>(model_files)};
  const std::string folder = CommitParts(dir, TestPlan(), info, {}, parts).value();
  EndAttempt(dir, 0);
  return folder;
}

}  // namespace

TEST_CASE("Checkpoint tokenizer: what was saved is read, byte for byte") {
  const TemporaryDirectory dir;
  const std::string folder = SaveWith(dir.path(), Example());
  const auto reader = CheckpointReader::Open(folder).value();
  REQUIRE(reader->tokenizer_files() != nullptr);
  CHECK(*reader->tokenizer_files() == Example());
  CHECK(reader->tokenizer() == Example().id);
  CHECK(TokenizerSpecIn(folder) == "gpt2:" + folder);
  CHECK(ReadFile(folder + "/merges.txt") == "a b\n");
  CheckLoads(*reader, PlacementNumber(0));
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

TEST_CASE("Checkpoint model files: what was saved is read, and verified") {
  const TemporaryDirectory dir;
  const ModelFiles files = {
      {"config.json", "{}"},       {"additional_chat_templates/tools.jinja", "{{ tools }}"},
      {"README.md", ""},           {"manifest.json", "of another program"},
      {"vocab.json", "{\"a\":0}"}, {"merges.txt", "others"}};
  const std::string folder = SaveWith(dir.path(), Example(), files);
  const auto reader = CheckpointReader::Open(folder).value();
  REQUIRE(reader->model_files() != nullptr);
  CHECK(*reader->model_files() == files);
  CheckLoads(*reader, PlacementNumber(0));
  // The tokenizer's are stored once.
  CHECK_FALSE(std::filesystem::exists(folder + "/model/vocab.json"));
  CHECK(ReadFile(folder + "/merges.txt") == "a b\n");
  CHECK(ReadFile(folder + "/model/merges.txt") == "others");
  for (const ModelFile& file : files) {
    if (file.bytes.empty() || file.name == "vocab.json") continue;
    std::string path = folder + "/model/" + file.name;
    std::string bytes = file.bytes;
    ++bytes.back();
    std::ofstream(path) << bytes;
    const absl::Status damaged = CheckpointReader::Open(folder).status();
    CHECK(damaged.code() == absl::StatusCode::kDataLoss);
    CHECK_THAT(Message(damaged), Catch::StartsWith(path + ": is damaged: bytes 0 to"));
    std::filesystem::remove(path);
    CHECK(Message(CheckpointReader::Open(folder).status()) ==
          path + ": is missing; it holds a file of the imported model; use another checkpoint");
    std::ofstream(path) << file.bytes;
  }
  CHECK(CheckpointReader::Open(folder).ok());
}

}  // namespace oneflow
