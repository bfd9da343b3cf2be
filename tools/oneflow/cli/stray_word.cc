#include "tools/oneflow/cli/stray_word.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/file_kind.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// The first of `flags` that the verb takes.
std::string FirstTaken(const Verb& verb, std::initializer_list<std::string_view> flags) {
  for (const std::string_view flag : flags) {
    if (FindFlag(verb.id, flag) != nullptr) return std::string(flag);
  }
  return "";
}

// The flag of a path, by what lies there or, where nothing does, by its name.
std::string FlagOfPath(const Verb& verb, const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return FirstTaken(verb, {"checkpoint", "checkpoint_dir", "job_dir"});
  }
  std::string_view kind = path.ends_with(".plan")             ? "plan"
                          : path.ends_with(".plan.textproto") ? "plan"
                          : path.ends_with(".textproto")      ? "graph"
                                                              : "";
  const bool there = fs::is_regular_file(path, ignored);
  constexpr uintmax_t kMost = 1 << 20;  // a larger one is known by its name
  if (there && fs::file_size(path, ignored) <= kMost) {
    const absl::StatusOr<std::string> bytes = ReadFile(path);
    if (const std::string_view found = bytes.ok() ? FileKind(*bytes) : ""; !found.empty()) {
      kind = found;
    }
  }
  if (kind == "pipeline order") return FirstTaken(verb, {"order"});
  if (!kind.empty()) return FirstTaken(verb, {kind});
  return there ? FirstTaken(verb, {"text", "data"}) : "";
}

}  // namespace

absl::Status StrayWord(const Verb& verb, const std::string& word, std::string_view switch_before) {
  const std::string where = absl::StrCat("oneflow ", std::string(verb.name()), " ", word);
  const std::string see = absl::StrCat("see `oneflow ", std::string(verb.name()), " --help`");
  if (word.starts_with('-') && word.size() > 1) {
    return InputError(where, "a flag begins with two dashes", absl::StrCat("write -", word));
  }
  if (word == "true" || word == "false" || word == "auto") {
    if (!switch_before.empty()) {
      return InputError(where, absl::StrCat("\"", word, "\" belongs to no flag"),
                        absl::StrCat("write --", std::string(switch_before), "=", word));
    }
  }
  const std::string flag = FlagOfPath(verb, word);
  return InputError(where, absl::StrCat("\"", word, "\" belongs to no flag"),
                    flag.empty() ? absl::StrCat("write flags as --flag=value; ", see)
                                 : absl::StrCat("write --", flag, "=", word));
}

}  // namespace oneflow
