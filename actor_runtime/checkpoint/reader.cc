// CheckpointReader and LatestCheckpoint.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "actor_runtime/checkpoint/checkpoint.h"
#include "actor_runtime/checkpoint/manifest.h"
#include "actor_runtime/checkpoint/run_file.h"
#include "actor_runtime/checkpoint/slice_copy.h"
#include "actor_runtime/data/mapped_file.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename Message>
absl::Status ParseBytes(std::span<const std::byte> bytes, const std::string& path,
                        Message* message) {
  const absl::Status parsed = ParseText(TextOf(bytes), path, "text proto", message);
  if (!parsed.ok()) return absl::DataLossError(absl::StrCat(parsed.message(), kUseAnother));
  if (message->ByteSizeLong() > 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": is empty", kUseAnother));
}

absl::Status MissingFile(const std::string& path, const std::string& holds) {
  return absl::DataLossError(absl::StrCat(path, ": is missing; it holds ", holds, kUseAnother));
}

std::string Describe(DType dtype, const Dims& dims) {
  return absl::StrCat(ToAbsl(Name(dtype)), ToString(dims));
}

}  // namespace

struct CheckpointReader::Impl {
  std::string folder;
  Manifest manifest;
  proto::Graph graph;
  proto::Train train;
  std::map<std::string, const StoredVariable*, std::less<>> variables;
  std::map<std::string, RunFile, std::less<>> files;  // of slices

  absl::Status ReadManifest();
  template <typename Message>
  absl::Status ReadText(const char* name, const StoredRun& run, Message* message) const;
  absl::Status OpenFiles();
  // Verifies the blocks that hold what `slice` shares with `stored`.
  absl::Status Verify(const StoredVariable& variable, const StoredSlice& stored,
                      const Slice& slice) const;
  absl::StatusOr<const StoredVariable*> Find(const std::string& name, DType dtype, const Dims& dims,
                                             std::string_view wanted_by) const;
  absl::Status AnotherModel(std::string_view wanted_by, std::string_view difference) const;
  const RunFile& File(const StoredSlice& s) const { return files.find(s.run.file)->second; }
};

absl::Status CheckpointReader::Impl::ReadManifest() {
  const std::string path = folder + "/manifest.json";
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (absl::IsNotFound(file.status())) {
    return absl::NotFoundError(folder +
                               ": no checkpoint: it has no manifest.json; "
                               "give the folder of one step");
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(manifest, ParseManifest(TextOf(file->bytes()), path));
  for (const StoredVariable& variable : manifest.variables) variables[variable.name] = &variable;
  RETURN_IF_ERROR(ReadText("graph.textproto", manifest.graph, &graph));
  return ReadText("train.textproto", manifest.train, &train);
}

template <typename Message>
absl::Status CheckpointReader::Impl::ReadText(const char* name, const StoredRun& run,
                                              Message* message) const {
  const std::string path = folder + "/" + name;
  if (manifest.version == 1) {  // has no checksum of it
    ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    return ParseBytes(file.bytes(), path, message);
  }
  const absl::StatusOr<RunFile> file = RunFile::Open(path, run.bytes);
  if (absl::IsNotFound(file.status())) return MissingFile(path, "what was trained, and how");
  RETURN_IF_ERROR(file.status());
  RETURN_IF_ERROR(file->Verify(run, 0, run.bytes, manifest.block, "the file"));
  return ParseBytes(file->Bytes(run), path, message);
}

absl::Status CheckpointReader::Impl::OpenFiles() {
  const std::map<std::string, int64_t> sizes = FileSizes(manifest);
  for (const StoredVariable& variable : manifest.variables) {
    for (const StoredSlice& stored : variable.slices) {
      const std::string& name = stored.run.file;
      if (files.contains(name)) continue;
      const std::string path = folder + "/" + name;
      absl::StatusOr<RunFile> file = RunFile::Open(path, sizes.at(name));
      if (absl::IsNotFound(file.status())) return MissingFile(path, "variable " + variable.name);
      RETURN_IF_ERROR(file.status());
      files.emplace(name, *std::move(file));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Impl::Verify(const StoredVariable& variable,
                                            const StoredSlice& stored, const Slice& slice) const {
  Slice shared = Intersect(stored.slice, slice);
  for (size_t d = 0; d < shared.begin.size(); ++d) shared.begin[d] -= stored.slice.begin[d];
  const auto element = static_cast<int64_t>(SizeOf(variable.dtype));
  const int64_t block = manifest.block;
  const std::string what = "variable " + variable.name;
  int64_t verified = 0;  // blocks that are, or need not be
  absl::Status status;
  ForRuns(
      stored.slice.size, shared, 0, shared.elements(), [&](int64_t, int64_t index, int64_t count) {
        const int64_t last = ((index + count) * element - 1) / block;
        if (!status.ok() || last < verified) return;
        const int64_t first = std::max(verified, index * element / block);
        status = File(stored).Verify(stored.run, first * block,
                                     std::min((last + 1) * block, stored.run.bytes) - first * block,
                                     block, what);
        verified = last + 1;
      });
  return status;
}

absl::Status CheckpointReader::Impl::AnotherModel(std::string_view wanted_by,
                                                  std::string_view difference) const {
  const std::string models =
      manifest.model == wanted_by
          ? absl::StrCat("holds another model, which is named \"", manifest.model, "\", too: ")
          : absl::StrCat("holds model \"", manifest.model, "\", the plan is for \"",
                         ToAbsl(wanted_by), "\": ");
  return InputError(folder, absl::StrCat(models, ToAbsl(difference)),
                    "use a checkpoint of the same model");
}

absl::StatusOr<const StoredVariable*> CheckpointReader::Impl::Find(
    const std::string& name, DType dtype, const Dims& dims, std::string_view wanted_by) const {
  const auto it = variables.find(name);
  std::string difference;
  if (it == variables.end()) {
    difference = absl::StrCat("it has no variable ", name, " ", Describe(dtype, dims));
  } else if (it->second->dims != dims || it->second->dtype != dtype) {
    difference =
        absl::StrCat("variable ", name, " is ", Describe(it->second->dtype, it->second->dims),
                     " there, ", Describe(dtype, dims), " in the plan");
  } else {
    return it->second;
  }
  return AnotherModel(wanted_by, difference);
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const std::string& folder) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  RETURN_IF_ERROR(impl->ReadManifest());
  RETURN_IF_ERROR(impl->OpenFiles());
  return std::unique_ptr<CheckpointReader>(new CheckpointReader(std::move(impl)));
}

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::~CheckpointReader() = default;

int64_t CheckpointReader::step() const { return impl_->manifest.step; }
uint64_t CheckpointReader::seed() const { return impl_->manifest.seed; }
const std::string& CheckpointReader::mesh() const { return impl_->manifest.mesh; }
int64_t CheckpointReader::tokens() const { return impl_->manifest.tokens; }
const proto::Graph& CheckpointReader::graph() const { return impl_->graph; }
const proto::Train& CheckpointReader::train() const { return impl_->train; }

absl::Status CheckpointReader::CheckVariables(const proto::Plan& plan) const {
  for (const proto::Variable& v : plan.variable()) {
    ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(v.dtype(), v.name()));
    const Dims dims(v.layout().dim().begin(), v.layout().dim().end());
    RETURN_IF_ERROR(impl_->Find(v.name(), dtype, dims, plan.model()).status());
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::CheckSameVariables(const proto::Plan& plan) const {
  RETURN_IF_ERROR(CheckVariables(plan));
  std::set<std::string_view> known;
  for (const proto::Variable& v : plan.variable()) known.insert(v.name());
  std::string first;
  int64_t more = -1;
  for (const StoredVariable& v : impl_->manifest.variables) {
    if (known.contains(v.name)) continue;
    if (++more == 0) first = absl::StrCat(v.name, " ", Describe(v.dtype, v.dims));
  }
  if (first.empty()) return absl::OkStatus();
  if (more > 0) absl::StrAppend(&first, " and ", more, " more");
  return impl_->AnotherModel(plan.model(), "the plan has no variable " + first);
}

absl::Status CheckpointReader::Verify() const {
  for (const StoredVariable& variable : impl_->manifest.variables) {
    for (const StoredSlice& stored : variable.slices) {
      RETURN_IF_ERROR(impl_->Verify(variable, stored, stored.slice));
      impl_->File(stored).Release(stored.run);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Load(const Piece& piece) const {
  ASSIGN_OR_RETURN(const StoredVariable* variable,
                   impl_->Find(*piece.name, piece.dtype, *piece.dims, impl_->manifest.model));
  int64_t copied = 0;
  for (const StoredSlice& stored : variable->slices) {
    const RunFile& file = impl_->File(stored);
    RETURN_IF_ERROR(impl_->Verify(*variable, stored, *piece.slice));
    copied += CopyShared(stored.slice, file.Bytes(stored.run).data(), *piece.slice, piece.data,
                         SizeOf(piece.dtype));
    file.Release(stored.run);
  }
  if (copied == piece.slice->elements()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(*piece.name, ": the piece is outside the tensor"));
}

absl::StatusOr<std::string> LatestCheckpoint(const std::string& dir, std::string* skipped) {
  std::error_code error;
  fs::directory_iterator entries(dir, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat(dir, ": ", error.message(), "; check the path"));
  }
  std::optional<std::pair<int64_t, std::string>> latest, incomplete;
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename();
    int64_t step;
    if (!absl::StartsWith(name, "step-") || !absl::SimpleAtoi(name.substr(5), &step)) continue;
    if (!entry.is_directory(error)) continue;
    auto& highest = fs::exists(entry.path() / "manifest.json", error) ? latest : incomplete;
    highest = std::max(highest, std::optional(std::pair(step, entry.path().string())));
  }
  if (skipped != nullptr) *skipped = incomplete > latest ? incomplete->second : "";
  if (latest) return latest->second;
  if (fs::exists(fs::path(dir) / "manifest.json", error)) {
    return absl::NotFoundError(
        dir +
        ": is one checkpoint itself; give the folder that it is in, of which the latest is taken");
  }
  return absl::NotFoundError(dir + ": holds no complete checkpoint; train with --checkpoint_dir");
}

}  // namespace oneflow
