#include "compiler/schedule/streams.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

struct LaneInfo {
  Lane lane;
  const char* name;
  proto::Stream::Kind kind;
};
constexpr std::array<LaneInfo, 18> kLanes = {{
    {Lane::kCompute, "compute", proto::Stream::COMPUTE},
    {Lane::kCollective, "collective", proto::Stream::EXCHANGE},
    {Lane::kGradient, "gradient", proto::Stream::EXCHANGE},
    {Lane::kReduction, "reduction", proto::Stream::EXCHANGE},
    {Lane::kGather, "gather", proto::Stream::EXCHANGE},
    {Lane::kSendForward, "send.forward", proto::Stream::EXCHANGE},
    {Lane::kReceiveForward, "receive.forward", proto::Stream::EXCHANGE},
    {Lane::kSendBackward, "send.backward", proto::Stream::EXCHANGE},
    {Lane::kReceiveBackward, "receive.backward", proto::Stream::EXCHANGE},
    {Lane::kSendUpdate, "send.update", proto::Stream::EXCHANGE},
    {Lane::kReceiveUpdate, "receive.update", proto::Stream::EXCHANGE},
    {Lane::kCopyIn, "copy.in", proto::Stream::COPY},
    {Lane::kCopyOut, "copy.out", proto::Stream::COPY},
    {Lane::kHostIn, "host.in", proto::Stream::HOST},
    {Lane::kHostOut, "host.out", proto::Stream::HOST},
    {Lane::kOffloadOut, "offload.out", proto::Stream::COPY},
    {Lane::kOffloadIn, "offload.in", proto::Stream::COPY},
    {Lane::kHostUpdate, "host.update", proto::Stream::HOST_COMPUTE},
}};

// A step of a program without a backward: every micro-batch through the chunks, one after another.
StageOrder ForwardOrder(int chunks, int64_t micro_batches) {
  TaskRun run{{}, micro_batches};
  for (int c = 0; c < chunks; ++c) run.tasks.push_back({Part::kForward, c});
  return {run};
}

// The tasks of a stage in one step: P, then those of the schedule, then U. If weights lag, the
// round contains P and U itself.
StageOrder AddUpdates(const StageOrder& scheduled, const UpdateRule& rule) {
  if (!rule.synchronous()) return scheduled;
  StageOrder order = {{{{Part::kPrepare}}, 1}};
  Append(scheduled, &order);
  Append({{{Part::kUpdate}}, 1}, &order);
  return order;
}

bool Receives(Lane lane) {
  return lane == Lane::kReceiveForward || lane == Lane::kReceiveBackward ||
         lane == Lane::kReceiveUpdate;
}

// The segments of a stage that stand in a lane and follow a task, in topological order. A receive
// follows the task of its send, which is the partner's: a task of the stage's own would be another
// order, where the two stages take their chunks in different turns.
using SegmentKey = std::tuple<int, Lane, int, Part, int>;  // stage, lane, partner, part, chunk
using SegmentIndex = std::map<SegmentKey, std::vector<int>>;

SegmentIndex IndexSegments(const Lowered& lowered) {
  const proto::Program& program = lowered.program;
  std::vector<int> segment_of(program.actor_size());
  for (const proto::Segment& segment : program.segment()) {
    for (const int actor : segment.actor()) segment_of[actor] = segment.id();
  }
  SegmentIndex index;
  for (const proto::Segment& segment : program.segment()) {
    const auto& [lane, own_task, times, partner] = lowered.segments[segment.id()];
    const Task task =
        Receives(lane)
            ? lowered.segments[segment_of[program.actor(segment.actor(0)).exchange().partner()]]
                  .task
            : own_task;
    std::vector<int>& found = index[{segment.stage(), lane, partner, task.part, task.chunk}];
    found.insert(found.end(), times, segment.id());
  }
  return index;
}

class StreamBuilder {
 public:
  StreamBuilder(Lowered* lowered, const SegmentIndex& index, int stage,
                const std::vector<StageOrder>& orders)
      : lowered_(lowered), index_(index), stage_(stage), orders_(orders) {}

  // The streams of a lane: one, or one for each partner.
  void AddLane(const LaneInfo& lane) {
    std::set<int> partners;
    for (const auto& [key, segments] : index_) {
      if (std::get<0>(key) == stage_ && std::get<1>(key) == lane.lane) {
        partners.insert(std::get<2>(key));
      }
    }
    for (const int partner : partners) AddStream(lane, partner);
  }

 private:
  // The stage's order, of receives the partner's, as far as the lane has segments for it.
  void AddStream(const LaneInfo& lane, int partner) {
    std::vector<std::pair<std::vector<int>, int64_t>> runs;
    for (const TaskRun& run : orders_[Receives(lane.lane) ? partner : stage_]) {
      std::vector<int> segments;
      for (const Task& task : run.tasks) AddSegments(lane.lane, partner, task, &segments);
      if (segments.empty()) continue;
      if (!runs.empty() && runs.back().first == segments) {
        runs.back().second += run.repeat;
      } else {
        runs.emplace_back(std::move(segments), run.repeat);
      }
    }
    if (runs.empty()) return;
    proto::Stream* stream = NewStream(lane, partner);
    for (const auto& [segments, repeat] : runs) {
      proto::OrderRun* run = stream->add_order();
      run->mutable_segment()->Add(segments.begin(), segments.end());
      run->set_repeat(static_cast<int>(repeat));
    }
  }

  void AddSegments(Lane lane, int partner, const Task& task, std::vector<int>* segments) const {
    const auto found = index_.find({stage_, lane, partner, task.part, task.chunk});
    if (found == index_.end()) return;
    segments->insert(segments->end(), found->second.begin(), found->second.end());
  }

  proto::Stream* NewStream(const LaneInfo& lane, int partner) {
    proto::Stream* stream = lowered_->program.add_stream();
    stream->set_id(lowered_->program.stream_size() - 1);
    stream->set_name(partner < 0 ? lane.name : absl::StrCat(lane.name, ".", partner));
    stream->set_stage(stage_);
    stream->set_kind(lane.kind);
    return stream;
  }

  Lowered* lowered_;
  const SegmentIndex& index_;
  const int stage_;
  const std::vector<StageOrder>& orders_;  // by stage
};

bool HasBackward(const Lowered& lowered) {
  return std::any_of(lowered.segments.begin(), lowered.segments.end(), [](const SegmentInfo& info) {
    return info.task.part == Part::kBackward || info.task.part == Part::kWeights;
  });
}

}  // namespace

void AddStreams(Lowered* lowered, int stages, const Schedule& schedule) {
  const int64_t micro_batches = lowered->program.micro_batches();
  const bool trains = HasBackward(*lowered);
  std::vector<StageOrder> orders =
      trains ? MakeOrders(schedule, stages, micro_batches)
             : std::vector<StageOrder>(stages, ForwardOrder(schedule.chunks, micro_batches));
  const UpdateRule rule = trains ? schedule.rule : UpdateRule();
  for (StageOrder& order : orders) order = AddUpdates(order, rule);
  const SegmentIndex index = IndexSegments(*lowered);
  for (int stage = 0; stage < stages; ++stage) {
    StreamBuilder builder(lowered, index, stage, orders);
    for (const LaneInfo& lane : kLanes) builder.AddLane(lane);
  }
}

}  // namespace oneflow
