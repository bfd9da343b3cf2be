// CheckpointWriter.
//
// Invariants:
//  1. `variables` is in the plan's order and never grows; `files` grows under `mutex` only.
//  2. A slice is in the manifest only when its bytes are written.
//  3. A range of a file is handed out once, under `mutex`; bytes are written outside it.
#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor_runtime/checkpoint/checkpoint.h"
#include "actor_runtime/checkpoint/durable.h"
#include "actor_runtime/checkpoint/manifest.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

std::string Text(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

absl::StatusOr<std::vector<StoredVariable>> VariablesOf(const proto::Plan& plan) {
  std::vector<StoredVariable> variables;
  for (const proto::Variable& v : plan.variable()) {
    ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(v.dtype(), v.name()));
    variables.push_back({v.name(), dtype, {v.layout().dim().begin(), v.layout().dim().end()}, {}});
  }
  return variables;
}

}  // namespace

struct CheckpointWriter::Impl {
  std::string folder, temporary;  // final name and the one it is written under
  std::string graph, train;
  bool committed = false;

  std::mutex mutex;  // a std one, for ThreadSanitizer does not see the locks of the system's Abseil
  // Below: read and written under `mutex` only, but for `index`, which is constant after Create.
  Manifest manifest;
  std::map<std::string, size_t> index;  // of the manifest's variables, by name
  std::set<std::pair<std::string, std::pair<Dims, Dims>>> taken;
  struct RankFile {
    std::string name;
    DurableFile file;
    int64_t end = 0;
  };
  std::map<int, RankFile> files;

  // Under `mutex`.
  absl::StatusOr<const StoredVariable*> Find(const Piece& piece);
  // A file and a free range of it; no file if the slice is there already.
  struct Place {
    RankFile* file = nullptr;
    int64_t offset = 0;
  };
  absl::StatusOr<Place> Reserve(const Piece& piece, int64_t bytes);
  absl::StatusOr<StoredRun> WriteText(const std::string& name, std::string_view text) const;
  absl::Status WriteFiles();
};

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    const std::string& dir, const proto::Plan& plan, const CheckpointInfo& info) {
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(plan.mesh(), "plan, mesh"));
  auto impl = std::make_unique<Impl>();
  impl->folder = absl::StrFormat("%s/step-%08d", dir, info.step);
  impl->temporary = impl->folder + ".tmp";
  impl->graph = Text(plan.graph());
  proto::Train train = plan.train();
  if (info.optimizer) *train.mutable_optimizer() = *info.optimizer;
  impl->train = Text(train);
  {
    const std::lock_guard lock(impl->mutex);
    Manifest& m = impl->manifest;
    m.model = plan.model();
    m.plan = plan.fingerprint();
    m.mesh = ToString(mesh);
    m.step = info.step;
    m.seed = info.seed;
    m.tokens = info.tokens;
    ASSIGN_OR_RETURN(m.variables, VariablesOf(plan));
    for (size_t i = 0; i < m.variables.size(); ++i) impl->index[m.variables[i].name] = i;
  }
  std::error_code error;
  fs::remove_all(impl->temporary, error);
  if (error) {
    return WriteError(dir, "cannot be written to", error.value(),
                      "give a folder that can be created and written");
  }
  RETURN_IF_ERROR(CreateFolders(impl->temporary));
  return std::unique_ptr<CheckpointWriter>(new CheckpointWriter(std::move(impl)));
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;
  if (!impl_->committed) fs::remove_all(impl_->temporary, ignored);
}

absl::StatusOr<const StoredVariable*> CheckpointWriter::Impl::Find(const Piece& piece) {
  const auto it = index.find(*piece.name);
  if (it == index.end()) {
    return absl::InternalError(absl::StrCat(*piece.name, ": not a variable of the plan"));
  }
  const StoredVariable& variable = manifest.variables[it->second];
  if (variable.dims != *piece.dims || variable.dtype != piece.dtype) {
    return absl::InternalError(absl::StrCat(*piece.name, ": saved as ", ToString(*piece.dims),
                                            ", the plan says ", ToString(variable.dims)));
  }
  return &variable;
}

absl::StatusOr<CheckpointWriter::Impl::Place> CheckpointWriter::Impl::Reserve(const Piece& piece,
                                                                              int64_t bytes) {
  const std::lock_guard lock(mutex);
  RETURN_IF_ERROR(Find(piece).status());
  if (!taken.insert({*piece.name, {piece.slice->begin, piece.slice->size}}).second) return Place();
  auto it = files.find(piece.rank);
  if (it == files.end()) {
    const std::string name = absl::StrFormat("rank-%05d.bin", piece.rank);
    ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(temporary + "/" + name));
    it = files.emplace(piece.rank, RankFile{name, std::move(file)}).first;
  }
  const int64_t offset = it->second.end;
  it->second.end = NextRun(offset + bytes);
  return Place{&it->second, offset};
}

absl::Status CheckpointWriter::Write(const Piece& piece) {
  const int64_t bytes = piece.slice->elements() * static_cast<int64_t>(SizeOf(piece.dtype));
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Impl::Place place, impl_->Reserve(piece, bytes));
  if (place.file == nullptr) return absl::OkStatus();
  const std::span<const std::byte> data(piece.data, bytes);
  RETURN_IF_ERROR(place.file->file.WriteAt(place.offset, data));
  StoredSlice stored = {*piece.slice,
                        {place.file->name, place.offset, bytes, ChecksumsOfBlocks(data)}};
  const std::lock_guard lock(impl_->mutex);
  impl_->manifest.variables[impl_->index.at(*piece.name)].slices.push_back(std::move(stored));
  return absl::OkStatus();
}

absl::StatusOr<StoredRun> CheckpointWriter::Impl::WriteText(const std::string& name,
                                                            std::string_view text) const {
  RETURN_IF_ERROR(WriteDurably(temporary + "/" + name, text));
  return StoredRun{name, 0, static_cast<int64_t>(text.size()),
                   ChecksumsOfBlocks(std::as_bytes(std::span(text)))};
}

absl::Status CheckpointWriter::Impl::WriteFiles() {
  const std::lock_guard lock(mutex);
  for (StoredVariable& variable : manifest.variables) {
    // In the order of the tensor, not of the threads: the same plan writes the same manifest.
    std::sort(
        variable.slices.begin(), variable.slices.end(),
        [](const StoredSlice& a, const StoredSlice& b) { return a.slice.begin < b.slice.begin; });
    const absl::Status cover = CheckCover(variable);
    if (!cover.ok()) return absl::InternalError(absl::StrCat(variable.name, ": ", cover.message()));
  }
  for (auto& [rank, file] : files) RETURN_IF_ERROR(file.file.Sync());
  ASSIGN_OR_RETURN(manifest.graph, WriteText("graph.textproto", graph));
  ASSIGN_OR_RETURN(manifest.train, WriteText("train.textproto", train));
  RETURN_IF_ERROR(WriteDurably(temporary + "/manifest.json", ToJson(manifest)));
  return SyncFolder(temporary);
}

absl::StatusOr<std::string> CheckpointWriter::Commit() {
  RETURN_IF_ERROR(impl_->WriteFiles());
  impl_->committed = true;  // from now on the temporary folder may be the old checkpoint
  RETURN_IF_ERROR(ReplaceFolder(impl_->temporary, impl_->folder));
  return impl_->folder;
}

}  // namespace oneflow
