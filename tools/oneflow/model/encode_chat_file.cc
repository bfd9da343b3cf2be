#include "tools/oneflow/model/encode_chat_file.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/model/text_progress.h"
#include "tools/oneflow/model/unnamed_tokens.h"
#include "training/chat/encode_chats.h"

namespace oneflow {

absl::StatusOr<TokenFile> EncodeChatFile(const std::string& path, const ChatTemplate& chat_template,
                                         const Tokenizer& tokenizer, LossOn loss_on) {
  ASSIGN_OR_RETURN(ChatLines lines, ChatLines::Open(path));
  ASSIGN_OR_RETURN(UnnamedTokens tokens, UnnamedTokens::Create(path, tokenizer));
  auto table = std::make_shared<ChatTable>();
  TextProgress progress(lines.size());
  const auto next = [&]() -> absl::StatusOr<std::optional<ChatLine>> {
    ASSIGN_OR_RETURN(std::optional<ChatLine> line, lines.Next());
    if (line) progress.Add(std::ssize(line->json), lines.position());
    return line;
  };
  const auto append = [&](std::span<const int32_t> ids, std::span<const uint8_t> marks) {
    table->Append(marks);
    table->EndChat();
    return tokens.Append(ids);
  };
  ASSIGN_OR_RETURN(const ChatCounts counts,
                   EncodeChats(next, chat_template, tokenizer, loss_on, append));
  if (counts.samples == 0) {
    return InputError(path, "holds no chat of which anything counts",
                      "use other chats, or --loss_on=all");
  }
  std::string text = CountsText(counts);
  absl::StripTrailingAsciiWhitespace(&text);
  PrintNotice(path + ": " + text);
  ASSIGN_OR_RETURN(TokenFile file, tokens.Finish());
  file.chats = std::move(table);
  return file;
}

}  // namespace oneflow
