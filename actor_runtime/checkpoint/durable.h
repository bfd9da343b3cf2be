// Files that survive a crash: what these functions return OK for is on the disk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// A file open for writing. Not thread-safe, but for WriteAt.
class DurableFile {
 public:
  static absl::StatusOr<DurableFile> Create(const std::string& path);
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  // Thread-safe for ranges that do not overlap.
  absl::Status WriteAt(int64_t offset, std::span<const std::byte> bytes);
  absl::Status Sync();

 private:
  DurableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

// Creates or replaces a file.
absl::Status WriteDurably(const std::string& path, std::string_view text);

// Makes the names in a folder durable.
absl::Status SyncFolder(const std::string& path);

// Makes a folder, and those above it that are missing.
absl::Status CreateFolders(const std::string& path);

// Renames folder `from` to `to`, in the same file system, at one stroke; a folder `to` that is
// there already is removed once the new one is on the disk. Fails after the renaming, too: then
// `from`, if it is there, is the old one.
absl::Status ReplaceFolder(const std::string& from, const std::string& to);

}  // namespace oneflow
