// Simulate: the second driver of actor_state. It runs a program of a plan on a virtual clock: the
// same actors, registers, streams and orders as the runtimes, but a firing takes given seconds
// instead of computing.
//
//   SimulateOptions options{.steps = 2, .actor_seconds = seconds};
//   ASSIGN_OR_RETURN(SimulatedRun run, Simulate(plan, "train", options));
//   double step = run.StepSeconds();
//
// Devices of a stage run the same actors, so they do the same at the same times: one device a stage
// is simulated, and an exchange within a stage is an actor like any other. A send and its receive
// begin when both have been entered, and end together; the device that entered last does the work.
// Differences between devices (a larger part, a slower link) are in actor_seconds: the slowest
// device counts.
//
// An exchange with link_seconds has members in other processes: once all have entered, it is on the
// link for that time and occupies no worker; then each device's worker does its part, when it is
// free.
//
// Time starts at 0 and moves from event to event. At each time all ends and messages are counted
// before any firing begins, so equal inputs give equal runs. Seconds are rounded to multiples of a
// quantum, a power of two chosen so that every sum of them in the run is exact in a double; it is
// at most 2^-50 of the total of all firings.
//
// A step of many micro-batches repeats itself: when the state of the run is exactly an earlier
// state, full periods are skipped (period.h). Then only the firings before and after are stored,
// and SimulatedRun::repeats; FindSpan gives the span of every firing, skipped or not, and it is the
// same, bit for bit, as if all had been simulated.
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
  int64_t steps = 1;                  // if weights lag: rounds of steps (Program.steps_a_round)
  std::vector<double> actor_seconds;  // of one firing, by actor of the program
  std::vector<double> link_seconds;   // the same, of exchanges between processes; empty: none are
  // The host issues the firings of a device one after the other, so long each, at most kMostAhead
  // of them ahead of the device; 0: in no time. Each begins once it has been issued.
  double issue_seconds = 0;
  static constexpr int kMostAhead = 1024;  // CUDA's queue of launches
  double message_seconds = 0;  // from the end of a firing to a worker other than its own
  // If true, one worker drives all streams of kernels and exchanges of a device, and one all host
  // streams, one firing after the other, as the threaded runtime on CPU does; each stream of copies
  // between device and host, and each of what the host computes for a device, has its own. If
  // false, streams run independently.
  bool worker_a_device = false;
  // Periods are skipped after this many firings; a shorter run is stored firing by firing.
  int64_t skip_after = kNeverSkip;
  // A run that plays more than these is RESOURCE_EXHAUSTED; what periods skip does not count. All
  // are kept, with when they began and ended: the most take a few gigabytes.
  int64_t most_firings = kMostFirings;

  static constexpr int64_t kNeverSkip = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kMostFirings = int64_t{1} << 27;
};

// The activity of an actor while it fires. kHost: of the host, also where it computes for a device;
// kCopying: between the memories of device and host.
enum class Doing : uint8_t {
  kHost,
  kCopying,
  kComputing,
  kExchangingWithinStage,
  kExchangingBetweenStages
};

struct SimulatedRun {
  struct Span {
    double begin = 0, end = 0;  // seconds
    bool operator==(const Span&) const = default;
  };

  // The events in (begin, begin + seconds] happened `times` times more, and only the first are
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

  // The storage of a firing.
  struct Stored {
    int64_t index = 0;    // in `spans`
    int32_t repeats = 0;  // that were over before it
    int64_t period = 0;   // 0: it is stored itself; else the how many-th skipped period of
                          // repeats[repeats] it is in
  };

  ActorNet net;                              // one device a stage: rank = stage
  SimulateOptions options;                   // seconds as they were rounded
  std::vector<proto::Stream::Kind> kind_of;  // by stream
  std::vector<int32_t> worker_of;            // by stream
  std::vector<Doing> doing;                  // by concrete actor
  std::vector<int64_t> first;                // by concrete actor: its first in `spans`; and the end
  std::vector<Span> spans;                   // of stored firings
  std::vector<int32_t> order;                // concrete actors, as their stored firings began
  // By element of `order`: 1 if the firing occupied its worker, so that its other streams waited; 0
  // for exchanges between processes, which occupy it for a part of their span.
  std::vector<char> occupies;
  std::vector<Repeat> repeats;    // in order of time
  std::vector<double> step_ends;  // when the last firing of each step, or round, ended
  int64_t steps_a_round = 1;

  // Finds a firing of the run, stored or skipped.
  Stored Find(int32_t actor, int64_t firing) const;
  Span FindSpan(int32_t actor, int64_t firing) const;
  int64_t CountFirings(int32_t actor) const { return net.firings[actor] * options.steps; }
  // Firings of an actor that were skipped in the first `n` repeats.
  int64_t CountSkipped(int32_t actor, int32_t n) const {
    int64_t skipped = 0;
    for (int32_t r = 0; r < n; ++r) skipped += repeats[r].times * repeats[r].firings[actor];
    return skipped;
  }
  double seconds() const { return step_ends.back(); }  // of all steps
  // The seconds of one firing of a concrete actor, on links and on its worker.
  double FiringSeconds(int32_t actor) const {
    const uint32_t a = net.specs[actor].actor;
    return options.actor_seconds[a] + (options.link_seconds.empty() ? 0 : options.link_seconds[a]);
  }
  // The time of one step among others: the time from the end of the first to the end of the last,
  // divided by the steps between; with one step, its time. The steps of a round take equally long.
  double StepSeconds() const;
};

// Requires a plan that passed VerifyPlan; refuses numbers of steps and seconds out of range.
// NOT_FOUND if there is no such program.
absl::StatusOr<SimulatedRun> Simulate(const proto::Plan& plan, std::string_view program,
                                      const SimulateOptions& options);

}  // namespace oneflow
