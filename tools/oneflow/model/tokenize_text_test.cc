#include "tools/oneflow/model/tokenize_text.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

const std::string kData = "training/tokenizer/testdata/";
using Ids = std::vector<int32_t>;

std::string LongText(size_t bytes) {
  std::string text;
  uint32_t state = 7;
  while (text.size() < bytes) {
    state = state * 1664525 + 1013904223;
    text += "the program of the café, " + std::to_string(state >> 12);
    text += state >> 30 == 0 ? "\n" : state >> 30 == 1 ? "  " : " 🙂 license ";
  }
  return text;
}

// Encodes what it is given.
struct Recorded {
  explicit Recorded(const Tokenizer& tokenizer, const TokenizeOptions& options)
      : encoder(tokenizer, options, [this](std::span<const int32_t> more) {
          ids.insert(ids.end(), more.begin(), more.end());
          return absl::OkStatus();
        }) {}
  Ids ids;
  DocumentEncoder encoder;
};

// A reader whose blocks the test makes itself.
TextReader MakeReader(TextKind kind) {
  TextReader reader;
  reader.facts.kind = kind;
  reader.location = [] { return "somewhere"; };
  return reader;
}

// Divides `text` in blocks of `block` bytes; 0: in one.
void Divide(TextDivider& divider, const TextReader& reader, const std::string& text, size_t block) {
  if (block == 0) block = text.size();
  for (size_t at = 0; at < text.size(); at += block) {
    const TextBlock part = {std::string_view(text).substr(at, block), at == 0,
                            at + block >= text.size()};
    REQUIRE(divider.Add(reader, part, std::ssize(text)).ok());
  }
}

}  // namespace

TEST_CASE("ids do not depend on the blocks in which a document comes") {
  const std::string text = LongText(2500000);
  for (const char* name : {"llama3.json", "bpe.model"}) {
    const Tokenizer tokenizer = *LoadTokenizer(kData + name);
    const TokenizeOptions options;
    Ids first;
    for (const size_t block : {size_t{0}, size_t{123457}}) {
      Recorded all(tokenizer, options);
      TextDivider divider(tokenizer, {}, &all.encoder, nullptr);
      Divide(divider, MakeReader(TextKind::kPlain), text, block);
      if (first.empty()) first = all.ids;
      INFO(name << " " << block);
      CHECK((all.ids == first));
      CHECK(all.encoder.counts().text_bytes == std::ssize(text));
    }
  }
}

TEST_CASE("a document is split for validation at the same position in any blocks") {
  const std::string text = LongText(3000000);
  for (const char* name : {"llama3.json", "bpe.model"}) {
    const Tokenizer tokenizer = *LoadTokenizer(kData + name);
    const TokenizeOptions options;
    Recorded all(tokenizer, options);
    TextDivider single(tokenizer, {}, &all.encoder, nullptr);
    Divide(single, MakeReader(TextKind::kPlain), text, 0);
    for (const double fraction : {0.3, 0.999}) {
      Ids first;
      for (const size_t block : {size_t{0}, size_t{100000}}) {
        Recorded train(tokenizer, options), validation(tokenizer, options);
        TextDivider divider(tokenizer, ShareText(std::ssize(text), fraction), &train.encoder,
                            &validation.encoder);
        Divide(divider, MakeReader(TextKind::kPlain), text, block);
        if (first.empty()) first = train.ids;
        INFO(name << " " << fraction << " " << block);
        CHECK((train.ids == first));
        train.ids.insert(train.ids.end(), validation.ids.begin(), validation.ids.end());
        // The validation of sentencepiece begins as a text does, with a space.
        if (std::string_view(name) != "bpe.model") CHECK((train.ids == all.ids));
      }
    }
  }
}

TEST_CASE("records go to one part, and have the ids around them") {
  Tokenizer tokenizer = *LoadTokenizer("bytes");
  tokenizer.begin = {1};
  tokenizer.end_of_text = 0;
  const TokenizeOptions options = {.end_of_text = true};
  Recorded train(tokenizer, options), validation(tokenizer, options);
  TextDivider divider(tokenizer, ShareText(10, 0.35), &train.encoder, &validation.encoder);
  const TextReader reader = MakeReader(TextKind::kJsonLines);
  for (const char* text : {"abc", "def", "ghij"}) Divide(divider, reader, text, 0);
  CHECK(train.ids == Ids{1, 'a', 'b', 'c', 0, 1, 'd', 'e', 'f', 0});
  CHECK(validation.ids == Ids{1, 'g', 'h', 'i', 'j', 0});
  CHECK(train.encoder.counts().documents == 2);
}

TEST_CASE("documents of which nothing is made are counted, the first of them by location") {
  Tokenizer tokenizer = *LoadTokenizer("bytes");
  tokenizer.encode = [](std::string_view /*text*/, std::vector<int32_t>* /*ids*/) {};
  const TokenizeOptions options;
  Recorded all(tokenizer, options);
  TextDivider divider(tokenizer, {}, &all.encoder, nullptr);
  for (int i = 0; i < 9; ++i) Divide(divider, MakeReader(TextKind::kJsonLines), "a", 0);
  CHECK(all.encoder.counts().silent == 9);
  CHECK(all.encoder.counts().first_silent == std::vector<std::string>(5, "somewhere"));
  CHECK(all.encoder.counts().text_tokens == 0);
}

}  // namespace oneflow
