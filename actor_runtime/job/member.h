// Member: this process as one of a job's. It joins the coordinator in process 0, keeps beats and
// lease, and offers a program what processes agree on: runs, stop, rounds, posts, outcome. No step
// of a program waits for it. An attempt is fail-stop: whatever breaks ends it in all processes with
// one sentence; nothing is tried again but joining.
//
//   MemberOptions options{.coordinator = "127.0.0.1:4000", .process = 1, .processes = 2};
//   ASSIGN_OR_RETURN(std::unique_ptr<Member> member, Member::Join(options, callbacks));
//   member->Post("address 1", address);
//   ASSIGN_OR_RETURN(std::string peer, member->Fetch("address 0"));
//   member->Begins(0, "train", 0, 20);  ...  RETURN_IF_ERROR(member->Leave());
//
// Guarantees:
//  1. Join returns when all processes have joined with equal facts, or with what was refused.
//  2. on_end comes at most once, and never before Join has returned a member; after it (or after an
//     error of Fetch, Round, Leave) status() is the same sentence as in every other process that
//     could be told. In process 0 it comes when the others have been told, or a second later.
//  3. MayWrite() is true only while no other process has given this one up; it costs a clock's
//  read.
//  4. All calls may be made by any thread, but not the destructor, and none from a callback that
//     waits (Fetch, Round, Leave, Await...).
// The destructor breaks the connection: without Leave, or an end, that is a loss for the others.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "actor_runtime/job/job.h"
#include "actor_runtime/job/member_options.h"

namespace oneflow {

// On a thread of the member's own, one at a time; none must block for long. Each may be empty.
struct MemberCallbacks {
  // Process 0 alone: the others may come, at this port. On the thread that calls Join.
  std::function<void(int port)> on_listen;
  // Asked at each tick until all have joined: why they never will. Not after Join has returned.
  std::function<absl::Status()> while_joining;
  // The attempt is over with an error: one sentence that names host, process and cause. Once.
  std::function<void(const absl::Status& why)> on_end;
  // Begin no further step, and say how far you are.
  std::function<StepPosition()> freeze;
  // The agreed end: the greatest of all positions. Go on up to it.
  std::function<void(const StepPosition& end)> stop_at;
  // Process 0 alone: what a process has reported; of one process, in its order.
  std::function<void(uint64_t run, int64_t step, std::span<const double> values)> on_report;
  // Process 0 alone: what a process notes; of one process, in its order.
  std::function<void(int process, const std::string& name, const std::string& value)> on_note;
};

class Member {
 public:
  static absl::StatusOr<std::unique_ptr<Member>> Join(MemberOptions options,
                                                      MemberCallbacks callbacks);
  ~Member();
  Member(const Member&) = delete;

  int port() const;  // of the coordinator
  int processes_on_host() const;
  int index_on_host() const;  // among them, by process

  // This process begins run number `run`: `steps` steps of `program` from `first_step`. Does not
  // wait. Processes that begin different things, one after the other, end the attempt by name.
  void Begins(uint64_t run, std::string_view program, int64_t first_step, int64_t steps);
  // A signal came: freeze is called in all processes, then stop_at. Once; later calls do nothing.
  void AskStop();
  // To process 0's on_report. Does not wait.
  void Report(uint64_t run, int64_t step, std::span<const double> values);
  // A word to process 0's on_note, its own, too: how this process stands. Does not wait. One of
  // more than 1 MiB is not sent: nothing depends on notes.
  void Note(std::string name, std::string value);
  // A value for who fetches it; a key is posted once in an attempt.
  void Post(std::string key, std::string value);
  // Waits for the post.
  absl::StatusOr<std::string> Fetch(const std::string& key);
  // All processes call it with the same names in the same order. `at_first` runs in process 0, on
  // its caller's thread, with all parts by process; all get its answer, or its error.
  absl::StatusOr<std::string> Round(
      const std::string& name, std::string part,
      std::function<absl::StatusOr<std::string>(std::span<const std::string> by_process)> at_first);
  // This process cannot go on: ends the attempt for all. UNAVAILABLE is word of another process
  // ("my peer has gone"): it waits a second for the cause itself. Wait for on_end before exiting.
  void Fail(const absl::Status& why);
  // After Fail: waits for the end of the attempt, some seconds at most. Returns why it ended.
  absl::Status AwaitEnd();
  bool MayWrite() const;
  // Waits until it may write, or never will: false.
  bool AwaitMayWrite();
  // A good end: returns when all have left.
  absl::Status Leave();
  // OK while the attempt goes on, and after a good end.
  absl::Status status() const;

  // The thing that this process waits for here, "round checkpoint 20"; empty: nothing.
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
