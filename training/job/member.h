// Member: this process as a member of a job. It joins the coordinator in process 0, keeps beats and
// lease, and offers a program the agreements between processes: runs, stop, rounds, posts, outcome.
// No step of a program waits for it. An attempt is fail-stop: any failure ends it in all processes
// with one sentence; only joining is retried.
//
//   MemberOptions options{.coordinator = "127.0.0.1:4000", .process = 1, .processes = 2};
//   ASSIGN_OR_RETURN(std::unique_ptr<Member> member, Member::Join(options, callbacks));
//   member->Post("address 1", address);
//   ASSIGN_OR_RETURN(std::string peer, member->Fetch("address 0"));
//   member->Begins(0, "train", 0, 20);  ...  RETURN_IF_ERROR(member->Leave());
//
// Guarantees:
//  1. Join returns when all processes have joined with equal facts, or with the refusal.
//  2. on_end comes at most once, and never before Join has returned a member; after it (or after an
//     error of Fetch, Round, Leave) status() is the same sentence as in every other process that
//     could be reached. In process 0 it comes when the others have heard it, or a second later.
//  3. MayWrite() is true only while no other process has given this one up; it costs one read of a
//     clock.
//  4. All calls may be made by any thread, except the destructor. A callback makes no call that
//     waits (Fetch, Round, Leave, Await...).
// The destructor breaks the connection: without Leave, or an end, that is a loss for the others.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "training/job/job.h"
#include "training/job/member_options.h"

namespace oneflow {

// Called on a separate thread of the member, one at a time; no callback may block for long. Each
// may be empty.
struct MemberCallbacks {
  // Process 0 alone: the others may connect, at this port. Called on the thread that calls Join.
  std::function<void(int port)> on_listen;
  // Called at each tick until all have joined; an error says why they never will. Not called after
  // Join has returned.
  std::function<absl::Status()> while_joining;
  // Called now and then until all have joined: for whom this process waits, "processes 2, 3".
  std::function<void(const std::string& missing)> on_waits;
  // The attempt is over with an error: one sentence that names host, process and cause. Called
  // once.
  std::function<void(const absl::Status& why)> on_end;
  // Begin no further step, and return the current position.
  std::function<StepPosition()> freeze;
  // The agreed end: the greatest of all positions. The process goes on up to it.
  std::function<void(const StepPosition& end)> stop_at;
  // Process 0 alone: a report of a process; the reports of one process come in order.
  std::function<void(uint64_t run, int64_t step, std::span<const double> values)> on_report;
  // Process 0 alone: a note of a process; the notes of one process come in order.
  std::function<void(int process, const std::string& name, const std::string& value)> on_note;
};

class Member {
 public:
  static absl::StatusOr<std::unique_ptr<Member>> Join(MemberOptions options,
                                                      MemberCallbacks callbacks);
  ~Member();
  Member(const Member&) = delete;

  int port() const;  // the coordinator's
  int processes_on_host() const;
  int index_on_host() const;  // among them, by process
  JobTime silence() const;    // a process may be silent for so long; the same in all

  // Announces that this process begins run number `run`: `steps` steps of `program` from
  // `first_step`. Does not wait. Processes whose sequences of runs differ end the attempt, and are
  // named.
  void Begins(uint64_t run, std::string_view program, int64_t first_step, int64_t steps);
  // Called after a signal: freeze is called in all processes, then stop_at. Later calls have no
  // effect.
  void AskStop();
  // Sends values to process 0's on_report. Does not wait.
  void Report(uint64_t run, int64_t step, std::span<const double> values);
  // Sends a note about the state of this process to process 0's on_note; process 0 may do so, too.
  // Does not wait. A note of more than 1 MiB is not sent: nothing depends on notes.
  void Note(std::string name, std::string value);
  // Publishes a value for Fetch; a key is posted once in an attempt.
  void Post(std::string key, std::string value);
  // Returns the value of a key; waits until it is posted.
  absl::StatusOr<std::string> Fetch(const std::string& key);
  // All processes call it with the same names in the same order. `at_first` runs in process 0, on
  // the calling thread, with all parts by process; all processes get its answer, or its error.
  absl::StatusOr<std::string> Round(
      const std::string& name, std::string part,
      std::function<absl::StatusOr<std::string>(std::span<const std::string> by_process)> at_first);
  // Ends the attempt for all, because this process cannot go on. A failure that it only notices of
  // another one is marked as a consequence (MarkConsequence), and waits for that. Does not wait;
  // wait for on_end before exiting. The first call counts.
  void Fail(const absl::Status& why);
  // After Fail: waits for the end of the attempt, some seconds. Returns why it ended.
  absl::Status AwaitEnd();
  bool MayWrite() const;
  // Waits until the process may write; returns false if it never will.
  bool AwaitMayWrite();
  // Ends well: returns when all have left.
  absl::Status Leave();
  // OK while the attempt goes on, and after a good end.
  absl::Status status() const;

  // The event that this process waits for here, "round checkpoint 20"; empty: none.
  std::string WaitsFor() const;
  // Process 0's CLOCK_BOOTTIME minus ours, and its greatest error; error < 0: not known yet.
  struct ClockOffset {
    double seconds = 0, error_seconds = -1;
  };
  ClockOffset clock_offset() const;

 private:
  class Impl;
  explicit Member(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace oneflow
