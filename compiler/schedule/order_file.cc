#include "compiler/schedule/order_file.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/schedule/play_orders.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/utf8.h"
#include "proto/order.pb.h"

namespace oneflow {
namespace {

using google::protobuf::TextFormat;

constexpr std::string_view kForms = "write F, B or W and the micro-batch, F3, of a chunk F3.1";

// A whole number at the front of `text`, taken off it; -1: there is none.
int64_t TakeNumber(std::string_view* text) {
  int64_t number = -1;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || number < 0) return -1;
  text->remove_prefix(static_cast<size_t>(stop - text->data()));
  return number;
}

struct WrittenTask {
  Task task;
  int64_t micro_batch = 0;
};

absl::StatusOr<WrittenTask> ParseTask(std::string_view word, const std::string& where) {
  static const auto& parts = *new std::map<char, Part>{
      {'F', Part::kForward}, {'B', Part::kBackward}, {'W', Part::kWeights}};
  const auto bad = [&] {
    return InputError(where, "\"" + std::string(word) + "\" is no task", kForms);
  };
  const auto part = parts.find(word.front());
  if (part == parts.end()) return bad();
  std::string_view rest = word.substr(1);
  WrittenTask written{{part->second, 0}, TakeNumber(&rest)};
  int64_t chunk = 0;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    chunk = TakeNumber(&rest);
  }
  if (written.micro_batch < 0 || chunk < 0 || chunk >= kMostChunks || !rest.empty()) return bad();
  written.task.chunk = static_cast<int>(chunk);
  return written;
}

// One stage's list on its way. Invariant: taken_[task] micro-batches of a task came so far.
class StageReader {
 public:
  absl::Status Read(const std::string& tasks, const std::string& where) {
    for (const absl::string_view word : absl::StrSplit(tasks, ' ', absl::SkipEmpty())) {
      ASSIGN_OR_RETURN(const WrittenTask written, ParseTask({word.data(), word.size()}, where));
      int64_t& taken = taken_[{written.task.part, written.task.chunk}];
      if (written.micro_batch != taken) {
        return InputError(
            where,
            TaskText(written.task, written.micro_batch) + " comes where " +
                TaskText(written.task, taken) + " is due",
            "a task takes its micro-batches in turn, so that all orders add up alike");
      }
      ++taken;
      tasks_.push_back(written.task);
    }
    return absl::OkStatus();
  }

  bool Has(Part part) const {
    return std::any_of(taken_.begin(), taken_.end(),
                       [part](const auto& entry) { return entry.first.first == part; });
  }
  int chunks() const {
    int most = 0;
    for (const auto& [task, taken] : taken_) most = std::max(most, task.second + 1);
    return most;
  }
  // Micro-batches of the task that has most.
  int64_t MostTaken() const {
    int64_t most = 0;
    for (const auto& [task, taken] : taken_) most = std::max(most, taken);
    return most;
  }
  int64_t Taken(Part part, int chunk) const {
    const auto it = taken_.find({part, chunk});
    return it == taken_.end() ? 0 : it->second;
  }
  StageOrder Order() const { return Compressed(tasks_); }

 private:
  std::map<std::pair<Part, int>, int64_t> taken_;
  std::vector<Task> tasks_;
};

// Every chunk, part and micro-batch of the schedule, on this stage.
absl::Status CheckComplete(const StageReader& stage, const Schedule& schedule,
                           const std::string& where) {
  std::vector<Part> parts = {Part::kForward, Part::kBackward};
  if (schedule.splits_backward) parts.push_back(Part::kWeights);
  const bool chunks = schedule.chunks > 1;
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    const std::string of_chunk = chunks ? absl::StrCat(" of chunk ", chunk) : "";
    for (const Part part : parts) {
      const int64_t taken = stage.Taken(part, chunk);
      if (taken == schedule.written_for) continue;
      return InputError(
          where,
          absl::StrCat("has ", taken, " of the ", schedule.written_for, " micro-batches of ",
                       TaskName({part, chunk}, false), of_chunk),
          "every stage takes every micro-batch through each of its chunks once" +
              std::string(chunks ? "; F3 is of chunk 0, F3.1 of chunk 1" : ""));
    }
  }
  return absl::OkStatus();
}

// `locations`: of the text that `order` was read from; null: there is none.
absl::StatusOr<Schedule> Read(const proto::PipelineOrder& order, std::string_view file,
                              const TextFormat::ParseInfoTree* locations) {
  const auto* stage_field = order.GetDescriptor()->FindFieldByName("stage");
  const auto* task_field = proto::PipelineOrder::Stage::descriptor()->FindFieldByName("task");
  std::vector<StageReader> stages(order.stage_size());
  std::vector<std::string> where;
  for (int s = 0; s < order.stage_size(); ++s) {
    const auto at = [&](const TextFormat::ParseInfoTree* tree, const auto* field, int i) {
      if (tree == nullptr) return absl::StrCat(ToAbsl(file), ": stage ", s);
      const int line = tree->GetLocation(field, i).line;
      return absl::StrCat(ToAbsl(file), ":", line + 1, ": stage ", s);
    };
    where.push_back(at(locations, stage_field, s));
    const TextFormat::ParseInfoTree* inside =
        locations == nullptr ? nullptr : locations->GetTreeForNested(stage_field, s);
    for (int i = 0; i < order.stage(s).task_size(); ++i) {
      RETURN_IF_ERROR(stages[s].Read(order.stage(s).task(i), at(inside, task_field, i)));
    }
  }
  if (stages.empty()) return InputError(file, "has no stage", "see proto/order.proto");
  Schedule schedule{.name = std::string(file)};
  for (const StageReader& stage : stages) {
    schedule.chunks = std::max(schedule.chunks, stage.chunks());
    schedule.splits_backward |= stage.Has(Part::kWeights);
    schedule.written_for = std::max(schedule.written_for, stage.MostTaken());
    schedule.written.push_back(stage.Order());
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    RETURN_IF_ERROR(CheckComplete(stages[s], schedule, where[s]));
  }
  const absl::Status live =
      PlayOrders(schedule.written, schedule.chunks, Alike(static_cast<int>(stages.size()), {}))
          .status();
  if (!live.ok()) return InputError(file, ToStd(live.message()), "change one of these orders");
  return schedule;
}

}  // namespace

absl::StatusOr<proto::PipelineOrder> ParseOrder(std::string_view text, std::string_view file) {
  proto::PipelineOrder order;
  TextFormat::ParseInfoTree locations;
  RETURN_IF_ERROR(ParseText(text, file, "pipeline order", &order, &locations));
  RETURN_IF_ERROR(Read(order, file, &locations).status());
  order.set_name(Utf8(file));
  return order;
}

absl::StatusOr<Schedule> MakeWritten(const proto::PipelineOrder& order) {
  return Read(order, order.name().empty() ? "order" : order.name(), nullptr);
}

absl::Status CheckFits(const Schedule& schedule, int stages, int64_t micro_batches) {
  if (schedule.order != nullptr) return absl::OkStatus();
  if (static_cast<int>(schedule.written.size()) != stages) {
    return InputError(
        schedule.name,
        absl::StrCat("orders ", schedule.written.size(), " stages, the mesh has ", stages),
        "write one `stage` for each, or change pipe");
  }
  if (schedule.written_for == micro_batches) return absl::OkStatus();
  const std::string write = absl::StrCat("write the order of ", micro_batches);
  return InputError(
      schedule.name,
      absl::StrCat("orders ", schedule.written_for, " micro-batches, a step has ", micro_batches),
      schedule.written_for == 0
          ? write
          : absl::StrCat(write, ", or use --micro_batches=", schedule.written_for,
                         " (times --sync_every)"));
}

}  // namespace oneflow
