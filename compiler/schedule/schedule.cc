#include "compiler/schedule/schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/order_file.h"
#include "compiler/schedule/play_orders.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// A round is written out: its steps, and their micro-batches.
constexpr int64_t kMostOfRound = int64_t{1} << 16, kMostMicroBatchesOfRound = int64_t{1} << 19;

const std::vector<Schedule>& Table() {
  static const auto& table = *new std::vector<Schedule>{
      {"1f1b", OneFOneBOrder},
      {"gpipe", GPipeOrder},
      {.name = "interleaved", .order = InterleavedOrder, .chunks = 2},
      {.name = "zero_bubble", .order = ZeroBubbleOrder, .splits_backward = true},
      {.name = "pipedream", .order = OneFOneBOrder, .rule = {.stashing = true}},
      {.name = "2bw", .order = OneFOneBOrder, .rule = {.staleness = 1}}};
  return table;
}

absl::Status SetChunks(int chunks, Schedule* schedule) {
  const std::string where = absl::StrCat("--chunks=", chunks);
  if (chunks == 0) return absl::OkStatus();
  if (schedule->chunks == 1 && chunks > 1) {
    return InputError(where, "schedule " + schedule->name + " has one chunk a stage",
                      "use --schedule=interleaved, or leave --chunks out");
  }
  if (schedule->chunks > 1 && chunks == 1) {
    return InputError(where, "schedule " + schedule->name + " needs at least two chunks a stage",
                      "use --chunks=2, or --schedule=1f1b");
  }
  schedule->chunks = chunks;
  return absl::OkStatus();
}

// Weights may lag behind where nothing but the order of 1f1b is asked.
absl::Status SetRule(const proto::Recipe& recipe, int stages, Schedule* schedule) {
  UpdateRule& rule = schedule->rule;
  const std::string where = absl::StrCat("--staleness=", recipe.staleness());
  if (recipe.staleness() > 0) {
    if (schedule->name != "1f1b") {
      return InputError(where, "schedule " + schedule->name + " has no weights that lag so",
                        "use --schedule=1f1b, or leave --staleness out");
    }
    rule.staleness = recipe.staleness();
  }
  if (rule.synchronous()) {
    if (recipe.steps_a_round() == 0 || recipe.steps_a_round() == 1) return absl::OkStatus();
    return InputError(absl::StrCat("--steps_a_round=", recipe.steps_a_round()),
                      "steps of schedule " + schedule->name + " do not overlap",
                      "leave it out, or use --staleness");
  }
  if (schedule->extra_in_flight > 0) {
    return InputError(absl::StrCat("--extra_in_flight=", schedule->extra_in_flight),
                      "is not for weights that lag", "leave it out");
  }
  rule.steps_a_round = recipe.steps_a_round();
  RETURN_IF_ERROR(SetRound(stages, &rule));
  const int64_t most =
      std::min(kMostOfRound, kMostMicroBatchesOfRound /
                                 std::clamp<int64_t>(recipe.micro_batches(), 1, kMostOfRound));
  if (rule.steps_a_round <= most) return absl::OkStatus();
  return InputError(
      absl::StrCat("--steps_a_round=", rule.steps_a_round),
      absl::StrCat("of ", recipe.micro_batches(), " micro-batches are too many for one round"),
      absl::StrCat("use at most ", most, ", or fewer micro-batches"));
}

// Of a file, which any program may write: depths with which stages do not wait for each other.
absl::Status SetWarmUps(const proto::Recipe& recipe, int stages, Schedule* schedule) {
  if (!recipe.has_warm_ups()) return absl::OkStatus();
  constexpr char kWhere[] = "--warm_ups", kMend[] = "leave it out, so that it is chosen";
  if (schedule->order != ZeroBubbleOrder) {
    return InputError(kWhere, "schedule " + schedule->name + " has no depths of its own", kMend);
  }
  if (recipe.warm_ups().stage_size() != stages) {
    return InputError(
        kWhere,
        absl::StrCat("is of ", recipe.warm_ups().stage_size(), " stages, the mesh has ", stages),
        kMend);
  }
  for (const proto::WarmUps::Depth& depth : recipe.warm_ups().stage()) {
    const int64_t forwards = depth.forwards(), backwards = depth.backwards();
    if (forwards < 1 || forwards > kMostOfRound || backwards < 0 || backwards > kMostOfRound) {
      return InputError(kWhere, absl::StrCat(forwards, "+", backwards, " is out of range"), kMend);
    }
    schedule->warm_ups.push_back({forwards, backwards});
  }
  const int64_t few = FewMicroBatches(*schedule, stages, recipe.micro_batches());
  const absl::Status live =
      PlayOrders(MakeOrders(*schedule, stages, few), schedule->chunks, Alike(stages, {})).status();
  return live.ok() ? live : InputError(kWhere, ToStd(live.message()), kMend);
}

}  // namespace

absl::StatusOr<Schedule> FindSchedule(std::string_view name) {
  if (name.empty()) return Table()[0];
  std::string known;
  for (const Schedule& schedule : Table()) {
    if (schedule.name == name) return schedule;
    absl::StrAppend(&known, known.empty() ? "" : ", ", schedule.name);
  }
  return InputError("schedule", absl::StrCat("\"", ToAbsl(name), "\" is not known"),
                    "use one of: " + known);
}

absl::StatusOr<Schedule> MakeSchedule(const proto::Recipe& recipe, int stages) {
  if (recipe.has_order()) {
    ASSIGN_OR_RETURN(Schedule written, MakeWritten(recipe.order()));
    RETURN_IF_ERROR(CheckFits(written, stages, recipe.micro_batches()));
    return written;
  }
  ASSIGN_OR_RETURN(Schedule schedule, FindSchedule(recipe.schedule()));
  RETURN_IF_ERROR(SetChunks(recipe.chunks(), &schedule));
  schedule.extra_in_flight = recipe.extra_in_flight();
  RETURN_IF_ERROR(SetRule(recipe, stages, &schedule));
  RETURN_IF_ERROR(SetWarmUps(recipe, stages, &schedule));
  return schedule;
}

std::vector<StageOrder> MakeOrders(const Schedule& schedule, int stages, int64_t micro_batches) {
  if (schedule.order == nullptr) return schedule.written;
  std::vector<StageOrder> orders;
  for (int s = 0; s < stages; ++s) {
    if (!schedule.rule.synchronous()) {
      orders.push_back(RoundOrder(schedule.rule, stages, s, micro_batches));
      continue;
    }
    PipelineShape shape{stages, s, micro_batches, schedule.chunks, schedule.extra_in_flight};
    if (!schedule.warm_ups.empty()) shape.warm_up = schedule.warm_ups[s];
    orders.push_back(schedule.order(shape));
  }
  return orders;
}

int64_t Period(const Schedule& schedule, int stages) {
  // With overlapping steps, each step begins with the next of the buffers that micro-batches take
  // in turn.
  return schedule.chunks > 1 || !schedule.rule.synchronous() ? stages : 1;
}

int64_t MostUsefulExtra(const Schedule& schedule, int stages) {
  return schedule.order == ZeroBubbleOrder ? stages - 1 : 0;
}

int64_t FewMicroBatches(const Schedule& schedule, int stages, int64_t micro_batches) {
  if (schedule.order == nullptr) return micro_batches;
  const int64_t period = Period(schedule, stages);
  // A stage warms up for at most P + e micro-batches. With v chunks it holds fewer than
  // v P + 2 P, which may take so many buffers in turn.
  int64_t warm = schedule.chunks > 1 ? (schedule.chunks + 2) * stages : stages + 3;
  warm += schedule.extra_in_flight;
  for (const WarmUpDepth& warm_up : schedule.warm_ups) {
    warm = std::max(warm, warm_up.forwards + warm_up.backwards + 3);
  }
  if (micro_batches <= warm + period) return micro_batches;
  return warm + (micro_batches - warm) % period;
}

}  // namespace oneflow
