#include "actor_runtime/exec/trace_json.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"

namespace oneflow {
namespace {

using Part = proto::ProcessTrace;

constexpr int64_t kPredicted = 1'000'000;  // process of the stage 0 that is predicted

std::string Quoted(const std::string& text) { return JsonText(nlohmann::json(text)); }

// The number of rows that all columns have: they may come from another process.
template <typename... Column>
int Rows(const Column&... column) {
  return std::min({column.size()...});
}

// Writes one event a line.
class TraceWriter {
 public:
  TraceWriter(std::span<const Part> parts, int processes, const TraceFacts& facts)
      : parts_(parts), processes_(processes), facts_(facts) {}

  std::string Write() {
    FindStart();
    int64_t dropped = 0;
    for (const Part& part : parts_) dropped += part.dropped();
    text_ = absl::StrCat("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped_events\":\"",
                         dropped, "\"", ProcessFields(), "},\"traceEvents\":[");
    if (dropped > 0) {
      Event(absl::StrCat("\"ph\":\"I\",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":0,\"name\":",
                         "\"truncated: ", dropped, " firings did not fit\""));
    }
    for (const Part& part : parts_) {
      AddTracks(part);
      for (const Part::Firings& firings : part.firings()) WriteFirings(part, firings);
      WriteArrows(part);
      WriteMemory(part);
    }
    WriteJoints();
    WriteSteps();
    return text_ + "\n]}\n";
  }

 private:
  // A member's firing of an exchange between processes.
  struct Joint {
    size_t part = 0;
    int track = 0;
    int64_t begin = 0, end = 0;
    bool sends = false;
  };
  using StepKey = std::tuple<int64_t, std::string, int64_t>;  // process, program, step
  using JointKey = std::array<int64_t, 4>;                    // run, rank, actor, firing

  void FindStart() {
    for (const Part& part : parts_) {
      for (const Part::Firings& firings : part.firings()) {
        for (const int64_t begin : firings.begin()) {
          start_ = std::min(start_, begin + part.clock_offset());
        }
      }
    }
  }

  std::string ProcessFields() const {
    if (processes_ == 1) return "";
    int64_t error = 0;
    std::vector<bool> here(processes_, false);
    for (const Part& part : parts_) {
      if (part.predicted()) continue;
      error = std::max(error, part.clock_error());
      if (part.process() >= 0 && part.process() < processes_) here[part.process()] = true;
    }
    std::string missing;
    for (int p = 0; p < processes_; ++p) {
      if (!here[p]) absl::StrAppend(&missing, missing.empty() ? "" : ", ", p);
    }
    std::string text = absl::StrCat(",\"processes\":\"", processes_, "\",\"clock_error_us\":\"",
                                    static_cast<double>(error) * 1e-3, "\"");
    if (!missing.empty()) absl::StrAppend(&text, ",\"missing_processes\":\"", missing, "\"");
    return text;
  }

  void Event(absl::string_view fields) {
    absl::StrAppend(&text_, first_ ? "\n{" : ",\n{", fields, "}");
    first_ = false;
  }

  static std::string Microseconds(int64_t ns) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", static_cast<double>(ns) / 1000);
    return text;
  }
  std::string Time(int64_t ns) const { return Microseconds(ns - start_); }

  static int64_t Process(const Part& part, int rank) {
    return part.predicted() ? kPredicted + rank : rank;
  }

  std::string ProcessName(const Part& part, int rank) const {
    if (part.predicted()) return absl::StrCat("predicted: stage ", rank);
    std::string name = absl::StrCat("rank ", rank);
    if (rank >= 0 && rank < std::ssize(facts_.stage_of)) {
      name = absl::StrCat("stage ", facts_.stage_of[rank], ", ", name);
    }
    if (processes_ == 1) return name;
    return absl::StrCat(name, " (process ", part.process(), " on host ", part.host(), ")");
  }

  void AddTracks(const Part& part) {
    std::vector<std::string>& ids = ids_.emplace_back();
    for (const Part::Track& track : part.track()) {
      const int64_t process = Process(part, track.rank());
      ids.push_back(absl::StrCat("\"pid\":", process, ",\"tid\":", ++tracks_));
      const auto meta = [&](absl::string_view name, absl::string_view value) {
        Event(absl::StrCat("\"ph\":\"M\",\"name\":\"", name, "\",", ids.back(), ",\"args\":{",
                           value, "}"));
      };
      if (named_.insert(process).second) {
        meta("process_name", absl::StrCat("\"name\":", Quoted(ProcessName(part, track.rank()))));
        meta("process_sort_index", absl::StrCat("\"sort_index\":", process));
      }
      meta("thread_name", absl::StrCat("\"name\":", Quoted(track.name())));
      meta("thread_sort_index", absl::StrCat("\"sort_index\":", tracks_));
    }
  }

  // Requires that the tracks of this part were added last.
  bool HasTrack(const Part& part, int track) const {
    return track >= 0 && track < part.track_size();
  }

  void WriteFirings(const Part& part, const Part::Firings& of) {
    if (!HasTrack(part, of.track())) return;
    const std::string& track = ids_.back()[of.track()];
    const int rows = Rows(of.name(), of.begin(), of.end(), of.step(), of.firing());
    for (int i = 0; i < rows; ++i) {
      if (of.name(i) < 0 || of.name(i) >= part.name_size()) continue;
      const std::string& name = part.name(of.name(i));
      const TraceFacts::Actor* known = facts_.Find(of.program(), name);
      const std::string category = known == nullptr ? of.program() : std::string(Name(known->part));
      Event(absl::StrCat("\"ph\":\"X\",\"cat\":", Quoted(category), ",\"name\":", Quoted(name), ",",
                         track, ",\"ts\":", Time(of.begin(i) + part.clock_offset()),
                         ",\"dur\":", Microseconds(of.end(i) - of.begin(i)), ",\"args\":{",
                         Arguments(of, i, known), "}"));
      if (part.track(of.track()).host()) continue;
      const StepKey key{Process(part, part.track(of.track()).rank()), of.program(), of.step(i)};
      const int64_t begin = of.begin(i) + part.clock_offset();
      const auto [mark, fresh] = steps_.try_emplace(key, begin, track);
      if (!fresh && begin < mark->second.first) mark->second = {begin, track};
    }
  }

  static std::string Arguments(const Part::Firings& of, int i, const TraceFacts::Actor* known) {
    std::string text = absl::StrCat("\"program\":", Quoted(of.program()), ",\"step\":", of.step(i));
    if (i < of.number_size()) absl::StrAppend(&text, ",\"micro_batch\":", of.number(i));
    absl::StrAppend(&text, ",\"firing\":", of.firing(i));
    if (known == nullptr) return text;
    absl::StrAppend(&text, ",\"written_bytes\":", static_cast<int64_t>(known->written_bytes));
    if (known->part != TraceFacts::Part::kExchange) return text;
    absl::StrAppend(&text, ",\"received_bytes\":", static_cast<int64_t>(known->received_bytes));
    if (i < of.ready_size()) {
      absl::StrAppend(&text, ",\"waited_us\":", Microseconds(of.ready(i) - of.begin(i)));
    }
    return text;
  }

  void WriteMemory(const Part& part) {
    for (const Part::Memory& memory : part.memory()) {
      for (int i = 0; i < Rows(memory.time(), memory.bytes()); ++i) {
        Event(absl::StrCat("\"ph\":\"C\",\"name\":\"bytes of registers in use",
                           memory.host() ? " in the host's memory" : "",
                           "\",\"pid\":", Process(part, memory.rank()),
                           ",\"ts\":", Time(memory.time(i) + part.clock_offset()),
                           ",\"args\":{\"bytes\":", memory.bytes(i), "}"));
      }
    }
  }

  // Marks the begin of each step on each device, or of a program without steps.
  void WriteSteps() {
    for (const auto& [key, mark] : steps_) {
      const auto& [process, program, step] = key;
      const std::string name = program == "train" ? absl::StrCat("step ", step) : program;
      Event(absl::StrCat("\"ph\":\"i\",\"s\":\"p\",\"cat\":\"step\",\"name\":", Quoted(name), ",",
                         mark.second, ",\"ts\":", Time(mark.first)));
    }
  }

  void Arrow(absl::string_view kind, const std::string& from, int64_t from_time,
             const std::string& to, int64_t to_time) {
    const std::string id =
        absl::StrCat("\"cat\":\"", kind, "\",\"name\":\"", kind, "\",\"id\":", ++arrows_);
    Event(absl::StrCat("\"ph\":\"s\",", id, ",", from, ",\"ts\":", Time(from_time)));
    Event(absl::StrCat("\"ph\":\"f\",\"bp\":\"e\",", id, ",", to, ",\"ts\":", Time(to_time)));
  }

  void WriteArrows(const Part& part) {
    const Part::Arrows& a = part.arrows();
    const std::vector<std::string>& ids = ids_.back();
    for (int i = 0; i < Rows(a.from_track(), a.from(), a.to_track(), a.to()); ++i) {
      if (!HasTrack(part, a.from_track(i)) || !HasTrack(part, a.to_track(i))) continue;
      Arrow("fill", ids[a.from_track(i)], a.from(i) + part.clock_offset(), ids[a.to_track(i)],
            a.to(i) + part.clock_offset());
    }
  }

  void WriteJoints() {
    std::map<JointKey, std::vector<Joint>> together;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Part::Joint& j = parts_[p].joint();
      const int64_t offset = parts_[p].clock_offset();
      const int rows =
          Rows(j.run(), j.rank(), j.actor(), j.firing(), j.track(), j.begin(), j.end(), j.sends());
      for (int i = 0; i < rows; ++i) {
        if (!HasTrack(parts_[p], j.track(i))) continue;
        together[{j.run(i), j.rank(i), j.actor(i), j.firing(i)}].push_back(
            {p, j.track(i), j.begin(i) + offset, j.end(i) + offset, j.sends(i)});
      }
    }
    for (const auto& [key, members] : together) WriteJoint(members);
  }

  void WriteJoint(const std::vector<Joint>& members) {
    const Joint& source =
        *std::max_element(members.begin(), members.end(), [](const Joint& a, const Joint& b) {
          return a.sends != b.sends ? b.sends : a.begin < b.begin;
        });
    for (const Joint& member : members) {
      if (member.part == source.part || member.sends) continue;
      // An arrow ends inside the slice. Clocks that do not agree must not reverse it.
      const int64_t to = std::max(member.begin, member.end - 1);
      Arrow("exchange", ids_[source.part][source.track], std::min(source.begin, to),
            ids_[member.part][member.track], to);
    }
  }

  const std::span<const Part> parts_;
  const int processes_;
  const TraceFacts& facts_;
  std::string text_;
  bool first_ = true;
  int64_t start_ = std::numeric_limits<int64_t>::max();
  int64_t arrows_ = 0, tracks_ = 0;
  std::vector<std::vector<std::string>> ids_;                 // by part, track
  std::set<int64_t> named_;                                   // processes
  std::map<StepKey, std::pair<int64_t, std::string>> steps_;  // its begin, on which track
};

}  // namespace

std::string TraceJson(std::span<const proto::ProcessTrace> parts, int processes,
                      const TraceFacts& facts) {
  return TraceWriter(parts, processes, facts).Write();
}

std::optional<int64_t> StepBegin(std::span<const proto::ProcessTrace> parts,
                                 std::string_view program, int64_t step) {
  std::optional<int64_t> first;
  for (const Part& part : parts) {
    if (part.predicted()) continue;
    for (const Part::Firings& of : part.firings()) {
      const bool device =
          of.track() >= 0 && of.track() < part.track_size() && !part.track(of.track()).host();
      if (of.program() != program || !device) continue;
      for (int i = 0; i < Rows(of.begin(), of.step()); ++i) {
        if (of.step(i) != step) continue;
        const int64_t begin = of.begin(i) + part.clock_offset();
        first = std::min(first.value_or(begin), begin);
      }
    }
  }
  return first;
}

}  // namespace oneflow
