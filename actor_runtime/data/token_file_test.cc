#include "actor_runtime/data/token_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "actor_runtime/data/temporary_directory.h"
#include "actor_runtime/data/token_file_writer.h"
#include "oneflow_core/base/file.h"

namespace oneflow {
namespace {

using Ids = std::vector<int32_t>;

// Two documents.
std::string Write(const TemporaryDirectory& dir, TokenFormat format, int64_t vocab) {
  const std::string path = dir.path() + "/t.bin";
  auto out = TokenFileWriter::Create(path, format, vocab);
  REQUIRE(out.ok());
  REQUIRE(out->Append(Ids{1, 2, 513}).ok());
  out->EndDocument();
  REQUIRE(out->Append(Ids{4}).ok());
  REQUIRE(out->Append(Ids{5}).ok());
  REQUIRE(out->Finish().ok());
  CHECK(out->tokens() == 5);
  return path;
}

Ids ReadAll(const std::string& path, int token_bytes) {
  const auto file = OpenTokenFile(path);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  CHECK(file->token_bytes == token_bytes);
  Ids ids(file->tokens);
  file->Read(0, ids);
  return ids;
}

std::string Bytes(std::initializer_list<int> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

std::string Refused(const std::string& path) {
  return std::string(OpenTokenFile(path).status().message());
}

}  // namespace

TEST_CASE("nanoGPT: uint16, nothing else") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kNanoGpt, 1000);
  CHECK(*ReadFile(path) == Bytes({1, 0, 2, 0, 1, 2, 4, 0, 5, 0}));
  CHECK(ReadAll(path, 2) == Ids{1, 2, 513, 4, 5});
}

TEST_CASE("llm.c: 1024 bytes of header, then uint16") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kLlmc, 1000), bytes = *ReadFile(path);
  REQUIRE(bytes.size() == 1024 + 10);
  CHECK(bytes.substr(0, 16) == Bytes({0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(bytes.substr(1024, 6) == Bytes({1, 0, 2, 0, 1, 2}));
  CHECK(ReadAll(path, 2) == Ids{1, 2, 513, 4, 5});
}

TEST_CASE("Megatron: an index with sizes, offsets and documents beside the ids") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kMegatron, 1000);
  const std::string magic = "MMIDIDX";
  CHECK(*ReadFile(dir.path() + "/t.idx") ==
        magic + Bytes({0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8,                 // version, uint16
                       2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,  // counts
                       3, 0, 0, 0, 2, 0, 0, 0,                          // sizes
                       0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,  // offsets
                       0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,  // documents
                       2, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(ReadAll(path, 2) == Ids{1, 2, 513, 4, 5});
  CHECK(ReadAll(Write(dir, TokenFormat::kMegatron, 65499), 2).size() == 5);
  CHECK(ReadAll(Write(dir, TokenFormat::kMegatron, 65500), 4) == Ids{1, 2, 513, 4, 5});
}

TEST_CASE("nothing stays of an earlier file of the name") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kMegatron, 256);
  REQUIRE(std::filesystem::exists(dir.path() + "/t.idx"));
  Write(dir, TokenFormat::kLlmc, 256);
  CHECK(ReadAll(path, 2) == Ids{1, 2, 513, 4, 5});
  CHECK_FALSE(std::filesystem::exists(dir.path() + "/t.idx"));

  Write(dir, TokenFormat::kMegatron, 256);
  CHECK(RemoveTokenFile(path).ok());
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK(RemoveTokenFile(path).ok());  // nothing there
  std::filesystem::create_directory(path);
  CHECK_THAT(std::string(RemoveTokenFile(path).message()), Catch::Contains("cannot be removed"));
}

TEST_CASE("a writer leaves nothing behind unless it finishes") {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/t.bin";
  {
    auto out = TokenFileWriter::Create(path, TokenFormat::kNanoGpt, 256);
    REQUIRE(out.ok());
    REQUIRE(out->Append(Ids{1}).ok());
  }
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("what cannot be written is refused") {
  const TemporaryDirectory dir;
  const auto create = [&](const std::string& name, int64_t vocab) {
    const auto out = TokenFileWriter::Create(dir.path() + name, TokenFormat::kNanoGpt, vocab);
    return std::string(out.status().message());
  };
  CHECK_THAT(create("/t.bin", 65537), Catch::Contains("holds ids below 65536"));
  CHECK_THAT(create("/no/t.bin", 256), Catch::Contains("cannot be written: No such file"));
  CHECK(ParseTokenFormat("llmc").value() == TokenFormat::kLlmc);
  CHECK_THAT(std::string(ParseTokenFormat("gguf").status().message()),
             Catch::Contains("use nanogpt, llmc or megatron"));
}

TEST_CASE("damaged llm.c files are refused") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kLlmc, 1000);
  std::string bytes = *ReadFile(path);
  dir.Write("t.bin", bytes.substr(0, bytes.size() - 2));
  CHECK_THAT(Refused(path), Catch::Contains("its header says 5 tokens, the file holds 4"));
  bytes[4] = 7;
  dir.Write("t.bin", bytes);
  CHECK_THAT(Refused(path), Catch::Contains("llm.c tokens of version 7"));
}

TEST_CASE("damaged Megatron indices are refused") {
  const TemporaryDirectory dir;
  const std::string path = Write(dir, TokenFormat::kMegatron, 1000);
  const std::string good = *ReadFile(dir.path() + "/t.idx");
  const auto with = [&](size_t at, int value) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(value);
    dir.Write("t.idx", bytes);
    return Refused(path);
  };
  CHECK_THAT(with(0, 'X'), Catch::Contains("is no Megatron index"));
  CHECK_THAT(with(9, 2), Catch::Contains("has version 2"));
  CHECK_THAT(with(17, 5), Catch::Contains("ids are of type 5"));
  CHECK_THAT(with(18, 3), Catch::Contains("lists 3 sequences"));
  CHECK_THAT(with(25, 255), Catch::Contains("which its size does not fit"));
  CHECK_THAT(with(34, 2), Catch::Contains("sequence 1 does not follow"));
  CHECK_THAT(with(38, 3), Catch::Contains("describes 12 bytes, the .bin has 10"));
  dir.Write("t.idx", "short");
  CHECK_THAT(Refused(path), Catch::Contains("is no Megatron index"));
}

}  // namespace oneflow
