// Files that survive a crash: once these functions return OK, their effect is on the disk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// A file open for writing. Not thread-safe, except for ReadAt and WriteAt.
class DurableFile {
 public:
  static absl::StatusOr<DurableFile> Create(const std::string& path);
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  // What was written there; zeros elsewhere, also behind the end.
  absl::Status ReadAt(int64_t offset, std::span<std::byte> bytes) const;
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

// Makes a folder, and its missing parents.
absl::Status CreateFolders(const std::string& path);

// Renames folder `from` to `to` atomically, in the same file system; an existing folder `to` is
// removed once the new one is on the disk. It may fail after the rename, too: then `from`, if it
// exists, is the old folder.
absl::Status ReplaceFolder(const std::string& from, const std::string& to);

}  // namespace oneflow
