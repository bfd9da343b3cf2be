#include "training/checkpoint/base.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/kernel/host/init_variable.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/model_weights.h"
#include "training/hugging_face/find_model.h"
#include "xxhash.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHashedBytes = size_t{4} << 20;  // read at a time
constexpr char kManifestFile[] = "manifest.json";
constexpr char kSayBase[] = "say with --base=FOLDER where these weights are now";

// Adds the contents of a file.
absl::Status HashFile(const std::string& path, XXH3_state_t* state) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return InputError(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<char> buffer(kHashedBytes);
  int error = 0;
  while (true) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = errno;
    if (n <= 0) break;
    XXH3_128bits_update(state, buffer.data(), n);
  }
  close(fd);
  if (error == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": cannot be read: ", std::strerror(error)));
}

// The weights of a checkpoint.
class CheckpointWeights : public WeightSource {
 public:
  CheckpointWeights(std::string folder, std::unique_ptr<CheckpointReader> reader)
      : folder_(std::move(folder)), reader_(std::move(reader)) {}

  const std::string& folder() const override { return folder_; }
  const proto::Graph& graph() const override { return reader_->graph(); }
  const ModelNotes& notes() const override { return reader_->notes(); }
  const TokenizerId& tokenizer() const override { return reader_->tokenizer(); }
  const std::string& no_tokenizer() const override { return no_tokenizer_; }
  const std::shared_ptr<const TokenizerFiles>& tokenizer_files() const override {
    return reader_->tokenizer_files();
  }
  const std::shared_ptr<const ModelFiles>& model_files() const override {
    return reader_->model_files();
  }
  bool Has(const std::string& variable) const override { return reader_->Has(variable); }
  absl::Status Check(const proto::Variable& variable, const std::string& model) const override {
    return reader_->CheckVariable(variable, model);
  }
  absl::Status CheckWeights(const proto::Plan& plan) const override {
    return reader_->CheckWeights(plan);
  }
  absl::Status VerifyPieces(const proto::Plan& plan,
                            const std::vector<const proto::Variable*>& variables,
                            RankRange ranks) const override {
    return reader_->VerifyPieces(plan, variables, ranks);
  }
  absl::Status Load(const Piece& piece) const override { return reader_->Load(piece); }

 private:
  const std::string folder_, no_tokenizer_;
  const std::unique_ptr<CheckpointReader> reader_;
};

// The folder of one step, or of a model, that `path` names.
absl::StatusOr<std::string> FindWeights(const std::string& path) {
  if (IsModelFolder(path)) return FindModel(path);
  if (PathExists(path + "/" + kManifestFile)) return path;
  return LatestCheckpoint(path);
}

}  // namespace

bool IsModelFolder(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) || PathExists(path + "/" + kManifestFile)) return false;
  return FindModel(path).ok();
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& path,
                                                          const std::string& base) {
  ASSIGN_OR_RETURN(const std::string folder, FindWeights(path));
  if (PathExists(folder + "/" + kManifestFile)) {
    ASSIGN_OR_RETURN(auto reader, CheckpointReader::Open(folder, {.base = base}));
    return std::make_unique<CheckpointWeights>(folder, std::move(reader));
  }
  return ModelWeights::Open(folder);
}

absl::StatusOr<std::string> HashWeights(const std::string& folder) {
  std::set<std::string> files;
  if (PathExists(folder + "/" + kManifestFile)) {
    files.insert(folder + "/" + kManifestFile);
  } else {
    ASSIGN_OR_RETURN(const ModelFolder model, ModelFolder::Open(folder));
    for (const auto& [name, entry] : model.tensors()) files.insert(entry.file->path());
  }
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (const std::string& file : files) RETURN_IF_ERROR(HashFile(file, state.get()));
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16),
                      absl::Hex(hash.low64, absl::kZeroPad16));
}

absl::StatusOr<proto::Base> DescribeBase(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string folder, FindWeights(path));
  std::error_code error;
  const fs::path absolute = fs::canonical(folder, error);
  if (error) return InputError(folder, "cannot be found: " + error.message());
  proto::Base base;
  base.set_path(absolute);
  ASSIGN_OR_RETURN(*base.mutable_hash(), HashWeights(base.path()));
  return base;
}

bool HoldsModelWeights(const std::string& path) {
  if (!IsModelFolder(path)) return false;
  const std::string folder = FindModel(path).value();
  const auto has = [&](const char* name) { return PathExists(folder + "/" + name); };
  return has("model.safetensors") || has("model.safetensors.index.json");
}

absl::Status NameBase(const std::string& path, proto::Graph* graph) {
  if (graph->has_base() || !HasFrozen(*graph)) return absl::OkStatus();
  if (IsModelFolder(path) && !HoldsModelWeights(path)) return absl::OkStatus();
  ASSIGN_OR_RETURN(*graph->mutable_base(), DescribeBase(path));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenBase(const proto::Base& base,
                                                       const std::string& path, bool verifies) {
  const std::string& at = path.empty() ? base.path() : path;
  const std::string where = path.empty() ? at : "--base=" + at;
  absl::StatusOr<std::string> folder = FindWeights(at);
  if (!folder.ok()) {
    return InputError(
        where,
        "holds no weights, and those that the model begins with, its base, were in " + base.path(),
        kSayBase);
  }
  if (verifies) {
    ASSIGN_OR_RETURN(const std::string hash, HashWeights(*folder));
    if (hash != base.hash()) {
      return InputError(where,
                        absl::StrCat("has other weights than the base of the model: their hash is ",
                                     hash, ", and that of the base is ", base.hash()),
                        kSayBase);
    }
  }
  absl::StatusOr<std::unique_ptr<WeightSource>> weights = OpenWeights(*folder);
  RETURN_IF_ERROR(Annotate(weights.status(), "the base of the model"));
  return weights;
}

absl::Status FillInitial(const proto::Variable& variable, uint64_t seed, const Piece& piece) {
  KernelSetup setup;
  setup.kind = "init_variable";
  setup.name = variable.name();
  setup.attrs["name"] = variable.name();
  setup.attrs["init"] = variable.init();
  setup.attrs["init_value"] = variable.init_value();
  Port port;
  port.dtype = piece.dtype;
  port.dims = *piece.dims;
  port.slice = *piece.slice;
  setup.out.push_back(std::move(port));
  ASSIGN_OR_RETURN(const Kernel kernel, MakeInitVariable(setup));
  RunContext run;
  run.seed = seed;
  const std::array<std::byte*, 1> out = {piece.data};
  KernelCall call;
  call.out = out;
  call.run = &run;
  return kernel(call);
}

}  // namespace oneflow
