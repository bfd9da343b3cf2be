// NewFolder: a folder to write to, which becomes `dir` when it is complete, and is removed
// otherwise.
//
//   ASSIGN_OR_RETURN(NewFolder folder, NewFolder::Make("models/tuned"));
//   ... write files to folder.path() ...
//   RETURN_IF_ERROR(folder.Finish());
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "oneflow_core/base/status.h"
#include "training/files/durable.h"

namespace oneflow {

class NewFolder {
 public:
  static absl::StatusOr<NewFolder> Make(const std::string& dir) {
    std::error_code error;
    if (std::filesystem::exists(dir, error) &&
        !(std::filesystem::is_directory(dir, error) && std::filesystem::is_empty(dir, error))) {
      return InputError("--out=" + dir, "exists already", "name a new folder");
    }
    const std::string temporary = dir + ".tmp";
    std::filesystem::remove_all(temporary, error);
    RETURN_IF_ERROR(CreateFolders(temporary));
    return NewFolder(dir, temporary);
  }
  NewFolder(NewFolder&& other) noexcept
      : dir_(std::move(other.dir_)), temporary_(std::exchange(other.temporary_, "")) {}
  NewFolder& operator=(NewFolder&&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
  }

  const std::string& path() const { return temporary_; }
  absl::Status Finish() {
    RETURN_IF_ERROR(SyncFolder(temporary_));
    return ReplaceFolder(temporary_, dir_);
  }

 private:
  NewFolder(std::string dir, std::string temporary)
      : dir_(std::move(dir)), temporary_(std::move(temporary)) {}
  std::string dir_, temporary_;
};

}  // namespace oneflow
