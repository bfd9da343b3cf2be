#include "training/data/sampled_data.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "training/data/chat_file.h"
#include "training/data/token_file_writer.h"

namespace oneflow {
namespace {

using Tokens = std::vector<int32_t>;
constexpr int64_t kSequence = 3;

TokenDataset OpenIds(const TemporaryDirectory& dir, const std::string& name, const Tokens& ids,
                     int64_t chat_tokens) {
  const std::string path = dir.path() + "/" + name;
  auto out = TokenFileWriter::Create(path, TokenFormat::kNanoGpt, 100).value();
  REQUIRE(out.Append(ids).ok());
  ChatTable chats;
  for (size_t i = 0; chat_tokens > 0 && i < ids.size(); i += chat_tokens) {
    chats.Append(chat_tokens, true);
    chats.EndChat();
  }
  REQUIRE(out.Finish(chat_tokens > 0 ? &chats : nullptr).ok());
  return TokenDataset::Open({path}, 100, kSequence).value();
}

Tokens Sample(const TokenSource& source, int64_t step, int64_t sample) {
  Tokens tokens(kSequence + 1);
  REQUIRE(source.Sample(step, sample, tokens).ok());
  return tokens;
}

const Tokens kText = {1, 2, 9, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
const RecordOptions kApart = {.sequence = kSequence, .documents = true, .end_of_text = 9};

TEST_CASE("sampled data: without chats and epochs samples begin at any position, as ever") {
  const TemporaryDirectory dir;
  const TokenDataset text = OpenIds(dir, "a.bin", kText, 0);
  const SampledData data = *SampledData::Make(TokenMixture(text), {.sequence = kSequence}, false);
  CHECK(data.records() == nullptr);
  CHECK(data.id() == RecordsId());
  CHECK_FALSE(data.has_chats());
  const auto source = data.Draws(7, false), expected = text.Source(7);
  for (int64_t step = 0; step < 50; ++step) {
    CHECK(Sample(*source, step, 1) == Sample(*expected, step, 1));
  }
}

TEST_CASE("sampled data: epochs are over records, and have no weights") {
  const TemporaryDirectory dir;
  const TokenDataset text = OpenIds(dir, "a.bin", kText, 0);
  const SampledData data = *SampledData::Make(TokenMixture(text), {.sequence = kSequence}, true);
  REQUIRE(data.records() != nullptr);
  CHECK(data.records()->size() == 4);
  CHECK(data.id().count == 4);
  CHECK(data.id().epochs);
  CHECK(data.id().hash.size() == 16);
  const auto source = data.Epochs(1, 4), expected = data.records()->Epochs(1, 4);
  CHECK(Sample(*source, 3, 2) == Sample(*expected, 3, 2));
  const auto mixture = TokenMixture::Make({text, text}, {1, 2});
  CHECK(
      SampledData::Make(*mixture, {.sequence = kSequence}, true).status().message() ==
      "--epochs: cannot be given together with weights of --data: a file of a large weight would "
      "be read more often than the others; leave the weights out, or give --steps in the place of "
      "--epochs");
}

TEST_CASE("sampled data: a mixture draws chats, and marked positions of a text") {
  const TemporaryDirectory dir;
  const TokenDataset text = OpenIds(dir, "a.bin", kText, 0),
                     chats = OpenIds(dir, "b.bin", {51, 52, 53, 54}, 2);
  const SampledData data =
      *SampledData::Make(*TokenMixture::Make({text, chats}, {1, 1}), kApart, false);
  CHECK(data.has_chats());
  CHECK(data.records() == nullptr);
  CHECK(data.counts().chats == 2);
  CHECK(data.id().count == 2);
  CHECK_FALSE(data.id().epochs);
  const auto source = data.Draws(3, true);
  int of_chats = 0, marked = 0;
  for (int64_t step = 0; step < 100; ++step) {
    const Tokens tokens = Sample(*source, step, 0);
    if (TokenId(tokens[0]) > 50) {
      ++of_chats;
      CHECK(BeginsDocument(tokens[0]));
      continue;
    }
    for (int64_t i = 1; i <= kSequence; ++i) {
      CHECK(BeginsDocument(tokens[i]) == (TokenId(tokens[i - 1]) == 9));
      marked += BeginsDocument(tokens[i]) ? 1 : 0;
    }
  }
  CHECK(std::abs(of_chats - 50) < 20);
  CHECK(marked > 5);
}

}  // namespace
}  // namespace oneflow
