#include "compiler/schedule/play_orders.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

constexpr size_t kParts = 5;

// Invariant: ends_[part][position] has the end of every such task that was taken, by micro-batch,
// where a position is counted along the pipe: chunk * stages + stage.
class Game {
 public:
  Game(const std::vector<StageOrder>& orders, int chunks, const PipeSeconds& seconds, int steps)
      : chunks_(chunks), steps_(steps), seconds_(seconds) {
    for (const StageOrder& order : orders) stages_.push_back({Unrolled(order)});
    for (auto& of_part : ends_) of_part.resize(stages_.size() * chunks);
  }

  absl::StatusOr<PlayedSteps> Play() {
    PlayedSteps played(steps_, std::vector<PlayedStep>(stages_.size()));
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < stages_.size(); ++s)
        moved = Advance(static_cast<int>(s), &played) || moved;
    }
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (!Done(static_cast<int>(s))) return Dead(static_cast<int>(s));
    }
    return played;
  }

 private:
  struct Stage {
    std::vector<Task> tasks;  // of one step
    int64_t taken = 0;
    double free_at = 0;
  };
  // Another task that must end first.
  struct Need {
    Task task;
    int stage = 0;
  };
  using Needs = absl::InlinedVector<Need, 2>;

  int stages() const { return static_cast<int>(stages_.size()); }
  bool Done(int s) const {
    return stages_[s].taken == steps_ * static_cast<int64_t>(stages_[s].tasks.size());
  }
  const Task& Next(int s) const {
    return stages_[s].tasks[stages_[s].taken % stages_[s].tasks.size()];
  }
  std::vector<double>& Ends(const Task& task, int s) {
    return ends_[static_cast<size_t>(task.part)][task.chunk * stages() + s];
  }

  // The tasks of the same micro-batch that must end before `task`.
  Needs FindNeeds(const Task& task, int s) const {
    const auto [part, chunk] = task;
    if (part == Part::kWeights) return {{{Part::kBackward, chunk}, s}};
    if (part == Part::kForward) {
      if (s > 0) return {{{Part::kForward, chunk}, s - 1}};
      if (chunk > 0) return {{{Part::kForward, chunk - 1}, stages() - 1}};
    }
    if (part != Part::kBackward) return {};
    Needs needs = {{{Part::kForward, chunk}, s}};
    if (s + 1 < stages()) {
      needs.push_back({{Part::kBackward, chunk}, s + 1});
    } else if (chunk + 1 < chunks_) {
      needs.push_back({{Part::kBackward, chunk + 1}, 0});
    }
    return needs;
  }

  std::optional<Need> Missing(int s) {
    const size_t micro_batch = Ends(Next(s), s).size();
    for (const Need& need : FindNeeds(Next(s), s)) {
      if (Ends(need.task, need.stage).size() <= micro_batch) return need;
    }
    return std::nullopt;
  }

  double TaskTime(const Task& task, int s) const {
    const TaskSeconds& seconds =
        seconds_.slices.empty() ? seconds_.stages[s] : seconds_.slices[task.chunk * stages() + s];
    switch (task.part) {
      case Part::kForward: return seconds.forward;
      case Part::kBackward: return seconds.backward;
      case Part::kWeights: return seconds.weights;
      default: return 0;
    }
  }

  double LinkSeconds(int s, int other) const {
    if (s == other || seconds_.links.empty()) return 0;
    const bool around = std::abs(s - other) > 1;  // only from the last stage to the first
    return seconds_.links[around ? stages() - 1 : std::min(s, other)];
  }

  bool Advance(int s, PlayedSteps* played) {
    Stage& stage = stages_[s];
    const auto step = static_cast<int64_t>(stage.tasks.size());
    bool moved = false;
    for (; !Done(s) && !Missing(s); moved = true) {
      const Task task = Next(s);
      std::vector<double>& mine = Ends(task, s);
      double start = stage.free_at;
      for (const Need& need : FindNeeds(task, s)) {
        const double end = Ends(need.task, need.stage)[mine.size()];
        const bool backward = task.part == Part::kBackward && need.task.part == Part::kBackward;
        const double ahead =
            backward && !seconds_.ahead.empty() ? seconds_.ahead[task.chunk * stages() + s] : 0;
        start = std::max(start, end + LinkSeconds(s, need.stage) - ahead);
      }
      stage.free_at = start + TaskTime(task, s);
      mine.push_back(stage.free_at);
      if (stage.taken % step == 0) (*played)[stage.taken / step][s].begin = start;
      if (++stage.taken % step == 0) (*played)[stage.taken / step - 1][s].end = stage.free_at;
    }
    return moved;
  }

  // Each stuck stage waits for another stuck one: a walk along them comes back.
  absl::Status Dead(int s) {
    std::vector<int> walk;
    while (std::find(walk.begin(), walk.end(), s) == walk.end()) {
      walk.push_back(s);
      s = Missing(s)->stage;
    }
    walk.erase(walk.begin(), std::find(walk.begin(), walk.end(), s));
    std::string text;
    for (const int at : walk) {
      const auto micro_batch = static_cast<int64_t>(Ends(Next(at), at).size());
      const Need need = *Missing(at);
      absl::StrAppend(&text, text.empty() ? "" : "; ", "stage ", at, " stands at ",
                      TaskText(Next(at), micro_batch), ", which waits for ",
                      TaskText(need.task, micro_batch), " of stage ", need.stage);
    }
    return absl::FailedPreconditionError("the orders wait for each other: " + text);
  }

  const int chunks_, steps_;
  const PipeSeconds& seconds_;
  std::vector<Stage> stages_;
  std::array<std::vector<std::vector<double>>, kParts> ends_;
};

}  // namespace

PipeSeconds Alike(int stages, const TaskSeconds& seconds) {
  return {std::vector<TaskSeconds>(stages, seconds)};
}

absl::StatusOr<PlayedSteps> PlayOrders(const std::vector<StageOrder>& orders, int chunks,
                                       const PipeSeconds& seconds, int steps) {
  return Game(orders, chunks, seconds, steps).Play();
}

std::string TaskText(const Task& task, int64_t micro_batch) {
  std::string text = absl::StrCat(TaskName(task, false), micro_batch);
  if (task.chunk > 0) absl::StrAppend(&text, ".", task.chunk);
  return text;
}

}  // namespace oneflow
