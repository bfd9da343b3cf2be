// The packets of Perfetto's format. tests/e2e/trace_test compares the file with the JSON of a run.
#include "actor_runtime/exec/trace_perfetto.h"

#include <zlib.h>

#include <catch2/catch.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actor_runtime/exec/trace_json.h"
#include "proto/perfetto_trace.pb.h"

namespace oneflow {
namespace {

using proto::perfetto::TracePacket;
using proto::perfetto::TrackEvent;

struct TestSlice {
  int track;
  std::string name;
  int64_t begin, end;
};

// A process of two streams, "a" and "b", that have fired.
proto::ProcessTrace TwoStreams(const std::vector<TestSlice>& slices) {
  proto::ProcessTrace part;
  for (const char* name : {"a", "b"}) part.add_track()->set_name(name);
  for (const TestSlice& slice : slices) {
    part.add_name(slice.name);
    proto::ProcessTrace::Firings* firings = part.add_firings();
    firings->set_track(slice.track);
    firings->set_program("train");
    firings->add_name(part.name_size() - 1);
    firings->add_begin(slice.begin);
    firings->add_end(slice.end);
    firings->add_step(0);
    firings->add_firing(0);
  }
  return part;
}

void AddArrow(int from_track, int64_t from, int to_track, int64_t to, proto::ProcessTrace* part) {
  proto::ProcessTrace::Arrows* arrows = part->mutable_arrows();
  arrows->add_from_track(from_track);
  arrows->add_from(from);
  arrows->add_to_track(to_track);
  arrows->add_to(to);
}

std::vector<TracePacket> ReadPackets(const std::string& bytes) {
  std::vector<TracePacket> packets;
  proto::perfetto::Trace file, block;
  REQUIRE(file.ParseFromString(bytes));
  for (const TracePacket& packet : file.packet()) {
    CHECK(packet.ByteSizeLong() < (size_t{512} << 10));
    std::string plain(1 << 20, '\0');
    uLongf size = plain.size();
    const std::string& compressed = packet.compressed_packets();
    REQUIRE(uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                       reinterpret_cast<const Bytef*>(compressed.data()),
                       compressed.size()) == Z_OK);
    plain.resize(size);
    REQUIRE(block.ParseFromString(plain));
    packets.insert(packets.end(), block.packet().begin(), block.packet().end());
  }
  return packets;
}

std::vector<TracePacket> Packets(const proto::ProcessTrace& part, const TraceFacts& facts = {}) {
  return ReadPackets(TracePerfetto({&part, 1}, 1, facts));
}

std::vector<TrackEvent> EventsInTrack(const std::vector<TracePacket>& packets,
                                      const std::string& name) {
  uint64_t uuid = 0;
  std::set<uint32_t> sequences;
  std::vector<TrackEvent> events;
  for (const TracePacket& packet : packets) {
    if (packet.track_descriptor().name() == name) uuid = packet.track_descriptor().uuid();
  }
  for (const TracePacket& packet : packets) {
    const uint32_t sequence = packet.trusted_packet_sequence_id();
    if (packet.trace_packet_defaults().track_event_defaults().track_uuid() == uuid) {
      sequences.insert(sequence);
    }
    if (packet.has_track_event() && sequences.contains(sequence)) {
      events.push_back(packet.track_event());
    }
  }
  return events;
}

TEST_CASE("a name is interned once in a sequence, and a moment is the time since the one before") {
  const std::vector<TracePacket> packets =
      Packets(TwoStreams({{0, "f", 100, 130}, {0, "f", 135, 150}, {1, "f", 170, 170}}));
  std::map<uint32_t, std::vector<uint64_t>> times;
  std::map<uint32_t, std::vector<std::string>> names;
  for (const TracePacket& packet : packets) {
    const uint32_t sequence = packet.trusted_packet_sequence_id();
    if (packet.track_event().has_track_uuid()) continue;  // a mark
    if (packet.has_track_event()) times[sequence].push_back(packet.timestamp());
    for (const auto& name : packet.interned_data().event_names()) {
      names[sequence].push_back(name.str());
    }
  }
  using Times = std::vector<uint64_t>;
  REQUIRE(times.size() == 2);
  CHECK(times.begin()->second == Times{0, 30, 5, 15});
  CHECK(times.rbegin()->second == Times{70, 0});
  REQUIRE(names.size() == 2);
  for (const auto& [sequence, once] : names) CHECK(once == std::vector<std::string>{"f"});
}

TEST_CASE("streams are below their device, which tells how many it stands for") {
  proto::ProcessTrace part = TwoStreams({{0, "f", 0, 1}});
  part.set_predicted(true);
  part.mutable_track(0)->set_rank(1);
  part.mutable_track(1)->set_rank(1);
  TraceFacts facts;
  facts.stage_of = {0, 0, 1, 1, 1, 0, 1};
  std::map<std::string, std::pair<uint64_t, uint64_t>> tracks;
  for (const TracePacket& packet : Packets(part, facts)) {
    const proto::perfetto::TrackDescriptor& track = packet.track_descriptor();
    if (packet.has_track_descriptor()) tracks[track.name()] = {track.uuid(), track.parent_uuid()};
  }
  const std::string device = "predicted: stage 1, ranks 2..4, 6 alike (4 devices)";
  REQUIRE(tracks.contains(device));
  CHECK(tracks["a"].second == tracks[device].first);
  CHECK(tracks["b"].second == tracks[device].first);
}

TEST_CASE("a flow leaves at a begin and arrives at one, or at the end of a slice that waited") {
  proto::ProcessTrace part =
      TwoStreams({{0, "f", 0, 10}, {0, "g", 10, 20}, {1, "x", 10, 12}, {1, "y", 12, 30}});
  AddArrow(0, 9, 1, 10, &part);   // from the end of f to the begin of x
  AddArrow(0, 10, 1, 29, &part);  // from the begin of g to the end of y
  AddArrow(0, 50, 1, 60, &part);  // in no slice
  const std::vector<TracePacket> packets = Packets(part);
  const std::vector<TrackEvent> a = EventsInTrack(packets, "a"), b = EventsInTrack(packets, "b");
  REQUIRE(a.size() == 4);
  REQUIRE(b.size() == 4);
  const auto leaving = [](const TrackEvent& event) {
    return std::vector<uint64_t>(event.flow_ids().begin(), event.flow_ids().end());
  };
  const auto arriving = [](const TrackEvent& event) {
    return std::vector<uint64_t>(event.terminating_flow_ids().begin(),
                                 event.terminating_flow_ids().end());
  };
  using Flows = std::vector<uint64_t>;
  CHECK(leaving(a[0]) == Flows{1});
  CHECK(leaving(a[2]) == Flows{2});
  CHECK(arriving(b[0]) == Flows{1});
  CHECK(arriving(b[2]).empty());
  CHECK(arriving(b[3]) == Flows{2});
}

TEST_CASE("a slice that begins too early, by an error of clocks, does not go back in time") {
  const std::vector<TracePacket> packets =
      Packets(TwoStreams({{0, "f", 0, 10}, {0, "g", 9, 8}, {0, "h", 11, 12}}));
  std::vector<uint64_t> times;
  for (const TracePacket& packet : packets) {
    if (packet.has_track_event() && !packet.track_event().has_track_uuid()) {
      times.push_back(packet.timestamp());
    }
  }
  CHECK(times == std::vector<uint64_t>{0, 10, 0, 0, 1, 1});
}

TEST_CASE("counters have bytes, and what was dropped is said") {
  proto::ProcessTrace part = TwoStreams({{0, "f", 100, 130}});
  part.set_dropped(7);
  proto::ProcessTrace::Memory* memory = part.add_memory();
  memory->add_time(100);
  memory->add_bytes(64);
  memory->add_time(130);
  memory->add_bytes(0);
  const std::vector<TracePacket> packets = Packets(part);
  std::vector<int64_t> values;
  for (const TrackEvent& event : EventsInTrack(packets, "bytes of registers in use")) {
    REQUIRE(event.has_counter_value());
    values.push_back(event.counter_value());
  }
  CHECK(values == std::vector<int64_t>{64, 0});
  REQUIRE(packets[0].trace_attributes().attribute_size() == 1);
  CHECK(packets[0].trace_attributes().attribute(0).string_value() == "7");
  std::set<std::string> marks;
  for (const TracePacket& packet : packets) {
    if (packet.trusted_packet_sequence_id() != 1) continue;
    for (const auto& name : packet.interned_data().event_names()) marks.insert(name.str());
  }
  CHECK(marks == std::set<std::string>{"truncated: 7 firings did not fit", "step 0"});
}

TEST_CASE("a trace of many packets is several blocks; a name chooses the format") {
  const std::vector<TestSlice> slices(5000, {0, "f", 0, 0});
  const proto::ProcessTrace part = TwoStreams(slices);
  const std::string bytes = TracePerfetto({&part, 1});
  proto::perfetto::Trace file;
  REQUIRE(file.ParseFromString(bytes));
  CHECK(file.packet_size() == 5);
  CHECK(EventsInTrack(ReadPackets(bytes), "a").size() == 10'000);
  CHECK(TraceFileBytes("t.pftrace", {&part, 1}, 1, {}) == bytes);
  CHECK(TraceFileBytes("t.json", {&part, 1}, 1, {}) == TraceJson({&part, 1}));
}

}  // namespace
}  // namespace oneflow
