// Facts of a token file that its format has no field for, in a small file beside it: those of
// FILE.bin are in FILE.meta.json.
//
//   {"format":"oneflow tokens","version":1,"tokens":1000,
//    "tokenizer":{"name":"gpt2:small","hash":"0123456789abcdef"}}
//
// Files of other programs have no such file: their tokenizer is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/tokenizer/tokenizer_id.h"

namespace oneflow {

struct TokenFileMeta {
  int64_t tokens = 0;     // that the .bin holds
  TokenizerId tokenizer;  // that made them
};

// The path of the facts of `bin`, which ends in .bin.
std::string MetaPath(const std::string& bin);

// The folder beside `bin` into which `oneflow data` writes the files of its tokenizer.
std::string TokenizerFolder(const std::string& bin);

absl::Status WriteTokenFileMeta(const std::string& bin, const TokenFileMeta& meta);

// Nothing if there is no such file. An error if the file is not of this kind and version.
absl::StatusOr<std::optional<TokenFileMeta>> ReadTokenFileMeta(const std::string& bin);

}  // namespace oneflow
