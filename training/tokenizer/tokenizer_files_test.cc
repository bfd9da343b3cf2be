#include "training/tokenizer/tokenizer_files.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/tokenizer/load_for_test.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

const std::string kData = "training/tokenizer/testdata";

TokenizerFiles ReadFiles(const std::string& spec, const Tokenizer& tokenizer) {
  return ReadTokenizerFiles(spec, tokenizer.id, tokenizer.stops, tokenizer.config).value();
}

std::string NamesIn(const std::string& folder) {
  std::string names;
  for (const char* name : {"merges.txt", "other", "tokenizer.json", "tokenizer.model",
                           "tokenizer_config.json", "vocab.json"}) {
    if (std::filesystem::exists(folder + "/" + name)) names += std::string(name) + " ";
  }
  return names;
}

}  // namespace

TEST_CASE("a tokenizer of each kind is the same after its files were written to a folder") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/data/tokenizer";
  for (const auto& [spec, names] :
       {std::pair<std::string, std::string>{"gpt2:" + kData, "merges.txt vocab.json "},
        {kData + "/llama3.json", "tokenizer.json "},
        {kData + "/bpe.model", "tokenizer.model "},
        {"gpt2:" + kData, "merges.txt vocab.json "}}) {
    INFO(spec);
    const Tokenizer before = Load(spec);
    const TokenizerFiles files = ReadFiles(spec, before);
    REQUIRE(WriteTokenizerFiles(files, folder).ok());
    CHECK(NamesIn(folder) == names);  // none of the tokenizer that was there before
    const Tokenizer after = Load(TokenizerSpecIn(folder));
    CHECK(after.id.SameAs(before.id));
    CHECK(after.stops == before.stops);
    CHECK(Encode(after, "the program") == Encode(before, "the program"));
    CHECK(ReadFiles(TokenizerSpecIn(folder), before) == files);
  }
}

TEST_CASE("the template of chats beside a tokenizer goes with its files") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/model", other = dir.path() + "/other";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(kData + "/llama3.json", folder + "/tokenizer.json");
  const Tokenizer tokenizer = Load(folder);
  REQUIRE(ReadFiles(folder, tokenizer).files.size() == 1);
  dir.Write("model/chat_template.jinja", "{{ messages }}");
  REQUIRE(WriteTokenizerFiles(ReadFiles(folder, tokenizer), other).ok());
  CHECK(ReadFile(other + "/chat_template.jinja").value() == "{{ messages }}");
  // One of an earlier tokenizer is removed.
  std::filesystem::remove(folder + "/chat_template.jinja");
  REQUIRE(WriteTokenizerFiles(ReadFiles(folder, tokenizer), other).ok());
  CHECK_FALSE(std::filesystem::exists(other + "/chat_template.jinja"));
}

TEST_CASE("the files beside those of a tokenizer say what stands around a text, and spaces") {
  const Json expected = Json::parse(*ReadFile(kData + "/expected_settings.json"));
  CHECK(expected["library"] == "transformers 4.57.1");
  std::set<std::string> hashes;
  for (const Json& one : expected["cases"]) {
    const TemporaryDirectory dir, copy;
    for (const auto& [name, copied] : one["files"].items()) {
      dir.Write(copied.get<std::string>(), *ReadFile(kData + "/" + name));
    }
    if (!one["config"].is_null()) dir.Write("tokenizer_config.json", one["config"].dump());
    if (!one["model"].is_null()) dir.Write("config.json", one["model"].dump());
    const Tokenizer tokenizer = Load(dir.path());  // of this folder
    // What travels says the same where there is no config.json.
    const std::string folder = copy.path() + "/tokenizer";
    REQUIRE(WriteTokenizerFiles(ReadFiles(dir.path(), tokenizer), folder).ok());
    const Tokenizer copied = Load(folder);
    CHECK(copied.id.SameAs(tokenizer.id));
    CHECK(copied.end_of_text == tokenizer.end_of_text);
    hashes.insert(tokenizer.id.hash);
    const auto eos = one["eos"].get<int32_t>();
    if (!one["bos"].is_null()) CHECK(tokenizer.begin_of_text == one["bos"].get<int32_t>());
    CHECK(std::find(tokenizer.stops.begin(), tokenizer.stops.end(), eos) != tokenizer.stops.end());
    CHECK(tokenizer.end_of_text == (eos == 701 ? 2 : eos));  // <|im_end|> ends a turn
    for (size_t i = 0; i < expected["texts"].size(); ++i) {
      const auto text = expected["texts"][i].get<std::string>();
      INFO(one["config"] << " " << one["model"] << " " << text);
      for (const Tokenizer* made : {&tokenizer, &copied}) {
        std::vector<int32_t> ids = made->begin;
        made->encode(text, &ids);
        ids.insert(ids.end(), made->end.begin(), made->end.end());
        REQUIRE(ids == one["ids"][i].get<std::vector<int32_t>>());
      }
    }
  }
  // Three folders of a .model say the same, two of llama2.json, and four of llama3.json.
  CHECK(hashes.size() == expected["cases"].size() - 6);
  CHECK_FALSE(hashes.contains(Load(kData + "/bpe.model").id.hash));  // by the model's own rules
}

TEST_CASE("BOS and EOS are what the files beside a tokenizer say, whatever their names") {
  const Json base = Json::parse(*ReadFile(kData + "/llama3.json"));
  const TemporaryDirectory dir;
  const auto load = [&](const Json& config, const Json& generation, const Json& model) {
    Json json = base;
    json["added_tokens"].push_back({{"id", 807}, {"content", "[END]"}, {"special", true}});
    json["added_tokens"].push_back({{"id", 808}, {"content", "[BEGIN]"}, {"special", true}});
    dir.Write("tokenizer.json", json.dump());
    dir.Write("tokenizer_config.json", config.dump());
    dir.Write("generation_config.json", generation.dump());
    dir.Write("config.json", model.dump());
    return Load(dir.path() + "/tokenizer.json");
  };
  using Ids = std::vector<int32_t>;
  const Json none = Json::object();
  Tokenizer made = load(none, none, none);
  CHECK(made.end_of_text == 805);  // <|end_of_text|>
  CHECK(made.stops == Ids{805, 806});
  CHECK_FALSE(made.begin_of_text);
  CHECK(made.begin == Ids{804});
  made = load({{"eos_token", "[END]"}, {"bos_token", {{"content", "[BEGIN]"}}}}, none, none);
  CHECK(made.end_of_text == 807);
  CHECK(made.begin_of_text == 808);
  CHECK(made.stops == Ids{805, 806, 807});
  CHECK(made.begin == Ids{804});  // what stands around a text is the post-processor's
  made = load({{"eos_token", "[END]"},
               {"bos_token", "[BEGIN]"},
               {"add_bos_token", true},
               {"add_eos_token", true},
               {"tokenizer_class", "LlamaTokenizer"}},
              none, none);
  CHECK(made.begin == Ids{808});
  CHECK(made.end == Ids{807});
  made =
      load({{"bos_token", "[BEGIN]"}, {"add_bos_token", false}}, none, {{"model_type", "llama"}});
  CHECK(made.begin.empty());
  // Ids of the model: one or a list; an end of a turn ends no document; some are of no token.
  made = load(none, {{"eos_token_id", {806, 807, 90000, -1}}}, {{"bos_token_id", 808}});
  CHECK(made.end_of_text == 807);
  CHECK(made.stops == Ids{805, 806, 807});
  CHECK(made.begin_of_text == 808);
  CHECK_THAT(made.config, Catch::Contains("\"eos_token\": \"[END]\""));  // it travels
  made = load({{"eos_token", "<|eot_id|>"}}, none, {{"eos_token_id", 806}});
  CHECK(made.end_of_text == 805);
  CHECK(made.stops == Ids{805, 806});
  dir.Write("tokenizer_config.json", "{");
  CHECK_THAT(std::string(LoadTokenizer(dir.path()).status().message()),
             Catch::Contains("tokenizer_config.json: is not a JSON object"));
  const TemporaryDirectory empty;
  CHECK_THAT(std::string(LoadTokenizer(empty.path()).status().message()),
             Catch::Contains("has no files of a tokenizer"));
}

TEST_CASE("a tokenizer of bytes has no files, and other files of a folder stay") {
  const TemporaryDirectory dir;
  const TokenizerFiles bytes = ReadFiles("bytes", Load("bytes"));
  CHECK(bytes.files.empty());
  CHECK(bytes.id == BytesTokenizerId());
  const std::string folder = dir.path() + "/tokenizer";
  REQUIRE(WriteTokenizerFiles(bytes, folder).ok());
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK(TokenizerSpecIn(folder).empty());
  REQUIRE(WriteTokenizerFiles(ReadFiles("gpt2:" + kData, Load("gpt2:" + kData)), folder).ok());
  REQUIRE(WriteFile(folder + "/other", "x").ok());
  REQUIRE(WriteTokenizerFiles(bytes, folder).ok());
  CHECK(NamesIn(folder) == "other ");
  std::filesystem::remove(folder + "/other");
  REQUIRE(WriteTokenizerFiles(bytes, folder).ok());
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("files of a tokenizer that cannot be read or written") {
  const TemporaryDirectory dir;
  const auto absent = ReadTokenizerFiles("gpt2:" + dir.path(), {"a", "b"}, {}, "");
  REQUIRE_FALSE(absent.ok());
  CHECK_THAT(std::string(absent.status().message()),
             Catch::Contains("vocab.json: cannot be read") &&
                 Catch::Contains("it is a file of the tokenizer"));
  const std::string file = dir.Write("file", "x");
  const absl::Status written =
      WriteTokenizerFiles({{"a", "b"}, {}, {{"tokenizer.json", "{}"}}}, file + "/tokenizer");
  CHECK_THAT(std::string(written.message()), Catch::Contains("tokenizer: cannot be made"));
}

}  // namespace oneflow
