#include "compiler/schedule/update_rule.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr int64_t kUsualRound = 8;

// The versions of all stages divide it: they are powers of two, or all alike.
int64_t MostVersions(const UpdateRule& rule, int stages) { return rule.VersionsOf(stages, 0); }

}  // namespace

int64_t UpdateRule::VersionsOf(int stages, int stage) const {
  const auto least = static_cast<uint64_t>(LagOf(stages, stage) + 1);
  return static_cast<int64_t>(stashing ? std::bit_ceil(least) : least);
}

absl::Status SetRound(int stages, UpdateRule* rule) {
  const int64_t versions = MostVersions(*rule, stages);
  int64_t& steps = rule->steps_a_round;
  if (steps == 0) steps = (kUsualRound + versions - 1) / versions * versions;
  if (steps > 0 && steps % versions == 0) return absl::OkStatus();
  return InputError(absl::StrCat("steps_a_round ", steps),
                    absl::StrCat("is no multiple of the ", versions, " versions of the weights"),
                    absl::StrCat("use ", versions, ", ", 2 * versions, ", ..."));
}

StageOrder RoundOrder(const UpdateRule& rule, int stages, int stage, int64_t micro_batches) {
  const int64_t all = rule.steps_a_round * micro_batches;
  // A forward runs ahead of the backwards as far as its version of the weights is there.
  const int64_t ahead = rule.LagOf(stages, stage) * micro_batches + 1;
  const int64_t warm_up = std::min({all, static_cast<int64_t>(stages - stage), ahead});
  std::vector<Task> tasks;
  const auto forward = [&](int64_t i) {
    if (i % micro_batches == 0) tasks.push_back({Part::kPrepare});
    tasks.push_back({Part::kForward});
  };
  for (int64_t i = 0; i < warm_up; ++i) forward(i);
  for (int64_t i = 0; i < all; ++i) {
    tasks.push_back({Part::kBackward});
    if ((i + 1) % micro_batches == 0) tasks.push_back({Part::kUpdate});
    if (i + warm_up < all) forward(i + warm_up);
  }
  return Compressed(tasks);
}

}  // namespace oneflow
