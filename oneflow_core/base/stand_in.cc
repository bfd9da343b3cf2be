#include "oneflow_core/base/stand_in.h"

#include <filesystem>
#include <system_error>

#include "oneflow_core/base/status.h"

namespace oneflow {

namespace fs = std::filesystem;

// A text may begin like a pointer, which is shorter.
constexpr size_t kMostStandInBytes = 1024;

absl::Status CheckLink(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error) || fs::exists(path, error)) return absl::OkStatus();
  const std::string target = fs::read_symlink(path, error).string();
  return InputError(path, "is a link to " + target + ", which is missing",
                    "copy or download it again, with what its links lead to");
}

absl::Status CheckNoPointer(const std::string& path, std::string_view bytes) {
  const bool begins = bytes.starts_with("version https://git-lfs.github.com/spec/") ||
                      bytes.starts_with("version https://hawser.github.com/spec/");
  if (!begins || bytes.size() >= kMostStandInBytes || bytes.find("\noid ") == bytes.npos) {
    return absl::OkStatus();
  }
  return InputError(path, "is a pointer of Git LFS, not the file itself",
                    "run `git lfs pull` in its folder");
}

}  // namespace oneflow
