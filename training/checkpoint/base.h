// Weights that a run begins with or does not train, in a folder of any kind: a checkpoint, or a
// model of Hugging Face, which is read as it is, without an import.
//
//   ASSIGN_OR_RETURN(const auto weights, OpenWeights("models/llama"));
//   RETURN_IF_ERROR(weights->CheckWeights(plan));
//   context.load = [&](const Piece& piece) { return weights->Load(piece); };
//
// A graph names the folder of weights that it does not train: its base. Checkpoints of such a graph
// do not hold them, and CheckpointReader reads them from the base.
//
//   ASSIGN_OR_RETURN(*graph.mutable_base(), DescribeBase("models/llama"));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/exec/net.h"
#include "actor_runtime/kernel/run_context.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "training/files/model_files.h"
#include "training/files/model_notes.h"
#include "training/tokenizer/tokenizer_files.h"
#include "training/tokenizer/tokenizer_id.h"

namespace oneflow {

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // The folder of one step, or of a model.
  virtual const std::string& folder() const = 0;
  // Of the model; that of a Hugging Face folder is made of its config.json.
  virtual const proto::Graph& graph() const = 0;
  // As an import has them; without a tokenizer that can be used, its id is not known.
  virtual const ModelNotes& notes() const = 0;
  virtual const TokenizerId& tokenizer() const = 0;
  // Why there is no tokenizer; empty if nobody knows more.
  virtual const std::string& no_tokenizer() const = 0;
  virtual const std::shared_ptr<const TokenizerFiles>& tokenizer_files() const = 0;
  virtual const std::shared_ptr<const ModelFiles>& model_files() const = 0;

  virtual bool Has(const std::string& variable) const = 0;
  // An input error unless the variable is here with these sizes. A vocabulary may be padded to more
  // tokens than a Hugging Face folder has. Its element type is f32 or bf16, whatever is stored.
  virtual absl::Status Check(const proto::Variable& variable, const std::string& model) const = 0;
  // Check of each variable of the plan's graph; states of the optimizer are not looked at.
  virtual absl::Status CheckWeights(const proto::Plan& plan) const = 0;
  // Verifies the blocks of these variables that the ranks read. OK where there are no checksums of
  // blocks: a Hugging Face folder has none, and its hash is that of all bytes.
  virtual absl::Status VerifyPieces(const proto::Plan& plan,
                                    const std::vector<const proto::Variable*>& variables,
                                    RankRange ranks) const = 0;

  // Fills piece.data, f32 or bf16, with the slice; each stored value is converted exactly once.
  // Thread-safe.
  virtual absl::Status Load(const Piece& piece) const = 0;
};

// The folder that a user names: one of a step, or of checkpoints (the latest), or of a model.
// `base` says where the base of a checkpoint is now; empty: where its graph says.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& path,
                                                          const std::string& base = "");

// True of a folder of Hugging Face, or its snapshot in a cache of the hub: it has a config.json.
bool IsModelFolder(const std::string& path);
// True of one that has weights beside it.
bool HoldsModelWeights(const std::string& path);

// The XXH3-128 of a folder's weights, 32 hex digits: of a checkpoint that of its manifest, which
// has the checksums of all its bytes; of a Hugging Face folder that of the contents of its
// .safetensors files, one after the other in the order of their names. It reads all of them.
absl::StatusOr<std::string> HashWeights(const std::string& folder);

// The folder, as an absolute path, and its hash.
absl::StatusOr<proto::Base> DescribeBase(const std::string& path);

// Names the folder of `path` as the base of a graph that has frozen variables and no base, if there
// are weights in it: a folder of Hugging Face may have a config.json alone.
absl::Status NameBase(const std::string& path, proto::Graph* graph);

// Opens the base and verifies its hash, if `verifies`. `path` says where it is now; empty: where
// `base` says. An input error says that it is not there, or has other weights.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenBase(const proto::Base& base,
                                                       const std::string& path,
                                                       bool verifies = true);

// Fills `piece` with the values that program init gives the variable: those of an adapter that a
// new run adds to its base.
absl::Status FillInitial(const proto::Variable& variable, uint64_t seed, const Piece& piece);

}  // namespace oneflow
