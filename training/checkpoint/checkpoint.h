// Checkpoints: the variables of a plan as slices of logical tensors. Any plan of the same model
// loads any checkpoint, written on any mesh: a device extracts its slices from the stored ones.
//
//   DIR/step-00000020/
//     manifest.json      the position of each slice, with checksums of every byte (manifest.h)
//     rank-00003.bin     the slices that rank 3 wrote
//     graph.textproto    the logical graph          train.textproto   the facts of training
//     tokenizer.json     the tokenizer of its data, if the run knows its files; or tokenizer.model,
//                        or vocab.json and merges.txt
//     model/             the files that were beside the weights of an imported model
//
// A checkpoint is complete or absent, whenever any process dies: it is written to a folder of the
// attempt, DIR/attempt-3.tmp/step-00000020. There each process writes and syncs the files of its
// ranks and returns a part: its slices, their positions and their checksums. One process merges the
// parts into the manifest, which is written last, syncs and renames the folder. A crash leaves at
// most .tmp folders, which nobody reads and the next attempt removes. The bytes of a checkpoint do
// not depend on the number of processes that write it.
//
//   RETURN_IF_ERROR(BeginAttempt("run/ckpt", /*attempt=*/3));  // one process, before the others
//   const CheckpointInfo info = {.step = 20, .seed = 1};
//   const WriterOptions options = {.attempt = 3, .process = 1, .ranks = {4, 8}};
//   ASSIGN_OR_RETURN(auto writer, CheckpointWriter::Create("run/ckpt", plan, info, options));
//   context.save = [&](const Piece& piece) { return writer->Write(piece); };
//   ... run program "save" ...
//   ASSIGN_OR_RETURN(std::string part, writer->Finish());
//   ... one process gets the parts of all ...
//   ASSIGN_OR_RETURN(std::string folder, CommitParts("run/ckpt", plan, info, options, parts));
//   EndAttempt("run/ckpt", 3);
//
//   ASSIGN_OR_RETURN(std::string folder, LatestCheckpoint("run/ckpt"));
//   ASSIGN_OR_RETURN(auto reader, CheckpointReader::Open(folder));
//   RETURN_IF_ERROR(reader->CheckVariables(plan));
//   RETURN_IF_ERROR(reader->VerifyPieces(plan, {4, 8}));
//   context.load = [&](const Piece& piece) { return reader->Load(piece); };
//   ... run program "load" ...
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/exec/net.h"
#include "actor_runtime/kernel/run_context.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "training/data/mixture_part.h"
#include "training/data/records_id.h"
#include "training/files/model_files.h"
#include "training/files/model_notes.h"
#include "training/tokenizer/tokenizer_files.h"
#include "training/tokenizer/tokenizer_id.h"

namespace oneflow {

struct CheckpointInfo {
  int64_t step = 0;            // Steps done: the first one to run after a resume.
  uint64_t seed = 0;           // Orders the data.
  int64_t tokens = 0;          // In the training data; 0: not known.
  TokenizerId tokenizer = {};  // That made this data, where it is known.
  // The files of this tokenizer, which the checkpoint is to contain; null: none.
  std::shared_ptr<const TokenizerFiles> tokenizer_files = nullptr;
  MixtureParts mixture = {};  // the training data's; empty: they are no mixture
  RecordsId records = {};     // the training data's
  // Set if the run's numbers differ from the plan's.
  std::optional<proto::Optimizer> optimizer = std::nullopt;
  ModelNotes notes = {};  // the model's, if its weights were imported
  std::shared_ptr<const ModelFiles> model_files = nullptr;  // this model's; null: none
};

// The identity of a writing process.
struct WriterOptions {
  // Attempts that write to one folder have different numbers, unless the older one is known to be
  // over.
  int64_t attempt = 0;
  int64_t process = 0;   // its index in the attempt
  RankRange ranks = {};  // that it owns; empty: all
  // Called before each write, sync and rename: once it returns false, the call ends with ABORTED.
  // So a process that was stopped for a while learns that the job went on without it. null: always
  // true. Thread-safe.
  std::function<bool()> may_write = nullptr;
};

// ABORTED if options.may_write returns false.
absl::Status MayWrite(const WriterOptions& options);

// Makes DIR, if needed, and the folder of attempt `attempt`, and ends all other attempts: once this
// returns OK they cannot commit any more, because the folder that they would rename is gone. The
// attempt that began last is the one that writes; the caller decides who may begin one (by a
// coordinator, by a lock). Files of older attempts and what is left of removed checkpoints, with
// names that end in .tmp, are removed.
absl::Status BeginAttempt(const std::string& dir, int64_t attempt);

// Removes the attempt's folder, with all uncommitted files. Optional: the next attempt does it.
void EndAttempt(const std::string& dir, int64_t attempt);

// Writes the slices of one process. Errors are ABORTED if the attempt is over.
class CheckpointWriter {
 public:
  // Makes the folder to write to, or finds it, because other processes write there, too. Copies the
  // facts that it needs from `plan`. Requires that BeginAttempt was called.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(const std::string& dir,
                                                                  const proto::Plan& plan,
                                                                  const CheckpointInfo& info,
                                                                  const WriterOptions& options);
  // Removes the files that it wrote, unless Finish returned their part.
  ~CheckpointWriter();

  // Stores a slice of a variable of the plan, of one of the process's ranks. Replicas have the same
  // bits; in a plan's program `save` the lowest rank that holds a slice writes it, so the same run
  // writes the same files. A slice that is already stored is skipped. Thread-safe.
  absl::Status Write(const Piece& piece);

  // Makes the written files durable; returns the part for CommitParts. Called once, when no Write
  // is running.
  absl::StatusOr<std::string> Finish();

 private:
  struct Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Makes the checkpoint visible, replacing an older one of that step; returns its folder. Takes the
// parts of all processes of the attempt, in any order; they may be any bytes. `plan`, `info` and
// options.attempt are those of the writers; process and ranks of the options do not matter.
// INTERNAL unless the parts are intact and cover all variables, and the files have the bytes that
// the parts state; ABORTED if the attempt is over. On failure there is no checkpoint, or it is
// complete all the same (the last sync failed).
absl::StatusOr<std::string> CommitParts(const std::string& dir, const proto::Plan& plan,
                                        const CheckpointInfo& info, const WriterOptions& options,
                                        std::span<const std::string> parts);

struct ReaderOptions {
  std::string base = {};      // where the graph's base is now (base.h); empty: where the graph says
  bool verifies_base = true;  // false: another process verifies its hash
};

class CheckpointReader {
 public:
  // Opens the folder of one step and verifies the manifest, the cover of all variables by its
  // slices, the graph, the facts of training, the tokenizer and the model's files. Files of slices
  // are opened and verified when they are read: Verify, VerifyPieces and Load. Errors name the
  // file, and the variable and its block. After DATA_LOSS or NOT_FOUND another checkpoint may work.
  // Other errors are no damage.
  //
  // If the graph has a base, its frozen variables are read from there, as if they were here. The
  // base is opened, and its hash verified, when they are first asked for.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& folder,
                                                                const ReaderOptions& options = {});
  ~CheckpointReader();

  int64_t step() const;
  uint64_t seed() const;
  const std::string& mesh() const;  // that wrote it, as text; empty: not known, as of older ones
  int64_t tokens() const;           // its training data's; 0: not known
  const TokenizerId& tokenizer() const;  // that made this data; unknown: ids of another program
  const MixtureParts& mixture() const;   // its training data's; empty: they were no mixture
  const RecordsId& records() const;      // its training data's
  // The files of this tokenizer, which were verified; null: it contains none.
  const std::shared_ptr<const TokenizerFiles>& tokenizer_files() const;
  const ModelNotes& notes() const;  // not known: the model was not imported
  const std::shared_ptr<const ModelFiles>& model_files() const;  // null: it contains none
  const proto::Graph& graph() const;
  const proto::Recipe& recipe() const;        // the trained plan's
  const proto::Optimizer& optimizer() const;  // the run's

  bool Has(const std::string& variable) const;  // here or in the base
  // OK if the variable is here, or in the base, with the same sizes. Its element type is the stored
  // one, or both are of f32 and bf16. `model`: that it is wanted for.
  absl::Status CheckVariable(const proto::Variable& variable, const std::string& model) const;
  // The same of every variable of the plan. The checkpoint may hold more: a plan that only
  // generates needs no optimizer state.
  absl::Status CheckVariables(const proto::Plan& plan) const;
  // The same for the variables of the plan's graph alone: a new run that begins with these weights
  // has its own states of the optimizer.
  absl::Status CheckWeights(const proto::Plan& plan) const;
  // OK if the plan also has every variable of the checkpoint: a run that continues training and
  // saves must lose none. Variables and states of the optimizer have the same names on any mesh, in
  // any precision and under any schedule.
  absl::Status CheckSameVariables(const proto::Plan& plan) const;

  // Verifies every byte of every slice.
  absl::Status Verify() const;
  // Verifies the blocks that program "load" of the plan reads on these ranks (empty: all), each
  // once. So a damage that Load would report is found before anything is loaded.
  absl::Status VerifyPieces(const proto::Plan& plan, RankRange ranks) const;
  // The same for some variables of the plan.
  absl::Status VerifyPieces(const proto::Plan& plan,
                            const std::vector<const proto::Variable*>& variables,
                            RankRange ranks) const;

  // Fills piece.data with the piece's slice of variable *piece.name. It reads the blocks that
  // contain the slice and verifies each before it is copied; a value of another type is converted
  // once. Thread-safe.
  absl::Status Load(const Piece& piece) const;

 private:
  struct Impl;
  explicit CheckpointReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A folder of DIR with the name of a step.
struct ListedCheckpoint {
  int64_t step = 0;
  std::string folder;
  bool complete = false;  // it has a manifest
};
// Lists checkpoints, newest first. NOT_FOUND if DIR cannot be read.
absl::StatusOr<std::vector<ListedCheckpoint>> ListCheckpoints(const std::string& dir);

// The folder of the complete checkpoint of DIR with the highest step. NOT_FOUND if there is none.
// `skipped`, if given, becomes the folder of the highest incomplete checkpoint above it; empty if
// there is none.
absl::StatusOr<std::string> LatestCheckpoint(const std::string& dir,
                                             std::string* skipped = nullptr);

}  // namespace oneflow
