#include "training/hugging_face/beside_weights.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/stand_in.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/utf8.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// Ends of the names of files that are read by programs, and by people.
constexpr std::string_view kEnds[] = {".json", ".jinja", ".txt", ".model"};
constexpr std::string_view kBegins[] = {"README", "LICENSE", "LICENCE", "NOTICE"}, kPage = ".md";
constexpr std::string_view kVocabularies[] = {"tokenizer.json", "tokenizer.model", "vocab.json",
                                              "merges.txt"};
// Other files that this and other programs read; nobody misses the rest.
constexpr std::string_view kNeeded[] = {"added_tokens.json",       "chat_template.jinja",
                                        "chat_template.json",      "generation_config.json",
                                        "special_tokens_map.json", "tokenizer_config.json"};
// An index names shards that are written anew, and transformers loads an adapter that is described.
constexpr std::string_view kNotCarried[] = {".index.json", "adapter_config.json"};
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kTemplates[] = "additional_chat_templates";

template <typename Words>
bool EndsWithAny(std::string_view name, const Words& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return name.ends_with(word); });
}

bool IsForPeople(std::string_view name) {
  return name.ends_with(kPage) || std::ranges::any_of(kBegins, [&](std::string_view begin) {
           return name.starts_with(begin);
         });
}

// True for the files that a program would miss.
bool IsNeeded(const std::string& prefix, const std::string& name) {
  if (!prefix.empty()) return name.ends_with(".jinja");
  return IsVocabulary(name) || std::ranges::find(kNeeded, name) != std::end(kNeeded);
}

bool IsCarried(const fs::directory_entry& entry, const std::string& name, int64_t room) {
  const bool for_programs = EndsWithAny(name, kEnds);
  if (Utf8(name) != name || EndsWithAny(name, kNotCarried)) return false;
  if (!for_programs && (!IsForPeople(name) || name.ends_with(".py"))) return false;
  std::error_code error;
  const int64_t most = std::min(room, IsVocabulary(name) ? kMostVocabularyBytes : kMostFileBytes);
  return entry.is_regular_file(error) && entry.file_size(error) <= static_cast<uintmax_t>(most);
}

// Adds the files of `folder`, named with `prefix`, but those of `imported`.
absl::Status Read(const fs::path& folder, const std::string& prefix,
                  const std::set<std::string>& imported, BesideWeights& beside) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(*entry);
  }
  if (error) return InputError(folder.string(), "cannot be read: " + error.message());
  std::sort(entries.begin(), entries.end());
  for (const fs::directory_entry& entry : entries) {
    const std::string file = entry.path().filename(), name = prefix + file;
    if (file.starts_with('.') || imported.contains(name)) continue;
    const bool is_folder = entry.is_directory(error);
    if (name == kTemplates && is_folder) {
      RETURN_IF_ERROR(Read(entry.path(), name + "/", imported, beside));
      continue;
    }
    int64_t room = kMostBytes;
    for (const ModelFile& read : beside.files) room -= static_cast<int64_t>(read.bytes.size());
    const bool needed = IsNeeded(prefix, file);
    if (needed) RETURN_IF_ERROR(CheckLink(entry.path()));
    if (IsCarried(entry, file, room)) {
      absl::StatusOr<std::string> bytes = ReadFile(entry.path());
      if (bytes.ok()) {
        beside.files.push_back({name, *std::move(bytes)});
        continue;
      }
      if (needed) return bytes.status();
    }
    beside.left.push_back(name + (is_folder ? "/" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsVocabulary(std::string_view name) {
  return std::ranges::find(kVocabularies, name) != std::end(kVocabularies);
}

absl::StatusOr<BesideWeights> ReadBesideWeights(const ModelFolder& folder) {
  std::set<std::string> imported = {kIndexFile};
  for (const auto& [name, entry] : folder.tensors()) {
    imported.insert(fs::path(entry.file->path()).filename());
  }
  BesideWeights beside;
  RETURN_IF_ERROR(Read(folder.dir(), "", imported, beside));
  return beside;
}

}  // namespace oneflow
