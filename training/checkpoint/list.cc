// ListCheckpoints and LatestCheckpoint.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<ListedCheckpoint>> ListCheckpoints(const std::string& dir) {
  std::vector<ListedCheckpoint> found;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    int64_t step = 0;
    if (!name.starts_with("step-") || !absl::SimpleAtoi(name.substr(5), &step)) continue;
    if (!entry->is_directory(ignored)) continue;
    found.push_back(
        {step, entry->path().string(), fs::exists(entry->path() / "manifest.json", ignored)});
  }
  if (error == std::errc::not_a_directory) {
    return InputError(dir, "is a file, and a checkpoint is a folder",
                      "give the folder that --checkpoint_dir of `oneflow train` named");
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat(dir, ": ", error.message(), "; check the path"));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.folder) > std::tie(b.step, b.folder);
  });
  return found;
}

absl::StatusOr<std::string> LatestCheckpoint(const std::string& dir, std::string* skipped) {
  ASSIGN_OR_RETURN(const std::vector<ListedCheckpoint> all, ListCheckpoints(dir));
  if (skipped != nullptr) skipped->clear();
  for (const ListedCheckpoint& listed : all) {
    if (listed.complete) return listed.folder;
    if (skipped != nullptr && skipped->empty()) *skipped = listed.folder;
  }
  if (skipped != nullptr) skipped->clear();
  std::error_code ignored;
  if (fs::exists(fs::path(dir) / "manifest.json", ignored)) {
    return absl::NotFoundError(
        dir +
        ": is one checkpoint itself; give the folder that it is in, of which the latest is taken");
  }
  if (fs::exists(fs::path(dir) / "config.json", ignored)) {
    return absl::NotFoundError(dir +
                               ": is a model's folder of Hugging Face, and no checkpoint; make one "
                               "with `oneflow import --from=" +
                               dir + " --out=FOLDER`, and give that");
  }
  return absl::NotFoundError(dir + ": holds no complete checkpoint; train with --checkpoint_dir");
}

}  // namespace oneflow
