// Recognises what a file that is given as data holds: text, JSON Lines, tables with text in a
// column; and refuses what holds neither text nor token ids: archives, models, other encodings of
// text. First bytes decide, and names where the bytes are no text. One table, recognize_data.cc,
// names each kind and what to do.
//
//   ASSIGN_OR_RETURN(const TextKind kind, RecognizeText(file));   // whatever its name
//   RETURN_IF_ERROR(CheckIsIds(file));                            // ids without a header
//
// It does not judge what may be text: that is a doubt (doubt_text.h), for a warning. Files with
// tokens of their own format (llm.c, Megatron, .npy) are token_file.h's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "training/data/data_file.h"

namespace oneflow {

enum class TextKind : uint8_t { kPlain, kJsonLines, kParquet, kArrowFile, kArrowStream };
enum class Compression : uint8_t { kNone, kGzip, kZstd };

// How a file that begins with `head` is packed; others than gzip and zstd are not looked for.
Compression FindCompression(std::string_view head);

// The kind of text of a file that is not packed. An input error if it is known to hold none that
// can be read.
absl::StatusOr<TextKind> RecognizeText(const DataFile& file);

// The same of what is unpacked from the file `path`, of whose bytes `peek(n)` returns the first n,
// or all where there are fewer. Tables are refused.
absl::StatusOr<TextKind> RecognizeText(
    const std::string& path, const std::function<absl::StatusOr<std::string_view>(size_t)>& peek);

// An input error if `file` holds anything but plain text, packed or not.
absl::Status CheckIsText(const DataFile& file);

// An input error if `file` begins as other files do and ids do not. Kinds that few bytes tell are
// passed over: they may be ids.
absl::Status CheckIsIds(const DataFile& file);

// An input error where a file of this many ids or more holds characters of ASCII alone.
absl::Status CheckIsNoAscii(const DataFile& file);

}  // namespace oneflow
