#include "oneflow_core/base/file.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <tuple>

#include "oneflow_core/base/stand_in.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{1} << 31;

struct Close {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, Close>;

// The limit of this process that was met: " (`ulimit -f` allows 0 bytes)"; "" if it is none.
std::string MetLimit(int error) {
  for (const auto& [of_error, resource, flag] :
       {std::tuple{EFBIG, RLIMIT_FSIZE, "-f"}, std::tuple{EMFILE, RLIMIT_NOFILE, "-n"}}) {
    rlimit limit = {};
    if (of_error != error || getrlimit(resource, &limit) != 0) continue;
    if (limit.rlim_cur == RLIM_INFINITY) continue;
    return std::string(" (`ulimit ") + flag + "` allows " + std::to_string(limit.rlim_cur) +
           (error == EFBIG ? " bytes)" : ")");
  }
  return "";
}

// With the hint that helps: only another limit where one was met.
absl::Status FileError(std::string_view path, std::string_view what, int error,
                       std::string_view hint) {
  const std::string limit = MetLimit(error);
  return InputError(path, std::string(what) + ": " + std::strerror(error) + limit,
                    limit.empty() ? hint : "raise the limit");
}

// 0, or the errno of what failed.
int WriteBytes(const std::string& path, std::string_view bytes) {
  File file(std::fopen(path.c_str(), "wb"));
  if (!file) return errno;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) return errno;
  return std::fclose(file.release()) == 0 ? 0 : errno;
}

int Replace(const std::string& path, std::string_view bytes) {
  const std::string temporary = path + "." + std::to_string(getpid()) + ".tmp";
  int error = WriteBytes(temporary, bytes);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) std::remove(temporary.c_str());
  return error;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, std::string_view hint) {
  const auto failed = [&](int error) { return FileError(path, "cannot be read", error, hint); };
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) {
    const int error = errno;
    RETURN_IF_ERROR(CheckLink(path));
    return failed(error);
  }
  std::string bytes;
  char part[1 << 16];
  while (const size_t n = std::fread(part, 1, sizeof part, file.get())) {
    bytes.append(part, n);
    if (bytes.size() > kMostBytes) return InputError(path, "is larger than 2 GiB", hint);
  }
  // A directory opens like a file and says what it is when it is read.
  if (std::ferror(file.get())) return failed(errno);
  RETURN_IF_ERROR(CheckNoPointer(path, bytes));
  return bytes;
}

absl::Status WriteError(std::string_view path, std::string_view what, int error,
                        std::string_view hint) {
  constexpr int kMistakes[] = {EACCES, EINVAL, EISDIR, ELOOP, EPERM, ENAMETOOLONG, ENOENT, ENOTDIR};
  const absl::Status status = FileError(path, what, error, hint);
  if (std::find(std::begin(kMistakes), std::end(kMistakes), error) != std::end(kMistakes)) {
    return status;
  }
  return absl::UnavailableError(status.message());
}

absl::Status WriteFile(const std::string& path, std::string_view bytes) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  const bool replaceable = !fs::exists(status) || fs::is_regular_file(status);
  const int error = replaceable ? Replace(path, bytes) : WriteBytes(path, bytes);
  return error == 0 ? absl::OkStatus() : WriteError(path, "cannot be written", error);
}

absl::Status MakeWayForFile(const std::string& path) {
  const absl::Status tried = WriteFile(path, "");
  std::error_code error;
  if (!tried.ok() || !fs::is_regular_file(fs::symlink_status(path, error))) return tried;
  fs::remove(path, error);
  return error ? WriteError(path, "cannot be removed", error.value()) : absl::OkStatus();
}

}  // namespace oneflow
