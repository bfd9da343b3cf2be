#include "tools/oneflow/cli/check_outputs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/data_list.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> kWritten = {"emit_schedule", "out",        "metrics",
                                                      "tensorboard",   "trace",      "fetch",
                                                      "layouts_out",   "out_recipe", "lock"};
constexpr std::array<std::string_view, 9> kRead = {
    "graph", "plan", "recipe", "data", "eval_data", "cluster", "order", "text", "feed"};

template <typename List>
bool AnyIs(const List& list, std::string_view flag) {
  return std::find(list.begin(), list.end(), flag) != list.end();
}

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::exists(a, error) && !fs::is_regular_file(a, error)) return false;
  if (fs::equivalent(a, b, error)) return true;
  const auto absolute = [](const std::string& path) {
    std::error_code error;
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  return absolute(a) == absolute(b);
}

// The files that a flag names: "a.txt,b.txt", "x=x.npy".
std::vector<std::string> ListFiles(const std::string& flag, const std::string& value) {
  if (flag == "feed" || flag == "fetch") {
    return {value.substr(std::min(value.size(), value.find('=') + 1))};
  }
  std::vector<std::string> files =
      AnyIs(kRead, flag) ? CommaSeparated(value) : std::vector<std::string>{value};
  if (flag == "data" || flag == "eval_data") {
    for (std::string& file : files) file = SplitDataName(file).file;  // without its weight
  }
  return files;
}

// An error where `file` is one of those that flag `other` names.
absl::Status CheckOther(std::string_view where, const std::string& file,
                        const std::pair<std::string, std::string>& other) {
  for (const std::string& named : ListFiles(other.first, other.second)) {
    if (named.empty() || !SameFile(file, named)) continue;
    return InputError(where, absl::StrCat(file, " is the file of --", other.first, ", too"),
                      "write to another file");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNotRead(const Arguments& args, std::string_view where, const std::string& file) {
  for (const auto& flag : args.flags) {
    if (AnyIs(kRead, flag.first)) RETURN_IF_ERROR(CheckOther(where, file, flag));
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const Arguments& args) {
  for (size_t i = 0; i < args.flags.size(); ++i) {
    const auto& [flag, value] = args.flags[i];
    if (!AnyIs(kWritten, flag) || value.empty()) continue;
    const std::string where = absl::StrCat("--", flag, "=", value);
    const std::string file = ListFiles(flag, value)[0];
    RETURN_IF_ERROR(CheckNotRead(args, where, file));
    for (size_t j = i + 1; j < args.flags.size(); ++j) {
      const auto& other = args.flags[j];
      if (AnyIs(kWritten, other.first)) RETURN_IF_ERROR(CheckOther(where, file, other));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
