#include "training/job/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kMostFileBytes = 1 << 16;

}  // namespace

absl::Status WriteSecret(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0 && errno == EEXIST) {
    return InputError(path, "is there already", "remove it, or make it elsewhere");
  }
  if (file < 0) {
    return InputError(path, absl::StrCat("cannot be created: ", std::strerror(errno)),
                      "name a folder that can be written to");
  }
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool synced = fsync(file) == 0;
  if (close(file) == 0 && written && synced) return absl::OkStatus();
  unlink(path.c_str());
  return InputError(path, "cannot be written", "make room on its disk");
}

absl::StatusOr<std::string> ReadSecret(const std::string& path, const std::string& hint) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return InputError(path, absl::StrCat("cannot be read: ", std::strerror(errno)), hint);
  }
  struct stat facts;
  std::string text;
  const bool known = fstat(file, &facts) == 0;
  char buffer[4096];
  ssize_t size = 0;
  while (known && text.size() <= kMostFileBytes &&
         (size = read(file, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, size);
  }
  close(file);
  if (!known || size < 0) return InputError(path, "cannot be read", hint);
  if ((facts.st_mode & 077) != 0) {
    return InputError(path, "may be read by others than its owner", "chmod 600, or " + hint);
  }
  if (text.size() > kMostFileBytes) return InputError(path, "is no secret: it is too long", hint);
  return text;
}

}  // namespace oneflow
