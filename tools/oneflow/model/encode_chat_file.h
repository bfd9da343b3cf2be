// Encodes chats that `oneflow train` is given, once, before the first step.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "training/chat/chat_renderer.h"
#include "training/chat/chat_template.h"
#include "training/data/token_file.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

// The chats of `path`, a line each: the ids and the labels that `oneflow data --chat` would write.
// They are in a temporary file without a name (unnamed_tokens.h), and what counts in memory. What
// was made of them is reported on stderr. Requires a tokenizer that finds special tokens. Errors:
// those of EncodeChats; `path` cannot be read, the temporary file not written; nothing counts.
absl::StatusOr<TokenFile> EncodeChatFile(const std::string& path, const ChatTemplate& chat_template,
                                         const Tokenizer& tokenizer, LossOn loss_on);

}  // namespace oneflow
