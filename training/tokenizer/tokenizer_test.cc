// The expected ids are Hugging Face's: testdata/make_testdata.py.
#include "training/tokenizer/tokenizer.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "actor_runtime/random/random.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/tokenizer/load_for_test.h"

namespace oneflow {
namespace {

const std::string kData = "training/tokenizer/testdata";

std::string Decode(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += tokenizer.bytes(id);
  return text;
}

nlohmann::json ReadJson(const std::string& name) {
  return nlohmann::json::parse(*ReadFile(kData + "/" + name));
}

// Pieces of characters of every length, and bytes that belong to none.
std::string RandomText(const RandomStream& random, uint64_t index) {
  static const std::vector<std::string> parts = {
      "the", " ",    "\n",   "  ",       "'s", "'",  "7",  "é", "中",   "🙂",
      "ß",   "\xff", "\xe4", "\xf0\x9f", "!",  "\t", "Ab", "٣", "\xc2", "\u3000"};
  std::string text;
  const uint64_t base = index * 100, n = random.Below(base, 40);
  for (uint64_t i = 1; i <= n; ++i) text += parts[random.Below(base + i, parts.size())];
  return text;
}

std::string Refused(const std::string& spec) {
  const auto tokenizer = LoadTokenizer(spec);
  REQUIRE_FALSE(tokenizer.ok());
  return std::string(tokenizer.status().message());
}

}  // namespace

TEST_CASE("BPE gives the ids of the reference, from either kind of file") {
  const Tokenizer folder = Load("gpt2:" + kData), json = Load(kData + "/tokenizer.json");
  CHECK(folder.vocab == 700);
  CHECK(folder.end_of_text == 0);
  CHECK(json.end_of_text == 0);
  for (const nlohmann::json& expected : ReadJson("expected.json")) {
    const auto text = expected["text"].get<std::string>();
    INFO(text);
    const std::vector<int32_t> ids = Encode(folder, text);
    CHECK(ids == expected["ids"].get<std::vector<int32_t>>());
    CHECK(Encode(json, text) == ids);
  }
}

TEST_CASE("decoding gives the text back, also what is no UTF-8") {
  const RandomStream random(3, "texts");
  for (const std::string& spec : {std::string("bytes"), "gpt2:" + kData}) {
    const Tokenizer tokenizer = Load(spec);
    for (uint64_t i = 0; i < 500; ++i) {
      const std::string text = RandomText(random, i);
      REQUIRE(Decode(tokenizer, Encode(tokenizer, text)) == text);
    }
  }
}

TEST_CASE("text may be split at a tokenizer's positions") {
  const RandomStream random(4, "texts");
  const Tokenizer tokenizer = Load("gpt2:" + kData);
  int splits = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    const std::string text = RandomText(random, i);
    const size_t at = tokenizer.find_split(text, text.size() / 2);
    REQUIRE(at <= text.size() / 2);
    splits += at > 0 ? 1 : 0;
    std::vector<int32_t> ids = Encode(tokenizer, std::string_view(text).substr(0, at));
    tokenizer.encode(std::string_view(text).substr(at), &ids);
    REQUIRE(ids == Encode(tokenizer, text));
  }
  CHECK(splits > 100);
}

TEST_CASE("a special token in a text is text") {
  const Tokenizer tokenizer = Load("gpt2:" + kData);
  CHECK(Encode(tokenizer, "<|endoftext|>").size() > 1);
  CHECK(tokenizer.bytes(0) == "<|endoftext|>");
}

TEST_CASE("unreadable files are refused by name") {
  CHECK_THAT(Refused("gpt3"), Catch::Contains("--tokenizer=gpt3: is not known; use bytes"));
  CHECK_THAT(Refused("gpt2:absent"), Catch::Contains("absent/vocab.json: cannot be read"));
  CHECK_THAT(Refused("absent.json"), Catch::Contains("absent.json: cannot be read"));
  const TemporaryDirectory dir;
  const std::string folder = "gpt2:" + dir.path();
  dir.Write("vocab.json", "{\"a\": 0");
  CHECK_THAT(Refused(folder), Catch::Contains("is not a JSON object"));
  dir.Write("vocab.json", R"({"a": "b"})");
  CHECK_THAT(Refused(folder), Catch::Contains("token \"a\" is not a whole number"));
  dir.Write("vocab.json", R"({"a": 0, "b": 0})");
  CHECK_THAT(Refused(folder), Catch::Contains("merges.txt: cannot be read"));
  dir.Write("merges.txt", "#version: 0.2\n");
  CHECK_THAT(Refused(folder), Catch::Contains("token \"b\" has id 0, as \"a\" has"));
  dir.Write("vocab.json", R"({"a": -1})");
  CHECK_THAT(Refused(folder), Catch::Contains("id -1, which is out of range"));
  dir.Write("vocab.json", R"({"a": 0})");
  CHECK_THAT(Refused(folder), Catch::Contains("has no token for byte 0x00"));
  dir.Write("vocab.json", *ReadFile(kData + "/vocab.json"));
  dir.Write("merges.txt", "Ġ t h\n");
  CHECK_THAT(Refused(folder), Catch::Contains("merge \"Ġ t h\" is not two tokens"));
  dir.Write("added_tokens.json", R"({"    ": 700, "<pad>": 701})");
  CHECK_THAT(Refused(folder), Catch::Contains("added_tokens.json: adds 2 tokens to vocab.json"));
  dir.Write("added_tokens.json", "{}");
  dir.Write("merges.txt", "x qq\n");
  CHECK_THAT(Refused(folder), Catch::Contains("the vocabulary has no \"qq\""));
}

TEST_CASE("a tokenizer.json that does something else is refused by what it does") {
  const TemporaryDirectory dir;
  const auto refused = [&](auto change) {
    nlohmann::json json = ReadJson("tokenizer.json");
    change(json);
    return Refused(dir.Write("t.json", JsonText(json)));
  };
  CHECK_THAT(refused([](auto& j) { j["model"]["type"] = "Unigram"; }),
             Catch::Contains("its model is \"Unigram\""));
  CHECK_THAT(refused([](auto& j) {
               j["normalizer"] = {{"type", "Nmt"}};
             }),
             Catch::Contains("its normalizer has the step \"Nmt\""));
  CHECK_THAT(refused([](auto& j) {
               j["pre_tokenizer"] = {{"type", "FixedLength"}};
             }),
             Catch::Contains("its pre-tokenizer has the step \"FixedLength\""));
  CHECK_THAT(refused([](auto& j) { j["model"]["vocab"] = 3; }), Catch::Contains("no vocabulary"));
  CHECK_THAT(refused([](auto& j) { j["model"]["merges"][0] = 3; }),
             Catch::Contains("merge 3 is not a pair"));
  CHECK_THAT(refused([](auto& j) { j["added_tokens"][0].erase("id"); }),
             Catch::Contains("has no id and content"));
}

}  // namespace oneflow
