#include "training/tokenizer/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr char kJson[] = "tokenizer.json", kModel[] = "tokenizer.model", kVocab[] = "vocab.json",
               kMerges[] = "merges.txt", kConfig[] = "tokenizer_config.json",
               kChats[] = "chat_template.jinja";

// The paths of the files of a spec, with the names that they are kept under.
std::vector<std::pair<std::string, std::string>> ListFiles(const std::string& spec) {
  if (spec.starts_with(kGpt2)) {
    const std::string folder = spec.substr(kGpt2.size()) + "/";
    return {{folder + kVocab, kVocab}, {folder + kMerges, kMerges}};
  }
  std::error_code ignored;
  if (fs::is_directory(spec, ignored)) return ListFiles(TokenizerSpecIn(spec));
  if (spec.ends_with(".json")) return {{spec, kJson}};
  if (spec.ends_with(".model")) return {{spec, kModel}};
  return {};
}

// The template of chats beside the files of a spec; empty: there is none.
std::string FindChatTemplate(const std::vector<std::pair<std::string, std::string>>& files) {
  std::error_code ignored;
  if (files.empty()) return "";
  const fs::path path = fs::path(files[0].first).parent_path() / kChats;
  return fs::exists(path, ignored) ? path.string() : "";
}

}  // namespace

absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& spec, const TokenizerId& id,
                                                  const std::vector<int32_t>& stops,
                                                  const std::string& config) {
  TokenizerFiles made{id, stops, {}};
  auto files = ListFiles(spec);
  const std::string chats = FindChatTemplate(files);
  if (!chats.empty()) files.emplace_back(chats, kChats);
  for (const auto& [path, name] : files) {
    ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, "it is a file of the tokenizer"));
    made.files.push_back({name, std::move(bytes)});
  }
  if (!config.empty()) made.files.push_back({kConfig, config});
  return made;
}

absl::Status WriteTokenizerFiles(const TokenizerFiles& files, const std::string& folder) {
  std::error_code error;
  if (!files.files.empty() && !fs::is_directory(folder, error)) {
    fs::create_directories(folder, error);
    if (error) return WriteError(folder, "cannot be made", error.value());
  }
  for (const TokenizerFiles::File& file : files.files) {
    RETURN_IF_ERROR(WriteFile(folder + "/" + file.name, file.bytes));
  }
  for (const char* name : {kJson, kModel, kVocab, kMerges, kConfig, kChats}) {
    const bool kept =
        std::any_of(files.files.begin(), files.files.end(),
                    [&](const TokenizerFiles::File& file) { return file.name == name; });
    const std::string path = folder + "/" + name;
    if (kept || !fs::exists(path, error)) continue;
    fs::remove(path, error);
    if (error) return WriteError(path, "cannot be removed", error.value());
  }
  if (files.files.empty() && fs::is_directory(folder, error) && fs::is_empty(folder, error)) {
    fs::remove(folder, error);
  }
  return absl::OkStatus();
}

std::string TokenizerSpecIn(const std::string& folder) {
  std::error_code ignored;
  for (const char* name : {kJson, kModel}) {
    std::string path = folder + "/" + name;
    if (fs::exists(path, ignored)) return path;
  }
  return fs::exists(folder + "/" + kVocab, ignored) ? std::string(kGpt2) + folder : "";
}

}  // namespace oneflow
