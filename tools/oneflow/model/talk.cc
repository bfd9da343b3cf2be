#include "tools/oneflow/model/talk.h"

#include <utility>

#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<Talk> Talk::Begin(const proto::Run& run, const std::string& folder,
                                 const Tokenizer& tokenizer, const std::string& system) {
  ASSIGN_OR_RETURN(
      const ChatTemplate chat_template,
      ReadChatTemplate(run.has_tokenizer() ? run.tokenizer() : folder, run.chat_template()));
  ASSIGN_OR_RETURN(ChatRenderer renderer, ChatRenderer::StartPrompts(chat_template, tokenizer));
  Talk talk(std::move(renderer), tokenizer);
  if (!system.empty()) talk.messages_.push_back({{"role", "system"}, {"content", system}});
  return talk;
}

absl::StatusOr<TalkTurn> Talk::Say(const std::string& text) {
  messages_.push_back({{"role", "user"}, {"content", text}});
  ASSIGN_OR_RETURN(
      const ChatPrompt prompt,
      renderer_.Ask(JsonText(nlohmann::ordered_json{{"messages", messages_}}), "--prompt"));
  TalkTurn turn;
  tokenizer_->encode(prompt.text, &turn.tokens);
  const auto end = tokenizer_->special.find(prompt.end);
  if (end != tokenizer_->special.end()) turn.end = end->second;
  return turn;
}

void Talk::Answer(const std::string& text) {
  messages_.push_back({{"role", "assistant"}, {"content", text}});
}

}  // namespace oneflow
