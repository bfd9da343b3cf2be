#include "actor_runtime/tokenizer/tokenizer_files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "actor_runtime/data/temporary_directory.h"
#include "actor_runtime/tokenizer/load_for_test.h"
#include "oneflow_core/base/file.h"

namespace oneflow {
namespace {

const std::string kData = "actor_runtime/tokenizer/testdata";

TokenizerFiles ReadFiles(const std::string& spec, const Tokenizer& tokenizer) {
  auto files = ReadTokenizerFiles(spec, tokenizer.id, tokenizer.stops);
  INFO(files.status().ToString());
  REQUIRE(files.ok());
  return *std::move(files);
}

std::string NamesIn(const std::string& folder) {
  std::string names;
  for (const char* name :
       {"merges.txt", "other", "tokenizer.json", "tokenizer.model", "vocab.json"}) {
    if (std::filesystem::exists(folder + "/" + name)) names += std::string(name) + " ";
  }
  return names;
}

}  // namespace

TEST_CASE("a tokenizer of each kind is the same after its files were written to a folder") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/data/tokenizer";
  for (const auto& [spec, names] :
       {std::pair<std::string, std::string>{"gpt2:" + kData, "merges.txt vocab.json "},
        {kData + "/llama3.json", "tokenizer.json "},
        {kData + "/bpe.model", "tokenizer.model "},
        {"gpt2:" + kData, "merges.txt vocab.json "}}) {
    INFO(spec);
    const Tokenizer before = Load(spec);
    const TokenizerFiles files = ReadFiles(spec, before);
    REQUIRE(WriteTokenizerFiles(files, folder).ok());
    CHECK(NamesIn(folder) == names);  // none of the tokenizer that was there before
    const Tokenizer after = Load(TokenizerSpecIn(folder));
    CHECK(after.id.SameAs(before.id));
    CHECK(after.stops == before.stops);
    CHECK(Encode(after, "the program") == Encode(before, "the program"));
    CHECK(ReadFiles(TokenizerSpecIn(folder), before) == files);
  }
}

TEST_CASE("a tokenizer of bytes has no files, and other files of a folder stay") {
  const TemporaryDirectory dir;
  const TokenizerFiles bytes = ReadFiles("bytes", Load("bytes"));
  CHECK(bytes.files.empty());
  CHECK(bytes.id == BytesTokenizerId());
  const std::string folder = dir.path() + "/tokenizer";
  REQUIRE(WriteTokenizerFiles(bytes, folder).ok());
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK(TokenizerSpecIn(folder).empty());
  REQUIRE(WriteTokenizerFiles(ReadFiles("gpt2:" + kData, Load("gpt2:" + kData)), folder).ok());
  REQUIRE(WriteFile(folder + "/other", "x").ok());
  REQUIRE(WriteTokenizerFiles(bytes, folder).ok());
  CHECK(NamesIn(folder) == "other ");
  std::filesystem::remove(folder + "/other");
  REQUIRE(WriteTokenizerFiles(bytes, folder).ok());
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("files of a tokenizer that cannot be read or written") {
  const TemporaryDirectory dir;
  const auto absent = ReadTokenizerFiles("gpt2:" + dir.path(), {"a", "b"}, {});
  REQUIRE_FALSE(absent.ok());
  CHECK_THAT(std::string(absent.status().message()),
             Catch::Contains("vocab.json: cannot be read") &&
                 Catch::Contains("it is a file of the tokenizer"));
  const std::string file = dir.Write("file", "x");
  const absl::Status written =
      WriteTokenizerFiles({{"a", "b"}, {}, {{"tokenizer.json", "{}"}}}, file + "/tokenizer");
  CHECK_THAT(std::string(written.message()), Catch::Contains("tokenizer: cannot be made"));
}

}  // namespace oneflow
