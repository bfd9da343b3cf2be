// Doubts about a text that is read as it is: that it is none, or in another encoding than UTF-8. A
// doubt is a sentence for a warning, to follow the name of the file; empty: there is none.
//
//   Utf8Check check;
//   check.Add(block);                             // any number of times
//   const std::string doubt = check.Doubt(path);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "training/data/data_file.h"

namespace oneflow {

inline constexpr int64_t kDoubtedBytes = 1 << 14;  // that tell of a file

// The first byte that is no UTF-8; the size where all are.
size_t FindNoUtf8(std::string_view text);

// Bytes below 32 that are neither white space, backspaces nor escapes.
int64_t CountControls(std::string_view text);

// Why a file that begins with `head` may be binary: "holds 12 zero bytes in its first 16384".
std::string FindBinary(std::string_view head);

// Why a file of plain text may be no text: "holds 12 zero bytes ...". Empty: no doubt. `head`: its
// first bytes, 16 KiB of them or all.
absl::StatusOr<std::string> DoubtText(const DataFile& file);
std::string DoubtText(std::string_view head);

// Why a tokenizer other than of bytes may misread `text`, all of the file `path`: "is no UTF-8
// (byte 4) ...". Empty: it is UTF-8.
std::string DoubtUtf8(std::string_view path, std::string_view text);

// The same of a text that comes in blocks.
class Utf8Check {
 public:
  void Add(std::string_view text);
  // After the last block.
  std::string Doubt(std::string_view path) const;

 private:
  int64_t at_ = 0;    // all before is UTF-8
  std::string open_;  // the bytes at at_, of a character that may go on
  bool found_ = false;
};

}  // namespace oneflow
