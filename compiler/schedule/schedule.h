// Pipeline schedules. A schedule is only the order in which each stage runs its segments in one
// step. The rest of the compiler treats all schedules alike, and the runtime knows none.
//
//   gpipe        F×M B×M                     all forwards, then all backwards
//   1f1b         F×w (B F)×(M−w) B×w         w = min(M, P − s): so many micro-batches are saved
//   interleaved  the same over v chunks a stage, in rounds of P micro-batches (interleaved.cc)
//   zero_bubble  F×w (B F)×d (B W F)×(M−w−d) (B W)×w W×d: B and W apart (zero_bubble.cc)
//   pipedream, 2bw            1f1b over steps that overlap, on weights that lag (update_rule.h)
//
// A new schedule is one function in its own file and one row in the table of schedule.cc; a
// user's own is written in a file (order_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lower/order.h"
#include "compiler/schedule/update_rule.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// The number of micro-batches by which a stage of zero_bubble runs ahead. From F to W the stage
// holds as many as the sum of both.
struct WarmUpDepth {
  int64_t forwards = 1;   // before the first backward; at least 1
  int64_t backwards = 0;  // ahead of their gradients of weights
  bool operator==(const WarmUpDepth&) const = default;
};

inline constexpr int kMostChunks = 1 << 10;  // of a stage

struct PipelineShape {
  int stages = 1;               // P
  int stage = 0;                // s
  int64_t micro_batches = 1;    // M
  int chunks = 1;               // v
  int64_t extra_in_flight = 0;  // e: micro-batches whose bytes a stage may hold beyond what it must
  std::optional<WarmUpDepth> warm_up;  // of zero_bubble; none: EqualWarmUp
};

StageOrder GPipeOrder(const PipelineShape& shape);        // gpipe.cc
StageOrder OneFOneBOrder(const PipelineShape& shape);     // one_f_one_b.cc
StageOrder InterleavedOrder(const PipelineShape& shape);  // interleaved.cc
StageOrder ZeroBubbleOrder(const PipelineShape& shape);   // zero_bubble.cc

// The depths for equal F, B and W and links that take no time: at most P + e micro-batches.
WarmUpDepth EqualWarmUp(const PipelineShape& shape);  // zero_bubble.cc

struct Schedule {
  std::string name;
  StageOrder (*order)(const PipelineShape&) = nullptr;
  bool splits_backward = false;  // B and W are tasks of their own
  int chunks = 1;                // of every stage
  int64_t extra_in_flight = 0;
  std::vector<WarmUpDepth>
      warm_ups;     // of zero_bubble, by stage (fit_warm_ups.h); empty: EqualWarmUp
  UpdateRule rule;  // if it is not synchronous, it also gives the order (update_rule.h)
  // A user's own orders, by stage, for `written_for` micro-batches; then `order` is null.
  std::vector<StageOrder> written;
  int64_t written_for = 0;
};

// Finds a schedule by its name; "" is 1f1b. An unknown name is an input error that lists the known
// ones.
absl::StatusOr<Schedule> FindSchedule(std::string_view name);

// Returns the schedule of a recipe for a pipe of `stages`, checked: its own order, or the one that
// it names with chunks, extra_in_flight, warm_ups and rule.
absl::StatusOr<Schedule> MakeSchedule(const proto::Recipe& recipe, int stages);

// Returns the orders of all stages, for one round of the rule (a step if it is synchronous).
// Requires a number of micro-batches a step that the schedule allows.
std::vector<StageOrder> MakeOrders(const Schedule& schedule, int stages, int64_t micro_batches);

// A number of micro-batches, at most `micro_batches`, that shows the steady part of the schedule.
// Orders for more, by multiples of Period, only repeat that part more often.
int64_t FewMicroBatches(const Schedule& schedule, int stages, int64_t micro_batches);
int64_t Period(const Schedule& schedule, int stages);

// The extra_in_flight beyond which the bubble of equal stages with free links gets no shorter.
int64_t MostUsefulExtra(const Schedule& schedule, int stages);

}  // namespace oneflow
