#include "training/job/job_token.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/job/secret_file.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTokenBytes = 32;
constexpr char kTokenHint[] = "remove it, or give all processes the same ONEFLOW_JOB_TOKEN";

absl::Status MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return InputError(folder, absl::StrCat("cannot be made: ", std::strerror(errno)),
                      "give all processes the same ONEFLOW_JOB_TOKEN");
  }
  struct stat facts;
  if (lstat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    return InputError(folder, "is no folder", kTokenHint);
  }
  if (facts.st_uid != geteuid()) return InputError(folder, "is another user's", kTokenHint);
  if ((facts.st_mode & 022) != 0) {
    return InputError(folder, "may be written to by others than its owner", "chmod 700");
  }
  return absl::OkStatus();
}

// Different names may lead to one file; their runs then share a token, as runs of one name do.
std::string FileName(const std::string& run) {
  std::string name = "token-";
  for (const char c : run.substr(0, 200)) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ? c : '_';
  }
  return name;
}

// Runs that were killed have left theirs. A file that cannot be looked at or removed stays.
void RemoveUnused(const std::string& folder) {
  const auto now = fs::file_time_type::clock::now();
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const auto used = fs::last_write_time(it->path(), ignored);
    if (ignored || !it->path().filename().string().starts_with("token-")) continue;
    if (now - used > std::chrono::hours(24) * kTokenDays) fs::remove(it->path(), ignored);
  }
}

}  // namespace

absl::StatusOr<std::string> DrawToken() {
  std::array<unsigned char, kTokenBytes> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) {
    return absl::InternalError("OpenSSL cannot draw a token");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string TokenFolder() {
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/' && access(home, W_OK | X_OK) == 0) {
    return absl::StrCat(home, "/.oneflow");
  }
  return absl::StrCat("/tmp/oneflow-", geteuid());
}

absl::StatusOr<std::string> TokenOfRun(const std::string& folder, const std::string& run) {
  RETURN_IF_ERROR(MakeFolder(folder));
  const std::string path = absl::StrCat(folder, "/", FileName(run));
  if (access(path.c_str(), F_OK) != 0) {
    RemoveUnused(folder);
    ASSIGN_OR_RETURN(const std::string token, DrawToken());
    // It is written under a name of its own and then linked: whoever links first has made it.
    const std::string draft = absl::StrCat(path, ".", token.substr(0, 16));
    RETURN_IF_ERROR(WriteSecret(draft, token));
    const bool linked = link(draft.c_str(), path.c_str()) == 0;
    const int error = errno;
    unlink(draft.c_str());
    if (!linked && error != EEXIST) {
      return InputError(path, absl::StrCat("cannot be made: ", std::strerror(error)), kTokenHint);
    }
  }
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // it is in use
  ASSIGN_OR_RETURN(std::string token, ReadSecret(path, kTokenHint));
  if (token.size() != 2 * kTokenBytes) return InputError(path, "is no token", kTokenHint);
  return token;
}

void ForgetToken(const std::string& folder, const std::string& run) {
  unlink(absl::StrCat(folder, "/", FileName(run)).c_str());
}

}  // namespace oneflow
