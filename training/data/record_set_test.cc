#include "training/data/record_set.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "training/data/chat_file.h"
#include "training/data/epoch_order.h"
#include "training/data/token_file_writer.h"

namespace oneflow {
namespace {

using Tokens = std::vector<int32_t>;

// A chat is its tokens; those above 50 count.
std::string WriteChatFile(const TemporaryDirectory& dir, const std::string& name,
                          const std::vector<Tokens>& chats) {
  const std::string path = dir.path() + "/" + name;
  auto out = TokenFileWriter::Create(path, TokenFormat::kNanoGpt, 100).value();
  ChatTable table;
  for (const Tokens& chat : chats) {
    REQUIRE(out.Append(chat).ok());
    for (const int32_t token : chat) table.Append(1, token > 50);
    table.EndChat();
  }
  REQUIRE(out.Finish(&table).ok());
  return path;
}

std::string WriteWindowFile(const TemporaryDirectory& dir, const std::string& name,
                            const Tokens& tokens) {
  const std::string path = dir.path() + "/" + name;
  auto out = TokenFileWriter::Create(path, TokenFormat::kNanoGpt, 100).value();
  REQUIRE(out.Append(tokens).ok());
  REQUIRE(out.Finish().ok());
  return path;
}

TokenDataset Open(const std::vector<std::string>& paths) {
  return TokenDataset::Open(paths, 100, 1).value();
}

Tokens ReadRecord(const RecordSet& records, int64_t record, int64_t sequence) {
  Tokens tokens(sequence + 1);
  REQUIRE(records.Read(record, tokens).ok());
  return tokens;
}

Tokens Sample(const TokenSource& source, int64_t step, int64_t sample, int64_t sequence) {
  Tokens tokens(sequence + 1);
  REQUIRE(source.Sample(step, sample, tokens).ok());
  return tokens;
}

constexpr int32_t kNone = kPaddingToken;
int32_t Begins(int32_t id) { return MakeToken(id, {.counts = false, .begins = true}); }
int32_t Not(int32_t id) { return MakeToken(id, {.counts = false}); }

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("records: windows of a text, whose last tokens are left out") {
  const TemporaryDirectory dir;
  const std::string a = WriteWindowFile(dir, "a.bin", {1, 2, 3, 4, 5}),
                    b = WriteWindowFile(dir, "b.bin", {6, 7, 8, 9, 10, 11});
  const RecordSet records = *RecordSet::Make(Open({a, b}), {.sequence = 3});
  REQUIRE(records.size() == 3);
  CHECK(ReadRecord(records, 0, 3) == Tokens{1, 2, 3, 4});
  CHECK(ReadRecord(records, 1, 3) == Tokens{4, 5, 6, 7});
  CHECK(ReadRecord(records, 2, 3) == Tokens{7, 8, 9, 10});
  CHECK(records.counts().left_out == 1);
  CHECK(records.counts().windows == 3);
  // The tokens behind an end of text begin a document.
  const RecordSet apart =
      *RecordSet::Make(Open({a, b}), {.sequence = 3, .documents = true, .end_of_text = 5});
  CHECK(ReadRecord(apart, 1, 3) == Tokens{4, 5, MakeToken(6, {.begins = true}), 7});
}

TEST_CASE("records: a chat is one, padded") {
  const TemporaryDirectory dir;
  const std::string path =
      WriteChatFile(dir, "c.bin", {{1, 51, 52}, {2, 3, 4}, {5, 53, 6, 54, 55, 56}, {57}});
  const RecordSet records = *RecordSet::Make(Open({path}), {.sequence = 4});
  REQUIRE(records.size() == 2);
  CHECK(ReadRecord(records, 0, 4) == Tokens{Begins(1), 51, 52, kNone, kNone});
  CHECK(ReadRecord(records, 1, 4) == Tokens{Begins(5), 53, Not(6), 54, kNone});
  const RecordCounts& counts = records.counts();
  CHECK(counts.packed == 2);
  CHECK(counts.chats == 2);
  CHECK(counts.chat_tokens == 7);
  CHECK(counts.chat_labels == 4);
  CHECK(counts.truncated == 1);
  CHECK(counts.no_labels == 2);  // the first token is the label of none
  CHECK(counts.too_long == 0);
}

TEST_CASE("records: long chats are dropped or refused, and a truncated one may lose its labels") {
  const TemporaryDirectory dir;
  const std::string path =
      WriteChatFile(dir, "c.bin", {{1, 51}, {2, 3, 4, 5, 52}, {6, 53, 7, 8, 9}});
  const RecordSet dropped =
      *RecordSet::Make(Open({path}), {.sequence = 4, .long_chats = LongChats::kDrop});
  CHECK(dropped.size() == 1);
  CHECK(dropped.counts().too_long == 2);
  const RecordSet truncated = *RecordSet::Make(Open({path}), {.sequence = 4});
  CHECK(truncated.size() == 2);
  CHECK(truncated.counts().truncated == 1);
  CHECK(truncated.counts().no_labels == 1);
  CHECK(Message(RecordSet::Make(Open({path}), {.sequence = 4, .long_chats = LongChats::kError})
                    .status()) == "chat 2 of " + path +
                                      ": has 5 tokens, and a sequence 4; use a model of longer "
                                      "sequences, or --long_chats=truncate or drop");
}

TEST_CASE("records: none is an error") {
  const TemporaryDirectory dir;
  const std::string silent = WriteChatFile(dir, "c.bin", {{1, 2}, {51, 3}});
  CHECK(Message(RecordSet::Make(Open({silent}), {.sequence = 4}).status()) ==
        silent +
            ": none of its chats can be trained on: 2 have no token that counts, 0 are longer "
            "than a sequence of 4; use other chats, longer sequences or --long_chats=truncate");
  CHECK(RecordSet::Make(Open({silent}), {.sequence = 4, .may_be_empty = true})->size() == 0);
  const std::string text = WriteWindowFile(dir, "a.bin", {1, 2, 3});
  CHECK(Message(RecordSet::Make(Open({text}), {.sequence = 3}).status()) ==
        text + ": has no record: neither a chat nor 4 tokens; use more data or shorter sequences");
}

TEST_CASE("records: documents are packed into windows, over files") {
  const TemporaryDirectory dir;
  const std::string a = WriteChatFile(dir, "a.bin", {{1, 51}, {2, 52, 53, 54}}),
                    b = WriteChatFile(dir, "b.bin", {{3, 55, 56}, {4, 57, 58, 59, 60}});
  const RecordSet records = *RecordSet::Make(Open({a, b}), {.sequence = 5, .documents = true});
  REQUIRE(records.size() == 3);
  CHECK(ReadRecord(records, 0, 5) == Tokens{Begins(1), 51, Begins(3), 55, 56, kNone});
  CHECK(ReadRecord(records, 1, 5) == Tokens{Begins(2), 52, 53, 54, kNone, kNone});
  CHECK(ReadRecord(records, 2, 5) == Tokens{Begins(4), 57, 58, 59, 60, kNone});
  CHECK(records.counts().chat_tokens == 14);
  CHECK(records.counts().packed == 3);
}

TEST_CASE("records: chats and windows are joined in the order of files") {
  const TemporaryDirectory dir;
  const std::string chats = WriteChatFile(dir, "a.bin", {{1, 51}, {2, 52}}),
                    more = WriteChatFile(dir, "c.bin", {{3, 53}}),
                    text = WriteWindowFile(dir, "b.bin", {5, 6, 7, 8, 9, 10, 11});
  const RecordSet records = *RecordSet::Make(Open({chats, text, more, text}), {.sequence = 3});
  REQUIRE(records.size() == 7);
  CHECK(ReadRecord(records, 1, 3) == Tokens{Begins(2), 52, kNone, kNone});
  CHECK(ReadRecord(records, 2, 3) == Tokens{5, 6, 7, 8});
  CHECK(ReadRecord(records, 3, 3) == Tokens{8, 9, 10, 11});
  CHECK(ReadRecord(records, 4, 3) == Tokens{Begins(3), 53, kNone, kNone});
  CHECK(ReadRecord(records, 6, 3) == Tokens{8, 9, 10, 11});
}

TEST_CASE("records: others have another hash") {
  const TemporaryDirectory dir;
  const std::string a = WriteChatFile(dir, "a.bin", {{1, 51}, {2, 52, 53}}),
                    b = WriteChatFile(dir, "b.bin", {{1, 51, 54}, {2, 52}}),
                    same = WriteChatFile(dir, "c.bin", {{8, 61}, {9, 62, 63}});
  const auto hash = [](const std::string& path, const RecordOptions& options) {
    return RecordSet::Make(Open({path}), options)->hash();
  };
  CHECK(hash(a, {.sequence = 4}) == hash(same, {.sequence = 4}));  // positions, not ids
  CHECK(hash(a, {.sequence = 4}) != hash(b, {.sequence = 4}));
  CHECK(hash(a, {.sequence = 4}) != hash(a, {.sequence = 2}));
  CHECK(hash(a, {.sequence = 5}) != hash(a, {.sequence = 5, .documents = true}));
}

TEST_CASE("epochs: each reads each record once, whatever the batch") {
  const TemporaryDirectory dir;
  Tokens text(100);
  for (int i = 0; i < 100; ++i) text[i] = i;
  const RecordSet records =
      *RecordSet::Make(Open({WriteWindowFile(dir, "a.bin", text)}), {.sequence = 9});
  const int64_t size = records.size();
  REQUIRE(size == 11);
  std::vector<Tokens> expected;
  for (int64_t k = 0; k < 5 * size; ++k) {
    const EpochOrder order(7, k / size, size);
    expected.push_back(ReadRecord(records, order(k % size), 9));
  }
  // A batch of 1, 4 or 11 goes over the end of epochs, and one of 30 over more than two.
  for (const int64_t batch : {1, 4, 11, 30}) {
    const auto source = records.Epochs(7, batch);
    for (int64_t k = 0; k < 5 * size; ++k) {
      CHECK(Sample(*source, k / batch, k % batch, 9) == expected[k]);
    }
  }
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<Tokens> seen(expected.begin() + epoch * size,
                             expected.begin() + (epoch + 1) * size);
    std::sort(seen.begin(), seen.end());
    CHECK(std::unique(seen.begin(), seen.end()) == seen.end());
  }
  // Another epoch has another order.
  CHECK(!std::equal(expected.begin(), expected.begin() + size, expected.begin() + size));
}

TEST_CASE("draws: with replacement; a pass: in order, then padding") {
  const TemporaryDirectory dir;
  const RecordSet records = *RecordSet::Make(
      Open({WriteChatFile(dir, "a.bin", {{1, 51}, {2, 52}, {3, 53}})}), {.sequence = 3});
  std::map<Tokens, int> times;
  const auto draws = records.Draws(1);
  for (int64_t step = 0; step < 100; ++step) {
    for (int64_t sample = 0; sample < 3; ++sample) ++times[Sample(*draws, step, sample, 3)];
  }
  CHECK(times.size() == 3);
  for (const auto& [tokens, count] : times) CHECK(std::abs(count - 100) < 40);
  CHECK(Sample(*draws, 5, 2, 3) == Sample(*records.Draws(1), 5, 2, 3));
  const auto pass = records.Pass(2);
  CHECK(Sample(*pass, 0, 1, 3) == ReadRecord(records, 1, 3));
  CHECK(Sample(*pass, 1, 0, 3) == ReadRecord(records, 2, 3));
  CHECK(Sample(*pass, 1, 1, 3) == Tokens(4, kNone));
}

TEST_CASE("split: the last chats are for validation") {
  const TemporaryDirectory dir;
  const TokenDataset data = Open({WriteChatFile(dir, "a.bin", {{1, 51}, {2, 52, 53}, {3, 54}}),
                                  WriteChatFile(dir, "b.bin", {{4, 55}, {5, 56}})});
  const auto first = [](const TokenDataset& part) {
    Tokens ids;
    const RecordSet records = *RecordSet::Make(part, {.sequence = 3});
    for (int64_t i = 0; i < records.size(); ++i)
      ids.push_back(TokenId(ReadRecord(records, i, 3)[0]));
    return ids;
  };
  const TokenSplit split = *SplitChats(data, 0.6);
  CHECK(first(split.train) == Tokens{1, 2});
  CHECK(first(split.validation) == Tokens{3, 4, 5});
  CHECK(first(SplitChats(data, 0.2)->train) == Tokens{1, 2, 3, 4});
  CHECK(first(SplitChats(data, 0.25)->validation) == Tokens{5});
  CHECK(first(SplitChats(data, 0.3)->validation) == Tokens{4, 5});
  CHECK(CountValidationChats(60, 0.1666) == 10);
  CHECK(SplitChats(data, 0)->validation.size() == 0);
  CHECK(Message(SplitChats(data, 0.9).status()) ==
        data.path() + ": of 5 chats the training part has none; use more chats, or another part");
  CHECK(SplitChats(data, 1).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("marked documents: the token behind an end of text begins one") {
  const TemporaryDirectory dir;
  const TokenDataset data = Open({WriteWindowFile(dir, "a.bin", {1, 9, 9, 4})});
  const auto source = MarkDocuments(data.Source(1), 9);
  CHECK(Sample(*source, 0, 0, 3) ==
        Tokens{1, 9, MakeToken(9, {.begins = true}), MakeToken(4, {.begins = true})});
}

}  // namespace
}  // namespace oneflow
