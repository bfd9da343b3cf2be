#include "compiler/schedule/streams.h"

#include <algorithm>
#include <array>
#include <vector>

namespace oneflow {
namespace {

constexpr std::array<const char*, 6> kNames = {"compute",     "copy.forward", "copy.backward",
                                               "copy.update", "host.in",      "host.out"};

class StreamBuilder {
 public:
  StreamBuilder(Lowered* lowered, int stage) : lowered_(lowered), stage_(stage) {}

  void AddCompute(const Schedule& schedule, int stages) {
    const std::vector<int> p = Segments(Lane::kCompute, Phase::kPrepare);
    const std::vector<int> f = Segments(Lane::kCompute, Phase::kForward);
    const std::vector<int> b = Segments(Lane::kCompute, Phase::kBackward);
    const std::vector<int> u = Segments(Lane::kCompute, Phase::kUpdate);
    if (p.empty() && f.empty() && b.empty() && u.empty()) return;
    proto::Stream* stream = NewStream(Lane::kCompute);
    AddRun(stream, p, 1);
    const int64_t m = lowered_->program.micro_batches();
    // A stage without a backward has nothing to interleave.
    if (b.empty() || f.empty()) {
      AddRun(stream, f.empty() ? b : f, m);
    } else {
      for (const PartRun& run : schedule.order({stages, stage_, m})) {
        std::vector<int> segments;
        for (Part part : run.parts) segments.push_back(part == Part::kForward ? f[0] : b[0]);
        AddRun(stream, segments, run.repeat);
      }
    }
    AddRun(stream, u, 1);
  }

  void AddLane(Lane lane) {
    const std::vector<int> before = Segments(lane, Phase::kPrepare);
    std::vector<int> often = Segments(lane, Phase::kForward);
    for (int segment : Segments(lane, Phase::kBackward)) often.push_back(segment);
    const std::vector<int> once = Segments(lane, Phase::kUpdate);
    if (before.empty() && often.empty() && once.empty()) return;
    proto::Stream* stream = NewStream(lane);
    AddRun(stream, before, 1);
    AddRun(stream, often, lowered_->program.micro_batches());
    AddRun(stream, once, 1);
  }

 private:
  std::vector<int> Segments(Lane lane, Phase phase) const {
    std::vector<int> found;
    for (const proto::Segment& segment : lowered_->program.segment()) {
      const SegmentInfo& info = lowered_->segments[segment.id()];
      if (segment.stage() == stage_ && info.lane == lane && info.phase == phase)
        found.push_back(segment.id());
    }
    return found;
  }

  proto::Stream* NewStream(Lane lane) {
    proto::Stream* stream = lowered_->program.add_stream();
    stream->set_id(lowered_->program.stream_size() - 1);
    stream->set_name(kNames[static_cast<size_t>(lane)]);
    stream->set_stage(stage_);
    stream->set_host(lane == Lane::kHostIn || lane == Lane::kHostOut);
    return stream;
  }

  static void AddRun(proto::Stream* stream, const std::vector<int>& segments, int64_t repeat) {
    if (segments.empty()) return;
    proto::OrderRun* run = stream->add_order();
    for (int segment : segments) run->add_segment(segment);
    run->set_repeat(static_cast<int>(repeat));
  }

  Lowered* lowered_;
  const int stage_;
};

}  // namespace

void AddStreams(Lowered* lowered, int stages, const Schedule& schedule) {
  for (int stage = 0; stage < stages; ++stage) {
    StreamBuilder builder(lowered, stage);
    builder.AddCompute(schedule, stages);
    for (Lane lane : {Lane::kCopyForward, Lane::kCopyBackward, Lane::kCopyUpdate, Lane::kHostIn,
                      Lane::kHostOut}) {
      builder.AddLane(lane);
    }
  }
}

}  // namespace oneflow
