// Simulate: the third driver of actor_state. It runs a program of a plan on a virtual clock: the
// same actors, registers, streams and orders as the runtimes, but a firing takes the seconds that
// it is told instead of computing anything.
//
//   SimulateOptions options{.steps = 2, .actor_seconds = seconds};
//   ASSIGN_OR_RETURN(SimulatedRun run, Simulate(plan, "train", options));
//   double step = run.StepSeconds();
//
// Devices of a stage run the same actors, so they do the same at the same times: one device a stage
// is simulated, and an exchange within a stage is an actor like any other. A send and its receive
// begin when both have been entered, and end together; the device that entered last does the work.
// What differs between devices (a larger part, a slower link) is in actor_seconds: the slowest
// counts.
//
// An exchange with link_seconds has members in other processes: once all have entered it is under
// way so long on nobody's worker, and then each device's worker does its part, when it is free.
//
// Time starts at 0 and moves from event to event. At one moment all ends and messages are counted
// before anything begins, so equal inputs give equal runs. Seconds are rounded to multiples of a
// quantum, a power of two chosen so that every sum of them in the run is exact in a double; it is
// at most 2^-50 of what all firings take one after the other.
//
// A step of many micro-batches repeats itself: when the state of the run is exactly what it was
// some time before, whole periods are skipped (period.h). What is stored are then the firings
// before and after, and SimulatedRun::repeats; SpanOf gives the span of every firing, skipped or
// not, and it is the same, bit for bit, as if all had been simulated.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/net.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct SimulateOptions {
  int64_t steps = 1;                  // where weights lag: rounds of them (Program.steps_a_round)
  std::vector<double> actor_seconds;  // of one firing, by actor of the program
  std::vector<double> link_seconds;   // the same, of exchanges between processes; empty: none are
  double message_seconds = 0;         // from the end of a firing to a worker other than its own
  // One worker drives all streams of a device, and one all host streams, one firing after the
  // other: the threaded runtime on CPU. Else every stream goes by itself.
  bool worker_a_device = false;
  // Periods are skipped after so many firings; a shorter run is stored firing by firing.
  int64_t skip_after = kNeverSkip;
  // A run that plays more than these is RESOURCE_EXHAUSTED; what periods skip does not count. All
  // are kept, with when they began and ended: the most take a few gigabytes.
  int64_t most_firings = kMostFirings;

  static constexpr int64_t kNeverSkip = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kMostFirings = int64_t{1} << 27;
};

// What an actor does while it fires.
enum class Doing : uint8_t { kHost, kComputing, kExchangingWithinStage, kExchangingBetweenStages };

struct SimulatedRun {
  struct Span {
    double begin = 0, end = 0;  // seconds
    bool operator==(const Span&) const = default;
  };

  // What happened in (begin, begin + seconds] happened `times` times more, and only the first is
  // stored.
  struct Repeat {
    int64_t times = 0;
    double begin = 0, seconds = 0;
    int64_t first = 0, end = 0;          // the stored period in `order`
    std::vector<int64_t> firings;        // by concrete actor: in a period
    std::vector<int64_t> stored;         // the same: stored firings up to the period's end
    std::vector<int64_t> fired;          // by stream: all firings up to there
    std::vector<int64_t> order_repeats;  // by stream: repeats of its order's run in a period
    double skipped_begin() const { return begin + seconds; }
    double skipped_end() const { return begin + static_cast<double>(times + 1) * seconds; }
  };

  // Where a firing is stored.
  struct Stored {
    int64_t index = 0;    // in `spans`
    int32_t repeats = 0;  // that were over before it
    int64_t period = 0;   // 0: it is stored itself; else the how many-th skipped period of
                          // repeats[repeats] it is in
  };

  ActorNet net;                    // one device a stage: rank = stage
  SimulateOptions options;         // seconds as they were rounded
  std::vector<int32_t> worker_of;  // by stream
  std::vector<Doing> doing;        // by concrete actor
  std::vector<int64_t> first;      // by concrete actor: its first in `spans`; and the end
  std::vector<Span> spans;         // of stored firings
  std::vector<int32_t> order;      // concrete actors, as their stored firings began
  // Of each of these: its worker, whose other streams waited. Not of exchanges between processes,
  // which keep it for a part of their span.
  std::vector<char> occupies;
  std::vector<Repeat> repeats;    // in order of time
  std::vector<double> step_ends;  // when the last firing of each step, or round, ended
  int64_t steps_a_round = 1;

  // Of a firing of the run, stored or skipped.
  Stored Find(int32_t actor, int64_t firing) const;
  Span SpanOf(int32_t actor, int64_t firing) const;
  int64_t FiringsOf(int32_t actor) const { return net.firings[actor] * options.steps; }
  // Firings of an actor that were skipped in the first `n` repeats.
  int64_t SkippedOf(int32_t actor, int32_t n) const {
    int64_t skipped = 0;
    for (int32_t r = 0; r < n; ++r) skipped += repeats[r].times * repeats[r].firings[actor];
    return skipped;
  }
  double seconds() const { return step_ends.back(); }  // of all steps
  // Of one firing of a concrete actor, on links and on its worker.
  double FiringSeconds(int32_t actor) const {
    const uint32_t a = net.specs[actor].actor;
    return options.actor_seconds[a] + (options.link_seconds.empty() ? 0 : options.link_seconds[a]);
  }
  // Of one step among others: from the end of the first to the end of the last, a step. With one
  // step, that one. Of the steps of a round each takes as long.
  double StepSeconds() const;
};

// Requires a plan that passed VerifyPlan; refuses numbers of steps and seconds that make no sense.
// NOT_FOUND if there is no such program.
absl::StatusOr<SimulatedRun> Simulate(const proto::Plan& plan, std::string_view program,
                                      const SimulateOptions& options);

}  // namespace oneflow
