// ChatRenderer: renders chats as text by the template of a model, and says which bytes of it count
// as labels. Templates are Jinja, which a script in Python renders (render_chats.py), in a process
// of its own.
//
//   ASSIGN_OR_RETURN(ChatRenderer renderer,
//                    ChatRenderer::Start(chat_template, tokenizer, LossOn::kAssistant));
//   RETURN_IF_ERROR(renderer.Send(R"({"messages": [{"role": "user", "content": "Hi"}, ...]})"));
//   ASSIGN_OR_RETURN(const RenderedChat chat, renderer.Receive("chats.jsonl:1"));
//   chat.text                  // "<|im_start|>user\nHi<|im_end|>\n..."
//   chat.counted               // the bytes of what the assistant wrote
//
// A few chats may be sent before the first is received: the script works meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/chat/chat_template.h"
#include "training/chat/token_mask.h"
#include "training/data/python_script.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

enum class LossOn : uint8_t { kAssistant, kCompletion, kAll };
absl::StatusOr<LossOn> ParseLossOn(std::string_view text);

struct RenderedChat {
  std::string text;
  std::vector<ByteSpan> counted;  // ascending
  // How they were found: "generation" (the template says it), "prefixes" (what it makes of the
  // messages before and up to an answer), "last" (of the last answer only), "completion", "all".
  std::string way;
  bool ended = true;    // the last of them ends with a special token
  std::string nothing;  // why no byte counts; then there is no text
};

struct ChatPrompt {
  std::string text;  // ends with the header of the answer
  std::string end;   // the special token that ends the answer; empty: none is known
};

class ChatRenderer {
 public:
  // `tokenizer` tells the special tokens. Errors: the template is no Jinja; python3 or jinja2 is
  // missing.
  static absl::StatusOr<ChatRenderer> Start(const ChatTemplate& chat_template,
                                            const Tokenizer& tokenizer, LossOn loss_on);
  // For Ask alone: a prompt.
  static absl::StatusOr<ChatRenderer> StartPrompts(const ChatTemplate& chat_template,
                                                   const Tokenizer& tokenizer);

  // `chat` is a line of JSON, without its line feed (docs/data.md, Chats).
  absl::Status Send(std::string_view chat);
  // The next of the chats that were sent. Input errors, which name `where`: it is no chat, or its
  // template refuses it. Another chat may be received after one.
  absl::StatusOr<RenderedChat> Receive(const std::string& where);

  // The text that asks for the answer to a chat.
  absl::StatusOr<ChatPrompt> Ask(std::string_view chat, const std::string& where);

 private:
  explicit ChatRenderer(PythonScript script) : script_(std::move(script)) {}
  static absl::StatusOr<ChatRenderer> StartScript(const ChatTemplate& chat_template,
                                                  const Tokenizer& tokenizer,
                                                  std::string_view mode);

  PythonScript script_;
};

}  // namespace oneflow
