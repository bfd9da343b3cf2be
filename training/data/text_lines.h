// TextLines: the lines of a file of text, packed or not. A byte order mark before the first is no
// part of it.
//
//   TextLines lines("chats.jsonl", stream);
//   for (;;) {
//     ASSIGN_OR_RETURN(const std::optional<std::string_view> line, lines.Next());
//     if (!line) break;
//     ... lines.location() is "chats.jsonl:17" ...
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "training/data/byte_stream.h"

namespace oneflow {

class TextLines {
 public:
  // `path`: the file's name, for messages.
  TextLines(std::string path, std::shared_ptr<ByteStream> stream)
      : path_(std::move(path)), stream_(std::move(stream)) {}

  // The next line that is not blank, without its line feed; none at the end. It is valid until the
  // next call. Errors: those of the stream; a line of more than 1 GiB.
  absl::StatusOr<std::optional<std::string_view>> Next();
  // Of the line that Next returned.
  std::string location() const;

 private:
  // The next line, whatever it holds.
  absl::StatusOr<std::optional<std::string_view>> Take();

  std::string path_;
  std::shared_ptr<ByteStream> stream_;
  std::string_view block_;  // of the stream, from the next line on
  std::string joined_;      // a line that blocks share
  int64_t number_ = 0;      // of the line, from 1
};

}  // namespace oneflow
