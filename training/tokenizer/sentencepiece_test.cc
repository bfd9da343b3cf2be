// The expected ids are the library's own: testdata/make_testdata.py.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/temporary_directory.h"
#include "proto/sentencepiece.pb.h"
#include "training/tokenizer/load_for_test.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {
namespace {

using Proto = proto::SentencePieceModel;

const std::string kData = "training/tokenizer/testdata/";

Tokenizer LoadModel(const std::string& name) { return Load(kData + name + ".model"); }

nlohmann::json ReadExpected(const std::string& name) {
  return nlohmann::json::parse(*ReadFile(kData + "expected_" + name + ".json"));
}

std::string Decode(const Tokenizer& tokenizer, std::string_view text) {
  std::string decoded;
  for (const int32_t id : Encode(tokenizer, text)) decoded += tokenizer.bytes(id);
  return decoded;
}

}  // namespace

TEST_CASE("unigram and BPE models give the ids of the library") {
  for (const std::string name : {"unigram", "bpe"}) {
    const Tokenizer tokenizer = LoadModel(name);
    for (const nlohmann::json& expected : ReadExpected(name)) {
      const auto text = expected["text"].get<std::string>();
      INFO(name << ": " << text);
      CHECK(Encode(tokenizer, text) == expected["ids"].get<std::vector<int32_t>>());
    }
  }
}

TEST_CASE("decoding gives the normalized text with a space in front") {
  const Tokenizer bpe = LoadModel("bpe"), unigram = LoadModel("unigram");
  CHECK(Decode(bpe, "the  Ａ 🙂\n") == " the  A 🙂 ");  // bytes stand for what no piece covers
  CHECK(Decode(bpe, "a\xff") == " a\ufffd");
  CHECK(Decode(unigram, " the  cat 🙃🙃 ") == " the cat  \u2047 ");  // one unknown piece a run
}

TEST_CASE("a text ends in </s>, which is never found in one") {
  const Tokenizer tokenizer = LoadModel("unigram");
  REQUIRE(tokenizer.end_of_text == 2);
  CHECK(tokenizer.bytes(2).empty());
  for (const int32_t id : Encode(tokenizer, "a </s> b")) CHECK(id != 2);
}

TEST_CASE("pieces that the user defined are found at any position, and not normalized") {
  for (const std::string name : {"unigram", "bpe"}) {
    Proto model;
    REQUIRE(model.ParseFromString(*ReadFile(kData + name + ".model")));
    std::vector<int32_t> defined;
    for (const char* text : {"he", "Ａ"}) {
      defined.push_back(model.pieces_size());
      Proto::Piece* piece = model.add_pieces();
      piece->set_piece(text);
      piece->set_score(-100);
      piece->set_type(Proto::Piece::USER_DEFINED);
    }
    const TemporaryDirectory dir;
    const std::vector<int32_t> ids =
        Encode(Load(dir.Write("m.model", model.SerializeAsString())), "the qheq Ａ");
    INFO(name);
    const auto times = [&](int32_t id) { return std::count(ids.begin(), ids.end(), id); };
    CHECK(times(defined[0]) == (name == "bpe" ? 2 : 1));  // "the" may be likelier than its parts
    CHECK(times(defined[1]) == 1);
  }
}

TEST_CASE("text is split after lines") {
  const Tokenizer tokenizer = LoadModel("bpe");
  CHECK(tokenizer.find_split("ab\ncd\nef", 7) == 6);
  CHECK(tokenizer.find_split("ab\ncd\nef", 5) == 3);
  CHECK(tokenizer.find_split("ab\ncd\nef", 2) == 0);
  CHECK(tokenizer.find_split("ab", 0) == 0);
}

TEST_CASE("models that are broken or of another kind are refused") {
  const TemporaryDirectory dir;
  const auto refused = [&](const std::string& bytes) {
    const auto tokenizer = LoadTokenizer(dir.Write("m.model", bytes));
    REQUIRE_FALSE(tokenizer.ok());
    return std::string(tokenizer.status().message());
  };
  const auto changed = [&](auto change) {
    Proto model;
    REQUIRE(model.ParseFromString(*ReadFile(kData + "bpe.model")));
    change(model);
    return refused(model.SerializeAsString());
  };
  CHECK_THAT(std::string(LoadTokenizer("absent.model").status().message()),
             Catch::Contains("absent.model: cannot be read"));
  CHECK_THAT(refused("no protobuf"), Catch::Contains("is no sentencepiece model"));
  CHECK_THAT(refused(""), Catch::Contains("is no sentencepiece model"));
  CHECK_THAT(refused("IQ== 0\nIg== 1\nIGEh 2\n"),
             Catch::Contains("is a tokenizer of tiktoken, as Llama 3's") &&
                 Catch::Contains("give the tokenizer.json"));
  CHECK_THAT(
      changed([](Proto& m) { m.mutable_trainer_spec()->set_model_type(Proto::Trainer::CHAR); }),
      Catch::Contains("words or characters"));
  CHECK_THAT(changed([](Proto& m) { m.mutable_pieces(0)->set_type(Proto::Piece::CONTROL); }),
             Catch::Contains("has no unknown piece"));
  CHECK_THAT(changed([](Proto& m) { *m.add_pieces() = m.pieces(m.pieces_size() - 2); }),
             Catch::Contains("is there twice"));
  CHECK_THAT(changed([](Proto& m) { m.add_pieces(); }), Catch::Contains("is empty"));
  CHECK_THAT(changed([](Proto& m) {
               for (auto& piece : *m.mutable_pieces()) {
                 if (piece.piece() == "<0x41>") piece.set_type(Proto::Piece::CONTROL);
               }
             }),
             Catch::Contains("has not got a piece for each"));
  CHECK_THAT(
      changed([](Proto& m) { m.mutable_normalizer_spec()->set_precompiled_charsmap("abcdefgh"); }),
      Catch::Contains("table of characters is broken"));
}

}  // namespace oneflow
