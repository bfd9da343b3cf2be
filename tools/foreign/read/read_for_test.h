// Helpers of the tests of readers: files in a folder of their own, and settings by name.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/base/temporary_directory.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {

using TestFiles = std::vector<std::pair<std::string, std::string>>;

// Reads the first file; the others lie beside it. `input` may say more.
inline absl::StatusOr<Facts> ReadFirst(const TestFiles& files, ForeignInput input = {}) {
  const TemporaryDirectory folder;
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = std::filesystem::path(folder.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    folder.Write(name, text);
  }
  input.files = {folder.path() + "/" + files.front().first};
  return ReadForeign(input);
}

// The same of a reader that must succeed.
inline Facts ReadWell(const TestFiles& files, const ForeignInput& input = {}) {
  absl::StatusOr<Facts> facts = ReadFirst(files, input);
  if (!facts.ok()) return {.system = std::string(facts.status().message())};
  return *std::move(facts);
}

// Facts of one reader, from the text of a file, "" if there is none, and the words of a command.
inline absl::StatusOr<Facts> ReadBy(const Reader& reader, const std::string& name,
                                    const std::string& text, const std::string& command,
                                    const ForeignInput& input = {}) {
  Sources sources;
  if (!command.empty()) {
    const std::vector<std::string> words = absl::StrSplit(command, ' ', absl::SkipEmpty());
    absl::StatusOr<Sources> read = ReadSources({}, words);
    if (!read.ok()) return read.status();
    sources = *std::move(read);
  }
  if (!text.empty()) {
    absl::StatusOr<SettingsFile> file = ParseSettingsFile(text, name, name);
    if (!file.ok()) return file.status();
    sources.files.push_back(*std::move(file));
  }
  if (!reader.knows(sources)) return absl::NotFoundError("of another system");
  return reader.read(sources, input);
}

// The list of a setting: "taken", ...; "lost" if it is in none.
inline std::string FindList(const Facts& facts, const std::string& name) {
  for (const Setting& setting : facts.settings) {
    if (setting.name == name) return std::string(ListText(setting.list));
  }
  return "lost";
}

inline std::string FindNote(const Facts& facts, const std::string& name) {
  for (const Setting& setting : facts.settings) {
    if (setting.name == name) return setting.note;
  }
  return "";
}

// Names of all settings in a list, blanks between.
inline std::string NamesIn(const Facts& facts, List list) {
  std::string names;
  for (const Setting& setting : facts.settings) {
    if (setting.list == list) absl::StrAppend(&names, names.empty() ? "" : " ", setting.name);
  }
  return names;
}

// "rule: numbers" of each broken rule, and what is asked, a line each.
inline std::string BrokenText(const Facts& facts) {
  std::string text;
  for (const BrokenRule& rule : facts.broken) {
    absl::StrAppend(&text, rule.rule, ": ", rule.numbers, "\n");
  }
  return text;
}

inline std::string AskedText(const Facts& facts) {
  std::string text;
  for (const Question& question : facts.questions) absl::StrAppend(&text, question.what, "\n");
  return text;
}

// "tensor x pipe x context x data, global = micro x M".
inline std::string ShapeText(const Facts& facts) {
  const auto text = [](const std::optional<int64_t>& value) {
    return value ? absl::StrCat(*value) : std::string("?");
  };
  return absl::StrCat(facts.degrees.tensor, " x ", facts.degrees.pipe, " x ", facts.degrees.context,
                      " x ", text(facts.degrees.data), ", ", text(facts.batch.global), " = ",
                      text(facts.batch.micro), " x ", text(facts.batch.micro_batches));
}

inline std::string ShardText(const Facts& facts) {
  const ShardingFacts& s = facts.sharding;
  return absl::StrCat(s.what, " in ", s.ways.value_or(-1), " x ", s.replicas, ", ", s.gather, ", ",
                      s.reduce);
}

inline constexpr char kTinyLlama[] = R"({"architectures": ["LlamaForCausalLM"],
  "model_type": "llama", "hidden_act": "silu", "hidden_size": 256, "intermediate_size": 512,
  "max_position_embeddings": 2048, "num_attention_heads": 8, "num_hidden_layers": 8,
  "num_key_value_heads": 4, "rms_norm_eps": 1e-05, "tie_word_embeddings": false,
  "vocab_size": 1000})";

}  // namespace oneflow::foreign
