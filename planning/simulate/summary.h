// SimulationSummary: the facts of a simulated run for people, gathered from the run and the plan:
// for the text, the JSON, the page of `explain --format=html` and `oneflow diff`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/print/band.h"
#include "planning/simulate/live_memory.h"
#include "planning/simulate/model_rates.h"
#include "planning/simulate/process_traffic.h"
#include "planning/simulate/simulate.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/step_parts.h"
#include "planning/simulate/utilization.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct SimulationSummary {
  // Consecutive firings of one segment on one stream.
  struct Block {
    std::string segment;  // "F"
    int64_t number = 0;   // the how many-th time in its step: its micro-batch
    int64_t step = 0;
    double begin = 0, end = 0;  // seconds
    // For a merged block (condense.h): how many blocks it stands for, for how long one of them
    // runs, if the critical path leads through it, and, if segments differ, for how long each runs.
    int64_t blocks = 1;
    double busy = 0;
    bool critical = false;
    std::vector<std::pair<std::string, double>> parts;
  };
  struct Stream {
    std::string name;
    bool host = false;
    double seconds_a_step = 0;  // in which a firing runs
    std::vector<Block> blocks;
  };
  struct Device {
    int stage = 0;
    int devices = 0;                                    // that do the same
    DeviceTime time;                                    // of a step
    double to_host_seconds = 0, from_host_seconds = 0;  // of a step, of copies in each direction
    std::vector<Stream> streams;
    int64_t arena_bytes = 0, persistent_bytes = 0;  // as planned
    int64_t peak_bytes = 0;                         // registers in use at once, at most
    std::vector<LiveMemory::Point> memory;          // registers in use, coarse
    // The same of the host's memory; 0 and empty where only the host's data pass through it.
    int64_t host_arena_bytes = 0, host_persistent_bytes = 0, host_peak_bytes = 0;
    std::vector<LiveMemory::Point> host_memory;
  };
  struct Actor {
    std::string name, kernel, why;
    int stage = 0;
    bool boxing = false;
    int64_t firings = 0;  // a step; if weights lag, a round
    double seconds_a_step = 0;
    double seconds = 0;      // of one firing
    double slack = 0;        // CriticalPath::slack
    double bytes_moved = 0;  // received in one firing
  };
  struct PathPiece {
    int stage = 0;
    std::string stream;
    Block block;
  };

  // A period of the run that repeats itself: blocks that end in the `times` periods after it are
  // left out, and so is the critical path there. Sums cover all firings.
  struct Repeat {
    double begin = 0, seconds = 0;  // of the first period, whose blocks are there
    int64_t times = 0;
  };

  std::string model, cluster, program;
  int devices = 0;
  int64_t steps = 0;  // simulated; if weights lag, rounds
  int64_t steps_a_round = 1;
  double step_seconds = 0, seconds = 0;
  Band band;                                // of step_seconds; set by the caller
  double bubble = 0, bubble_over_busy = 0;  // Utilization
  std::vector<StepPart> parts;              // of a step
  bool moves_to_host = false;               // MovesToHost
  std::optional<double> imbalance;          // for which a mixture that drops nothing is priced
  double flops_a_device_second = 0;         // all that is computed, on average over the stages
  double device_tokens_a_second = 0;        // 0: the graph reads no tokens
  std::optional<ModelRates> rates;          // the caller's to give
  std::optional<CoreSharing> sharing;       // set by the caller, if devices share cores
  std::vector<Repeat> repeats;
  std::vector<Device> stages;
  std::vector<Actor> actors;              // the costliest first
  std::vector<PathPiece> critical_path;   // of the full run
  std::optional<ProcessTraffic> traffic;  // set by the caller, for a plan in several processes
  // Of the path from the end of the step before the last one on, so of one step: by kernel;
  // "(waiting)": for messages, or to be issued. The same by what the kernel does (FindWork), or
  // "waiting"; and the sum of them.
  std::map<std::string, double> critical_seconds;
  std::map<std::string, std::map<std::string, double>> critical_kinds;
  double critical_step_seconds = 0;
};

// `cluster`: its name. Requires the plan that was simulated.
SimulationSummary Summarize(const proto::Plan& plan, const std::string& cluster,
                            const SimulatedRun& run);

// Units are seconds and bytes. All numbers round trip. A list of only the costliest, or the last,
// elements says how many were left out.
std::string SummaryJson(const SimulationSummary& summary);

// For a terminal: about 40 lines.
std::string SummaryText(const SimulationSummary& summary);

}  // namespace oneflow
