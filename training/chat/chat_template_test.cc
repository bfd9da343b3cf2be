#include "training/chat/chat_template.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

using Texts = std::map<std::string, std::string>;

void Put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  REQUIRE(WriteFile(path, text).ok());
}

}  // namespace

TEST_CASE("a template is found where transformers finds it, the newest form first") {
  const TemporaryDirectory folder;
  const std::string path = folder.path();
  Put(path + "/chat_template.json", R"({"chat_template": "of a processor"})");
  CHECK(ReadChatTemplate(path)->sources == Texts{{"default", "of a processor"}});
  Put(path + "/tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "a"},
                                                             {"name": "tool_use", "template": "b"}]})");
  CHECK(ReadChatTemplate(path)->sources == Texts{{"default", "a"}, {"tool_use", "b"}});
  Put(path + "/tokenizer_config.json", R"({"chat_template": "one"})");
  CHECK(ReadChatTemplate(path)->sources == Texts{{"default", "one"}});
  Put(path + "/chat_template.jinja", "file");
  Put(path + "/additional_chat_templates/tool_use.jinja", "tools");
  Put(path + "/additional_chat_templates/README.md", "no template");
  CHECK(ReadChatTemplate(path)->sources == Texts{{"default", "file"}, {"tool_use", "tools"}});
  CHECK(ReadChatTemplate(path + "/tokenizer.json")->sources.size() == 2);
  CHECK(ReadChatTemplate("gpt2:" + path)->sources.size() == 2);
  // A step of a checkpoint has the files of its model in a folder.
  Put(path + "/model/chat_template.jinja", "of the model");
  CHECK(ReadChatTemplate(path)->sources == Texts{{"default", "of the model"}});
  Put(path + "/own.jinja", "own");
  CHECK(ReadChatTemplate(path, path + "/own.jinja")->sources == Texts{{"default", "own"}});
}

TEST_CASE("special tokens are variables, by the names of the files or else those of the class") {
  const TemporaryDirectory folder;
  const std::string path = folder.path();
  Put(path + "/chat_template.jinja", "x");
  Put(path + "/tokenizer_config.json",
      R"({"bos_token": {"content": "<bos>", "lstrip": false}, "pad_token": null, "eos_token": "<eos>",
          "extra_special_tokens": {"image_token": "<image>"}, "tokenizer_class": "LlamaTokenizer"})");
  Put(path + "/special_tokens_map.json", R"({"eos_token": "</s>", "pad_token": "<pad>"})");
  CHECK(ReadChatTemplate(path)->variables == Texts{{"bos_token", "<bos>"},
                                                   {"eos_token", "<eos>"},
                                                   {"image_token", "<image>"},
                                                   {"pad_token", "<pad>"},
                                                   {"unk_token", "<unk>"}});
  Put(path + "/tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  Put(path + "/special_tokens_map.json", "{}");
  CHECK(ReadChatTemplate(path)->variables.at("eos_token") == "<|endoftext|>");
}

TEST_CASE("a folder without a template, or with a damaged one, is refused with what to do") {
  const TemporaryDirectory folder;
  const std::string path = folder.path();
  const auto message = [&] { return std::string(ReadChatTemplate(path).status().message()); };
  CHECK(message() == path +
                         ": holds no template of chats: no chat_template.jinja, and no "
                         "chat_template in tokenizer_config.json; take the folder of a model that "
                         "was tuned for chats, or name a template with --chat_template=FILE");
  Put(path + "/tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  CHECK(message() == path +
                         "/tokenizer_config.json: its chat_template is neither text nor a list of "
                         "named templates; download it again");
  Put(path + "/tokenizer_config.json", "[");
  CHECK(message() == path + "/tokenizer_config.json: is not a JSON object; download it again");
  CHECK_THAT(std::string(ReadChatTemplate(path, path + "/none.jinja").status().message()),
             Catch::Contains("none.jinja") || Catch::Contains("is not a JSON object"));
}

}  // namespace oneflow
