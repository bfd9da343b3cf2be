#include "training/trainer/old_checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

bool IsOfStep(const fs::path& path) { return path.filename().string().starts_with("step-"); }

// Moves entries of `dir` to a new folder DIR/old-N.
absl::StatusOr<std::string> MoveAside(const std::string& dir,
                                      const std::vector<fs::path>& entries) {
  std::error_code error;
  fs::path aside;
  for (int n = 1; aside.empty() || fs::exists(aside, error); ++n)
    aside = fs::path(dir) / ("old-" + std::to_string(n));
  if (!error) fs::create_directory(aside, error);
  for (const fs::path& entry : entries) {
    if (!error) fs::rename(entry, aside / entry.filename(), error);  // a success clears the error
  }
  if (!error) return aside.string();
  return WriteError("--checkpoint_dir=" + dir, "cannot set its old checkpoints aside",
                    error.value(), "give another folder");
}

}  // namespace

absl::StatusOr<std::string> SetCheckpointsAside(const std::string& dir) {
  if (!LatestCheckpoint(dir).ok()) return "";
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (IsOfStep(entry.path())) entries.push_back(entry.path());
  }
  return MoveAside(dir, entries);
}

absl::StatusOr<std::string> SetLaterAside(const std::string& dir, int64_t step) {
  ASSIGN_OR_RETURN(const std::vector<ListedCheckpoint> all, ListCheckpoints(dir));
  std::vector<fs::path> later;
  for (const ListedCheckpoint& listed : all) {
    if (listed.complete && listed.step > step) later.emplace_back(listed.folder);
  }
  if (later.empty()) return "";
  return MoveAside(dir, later);
}

absl::Status KeepNewest(const std::string& dir, int64_t keep) {
  std::error_code error;
  absl::Status status;  // the first failure: the others are tried all the same
  const auto check = [&](const fs::path& path) {
    if (error) status.Update(WriteError(path.string(), "cannot be removed", error.value()));
    return !error;
  };
  std::vector<std::pair<int64_t, fs::path>> complete;
  std::vector<fs::path> left;  // to be removed
  const fs::directory_iterator entries(dir, error);
  if (!check(dir)) return status;
  for (const auto& entry : entries) {
    const fs::path& path = entry.path();
    int64_t step = 0;
    if (!IsOfStep(path)) continue;
    if (path.extension() == ".tmp") {
      left.push_back(path);
    } else if (absl::SimpleAtoi(path.filename().string().substr(5), &step) &&
               fs::exists(path / "manifest.json", error)) {
      complete.emplace_back(step, path);
    }
  }
  std::sort(complete.begin(), complete.end(), std::greater<>());
  for (size_t i = static_cast<size_t>(keep); i < complete.size(); ++i) {
    const fs::path& path = complete[i].second;
    fs::path temporary = path;
    temporary += ".tmp";
    fs::remove_all(temporary, error);  // if this fails, the renaming fails, and says so
    fs::rename(path, temporary, error);
    if (check(path)) left.push_back(temporary);
  }
  for (const fs::path& path : left) {
    fs::remove_all(path, error);
    check(path);
  }
  return status;
}

}  // namespace oneflow
