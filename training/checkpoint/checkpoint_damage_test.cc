// Files of a checkpoint that are not what was written: each byte counts, in each file.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/checkpoint_for_test.h"
#include "training/checkpoint/manifest.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr char kMend[] = "; use another checkpoint";

void Overwrite(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// Opens, verifies and loads; returns the first error.
absl::Status Read(const std::string& folder) {
  const auto reader = CheckpointReader::Open(folder);
  if (!reader.ok()) return reader.status();
  const absl::Status verified = (*reader)->Verify();
  const Placement full = PlacementNumber(0);
  // Full tensors use every block, so Load fails exactly when Verify does.
  CHECK(LoadRank(**reader, full, 0).ok() == verified.ok());
  return verified;
}

std::vector<std::string> ListFiles(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

void CheckEveryByte(const std::string& folder, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const std::string bytes = ReadFile(file);
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
      Overwrite(file, flipped);
      const std::string message = Message(Read(folder));
      INFO(file << ", byte " << i << ": " << message);
      CHECK(message.starts_with(file + ":"));
      if (file.ends_with(".bin")) CHECK_THAT(message, Catch::Contains(", block 0 of variable "));
    }
    Overwrite(file, bytes);
  }
  CHECK(Read(folder).ok());
}

TEST_CASE("Checkpoint damage: a flip in any byte of any file is refused, by file and block") {
  const TemporaryDirectory dir;
  const std::string folder = Save(dir.path(), 1, PlacementNumber(2));
  CHECK(ListFiles(folder).size() == 6);
  CheckEveryByte(folder, ListFiles(folder));
}

TEST_CASE("Checkpoint damage: a truncated, too long or missing file is refused, by file") {
  const TemporaryDirectory dir;
  const std::string folder = Save(dir.path(), 1, PlacementNumber(2));
  for (const std::string& file : ListFiles(folder)) {
    const std::string bytes = ReadFile(file);
    const auto refused = [&](const std::string& content) {
      Overwrite(file, content);
      INFO(file << " of " << content.size() << " bytes");
      CHECK_THAT(Message(Read(folder)), Catch::StartsWith(file + ":"));
    };
    refused("");
    refused(bytes.substr(0, bytes.size() / 2));
    refused(bytes.substr(0, bytes.size() - 1));
    refused(bytes + '\0');
    refused(bytes + '\n');
    refused(bytes + bytes);
    fs::remove(file);
    CHECK_THAT(Message(Read(folder)), Catch::StartsWith(folder));
    Overwrite(file, bytes);
  }
  CHECK(Read(folder).ok());
}

TEST_CASE("Checkpoint damage: what is said of it") {
  const TemporaryDirectory dir;
  const std::string folder = Save(dir.path(), 1, PlacementNumber(1));
  const auto error = [&](const std::string& file, const std::string& content) {
    const std::string path = folder + file, bytes = ReadFile(path);
    Overwrite(path, content);
    const absl::Status status = Read(folder);
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    Overwrite(path, bytes);
    CHECK_THAT(Message(status), Catch::StartsWith(path + ": "));
    return Message(status).substr(path.size() + 2);
  };
  // Rank 1 holds rows 3 and 4 of w (168 bytes at 0), then elements 6 to 10 of b (20 bytes at 192).
  const std::string bytes = ReadFile(folder + "/rank-00001.bin");
  std::string flipped = bytes;
  flipped[193] ^= 0x40;
  CHECK(error("/rank-00001.bin", flipped) ==
        std::string("is damaged: bytes 192 to 212, block 0 of variable b, do not match their "
                    "checksum") +
            kMend);
  CHECK(error("/rank-00001.bin", bytes.substr(0, 200)) ==
        std::string("is truncated: it has 200 bytes, and had 212 when it was written") + kMend);
  CHECK(error("/graph.textproto", "name: \"tin\"\n\n") ==
        std::string("is damaged: bytes 0 to 13, block 0 of the file, do not match their "
                    "checksum") +
            kMend);
  const auto size = fs::file_size(folder + "/train.textproto");
  CHECK(error("/train.textproto", "") == "is truncated: it has 0 bytes, and had " +
                                             std::to_string(size) + " when it was written" + kMend);
  CHECK_THAT(error("/manifest.json", ReadFile(folder + "/manifest.json") + " "),
             Catch::Contains("does not match its own checksum"));

  fs::remove(folder + "/rank-00001.bin");
  CHECK(Message(Read(folder)) ==
        folder + "/rank-00001.bin: is missing; it holds variable w" + kMend);
  fs::remove(folder + "/graph.textproto");
  CHECK_THAT(Message(Read(folder)),
             Catch::StartsWith(folder + "/graph.textproto: is missing; it holds what was trained"));
  fs::remove(folder + "/manifest.json");
  const absl::Status absent = Read(folder);
  CHECK(absent.code() == absl::StatusCode::kNotFound);
  CHECK_THAT(Message(absent), Catch::StartsWith(folder + ": no checkpoint"));
}

// One variable of four blocks: rows of 4 KiB, 1024 of them a block, the last block of 5 rows.
struct Large {
  const std::vector<TestVariable> variables = {{"large", {3077, 1024}}};
  std::string folder, file;

  explicit Large(const std::string& dir) {
    const proto::Plan plan = TestPlan(variables);
    REQUIRE(BeginAttempt(dir, 0).ok());
    auto writer = *CheckpointWriter::Create(dir, plan, {}, {});
    std::vector<float> values(3077 * 1024, 1);
    const Slice full{{0, 0}, variables[0].dims};
    REQUIRE(writer->Write(MakePiece(full, &values)).ok());
    folder = *CommitParts(dir, plan, {}, {}, std::vector{*writer->Finish()});
    file = folder + "/rank-00000.bin";
  }
  Piece MakePiece(const Slice& slice, std::vector<float>* values) const {
    values->resize(slice.elements(), 1);
    return {.name = &variables[0].name,
            .dims = &variables[0].dims,
            .slice = &slice,
            .data = reinterpret_cast<std::byte*>(values->data())};
  }
  absl::Status Load(const Slice& slice) const {
    std::vector<float> values;
    return (*CheckpointReader::Open(folder))->Load(MakePiece(slice, &values));
  }
};

TEST_CASE("Checkpoint damage: a slice is refused where a block is damaged that it is in") {
  const TemporaryDirectory dir;
  const Large large(dir.path());
  const Manifest manifest = *ParseManifest(ReadFile(large.folder + "/manifest.json"), "manifest");
  CHECK(manifest.variables[0].slices[0].run.checksums.size() == 4);
  {
    std::fstream file(large.file, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(2 * kBlockBytes + 5 * 4096);
    file.put('x');
  }
  const std::string refusal = large.file +
                              ": is damaged: bytes 8388608 to 12582912, block 2 of variable large, "
                              "do not match their checksum" +
                              kMend;
  CHECK(large.Load({{0, 0}, {2048, 1024}}).ok());  // blocks 0 and 1
  CHECK(large.Load({{2047, 1023}, {1, 1}}).ok());  // the last element of block 1
  CHECK(large.Load({{3072, 0}, {5, 1024}}).ok());  // block 3
  CHECK(large.Load({{0, 7}, {2048, 1}}).ok());     // a column of blocks 0 and 1
  CHECK(Message(large.Load({{2048, 0}, {1, 1}})) == refusal);
  CHECK(Message(large.Load({{2500, 0}, {1, 1024}})) == refusal);
  CHECK(Message(large.Load({{0, 0}, {3077, 1024}})) == refusal);
  CHECK(Message(large.Load({{0, 7}, {3077, 1}})) == refusal);
  CHECK(Message((*CheckpointReader::Open(large.folder))->Verify()) == refusal);
}

}  // namespace
}  // namespace oneflow
