// Encodes chats: the ids of each, and which of them count as labels.
//
//   ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTokenizer(folder, {.special = true}));
//   ASSIGN_OR_RETURN(const ChatCounts counts,
//                    EncodeChats(next, chat_template, tokenizer, LossOn::kAssistant, append));
//
// The text of a chat is encoded once, with its special tokens; nothing is put around it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "training/chat/chat_lines.h"
#include "training/chat/chat_renderer.h"
#include "training/chat/chat_template.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

struct ChatCounts {
  int64_t chats = 0;                    // that were read
  int64_t samples = 0;                  // that were encoded; of the others nothing counts
  int64_t tokens = 0;                   // of the samples
  int64_t labels = 0;                   // tokens that count
  int64_t endless = 0;                  // samples in which no token ends the last answer
  int64_t text_bytes = 0;               // as rendered
  std::map<std::string, int64_t> ways;  // samples by RenderedChat::way

  double share() const {
    return tokens == 0 ? 0 : static_cast<double>(labels) / static_cast<double>(tokens);
  }
};

// Calls `append` with the ids of each chat that `next` returns (none at the end), and with a byte
// for each that says whether it counts. Requires a tokenizer that finds special tokens. Errors are
// those of `next`, of the renderer and of `append`.
absl::StatusOr<ChatCounts> EncodeChats(
    const std::function<absl::StatusOr<std::optional<ChatLine>>()>& next,
    const ChatTemplate& chat_template, const Tokenizer& tokenizer, LossOn loss_on,
    const std::function<absl::Status(std::span<const int32_t>, std::span<const uint8_t>)>& append);

// "12 chats, 11 samples, 1034 tokens, of which 40.2 % count as labels (11 by prefixes)", and what
// follows from it, each line ended.
std::string CountsText(const ChatCounts& counts);

}  // namespace oneflow
