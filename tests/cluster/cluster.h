// A job on a simulated cluster: attempts of four processes, one after the other, until the training
// is done, under losses that a seed draws. It watches what must hold whatever is lost:
//
//  1. Every loss that process 0 writes, and every checkpoint that is complete, has the bits of the
//     undisturbed run.
//  2. A checkpoint that was committed is never lost; one that is complete verifies.
//  3. If nothing is lost permanently (short stops, short disconnections, slowness), no attempt ends
//     with an error.
//  4. After a loss all others end: in 3 s after a death or a failed kernel, in 10 s after a stop or
//     a cut link, also one that carries exchanges alone, or lies between two that are not process
//     0. Their errors are no errors of the user, and none of ours; they name a link that carries
//     nothing.
//  5. After a signal all processes end after the same step, with a checkpoint of it.
//  6. A process that the others have given up may not write.
//  7. A failed kernel ends the runs of all by the network of exchanges alone.
//  8. All that end report one cause: a process that failed by itself, with what failed there, or
//     that was killed, whatever the others notice first.
//  9. The training ends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/disk.h"
#include "tests/cluster/process.h"

namespace oneflow::cluster {

// The results of an undisturbed run.
struct Reference {
  std::map<int64_t, std::string> losses;                          // as text, by step
  std::map<int64_t, std::map<std::string, std::string>> folders;  // files of checkpoints, by step
};
// The contents of a folder of checkpoints and of a file of metrics.
std::map<int64_t, std::map<std::string, std::string>> ReadCheckpoints(const std::string& dir);
std::map<int64_t, std::string> ReadLosses(const std::string& path);

class Cluster {
 public:
  // `folder`: empty; all files of the run are below it.
  Cluster(const Training& training, const Reference& reference, const std::string& folder,
          uint64_t seed, const Faults& faults, Coverage* coverage);
  ~Cluster();

  // Why the run is wrong, with the seed and the last events; empty: it is right.
  std::string Run();

 private:
  enum Loss {
    kNothing,
    kKill,
    kStopShort,
    kStopLong,
    kCutShort,
    kCutLong,
    kCutPair,
    kPower,
    kSignal,
    kFailKernel,
    kFullDisk,
    kSlow,
    kLateStart,
    kCutData,
    kLosses
  };
  // One that is to come: at a moment, or at an operation on the disk.
  struct Planned {
    Loss loss = kNothing;
    int process = 0;
    int64_t disk_operation = -1;
  };

  Process& At(int process) { return *processes_[first_ + process]; }
  void Beat();
  void StartAttempt();
  void PlanLosses();
  void Happen(const Planned& planned);
  void CutFrom(int process, JobTime duration);
  void CutBetween(Links* links, int process, int other, JobTime duration);
  void MustEndIn(JobTime limit, const std::string& why);
  bool AttemptIsOver();
  void CheckAttempt();
  void CheckCause();
  void CheckDisk();
  void OnDisk(Process& process);
  void MayWrite(Process& process);
  void OnCommit(const std::string& folder);
  bool IsUnreachable(const Process& process) const;
  static const char* LossName(Loss loss);

  const Reference& reference_;
  const std::string folder_;
  Simulation simulation_;
  const Training training_;
  Disk disk_;
  Links links_, data_links_;
  Network network_;
  ControlNetwork control_;
  Surroundings around_;
  Coverage* const coverage_;

  std::vector<std::unique_ptr<Process>> processes_;  // of all attempts
  int first_ = 0;                                    // of processes_: of this attempt
  int64_t attempt_ = 0;
  std::map<int64_t, JobTime> given_up_;  // by attempt: when the first process ended
  JobTime began_ = 0;
  Loss loss_ = kNothing;  // of this attempt, once it has happened
  int victim_ = -1;
  bool all_had_joined_ = false;  // when it happened
  bool expects_error_ = false;
  std::vector<Planned> on_disk_;
  int64_t disk_operations_ = 0;
  int64_t committed_ = 0;    // step
  Process* late_ = nullptr;  // that is held up until the next attempt
  JobTime longest_start_ = 300 * kMillisecond;
  bool done_ = false;
};

}  // namespace oneflow::cluster
