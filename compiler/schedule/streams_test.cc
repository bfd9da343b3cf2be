// Streams: who stands on which, and in what order.
#include "compiler/schedule/streams.h"

#include <catch2/catch.hpp>
#include <string>

namespace oneflow {
namespace {

// A lowered program of one actor a segment.
struct Segments {
  Lowered lowered;

  void Add(const std::string& name, int stage, Lane lane, Task task, int partner = -1) {
    proto::Segment* segment = lowered.program.add_segment();
    segment->set_id(lowered.program.segment_size() - 1);
    segment->set_name(name);
    segment->set_stage(stage);
    segment->add_actor(lowered.program.add_actor()->id());
    lowered.segments.push_back({lane, task, 1, partner});
  }
};

std::string Text(const proto::Program& program) {
  std::string text;
  for (const proto::Stream& stream : program.stream()) {
    text += std::to_string(stream.stage()) + " " + stream.name() + " " +
            proto::Stream::Kind_Name(stream.kind()) + ":";
    for (const proto::OrderRun& run : stream.order()) {
      for (const int s : run.segment()) text += " " + program.segment(s).name();
      text += "×" + std::to_string(run.repeat());
    }
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("sends and receives stand on a stream for each stage at their other end") {
  const Task f{Part::kForward}, b{Part::kBackward}, u{Part::kUpdate};
  Segments s;
  s.Add("load", 0, Lane::kHostIn, f);
  s.Add("F", 0, Lane::kCompute, f);
  s.Add("h.send", 0, Lane::kSendForward, f, 1);
  s.Add("far.send", 0, Lane::kSendForward, f, 2);
  s.Add("h2.send", 0, Lane::kSendForward, f, 1);
  s.Add("d", 0, Lane::kReceiveBackward, b, 1);
  s.Add("B", 0, Lane::kCompute, b);
  s.Add("U", 0, Lane::kCompute, u);
  s.Add("norm.send", 0, Lane::kSendUpdate, u, 2);
  s.Add("grad", 0, Lane::kReceiveUpdate, u, 2);
  s.Add("report", 0, Lane::kHostOut, u);
  s.Add("h", 1, Lane::kReceiveForward, f, 0);
  s.Add("d.send", 1, Lane::kSendBackward, b, 0);
  s.lowered.program.set_name("train");
  s.lowered.program.set_micro_batches(4);
  proto::Train train;
  train.set_schedule("gpipe");
  const absl::StatusOr<Schedule> schedule = MakeSchedule(train, /*stages=*/2);
  REQUIRE(schedule.ok());
  AddStreams(&s.lowered, /*stages=*/2, *schedule);
  CHECK(Text(s.lowered.program) ==
        "0 compute COMPUTE: F×4 B×4 U×1\n"
        "0 send.forward.1 EXCHANGE: h.send h2.send×4\n"
        "0 send.forward.2 EXCHANGE: far.send×4\n"
        "0 receive.backward.1 EXCHANGE: d×4\n"
        "0 send.update.2 EXCHANGE: norm.send×1\n"
        "0 receive.update.2 EXCHANGE: grad×1\n"
        "0 host.in HOST: load×4\n"
        "0 host.out HOST: report×1\n"
        "1 receive.forward.0 EXCHANGE: h×4\n"
        "1 send.backward.0 EXCHANGE: d.send×4\n");
}

}  // namespace oneflow
