#include "actor_runtime/exec/trace.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"

namespace oneflow {
namespace {

std::string Quoted(const std::string& text) { return JsonText(nlohmann::json(text)); }

}  // namespace

// Writes one event a line.
class TraceWriter {
 public:
  explicit TraceWriter(const Trace& trace) : trace_(trace) {}

  std::string Write() {
    FindStart();
    text_ = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped_events\":\"" +
            std::to_string(trace_.dropped()) + "\"},\"traceEvents\":[";
    if (trace_.dropped() > 0) {
      Event("\"ph\":\"I\",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":0,\"name\":\"truncated: " +
            std::to_string(trace_.dropped()) + " firings did not fit\"");
    }
    for (const Trace::TracedRun& run : trace_.runs_) WriteRun(run);
    return text_ + "\n]}\n";
  }

 private:
  using FiringKey = std::pair<int32_t, int64_t>;  // concrete actor, firing

  void FindStart() {
    start_ = std::numeric_limits<int64_t>::max();
    for (const Trace::TracedRun& run : trace_.runs_) {
      for (const TraceBuffer& buffer : run.buffers) {
        if (!buffer.events().empty()) start_ = std::min(start_, buffer.events()[0].begin_ns);
      }
    }
  }

  void Event(const std::string& fields) {
    text_ += (first_ ? "\n{" : ",\n{") + fields + "}";
    first_ = false;
  }

  std::string Time(int64_t ns) const {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", static_cast<double>(ns - start_) / 1000);
    return text;
  }

  std::string Track(const StreamOrder& stream) {
    const auto [entry, fresh] = tracks_.try_emplace({stream.rank, stream.name}, tracks_.size() + 1);
    std::string ids =
        "\"pid\":" + std::to_string(stream.rank) + ",\"tid\":" + std::to_string(entry->second);
    if (fresh) {
      Event("\"ph\":\"M\",\"name\":\"process_name\"," + ids + ",\"args\":{\"name\":\"rank " +
            std::to_string(stream.rank) + "\"}");
      Event("\"ph\":\"M\",\"name\":\"thread_name\"," + ids +
            ",\"args\":{\"name\":" + Quoted(stream.name) + "}");
    }
    return ids;
  }

  void WriteRun(const Trace::TracedRun& run) {
    std::map<FiringKey, const TraceEvent*> ends;
    for (const TraceBuffer& buffer : run.buffers) {
      for (const TraceEvent& event : buffer.events()) ends[{event.actor, event.firing}] = &event;
    }
    for (size_t s = 0; s < run.buffers.size(); ++s) {
      const std::string track = Track(run.net->streams[s]);
      for (const TraceEvent& event : run.buffers[s].events()) {
        const std::string& name = run.net->names[run.net->specs[event.actor].actor];
        Event("\"ph\":\"X\",\"cat\":" + Quoted(run.net->program) + ",\"name\":" + Quoted(name) +
              "," + track + ",\"ts\":" + Time(event.begin_ns) +
              ",\"dur\":" + Time(start_ + event.end_ns - event.begin_ns) + ",\"args\":{\"step\":" +
              std::to_string(run.first_step + event.firing / run.net->firings[event.actor]) +
              ",\"firing\":" + std::to_string(event.firing) + "}");
        WriteArrows(run, event, track, ends);
      }
    }
  }

  // From the firings that filled what this one is the first to read.
  void WriteArrows(const Trace::TracedRun& run, const TraceEvent& event, const std::string& track,
                   const std::map<FiringKey, const TraceEvent*>& ends) {
    const ActorNet& net = *run.net;
    const ActorSpec& spec = net.specs[event.actor];
    for (const ActorInput& input : spec.inputs) {
      if (input.always_full || event.firing % input.fires_per_read != 0) continue;
      const int64_t fill = event.firing / input.fires_per_read - input.initial_fills;
      for (int32_t p = input.first_source; fill >= 0 && p < input.first_source + input.n_sources;
           ++p) {
        if (spec.sources[p].told == Told::kInOrder) continue;
        const int32_t writer = net.Find(spec.rank, spec.sources[p].actor);
        const auto end =
            ends.find({writer, (fill + 1) * FiresPerFill(net.specs[writer], spec.sources[p]) - 1});
        if (end == ends.end()) continue;  // dropped
        const std::string id =
            "\"cat\":\"fill\",\"name\":\"fill\",\"id\":" + std::to_string(++arrows_);
        const std::string from = Track(net.streams[net.stream_of[writer]]);
        // An arrow starts inside the slice it comes from.
        Event(absl::StrCat("\"ph\":\"s\",", id, ",", from, ",\"ts\":",
                           Time(std::max(end->second->begin_ns, end->second->end_ns - 1))));
        Event(absl::StrCat("\"ph\":\"f\",\"bp\":\"e\",", id, ",", track,
                           ",\"ts\":", Time(event.begin_ns)));
      }
    }
  }

  static int64_t FiresPerFill(const ActorSpec& writer, const ActorPeer& source) {
    for (const ActorOutput& output : writer.outputs) {
      const int32_t port = static_cast<int32_t>(source.port) - output.first_reader;
      if (port >= 0 && port < output.n_readers) return output.fires_per_fill;
    }
    return 1;
  }

  const Trace& trace_;
  std::string text_;
  bool first_ = true;
  int64_t start_ = 0;
  int64_t arrows_ = 0;
  std::map<std::pair<uint32_t, std::string>, size_t> tracks_;
};

void Trace::Begin(const ActorNet& net, int64_t first_step, int64_t steps) {
  TracedRun& run = runs_.emplace_back();
  run.net = &net;
  run.first_step = first_step;
  std::vector<int64_t>& left =
      left_.try_emplace(&net, net.streams.size(), events_per_stream_).first->second;
  for (size_t s = 0; s < net.streams.size(); ++s) {
    const auto a_step = net.streams[s].firings.size();
    const bool all = a_step == 0 || steps <= left[s] / a_step;
    const int64_t room = all ? steps * a_step : left[s];
    run.buffers.emplace_back(room);
    left[s] -= room;
  }
}

std::string Trace::ToJson() const { return TraceWriter(*this).Write(); }

int64_t Trace::dropped() const {
  int64_t dropped = 0;
  for (const TracedRun& run : runs_) {
    for (const TraceBuffer& buffer : run.buffers) dropped += buffer.dropped();
  }
  return dropped;
}

}  // namespace oneflow
