#include "actor_runtime/job/job_token.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "actor_runtime/job/secret_file.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr char kHint[] = "remove it, or give all processes the same ONEFLOW_JOB_TOKEN";

absl::Status MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return InputError(folder, absl::StrCat("cannot be made: ", std::strerror(errno)),
                      "give all processes the same ONEFLOW_JOB_TOKEN");
  }
  struct stat facts;
  if (lstat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    return InputError(folder, "is no folder", kHint);
  }
  if (facts.st_uid != geteuid()) return InputError(folder, "is another user's", kHint);
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
    ASSIGN_OR_RETURN(const std::string token, DrawToken());
    // It is written under a name of its own and then linked: whoever links first has made it.
    const std::string draft = absl::StrCat(path, ".", token.substr(0, 16));
    RETURN_IF_ERROR(WriteSecret(draft, token));
    const bool linked = link(draft.c_str(), path.c_str()) == 0;
    const int error = errno;
    unlink(draft.c_str());
    if (!linked && error != EEXIST) {
      return InputError(path, absl::StrCat("cannot be made: ", std::strerror(error)), kHint);
    }
  }
  ASSIGN_OR_RETURN(std::string token, ReadSecret(path, kHint));
  if (token.size() != 2 * kTokenBytes) return InputError(path, "is no token", kHint);
  return token;
}

}  // namespace oneflow
