// MemberState: the state machine of one process of a job: it presents the process to the
// coordinator, keeps its beats and its lease, and knows which event the process waits for.
//
// Events go in (a message, a stream that breaks, a tick of the clock, a request of the program),
// actions come out. It has no thread, no clock and no socket; calls are made one at a time, and
// each carries its time. member.h drives it.
//
//   MemberState state(options, now);
//   state.Start(now, emit);                        // kConnect, then kSend of its identity
//   state.Receive(1, message, now, emit);          // kJoined, kFreeze, kValue, ...
//
// Invariants:
//  1. Streams are numbered from 1; one is in use at a time. Events of others change nothing.
//  2. A broken stream is replaced until the coordinator has accepted the process, never after: from
//     then on a break ends the attempt here.
//     Addresses are tried in turn until then; one at which another job is, or nobody, is passed.
//  3. kEnd or kLeft comes once, and nothing after it.
//  4. LeaseUntil() is the time at which the newest beat that the coordinator is known to have heard
//     was sent, plus `silence`: before that time the coordinator has not given this process up. An
//     old message never extends it, so a process that was stopped and goes on finds it in the past.
//  5. The coordinator is silent if nothing has been heard of it for `silence` of the time in which
//     this process was listening: a gap between two ticks counts as two beats at most. A gap of
//     `silence` or more ends the attempt here: the others have given this process up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "training/job/job.h"

namespace oneflow {

struct MemberStateOptions {
  JobIdentity self;
  std::string coordinator;  // HOST:PORT
  // Ports of that host at which it may be instead: all are tried in turn, for the first one may be
  // another job's, or another program's.
  std::vector<int> other_ports;
  JobTime join = 60 * kJobSecond;
};

struct MemberAction {
  enum Kind {
    kConnect,     // stream number `stream`, to the address `value`
    kSend,        // `message` on it
    kDisconnect,  // it, when what was sent is on its way
    kJoined,
    kWaits,   // to join: `value` says for whom
    kFreeze,  // to be answered by Frozen
    kStopAt,  // `position`
    kValue,   // `value` of the post `key`
    kAnswer,  // to the round that the process is in: `value`, or an error as `status`
    kLeft,
    kEnd,  // `status`
  };
  Kind kind = kSend;
  uint64_t stream = 0;
  proto::JobFromMember message;
  StepPosition position;
  std::string key, value;
  absl::Status status;
};

class MemberState {
 public:
  using Emit = absl::FunctionRef<void(MemberAction)>;

  // The time from a break before acceptance to the next stream, and the time that this process's
  // report of its own failure may take to come back as the end of the attempt.
  static constexpr JobTime kRetry = kJobSecond / 5;
  static constexpr JobTime kFailing = 5 * kJobSecond / 2;
  // The time for which a process waits for other jobs to leave its addresses, and for an answer at
  // one of several.
  static constexpr JobTime kPatience = 10 * kJobSecond;
  // For whom it waits is said after this time, then after twice, four times it ...
  static constexpr JobTime kFirstWord = 10 * kJobSecond;

  MemberState(MemberStateOptions options, JobTime now);

  // Events of the connection and the clock.
  void Start(JobTime now, Emit emit);
  void Receive(uint64_t stream, const proto::JobToMember& message, JobTime now, Emit emit);
  void Lose(uint64_t stream, const std::string& why, JobTime now, Emit emit);
  void Tick(JobTime now, Emit emit);

  // Requests of the program, once it has joined; after the end they have no effect.
  void Begin(uint64_t run, std::string_view program, int64_t first_step, int64_t steps, Emit emit);
  void AskStop(Emit emit);
  void Frozen(const StepPosition& position, Emit emit);
  void Report(uint64_t run, int64_t step, const double* values, size_t count, Emit emit);
  void Note(std::string name, std::string value, Emit emit);  // at most kJobPieceBytes
  void Post(std::string key, std::string value, Emit emit);
  void Fetch(const std::string& key, Emit emit);  // asked once, however many wait for it
  void Round(std::string name, std::string part, Emit emit);  // requires: none in progress
  void Fail(const absl::Status& why, JobTime now, Emit emit);
  void Leave(Emit emit);

  // Queries:
  std::string Address() const;  // the last stream's
  JobTime join() const { return options_.join; }
  bool HasJoined() const { return phase_ >= Phase::kJoined; }
  bool IsOver() const { return phase_ >= Phase::kLeft; }
  const absl::Status& status() const { return status_; }  // OK unless it has ended
  JobTime LeaseUntil() const { return lease_; }
  JobTime TickEvery() const;  // the period of Tick
  // The time for which a process may be silent: process 0's limit counts for all. 0: not accepted
  // yet.
  JobTime silence() const { return silence_; }
  int processes_on_host() const { return on_host_; }
  int index_on_host() const { return index_; }
  // The event that the program waits for: "round checkpoint 20", "post address of process 3";
  // empty: none.
  std::string WaitsFor() const;
  // Process 0's clock minus ours, and the bound of its error; error < 0: not known yet.
  struct ClockOffset {
    JobTime offset = 0, error = -1;
  };
  ClockOffset clock_offset() const { return clock_; }

 private:
  enum class Phase { kConnecting, kPresented, kAccepted, kJoined, kLeaving, kLeft, kEnded };

  ProcessName Self() const;
  ProcessName Zero() const;
  bool HasFailed() const;
  JobTime LongGap() const { return silence_ - 2 * beat_; }
  bool IsAccepted() const { return phase_ >= Phase::kAccepted && !IsOver(); }
  void Listen(JobTime now);
  void Connect(Emit emit);
  void TryNext();
  std::string Addresses() const;  // for sentences
  void Send(proto::JobFromMember message, Emit emit);
  void Accept(const proto::JobAccepted& accepted, Emit emit);
  void Refused(const proto::JobRefusal& refusal, Emit emit);
  void Beat(const proto::JobBeat& beat, Emit emit);
  void Value(const proto::JobPost& post, Emit emit);
  void Answer(const proto::JobAnswer& answer, Emit emit);
  void Foreign(Emit emit);
  void EndAsDecided(const absl::Status& why, Emit emit);
  void End(const absl::Status& why, Emit emit);

  const MemberStateOptions options_;
  const JobTime begun_;
  Phase phase_ = Phase::kConnecting;
  JobTime now_, ticked_;
  ListeningClock listening_;
  uint64_t stream_ = 0;
  bool connected_ = false;
  JobTime say_at_, say_next_ = 2 * kFirstWord;  // that there is no coordinator
  std::string missing_;  // processes that have not joined, by the coordinator's last word
  JobTime connect_at_ = 0, presented_ = 0;
  std::string last_break_;               // why the last stream broke, or how another job differs
  size_t at_ = 0;                        // 0: coordinator; i: other_ports[i - 1]
  std::optional<JobTime> others_since_;  // since when other jobs alone have answered

  JobTime silence_ = 0, beat_ = 0;
  std::string zero_host_;
  JobRanks zero_ranks_;
  JobTime heard_ = 0;  // by listening_
  JobTime beat_at_ = 0, echo_ = 0, lease_ = 0;
  JobTime gap_ = 0, gap_until_ = 0;  // the last gap between ticks that others may take for an end
  ClockOffset clock_;
  JobTime clock_at_ = 0;
  int on_host_ = 1, index_ = 0;

  std::map<std::string, std::string> fetches_;  // asked, and the pieces that are here
  std::optional<std::string> round_;            // in progress
  std::string answer_;                          // the pieces that are here
  uint64_t rounds_ = 0;
  bool freezing_ = false;
  absl::Status failing_;  // the reported failure
  JobTime failing_until_ = 0;
  absl::Status status_;
};

}  // namespace oneflow
