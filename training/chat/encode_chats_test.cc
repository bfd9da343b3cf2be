#include "training/chat/encode_chats.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

const std::string kTestData = "training/chat/testdata/";

const Tokenizer& TestTokenizer() {
  static const Tokenizer tokenizer =
      LoadTokenizer(kTestData + "tokenizer.json", {.special = true}).value();
  return tokenizer;
}

ChatTemplate MakeTemplate(const std::string& source) {
  return {{{"default", source}}, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
}

ChatTemplate NamedTemplate(const std::string& name) {
  return MakeTemplate(ReadFile(kTestData + name + ".jinja").value());
}

struct Encoded {
  std::vector<int32_t> ids;
  std::vector<uint8_t> marks;
};

struct Outcome {
  absl::StatusOr<ChatCounts> counts;
  std::vector<Encoded> chats;
};

Outcome EncodeLines(const ChatTemplate& chat_template, const std::vector<std::string>& lines,
                    LossOn loss_on = LossOn::kAssistant) {
  Outcome outcome;
  size_t at = 0;
  const auto next = [&]() -> absl::StatusOr<std::optional<ChatLine>> {
    if (at == lines.size()) return std::nullopt;
    const std::string& line = lines[at++];
    return ChatLine{line, "chats.jsonl:" + std::to_string(at)};
  };
  outcome.counts = EncodeChats(
      next, chat_template, TestTokenizer(), loss_on,
      [&](std::span<const int32_t> ids, std::span<const uint8_t> marks) {
        outcome.chats.push_back({{ids.begin(), ids.end()}, {marks.begin(), marks.end()}});
        return absl::OkStatus();
      });
  return outcome;
}

// Renders a chat; a script is started once for each template.
absl::StatusOr<RenderedChat> Render(const ChatTemplate& chat_template, const std::string& chat,
                                    LossOn loss_on, const std::string& where = "chats.jsonl:1") {
  static std::map<std::string, ChatRenderer> renderers;
  const std::string key =
      Json(chat_template.sources).dump() + std::to_string(static_cast<int>(loss_on));
  auto found = renderers.find(key);
  if (found == renderers.end()) {
    ASSIGN_OR_RETURN(ChatRenderer made,
                     ChatRenderer::Start(chat_template, TestTokenizer(), loss_on));
    found = renderers.emplace(key, std::move(made)).first;
  }
  RETURN_IF_ERROR(found->second.Send(chat));
  return found->second.Receive(where);
}

// The text of a chat: what counts is in brackets.
std::string Show(const ChatTemplate& chat_template, const std::string& chat,
                 LossOn loss_on = LossOn::kAssistant) {
  const auto rendered = Render(chat_template, chat, loss_on);
  if (!rendered.ok()) return std::string(rendered.status().message());
  if (!rendered->nothing.empty()) return "nothing";
  std::string text;
  size_t at = 0;
  for (const ByteSpan& span : rendered->counted) {
    text += rendered->text.substr(at, span.begin - at) + "[" +
            rendered->text.substr(span.begin, span.end - span.begin) + "]";
    at = span.end;
  }
  return text + rendered->text.substr(at);
}

// Writes each message as "role:content;".
const char kPlain[] =
    "{% for m in messages %}{{ m.role + ':' }}{{ m.content if m.content is string else "
    "m.content[0].text "
    "}}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{{ ';' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

std::string ShowPlain(const std::string& chat, LossOn loss_on = LossOn::kAssistant) {
  return Show(MakeTemplate(kPlain), chat, loss_on);
}

}  // namespace

TEST_CASE("ids and masks equal those of transformers, of five kinds of templates") {
  const Json cases = Json::parse(ReadFile(kTestData + "expected.json").value());
  REQUIRE(cases.size() == 45);
  std::map<std::string, int64_t> ways;
  for (const std::string name : {"chatml", "headers", "inst", "marked", "thinks"}) {
    std::vector<std::string> chats;
    std::vector<Json> expected;
    for (const Json& entry : cases) {
      if (entry["template"] != name) continue;
      chats.push_back(entry["chat"]);
      if (!entry["ids"].empty()) expected.push_back(entry);
    }
    const Outcome outcome = EncodeLines(NamedTemplate(name), chats);
    REQUIRE(outcome.counts.ok());
    CHECK(outcome.counts->chats == 9);
    CHECK(outcome.counts->samples == std::ssize(expected));
    REQUIRE(outcome.chats.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(name, expected[i]["chat"]);
      CHECK(Json(outcome.chats[i].ids) == expected[i]["ids"]);
      CHECK(Json(outcome.chats[i].marks) == expected[i]["mask"]);
    }
    for (const auto& [way, samples] : outcome.counts->ways) ways[way] += samples;
  }
  // "thinks" renders an answer otherwise once another follows.
  CHECK(ways == std::map<std::string, int64_t>{{"generation", 8}, {"last", 6}, {"prefixes", 30}});
}

TEST_CASE("chats of all forms become messages") {
  const std::string expected = "system:S;user:a;assistant:[b;]user:c;assistant:[d;]";
  CHECK(ShowPlain(R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", )"
                  R"("content": "a"}, {"role": "assistant", "content": [{"type": "text", "text": )"
                  R"("b"}]}, {"role": "user", "content": "c", "name": null}, )"
                  R"({"role": "assistant", "content": "d"}]})") == expected);
  CHECK(ShowPlain(R"({"system": "S", "conversations": [{"from": "human", "value": "a"}, )"
                  R"({"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}, )"
                  R"({"from": "gpt", "value": "d"}]})") == expected);
  CHECK(
      ShowPlain(R"({"conversations": [{"from": "human", "value": "a"}, {"from": )"
                R"("function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"}, )"
                R"({"from": "observation", "value": "b"}, {"from": "gpt", "value": "c"}]})") ==
      R"(user:a;assistant:[[{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}];])"
      R"(tool:b;assistant:[c;])");
  CHECK(ShowPlain(R"({"prompt": "a", "completion": "b"})") == "user:a;assistant:[b;]");
  // Of a prompt no answer counts.
  CHECK(ShowPlain(R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", )"
                  R"("content": "b"}, {"role": "user", "content": "c"}], "completion": )"
                  R"([{"role": "assistant", "content": "d"}]})") ==
        "user:a;assistant:b;user:c;assistant:[d;]");
}

TEST_CASE("--loss_on says which text counts") {
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, )"
      R"({"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})";
  CHECK(ShowPlain(chat, LossOn::kCompletion) == "user:a;assistant:b;user:c;assistant:[d;]");
  CHECK(ShowPlain(chat, LossOn::kAll) == "[user:a;assistant:b;user:c;assistant:d;]");
  CHECK(ShowPlain(R"({"messages": [{"role": "user", "content": "a"}]})") == "nothing");
  CHECK(ParseLossOn("completion").value() == LossOn::kCompletion);
  CHECK(ParseLossOn("user").status().message() ==
        "--loss_on=user: is no part of a chat; use assistant, completion or all");
}

TEST_CASE("templates have what transformers gives them") {
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "<&ö"}, {"role": "assistant", "content": "b"}], )"
      R"("tools": "[{\"name\": \"f\"}]", "documents": [{"title": "t"}], )"
      R"("chat_template_kwargs": {"thinking": true}})";
  const auto show = [&](const std::string& source) {
    return Show(MakeTemplate(source), chat, LossOn::kAll);
  };
  CHECK(
      show(
          "{{ messages[0].content | tojson }}{{ tools | tojson(indent=1) }}{{ documents[0].title }}"
          "{{ bos_token }}{{ thinking }}{{ add_generation_prompt }}{{ pad_token is defined }}") ==
      "[\"<&ö\"[\n {\n  \"name\": \"f\"\n }\n]t<s>TrueFalseFalse]");
  CHECK(show("{{ strftime_now('%Y') | length }}{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}"
             "{% endif %}{{ i }}{% endfor %}  {% set n = namespace(a=1) %}\n  {% set n.a = 2 %}\n"
             "{{ n.a }}{{ dict(a=3)['a'] }}") == "[41  23]");
  ChatTemplate two = MakeTemplate("plain");
  two.sources["tool_use"] = "tools";
  CHECK(Show(two, chat, LossOn::kAll) == "[tools]");
  CHECK(Show(two, R"({"messages": [{"role": "user", "content": "a"}]})", LossOn::kAll) ==
        "[plain]");
}

TEST_CASE("an answer ends with the token by which the model stops") {
  // No token ends an answer but the header of the next message, which the tokenizer says to stop
  // by.
  Tokenizer tokenizer = LoadTokenizer(kTestData + "tokenizer.json", {.special = true}).value();
  tokenizer.stops = {tokenizer.special.at("[INST]")};
  auto renderer = ChatRenderer::Start(
      MakeTemplate("{% for m in messages %}{{ '[INST]' if m.role == 'user' else '[/INST]' }}"
                   "{{ m.content }}{% endfor %}{% if add_generation_prompt %}[/INST]{% endif %}"),
      tokenizer, LossOn::kAssistant);
  REQUIRE(renderer.ok());
  REQUIRE(renderer
              ->Send(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", )"
                     R"("content": "b"}, {"role": "user", "content": "c"}]})")
              .ok());
  const auto chat = renderer->Receive("here");
  REQUIRE(chat.ok());
  CHECK(chat->text == "[INST]a[/INST]b[INST]c");
  CHECK(chat->counted == std::vector<ByteSpan>{{14, 21}});
}

TEST_CASE("a prompt ends with the header of the answer") {
  auto renderer = ChatRenderer::StartPrompts(NamedTemplate("chatml"), TestTokenizer());
  REQUIRE(renderer.ok());
  const auto prompt =
      renderer->Ask(R"({"messages": [{"role": "user", "content": "Hi"}]})", "--prompt");
  REQUIRE(prompt.ok());
  CHECK(prompt->text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  CHECK(prompt->end == "<|im_end|>");
}

TEST_CASE("what cannot be taken is refused with its line, the reason and what to do") {
  const auto refused = [](const std::string& chat, const std::string& source = kPlain,
                          LossOn loss_on = LossOn::kAssistant) {
    const absl::Status status =
        Render(MakeTemplate(source), chat, loss_on, "chats.jsonl:2").status();
    CHECK(ExitCode(status) == 2);
    return std::string(status.message());
  };
  const std::string correct = "; correct the chat, or leave it out";
  CHECK(refused("{") ==
        "chats.jsonl:2: is no JSON: Expecting property name enclosed in double quotes at character "
        "2" +
            correct);
  CHECK(refused("[1]") == "chats.jsonl:2: is no JSON object" + correct);
  CHECK(refused("\xff") ==
        "chats.jsonl:2: is no JSON: 'utf-8' codec can't decode byte 0xff in position "
        "0: invalid start byte" +
            correct);
  CHECK(refused(std::string(100000, '[')) ==
        "chats.jsonl:2: its values are nested too deep" + correct);
  CHECK(refused(R"({"messages": [{"role": "user", "content": "\ud800"}]})", kPlain, LossOn::kAll) ==
        "chats.jsonl:2: holds half of a surrogate pair, which is no character" + correct);
  CHECK(
      refused(R"({"text": "a"})") ==
      "chats.jsonl:2: holds no chat; a chat is \"messages\", \"conversations\", or \"prompt\" and "
      "\"completion\"");
  CHECK(refused(R"({"messages": []})") == "chats.jsonl:2: holds no message" + correct);
  CHECK(refused(R"({"messages": "a"})") ==
        "chats.jsonl:2: \"messages\" is text, but no JSON: Expecting value" + correct);
  CHECK(refused(R"({"messages": ["a"]})") == "chats.jsonl:2: message 1 is no object" + correct);
  CHECK_THAT(
      refused(R"({"messages": [{"role": "asistant", "content": "a"}]})"),
      Catch::StartsWith("chats.jsonl:2: message 1 has the role 'asistant', which the template "
                        "does not name; use one of assistant, "));
  CHECK_THAT(
      refused(R"({"conversations": [{"from": "bot", "value": "a"}]})"),
      Catch::StartsWith("chats.jsonl:2: message 1 is from 'bot', which is no role; use one of "));
  CHECK(refused(R"({"messages": [{"content": "a"}]})") ==
        "chats.jsonl:2: message 1 has no \"role\"; name who speaks: user, assistant, ...");
  CHECK(refused(R"({"messages": [{"role": "user", "content": 1}]})") ==
        "chats.jsonl:2: the \"content\" of message 1 is neither text nor a list of parts" +
            correct);
  CHECK(refused(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})") ==
        "chats.jsonl:2: message 1 holds a part that is no text; leave it out");
  CHECK(refused(R"({"messages": [{"role": "user", "content": "a"}], "tools": "x"})") ==
        "chats.jsonl:2: \"tools\" is text, but no JSON: Expecting value" + correct);
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  CHECK(refused(chat,
                "{% if messages[0].content %}{{ raise_exception('no a, please') }}{% endif %}"
                "{% for m in messages %}{{ m.content }}{% endfor %}") ==
        "chats.jsonl:2: its template refuses it: no a, please" + correct);
  CHECK(refused(chat, "{{ messages[0].content + 1 if messages[0].content else 'x' }}") ==
        "chats.jsonl:2: its template refuses it: TypeError: can only concatenate str (not \"int\") "
        "to "
        "str" +
            correct);
  CHECK(
      refused(chat, "{{ ''.__class__.mro() if messages[0].content else 'x' }}") ==
      "chats.jsonl:2: its template refuses it: access to attribute '__class__' of 'str' object is "
      "unsafe." +
          correct);
  // Which text is the assistant's cannot be known: the first line depends on all messages.
  CHECK(
      refused(chat, "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}") ==
      "chats.jsonl:2: which of its text the assistant wrote is not known: its template has no {% "
      "generation %}, and what it makes of the messages before an answer does not begin what it "
      "makes "
      "of all; mark the answers in the template by {% generation %}, or train on all of it by "
      "--loss_on=all");
  CHECK(
      EncodeLines(MakeTemplate("{% for %}"), {}).counts.status().message() ==
      "the chat template: the template 'default' is no Jinja, line 1: Expected an expression, got "
      "'end of statement block'; correct it, or name another folder");
  ChatTemplate none;
  none.sources["tool_use"] = "x";
  CHECK(Show(none, chat) ==
        "chats.jsonl:1: none of its templates is the default one: tool_use; call one of them "
        "default");
}

TEST_CASE("what is printed of chats") {
  ChatCounts counts = {
      .chats = 12, .samples = 11, .tokens = 1000, .labels = 402, .ways = {{"prefixes", 11}}};
  CHECK(CountsText(counts) ==
        "12 chats, 11 samples, 1000 tokens, of which 40.2 % count as labels (11 by prefixes)\n"
        "1 chats are left out, because nothing of them counts\n");
  counts.chats = 11;
  counts.endless = 2;
  CHECK_THAT(CountsText(counts), Catch::Contains("\nwarning: in 2 chats no special token ends"));
  counts.endless = 0, counts.ways = {{"last", 11}};
  CHECK_THAT(CountsText(counts),
             Catch::Contains("(11 by last)\nof 11 chats only the last answer counts"));
}

}  // namespace oneflow
