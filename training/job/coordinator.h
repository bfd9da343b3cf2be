// Coordinator: the state machine of process 0 to which all processes of a job speak, off the data
// path. It decides who takes part; it compares the facts that must be equal; it decides programs,
// rounds and the step at which a run stops; it distributes posts, watches for silence, and decides
// how an attempt ends.
//
// Events go in (a message of a connection, a connection that closes, a tick of the clock), actions
// come out (messages to send, connections to close). It has no thread, no clock and no socket;
// calls are made one at a time. Each event carries its time; a time before the last one counts as
// the last one. job_server.h drives it. Process 0 is a member like the others, through
// kLocalConnection.
//
//   Coordinator coordinator(options);
//   coordinator.Open(7, now);
//   coordinator.Receive(7, message, now, [](CoordinatorAction action) { ... });
//
// Invariants:
//  1. A connection has no identity until it has presented the job's token and, with it, a process
//     index that is free. Until then it changes nothing, and hears only that it is refused.
//  2. A process has at most one connection in an attempt. If that closes before all have left, the
//     attempt is over: nobody comes back.
//  3. An attempt ends once, with one sentence, the same for all. Process 0 hears it last: when the
//     others have gone, or after kGrace. It is that of the first process that reports a failure of
//     its own, or is lost. A failure that processes notice of another one (a consequence,
//     cause.h) waits for that. It is the cause itself once all others have heard us since, and have
//     reported nothing: a process reports its failure before anybody can notice it.
//  4. A process of another job changes nothing, whatever its attempt: it hears how the jobs differ.
//     Jobs differ by their facts and by the folder that they write to. One that differs by facts
//     alone, within an attempt that gathers, is taken for one of this job that was started wrongly.
//  5. Facts, programs, rounds and the end of a run are the same in all processes. Only this class
//     compares or decides them; a process that differs is named.
//  6. A process is silent if nothing has been heard of it for `silence` of the time in which this
//     machine itself was listening: a gap between two ticks counts as two beats at most.
//  7. While LeaseUntil() is ahead, every other process has said within `silence` that it hears us.
//  8. A tick costs O(processes), every other event O(log processes) and its answers. Only messages
//     that all need go to all: welcome, freeze, stop_at, a round's answer, the end.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "training/job/job.h"

namespace oneflow {

struct CoordinatorOptions {
  JobIdentity self;  // process 0: all others are compared with it
  JobTime join = 60 * kJobSecond, silence = 5 * kJobSecond;
  std::vector<std::string> hosts;  // by process, as its launcher says; may be empty
};

struct CoordinatorAction {
  enum Kind {
    kSend,    // `message` to `connection`
    kClose,   // `connection`, when what was sent to it is on its way
    kReport,  // `report` of a process, for process 0's program
    kNote,    // `note` of `process`, for process 0's program
    kRound,   // `parts` of round `number`, by process: to be answered by AnswerRound
  };
  Kind kind = kSend;
  uint64_t connection = 0;
  proto::JobToMember message;
  proto::JobReport report;
  int process = 0;
  proto::JobNote note;
  uint64_t number = 0;
  std::vector<std::string> parts;
};

class Coordinator {
 public:
  using Emit = absl::FunctionRef<void(CoordinatorAction)>;

  static constexpr uint64_t kLocalConnection = 0;
  // The time for which process 0 waits for the others to hear of the end.
  static constexpr JobTime kGrace = kJobSecond;
  // Processes that have not joined are named after this time, then after twice, four times it ...
  static constexpr JobTime kFirstWord = 10 * kJobSecond;
  // Runs by which a process may be ahead of another.
  static constexpr size_t kMostRunsAhead = 1 << 16;

  // Requires: self.process is 0, self.processes > 0.
  Coordinator(CoordinatorOptions options, JobTime now);

  // Events. A connection's number must not have been used before.
  void Open(uint64_t connection, JobTime now);
  void Receive(uint64_t connection, const proto::JobFromMember& message, JobTime now, Emit emit);
  void Close(uint64_t connection, JobTime now, Emit emit);
  void Tick(JobTime now, Emit emit);
  // Answers the round that kRound came for. Does nothing once the attempt is over.
  void AnswerRound(uint64_t number, const absl::StatusOr<std::string>& answer, JobTime now,
                   Emit emit);

  // Queries:
  bool IsOver() const { return ending_; }                 // ended, or all have left
  const absl::Status& status() const { return status_; }  // the reason of the end; OK until then
  JobTime LeaseUntil() const { return lease_; }           // invariant 7, by the clock of the events
  JobTime Beat() const { return BeatsEvery(options_.silence); }
  JobTime LongGap() const { return options_.silence - 2 * Beat(); }

 private:
  struct Process {
    std::optional<uint64_t> connection;
    std::string host;
    JobRanks ranks;
    absl::Status noticed;  // a consequence that it has reported
    JobTime heard = 0;     // by clock_
    JobTime echoed = 0;    // the newest of our beats that it has heard
    uint64_t runs = 0;     // that it has begun
    uint64_t parts = 0;    // rounds' parts that it has sent completely
    bool frozen = false, left = false;
  };
  struct Run {
    uint64_t run;
    std::string program;
    int64_t first_step, steps;
    int by, begun;
  };
  struct Posted {
    std::string value;
    bool complete = false;  // all its pieces are here
    int by = -1;
    std::vector<int> waiting;
  };
  enum class Stop { kNone, kAsked, kFreezing, kAgreed };

  int processes() const { return options_.self.processes; }
  bool AllJoined() const { return joined_ == processes(); }
  ProcessName FullName(int process) const;
  std::string Name(int process) const { return DescribeProcess(FullName(process)); }
  void Listen(JobTime now);
  void Send(int process, proto::JobToMember message, Emit emit);
  void SendToAll(const proto::JobToMember& message, Emit emit);
  void Refuse(uint64_t connection, const absl::Status& why, bool retry, Emit emit);
  void Refuse(uint64_t connection, proto::JobRefusal refusal, Emit emit);
  void Present(uint64_t connection, const proto::JobPresent& present, Emit emit);
  // The difference of a process from process 0; "": none, as far as it says.
  struct Difference {
    std::string what;
    const char* hint = "";
  };
  Difference FindDifference(const proto::JobPresent& present) const;
  bool HasOtherFolder(const proto::JobPresent& present) const;
  void WelcomeAll(Emit emit);
  std::string Missing() const;  // "processes 2 (host c), 3 (host d)"; requires that some are
  void SayWhoIsMissing(Emit emit);
  void Beats(int process, const proto::JobBeat& beat, Emit emit);
  void Begin(int process, const proto::JobBegin& begin, Emit emit);
  void FreezeAll(Emit emit);
  void Frozen(int process, const proto::JobPosition& position, Emit emit);
  void Post(int process, const proto::JobPost& post, Emit emit);
  void Fetch(int process, const std::string& key, Emit emit);
  void SendValue(int process, const std::string& key, const std::string& value, Emit emit);
  void Part(int process, const proto::JobPart& part, Emit emit);
  void Leaves(int process, Emit emit);
  void Fails(int process, const absl::Status& why, Emit emit);
  void CheckSilence(Emit emit);
  void Malformed(int process, const char* what, Emit emit);
  void CheckConsequences(Emit emit);
  absl::Status ExplainConsequences() const;
  void EndByLoss(const absl::Status& why, Emit emit);
  void End(const absl::Status& why, Emit emit);
  void Finish(proto::JobToMember last, Emit emit);
  void TellLocal(Emit emit);

  const CoordinatorOptions options_;
  const JobTime begun_;
  JobTime now_, ticked_, lease_;
  ListeningClock clock_;
  JobTime gap_ = 0, gap_until_ = 0;  // the last gap between ticks that others may take for an end
  // The process of an open connection; -1: not known yet.
  struct Connection {
    int process = -1;
    JobTime opened = 0;
    bool closing = false;
  };
  absl::flat_hash_map<uint64_t, Connection> connections_;  // looked up, never walked
  std::deque<std::pair<uint64_t, JobTime>> strangers_;     // connections, as they came
  std::vector<Process> processes_;
  int joined_ = 0, left_ = 0;
  JobTime say_at_, say_next_ = 2 * kFirstWord;  // when missing processes are named

  std::deque<Run> runs_;    // begun by some, not by all
  uint64_t first_run_ = 0;  // index of runs_'s first run, in the order of each process's runs
  std::map<std::string, Posted> posts_;
  bool round_begun_ =
      false;  // the round in progress: the process that began it, its name and parts
  int round_by_ = 0;
  std::string round_;
  std::vector<std::string> parts_;
  uint64_t rounds_ = 0;  // answered
  int parts_here_ = 0;
  Stop stop_ = Stop::kNone;
  int frozen_ = 0;
  StepPosition end_;

  int first_noticed_ = -1;  // the first process that has reported a consequence, and when
  JobTime noticed_at_ = 0;
  bool ending_ = false;
  absl::Status status_;
  int others_there_ = 0;  // connections of joined processes other than 0
  std::optional<proto::JobToMember> last_for_local_;
  JobTime local_until_ = 0;
};

}  // namespace oneflow
