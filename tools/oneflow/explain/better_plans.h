// Plans that are better than a user's own, as changes of the settings of the user's own system.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "planning/fit/fit.h"
#include "tools/foreign/advise/changes.h"
#include "tools/foreign/read/facts.h"
#include "tools/oneflow/explain/own_plan.h"

namespace oneflow {

// A group of choices that are changed together, taken alone into the user's own recipe.
struct ChangeAlone {
  std::string what;  // "micro_batches", "mesh and shard"
  std::vector<std::string> settings;
  bool works = false;  // it is a plan, without the other changes
  double seconds = 0;  // by which a step is longer; negative: shorter
  int64_t bytes = 0;   // more of the device that needs most
  bool fits = true;
};

struct BetterPlan {
  double seconds = 0;  // of a step
  int64_t bytes = 0;
  std::vector<foreign::SettingChange> changes;
  std::string flags;               // of oneflow compile
  proto::Recipe recipe;            // as the system can run it
  std::vector<ChangeAlone> alone;  // of the fastest plan, where it has several changes
};

class BetterFinder {
 public:
  // What is referred to must live as long as this.
  BetterFinder(const foreign::Facts& facts, const OwnFrame& frame, const proto::Run& run);

  // Takes plans that differ from the user's in one choice, and the answer's, rounds each to what
  // the system can, and keeps up to three that fit and are faster (by 1 % or more) than the user's
  // own, or than nothing where that does not fit. It ends after about so many seconds of CPU; a
  // plan that is begun is finished.
  absl::Status Find(const SearchSpec& spec, const FitAnswer& answer, double seconds);

  // False where the files of the user's system are not written here (emit.h): then nothing is
  // found.
  bool is_told() const;
  bool empty() const { return better_.empty(); }
  std::string Text() const;
  // [{"step_seconds", "bytes_a_device", "changes": [{"name", "from", "to"}], "flags", "alone":
  // [{"what", "settings", "step_seconds", "bytes_a_device", "fits"}]}].
  nlohmann::ordered_json MakeJson() const;

 private:
  absl::Status Add(const SearchSpec& spec, const proto::Recipe& candidate);
  void ListAlone(const SearchSpec& spec, double end, BetterPlan& better);

  const foreign::Facts& facts_;
  const OwnFrame& frame_;
  const proto::Run& run_;
  double own_seconds_ = 0;
  int64_t own_bytes_ = 0;
  bool own_fits_ = false;
  foreign::Job own_job_;
  std::vector<BetterPlan> better_;
};

}  // namespace oneflow
