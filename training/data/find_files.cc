#include "training/data/find_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <system_error>

#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

absl::Status CannotList(const std::string& folder, const std::error_code& error) {
  return InputError(folder, "cannot be read: " + error.message(),
                    "give a folder that this user may read");
}

struct Entries {
  std::vector<std::string> files, folders;  // names; a link to a folder is none
};

absl::StatusOr<Entries> List(const std::string& folder) {
  std::error_code error;
  Entries found;
  fs::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (entry->is_directory(ignored)) {
      if (!entry->is_symlink(ignored)) found.folders.push_back(name);
    } else {
      found.files.push_back(name);
    }
  }
  if (error) return CannotList(folder, error);
  return found;
}

std::string Join(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.ends_with('/') ? folder + name : folder + "/" + name;
}

bool Hidden(const std::string& name) { return name.starts_with('.'); }

absl::Status AddAllBelow(const std::string& folder, std::set<std::string>* paths) {
  ASSIGN_OR_RETURN(const Entries found, List(folder));
  for (const std::string& name : found.files) {
    if (!Hidden(name)) paths->insert(Join(folder, name));
  }
  for (const std::string& name : found.folders) {
    if (!Hidden(name)) RETURN_IF_ERROR(AddAllBelow(Join(folder, name), paths));
  }
  return absl::OkStatus();
}

bool IsPattern(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }

// `parts`: names and patterns of what is left of the path below `folder`.
absl::Status AddMatches(const std::string& folder, std::span<const std::string> parts,
                        std::set<std::string>* paths) {
  const std::string& part = parts[0];
  const bool last = parts.size() == 1;
  std::error_code error;
  if (!IsPattern(part)) {
    const std::string path = Join(folder, part);
    if (last && fs::is_regular_file(path, error)) paths->insert(path);
    if (!last && fs::is_directory(path, error)) return AddMatches(path, parts.subspan(1), paths);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Entries found, List(folder));
  if (part == "**") {
    if (last) return AddAllBelow(folder, paths);
    RETURN_IF_ERROR(AddMatches(folder, parts.subspan(1), paths));
    for (const std::string& name : found.folders) {
      if (!Hidden(name)) RETURN_IF_ERROR(AddMatches(Join(folder, name), parts, paths));
    }
    return absl::OkStatus();
  }
  const auto matches = [&](const std::string& name) {
    return fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0;
  };
  for (const std::string& name : last ? found.files : found.folders) {
    if (!matches(name)) continue;
    const std::string path = Join(folder, name);
    if (last) paths->insert(path);
    if (!last) RETURN_IF_ERROR(AddMatches(path, parts.subspan(1), paths));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FoundFiles> FindFiles(const std::string& name) {
  std::error_code error;
  std::set<std::string> paths;
  if (fs::is_directory(name, error)) {
    RETURN_IF_ERROR(AddAllBelow(name, &paths));
    if (paths.empty()) {
      return InputError(name, "is a folder without files, but for hidden ones",
                        "name a file, or a folder with files");
    }
    return FoundFiles{{paths.begin(), paths.end()}, false, true};
  }
  if (fs::exists(name, error) || !IsPattern(name)) return FoundFiles{{name}};
  std::vector<std::string> parts = absl::StrSplit(name, '/', absl::SkipEmpty());
  RETURN_IF_ERROR(AddMatches(name.starts_with('/') ? "/" : "", parts, &paths));
  if (paths.empty()) {
    return InputError(name, "matches no file", "check the pattern; hidden files do not match");
  }
  return FoundFiles{{paths.begin(), paths.end()}, false};
}

}  // namespace oneflow
