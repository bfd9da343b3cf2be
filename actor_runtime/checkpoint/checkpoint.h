// Checkpoints: the variables of a plan as slices of logical tensors. Any plan of the same model
// loads any checkpoint, whatever mesh it was written on: what a device needs is cut out of what is
// stored.
//
//   DIR/step-00000020/
//     manifest.json      what is stored where, with checksums of every byte (manifest.h)
//     rank-00003.bin     the slices that rank 3 wrote
//     graph.textproto    the logical graph          train.textproto   the facts of training
//
// A checkpoint is complete or absent: it is written as step-00000020.tmp, synced, its manifest
// last, then renamed. A crash leaves at most a .tmp folder, which nobody reads and the next save of
// that step removes.
//
//   const CheckpointInfo info = {.step = 20, .seed = 1};
//   ASSIGN_OR_RETURN(auto writer, CheckpointWriter::Create("run/ckpt", plan, info));
//   context.save = [&](const Piece& piece) { return writer->Write(piece); };
//   ... run program "save" ...
//   ASSIGN_OR_RETURN(std::string folder, writer->Commit());
//
//   ASSIGN_OR_RETURN(std::string folder, LatestCheckpoint("run/ckpt"));
//   ASSIGN_OR_RETURN(auto reader, CheckpointReader::Open(folder));
//   RETURN_IF_ERROR(reader->CheckVariables(plan));
//   context.load = [&](const Piece& piece) { return reader->Load(piece); };
//   ... run program "load" ...
//
// One process writes a checkpoint; any number may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/kernel/run_context.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/train.pb.h"

namespace oneflow {

struct CheckpointInfo {
  int64_t step = 0;    // Steps done: the first one to run after a resume.
  uint64_t seed = 0;   // Orders the data.
  int64_t tokens = 0;  // Of the data that is trained on; 0: not known.
  // Of the run, where its numbers are not the plan's.
  std::optional<proto::Optimizer> optimizer = std::nullopt;
};

class CheckpointWriter {
 public:
  // Makes DIR, if need be, and the folder to write to. Keeps what it needs of `plan`.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(const std::string& dir,
                                                                  const proto::Plan& plan,
                                                                  const CheckpointInfo& info);
  // Removes what was not committed.
  ~CheckpointWriter();

  // Stores a slice of a variable of the plan. Replicas have the same bits; of a plan's program
  // `save` the lowest rank that holds a slice writes it, so the same run writes the same files. A
  // slice that is already there is skipped. Thread-safe.
  absl::Status Write(const Piece& piece);

  // Makes the checkpoint appear, in place of an older one of that step; returns its folder. All
  // variables must have been written whole. Call it once, when no Write is running.
  absl::StatusOr<std::string> Commit();

 private:
  struct Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class CheckpointReader {
 public:
  // Opens the folder of one step and verifies the manifest, that its slices make up the variables,
  // the graph, the facts of training, and how long each file is. What slices hold is verified where
  // it is read: Verify and Load. Refusals name the file, and the variable and its block.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& folder);
  ~CheckpointReader();

  int64_t step() const;
  uint64_t seed() const;
  const std::string& mesh() const;  // that wrote it, as text; empty: not known, as of older ones
  int64_t tokens() const;           // of the data that it was trained on; 0: not known
  const proto::Graph& graph() const;
  const proto::Train& train() const;

  // Whether every variable of the plan is here with the same sizes and element type. The checkpoint
  // may hold more: a plan that only generates needs no optimizer state.
  absl::Status CheckVariables(const proto::Plan& plan) const;
  // Whether the plan has every variable of the checkpoint, too: what trains on and saves must lose
  // none. Variables and states of the optimizer have the same names on any mesh, in any precision
  // and under any schedule.
  absl::Status CheckSameVariables(const proto::Plan& plan) const;

  // Verifies every byte of every slice: whether Load can fail, before anything is loaded.
  absl::Status Verify() const;

  // Fills piece.data with the piece's slice of variable *piece.name, once the blocks that it is in
  // are verified. Thread-safe.
  absl::Status Load(const Piece& piece) const;

 private:
  struct Impl;
  explicit CheckpointReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The folder of the complete checkpoint of DIR with the highest step. NOT_FOUND if there is none.
// `skipped`, if given, becomes the folder of a higher step, the highest, that is not complete: it
// has no manifest; empty if there is none.
absl::StatusOr<std::string> LatestCheckpoint(const std::string& dir,
                                             std::string* skipped = nullptr);

}  // namespace oneflow
