#include "actor_runtime/exec/trace_events.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

using Part = proto::ProcessTrace;

constexpr int64_t kPredicted = 1'000'000;  // device of the stage 0 that is predicted

// The number of rows that all columns have: they may come from another process.
template <typename... Column>
int Rows(const Column&... column) {
  return std::min({column.size()...});
}

// "0..7, 16..23": runs of consecutive numbers, of which the first four are named.
std::string RunsText(const std::vector<int>& numbers) {
  std::vector<std::string> runs;
  for (size_t i = 0, first = 0; i < numbers.size(); ++i) {
    if (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) continue;
    runs.push_back(first == i ? absl::StrCat(numbers[i])
                              : absl::StrCat(numbers[first], "..", numbers[i]));
    first = i + 1;
  }
  if (runs.size() > 4) {
    runs.resize(4);
    runs.push_back("...");
  }
  return absl::StrJoin(runs, ", ");
}

class TraceWalk {
 public:
  TraceWalk(std::span<const Part> parts, int processes, const TraceFacts& facts,
            const std::function<void(const TraceItem&)>& take)
      : parts_(parts), processes_(processes), facts_(facts), take_(take) {}

  void Walk() {
    FindStart();
    int64_t dropped = 0;
    for (const Part& part : parts_) dropped += part.dropped();
    take_(TraceHeader{dropped, ProcessFacts()});
    for (const Part& part : parts_) AddTracks(part);
    for (size_t p = 0; p < parts_.size(); ++p) AddArrows(p);
    AddJoints();
    for (size_t p = 0; p < parts_.size(); ++p) {
      for (const Part::Firings& firings : parts_[p].firings()) AddFirings(p, firings);
      AddMemory(parts_[p]);
    }
    AddSteps();
  }

 private:
  // A member's firing of an exchange between processes.
  struct Joint {
    size_t part = 0;
    int track = 0;
    int64_t begin = 0, end = 0;
    bool sends = false;
  };
  using StepKey = std::tuple<int64_t, std::string, int64_t>;  // device, program, step
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

  std::vector<std::pair<std::string, std::string>> ProcessFacts() const {
    if (processes_ == 1) return {};
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
    std::vector<std::pair<std::string, std::string>> facts = {
        {"processes", absl::StrCat(processes_)},
        {"clock_error_us", absl::StrCat(static_cast<double>(error) * 1e-3)}};
    if (!missing.empty()) facts.emplace_back("missing_processes", missing);
    return facts;
  }

  // From a part's clock to the trace's.
  int64_t Time(const Part& part, int64_t ns) const { return ns + part.clock_offset() - start_; }

  static int64_t Device(const Part& part, int rank) {
    return part.predicted() ? kPredicted + rank : rank;
  }

  std::string DeviceName(const Part& part, int rank) const {
    if (part.predicted()) return absl::StrCat("predicted: stage ", rank, Alike(rank));
    std::string name = absl::StrCat("rank ", rank);
    if (rank >= 0 && rank < std::ssize(facts_.stage_of)) {
      name = absl::StrCat("stage ", facts_.stage_of[rank], ", ", name);
    }
    if (processes_ == 1) return name;
    return absl::StrCat(name, " (process ", part.process(), " on host ", part.host(), ")");
  }

  // The devices for which the simulated one of a stage stands, if there are several.
  std::string Alike(int stage) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < std::ssize(facts_.stage_of); ++rank) {
      if (facts_.stage_of[rank] == stage) ranks.push_back(rank);
    }
    if (ranks.size() < 2) return "";
    return absl::StrCat(", ranks ", RunsText(ranks), " alike (", ranks.size(), " devices)");
  }

  void AddTracks(const Part& part) {
    first_track_.push_back(tracks_ + 1);
    for (const Part::Track& track : part.track()) {
      const int64_t device = Device(part, track.rank());
      if (named_.insert(device).second) {
        take_(TraceDevice{device, DeviceName(part, track.rank())});
      }
      take_(TraceTrack{++tracks_, device, track.name()});
    }
  }

  static bool HasTrack(const Part& part, int track) {
    return track >= 0 && track < part.track_size();
  }

  void AddFirings(size_t p, const Part::Firings& of) {
    const Part& part = parts_[p];
    if (!HasTrack(part, of.track())) return;
    const int track = first_track_[p] + of.track();
    const int rows = Rows(of.name(), of.begin(), of.end(), of.step(), of.firing());
    for (int i = 0; i < rows; ++i) {
      if (of.name(i) < 0 || of.name(i) >= part.name_size()) continue;
      const std::string& name = part.name(of.name(i));
      const TraceFacts::Actor* known = facts_.Find(of.program(), name);
      SetArguments(of, i, known);
      const int64_t begin = Time(part, of.begin(i));
      take_(TraceSlice{track, begin, Time(part, of.end(i)),
                       known == nullptr ? of.program() : Name(known->part), name, arguments_});
      if (part.track(of.track()).host()) continue;
      const StepKey key{Device(part, part.track(of.track()).rank()), of.program(), of.step(i)};
      const auto [mark, fresh] = steps_.try_emplace(key, begin, track);
      if (!fresh && begin < mark->second.first) mark->second = {begin, track};
    }
  }

  void SetArguments(const Part::Firings& of, int i, const TraceFacts::Actor* known) {
    arguments_ = {{"program", of.program()}, {"step", of.step(i)}};
    if (i < of.number_size()) arguments_.push_back({"micro_batch", of.number(i)});
    arguments_.push_back({"firing", of.firing(i)});
    if (known == nullptr) return;
    arguments_.push_back({"written_bytes", static_cast<int64_t>(known->written_bytes)});
    if (known->part != TraceFacts::Part::kExchange) return;
    arguments_.push_back({"received_bytes", static_cast<int64_t>(known->received_bytes)});
    if (i >= of.ready_size()) return;
    arguments_.push_back({"waited_us", TraceArgument::Duration{of.ready(i) - of.begin(i)}});
  }

  void AddMemory(const Part& part) {
    for (const Part::Memory& memory : part.memory()) {
      const char* name = memory.host() ? "bytes of registers in use in the host's memory"
                                       : "bytes of registers in use";
      for (int i = 0; i < Rows(memory.time(), memory.bytes()); ++i) {
        take_(TraceCounter{Device(part, memory.rank()), name, Time(part, memory.time(i)),
                           memory.bytes(i)});
      }
    }
  }

  // Marks the begin of each step on each device, or of a program without steps.
  void AddSteps() {
    for (const auto& [key, mark] : steps_) {
      const auto& [device, program, step] = key;
      take_(TraceMark{device, mark.second, mark.first,
                      program == "train" ? absl::StrCat("step ", step) : program});
    }
  }

  void AddArrows(size_t p) {
    const Part& part = parts_[p];
    const Part::Arrows& a = part.arrows();
    for (int i = 0; i < Rows(a.from_track(), a.from(), a.to_track(), a.to()); ++i) {
      if (!HasTrack(part, a.from_track(i)) || !HasTrack(part, a.to_track(i))) continue;
      take_(TraceFlow{++flows_, "fill", first_track_[p] + a.from_track(i),
                      first_track_[p] + a.to_track(i), Time(part, a.from(i)), Time(part, a.to(i))});
    }
  }

  void AddJoints() {
    std::map<JointKey, std::vector<Joint>> together;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Part::Joint& j = parts_[p].joint();
      const int rows =
          Rows(j.run(), j.rank(), j.actor(), j.firing(), j.track(), j.begin(), j.end(), j.sends());
      for (int i = 0; i < rows; ++i) {
        if (!HasTrack(parts_[p], j.track(i))) continue;
        together[{j.run(i), j.rank(i), j.actor(i), j.firing(i)}].push_back(
            {p, first_track_[p] + j.track(i), Time(parts_[p], j.begin(i)),
             Time(parts_[p], j.end(i)), j.sends(i)});
      }
    }
    for (const auto& [key, members] : together) AddJoint(members);
  }

  void AddJoint(const std::vector<Joint>& members) {
    const Joint& source =
        *std::max_element(members.begin(), members.end(), [](const Joint& a, const Joint& b) {
          return a.sends != b.sends ? b.sends : a.begin < b.begin;
        });
    for (const Joint& member : members) {
      if (member.part == source.part || member.sends) continue;
      // An arrow ends inside the slice. Clocks that do not agree must not reverse it.
      const int64_t to = std::max(member.begin, member.end - 1);
      take_(TraceFlow{++flows_, "exchange", source.track, member.track, std::min(source.begin, to),
                      to});
    }
  }

  const std::span<const Part> parts_;
  const int processes_;
  const TraceFacts& facts_;
  const std::function<void(const TraceItem&)>& take_;
  int64_t start_ = std::numeric_limits<int64_t>::max();
  int64_t flows_ = 0;
  int tracks_ = 0;
  std::vector<int> first_track_;                      // by part
  std::set<int64_t> named_;                           // devices
  std::vector<TraceArgument> arguments_;              // of a slice
  std::map<StepKey, std::pair<int64_t, int>> steps_;  // its begin, on which track
};

}  // namespace

void WalkTrace(std::span<const proto::ProcessTrace> parts, int processes, const TraceFacts& facts,
               const std::function<void(const TraceItem&)>& take) {
  TraceWalk(parts, processes, facts, take).Walk();
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
