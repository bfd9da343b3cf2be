#include "actor_runtime/hugging_face/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/hugging_face/strict_json.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "model.safetensors", kIndex[] = "model.safetensors.index.json";
constexpr size_t kComparedElements = size_t{1} << 18;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

absl::Status NoModel(const std::string& dir) {
  const std::string found =
      Exists(dir + "/pytorch_model.bin") || Exists(dir + "/pytorch_model.bin.index.json")
          ? ", but weights of torch's own format"
          : "";
  return InputError(dir, absl::StrCat("has neither ", kFile, " nor ", kIndex, found),
                    "save the model with save_pretrained of transformers");
}

std::string NameTensor(const SafetensorsFile& file, const FileTensor& tensor) {
  return absl::StrCat(file.path(), ": tensor ", Quoted(tensor.name));
}

// The tensors by their names without prefix.
using Tensors = std::map<std::string, ModelFolder::Entry, std::less<>>;

absl::StatusOr<Tensors> StripPrefix(const ModelFolder& folder, const FamilyFiles& files) {
  Tensors tensors;
  for (const auto& [name, entry] : folder.tensors()) {
    std::string_view stripped = name;
    if (stripped.starts_with(files.prefix)) stripped.remove_prefix(files.prefix.size());
    const auto [it, added] = tensors.emplace(stripped, entry);
    if (added) continue;
    return InputError(folder.dir(),
                      absl::StrCat("has two tensors of one meaning: ",
                                   Quoted(it->second.tensor->name), " and ", Quoted(name)),
                      "remove one of them");
  }
  return tensors;
}

absl::Status CheckTensor(const ModelFolder::Entry& entry, const Dims& expected) {
  const FileTensor& tensor = *entry.tensor;
  if (tensor.dims != expected) {
    return InputError(NameTensor(*entry.file, tensor),
                      absl::StrCat("has the shape ", ToString(tensor.dims),
                                   ", and the model of config.json ", ToString(expected)),
                      "use the config.json of these weights");
  }
  if (!tensor.type) {
    return InputError(NameTensor(*entry.file, tensor), "has elements of type " + tensor.type_name,
                      "save it as F32, BF16 or F16");
  }
  return absl::OkStatus();
}

// A tied model whose folder has the head, too.
absl::Status CheckSame(const ModelFolder::Entry& embedding, const ModelFolder::Entry& head) {
  RETURN_IF_ERROR(CheckTensor(head, embedding.tensor->dims));
  const int64_t elements = Product(head.tensor->dims);
  std::vector<float> a(std::min<int64_t>(elements, kComparedElements)), b(a.size());
  for (int64_t first = 0; first < elements; first += static_cast<int64_t>(a.size())) {
    const size_t count = std::min<int64_t>(elements - first, a.size());
    RETURN_IF_ERROR(embedding.file->Read(*embedding.tensor, first, std::span(a).first(count)));
    RETURN_IF_ERROR(head.file->Read(*head.tensor, first, std::span(b).first(count)));
    if (std::equal(a.begin(), a.begin() + count, b.begin())) continue;
    return InputError(NameTensor(*head.file, *head.tensor),
                      absl::StrCat("differs from ", Quoted(embedding.tensor->name),
                                   ", and config.json says \"tie_word_embeddings\": true"),
                      "write false there, or remove the tensor");
  }
  return absl::OkStatus();
}

bool IsIgnored(const FamilyFiles& files, std::string_view name) {
  int64_t block = 0;
  return std::any_of(files.ignored.begin(), files.ignored.end(), [&](std::string_view pattern) {
    return MatchesPattern(pattern, name, &block);
  });
}

absl::Status CheckKnown(const ModelFolder& folder, const FamilyFiles& files, const Tensors& tensors,
                        const std::set<std::string, std::less<>>& used) {
  const FileTensor* first = nullptr;
  int64_t more = 0;
  for (const auto& [name, entry] : tensors) {
    if (used.contains(name) || IsIgnored(files, name)) continue;
    if (first == nullptr) {
      first = entry.tensor;
    } else {
      ++more;
    }
  }
  if (first == nullptr) return absl::OkStatus();
  return InputError(folder.dir(),
                    absl::StrCat("has tensor ", Quoted(first->name), " ", ToString(first->dims),
                                 more > 0 ? absl::StrCat(" and ", more, " more") : "",
                                 ", which the model of config.json does not have"),
                    "use the config.json of these weights");
}

}  // namespace

absl::StatusOr<ModelFolder> ModelFolder::Open(const std::string& dir) {
  ModelFolder folder;
  folder.dir_ = dir;
  std::error_code ignored;
  if (!fs::is_directory(dir, ignored)) {
    return absl::NotFoundError(dir + ": is no folder; give one that transformers has saved to");
  }
  if (Exists(dir + "/" + kFile)) {
    RETURN_IF_ERROR(folder.Add(kFile));
  } else if (Exists(dir + "/" + kIndex)) {
    RETURN_IF_ERROR(folder.ReadIndex(dir + "/" + kIndex));
  } else {
    return NoModel(dir);
  }
  return folder;
}

absl::Status ModelFolder::Add(const std::string& name) {
  ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::Open(dir_ + "/" + name));
  files_.push_back(std::move(opened));
  const SafetensorsFile& file = files_.back();
  for (const FileTensor& tensor : file.header().tensors) {
    const auto [it, added] = tensors_.emplace(tensor.name, Entry{&file, &tensor});
    if (added) continue;
    return InputError(NameTensor(file, tensor), "is in " + it->second.file->path() + ", too",
                      "save the model again");
  }
  return absl::OkStatus();
}

absl::Status ModelFolder::ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const nlohmann::ordered_json json, ParseStrictJson(text, path));
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty()) {
    return InputError(path, "\"weight_map\" is missing, or no object with tensors",
                      "save the model again");
  }
  std::map<std::string, std::set<std::string>> names;  // by file
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
      return InputError(path, "tensor " + Quoted(tensor) + " has no name of a file in the folder",
                        "save the model again");
    }
    names[name].insert(tensor);
  }
  for (const auto& [file, expected] : names) {
    RETURN_IF_ERROR(Annotate(Add(file), path));
    for (const FileTensor& tensor : files_.back().header().tensors) {
      if (expected.contains(tensor.name)) continue;
      return InputError(
          path, "does not name tensor " + Quoted(tensor.name) + " for " + file + ", which has it",
          "save the model again");
    }
    for (const std::string& tensor : expected) {
      const auto it = tensors_.find(tensor);
      if (it != tensors_.end() && it->second.file == &files_.back()) continue;
      return InputError(
          path, "names tensor " + Quoted(tensor) + " for " + file + ", which does not have it",
          "save the model again");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MappedVariable>> MapVariables(const ModelFolder& folder,
                                                         const FamilyFiles& files,
                                                         std::span<const WantedVariable> variables,
                                                         int64_t vocab, bool tied) {
  ASSIGN_OR_RETURN(const Tensors tensors, StripPrefix(folder, files));
  std::set<std::string, std::less<>> used;
  std::vector<MappedVariable> mapped;
  for (const WantedVariable& wanted : variables) {
    int64_t block = -1;
    const VariableParts* const row = FindParts(files, wanted.name, &block);
    if (row == nullptr) {
      return InputError("variable " + wanted.name, "has no tensors in files of this family", "");
    }
    MappedVariable variable = {.name = wanted.name, .dims = wanted.dims, .vocab = vocab};
    for (const FilePart& part : ListParts(*row, wanted.dims)) {
      const std::string name = TensorName(part, block);
      const auto it = tensors.find(name);
      if (it == tensors.end()) {
        return InputError(
            folder.dir(),
            "has no tensor " + Quoted(FileName(files, name)) + ", for variable " + wanted.name,
            "use all files of the model, and the config.json of these weights");
      }
      RETURN_IF_ERROR(CheckTensor(it->second, TensorDims(part, wanted.dims, vocab)));
      used.insert(name);
      variable.parts.push_back(
          {.part = part, .file = it->second.file, .tensor = it->second.tensor});
    }
    mapped.push_back(std::move(variable));
  }
  const auto embedding = tensors.find(files.embedding), head = tensors.find(files.head);
  if (tied && embedding != tensors.end() && head != tensors.end()) {
    RETURN_IF_ERROR(CheckSame(embedding->second, head->second));
    used.insert(std::string(files.head));
  }
  RETURN_IF_ERROR(CheckKnown(folder, files, tensors, used));
  return mapped;
}

}  // namespace oneflow
