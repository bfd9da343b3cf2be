#include "training/chat/chat_renderer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kScript =
#include "training/chat/render_chats.inc"
    ;

constexpr char kPurpose[] = "rendering chats";
constexpr std::string_view kWords[] = {"assistant", "completion", "all"};

// An answer of the script; an error of it is the user's.
absl::StatusOr<Json> ParseAnswer(std::string_view line, const std::string& where) {
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InternalError(absl::StrCat(kPurpose, ": the script answers no JSON"));
  }
  if (!json.contains("error")) return json;
  return InputError(where, json["error"].get<std::string>(), json["hint"].get<std::string>());
}

}  // namespace

absl::StatusOr<LossOn> ParseLossOn(std::string_view text) {
  for (size_t i = 0; i < std::size(kWords); ++i) {
    if (text == kWords[i]) return static_cast<LossOn>(i);
  }
  return InputError("--loss_on=" + std::string(text), "is no part of a chat",
                    "use assistant, completion or all");
}

absl::StatusOr<ChatRenderer> ChatRenderer::StartScript(const ChatTemplate& chat_template,
                                                       const Tokenizer& tokenizer,
                                                       std::string_view mode) {
  Json settings = {{"templates", chat_template.sources},
                   {"variables", chat_template.variables},
                   {"loss_on", mode},
                   {"special", Json::array()},
                   {"stops", Json::array()}};
  for (const auto& [text, id] : tokenizer.special) settings["special"].push_back(text);
  for (const int32_t id : tokenizer.stops) {
    // A model may name a stop that its tokenizer has not got.
    if (id < 0 || id >= tokenizer.vocab || tokenizer.bytes(id).empty()) continue;
    settings["stops"].push_back(tokenizer.bytes(id));
  }
  ASSIGN_OR_RETURN(
      PythonScript script,
      PythonScript::Start({.source = kScript,
                           .purpose = kPurpose,
                           .modules = {{"jinja2", "apt-get install python3-jinja2"}}}));
  ASSIGN_OR_RETURN(const std::string_view answer, script.Ask(JsonText(settings)));
  RETURN_IF_ERROR(ParseAnswer(answer, "the chat template").status());
  return ChatRenderer(std::move(script));
}

absl::StatusOr<ChatRenderer> ChatRenderer::Start(const ChatTemplate& chat_template,
                                                 const Tokenizer& tokenizer, LossOn loss_on) {
  return StartScript(chat_template, tokenizer, kWords[static_cast<size_t>(loss_on)]);
}

absl::StatusOr<ChatRenderer> ChatRenderer::StartPrompts(const ChatTemplate& chat_template,
                                                        const Tokenizer& tokenizer) {
  return StartScript(chat_template, tokenizer, "prompt");
}

absl::Status ChatRenderer::Send(std::string_view chat) {
  return script_.Write(absl::StrCat(ToAbsl(chat), "\n"));
}

absl::StatusOr<RenderedChat> ChatRenderer::Receive(const std::string& where) {
  ASSIGN_OR_RETURN(const std::optional<std::string_view> line, script_.ReadLine());
  if (!line) return absl::UnavailableError(absl::StrCat(kPurpose, ": python3 ended early"));
  ASSIGN_OR_RETURN(Json json, ParseAnswer(*line, where));
  RenderedChat chat;
  if (json.contains("nothing")) {
    chat.nothing = json["nothing"].get<std::string>();
    return chat;
  }
  chat.text = std::move(json["text"].get_ref<std::string&>());
  chat.way = json.value("way", "");
  chat.ended = json.value("ended", true);
  for (const Json& span : json["spans"]) {
    chat.counted.push_back({span[0].get<size_t>(), span[1].get<size_t>()});
  }
  return chat;
}

absl::StatusOr<ChatPrompt> ChatRenderer::Ask(std::string_view chat, const std::string& where) {
  ASSIGN_OR_RETURN(const std::string_view line, script_.Ask(chat));
  ASSIGN_OR_RETURN(const Json json, ParseAnswer(line, where));
  return ChatPrompt{json["text"].get<std::string>(), json["end"].get<std::string>()};
}

}  // namespace oneflow
