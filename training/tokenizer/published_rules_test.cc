// Vocabularies with the rules of published models: testdata/make_published_rules.py. The expected
// ids are those of Hugging Face's tokenizers 0.23.3.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/tokenizer/load_for_test.h"
#include "training/tokenizer/normal_form.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

const std::string kData = "training/tokenizer/testdata/";

Json ReadJson(const std::string& path) { return Json::parse(*ReadFile(path)); }

// The tokenizer that `expected` is about: its base, changed by its patch.
Tokenizer LoadVariant(const TemporaryDirectory& dir, const Json& expected) {
  Json json = ReadJson(kData + expected["base"].get<std::string>());
  json.merge_patch(expected["patch"]);
  return Load(dir.Write("t.json", JsonText(json)));
}

std::string Decode(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const int32_t id : ids) text += tokenizer.bytes(id);
  return text;
}

// The folder of the expected ids; a comparison by hand of more texts may name another.
std::string ExpectedPath(const std::string& name) {
  const char* folder = std::getenv("EXPECTED_IDS");
  return (folder == nullptr ? kData : std::string(folder) + "/") + "expected_" + name + ".json";
}

}  // namespace

TEST_CASE("the ids of texts are those of the library, under the rules of each model") {
  for (const char* name : {"llama3", "qwen2", "llama2", "mistral", "no_space", "chatml",
                           "chatml_first", "chatml_always", "chatml_no_space", "strips",
                           "strips_pieces", "space_in_front", "wrapped", "wrapped_pieces"}) {
    const Json expected = ReadJson(ExpectedPath(name));
    CHECK(expected["library"] == "tokenizers 0.23.3");
    const TemporaryDirectory dir;
    const Tokenizer tokenizer = LoadVariant(dir, expected);
    REQUIRE(expected["cases"].size() > 75);
    for (const Json& one : expected["cases"]) {
      INFO(name << " " << one["text"]);
      REQUIRE(Encode(tokenizer, one["text"].get<std::string>()) == one["ids"].get<Ids>());
    }
  }
}

TEST_CASE("decoding gives the text back: as it was, composed, or with a space in front") {
  for (const char* name : {"llama3", "qwen2", "llama2", "no_space"}) {
    const Json expected = ReadJson(ExpectedPath(name));
    const TemporaryDirectory dir;
    const Tokenizer tokenizer = LoadVariant(dir, expected);
    for (const Json& one : expected["cases"]) {
      const auto text = one["text"].get<std::string>();
      std::string wanted = text;
      if (name == std::string("qwen2")) wanted = ComposeNfc(text);
      if (name == std::string("llama2") && !text.empty()) wanted = " " + text;
      if (wanted.find("\u2581") != std::string::npos) continue;  // becomes a space
      INFO(name << " " << text);
      REQUIRE(Decode(tokenizer, Encode(tokenizer, text)) == wanted);
    }
    // Bytes that are no UTF-8 stay.
    const std::string odd = name == std::string("llama2") ? " a\xff b\xe4\xb8" : "a\xff b\xe4\xb8";
    CHECK(Decode(tokenizer, Encode(tokenizer, "a\xff b\xe4\xb8")) == odd);
  }
}

TEST_CASE("a text may be split where the tokenizer says") {
  for (const char* name : {"llama3", "qwen2", "space_in_front", "strips"}) {
    const Json expected = ReadJson(ExpectedPath(name));
    const TemporaryDirectory dir;
    const Tokenizer tokenizer = LoadVariant(dir, expected);
    int splits = 0;
    for (size_t i = 0; i < std::min<size_t>(expected["cases"].size(), 200); ++i) {
      const auto text = expected["cases"][i]["text"].get<std::string>();
      for (size_t limit = 1; limit <= text.size(); ++limit) {
        const size_t at = tokenizer.find_split(text, limit);
        REQUIRE(at <= limit);
        Ids ids = Encode(tokenizer, std::string_view(text).substr(0, at));
        tokenizer.encode(std::string_view(text).substr(at), &ids);
        INFO(name << " " << text << " at " << at);
        REQUIRE(ids == expected["cases"][i]["ids"].get<Ids>());
        splits += at > 0 && at < text.size() ? 1 : 0;
      }
    }
    CHECK(splits > 150);
  }
}

TEST_CASE("by the rules of sentencepiece, a text is split after a line") {
  const Tokenizer tokenizer = Load(kData + "llama2.json");
  CHECK(tokenizer.find_split("one two\nthree", 10) == 8);
  CHECK(tokenizer.find_split("one two\nthree", 7) == 0);
  CHECK(tokenizer.find_split("one", 0) == 0);
}

TEST_CASE("a word that is a token becomes it where merges are ignored, else what merges make") {
  const Tokenizer llama3 = Load(kData + "llama3.json");
  CHECK(Encode(llama3, " unreachable") == Ids{800});
  CHECK(Encode(llama3, "a909") == Ids{Encode(llama3, "a")[0], 802});
  const TemporaryDirectory dir;
  const Tokenizer qwen2 = LoadVariant(dir, ReadJson(kData + "expected_qwen2.json"));
  CHECK(Encode(qwen2, " unreachable").size() > 1);
}

TEST_CASE("a tokenizer knows where texts begin and end") {
  const Tokenizer llama3 = Load(kData + "llama3.json"), llama2 = Load(kData + "llama2.json");
  CHECK(llama3.begin == Ids{804});
  CHECK(llama3.end.empty());
  CHECK(llama3.end_of_text == 805);
  CHECK(llama3.stops == Ids{805, 806});
  CHECK(llama2.begin == Ids{1});
  CHECK(llama2.end_of_text == 2);
  CHECK(llama2.stops == Ids{2});
  const TemporaryDirectory dir;
  const Tokenizer qwen2 = LoadVariant(dir, ReadJson(kData + "expected_qwen2.json"));
  CHECK(qwen2.begin.empty());
  CHECK(qwen2.end_of_text == 804);
  CHECK(qwen2.stops == Ids{804, 806});
}

TEST_CASE("steps in sequences are the steps themselves") {
  for (const auto& [name, plain] : {std::pair("wrapped", "qwen2"), {"wrapped_pieces", "mistral"}}) {
    const TemporaryDirectory dir;
    const std::string hash =
        LoadVariant(dir, ReadJson(kData + "expected_" + name + ".json")).id.hash;
    CHECK(LoadVariant(dir, ReadJson(kData + "expected_" + plain + ".json")).id.hash == hash);
  }
}

TEST_CASE("the hash of a tokenizer covers its rules") {
  const Json base = ReadJson(kData + "llama3.json"), pieces = ReadJson(kData + "llama2.json");
  const TemporaryDirectory dir;
  std::vector<std::string> hashes;
  const auto add = [&](Json json, const Json& patch) {
    json.merge_patch(patch);
    hashes.push_back(Load(dir.Write("t.json", JsonText(json))).id.hash);
  };
  add(base, Json::object());
  add(base, {{"model", {{"ignore_merges", false}}}});
  add(base, {{"normalizer", {{"type", "NFC"}}}});
  add(base, {{"pre_tokenizer", ReadJson(kData + "expected_qwen2.json")["patch"]["pre_tokenizer"]}});
  add(base, {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}});
  add(pieces, Json::object());
  add(pieces, ReadJson(kData + "expected_mistral.json")["patch"]);
  add(pieces, ReadJson(kData + "expected_no_space.json")["patch"]);
  add(pieces, ReadJson(kData + "expected_chatml.json")["patch"]);
  add(pieces, ReadJson(kData + "expected_chatml_first.json")["patch"]);
  add(pieces, ReadJson(kData + "expected_chatml_always.json")["patch"]);
  add(base, ReadJson(kData + "expected_space_in_front.json")["patch"]);
  Json strips = ReadJson(kData + "expected_strips.json")["patch"];
  for (const char* key : {"single_word", "lstrip", "rstrip"}) {
    add(base, strips);
    for (Json& token : strips["added_tokens"]) token.erase(key);
  }
  add(base, strips);
  const size_t count = hashes.size();
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  CHECK(hashes.size() == count);
}

TEST_CASE("the composed form of a text") {
  CHECK(ComposeNfc("cafe\u0301") == "café");
  CHECK(ComposeNfc("plain") == "plain");
  CHECK(ComposeNfc("a\xff"
                   "e\u0301\xe4\xb8") == "a\xffé\xe4\xb8");
  CHECK(ComposeNfc("e\xff\u0301") == "e\xff\u0301");  // nothing composes across a stray byte
  CHECK(ComposeNfc("\u1112\u1161") == "\ud558");
  CHECK(ComposeNfc("").empty());
}

}  // namespace oneflow
