// Recognises a file that is given as data and holds neither text nor token ids: what is compressed,
// archives, tables, models, other encodings of text, JSON Lines. First bytes decide, and names
// where the bytes are no text. One table, recognize_data.cc, names each kind and what to do.
//
//   RETURN_IF_ERROR(CheckIsText(file));          // a text, whatever its name
//   RETURN_IF_ERROR(CheckIsIds(file));           // ids without a header
//
// It does not judge what may be text: that is a doubt (DoubtText), for a warning. Files with tokens
// of their own format (llm.c, Megatron, .npy) are token_file.h's.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "training/data/data_file.h"

namespace oneflow {

// An input error if `file` is known to be no text in UTF-8 or a similar encoding.
absl::Status CheckIsText(const DataFile& file);

// An input error if `file` begins as other files do and ids do not. Kinds that few bytes tell are
// passed over: they may be ids.
absl::Status CheckIsIds(const DataFile& file);

// An input error where a file of this many ids or more holds characters of ASCII alone.
absl::Status CheckIsNoAscii(const DataFile& file);

// Why a file that CheckIsText accepts may be no text: "holds 12 zero bytes ...". Empty: no doubt.
absl::StatusOr<std::string> DoubtText(const DataFile& file);

// Why a tokenizer other than of bytes may misread `text`, all of the file `path`: "is no UTF-8
// (byte 4) ...". Empty: it is UTF-8.
std::string DoubtUtf8(std::string_view path, std::string_view text);

}  // namespace oneflow
