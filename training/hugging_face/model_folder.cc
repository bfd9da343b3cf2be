#include "training/hugging_face/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "training/hugging_face/find_model.h"
#include "training/hugging_face/mxfp4.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "model.safetensors", kIndex[] = "model.safetensors.index.json";
constexpr size_t kComparedElements = size_t{1} << 18;

std::string NameTensor(const SafetensorsFile& file, const FileTensor& tensor) {
  return absl::StrCat(file.path(), ": tensor ", Quoted(tensor.name));
}

// The tensors by their names without prefix.
using Tensors = std::map<std::string, ModelFolder::Entry, std::less<>>;

// True of a tensor of another part of the model than its text part.
bool IsOther(std::span<const std::string> other_parts, std::string_view name) {
  return std::ranges::any_of(other_parts,
                             [&](const std::string& part) { return name.starts_with(part); });
}

absl::StatusOr<Tensors> ListTensors(const ModelFolder& folder, const FamilyFiles& files, bool tied,
                                    std::span<const std::string> other_parts) {
  Tensors tensors;
  for (const auto& [name, entry] : folder.tensors()) {
    const std::string_view stripped = StripPrefix(files, name);
    if (IsOther(other_parts, stripped)) continue;
    const auto [it, added] = tensors.emplace(stripped, entry);
    if (added) continue;
    return InputError(folder.dir(),
                      absl::StrCat("has two tensors of one meaning: ",
                                   Quoted(it->second.tensor->name), " and ", Quoted(name)),
                      "remove one of them");
  }
  // A tied model may have its table under the name of the head alone.
  const auto head = tensors.find(files.head);
  if (tied && head != tensors.end() && !tensors.contains(files.embedding)) {
    tensors.emplace(files.embedding, head->second);
    tensors.erase(head);
  }
  return tensors;
}

constexpr char kQuantized[] =
    "its weights are quantized: use the model with those before that, or save it as F32, BF16 or "
    "F16";

absl::Status BadType(const ModelFolder::Entry& entry) {
  const std::string& type = entry.tensor->type_name;
  return InputError(NameTensor(*entry.file, *entry.tensor), "has elements of type " + type,
                    type == "F64" ? "save it as F32, BF16 or F16" : kQuantized);
}

absl::Status CheckTensor(const ModelFolder::Entry& entry, const Dims& expected) {
  const FileTensor& tensor = *entry.tensor;
  if (tensor.bytes == 0 && Product(expected) > 0) {
    return InputError(
        NameTensor(*entry.file, tensor),
        absl::StrCat("has the shape ", ToString(tensor.dims), ", no elements"),
        "DeepSpeed ZeRO-3 saves such tensors where weights are not gathered: save the "
        "model with stage3_gather_16bit_weights_on_model_save, or with "
        "zero_to_fp32.py");
  }
  if (!tensor.type) return BadType(entry);
  if (tensor.dims != expected) {
    return InputError(NameTensor(*entry.file, tensor),
                      absl::StrCat("has the shape ", ToString(tensor.dims),
                                   ", and the model of config.json ", ToString(expected)),
                      "use the config.json of these weights");
  }
  return absl::OkStatus();
}

// True if two tensors of one shape have the same values.
absl::StatusOr<bool> AreSame(const ModelFolder::Entry& embedding, const ModelFolder::Entry& head) {
  RETURN_IF_ERROR(CheckTensor(head, embedding.tensor->dims));
  const int64_t elements = Product(head.tensor->dims);
  std::vector<float> a(std::min<int64_t>(elements, kComparedElements)), b(a.size());
  for (int64_t first = 0; first < elements; first += static_cast<int64_t>(a.size())) {
    const size_t count = std::min<int64_t>(elements - first, a.size());
    RETURN_IF_ERROR(embedding.file->Read(*embedding.tensor, first, std::span(a).first(count)));
    RETURN_IF_ERROR(head.file->Read(*head.tensor, first, std::span(b).first(count)));
    if (!std::equal(a.begin(), a.begin() + count, b.begin())) return false;
  }
  return true;
}

// A tied model whose folder has the head, too.
absl::Status CheckSame(const ModelFolder::Entry& embedding, const ModelFolder::Entry& head) {
  ASSIGN_OR_RETURN(const bool same, AreSame(embedding, head));
  if (same) return absl::OkStatus();
  return InputError(NameTensor(*head.file, *head.tensor),
                    absl::StrCat("differs from ", Quoted(embedding.tensor->name),
                                 ", and config.json says \"tie_word_embeddings\": true"),
                    "write false there, or remove the tensor");
}

// The tensor of a part. Weights of all experts may be in MXFP4, [experts, out, in].
absl::StatusOr<MappedPart> FindTensor(const Tensors& tensors, const FilePart& part,
                                      const std::string& name, const Dims& dims, int64_t vocab) {
  const bool may_be_packed = part.kept == 1 && part.rows == 1;
  const auto plain = tensors.find(name);
  const auto blocks = tensors.find(absl::StrCat(name, ToAbsl(kMxfp4Blocks)));
  const auto scales = tensors.find(absl::StrCat(name, ToAbsl(kMxfp4Scales)));
  if (plain == tensors.end() && may_be_packed && blocks != tensors.end() &&
      scales != tensors.end()) {
    MappedPart mapped = {.part = part,
                         .file = blocks->second.file,
                         .tensor = blocks->second.tensor,
                         .scales_file = scales->second.file,
                         .scales = scales->second.tensor};
    mapped.part.transposed = true;
    RETURN_IF_ERROR(CheckMxfp4({.blocks_file = mapped.file,
                                .scales_file = mapped.scales_file,
                                .blocks = mapped.tensor,
                                .scales = mapped.scales},
                               TensorDims(mapped.part, dims, vocab)));
    return mapped;
  }
  if (plain == tensors.end()) return absl::NotFoundError(name);
  RETURN_IF_ERROR(CheckTensor(plain->second, TensorDims(part, dims, vocab)));
  return MappedPart{.part = part, .file = plain->second.file, .tensor = plain->second.tensor};
}

// No weights, or those of others again.
bool IsIgnored(const FamilyFiles& files, std::string_view name) {
  int64_t block = 0;
  for (const auto& [copy, original] : files.copies) {
    if (VariableName(copy, files.blocks) == name) return true;
  }
  return std::any_of(files.ignored.begin(), files.ignored.end(), [&](std::string_view pattern) {
    return MatchesPattern(pattern, name, &block);
  });
}

absl::Status CheckKnown(const ModelFolder& folder, const FamilyFiles& files, const Tensors& tensors,
                        const std::set<const FileTensor*>& used) {
  const FileTensor* first = nullptr;
  int64_t more = 0;
  for (const auto& [name, entry] : tensors) {
    // GLM without shared experts has tensors of these, of no elements.
    if (used.contains(entry.tensor) || IsIgnored(files, name) || entry.tensor->bytes == 0) continue;
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

absl::Status NoTensor(const ModelFolder& folder, const FamilyFiles& files, const Tensors& tensors,
                      const std::string& name, const std::string& variable) {
  std::string what =
      "has no tensor " + Quoted(FileName(files, name)) + ", for variable " + variable;
  const auto indexed = folder.indexed().find(FileName(files, name));
  if (indexed != folder.indexed().end()) {
    what += ": its index names it for " + indexed->second + ", which does not have it";
  }
  const char* hint = "use all files of the model, and the config.json of these weights";
  // A quantized layer has other tensors instead of its weight: "q_proj.qweight".
  const std::string layer = name.ends_with(".weight") ? name.substr(0, name.rfind('.') + 1)
                                                      : absl::StrCat(name, ToAbsl(kMxfp4Blocks));
  const auto instead = tensors.lower_bound(layer);
  if (instead != tensors.end() && instead->first.starts_with(layer)) {
    const FileTensor& tensor = *instead->second.tensor;
    what += ", but " + Quoted(tensor.name) + " of " + tensor.type_name;
    if (!tensor.type) hint = kQuantized;
  }
  return InputError(folder.dir(), what, hint);
}

// Some releases of transformers load what an index does not name, and some do not.
absl::Status CheckIndexed(const ModelFolder& folder, const FileTensor& tensor,
                          const SafetensorsFile& file) {
  if (folder.indexed().empty() || folder.indexed().contains(tensor.name)) {
    return absl::OkStatus();
  }
  return InputError(folder.dir() + "/" + kIndex,
                    "does not name tensor " + Quoted(tensor.name) + ", which " +
                        fs::path(file.path()).filename().string() + " has",
                    "save the model again");
}

}  // namespace

absl::StatusOr<ModelFolder> ModelFolder::Open(const std::string& dir) {
  ModelFolder folder;
  folder.dir_ = dir;
  std::error_code ignored;
  if (!fs::is_directory(dir, ignored)) {
    return absl::NotFoundError(dir + ": is no folder; give one that transformers has saved to");
  }
  if (PathExists(dir + "/" + kFile)) {
    RETURN_IF_ERROR(folder.Add(kFile));
  } else if (PathExists(dir + "/" + kIndex)) {
    RETURN_IF_ERROR(folder.ReadIndex(dir + "/" + kIndex));
  } else {
    return NoWeights(dir);
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
  std::set<std::string> names, missing;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
      return InputError(path, "tensor " + Quoted(tensor) + " has no name of a file in the folder",
                        "save the model again");
    }
    names.insert(name);
    if (!PathExists(dir_ + "/" + name)) missing.insert(name);
    indexed_[tensor] = name;
  }
  if (!missing.empty()) {
    return InputError(
        path,
        absl::StrCat("names ", *missing.begin(), missing.size() > 1 ? " and other files" : "",
                     ", and ", missing.size(), " of its ", names.size(), " files ",
                     missing.size() > 1 ? "are" : "is", " missing"),
        "get all files of the model");
  }
  for (const std::string& file : names) RETURN_IF_ERROR(Annotate(Add(file), path));
  return absl::OkStatus();
}

std::vector<WantedVariable> ListVariables(const proto::Graph& graph) {
  std::vector<WantedVariable> variables;
  for (const proto::Op& op : graph.op()) {
    if (op.kind() != "variable") continue;
    Dims dims;
    for (const auto& dim : op.shape().dim()) dims.push_back(dim.size());
    variables.push_back({op.name(), std::move(dims)});
  }
  return variables;
}

std::vector<std::string> NameOtherParts(const FamilyFiles& files, int64_t read, int64_t further) {
  std::vector<std::string> parts(files.other_parts.begin(), files.other_parts.end());
  for (int64_t i = read; i < further; ++i) {
    parts.push_back(VariableName(files.block, files.blocks + i));
  }
  return parts;
}

absl::StatusOr<std::string> WhyNoNextTokens(const ModelFolder& folder, const FamilyFiles& files,
                                            bool tied) {
  ASSIGN_OR_RETURN(const Tensors tensors, ListTensors(folder, files, tied, {}));
  int64_t block = -1;
  const VariableParts* const row =
      FindParts(files, absl::StrCat(ToAbsl(kNextTokens), "norm_f.weight"), &block);
  const std::string name = TensorName(row->parts[0], block);
  if (!tensors.contains(name)) return "it has no tensor " + Quoted(FileName(files, name));
  for (const auto& [copy, of] : files.copies) {
    const auto a = tensors.find(VariableName(copy, files.blocks));
    const auto b = tensors.find(tied ? files.embedding : of);
    if (a == tensors.end() || b == tensors.end()) continue;
    const bool alike = a->second.tensor->dims == b->second.tensor->dims;
    ASSIGN_OR_RETURN(const bool same, alike ? AreSame(b->second, a->second) : false);
    if (same) continue;
    return absl::StrCat("its tensor ", Quoted(a->second.tensor->name), " differs from ",
                        Quoted(b->second.tensor->name), ", which such a block shares here");
  }
  return "";
}

std::vector<std::string> ListOtherParts(const ModelFolder& folder, const FamilyFiles& files,
                                        std::span<const std::string> other_parts) {
  std::vector<std::string> found;
  for (const std::string& part : other_parts) {
    const int64_t count = std::count_if(
        folder.tensors().begin(), folder.tensors().end(),
        [&](const auto& tensor) { return StripPrefix(files, tensor.first).starts_with(part); });
    if (count > 0) found.push_back(absl::StrCat(count, " tensors of ", part));
  }
  return found;
}

absl::StatusOr<std::vector<MappedVariable>> MapVariables(const ModelFolder& folder,
                                                         const FamilyFiles& files,
                                                         std::span<const WantedVariable> variables,
                                                         int64_t vocab, bool tied,
                                                         std::span<const std::string> other_parts) {
  ASSIGN_OR_RETURN(const Tensors tensors, ListTensors(folder, files, tied, other_parts));
  std::set<const FileTensor*> used;
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
      const absl::StatusOr<MappedPart> found = FindTensor(tensors, part, name, wanted.dims, vocab);
      if (absl::IsNotFound(found.status())) {
        return NoTensor(folder, files, tensors, name, wanted.name);
      }
      RETURN_IF_ERROR(found.status());
      RETURN_IF_ERROR(CheckIndexed(folder, *found->tensor, *found->file));
      used.insert(found->tensor);
      if (found->scales != nullptr) {
        RETURN_IF_ERROR(CheckIndexed(folder, *found->scales, *found->scales_file));
        used.insert(found->scales);
      }
      variable.parts.push_back(*found);
    }
    mapped.push_back(std::move(variable));
  }
  const auto embedding = tensors.find(files.embedding), head = tensors.find(files.head);
  if (tied && embedding != tensors.end() && head != tensors.end()) {
    RETURN_IF_ERROR(CheckSame(embedding->second, head->second));
    used.insert(head->second.tensor);
  }
  RETURN_IF_ERROR(CheckKnown(folder, files, tensors, used));
  return mapped;
}

}  // namespace oneflow
