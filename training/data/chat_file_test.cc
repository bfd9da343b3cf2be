#include "training/data/chat_file.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/data/token_file.h"
#include "training/data/token_file_writer.h"

namespace oneflow {
namespace {

ChatTable ThreeChats() {
  ChatTable chats;
  chats.Append(3, false);
  chats.Append(2, true);
  chats.EndChat();
  chats.EndChat();  // a chat of no tokens is left out
  chats.Append(std::vector<uint8_t>{1, 0, 1, 1, 0, 1, 1});
  chats.EndChat();
  chats.Append(9, true);
  chats.EndChat();
  return chats;
}

void WriteIds(const std::string& bin, int64_t tokens) {
  auto writer = TokenFileWriter::Create(bin, TokenFormat::kNanoGpt, 100);
  REQUIRE(writer.ok());
  REQUIRE(writer->Append(std::vector<int32_t>(tokens, 7)).ok());
  REQUIRE(writer->Finish().ok());
}

TEST_CASE("chats: ends and labels come back from the file") {
  const TemporaryDirectory dir;
  const std::string bin = dir.path() + "/train.bin";
  WriteIds(bin, 21);
  REQUIRE(OpenTokenFile(bin).ok());
  CHECK(OpenTokenFile(bin)->chats == nullptr);
  REQUIRE(WriteChats(bin, ThreeChats()).ok());
  const auto file = OpenTokenFile(bin);
  REQUIRE(file.ok());
  REQUIRE(file->chats != nullptr);
  const ChatTable& chats = *file->chats;
  CHECK(chats.tokens() == 21);
  REQUIRE(chats.chats() == 3);
  CHECK(chats.begin(0) == 0);
  CHECK(chats.end(0) == 5);
  CHECK(chats.begin(1) == 5);
  CHECK(chats.end(1) == 12);
  CHECK(chats.end(2) == 21);
  const std::string expected = "000111011011111111111";
  std::string mask;
  for (int64_t i = 0; i < 21; ++i) mask += chats.counts(i) ? '1' : '0';
  CHECK(mask == "000111011011111111111");
  for (int64_t begin = 0; begin <= 21; ++begin) {
    for (int64_t end = begin; end <= 21; ++end) {
      const std::string part = expected.substr(begin, end - begin);
      CHECK(chats.CountLabels(begin, end) == std::count(part.begin(), part.end(), '1'));
    }
  }
  // Other tokens of that name have no chats.
  WriteIds(bin, 21);
  CHECK(OpenTokenFile(bin)->chats == nullptr);
}

TEST_CASE("chats: the bytes of the file") {
  const TemporaryDirectory dir;
  REQUIRE(WriteChats(dir.path() + "/train.bin", ThreeChats()).ok());
  const std::string bytes = *ReadFile(dir.path() + "/train.chats");
  CHECK(bytes.substr(0, 8) == "OFCHATS1");
  const auto number = [&](size_t at) {
    uint64_t value = 0;
    for (size_t i = 8; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
  };
  CHECK(number(8) == 3);
  CHECK(number(16) == 21);
  CHECK(number(24) == 5);
  CHECK(number(32) == 12);
  CHECK(number(40) == 21);
  // 000111011011111111111, the lowest bit first.
  CHECK(bytes.substr(48) == "\xb8\xfd\x1f");
}

TEST_CASE("chats: files that are damaged or of another .bin") {
  const TemporaryDirectory dir;
  const std::string bin = dir.path() + "/train.bin", path = dir.path() + "/train.chats";
  WriteIds(bin, 21);
  REQUIRE(WriteChats(bin, ThreeChats()).ok());
  const std::string good = *ReadFile(path);
  const auto message = [&](const std::string& bytes) {
    REQUIRE(WriteFile(path, bytes).ok());
    const absl::Status status = OpenTokenFile(bin).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const std::string hint = "; make it again, with the .bin beside it: `oneflow data --chat`";
  const auto with = [&](size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    return bytes;
  };
  CHECK(message(good.substr(0, 20)) == path + ": is shorter than its head: it is truncated" + hint);
  CHECK(message("") == path + ": is shorter than its head: it is truncated" + hint);
  CHECK(message(with(0, 'X')) == path + ": holds no chats: it does not begin with OFCHATS1" + hint);
  CHECK(message(good.substr(0, good.size() - 1)) ==
        path + ": has 50 bytes, and 3 chats of 21 tokens take 51" + hint);
  CHECK(message(good + "x") == path + ": has 52 bytes, and 3 chats of 21 tokens take 51" + hint);
  CHECK(message(with(16, 22)) ==
        path + ": says 3 chats of 22 tokens, but the .bin holds 21 tokens" + hint);
  CHECK(message(with(15, 127)) ==
        path + ": says 9151314442816847875 chats of 21 tokens, but the .bin holds 21 tokens" +
            hint);
  CHECK(message(with(8, 2)) == path + ": has 51 bytes, and 2 chats of 21 tokens take 43" + hint);
  CHECK(message(with(32, 5)) == path + ": has a chat that ends at 5" + hint);
  CHECK(message(with(47, '\xff')) == path + ": has a chat that ends at -72057594037927915" + hint);
  CHECK(message(with(40, 20)) == path + ": its chats end at 20 of 21 tokens" + hint);
  CHECK(message(with(50, '\x3f')) == path + ": has a mask behind its last token" + hint);
  CHECK(OpenTokenFile(bin).ok() == false);
  REQUIRE(WriteFile(path, good).ok());
  CHECK(OpenTokenFile(bin).ok());
  WriteIds(bin, 0);
  REQUIRE(WriteChats(bin, ChatTable()).ok());
  CHECK(OpenTokenFile(bin)->chats->chats() == 0);
}

}  // namespace
}  // namespace oneflow
