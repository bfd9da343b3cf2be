#include "tools/oneflow/model/encode_text_file.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

const std::string kData = "training/tokenizer/testdata/";

// A text of several blocks, each of about a megabyte.
std::string LongText() {
  std::string text;
  while (text.size() < (5 << 19)) {
    text += "the program of the café, 12345 and its text\n" + std::to_string(text.size()) + "  ";
  }
  return text;
}

std::vector<int32_t> ReadAll(const TokenFile& file) {
  std::vector<int32_t> ids(file.tokens);
  REQUIRE(file.Read(0, ids).ok());
  return ids;
}

}  // namespace

TEST_CASE("the ids of a text file, of two bytes or of four, with those around a document") {
  const TemporaryDirectory dir;
  const std::string text = LongText(), path = dir.Write("text.txt", text);
  for (const char* name : {"llama3.json", "tokenizer.json"}) {
    Tokenizer tokenizer = *LoadTokenizer(kData + name);
    std::vector<int32_t> expected = tokenizer.begin;
    tokenizer.encode(text, &expected);
    for (const int64_t vocab : {tokenizer.vocab, int64_t{100000}}) {
      tokenizer.vocab = vocab;
      const auto file = EncodeTextFile(path, tokenizer).value();
      CHECK(file.token_bytes == (vocab > 65536 ? 4 : 2));
      CHECK(file.tokenizer == tokenizer.id);
      CHECK(file.file.path() == path);
      CHECK(ReadAll(file) == expected);
    }
  }
}

TEST_CASE("a text of which nothing is made has no tokens") {
  const TemporaryDirectory dir;
  const Tokenizer tokenizer = *LoadTokenizer(kData + "llama3.json");
  CHECK(EncodeTextFile(dir.Write("empty.txt", ""), tokenizer)->tokens == 0);
  CHECK(EncodeTextFile(dir.path() + "/absent", tokenizer).status().code() ==
        absl::StatusCode::kNotFound);
}

TEST_CASE("tokens are kept in TMPDIR, under no name; one that takes none is named") {
  const TemporaryDirectory dir;
  const Tokenizer tokenizer = *LoadTokenizer(kData + "llama3.json");
  const std::string path = dir.Write("text.txt", "the program"), folder = dir.path() + "/temporary";
  const char* before = std::getenv("TMPDIR");
  const std::string saved = before == nullptr ? "" : before;
  setenv("TMPDIR", folder.c_str(), 1);
  const absl::Status absent = EncodeTextFile(path, tokenizer).status();
  CHECK_THAT(std::string(absent.message()),
             Catch::StartsWith(folder + ": cannot hold the tokens of " + path) &&
                 Catch::EndsWith("name another folder in TMPDIR, or make the tokens once, with "
                                 "`oneflow data`"));
  std::filesystem::create_directory(folder);
  const auto file = EncodeTextFile(path, tokenizer).value();
  CHECK(std::filesystem::is_empty(folder));
  CHECK(file.tokens > 1);
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", saved.c_str(), 1);
}

}  // namespace oneflow
