#include "tools/foreign/torch_schedule/torch_progress.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

bool IsBackward(TorchKind kind) {
  return kind == TorchKind::kBackward || kind == TorchKind::kBackwardInput;
}

// An action of another rank, or of the same one, that must come first.
struct TorchNeed {
  TorchAction action;
  int rank = 0;
};

// The rank of each stage; -1: none. Requires that no stage is beyond all actions.
std::vector<int> RanksOfStages(const TorchSchedule& schedule) {
  int stages = 0;
  for (const auto& actions : schedule) {
    for (const TorchAction& action : actions) stages = std::max(stages, action.stage + 1);
  }
  std::vector<int> ranks(stages, -1);
  for (size_t rank = 0; rank < schedule.size(); ++rank) {
    for (const TorchAction& action : schedule[rank]) {
      ranks[action.stage] = static_cast<int>(rank);
    }
  }
  return ranks;
}

// Each rank that is stuck waits for another one, or for a later action of its own: a walk along
// `need` (by rank) comes back, and what it then goes round is the cycle.
template <typename Need>
absl::Status CycleFrom(int rank, const TorchSchedule& schedule, const std::vector<size_t>& at,
                       const Need& need) {
  std::vector<int> walk;
  while (std::find(walk.begin(), walk.end(), rank) == walk.end()) {
    walk.push_back(rank);
    rank = need(rank).rank;
  }
  walk.erase(walk.begin(), std::find(walk.begin(), walk.end(), rank));
  std::string text;
  for (const int r : walk) {
    const TorchNeed needed = need(r);
    absl::StrAppend(&text, text.empty() ? "" : "; ", "rank ", r, " stands at ",
                    ActionText(schedule[r][at[r]]), ", which waits for ", ActionText(needed.action),
                    " of rank ", needed.rank);
  }
  return absl::FailedPreconditionError("the ranks wait for each other: " + text);
}

// What a stage has made of a micro-batch.
struct Progress {
  bool forward = false, backward = false, weights = false;
  bool is_full = false;  // the backward is B
};

// The schedule's bookkeeping, stage by stage. Invariant: done_ has an entry for each stage and
// micro-batch, and entries of no others were asked for.
class Legality {
 public:
  explicit Legality(const TorchSchedule& schedule) : schedule_(schedule) {}

  absl::StatusOr<TorchProof> Check() {
    RETURN_IF_ERROR(CountForwards());
    done_.resize(proof_.stages * proof_.micro_batches);
    for (size_t rank = 0; rank < schedule_.size(); ++rank) {
      RETURN_IF_ERROR(CheckRank(static_cast<int>(rank)));
    }
    for (int stage = 0; stage < proof_.stages; ++stage) {
      RETURN_IF_ERROR(CheckEnded(stage));
    }
    return proof_;
  }

 private:
  // Before anything is kept by stage and micro-batch: no more of both than there are actions.
  absl::Status CountForwards() {
    size_t actions = 0;
    for (const auto& of_rank : schedule_) actions += of_rank.size();
    for (size_t rank = 0; rank < schedule_.size(); ++rank) {
      for (const TorchAction& action : schedule_[rank]) {
        if (static_cast<size_t>(action.stage) >= actions) {
          return Refuse(static_cast<int>(rank), action, "is of a stage without stages before it",
                        "number the stages along the pipe from 0");
        }
        proof_.stages = std::max(proof_.stages, action.stage + 1);
      }
    }
    std::vector<int64_t> forwards(proof_.stages, 0);
    for (const auto& of_rank : schedule_) {
      for (const TorchAction& action : of_rank) {
        if (action.kind == TorchKind::kForward) ++forwards[action.stage];
      }
    }
    if (forwards.empty()) return InputError("schedule", "has no action", "write one for each rank");
    proof_.micro_batches = forwards[0];
    for (int stage = 0; stage < proof_.stages; ++stage) {
      if (forwards[stage] == forwards[0] && forwards[0] > 0) continue;
      return InputError(
          absl::StrCat("stage ", stage),
          absl::StrCat("has ", forwards[stage], " forwards, stage 0 has ", forwards[0]),
          "every stage takes every micro-batch once");
    }
    rank_.assign(proof_.stages, -1);
    return absl::OkStatus();
  }

  absl::Status CheckRank(int rank) {
    int64_t held = 0, most = 0;
    for (const TorchAction& action : schedule_[rank]) {
      int& owner = rank_[action.stage];
      if (owner >= 0 && owner != rank) {
        return Refuse(rank, action, absl::StrCat("is of a stage of rank ", owner),
                      "a stage is of one rank");
      }
      owner = rank;
      if (action.micro_batch >= proof_.micro_batches) {
        return Refuse(
            rank, action,
            absl::StrCat("is of a micro-batch beyond the ", proof_.micro_batches, " of a step"),
            "number the micro-batches from 0");
      }
      RETURN_IF_ERROR(Take(rank, action, &held));
      most = std::max(most, held);
    }
    proof_.most_held.push_back(most);
    return absl::OkStatus();
  }

  absl::Status Take(int rank, const TorchAction& action, int64_t* held) {
    Progress& done = done_[action.stage * proof_.micro_batches + action.micro_batch];
    const auto refuse = [&](std::string_view what) {
      return Refuse(rank, action, what, "write F, then B, or I and then W, each once");
    };
    switch (action.kind) {
      case TorchKind::kForward:
        if (done.forward) return refuse("comes twice");
        if (action.stage + 1 == proof_.stages && action.micro_batch != last_forwards_++) {
          return Refuse(rank, action, "is not the next forward of the last stage",
                        "PyTorch finds a loss by its place: take them in turn");
        }
        done.forward = true;
        ++*held;
        return absl::OkStatus();
      case TorchKind::kBackward:
      case TorchKind::kBackwardInput:
        if (!done.forward) return refuse("comes before its forward");
        if (done.backward) return refuse("comes after another backward");
        done.backward = true;
        done.is_full = action.kind == TorchKind::kBackward;
        if (done.is_full) --*held;
        return absl::OkStatus();
      case TorchKind::kBackwardWeight:
        if (!done.backward || done.is_full) return refuse("comes without an I before it");
        if (done.weights) return refuse("comes twice");
        done.weights = true;
        --*held;
        return absl::OkStatus();
      default: return refuse("is a send or a receive, which PyTorch adds itself");
    }
  }

  absl::Status CheckEnded(int stage) const {
    for (int64_t m = 0; m < proof_.micro_batches; ++m) {
      const Progress& done = done_[stage * proof_.micro_batches + m];
      if (done.backward && (done.is_full || done.weights)) continue;
      return InputError(
          absl::StrCat("stage ", stage),
          absl::StrCat("has no ", done.backward ? "W" : "backward", " of micro-batch ", m),
          "write B, or I and then W");
    }
    return absl::OkStatus();
  }

  static absl::Status Refuse(int rank, const TorchAction& action, std::string_view what,
                             std::string_view hint) {
    return InputError(absl::StrCat("rank ", rank, ", ", ActionText(action)), what, hint);
  }

  const TorchSchedule& schedule_;
  TorchProof proof_;
  std::vector<int> rank_;       // by stage
  std::vector<Progress> done_;  // by stage and micro-batch
  int64_t last_forwards_ = 0;   // of the last stage
};

// PyTorch's pass over a schedule. Invariant: an input is received where it is computed, so one
// table of what is computed tells both.
class Lowering {
 public:
  explicit Lowering(const TorchSchedule& schedule)
      : schedule_(schedule),
        rank_(RanksOfStages(schedule)),
        at_(schedule.size(), 0),
        lowered_(schedule.size()) {
    for (const auto& actions : schedule) {
      for (const TorchAction& action : actions) {
        micro_batches_ = std::max(micro_batches_, action.micro_batch + 1);
      }
    }
    for (auto& computed : computed_) computed.resize(stages() * micro_batches_);
  }

  absl::StatusOr<TorchSchedule> Lower() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < schedule_.size(); ++rank) {
        if (Ended(rank) || Missing(static_cast<int>(rank))) continue;
        Take(static_cast<int>(rank));
        moved = true;
      }
    }
    for (size_t rank = 0; rank < schedule_.size(); ++rank) {
      if (Ended(rank)) continue;
      return CycleFrom(static_cast<int>(rank), schedule_, at_,
                       [this](int r) { return *Missing(r); });
    }
    return std::move(lowered_);
  }

 private:
  int stages() const { return static_cast<int>(rank_.size()); }
  bool Ended(size_t rank) const { return at_[rank] == schedule_[rank].size(); }
  std::vector<bool>::reference Computed(bool backward, int stage, int64_t micro_batch) {
    return computed_[backward ? 1 : 0][stage * micro_batches_ + micro_batch];
  }

  // The input that the next action of a rank has not got.
  std::optional<TorchNeed> Missing(int rank) {
    const TorchAction& action = schedule_[rank][at_[rank]];
    const bool backward = IsBackward(action.kind);
    if (!backward && action.kind != TorchKind::kForward) return std::nullopt;
    const int from = action.stage + (backward ? 1 : -1);
    if (from < 0 || from == stages()) return std::nullopt;
    if (Computed(backward, from, action.micro_batch)) return std::nullopt;
    return TorchNeed{{FindKind(backward, from, action.micro_batch), from, action.micro_batch},
                     rank_[from]};
  }

  // For the text of an error: B or I, as the stage has it.
  TorchKind FindKind(bool backward, int stage, int64_t micro_batch) const {
    if (!backward) return TorchKind::kForward;
    const auto& actions = schedule_[rank_[stage]];
    const TorchAction input{TorchKind::kBackwardInput, stage, micro_batch};
    return std::find(actions.begin(), actions.end(), input) == actions.end()
               ? TorchKind::kBackward
               : TorchKind::kBackwardInput;
  }

  void Take(int rank) {
    const TorchAction action = schedule_[rank][at_[rank]++];
    lowered_[rank].push_back(action);
    const bool backward = IsBackward(action.kind);
    if (!backward && action.kind != TorchKind::kForward) return;
    Computed(backward, action.stage, action.micro_batch) = true;
    const int to = action.stage + (backward ? -1 : 1);
    if (to < 0 || to == stages() || rank_[to] == rank) return;
    lowered_[rank].push_back({backward ? TorchKind::kSendBackward : TorchKind::kSendForward,
                              action.stage, action.micro_batch});
    lowered_[rank_[to]].push_back(
        {backward ? TorchKind::kReceiveBackward : TorchKind::kReceiveForward, to,
         action.micro_batch});
  }

  const TorchSchedule& schedule_;
  const std::vector<int> rank_;  // by stage
  std::vector<size_t> at_;       // by rank: actions that are taken
  int64_t micro_batches_ = 0;
  std::vector<bool> computed_[2];  // forward and backward, by stage and micro-batch
  TorchSchedule lowered_;
};

// A send or a receive, and its other side.
TorchAction OtherSide(const TorchAction& action) {
  switch (action.kind) {
    case TorchKind::kSendForward:
      return {TorchKind::kReceiveForward, action.stage + 1, action.micro_batch};
    case TorchKind::kReceiveForward:
      return {TorchKind::kSendForward, action.stage - 1, action.micro_batch};
    case TorchKind::kSendBackward:
      return {TorchKind::kReceiveBackward, action.stage - 1, action.micro_batch};
    default: return {TorchKind::kSendBackward, action.stage + 1, action.micro_batch};
  }
}

bool IsSendOrReceive(const TorchAction& action) { return action.kind >= TorchKind::kSendForward; }

// The input of a forward or backward as an action that its rank must have taken; none: it has one
// of no other stage.
std::optional<TorchAction> ReceiveFor(const TorchAction& action, const std::vector<int>& ranks) {
  const bool backward = IsBackward(action.kind);
  if (!backward && action.kind != TorchKind::kForward) return std::nullopt;
  const int from = action.stage + (backward ? 1 : -1);
  if (from < 0 || from == static_cast<int>(ranks.size())) return std::nullopt;
  if (ranks[from] == ranks[action.stage]) return std::nullopt;
  return TorchAction{backward ? TorchKind::kReceiveBackward : TorchKind::kReceiveForward,
                     action.stage, action.micro_batch};
}

}  // namespace

absl::StatusOr<TorchProof> CheckTorchSchedule(const TorchSchedule& schedule) {
  return Legality(schedule).Check();
}

absl::StatusOr<TorchSchedule> AddTransfers(const TorchSchedule& schedule) {
  return Lowering(schedule).Lower();
}

absl::Status PlayTransfers(const TorchSchedule& schedule) {
  const std::vector<int> ranks = RanksOfStages(schedule);
  std::vector<size_t> at(schedule.size(), 0);
  std::vector<std::vector<TorchAction>> received(schedule.size());  // and not yet computed with
  const auto next = [&](int rank) -> const TorchAction* {
    return at[rank] < schedule[rank].size() ? &schedule[rank][at[rank]] : nullptr;
  };
  const auto need = [&](int rank) -> TorchNeed {
    const TorchAction other = OtherSide(*next(rank));
    const bool known = other.stage >= 0 && other.stage < static_cast<int>(ranks.size());
    return {other, known ? ranks[other.stage] : rank};
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < static_cast<int>(schedule.size()); ++rank) {
      for (const TorchAction* action = next(rank); action != nullptr; action = next(rank)) {
        if (IsSendOrReceive(*action)) {
          const TorchNeed other = need(rank);
          const TorchAction* there = next(other.rank);
          if (there == nullptr || *there != other.action) break;
          const bool receives = action->kind == TorchKind::kReceiveForward ||
                                action->kind == TorchKind::kReceiveBackward;
          const int receiver = receives ? rank : other.rank;
          received[receiver].push_back(receives ? *action : *there);
          ++at[other.rank];
        } else if (const auto input = ReceiveFor(*action, ranks)) {
          auto& there = received[rank];
          const auto found = std::find(there.begin(), there.end(), *input);
          if (found == there.end()) {
            return absl::FailedPreconditionError(absl::StrCat(
                "rank ", rank, " computes ", ActionText(*action), " before ", ActionText(*input)));
          }
          there.erase(found);
        }
        ++at[rank];
        moved = true;
      }
    }
  }
  for (int rank = 0; rank < static_cast<int>(schedule.size()); ++rank) {
    if (next(rank) == nullptr) continue;
    // A partner that has ended never comes: that is the whole reason.
    const TorchNeed other = need(rank);
    if (next(other.rank) != nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " stands at ", ActionText(*next(rank)), ", which waits for ",
                     ActionText(other.action), ", and rank ", other.rank, " has ended without it"));
  }
  for (int rank = 0; rank < static_cast<int>(schedule.size()); ++rank) {
    if (next(rank) != nullptr) return CycleFrom(rank, schedule, at, need);
  }
  return absl::OkStatus();
}

absl::StatusOr<TorchProof> ProveProgress(const TorchSchedule& schedule) {
  ASSIGN_OR_RETURN(TorchProof proof, CheckTorchSchedule(schedule));
  ASSIGN_OR_RETURN(const TorchSchedule lowered, AddTransfers(schedule));
  RETURN_IF_ERROR(PlayTransfers(lowered));
  for (const auto& actions : lowered) {
    proof.transfers += std::count_if(actions.begin(), actions.end(), IsSendOrReceive);
  }
  proof.transfers /= 2;
  return proof;
}

}  // namespace oneflow
