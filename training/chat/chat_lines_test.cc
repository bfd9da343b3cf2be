#include "training/chat/chat_lines.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

// "where json" of each line, or the error.
std::vector<std::string> ReadAllLines(const std::string& path) {
  std::vector<std::string> read;
  auto lines = ChatLines::Open(path);
  if (!lines.ok()) return {std::string(lines.status().message())};
  for (;;) {
    const auto line = lines->Next();
    if (!line.ok()) read.emplace_back(line.status().message());
    if (!line.ok() || !*line) return read;
    read.push_back((*line)->where.substr(path.size()) + " " + (*line)->json);
  }
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lines of chats, numbered as in the file, without blank ones") {
  const TemporaryDirectory folder;
  CHECK(ReadAllLines(folder.Write("mark.jsonl", "\xef\xbb\xbf{\"a\": 1}\n")) ==
        Lines{":1 {\"a\": 1}"});
  CHECK(ReadAllLines(folder.Write("a.jsonl", "{\"a\": 1}\n\n  \r\n{\"b\": 2}\r\n{\"c\": 3}")) ==
        Lines{":1 {\"a\": 1}", ":4 {\"b\": 2}\r", ":5 {\"c\": 3}"});
  const std::string chat = "{\"a\": \"" + std::string(200000, 'x') + "\"}";
  CHECK(ReadAllLines(folder.Write("long.jsonl", chat + "\n" + chat + "\n")) ==
        Lines{":1 " + chat, ":2 " + chat});
}

TEST_CASE("what holds no lines of chats is refused") {
  const TemporaryDirectory folder;
  CHECK_THAT(ReadAllLines(folder.path() + "/none.jsonl")[0], Catch::Contains("none.jsonl"));
  CHECK_THAT(ReadAllLines(folder.Write("a.pdf", "%PDF-1.7\n\xff\xfe"))[0],
             Catch::Contains("a.pdf"));
}

}  // namespace oneflow
