// WorkerReport: the state of each worker of a run, for people: each actor that waits, and the slot
// that it waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "actor_runtime/exec/net.h"
#include "actor_runtime/exec/worker.h"

namespace oneflow {

struct WorkerReport {
  std::string worker;                // "rank 0", "host", or "rank 0, copy.in" of one stream
  int64_t firings = 0;               // begun in this run
  std::vector<std::string> streams;  // a sentence each: "compute: actor b at rank 0, ..."
  // The worker of the host, or of a stream alone, gave no answer: it reads or writes, say.
  bool in_host_kernel = false;
  int rank = kHost;        // a rank may have several workers
  std::string inside;      // name of the actor in whose kernel it is, or its device; empty
  bool may_go_on = false;  // one of its streams waits for nobody
  // Ranks, of this process and others, its own if it waits for another of its workers; kHost; each
  // once.
  std::vector<int32_t> waits_for;
  // An exchange that it has entered and that is not over.
  struct Entered {
    std::string exchange;          // "actor h.0.fc.all_reduce at rank 0, firing 12", in all members
    std::vector<int32_t> missing;  // ranks of which it does not know that they have entered
    std::vector<int32_t> far;      // members in other processes
  };
  std::vector<Entered> entered;

  static constexpr int kHost = WorkerTeam::kHost;  // the worker of the host's streams
};

// Asks the workers of a run; a worker that gives no answer within `patience` is inside a kernel.
// `wake` is called when all have been asked. Any thread, one at a time, while the run is not being
// prepared or finished.
std::vector<WorkerReport> AskWorkers(const ProgramRun& run,
                                     const std::vector<std::unique_ptr<Worker>>& workers,
                                     absl::FunctionRef<void()> wake,
                                     std::chrono::nanoseconds patience);

}  // namespace oneflow
