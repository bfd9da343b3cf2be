// Streams: who stands on which, and in what order.
#include "compiler/schedule/streams.h"

#include <catch2/catch.hpp>
#include <string>

#include "compiler/schedule/order_file.h"

namespace oneflow {
namespace {

// A lowered program of one actor a segment.
struct Segments {
  Lowered lowered;

  // `stage`, `partner`: of the segment, and at the other end of a send or receive.
  int Add(const std::string& name, int stage, Lane lane, Task task, int partner = -1) {
    proto::Segment* segment = lowered.program.add_segment();
    segment->set_id(lowered.program.segment_size() - 1);
    segment->set_name(name);
    segment->set_stage(stage);
    proto::Actor* actor = lowered.program.add_actor();
    actor->set_id(lowered.program.actor_size() - 1);
    segment->add_actor(actor->id());
    lowered.segments.push_back({lane, task, 1, partner});
    return actor->id();
  }
  void Pair(int send, int receive) {
    lowered.program.mutable_actor(receive)->mutable_exchange()->set_partner(send);
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
  const int h_send = s.Add("h.send", 0, Lane::kSendForward, f, 1);
  s.Add("far.send", 0, Lane::kSendForward, f, 2);
  s.Add("h2.send", 0, Lane::kSendForward, f, 1);
  const int d = s.Add("d", 0, Lane::kReceiveBackward, b, 1);
  s.Add("B", 0, Lane::kCompute, b);
  s.Add("U", 0, Lane::kCompute, u);
  s.Add("norm.send", 0, Lane::kSendUpdate, u, 2);
  const int grad = s.Add("grad", 0, Lane::kReceiveUpdate, u, 2);
  s.Add("report", 0, Lane::kHostOut, u);
  s.Pair(h_send, s.Add("h", 1, Lane::kReceiveForward, f, 0));
  s.Pair(s.Add("d.send", 1, Lane::kSendBackward, b, 0), d);
  s.Pair(s.Add("grad.send", 2, Lane::kSendUpdate, u, 0), grad);
  s.lowered.program.set_name("train");
  s.lowered.program.set_micro_batches(4);
  const Schedule schedule = FindSchedule("gpipe").value();
  AddStreams(&s.lowered, /*stages=*/3, schedule);
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
        "1 send.backward.0 EXCHANGE: d.send×4\n"
        "2 send.update.0 EXCHANGE: grad.send×1\n");
}

TEST_CASE("receives stand in the order of the stage that sends") {
  const proto::PipelineOrder order =
      ParseOrder(
          "stage { task: \"F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0\" }\n"
          "stage { task: \"F0.0 F1.0 F0.1 B0.1 B0.0 F1.1 B1.1 B1.0\" }\n",
          "own")
          .value();
  const Schedule schedule = MakeWritten(order).value();
  Segments s;
  // The gradient that B of a chunk makes on stage 1 is read by B of that chunk on stage 0.
  for (const int chunk : {0, 1}) {
    const Task b{Part::kBackward, chunk};
    const std::string name = "d" + std::to_string(chunk);
    const int send = s.Add(name + ".send", 1, Lane::kSendBackward, b, 0);
    s.Pair(send, s.Add(name, 0, Lane::kReceiveBackward, b, 1));
  }
  s.lowered.program.set_micro_batches(2);
  AddStreams(&s.lowered, /*stages=*/2, schedule);
  CHECK(Text(s.lowered.program) ==
        "0 receive.backward.1 EXCHANGE: d1 d0×2\n"
        "1 send.backward.0 EXCHANGE: d1.send d0.send×2\n");
}

}  // namespace oneflow
