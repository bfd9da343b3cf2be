#include "compiler/schedule/update_rule.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr int64_t kUsualRound = 8;

// The versions of all stages divide it: they are powers of two, or all alike.
int64_t MostVersions(const UpdateRule& rule, int stages) { return rule.Versions(stages, 0); }

}  // namespace

int64_t UpdateRule::Versions(int stages, int stage) const {
  const auto least = static_cast<uint64_t>(Lag(stages, stage) + 1);
  return static_cast<int64_t>(stashing ? std::bit_ceil(least) : least);
}

absl::Status SetRound(int stages, UpdateRule* rule) {
  const int64_t versions = MostVersions(*rule, stages);
  int64_t& steps = rule->steps_a_round;
  if (steps == 0) steps = (kUsualRound + versions - 1) / versions * versions;
  if (steps > 0 && steps % versions == 0) return absl::OkStatus();
  return InputError(absl::StrCat("--steps_a_round=", steps),
                    absl::StrCat("is no multiple of the ", versions, " versions of the weights"),
                    absl::StrCat("use ", versions, ", ", 2 * versions, ", ..."));
}

StageOrder RoundOrder(const UpdateRule& rule, int stages, int stage, int64_t micro_batches) {
  const int64_t all = rule.steps_a_round * micro_batches;
  // A forward runs ahead of the backwards as far as its version of the weights is there.
  const int64_t ahead = rule.Lag(stages, stage) * micro_batches + 1;
  const int64_t warm_up = std::min({all, static_cast<int64_t>(stages - stage), ahead});
  StageOrder order;
  for (int64_t i = 0; i < all + warm_up - 1; ++i) {
    const int64_t backward = i - (warm_up - 1);
    std::vector<Task> tasks;
    if (i < all && i % micro_batches == 0) tasks.push_back({Part::kPrepare});
    if (i < all) tasks.push_back({Part::kForward});
    if (backward >= 0) tasks.push_back({Part::kBackward});
    Append({std::move(tasks)}, &order);
    if (backward >= 0 && (backward + 1) % micro_batches == 0) Append({{{Part::kUpdate}}}, &order);
  }
  return Folded(order);
}

}  // namespace oneflow
