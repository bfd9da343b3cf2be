#include "actor_runtime/exec/trace_perfetto.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include <glog/logging.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "actor_runtime/exec/trace_events.h"
#include "actor_runtime/exec/trace_json.h"
#include "proto/perfetto_trace.pb.h"

namespace oneflow {
namespace {

using proto::perfetto::InternedData;
using proto::perfetto::InternedString;
using proto::perfetto::TracePacket;
using proto::perfetto::TrackEvent;

// Perfetto wants at most 512 KiB of compressed packets in one; these have about a quarter of it
// before they are compressed.
constexpr int kPacketsABlock = 2048;
constexpr int kBootTime = 6;      // the clock of the trace, by Perfetto's number
constexpr int kIncremental = 64;  // a sequence's own clock, of differences
constexpr uint32_t kMarks = 1;    // the sequence of marks
constexpr uint64_t kRoot = 0;     // the track of all

// Invariants: a device, a track and a counter have a descriptor before their first event; the
// slices of a track, and the values of a counter, follow one another in a sequence of their own, in
// the order of their moments.
class PerfettoWriter {
 public:
  void operator()(const TraceHeader& header) {
    TracePacket* packet = AddPacket();
    const auto add = [&](std::string_view key, std::string_view value) {
      auto* attribute = packet->mutable_trace_attributes()->add_attribute();
      attribute->set_key(std::string(key));
      attribute->set_string_value(std::string(value));
    };
    add("dropped_events", absl::StrCat(header.dropped));
    for (const auto& [key, value] : header.facts) add(key, value);
    Describe(kRoot, "", kRoot)->set_child_ordering(proto::perfetto::TrackDescriptor::EXPLICIT);
    packet = AddPacket();
    packet->set_trusted_packet_sequence_id(kMarks);
    packet->set_sequence_flags(TracePacket::INCREMENTAL_STATE_CLEARED);
    if (header.dropped == 0) return;
    AddMark(kRoot, 0, absl::StrCat("truncated: ", header.dropped, " firings did not fit"));
  }

  void operator()(const TraceDevice& device) {
    const uint64_t uuid = ++uuids_;
    devices_[device.id] = uuid;
    Describe(uuid, device.name, kRoot)
        ->set_child_ordering(proto::perfetto::TrackDescriptor::EXPLICIT);
  }

  void operator()(const TraceTrack& track) {
    tracks_.push_back({BeginSequence(++uuids_)});
    Describe(tracks_.back().sequence.track, track.name, devices_[track.device]);
  }

  void operator()(const TraceFlow& flow) {
    tracks_[flow.from - 1].moments.push_back({flow.from_time, flow.id, /*leaves=*/true});
    tracks_[flow.to - 1].moments.push_back({flow.to_time, flow.id, /*leaves=*/false});
  }

  void operator()(const TraceSlice& slice) {
    Track& track = tracks_[slice.track - 1];
    Sequence& sequence = track.sequence;
    TracePacket* begin = AddEvent(&sequence, slice.begin, TrackEvent::TYPE_SLICE_BEGIN);
    TrackEvent* event = begin->mutable_track_event();
    event->add_category_iids(Intern(&sequence, kCategories, slice.category, begin));
    event->set_name_iid(Intern(&sequence, kNames, slice.name, begin));
    for (const TraceArgument& argument : slice.arguments) {
      auto* annotation = event->add_debug_annotations();
      annotation->set_name_iid(Intern(&sequence, kArguments, argument.name, begin));
      if (const auto* text = std::get_if<std::string_view>(&argument.value)) {
        annotation->set_string_value_iid(Intern(&sequence, kTexts, *text, begin));
      } else if (const auto* number = std::get_if<int64_t>(&argument.value)) {
        annotation->set_int_value(*number);
      } else {
        const auto& duration = std::get<TraceArgument::Duration>(argument.value);
        annotation->set_double_value(static_cast<double>(duration.nanoseconds) / 1000);
      }
    }
    late_.clear();
    TakeFlows(&track, slice, event);
    TracePacket* end = AddEvent(&sequence, slice.end, TrackEvent::TYPE_SLICE_END);
    for (const int64_t flow : late_) end->mutable_track_event()->add_terminating_flow_ids(flow);
  }

  void operator()(const TraceCounter& counter) {
    const auto [entry, fresh] = counters_.try_emplace({counter.device, std::string(counter.name)});
    Sequence& sequence = entry->second;
    if (fresh) {
      sequence = BeginSequence(++uuids_);
      Describe(sequence.track, counter.name, devices_[counter.device])
          ->mutable_counter()
          ->set_unit(proto::perfetto::CounterDescriptor::UNIT_SIZE_BYTES);
    }
    AddEvent(&sequence, counter.time, TrackEvent::TYPE_COUNTER)
        ->mutable_track_event()
        ->set_counter_value(counter.bytes);
  }

  void operator()(const TraceMark& mark) { AddMark(devices_[mark.device], mark.time, mark.name); }

  std::string Finish() {
    WriteBlock();
    return std::move(bytes_);
  }

 private:
  enum Interned { kCategories, kNames, kArguments, kTexts, kInternedKinds };
  // Packets of one track, with what they have named, and the moment of the last.
  struct Sequence {
    uint32_t id = 0;
    uint64_t track = 0;
    int64_t time = 0;
    std::array<absl::flat_hash_map<std::string, uint64_t>, kInternedKinds> interned;
  };
  // Where a flow leaves or arrives.
  struct Moment {
    int64_t time = 0, flow = 0;
    bool leaves = false;
  };
  struct Track {
    Sequence sequence;
    std::vector<Moment> moments;
    bool sorted = false;
    size_t next = 0;  // the first moment that no slice has taken
  };

  TracePacket* AddPacket() {
    if (block_.packet_size() == kPacketsABlock) WriteBlock();
    return block_.add_packet();
  }

  void WriteBlock() {
    const std::string plain = block_.SerializeAsString();
    block_.Clear();
    uLongf size = compressBound(plain.size());
    std::string compressed(size, '\0');
    CHECK_EQ(compress(reinterpret_cast<Bytef*>(compressed.data()), &size,
                      reinterpret_cast<const Bytef*>(plain.data()), plain.size()),
             Z_OK);
    compressed.resize(size);
    proto::perfetto::Trace trace;
    trace.add_packet()->set_compressed_packets(std::move(compressed));
    CHECK(trace.AppendToString(&bytes_));
  }

  proto::perfetto::TrackDescriptor* Describe(uint64_t uuid, std::string_view name,
                                             uint64_t parent) {
    auto* track = AddPacket()->mutable_track_descriptor();
    track->set_uuid(uuid);
    track->set_name(std::string(name));
    track->set_parent_uuid(parent);
    track->set_sibling_order_rank(static_cast<int32_t>(uuid));
    return track;
  }

  // Its packets are of the track and have differences of moments.
  Sequence BeginSequence(uint64_t track) {
    Sequence sequence{++sequences_, track};
    TracePacket* packet = AddPacket();
    packet->set_trusted_packet_sequence_id(sequence.id);
    packet->set_sequence_flags(TracePacket::INCREMENTAL_STATE_CLEARED);
    auto* defaults = packet->mutable_trace_packet_defaults();
    defaults->set_timestamp_clock_id(kIncremental);
    defaults->mutable_track_event_defaults()->set_track_uuid(track);
    for (const int id : {kIncremental, kBootTime}) {
      auto* clock = packet->mutable_clock_snapshot()->add_clocks();
      clock->set_clock_id(id);
      clock->set_timestamp(0);
      clock->set_is_incremental(id == kIncremental);
    }
    return sequence;
  }

  // Differences are not negative: what begins before the end of the event before it, by an error of
  // the devices' clocks, begins there.
  TracePacket* AddEvent(Sequence* sequence, int64_t time, TrackEvent::Type type) {
    TracePacket* packet = AddPacket();
    packet->set_trusted_packet_sequence_id(sequence->id);
    packet->set_sequence_flags(TracePacket::NEEDS_INCREMENTAL_STATE);
    packet->set_timestamp(std::max<int64_t>(time - sequence->time, 0));
    sequence->time = std::max(time, sequence->time);
    packet->mutable_track_event()->set_type(type);
    return packet;
  }

  void AddMark(uint64_t track, int64_t time, std::string_view name) {
    TracePacket* packet = AddPacket();
    packet->set_trusted_packet_sequence_id(kMarks);
    packet->set_sequence_flags(TracePacket::NEEDS_INCREMENTAL_STATE);
    packet->set_timestamp(time);
    TrackEvent* event = packet->mutable_track_event();
    event->set_type(TrackEvent::TYPE_INSTANT);
    event->set_track_uuid(track);
    event->add_category_iids(Intern(&marks_, kCategories, "step", packet));
    event->set_name_iid(Intern(&marks_, kNames, name, packet));
  }

  // The number of a text in a sequence; the packet says it if it is new.
  static uint64_t Intern(Sequence* sequence, Interned kind, std::string_view text,
                         TracePacket* packet) {
    auto& known = sequence->interned[kind];
    const auto found = known.find(absl::string_view(text.data(), text.size()));
    if (found != known.end()) return found->second;
    const uint64_t iid = known.size() + 1;
    known.emplace(text, iid);
    InternedData* data = packet->mutable_interned_data();
    InternedString* added = kind == kCategories  ? data->add_event_categories()
                            : kind == kNames     ? data->add_event_names()
                            : kind == kArguments ? data->add_debug_annotation_names()
                                                 : data->add_debug_annotation_string_values();
    added->set_iid(iid);
    added->set_str(std::string(text));
    return iid;
  }

  // Adds flows with moments in a slice to its begin, and to late_ those that arrive after it:
  // Perfetto takes the earlier event of a flow for its source.
  void TakeFlows(Track* track, const TraceSlice& slice, TrackEvent* begin) {
    if (!std::exchange(track->sorted, true)) {
      std::stable_sort(track->moments.begin(), track->moments.end(),
                       [](const Moment& a, const Moment& b) { return a.time < b.time; });
    }
    for (; track->next < track->moments.size(); ++track->next) {
      const Moment& moment = track->moments[track->next];
      if (moment.time > std::max(slice.begin, slice.end - 1)) break;
      if (moment.time < slice.begin) continue;  // in no slice
      if (moment.leaves) {
        begin->add_flow_ids(moment.flow);
      } else if (moment.time == slice.begin) {
        begin->add_terminating_flow_ids(moment.flow);
      } else {
        late_.push_back(moment.flow);
      }
    }
  }

  std::string bytes_;
  proto::perfetto::Trace block_;  // the packets that are not in bytes_ yet
  uint64_t uuids_ = kRoot;
  uint32_t sequences_ = kMarks;
  Sequence marks_;
  std::map<int64_t, uint64_t> devices_;  // their tracks
  std::vector<Track> tracks_;            // by track
  std::map<std::pair<int64_t, std::string>, Sequence> counters_;
  std::vector<int64_t> late_;  // flows that arrive at the end of a slice
};

}  // namespace

std::string TracePerfetto(std::span<const proto::ProcessTrace> parts, int processes,
                          const TraceFacts& facts) {
  PerfettoWriter writer;
  WalkTrace(parts, processes, facts, [&](const TraceItem& item) { std::visit(writer, item); });
  return writer.Finish();
}

std::string TraceFileBytes(std::string_view path, std::span<const proto::ProcessTrace> parts,
                           int processes, const TraceFacts& facts) {
  return path.ends_with(".json") ? TraceJson(parts, processes, facts)
                                 : TracePerfetto(parts, processes, facts);
}

}  // namespace oneflow
