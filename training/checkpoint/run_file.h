// RunFile: a file of a checkpoint that is read block by block, each verified before it is used.
//
//   ASSIGN_OR_RETURN(const RunFile file, RunFile::Open(path, size));
//   ReadBuffer buffer;
//   ASSIGN_OR_RETURN(auto bytes, file.Read(run, /*b=*/0, block, "variable w", &buffer));
//   ... bytes are the written bytes of block 0 of the run ...
//
// It reads with pread and maps nothing: a disk that fails, or a file that is truncated meanwhile,
// gives a status and never a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/checkpoint/manifest.h"

namespace oneflow {

// The end of the error texts of a damaged checkpoint.
inline constexpr char kUseAnother[] = "; use another checkpoint";

// Memory that grows to the largest size asked for and keeps no old content.
class ReadBuffer {
 public:
  std::span<std::byte> Take(size_t bytes);

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t size_ = 0;
};

class RunFile {
 public:
  // NOT_FOUND if there is no file, DATA_LOSS if reading fails.
  static absl::StatusOr<RunFile> Open(const std::string& path);
  // DATA_LOSS, also if the file does not have exactly `size` bytes.
  static absl::StatusOr<RunFile> Open(const std::string& path, int64_t size);
  RunFile(RunFile&& other) noexcept;
  RunFile& operator=(RunFile&&) = delete;
  ~RunFile();

  int64_t size() const { return size_; }
  // The full file, unverified.
  absl::StatusOr<std::string> ReadAll() const;

  // Block `b` of `run`, whose blocks have `block` bytes each, except for the last one. The zeros
  // after the last block are verified with it. DATA_LOSS names file, bytes, block and `what`. The
  // bytes are in `buffer`. Requires a block of a run within the file. Thread-safe.
  absl::StatusOr<std::span<const std::byte>> Read(const StoredRun& run, int64_t b, int64_t block,
                                                  std::string_view what, ReadBuffer* buffer) const;

 private:
  RunFile(std::string path, int fd, int64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  absl::Status ReadAt(int64_t offset, std::span<std::byte> bytes) const;

  std::string path_;
  int fd_;
  int64_t size_;
};

}  // namespace oneflow
