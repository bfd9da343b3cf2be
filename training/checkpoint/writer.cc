// CheckpointWriter.
//
// Invariants:
//  1. `variables` is in the plan's order and never grows; `files` grows under `mutex` only.
//  2. A slice is in the part only when its bytes are written.
//  3. A range of a file is handed out once, under `mutex`; bytes are written outside it.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/checkpoint/attempt.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/part.h"
#include "training/files/durable.h"

namespace oneflow {

namespace fs = std::filesystem;

struct CheckpointWriter::Impl {
  std::string dir, folder;
  WriterOptions options;
  bool finished = false;

  std::mutex mutex;  // a std one, for ThreadSanitizer does not see the locks of the system's Abseil
  // Below: read and written under `mutex` only, but for `index`, which is constant after Create.
  CheckpointPart part;
  std::map<std::string, size_t> index;  // of the part's variables, by name
  std::set<std::pair<std::string, std::pair<Dims, Dims>>> taken;
  struct RankFile {
    std::string name;
    DurableFile file;
    int64_t end = 0;
  };
  std::map<int, RankFile> files;

  // Under `mutex`.
  absl::Status Check(const Piece& piece) const;
  // A file and a free range of it; no file if the slice is there already.
  struct Location {
    RankFile* file = nullptr;
    int64_t offset = 0;
  };
  absl::StatusOr<Location> Reserve(const Piece& piece, int64_t bytes);
  absl::Status Write(const Piece& piece);
  absl::StatusOr<std::string> Finish();
};

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    const std::string& dir, const proto::Plan& plan, const CheckpointInfo& info,
    const WriterOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->dir = dir;
  impl->folder = TemporaryFolder(dir, options.attempt, info.step);
  impl->options = options;
  {
    const std::lock_guard lock(impl->mutex);
    CheckpointPart& part = impl->part;
    part.plan = plan.fingerprint();
    part.step = info.step;
    part.attempt = options.attempt;
    part.process = options.process;
    part.ranks = options.ranks;
    ASSIGN_OR_RETURN(part.variables, FindVariables(plan));
    for (size_t i = 0; i < part.variables.size(); ++i) impl->index[part.variables[i].name] = i;
  }
  RETURN_IF_ERROR(MayWrite(options));
  // Does not make its parents: if the attempt's folder is gone, the attempt is over.
  if (mkdir(impl->folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return OrEnded(WriteError(dir, "cannot be written to", errno,
                              "give a folder that can be created and written"),
                   dir, options.attempt);
  }
  return std::unique_ptr<CheckpointWriter>(new CheckpointWriter(std::move(impl)));
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

CheckpointWriter::~CheckpointWriter() {
  if (impl_->finished) return;
  std::error_code ignored;
  for (const auto& [rank, file] : impl_->files) {
    fs::remove(impl_->folder + "/" + file.name, ignored);
  }
  // The folder stays, until EndAttempt: another process may be about to make its first file there.
}

absl::Status CheckpointWriter::Impl::Check(const Piece& piece) const {
  const auto it = index.find(*piece.name);
  if (it == index.end()) {
    return absl::InternalError(absl::StrCat(*piece.name, ": not a variable of the plan"));
  }
  const StoredVariable& variable = part.variables[it->second];
  if (variable.dims != *piece.dims || variable.dtype != piece.dtype) {
    return absl::InternalError(absl::StrCat(*piece.name, ": saved as ", ToString(*piece.dims),
                                            ", the plan says ", ToString(variable.dims)));
  }
  if (options.ranks.size() > 0 && !options.ranks.Contains(piece.rank)) {
    return absl::InternalError(absl::StrCat(*piece.name, ": saved by rank ", piece.rank,
                                            ", which is not of this process"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointWriter::Impl::Location> CheckpointWriter::Impl::Reserve(const Piece& piece,
                                                                                 int64_t bytes) {
  const std::lock_guard lock(mutex);
  RETURN_IF_ERROR(Check(piece));
  if (!taken.insert({*piece.name, {piece.slice->begin, piece.slice->size}}).second)
    return Location();
  auto it = files.find(piece.rank);
  if (it == files.end()) {
    const std::string name = RankFileName(piece.rank);
    RETURN_IF_ERROR(MayWrite(options));
    ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(folder + "/" + name));
    it = files.emplace(piece.rank, RankFile{name, std::move(file)}).first;
  }
  const int64_t offset = it->second.end;
  it->second.end = NextRun(offset + bytes);
  return Location{&it->second, offset};
}

absl::Status CheckpointWriter::Impl::Write(const Piece& piece) {
  const int64_t bytes = piece.slice->elements() * static_cast<int64_t>(ElementBytes(piece.dtype));
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Location location, Reserve(piece, bytes));
  if (location.file == nullptr) return absl::OkStatus();
  const std::span<const std::byte> data(piece.data, bytes);
  for (int64_t at = 0; at < bytes; at += kBlockBytes) {
    RETURN_IF_ERROR(MayWrite(options));
    RETURN_IF_ERROR(location.file->file.WriteAt(
        location.offset + at, data.subspan(at, std::min(kBlockBytes, bytes - at))));
  }
  StoredSlice stored = {*piece.slice,
                        {location.file->name, location.offset, bytes, ChecksumsOfBlocks(data)}};
  const std::lock_guard lock(mutex);
  part.variables[index.at(*piece.name)].slices.push_back(std::move(stored));
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointWriter::Impl::Finish() {
  const std::lock_guard lock(mutex);
  for (auto& [rank, file] : files) {
    RETURN_IF_ERROR(MayWrite(options));
    RETURN_IF_ERROR(file.file.Sync());
  }
  RETURN_IF_ERROR(MayWrite(options));
  RETURN_IF_ERROR(SyncFolder(folder));
  finished = true;
  return ToText(part);
}

absl::Status CheckpointWriter::Write(const Piece& piece) {
  return OrEnded(impl_->Write(piece), impl_->dir, impl_->options.attempt);
}

absl::StatusOr<std::string> CheckpointWriter::Finish() {
  absl::StatusOr<std::string> part = impl_->Finish();
  if (part.ok()) return part;
  return OrEnded(part.status(), impl_->dir, impl_->options.attempt);
}

}  // namespace oneflow
