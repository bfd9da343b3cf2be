// Releases of the libraries differ in these ids. The tests follow the releases that
// testdata/make_library_ids.py was run with; each file names its library.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/temporary_directory.h"
#include "proto/sentencepiece.pb.h"
#include "training/tokenizer/load_for_test.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;
using Proto = proto::SentencePieceModel;

const std::string kData = "training/tokenizer/testdata/";

Json ReadJson(const std::string& name) { return Json::parse(*ReadFile(kData + name)); }

// [["the", 3], ...]
std::string JoinText(const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    for (int i = 0; i < part[1].get<int>(); ++i) text += part[0].get<std::string>();
  }
  return text;
}

// [[[5, 7], 3], ...]
Ids ReadIds(const Json& units) {
  Ids ids;
  for (const Json& unit : units) {
    for (int i = 0; i < unit[1].get<int>(); ++i) {
      for (const Json& id : unit[0]) ids.push_back(id.get<int32_t>());
    }
  }
  return ids;
}

// Fails at the first text whose ids are others; returns how many there are.
int CheckAll(const Tokenizer& tokenizer, const Json& expected) {
  int cases = 0;
  for (const Json& one : expected["cases"]) {
    const std::string text = JoinText(one["text"]);
    INFO(one["text"]);
    REQUIRE(Encode(tokenizer, text) == ReadIds(one["ids"]));
    ++cases;
  }
  return cases;
}

Tokenizer Changed(const TemporaryDirectory& dir, const Json& patch) {
  Json json = ReadJson("tokenizer.json");
  json.merge_patch(patch);
  return Load(dir.Write("t.json", JsonText(json)));
}

Proto ReadModel(const std::string& name) {
  Proto model;
  REQUIRE(model.ParseFromString(*ReadFile(kData + name + ".model")));
  return model;
}

void Define(const std::string& text, Proto* model) {
  auto& pieces = *model->mutable_pieces();
  auto it = std::find_if(pieces.begin(), pieces.end(),
                         [&](const Proto::Piece& piece) { return piece.piece() == text; });
  Proto::Piece* piece = it == pieces.end() ? model->add_pieces() : &*it;
  piece->set_piece(text);
  piece->set_score(0);
  piece->set_type(Proto::Piece::USER_DEFINED);
}

}  // namespace

TEST_CASE("unigram: pieces that the user defined win, long ones before short ones") {
  const Json expected = ReadJson("expected_symbols.json");
  CHECK(expected["library"] == "sentencepiece 0.2.3");
  Proto model = ReadModel("unigram");
  for (const Json& symbol : expected["symbols"]) Define(symbol.get<std::string>(), &model);
  const TemporaryDirectory dir;
  const Tokenizer tokenizer = Load(dir.Write("m.model", model.SerializeAsString()));
  CHECK(CheckAll(tokenizer, expected) > 200);
  // "the" is a likely piece, but "he" was defined.
  const Ids ids = Encode(tokenizer, "the");
  CHECK(
      std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.bytes(id) == "he"; }));
}

TEST_CASE("unigram: ties, and runs so long that sums of scores lose their last digits") {
  const Json expected = ReadJson("expected_ties.json");
  Proto model = ReadModel("unigram");
  for (Proto::Piece& piece : *model.mutable_pieces()) {
    piece.set_score(std::nearbyint(piece.score()));
  }
  const TemporaryDirectory dir;
  CHECK(CheckAll(Load(dir.Write("m.model", model.SerializeAsString())), expected) > 200);
}

TEST_CASE("pieces that are not used fall into those that they were merged from, or are unknown") {
  for (const auto& [name, base] :
       {std::pair<std::string, std::string>{"unused", "bpe"}, {"unused_unigram", "unigram"}}) {
    const Json expected = ReadJson("expected_" + name + ".json");
    Proto model = ReadModel(base);
    for (Proto::Piece& piece : *model.mutable_pieces()) {
      for (const Json& unused : expected["unused"]) {
        if (piece.piece() == unused.get<std::string>()) piece.set_type(Proto::Piece::UNUSED);
      }
    }
    for (const Json& symbol : expected["symbols"]) Define(symbol.get<std::string>(), &model);
    const TemporaryDirectory dir;
    INFO(name);
    CHECK(CheckAll(Load(dir.Write("m.model", model.SerializeAsString())), expected) > 200);
  }
}

TEST_CASE("added tokens that are not special are found; a bare byte leaves its twin alone") {
  const Json expected = ReadJson("expected_added.json");
  CHECK(expected["library"] == "tokenizers 0.23.3");
  const TemporaryDirectory dir;
  const Tokenizer tokenizer = Changed(dir, expected["patch"]);
  CHECK(CheckAll(tokenizer, expected) == 300);
  CHECK(tokenizer.bytes(703) == "    ");
  // The vocabulary's "\n" is id 700; a line feed in a text is that of the alphabet.
  CHECK(Encode(tokenizer, "a\nb")[1] != 700);
}

TEST_CASE("a text with added tokens may be split where the tokenizer says") {
  const TemporaryDirectory dir;
  const Json expected = ReadJson("expected_added.json");
  const Tokenizer tokenizer = Changed(dir, expected["patch"]);
  int splits = 0;
  for (const Json& one : expected["cases"]) {
    const std::string text = JoinText(one["text"]);
    for (size_t limit = 1; limit <= text.size(); ++limit) {
      const size_t at = tokenizer.find_split(text, limit);
      REQUIRE(at <= limit);
      Ids ids = Encode(tokenizer, std::string_view(text).substr(0, at));
      tokenizer.encode(std::string_view(text).substr(at), &ids);
      INFO(text << " at " << at);
      REQUIRE(ids == ReadIds(one["ids"]));
      splits += at > 0 && at < text.size() ? 1 : 0;
    }
  }
  CHECK(splits > 500);
}

TEST_CASE("a post-processor's ids stand around a document") {
  const Json expected = ReadJson("expected_templates.json");
  int around = 0;
  for (const Json& one : expected["cases"]) {
    const TemporaryDirectory dir;
    Json json = ReadJson("tokenizer.json");
    json["post_processor"] = one["post_processor"];
    const Tokenizer tokenizer = Load(dir.Write("t.json", JsonText(json)));
    Ids ids = tokenizer.begin;
    tokenizer.encode(expected["text"].get<std::string>(), &ids);
    ids.insert(ids.end(), tokenizer.end.begin(), tokenizer.end.end());
    INFO(one["post_processor"]);
    CHECK(ids == one["ids"].get<Ids>());
    around += tokenizer.begin.empty() ? 0 : 1;
  }
  CHECK(around == 5);
}

TEST_CASE("unsupported parts of a tokenizer.json are refused by name") {
  const TemporaryDirectory dir;
  const auto refused = [&](auto change) {
    Json json = ReadJson("tokenizer.json");
    change(json);
    const auto tokenizer = LoadTokenizer(dir.Write("t.json", JsonText(json)));
    REQUIRE_FALSE(tokenizer.ok());
    return std::string(tokenizer.status().message());
  };
  const auto add = [](Json& json, Json token) { json["added_tokens"].push_back(std::move(token)); };
  CHECK_THAT(refused([&](Json& j) {
               add(j, {{"id", 3}, {"content", "!"}});
             }),
             Catch::Contains("added token \"!\" has id 3, in the vocabulary it has 1"));
  const auto processor = [&](Json value) {
    return refused([&](Json& j) { j["post_processor"] = std::move(value); });
  };
  CHECK_THAT(processor({{"type", "Odd"}}), Catch::Contains("its post-processor is \"Odd\""));
  CHECK_THAT(processor({{"type", "BertProcessing"}, {"cls", {"x", 700}}, {"sep", {"x", 1}}}),
             Catch::Contains("adds id 700, which no token has"));
  CHECK_THAT(processor({{"type", "BertProcessing"}, {"cls", {"x"}}, {"sep", {"x", 1}}}),
             Catch::Contains("is not what its type says"));
  CHECK_THAT(processor({{"type", "TemplateProcessing"}, {"single", Json::array()}}),
             Catch::Contains("is not what its type says"));
}

TEST_CASE("a tokenizer's hash tells what makes its ids") {
  const TemporaryDirectory dir;
  const std::string folder = kData.substr(0, kData.size() - 1);
  const Tokenizer gpt2 = Load("gpt2:" + folder), json = Load(kData + "tokenizer.json");
  CHECK(gpt2.id.name == "gpt2:testdata");
  CHECK(Load("gpt2:" + folder + "/").id == gpt2.id);
  CHECK(json.id.name == "tokenizer.json");
  CHECK(json.id.SameAs(gpt2.id));  // the same vocabulary in another file
  const std::vector<TokenizerId> all = {
      gpt2.id,
      Load("bytes").id,
      Load(kData + "bpe.model").id,
      Load(kData + "unigram.model").id,
      Changed(dir, ReadJson("expected_added.json")["patch"]).id,
      Changed(dir, {{"model", {{"merges", {"Ġ t"}}}}}).id,
      Changed(dir, {{"post_processor",
                     {{"type", "BertProcessing"}, {"cls", {"!", 1}}, {"sep", {"!", 1}}}}})
          .id};
  std::set<std::string> hashes;
  for (const TokenizerId& id : all) {
    CHECK(id.known());
    CHECK(id.hash.size() == 16);
    hashes.insert(id.hash);
  }
  CHECK(hashes.size() == all.size());
  CHECK(TokenizerId().Text() == "unknown");
  CHECK(TokenizerId{"a", "b"}.Text() == "a (b)");
}

}  // namespace oneflow
