// ChatLines: the chats of a file, one a line of JSON.
//
//   ASSIGN_OR_RETURN(ChatLines lines, ChatLines::Open("chats.jsonl"));
//   for (;;) {
//     ASSIGN_OR_RETURN(const std::optional<ChatLine> line, lines.Next());
//     if (!line) break;
//     ...
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "training/data/mapped_file.h"

namespace oneflow {

struct ChatLine {
  std::string json;   // without line feeds
  std::string where;  // "chats.jsonl:17", for errors
};

class ChatLines {
 public:
  // Errors: those of MappedFile::Open.
  static absl::StatusOr<ChatLines> Open(const std::string& path);

  // The next line that is not blank; none at the end.
  absl::StatusOr<std::optional<ChatLine>> Next();
  // Bytes of the file that have been read, and all of them.
  int64_t position() const { return static_cast<int64_t>(at_); }
  int64_t size() const { return std::ssize(file_.bytes()); }

 private:
  explicit ChatLines(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  size_t at_ = 0;
  int64_t line_ = 0;
};

}  // namespace oneflow
