// ChatLines: the chats of a file, each as a JSON object on a line.
//
//   JSON Lines                   each line is one; the file may be packed by gzip or zstd
//   Parquet, Arrow, Feather 2    each row is one, its columns the fields; python3 reads them, by
//                                the module pyarrow
//
//   ASSIGN_OR_RETURN(ChatLines lines, ChatLines::Open("chats.jsonl.gz"));
//   for (;;) {
//     ASSIGN_OR_RETURN(const std::optional<ChatLine> line, lines.Next());
//     if (!line) break;
//     ...
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "training/data/byte_stream.h"
#include "training/data/python_script.h"
#include "training/data/text_lines.h"

namespace oneflow {

struct ChatLine {
  std::string json;   // without line feeds
  std::string where;  // "chats.jsonl:17", for errors
};

class ChatLines {
 public:
  // Errors: those of DataFile::Open; a file of another kind.
  static absl::StatusOr<ChatLines> Open(const std::string& path);

  // The next line that is not blank; none at the end. Errors: what is packed is damaged; a line of
  // more than 1 GiB; a table that cannot be read.
  absl::StatusOr<std::optional<ChatLine>> Next();
  // Bytes of the file that have been read (of a table, none), and all of them.
  int64_t position() const { return table_ ? 0 : stream_->position(); }
  int64_t size() const { return stream_->file().size(); }

 private:
  ChatLines(std::string path, std::shared_ptr<ByteStream> stream)
      : path_(std::move(path)), stream_(std::move(stream)), lines_(path_, stream_) {}

  std::string path_;
  std::shared_ptr<ByteStream> stream_;
  TextLines lines_;                    // of what is no table
  std::optional<PythonScript> table_;  // that writes the rows of a table
  int64_t row_ = 0;                    // of the table, from 1
};

}  // namespace oneflow
