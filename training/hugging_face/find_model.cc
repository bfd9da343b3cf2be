#include "training/hugging_face/find_model.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/stand_in.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "config.json", kRevision[] = "refs/main";

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct OtherWeights {
  std::string_view end, kind, hint;  // `end`: of the name of a file
};
constexpr std::string_view kSave = "save the model with save_pretrained of transformers";
constexpr std::string_view kGet =
    "get the folder of this model for transformers, with .safetensors";
constexpr OtherWeights kOtherWeights[] = {
    {"zero_to_fp32.py", "a checkpoint of DeepSpeed ZeRO",
     "make weights of it with zero_to_fp32.py, and save_pretrained of transformers"},
    {"adapter_model.safetensors", "an adapter without its model",
     "merge it with merge_and_unload of peft, and save the model"},
    {"adapter_model.bin", "an adapter without its model",
     "merge it with merge_and_unload of peft, and save the model"},
    {".safetensors", "weights under another name", kSave},
    {".gguf", "weights of llama.cpp", kGet},
    {".bin", "weights of torch's own format", kSave},
    {".pth", "weights of torch's own format", kGet},
    {".pt", "weights of torch's own format", kSave},
    {".ckpt", "weights of another program", kGet},
    {".h5", "weights of TensorFlow", kGet},
    {".msgpack", "weights of Flax", kGet},
    {".onnx", "weights of ONNX", kGet},
    {".npz", "weights of NumPy", kGet}};

// Null if there are none; sets the file that has them.
const OtherWeights* FindOtherWeights(const std::string& folder, std::string* file) {
  const std::vector<std::string> names = NamesIn(folder);
  for (const OtherWeights& other : kOtherWeights) {
    for (const std::string& name : names) {
      if (!name.ends_with(other.end) || name == "training_args.bin") continue;
      *file = name;
      return &other;
    }
  }
  return nullptr;
}

// The snapshot of `model`, a folder of the hub's cache.
absl::StatusOr<std::string> FindSnapshot(const fs::path& model) {
  const fs::path snapshots = model / "snapshots";
  const std::vector<std::string> names = NamesIn(snapshots);
  std::string revision = names.size() == 1 ? names[0] : "";
  if (PathExists(model / kRevision)) {
    ASSIGN_OR_RETURN(revision, ReadFile(model / kRevision));
    revision = std::string(absl::StripAsciiWhitespace(revision));
  }
  if (!revision.empty() && PathExists(snapshots / revision)) return (snapshots / revision).string();
  return InputError(
      model.string(),
      absl::StrCat("is a model in a cache of the hub, with ", names.size(), " snapshots, and ",
                   kRevision, " names none of them"),
      names.empty() ? "download it again" : "give one of them: " + (snapshots / names[0]).string());
}

// A folder without config.json.
absl::Status NoModel(const std::string& path) {
  const std::string none = absl::StrCat("has no ", kConfig);
  if (PathExists(fs::path(path) / "manifest.json")) {
    return InputError(path, none + ": it is a checkpoint of oneflow, which is imported already",
                      "give it to --checkpoint or --init_from");
  }
  for (const std::string& name : NamesIn(path)) {
    if (name.starts_with("step-") && PathExists(fs::path(path) / name / "manifest.json")) {
      return InputError(path, none + ": it holds checkpoints of oneflow, imported already",
                        "give it to --checkpoint or --init_from");
    }
    if (name.starts_with("models--")) {
      return InputError(path, none + ": it is a cache of the hub",
                        "give the folder of a model in it: " + (fs::path(path) / name).string());
    }
    if (PathExists(fs::path(path) / name / kConfig)) {
      return InputError(path, none, "give its folder " + (fs::path(path) / name).string());
    }
  }
  std::string file;
  if (const OtherWeights* other = FindOtherWeights(path, &file)) {
    return InputError(path, absl::StrCat(none, ", but ", ToAbsl(other->kind), ": ", file),
                      other->hint);
  }
  return InputError(path, none, "give a folder that transformers has saved a model to");
}

}  // namespace

bool PathExists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

absl::StatusOr<std::string> FindModel(const std::string& path) {
  std::error_code ignored;
  RETURN_IF_ERROR(CheckLink(path));
  if (!fs::exists(path, ignored)) {
    return InputError(path, "there is no such folder",
                      "give one that transformers has saved a model to; `hf download ORG/NAME "
                      "--local-dir=FOLDER` gets one of the hub");
  }
  if (!fs::is_directory(path, ignored)) {
    return InputError(path, "is a file, and a model is a folder", "give the folder that it is in");
  }
  if (PathExists(fs::path(path) / kConfig)) return path;
  if (PathExists(fs::path(path) / "snapshots")) return FindSnapshot(path);
  const fs::path full = fs::path(fs::absolute(path, ignored) / "").lexically_normal().parent_path();
  if (full.filename() == "snapshots") return FindSnapshot(full.parent_path());
  return NoModel(path);
}

absl::Status NoWeights(const std::string& folder) {
  std::string file;
  const OtherWeights* const other = FindOtherWeights(folder, &file);
  const std::string found =
      other == nullptr ? "" : absl::StrCat(", but ", ToAbsl(other->kind), ": ", file);
  return InputError(folder,
                    "has neither model.safetensors nor model.safetensors.index.json" + found,
                    other == nullptr ? kSave : other->hint);
}

}  // namespace oneflow
