#include "training/trainer/job_report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

// No two writers use one name: the file appears complete.
absl::Status WriteApart(const std::string& path, const Json& json, std::string* apart) {
  *apart = absl::StrCat(path, ".", getpid(), ".tmp");
  return WriteFile(*apart, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

absl::Status FileError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
}

}  // namespace

std::string JobReport::Path() const { return absl::StrCat(dir_, "/outcome-", attempt_, ".json"); }

void JobReport::Begin() {
  if (dir_.empty()) return;
  std::remove(Path().c_str());
  const std::lock_guard lock(mutex_);
  Write();
}

void JobReport::Trained(int64_t steps_done, std::optional<double> loss, double tokens_per_second,
                        const std::string& checkpoint_dir) {
  steps_done_ = steps_done;
  const auto now = std::chrono::steady_clock::now();
  if (dir_.empty() || now - written_ < std::chrono::seconds(1)) return;
  written_ = now;
  Json json = {{"attempt", attempt_},
               {"step", steps_done},
               {"loss", nullptr},
               {"tokens_per_second", tokens_per_second}};
  if (loss && std::isfinite(*loss)) json["loss"] = *loss;
  const absl::StatusOr<std::string> checkpoint =
      checkpoint_dir.empty() ? absl::NotFoundError("none") : LatestCheckpoint(checkpoint_dir);
  if (checkpoint.ok()) json["checkpoint"] = *checkpoint;
  const std::lock_guard lock(mutex_);
  training_ = std::move(json);
  Write();
}

void JobReport::Waits(const proto::ProcessWaits& waits) {
  const std::lock_guard lock(mutex_);
  for (const proto::ProcessWaits::Wait& wait : waits.wait()) {
    waits_[wait.rank()][wait.group()] = wait.milliseconds();
  }
}

void JobReport::Standstill(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (why == standstill_) return;
  standstill_ = why;
  if (!dir_.empty()) Write();
}

std::map<int, std::map<std::string, double>> JobReport::waits() const {
  const std::lock_guard lock(mutex_);
  return waits_;
}

std::string JobReport::standstill() const {
  const std::lock_guard lock(mutex_);
  return standstill_;
}

void JobReport::Write() {
  Json json = training_.is_null() ? Json{{"attempt", attempt_}} : training_;
  for (const auto& [rank, groups] : waits_) {
    for (const auto& [group, milliseconds] : groups) {
      json["wait_ms"][absl::StrCat("rank ", rank)][group] = std::round(milliseconds * 1e3) / 1e3;
    }
  }
  if (!standstill_.empty()) json["standstill"] = standstill_;
  const std::string path = dir_ + "/status.json";
  std::string apart;
  const bool is_there =
      WriteApart(path, json, &apart).ok() && std::rename(apart.c_str(), path.c_str()) == 0;
  if (!is_there) std::remove(apart.c_str());
}

absl::Status JobReport::End(const JobOutcome& outcome) const {
  if (dir_.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> before = ReadFile(dir_ + "/outcome.json");
  const Json known = Json::parse(before.ok() ? *before : "", nullptr, false);
  if (known.is_object() && known.contains("attempt") && known["attempt"].is_number_integer() &&
      known["attempt"].get<int64_t>() > attempt_) {
    return absl::OkStatus();
  }
  Json json = {{"attempt", attempt_},
               {"code", outcome.code},
               {"step", std::max(outcome.step, steps_done_.load())}};
  if (!outcome.host.empty()) json["host"] = outcome.host;
  if (outcome.rank >= 0) json["rank"] = outcome.rank;
  json["sentence"] = outcome.sentence;
  if (members_.is_object()) json.update(members_);
  std::string apart;
  RETURN_IF_ERROR(WriteApart(dir_ + "/outcome.json", json, &apart));
  // The first process of the attempt makes this name; its file is the attempt's outcome.
  const std::string mine = Path();
  absl::Status written;
  if (link(apart.c_str(), mine.c_str()) == 0) {
    const std::string path = dir_ + "/outcome.json";
    if (std::rename(apart.c_str(), path.c_str()) == 0) return absl::OkStatus();
    written = FileError(path);
  } else if (errno != EEXIST) {
    written = FileError(mine);
  }
  std::remove(apart.c_str());
  return written;
}

}  // namespace oneflow
