// CommitParts.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "training/checkpoint/attempt.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/old_train.h"
#include "training/checkpoint/part.h"
#include "training/checkpoint/run_file.h"
#include "training/files/durable.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

std::string Text(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

// Makes the manifest without the files of texts.
absl::StatusOr<Manifest> MakeManifest(const proto::Plan& plan, const CheckpointInfo& info,
                                      int64_t attempt, std::span<const std::string> parts) {
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(plan.mesh(), "plan, mesh"));
  Manifest manifest;
  manifest.model = plan.model();
  manifest.plan = plan.fingerprint();
  manifest.mesh = ToString(mesh);
  manifest.step = info.step;
  manifest.seed = info.seed;
  manifest.tokens = info.tokens;
  manifest.tokenizer = info.tokenizer;
  manifest.mixture = info.mixture;
  manifest.records = info.records;
  if (info.tokenizer_files != nullptr) manifest.tokenizer_stops = info.tokenizer_files->stops;
  manifest.notes = info.notes;
  ASSIGN_OR_RETURN(manifest.variables, MergeParts(plan, info.step, attempt, parts));
  return manifest;
}

// Each file has as many bytes as its writer says. It is opened, because a folder's listing of files
// of other hosts may be out of date.
absl::Status CheckSizes(const std::string& folder, const std::map<std::string, int64_t>& sizes) {
  for (const auto& [name, size] : sizes) {
    const std::string path = absl::StrCat(folder, "/", name);
    const absl::StatusOr<RunFile> file = RunFile::Open(path);
    if (!file.ok()) return absl::InternalError(file.status().message());
    if (file->size() == size) continue;
    return absl::InternalError(absl::StrCat(path, ": has ", file->size(),
                                            " bytes, and its writer says that it has ", size));
  }
  return absl::OkStatus();
}

// A failed save of this step may have left files that no part names.
absl::Status RemoveOthers(const std::string& folder, const std::map<std::string, int64_t>& sizes,
                          const WriterOptions& options) {
  std::error_code error;
  std::vector<fs::path> others;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!sizes.contains(entry->path().filename())) others.push_back(entry->path());
  }
  for (const fs::path& path : others) {
    RETURN_IF_ERROR(MayWrite(options));
    if (!error) fs::remove_all(path, error);
  }
  return error ? WriteError(folder, "cannot be written to", error.value()) : absl::OkStatus();
}

absl::Status WriteText(const std::string& path, std::string_view text,
                       const WriterOptions& options) {
  RETURN_IF_ERROR(MayWrite(options));
  ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(path));
  RETURN_IF_ERROR(file.WriteAt(0, std::as_bytes(std::span(text))));
  RETURN_IF_ERROR(MayWrite(options));
  return file.Sync();
}

// A complete file.
StoredRun DescribeRun(const std::string& name, std::string_view text) {
  return {name, 0, static_cast<int64_t>(text.size()),
          ChecksumsOfBlocks(std::as_bytes(std::span(text)))};
}

absl::StatusOr<StoredRun> WriteRun(const std::string& folder, const std::string& name,
                                   std::string_view text, const WriterOptions& options) {
  RETURN_IF_ERROR(WriteText(folder + "/" + name, text, options));
  return DescribeRun(name, text);
}

// Not its parents, which are missing where the attempt is over.
absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directory(path, error);
  return error ? WriteError(path, "cannot be made", error.value()) : absl::OkStatus();
}

// The folder holds the tokenizer's files already, which may be of the model, too.
absl::StatusOr<std::vector<StoredRun>> WriteModelFiles(const std::string& folder,
                                                       const CheckpointInfo& info,
                                                       const WriterOptions& options) {
  std::set<std::string> folders;  // that were made
  std::vector<StoredRun> runs;
  for (const ModelFile& file : *info.model_files) {
    const auto is_same = [&](const auto& other) {
      return other.name == file.name && other.bytes == file.bytes;
    };
    const TokenizerFiles* tokenizer = info.tokenizer_files.get();
    if (tokenizer != nullptr && std::ranges::any_of(tokenizer->files, is_same)) {
      runs.push_back(DescribeRun(file.name, file.bytes));
      continue;
    }
    const std::string name = kModelFolder + file.name;
    for (size_t end = name.find('/'); end != name.npos; end = name.find('/', end + 1)) {
      const std::string made = folder + "/" + name.substr(0, end);
      if (!folders.insert(made).second) continue;
      RETURN_IF_ERROR(MayWrite(options));
      RETURN_IF_ERROR(MakeFolder(made));
    }
    ASSIGN_OR_RETURN(StoredRun run, WriteRun(folder, name, file.bytes, options));
    runs.push_back(std::move(run));
  }
  for (const std::string& made : folders) {
    RETURN_IF_ERROR(MayWrite(options));
    RETURN_IF_ERROR(SyncFolder(made));
  }
  return runs;
}

absl::Status Commit(const std::string& dir, const proto::Plan& plan, const CheckpointInfo& info,
                    const WriterOptions& options, std::span<const std::string> parts) {
  ASSIGN_OR_RETURN(Manifest manifest, MakeManifest(plan, info, options.attempt, parts));
  const std::string folder = TemporaryFolder(dir, options.attempt, info.step);
  const std::map<std::string, int64_t> sizes = FileSizes(manifest);
  RETURN_IF_ERROR(CheckSizes(folder, sizes));
  RETURN_IF_ERROR(RemoveOthers(folder, sizes, options));
  proto::Trained trained;
  *trained.mutable_recipe() = plan.recipe();
  *trained.mutable_optimizer() = info.optimizer ? *info.optimizer : plan.optimizer();
  ASSIGN_OR_RETURN(manifest.graph,
                   WriteRun(folder, "graph.textproto", Text(plan.graph()), options));
  ASSIGN_OR_RETURN(manifest.train, WriteRun(folder, "train.textproto", Text(trained), options));
  if (info.tokenizer_files != nullptr) {
    for (const TokenizerFiles::File& file : info.tokenizer_files->files) {
      ASSIGN_OR_RETURN(StoredRun run, WriteRun(folder, file.name, file.bytes, options));
      manifest.tokenizer_files.push_back(std::move(run));
    }
  }
  if (info.model_files != nullptr) {
    ASSIGN_OR_RETURN(manifest.model_files, WriteModelFiles(folder, info, options));
  }
  RETURN_IF_ERROR(WriteText(folder + "/manifest.json", ToJson(manifest), options));
  RETURN_IF_ERROR(MayWrite(options));
  RETURN_IF_ERROR(SyncFolder(folder));
  RETURN_IF_ERROR(MayWrite(options));
  return ReplaceFolder(folder, StepFolder(dir, info.step));
}

}  // namespace

absl::StatusOr<std::string> CommitParts(const std::string& dir, const proto::Plan& plan,
                                        const CheckpointInfo& info, const WriterOptions& options,
                                        std::span<const std::string> parts) {
  RETURN_IF_ERROR(OrEnded(Commit(dir, plan, info, options, parts), dir, options.attempt));
  return StepFolder(dir, info.step);
}

}  // namespace oneflow
