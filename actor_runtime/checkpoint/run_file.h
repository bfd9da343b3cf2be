// A file of a checkpoint whose bytes are verified when they are read, block by block.
//
//   ASSIGN_OR_RETURN(const RunFile file, RunFile::Open(path, size));
//   RETURN_IF_ERROR(file.Verify(run, first, count, block, "variable w"));
//   ... file.Bytes(run).subspan(first, count) are what was written ...
//   file.Release(run);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/checkpoint/manifest.h"
#include "actor_runtime/data/mapped_file.h"

namespace oneflow {

// What ends the errors of a damaged checkpoint.
inline constexpr char kUseAnother[] =
    "; use another checkpoint (remove this folder to resume from the one before)";

class RunFile {
 public:
  // DATA_LOSS unless the file has exactly `size` bytes, NOT_FOUND where there is none.
  static absl::StatusOr<RunFile> Open(const std::string& path, int64_t size);

  // Verifies the blocks of `run`, of `block` bytes each, that bytes [first, first + count) of it
  // are in; with the last block the zeros behind it. DATA_LOSS names file, bytes, block and `what`.
  // Requires a run within the file. Thread-safe.
  absl::Status Verify(const StoredRun& run, int64_t first, int64_t count, int64_t block,
                      std::string_view what) const;

  std::span<const std::byte> Bytes(const StoredRun& run) const {
    return file_.bytes().subspan(run.offset, run.bytes);
  }
  // Gives the memory of a run back: else the process holds the checkpoint beside the arena.
  void Release(const StoredRun& run) const { file_.Release(Bytes(run)); }

 private:
  explicit RunFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
};

}  // namespace oneflow
