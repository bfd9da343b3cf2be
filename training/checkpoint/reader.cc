// CheckpointReader.
//
// Invariant: at most kMostOpenFiles files stay open, besides those being read. A checkpoint may
// have more files than a process may have open.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "training/checkpoint/base.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/convert_slice.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/old_train.h"
#include "training/checkpoint/run_file.h"
#include "training/checkpoint/shared_runs.h"

namespace oneflow {
namespace {

constexpr size_t kMostOpenFiles = 64;

// A file of another message.
template <typename Message>
bool ReadOldForm(std::string_view, Message*) {
  return false;
}
template <>
bool ReadOldForm(std::string_view text, proto::Trained* trained) {
  proto::Train train;
  if (!ParseText(text, "", "text proto", &train).ok() || train.batch() == 0) return false;
  *trained = FromOldTrain(train);
  return true;
}

template <typename Message>
absl::Status ParseBytes(std::string_view text, const std::string& path, Message* message) {
  if (ReadOldForm(text, message)) return absl::OkStatus();
  const absl::Status parsed = ParseText(text, path, "text proto", message);
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

// The different slices of a variable that the ranks hold.
absl::StatusOr<std::vector<Slice>> FindPieces(const proto::Plan& plan,
                                              const proto::Variable& variable,
                                              const StageMesh& mesh, RankRange ranks) {
  std::vector<Slice> pieces;
  for (const int id : variable.register_()) {
    if (id < 0 || id >= plan.persistent_size()) {
      return InputError("plan, variable " + variable.name(), "its register is not persistent");
    }
    const proto::Register& held = plan.persistent(id);
    ASSIGN_OR_RETURN(const Layout layout,
                     LayoutFromProto(held.layout(), mesh.mesh, "plan, " + held.name()));
    for (int rank = ranks.begin; rank < ranks.end; ++rank) {
      if (mesh.RankToStage(rank) != held.stage()) continue;
      pieces.push_back(LocalSlice(layout, mesh.mesh, mesh.mesh.RankToCoordinate(rank)));
    }
  }
  const auto less = [](const Slice& a, const Slice& b) {
    return std::tie(a.begin, a.size) < std::tie(b.begin, b.size);
  };
  std::sort(pieces.begin(), pieces.end(), less);
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  return pieces;
}

}  // namespace

struct CheckpointReader::Impl {
  std::string folder;
  ReaderOptions options;
  Manifest manifest;
  proto::Graph graph;
  proto::Trained trained;
  std::shared_ptr<const TokenizerFiles> tokenizer_files;
  std::shared_ptr<const ModelFiles> model_files;
  std::map<std::string, const StoredVariable*, std::less<>> variables;
  std::map<std::string, int64_t> sizes;                                // of the files of slices
  mutable std::mutex mutex;                                            // a std one: see writer.cc
  mutable std::map<std::string, std::shared_ptr<const RunFile>> open;  // under `mutex`
  std::set<std::string, std::less<>> of_base;                          // its variables
  mutable std::mutex base_mutex;
  mutable std::unique_ptr<WeightSource> base;  // under `base_mutex` until it is set

  absl::Status ReadManifest();
  absl::Status ReadTokenizer();
  absl::Status ReadModelFiles();
  // A complete file.
  absl::StatusOr<std::string> ReadRun(const std::string& path, const StoredRun& run,
                                      const std::string& holds) const;
  template <typename Message>
  absl::Status ReadText(const char* name, const StoredRun& run, Message* message) const;
  absl::StatusOr<std::shared_ptr<const RunFile>> File(const StoredVariable& variable,
                                                      const StoredSlice& stored) const;
  // The stored blocks that hold elements of `slice`.
  std::set<int64_t> FindBlocks(const StoredVariable& variable, const StoredSlice& stored,
                               const Slice& slice) const;
  absl::Status Verify(const StoredVariable& variable, const StoredSlice& stored,
                      const std::set<int64_t>& blocks, ReadBuffer* buffer) const;
  // Copies and counts the elements that the piece shares with the stored slice.
  absl::Status Load(const StoredVariable& variable, const StoredSlice& stored, const Piece& piece,
                    ReadBuffer* buffer, int64_t* copied) const;
  absl::StatusOr<const StoredVariable*> Find(const std::string& name, DType dtype, const Dims& dims,
                                             std::string_view wanted_by) const;
  absl::StatusOr<const StoredVariable*> Find(const proto::Variable& variable,
                                             std::string_view wanted_by) const;
  absl::Status AnotherModel(std::string_view wanted_by, std::string_view difference) const;

  // Fills `of_base`: frozen variables of a graph with a base, which are not stored here.
  void FindBaseVariables();
  absl::StatusOr<const WeightSource*> Base() const;
  absl::Status LoadStored(const StoredVariable& variable, const Piece& piece) const;
};

void CheckpointReader::Impl::FindBaseVariables() {
  if (!graph.has_base()) return;
  for (const proto::Op& op : graph.op()) {
    if (!IsFrozen(op)) continue;
    if (!variables.contains(op.name())) of_base.insert(op.name());
  }
}

absl::StatusOr<const WeightSource*> CheckpointReader::Impl::Base() const {
  const std::lock_guard lock(base_mutex);
  if (base == nullptr) {
    ASSIGN_OR_RETURN(base, OpenBase(graph.base(), options.base, options.verifies_base));
  }
  return base.get();
}

absl::Status CheckpointReader::Impl::ReadManifest() {
  const std::string path = folder + "/manifest.json";
  const absl::StatusOr<RunFile> file = RunFile::Open(path);
  if (absl::IsNotFound(file.status())) {
    return absl::NotFoundError(folder +
                               ": no checkpoint: it has no manifest.json; "
                               "give the folder of one step");
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const std::string text, file->ReadAll());
  ASSIGN_OR_RETURN(manifest, ParseManifest(text, path));
  for (const StoredVariable& variable : manifest.variables) variables[variable.name] = &variable;
  sizes = FileSizes(manifest);
  RETURN_IF_ERROR(ReadText("graph.textproto", manifest.graph, &graph));
  RETURN_IF_ERROR(ReadText("train.textproto", manifest.train, &trained));
  if (!trained.recipe().has_mesh() && !manifest.mesh.empty()) {
    RETURN_IF_ERROR(kMeshForm.parse("", manifest.mesh, trained.mutable_recipe()->mutable_mesh()));
  }
  RETURN_IF_ERROR(ReadTokenizer());
  return ReadModelFiles();
}

absl::Status CheckpointReader::Impl::ReadTokenizer() {
  if (manifest.tokenizer_files.empty()) return absl::OkStatus();
  auto read = std::make_shared<TokenizerFiles>();
  read->id = manifest.tokenizer;
  read->stops = manifest.tokenizer_stops;
  for (const StoredRun& run : manifest.tokenizer_files) {
    ASSIGN_OR_RETURN(std::string bytes,
                     ReadRun(folder + "/" + run.file, run, "the tokenizer of its data"));
    read->files.push_back({run.file, std::move(bytes)});
  }
  tokenizer_files = std::move(read);
  return absl::OkStatus();
}

absl::Status CheckpointReader::Impl::ReadModelFiles() {
  if (manifest.model_files.empty()) return absl::OkStatus();
  auto read = std::make_shared<ModelFiles>();
  for (const StoredRun& run : manifest.model_files) {
    ASSIGN_OR_RETURN(std::string bytes,
                     ReadRun(folder + "/" + run.file, run, "a file of the imported model"));
    const size_t begin = run.file.starts_with(kModelFolder) ? sizeof(kModelFolder) - 1 : 0;
    read->push_back({run.file.substr(begin), std::move(bytes)});
  }
  model_files = std::move(read);
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointReader::Impl::ReadRun(const std::string& path,
                                                            const StoredRun& run,
                                                            const std::string& holds) const {
  const absl::StatusOr<RunFile> file = RunFile::Open(path, run.bytes);
  if (absl::IsNotFound(file.status())) return MissingFile(path, holds);
  RETURN_IF_ERROR(file.status());
  ReadBuffer buffer;
  std::string text;
  for (int64_t b = 0; b * manifest.block < run.bytes; ++b) {
    ASSIGN_OR_RETURN(const auto bytes, file->Read(run, b, manifest.block, "the file", &buffer));
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return text;
}

template <typename Message>
absl::Status CheckpointReader::Impl::ReadText(const char* name, const StoredRun& run,
                                              Message* message) const {
  const std::string path = folder + "/" + name;
  ASSIGN_OR_RETURN(const std::string text, ReadRun(path, run, "what was trained, and how"));
  return ParseBytes(text, path, message);
}

absl::StatusOr<std::shared_ptr<const RunFile>> CheckpointReader::Impl::File(
    const StoredVariable& variable, const StoredSlice& stored) const {
  const std::string& name = stored.run.file;
  {
    const std::lock_guard lock(mutex);
    if (const auto it = open.find(name); it != open.end()) return it->second;
  }
  const std::string path = folder + "/" + name;
  absl::StatusOr<RunFile> opened = RunFile::Open(path, sizes.at(name));
  if (absl::IsNotFound(opened.status())) return MissingFile(path, "variable " + variable.name);
  RETURN_IF_ERROR(opened.status());
  auto file = std::make_shared<const RunFile>(*std::move(opened));
  const std::lock_guard lock(mutex);
  if (open.size() >= kMostOpenFiles) open.clear();
  open[name] = file;
  return file;
}

std::set<int64_t> CheckpointReader::Impl::FindBlocks(const StoredVariable& variable,
                                                     const StoredSlice& stored,
                                                     const Slice& slice) const {
  const auto element = static_cast<int64_t>(ElementBytes(variable.dtype));
  std::set<int64_t> blocks;
  ForShared(stored.slice, slice, [&](int64_t source, int64_t, int64_t count) {
    const int64_t last = ((source + count) * element - 1) / manifest.block;
    int64_t b = source * element / manifest.block;
    if (!blocks.empty()) b = std::max(b, *blocks.rbegin() + 1);  // sources ascend
    for (; b <= last; ++b) blocks.insert(blocks.end(), b);
  });
  return blocks;
}

absl::Status CheckpointReader::Impl::Verify(const StoredVariable& variable,
                                            const StoredSlice& stored,
                                            const std::set<int64_t>& blocks,
                                            ReadBuffer* buffer) const {
  if (blocks.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto file, File(variable, stored));
  const std::string what = "variable " + variable.name;
  for (const int64_t b : blocks) {
    RETURN_IF_ERROR(file->Read(stored.run, b, manifest.block, what, buffer).status());
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Impl::Load(const StoredVariable& variable, const StoredSlice& stored,
                                          const Piece& piece, ReadBuffer* buffer,
                                          int64_t* copied) const {
  if (Intersect(stored.slice, *piece.slice).elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto file, File(variable, stored));
  const auto element = static_cast<int64_t>(ElementBytes(variable.dtype));
  const std::string what = "variable " + variable.name;
  absl::Status status;
  int64_t b = -1;  // the block that is in `bytes`
  std::span<const std::byte> bytes;
  // Counted in bytes, because blocks of a foreign file may end within an element.
  const auto copy = [&](int64_t source, std::byte* destination, int64_t count) -> absl::Status {
    while (count > 0) {
      if (b != source / manifest.block) {
        b = source / manifest.block;
        ASSIGN_OR_RETURN(bytes, file->Read(stored.run, b, manifest.block, what, buffer));
      }
      const auto rest = bytes.subspan(source - b * manifest.block);
      const int64_t n = std::min(count, static_cast<int64_t>(rest.size()));
      std::memcpy(destination, rest.data(), n);
      source += n, destination += n, count -= n;
    }
    return absl::OkStatus();
  };
  *copied += ForShared(
      stored.slice, *piece.slice, [&](int64_t source, int64_t destination, int64_t count) {
        if (!status.ok()) return;
        status = copy(source * element, piece.data + destination * element, count * element);
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
  } else if (it->second->dims != dims ||
             (it->second->dtype != dtype && !(Converts(it->second->dtype) && Converts(dtype)))) {
    difference =
        absl::StrCat("variable ", name, " is ", Describe(it->second->dtype, it->second->dims),
                     " there, ", Describe(dtype, dims), " in the plan");
  } else {
    return it->second;
  }
  return AnotherModel(wanted_by, difference);
}

absl::StatusOr<const StoredVariable*> CheckpointReader::Impl::Find(
    const proto::Variable& variable, std::string_view wanted_by) const {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(variable.dtype(), variable.name()));
  const Dims dims(variable.layout().dim().begin(), variable.layout().dim().end());
  return Find(variable.name(), dtype, dims, wanted_by);
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const std::string& folder, const ReaderOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  impl->options = options;
  RETURN_IF_ERROR(impl->ReadManifest());
  impl->FindBaseVariables();
  return std::unique_ptr<CheckpointReader>(new CheckpointReader(std::move(impl)));
}

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::~CheckpointReader() = default;

int64_t CheckpointReader::step() const { return impl_->manifest.step; }
uint64_t CheckpointReader::seed() const { return impl_->manifest.seed; }
const std::string& CheckpointReader::mesh() const { return impl_->manifest.mesh; }
int64_t CheckpointReader::tokens() const { return impl_->manifest.tokens; }
const TokenizerId& CheckpointReader::tokenizer() const { return impl_->manifest.tokenizer; }
const MixtureParts& CheckpointReader::mixture() const { return impl_->manifest.mixture; }
const RecordsId& CheckpointReader::records() const { return impl_->manifest.records; }
const std::shared_ptr<const TokenizerFiles>& CheckpointReader::tokenizer_files() const {
  return impl_->tokenizer_files;
}
const ModelNotes& CheckpointReader::notes() const { return impl_->manifest.notes; }
const std::shared_ptr<const ModelFiles>& CheckpointReader::model_files() const {
  return impl_->model_files;
}
const proto::Graph& CheckpointReader::graph() const { return impl_->graph; }
const proto::Recipe& CheckpointReader::recipe() const { return impl_->trained.recipe(); }
const proto::Optimizer& CheckpointReader::optimizer() const { return impl_->trained.optimizer(); }

bool CheckpointReader::Has(const std::string& variable) const {
  return impl_->variables.contains(variable) || impl_->of_base.contains(variable);
}

absl::Status CheckpointReader::CheckVariable(const proto::Variable& variable,
                                             const std::string& model) const {
  if (!impl_->of_base.contains(variable.name())) return impl_->Find(variable, model).status();
  ASSIGN_OR_RETURN(const WeightSource* base, impl_->Base());
  return base->Check(variable, model);
}

absl::Status CheckpointReader::CheckVariables(const proto::Plan& plan) const {
  for (const proto::Variable& v : plan.variable()) {
    RETURN_IF_ERROR(CheckVariable(v, plan.model()));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::CheckWeights(const proto::Plan& plan) const {
  return CheckGraphVariables(
      plan, [&](const proto::Variable& v) { return CheckVariable(v, plan.model()); });
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
  ReadBuffer buffer;
  for (const StoredVariable& variable : impl_->manifest.variables) {
    for (const StoredSlice& stored : variable.slices) {
      const std::set<int64_t> all = impl_->FindBlocks(variable, stored, stored.slice);
      RETURN_IF_ERROR(impl_->Verify(variable, stored, all, &buffer));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::VerifyPieces(const proto::Plan& plan, RankRange ranks) const {
  std::vector<const proto::Variable*> all;
  for (const proto::Variable& v : plan.variable()) all.push_back(&v);
  return VerifyPieces(plan, all, ranks);
}

absl::Status CheckpointReader::VerifyPieces(const proto::Plan& plan,
                                            const std::vector<const proto::Variable*>& variables,
                                            RankRange ranks) const {
  ASSIGN_OR_RETURN(const StageMesh mesh, MakeStageMesh(plan));
  if (ranks.size() == 0) ranks = {0, mesh.ranks()};
  ReadBuffer buffer;
  std::vector<const proto::Variable*> of_base;
  for (const proto::Variable* v : variables) {
    if (impl_->of_base.contains(v->name())) {
      of_base.push_back(v);
      continue;
    }
    ASSIGN_OR_RETURN(const StoredVariable* variable, impl_->Find(*v, plan.model()));
    ASSIGN_OR_RETURN(const std::vector<Slice> pieces, FindPieces(plan, *v, mesh, ranks));
    for (const StoredSlice& stored : variable->slices) {
      std::set<int64_t> blocks;
      for (const Slice& piece : pieces) blocks.merge(impl_->FindBlocks(*variable, stored, piece));
      RETURN_IF_ERROR(impl_->Verify(*variable, stored, blocks, &buffer));
    }
  }
  if (of_base.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const WeightSource* base, impl_->Base());
  return base->VerifyPieces(plan, of_base, ranks);
}

absl::Status CheckpointReader::Impl::LoadStored(const StoredVariable& variable,
                                                const Piece& piece) const {
  ReadBuffer buffer;
  int64_t copied = 0;
  for (const StoredSlice& stored : variable.slices) {
    RETURN_IF_ERROR(Load(variable, stored, piece, &buffer, &copied));
  }
  if (copied == piece.slice->elements()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(*piece.name, ": the piece is outside the tensor"));
}

absl::Status CheckpointReader::Load(const Piece& piece) const {
  if (impl_->of_base.contains(*piece.name)) {
    ASSIGN_OR_RETURN(const WeightSource* base, impl_->Base());
    return base->Load(piece);
  }
  ASSIGN_OR_RETURN(const StoredVariable* variable,
                   impl_->Find(*piece.name, piece.dtype, *piece.dims, impl_->manifest.model));
  if (variable->dtype == piece.dtype) return impl_->LoadStored(*variable, piece);
  return FillConverted(piece, variable->dtype, [&](const Slice& slice, std::byte* data) {
    Piece stored = piece;
    stored.dtype = variable->dtype;
    stored.slice = &slice;
    stored.data = data;
    return impl_->LoadStored(*variable, stored);
  });
}

}  // namespace oneflow
