// ChatTemplate: how a model writes chats as text, by the files of its folder.
//
//   ASSIGN_OR_RETURN(const ChatTemplate chat_template, ReadChatTemplate("models/qwen"));
//   chat_template.sources.at("default")       // "{% for message in messages %}..."
//   chat_template.variables.at("eos_token")   // "<|im_end|>"
//
// It parses no template: ChatRenderer does (chat_renderer.h).
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

struct ChatTemplate {
  std::map<std::string, std::string> sources;    // Jinja, by name
  std::map<std::string, std::string> variables;  // special tokens, by the names templates use
};

// The template of `folder`, which is one of Hugging Face, the folder of a step of a checkpoint, or
// one with the files of a tokenizer; or the tokenizer's file in it (as LoadTokenizer takes it). As
// transformers does, chat_template.jinja and additional_chat_templates/NAME.jinja count before the
// "chat_template" of tokenizer_config.json, which is a text or a list of named ones; then that of
// chat_template.json. Errors: there is none; a file is damaged.
absl::StatusOr<ChatTemplate> ReadChatTemplate(const std::string& folder);

// The same, but for the template: the text of this file.
absl::StatusOr<ChatTemplate> ReadChatTemplate(const std::string& folder, const std::string& file);

}  // namespace oneflow
