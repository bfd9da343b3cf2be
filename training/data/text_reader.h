// TextReader: the documents of a file of text, in blocks, one after the other:
//
//   plain text                   one document
//   JSON Lines                   each line is one: the string under a key
//   Parquet, Arrow, Feather 2    each row is one: the string in a column; python3 reads them, by
//                                the module pyarrow
//
// What the file holds decides, not its name. Text and JSON Lines may be packed by gzip or zstd;
// they are unpacked as they are read. Memory does not grow with the file, but for a document of
// JSON Lines or of a table, which is held as one block. A plain file that is not packed is one
// block, too, which is mapped and not held.
//
//   ASSIGN_OR_RETURN(TextReader reader, OpenText("chats.jsonl.gz", "text"));
//   for (TextBlock block;;) {
//     ASSIGN_OR_RETURN(const bool more, reader.next(&block));
//     if (!more) break;
//     ...
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "training/data/recognize_data.h"

namespace oneflow {

// A part of a document, not empty.
struct TextBlock {
  std::string_view text;
  bool begins = false, ends = false;  // with the document
};

// What is known of a file without reading it to its end.
struct TextFacts {
  std::string path;
  TextKind kind = TextKind::kPlain;
  Compression compression = Compression::kNone;
  int64_t file_bytes = 0;
  std::string doubt;  // of plain text, a sentence for a warning; empty: none (doubt_text.h)

  bool records() const { return kind != TextKind::kPlain; }
  // The bytes of its text are those of the file.
  bool is_file() const { return kind == TextKind::kPlain && compression == Compression::kNone; }
};

// What scripts call the format of a table: "parquet", "arrow" or "stream".
std::string_view TableFormat(TextKind kind);

// Errors: those of DataFile::Open; a file that holds no text.
absl::StatusOr<TextFacts> LookAtText(const std::string& path);

// True if `path` holds text, or records with text, and its bytes are not this text. False where
// it cannot be read, too.
bool HoldsPackedText(const std::string& path);

struct TextReader {
  TextFacts facts;
  // False at the end. The text of the block is valid until the next call. Documents without text
  // are passed over. Errors name the file, and the line or the row.
  std::function<absl::StatusOr<bool>(TextBlock*)> next;
  std::function<int64_t()> position;      // how many of facts.file_bytes have been read, about
  std::function<std::string()> location;  // of the last document, for messages: "a.jsonl:12"
};

// `key`: of JSON Lines and tables; "a.b" is b within a. Errors: those of LookAtText; no key or
// column of that name, a line that is no object of JSON, a value that is no string.
absl::StatusOr<TextReader> OpenText(const std::string& path, const std::string& key);

}  // namespace oneflow
