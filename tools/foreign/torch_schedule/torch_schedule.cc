#include "tools/foreign/torch_schedule/torch_schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

constexpr int64_t kMostActions = int64_t{1} << 24;
constexpr std::string_view kActionForms =
    "write the stage, F, B, I or W, and the micro-batch, e.g. 2F0";

// By TorchKind.
constexpr std::array<std::string_view, 8> kKindNames = {"F",      "B",      "I",      "W",
                                                        "SEND_F", "RECV_F", "SEND_B", "RECV_B"};

TorchKind ToTorchKind(Part part, bool splits) {
  if (part == Part::kForward) return TorchKind::kForward;
  if (part == Part::kWeights) return TorchKind::kBackwardWeight;
  return splits ? TorchKind::kBackwardInput : TorchKind::kBackward;
}

bool IsOfMicroBatch(const Task& task) {
  return task.part != Part::kPrepare && task.part != Part::kUpdate;
}

// The task of a segment of a compute stream by its name: "F", of a chunk "F1".
Task TaskOfSegment(std::string_view name) {
  static constexpr std::string_view kParts = "PFBWU";
  Task task;
  const size_t part = name.empty() ? kParts.npos : kParts.find(name.front());
  task.part = part == kParts.npos ? Part::kPrepare : static_cast<Part>(part);
  for (const char digit : name.substr(std::min<size_t>(1, name.size()))) {
    if (digit >= '0' && digit <= '9') task.chunk = task.chunk * 10 + (digit - '0');
  }
  return task;
}

struct PlannedOrders {
  std::vector<StageOrder> stages;
  int64_t actions = 0;
};

PlannedOrders ReadOrders(const proto::Program& program) {
  PlannedOrders orders;
  for (const proto::Stream& stream : program.stream()) {
    if (stream.kind() != proto::Stream::COMPUTE) continue;
    orders.stages.resize(std::max<size_t>(orders.stages.size(), stream.stage() + 1));
    for (const proto::OrderRun& run : stream.order()) {
      TaskRun tasks{{}, run.repeat()};
      for (const int segment : run.segment()) {
        const Task task = TaskOfSegment(program.segment(segment).name());
        if (IsOfMicroBatch(task)) tasks.tasks.push_back(task);
      }
      orders.actions += static_cast<int64_t>(tasks.tasks.size()) * run.repeat();
      Append(std::move(tasks), &orders.stages[stream.stage()]);
    }
  }
  return orders;
}

// A whole number at the front of `text`, taken off it; -1: there is none.
int64_t TakeCount(std::string_view* text) {
  int64_t number = -1;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number < 0) return -1;
  text->remove_prefix(static_cast<size_t>(stop - text->data()));
  return number;
}

absl::StatusOr<TorchAction> ParseAction(std::string_view cell, const std::string& where) {
  std::string_view rest = cell;
  const int64_t stage = TakeCount(&rest);
  const size_t letters = std::min(rest.find_first_of("0123456789"), rest.size());
  const auto* const kind = std::find(kKindNames.begin(), kKindNames.end(), rest.substr(0, letters));
  rest.remove_prefix(letters);
  const int64_t micro_batch = TakeCount(&rest);
  const std::string what = absl::StrCat("\"", ToAbsl(cell), "\" ");
  if (stage < 0 || stage >= kMostActions || kind == kKindNames.end() || micro_batch < 0 ||
      micro_batch >= kMostActions || !rest.empty()) {
    return InputError(where, what + "is no action", kActionForms);
  }
  const auto index = kind - kKindNames.begin();
  if (index >= static_cast<int>(TorchKind::kSendForward)) {
    return InputError(where, what + "is a send or a receive, which PyTorch adds itself",
                      "leave it out");
  }
  return TorchAction{static_cast<TorchKind>(index), static_cast<int>(stage), micro_batch};
}

}  // namespace

std::string ActionText(const TorchAction& action) {
  return absl::StrCat(action.stage, ToAbsl(kKindNames[static_cast<size_t>(action.kind)]),
                      action.micro_batch);
}

TorchSchedule MakeTorchSchedule(const std::vector<StageOrder>& orders) {
  const int ranks = static_cast<int>(orders.size());
  TorchSchedule schedule(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    std::set<int> splits;  // chunks
    for (const TaskRun& run : orders[rank]) {
      for (const Task& task : run.tasks) {
        if (task.part == Part::kWeights) splits.insert(task.chunk);
      }
    }
    std::map<Task, int64_t> taken;
    for (const Task& task : Unrolled(orders[rank])) {
      if (!IsOfMicroBatch(task)) continue;
      const bool is_split = splits.count(task.chunk) > 0;
      schedule[rank].push_back(
          {ToTorchKind(task.part, is_split), task.chunk * ranks + rank, taken[task]++});
    }
  }
  return schedule;
}

absl::StatusOr<TorchSchedule> MakeTorchSchedule(const proto::Plan& plan) {
  const proto::Program* program = FindProgram(plan, "train");
  if (program == nullptr) {
    return InputError("order of a pipe for PyTorch", "the plan does not train",
                      "compile one that does");
  }
  if (StepsARound(plan) > 1) {
    return InputError("order of a pipe for PyTorch",
                      absl::StrCat("steps of schedule ", ScheduleName(plan),
                                   " overlap, and PyTorch's schedules order one step"),
                      "use --schedule=1f1b");
  }
  const PlannedOrders orders = ReadOrders(*program);
  if (orders.stages.size() < 2) {
    return InputError("order of a pipe for PyTorch",
                      "the plan has one stage, so there is no order to take",
                      "use a mesh with an axis pipe, e.g. --mesh=pipe=2");
  }
  if (orders.actions > kMostActions) {
    return InputError("order of a pipe for PyTorch",
                      absl::StrCat("has ", orders.actions, " actions, more than ", kMostActions),
                      "use fewer micro-batches");
  }
  return MakeTorchSchedule(orders.stages);
}

std::string TorchCsv(const TorchSchedule& schedule) {
  std::string csv;
  for (const std::vector<TorchAction>& rank : schedule) {
    const char* comma = "";
    for (const TorchAction& action : rank) {
      absl::StrAppend(&csv, comma, ActionText(action));
      comma = ",";
    }
    csv += '\n';
  }
  return csv;
}

absl::StatusOr<TorchSchedule> ParseTorchCsv(std::string_view csv, std::string_view file) {
  TorchSchedule schedule;
  std::vector<absl::string_view> lines = absl::StrSplit(ToAbsl(csv), '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string where = absl::StrCat(ToAbsl(file), ":", i + 1);
    schedule.emplace_back();
    for (absl::string_view cell : absl::StrSplit(lines[i], ',')) {
      cell = absl::StripAsciiWhitespace(cell);
      if (cell.empty()) continue;
      ASSIGN_OR_RETURN(const TorchAction action, ParseAction({cell.data(), cell.size()}, where));
      schedule.back().push_back(action);
    }
  }
  if (schedule.empty()) return InputError(file, "has no line", "write a line for each rank");
  return schedule;
}

}  // namespace oneflow
