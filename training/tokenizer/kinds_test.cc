// Every kind of tokenizer.json that is read, against the ids of Hugging Face's tokenizers
// (testdata/make_kinds.py). tools/check_tokenizers compares more texts, and tells the ids.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/tokenizer/load_for_test.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

const std::string kData = "training/tokenizer/testdata/";

Json ReadJson(const std::string& name) { return Json::parse(*ReadFile(kData + name)); }

std::string WriteKind(const TemporaryDirectory& dir, const Json& kind) {
  Json json = ReadJson(kind["base"].get<std::string>());
  json.merge_patch(kind["patch"]);
  return dir.Write("t.json", JsonText(json));
}

Tokenizer LoadKind(const TemporaryDirectory& dir, const Json& kind, bool special) {
  return LoadTokenizer(WriteKind(dir, kind), {.special = special}).value();
}

// FNV-1a of 32 bits.
std::string HashText(const Ids& ids) {
  uint32_t hash = 0x811c9dc5;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<uint32_t>(id) >> shift & 0xff)) * 0x01000193;
    }
  }
  return absl::StrFormat("%08x", hash);
}

// A text is split where the tokenizer says, from its end on; returns how many splits there are.
int CheckSplits(const Tokenizer& tokenizer, const std::string& text) {
  const Ids all = Encode(tokenizer, text);
  int splits = 0;
  for (size_t limit = text.size(); limit > 0;) {
    const size_t at = tokenizer.find_split(text, limit);
    REQUIRE(at <= limit);
    if (at == 0) break;
    Ids ids = Encode(tokenizer, std::string_view(text).substr(0, at));
    tokenizer.encode(std::string_view(text).substr(at), &ids);
    INFO(text << " at " << at);
    REQUIRE(ids == all);
    splits += at < text.size() ? 1 : 0;
    limit = at - 1;
  }
  return splits;
}

// Kinds that put something before every text: it is split after lines, as sentencepiece does.
bool SplitsAtLines(const Json& kind) {
  return kind["name"] == "llama2" || kind["name"] == "mistral";
}

}  // namespace

TEST_CASE("the ids of every kind are those of the library, with and without special tokens") {
  const Json expected = ReadJson("expected_kinds.json");
  CHECK(expected["library"] == "tokenizers 0.23.3");
  const auto texts = expected["texts"].get<std::vector<std::string>>();
  CHECK(expected["kinds"].size() >= 30);
  for (const Json& kind : expected["kinds"]) {
    const TemporaryDirectory dir;
    const auto hashes = kind["hashes"].get<std::string>();
    REQUIRE(hashes.size() == 2 * 8 * texts.size());
    for (const bool special : {false, true}) {
      const Tokenizer tokenizer = LoadKind(dir, kind, special);
      for (size_t i = 0; i < texts.size(); ++i) {
        INFO(kind["name"] << " special " << special << " " << Json(texts[i]));
        const size_t at = 8 * (i + (special ? texts.size() : 0));
        REQUIRE(HashText(Encode(tokenizer, texts[i])) == hashes.substr(at, 8));
      }
    }
  }
}

TEST_CASE("texts of every kind may be split where the tokenizer says") {
  const Json expected = ReadJson("expected_kinds.json");
  int kinds = 0, all = 0;
  for (const Json& kind : expected["kinds"]) {
    if (SplitsAtLines(kind)) continue;
    const TemporaryDirectory dir;
    const Tokenizer tokenizer = LoadKind(dir, kind, kinds % 2 == 0);
    int splits = 0;
    for (size_t i = 0; i < 60; ++i) {
      splits += CheckSplits(tokenizer, expected["texts"][i].get<std::string>());
    }
    INFO(kind["name"]);
    CHECK(splits > 0);
    all += splits;
    ++kinds;
  }
  CHECK(kinds >= 28);
  CHECK(all > 5000);
}

TEST_CASE("a text of a few lines has a split in every kind") {
  const Json expected = ReadJson("expected_kinds.json");
  std::string text;
  for (int i = 0; i < 40; ++i) text += "def f(x):\n    return x + 12  # the program, (again)\n\n";
  for (const Json& kind : expected["kinds"]) {
    const TemporaryDirectory dir;
    const Tokenizer tokenizer = LoadKind(dir, kind, false);
    const size_t at = tokenizer.find_split(text, text.size() / 2);
    INFO(kind["name"]);
    CHECK(at + 200 > text.size() / 2);
  }
}

TEST_CASE("bytes that are no UTF-8 are encoded, and come back where bytes are tokens") {
  const Json expected = ReadJson("expected_kinds.json");
  const std::string text = "a\xff\xc3 b\xe4\xb8 \xf0\x9f\x99 12\x80'\xc0ll\n\xed\xa0\x80";
  int back = 0;
  for (const Json& kind : expected["kinds"]) {
    const TemporaryDirectory dir;
    const Tokenizer tokenizer = LoadKind(dir, kind, false);
    std::string bytes;
    for (const int32_t id : Encode(tokenizer, text)) bytes += tokenizer.bytes(id);
    back += bytes == text ? 1 : 0;
    CheckSplits(tokenizer, kind["name"] == "llama2" || kind["name"] == "mistral" ? "" : text);
  }
  CHECK(back >= 18);
}

TEST_CASE("special tokens are known by their texts, and do not change what a tokenizer is") {
  const Json expected = ReadJson("expected_kinds.json");
  for (const Json& kind : expected["kinds"]) {
    const TemporaryDirectory dir;
    const Tokenizer plain = LoadKind(dir, kind, false), special = LoadKind(dir, kind, true);
    CHECK(plain.id == special.id);
    CHECK(plain.special == special.special);
    const int32_t start = special.special.at("<|im_start|>");
    CHECK(Encode(special, "<|im_start|>").back() == start);
    CHECK(Encode(plain, "<|im_start|>").back() != start);
    CHECK_FALSE(special.special.contains("user"));  // added, not special
  }
}

TEST_CASE("steps and patterns that are not supported are refused by name") {
  const TemporaryDirectory dir;
  const Json base = ReadJson("llama3.json");
  const auto refused = [&](const Json& patch) {
    Json json = base;
    json.merge_patch(patch);
    const auto tokenizer = LoadTokenizer(dir.Write("t.json", JsonText(json)));
    REQUIRE_FALSE(tokenizer.ok());
    return std::string(tokenizer.status().message());
  };
  const auto pattern = [&](const std::string& regex) {
    return refused({{"pre_tokenizer",
                     {{"type", "Split"},
                      {"pattern", {{"Regex", regex}}},
                      {"behavior", "Isolated"},
                      {"invert", false}}}});
  };
  using Catch::Contains;
  CHECK_THAT(pattern("(a)\\1"),
             Contains("pattern {\"Regex\":\"(a)\\\\1\"} is not supported: \"\\1\""));
  CHECK_THAT(pattern("\\p{Klingon}"), Contains("the property \"Klingon\" is not known"));
  CHECK_THAT(pattern("[[:odd:]]"), Contains("the class [:odd:] is not known"));
  CHECK_THAT(pattern("(?<=a+)b"), Contains("looks behind by characters whose number varies"));
  CHECK_THAT(pattern("(?i:ss)"), Contains("finds \"ss\" in any case"));
  CHECK_THAT(pattern("(?i:ß)"), Contains("that has several letters in another"));
  CHECK_THAT(pattern("(?x) a"), Contains("a flag that is not supported"));
  CHECK_THAT(pattern("(?~a)"), Contains("the group \"(?~a\" is not supported"));
  CHECK_THAT(pattern("(a"), Contains("a \"(\" has no \")\""));
  CHECK_THAT(pattern("a)"), Contains("a \")\" has no \"(\""));
  CHECK_THAT(pattern("[a"), Contains("a \"[\" has no \"]\""));
  CHECK_THAT(pattern("*a"), Contains("a quantifier has nothing before it"));
  CHECK_THAT(pattern("a{2000}"), Contains("an interval is out of range"));
  CHECK_THAT(pattern("((a{900}){900}){9}"), Contains("its repetitions are too many"));
  CHECK_THAT(pattern("[b-a]"), Contains("a class has a range that does not end"));
  CHECK_THAT(pattern("[\\d-z]"), Contains("a class has a range that does not begin"));
  CHECK_THAT(pattern("a\\"), Contains("it ends in \"\\\""));
  CHECK_THAT(pattern("\\x{110000}"), Contains("a character is out of range"));
  CHECK_THAT(pattern("\\x{}"), Contains("an escape has no digits"));
  CHECK_THAT(refused({{"pre_tokenizer", {{"type", "UnicodeScripts"}}}}),
             Contains("its pre-tokenizer has the step \"UnicodeScripts\""));
  CHECK_THAT(refused({{"normalizer", {{"type", "Precompiled"}}}}),
             Contains("its normalizer has the step \"Precompiled\""));
  CHECK_THAT(refused({{"pre_tokenizer", {{"type", "Digits"}}}, {"decoder", {{"type", "CTC"}}}}),
             Contains("its decoder has the step \"CTC\""));
  CHECK_THAT(refused({{"pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Odd"}}}}),
             Contains("is not what its type says"));
  CHECK_THAT(refused({{"normalizer", {{"type", "Replace"}}}}),
             Contains("is not what its type says"));
  CHECK_THAT(refused({{"model", {{"dropout", 0.1}}}}), Contains("its model sets dropout"));
  CHECK_THAT(refused({{"model", {{"type", "WordPiece"}}}}), Contains("its model is \"WordPiece\""));
}

}  // namespace oneflow
