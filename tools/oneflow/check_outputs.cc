#include "tools/oneflow/check_outputs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kWritten = {"out", "metrics", "trace"};
constexpr std::array<std::string_view, 8> kRead = {"graph",   "plan",  "data", "eval_data",
                                                   "cluster", "order", "text", "feed"};

template <typename List>
bool Has(const List& list, std::string_view flag) {
  return std::find(list.begin(), list.end(), flag) != list.end();
}

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::exists(a, error) && !fs::is_regular_file(a, error)) return false;
  if (fs::equivalent(a, b, error)) return true;
  const auto whole = [](const std::string& path) {
    std::error_code error;
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  return whole(a) == whole(b);
}

// The files that a flag names: "a.txt,b.txt", "x=x.npy".
std::vector<std::string> FilesOf(const std::string& flag, const std::string& value) {
  if (flag == "feed") return {value.substr(std::min(value.size(), value.find('=') + 1))};
  return CommaSeparated(value);
}

}  // namespace

absl::Status CheckOutputs(const Arguments& args) {
  for (size_t i = 0; i < args.flags.size(); ++i) {
    const auto& [written, path] = args.flags[i];
    if (!Has(kWritten, written) || path.empty()) continue;
    const std::string where = absl::StrCat("--", written, "=", path);
    for (size_t j = 0; j < args.flags.size(); ++j) {
      const auto& [other, value] = args.flags[j];
      if (other == written || !(Has(kRead, other) || (Has(kWritten, other) && j > i))) continue;
      for (const std::string& file : FilesOf(other, value)) {
        if (file.empty() || !SameFile(path, file)) continue;
        return InputError(where, "is the file of --" + other + ", too", "write to another file");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
