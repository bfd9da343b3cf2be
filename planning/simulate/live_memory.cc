#include "planning/simulate/live_memory.h"

#include <algorithm>
#include <utility>

#include "oneflow_core/plan/plan_lookup.h"
#include "planning/simulate/dependencies.h"

namespace oneflow {
namespace {

using Change = LiveMemory::Point;  // `bytes` more (or fewer) from `time` on

struct Reader {
  int32_t actor = 0;  // concrete
  int64_t rate = 1, initial_fills = 0, firings = 0;
};

std::vector<Reader> FindReaders(const SimulatedRun& run, const ActorSpec& writer,
                                const ActorOutput& output) {
  std::vector<Reader> readers;
  for (int32_t q = output.first_reader; q < output.first_reader + output.n_readers; ++q) {
    const ActorPeer& peer = writer.readers[q];
    const int32_t reader = run.net.Find(writer.rank, peer.actor);
    readers.push_back({reader, InputAt(run.net.specs[reader], peer.port).fires_per_read,
                       peer.initial_fills, run.CountFirings(reader)});
  }
  return readers;
}

// The end of the last reader of a fill; fills that the run leaves unread stay in use.
double FindEnd(const SimulatedRun& run, const std::vector<Reader>& readers, int64_t fill,
               double written) {
  double end = written;
  for (const Reader& reader : readers) {
    const int64_t last = (fill + reader.initial_fills + 1) * reader.rate - 1;
    end =
        std::max(end, last < reader.firings ? run.FindSpan(reader.actor, last).end : run.seconds());
  }
  return end;
}

// True if the time is in skipped periods.
bool Skipped(const SimulatedRun& run, double time) {
  return std::any_of(run.repeats.begin(), run.repeats.end(), [time](const auto& repeat) {
    return time > repeat.skipped_begin() && time <= repeat.skipped_end();
  });
}

// The fills of an output whose begin or end may be outside of skipped periods: all fills except
// those that are both begun and returned inside; of these no more than the slots are left.
std::vector<std::pair<int64_t, int64_t>> FindFills(const SimulatedRun& run, int32_t actor,
                                                   const ActorOutput& output) {
  const int64_t rate = output.fires_per_fill;
  std::vector<std::pair<int64_t, int64_t>> fills;  // from, to before
  int64_t from = 0, skipped = 0;
  for (const SimulatedRun::Repeat& repeat : run.repeats) {
    const int64_t begin = repeat.stored[actor] + skipped;
    skipped += repeat.times * repeat.firings[actor];
    const int64_t last = (repeat.stored[actor] + skipped) / rate - output.slots - 1;
    if (last <= begin / rate + 1) continue;
    fills.push_back({from, begin / rate + 1});
    from = last;
  }
  fills.push_back({from, run.CountFirings(actor) / rate});
  return fills;
}

// Skipped periods are left out: in them what is in use goes up and down as in the one before.
void AddChanges(const SimulatedRun& run, int32_t actor, const ActorOutput& output, int64_t bytes,
                std::vector<Change>* changes) {
  const int64_t rate = output.fires_per_fill;
  const std::vector<Reader> readers = FindReaders(run, run.net.specs[actor], output);
  for (const auto& [from, to] : FindFills(run, actor, output)) {
    for (int64_t fill = from; fill < to; ++fill) {
      const double begin = run.FindSpan(actor, fill * rate).begin;
      const double written = run.FindSpan(actor, (fill + 1) * rate - 1).end;
      const double end = FindEnd(run, readers, fill, written);
      if (!Skipped(run, begin)) changes->push_back({begin, bytes});
      if (!Skipped(run, end)) changes->push_back({end, -bytes});
    }
  }
}

LiveMemory Accumulated(const SimulatedRun& run, std::vector<Change> changes) {
  // Bytes that are returned at a moment are free for fills that begin at it.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : a.bytes < b.bytes;
  });
  LiveMemory memory;
  memory.curve.push_back({0, 0});
  int64_t bytes = 0;
  auto repeat = run.repeats.begin();
  // From its first change on, a skipped stretch is drawn at the height of its period.
  const auto add_stretch = [&] {
    LiveMemory::Point highest{0, bytes};
    for (auto p = memory.curve.rbegin(); p != memory.curve.rend(); ++p) {
      if (p->time <= repeat->begin) break;
      highest = {p->time + repeat->seconds, std::max(highest.bytes, p->bytes)};
    }
    if (highest.time > 0) {
      memory.curve.push_back(highest);
      memory.curve.push_back({repeat->skipped_end(), bytes});
    }
    ++repeat;
  };
  for (const Change& change : changes) {
    while (repeat != run.repeats.end() && change.time > repeat->skipped_begin()) add_stretch();
    bytes += change.bytes;
    memory.peak_bytes = std::max(memory.peak_bytes, bytes);
    if (memory.curve.back().time != change.time) memory.curve.push_back({change.time, 0});
    memory.curve.back().bytes = bytes;
  }
  return memory;
}

}  // namespace

std::vector<LiveMemory> FindLiveMemory(const proto::Plan& plan, const SimulatedRun& run,
                                       proto::MemoryKind kind) {
  const proto::Program& program = plan.program(static_cast<int>(run.net.program_index));
  std::vector<std::vector<Change>> changes(run.net.own.size());
  for (size_t a = 0; a < run.net.specs.size(); ++a) {
    const ActorSpec& spec = run.net.specs[a];
    const proto::Actor& actor = program.actor(static_cast<int>(spec.actor));
    for (int i = 0; i < actor.output_size(); ++i) {
      if (actor.output(i) < plan.persistent_size()) continue;
      const proto::Register& r = *FindRegister(plan, program, actor.output(i));
      if (r.slot_bytes() == 0 || r.memory_kind() != kind) continue;
      AddChanges(run, static_cast<int32_t>(a), spec.outputs[i], r.slot_bytes(),
                 &changes[spec.rank]);
    }
  }
  std::vector<LiveMemory> all;
  for (std::vector<Change>& of_rank : changes) all.push_back(Accumulated(run, std::move(of_rank)));
  return all;
}

std::vector<LiveMemory::Point> Coarsened(const LiveMemory& memory, const SimulatedRun& run,
                                         int points) {
  // The time without the skipped periods before it.
  const auto simulated = [&](double time) {
    double left = time;
    for (const SimulatedRun::Repeat& repeat : run.repeats) {
      if (time <= repeat.skipped_begin()) break;
      left -= std::min(time, repeat.skipped_end()) - repeat.skipped_begin();
    }
    return left;
  };
  const double last = run.step_ends.size() > 1 ? run.step_ends[run.step_ends.size() - 2] : 0;
  const double before = simulated(last), end = simulated(memory.curve.back().time);
  if (static_cast<int>(memory.curve.size()) <= points || end <= before) return memory.curve;
  const int early = last > 0 ? points / 2 : 0, late = points - early;
  const auto find_piece = [&](double time) {
    const double at = simulated(time);
    if (at < before) return static_cast<int>(at / before * early);
    return early + std::min(late - 1, static_cast<int>((at - before) / (end - before) * late));
  };
  std::vector<LiveMemory::Point> coarse;
  int piece = -1;
  for (const LiveMemory::Point& point : memory.curve) {
    const int of = find_piece(point.time);
    if (of != piece) {
      coarse.push_back(point);
      piece = of;
    }
    coarse.back().bytes = std::max(coarse.back().bytes, point.bytes);
  }
  return coarse;
}

}  // namespace oneflow
