#include "training/job/member_state.h"

#include <algorithm>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// While a process joins, somebody waits for it at a terminal.
constexpr JobTime kJoiningTick = kJobSecond / 20;
constexpr JobTime kLongest = 24 * 3600 * kJobSecond;

// Clocks of two machines drift apart by this part of the time at most: 50 millionths.
constexpr JobTime kDrift = 20'000;

double InSeconds(JobTime t) { return static_cast<double>(t) / kJobSecond; }

}  // namespace

MemberState::MemberState(MemberStateOptions options, JobTime now)
    : options_(std::move(options)),
      begun_(now),
      now_(now),
      ticked_(now),
      say_at_(now + kFirstWord) {}

ProcessName MemberState::Self() const {
  return {options_.self.host, options_.self.process, options_.self.ranks};
}

ProcessName MemberState::Zero() const { return {zero_host_, 0, zero_ranks_}; }

// Whatever comes after a failure of this process comes of it.
bool MemberState::HasFailed() const {
  return !failing_.ok() && !FindCause(failing_).is_consequence;
}

// Until the process is accepted it does not know the period of beats, and takes the default's.
void MemberState::Listen(JobTime now) {
  if (now <= now_) return;
  listening_.Pass(now - now_, beat_ > 0 ? beat_ : kJobSecond / 2);
  now_ = now;
}

JobTime MemberState::TickEvery() const {
  if (!HasJoined()) return beat_ > 0 ? std::min(kJoiningTick, beat_ / 2) : kJoiningTick;
  // Process 0's clock is the coordinator's, too.
  return std::max(options_.self.process == 0 ? beat_ / 2 : beat_, kJobSecond / 1000);
}

void MemberState::Start(JobTime now, Emit emit) {
  Listen(now);
  CHECK_EQ(stream_, 0u);
  Connect(emit);
}

std::string MemberState::Address() const {
  return at_ == 0 ? options_.coordinator
                  : WithPort(options_.coordinator, options_.other_ports[at_ - 1]);
}

std::string MemberState::Addresses() const {
  std::string text = options_.coordinator;
  for (const int port : options_.other_ports) absl::StrAppend(&text, " or :", port);
  return text;
}

// The others come at once, and the first one after a while.
void MemberState::TryNext() {
  connected_ = false;
  phase_ = Phase::kConnecting;
  at_ = (at_ + 1) % (1 + options_.other_ports.size());
  connect_at_ = at_ == 0 ? now_ + kRetry : now_;
}

void MemberState::Connect(Emit emit) {
  ++stream_;
  connected_ = true;
  phase_ = Phase::kPresented;
  presented_ = now_;
  heard_ = listening_.time();
  emit({.kind = MemberAction::kConnect, .stream = stream_, .value = Address()});
  const JobIdentity& self = options_.self;
  proto::JobFromMember message;
  proto::JobPresent* present = message.mutable_present();
  present->set_token(self.token);
  present->set_attempt(self.attempt);
  present->set_process(self.process);
  present->set_processes(self.processes);
  present->set_host(self.host);
  WriteRanks(self.ranks, present->mutable_ranks());
  for (const JoinFact& fact : self.facts) {
    proto::JobPresent::Fact* added = present->add_fact();
    added->set_name(fact.name);
    added->set_value(fact.value);
  }
  if (!self.failed.ok()) WriteError(self.failed, present->mutable_failed());
  present->set_folder(self.folder);
  present->set_names_folder(self.names_folder);
  Send(std::move(message), emit);
}

void MemberState::Send(proto::JobFromMember message, Emit emit) {
  emit({.kind = MemberAction::kSend, .stream = stream_, .message = std::move(message)});
}

// A failure of its own comes first: the coordinator closes the stream because of it. An accepted
// process does not connect again, because the others have heard that it is lost.
void MemberState::Lose(uint64_t stream, const std::string& why, JobTime now, Emit emit) {
  Listen(now);
  if (stream != stream_ || !connected_ || IsOver()) return;
  connected_ = false;
  if (HasFailed()) return End(MakeFailure(Self(), failing_), emit);
  if (IsAccepted()) {
    const auto why = MakeFailure(Zero(), absl::StatusCode::kUnavailable,
                                 ": its connection broke: it was killed, or exited without a word");
    const JobTime gap = std::max(now - ticked_, now - gap_until_ < silence_ ? gap_ : 0);
    if (gap < LongGap()) return End(why, emit);
    // The others may have given this process up.
    return End(
        MakeFailure(Self(), absl::StatusCode::kUnavailable,
                    absl::StrFormat(" was stopped, or had no processor, for %.1f s; then: %s",
                                    InSeconds(gap), std::string(ToStd(why.message())))),
        emit);
  }
  if (at_ == 0 || last_break_.empty()) last_break_ = why;
  others_since_.reset();
  TryNext();
}

// Whoever ends here tells the coordinator before (Fail): the link may carry messages in one
// direction, and the others learn the reason sooner than by silence.
void MemberState::Tick(JobTime now, Emit emit) {
  const JobTime gap = now - ticked_;
  ticked_ = std::max(now, ticked_);
  Listen(now);
  if (IsOver()) return;
  if (HasFailed() && now_ >= failing_until_) return End(MakeFailure(Self(), failing_), emit);
  if (IsAccepted()) {
    if (gap >= LongGap()) {
      gap_ = gap;
      gap_until_ = now_;
    }
    if (gap >= silence_) {
      const auto why = MakeFailure(
          Self(), absl::StatusCode::kUnavailable,
          absl::StrFormat(
              " was stopped, or had no processor, for %.1f s; after %.1f s the others give it up",
              InSeconds(gap), InSeconds(silence_)));
      Fail(why, now, emit);
      return End(why, emit);
    }
    if (listening_.time() - heard_ >= silence_) {
      const auto silent =
          absl::StrFormat(" has been silent for %.1f s", InSeconds(listening_.time() - heard_));
      Fail(MarkConsequence(0, absl::UnavailableError("process 0" + silent)), now, emit);
      return End(HasFailed() ? MakeFailure(Self(), failing_)
                             : MakeFailure(Zero(), absl::StatusCode::kUnavailable, silent),
                 emit);
    }
    if (now_ < beat_at_) return;  // process 0 ticks more often, for the coordinator
    beat_at_ = now_ + beat_;
    proto::JobFromMember message;
    message.mutable_beat()->set_sent(now_);
    message.mutable_beat()->set_echo(echo_);
    return Send(std::move(message), emit);
  }
  if (now_ >= begun_ + options_.join) {
    return End(MakeFailure(Self(), absl::StatusCode::kDeadlineExceeded,
                           absl::StrFormat(": no coordinator at %s within %.1f s: %s", Addresses(),
                                           InSeconds(options_.join),
                                           last_break_.empty() ? "no answer" : last_break_)),
               emit);
  }
  if (now_ >= say_at_) {
    say_at_ = now_ + say_next_;
    say_next_ *= 2;
    emit({.kind = MemberAction::kWaits,
          .value = absl::StrCat("process 0 at ", Addresses(), " (",
                                last_break_.empty() ? "no answer" : last_break_, ")")});
  }
  if (phase_ == Phase::kPresented && !options_.other_ports.empty() &&
      listening_.time() - heard_ >= kPatience) {
    others_since_.reset();
    TryNext();  // some other program listens there, and says nothing
  }
  if (phase_ == Phase::kConnecting && now_ >= connect_at_) Connect(emit);
}

void MemberState::Receive(uint64_t stream, const proto::JobToMember& message, JobTime now,
                          Emit emit) {
  Listen(now);
  if (stream != stream_ || !connected_ || IsOver()) return;
  heard_ = listening_.time();
  using Message = proto::JobToMember;
  // Before it is accepted, the other end may be any server: nothing else is taken from it.
  if (phase_ == Phase::kPresented) {
    if (message.has_accepted()) return Accept(message.accepted(), emit);
    if (message.has_refused()) return Refused(message.refused(), emit);
    if (message.has_end()) return EndAsDecided(ReadError(message.end()), emit);
    return Foreign(emit);
  }
  switch (message.kind_case()) {
    case Message::kBeat: return Beat(message.beat(), emit);
    case Message::kWelcome:
      if (phase_ != Phase::kAccepted || message.welcome().processes_on_host() < 1 ||
          message.welcome().index_on_host() < 0 ||
          message.welcome().index_on_host() >= message.welcome().processes_on_host()) {
        return Foreign(emit);
      }
      on_host_ = message.welcome().processes_on_host();
      index_ = message.welcome().index_on_host();
      phase_ = Phase::kJoined;
      return emit({.kind = MemberAction::kJoined});
    case Message::kWaitsFor:
      if (HasJoined()) return Foreign(emit);
      missing_ = CleanText(message.waits_for());
      return emit({.kind = MemberAction::kWaits, .value = missing_});
    case Message::kFreeze:
      if (!HasJoined() || freezing_) return Foreign(emit);
      freezing_ = true;
      return emit({.kind = MemberAction::kFreeze});
    case Message::kStopAt:
      if (!freezing_ || message.stop_at().steps() < 0) return Foreign(emit);
      return emit({.kind = MemberAction::kStopAt,
                   .position = {message.stop_at().run(), message.stop_at().steps()}});
    case Message::kValue: return Value(message.value(), emit);
    case Message::kAnswer: return Answer(message.answer(), emit);
    case Message::kEnd: return EndAsDecided(ReadError(message.end()), emit);
    case Message::kFarewell:
      if (phase_ != Phase::kLeaving) return Foreign(emit);
      phase_ = Phase::kLeft;
      lease_ = 0;
      emit({.kind = MemberAction::kDisconnect, .stream = stream_});
      return emit({.kind = MemberAction::kLeft});
    case Message::kAccepted:
    case Message::kRefused:
    case Message::KIND_NOT_SET: break;
  }
  Foreign(emit);
}

void MemberState::Accept(const proto::JobAccepted& accepted, Emit emit) {
  if (accepted.beat() < 1 || accepted.silence() < accepted.beat() ||
      accepted.silence() > kLongest) {
    return Foreign(emit);
  }
  phase_ = Phase::kAccepted;
  silence_ = accepted.silence();
  beat_ = accepted.beat();
  zero_host_ = CleanText(accepted.host());
  zero_ranks_ = ReadRanks(accepted.ranks());
  beat_at_ = now_;
  // A gap before this moment counts for nobody; the presentation is the first beat that was heard.
  ticked_ = now_;
  lease_ = presented_ + silence_;
}

// Process 0 of an older attempt refuses this one until that has ended, and then frees the port.
// That of another job may be about to leave it, and ours may be at another address, where that of
// another user has another token; that of a job that does not differ from ours has all its
// processes. All other refusals are final.
void MemberState::Refused(const proto::JobRefusal& refusal, Emit emit) {
  const absl::Status why = ReadError(refusal.error());
  const bool denied = absl::IsPermissionDenied(why);
  const bool taken = absl::IsAlreadyExists(why);
  const bool other_job =
      refusal.other_job() || ((denied || taken) && !options_.other_ports.empty());
  if (!other_job) others_since_.reset();
  if (other_job && !others_since_) others_since_ = now_;
  if (refusal.again() || (other_job && now_ < *others_since_ + kPatience)) {
    last_break_ = denied ? "it has another token"
                  : other_job
                      ? absl::StrCat("another job is there: ", CleanText(refusal.error().message()))
                      : refusal.error().message();
    emit({.kind = MemberAction::kDisconnect, .stream = stream_});
    return TryNext();
  }
  if (taken)
    return EndAsDecided(WithCause(absl::InvalidArgumentError(why.message()), FindCause(why)), emit);
  if (!other_job && !denied) return EndAsDecided(why, emit);
  if (denied) {
    return EndAsDecided(
        MakeFailure(Self(), absl::StatusCode::kInvalidArgument,
                    absl::StrCat(": the coordinator at ", Addresses(),
                                 " refuses it; give all processes of the job the same token")),
        emit);
  }
  End(MakeFailure(Self(), absl::StatusCode::kInvalidArgument,
                  absl::StrCat(": another job is at ", Addresses(), ": ",
                               CleanText(refusal.error().message()),
                               "; give each job a --coordinator of its own, and all processes of a "
                               "job the same build, files and flags")),
      emit);
}

void MemberState::Beat(const proto::JobBeat& beat, Emit emit) {
  if (beat.echo() < presented_ || beat.echo() > now_) return Foreign(emit);
  echo_ = beat.sent();
  // A process that fails writes no more, though its beats are still answered. A newer beat may
  // overtake an older one, so the lease is the greatest.
  if (failing_.ok()) lease_ = std::max(lease_, static_cast<JobTime>(beat.echo()) + silence_);
  // The shortest round trip has the least error; an old one loses by the drift of the clocks.
  const JobTime error = (now_ - beat.echo()) / 2;
  if (clock_.error < 0 || error <= clock_.error + (now_ - clock_at_) / kDrift) {
    clock_ = {beat.sent() - (beat.echo() + error), error};
    clock_at_ = now_;
  }
}

void MemberState::Value(const proto::JobPost& post, Emit emit) {
  const auto asked = fetches_.find(post.key());
  if (asked == fetches_.end()) return Foreign(emit);
  asked->second += post.value();
  if (post.more()) return;
  MemberAction action = {.kind = MemberAction::kValue, .key = post.key()};
  action.value = std::move(asked->second);
  fetches_.erase(asked);
  emit(std::move(action));
}

void MemberState::Answer(const proto::JobAnswer& answer, Emit emit) {
  if (!round_.has_value() || answer.number() != rounds_) return Foreign(emit);
  MemberAction action = {.kind = MemberAction::kAnswer};
  if (answer.has_error()) {
    action.status = ReadError(answer.error());
  } else {
    answer_ += answer.answer();
    if (answer.more()) return;
    action.value = std::move(answer_);
  }
  answer_.clear();
  round_.reset();
  ++rounds_;
  emit(std::move(action));
}

void MemberState::Foreign(Emit emit) {
  End(MakeFailure(
          Self(), absl::StatusCode::kInternal,
          absl::StrCat(": the coordinator at ", options_.coordinator,
                       " sends what does not belong here: it is none, or of another build")),
      emit);
}

// Process 0 has made the sentence and reports it; this process only repeats it (cause.h).
void MemberState::EndAsDecided(const absl::Status& why, Emit emit) {
  Cause cause = FindCause(why);
  cause.is_decided = true;
  End(WithCause(why, cause), emit);
}

// The lease ends before anybody hears of the end.
void MemberState::End(const absl::Status& why, Emit emit) {
  if (IsOver()) return;
  phase_ = Phase::kEnded;
  status_ = why;
  lease_ = 0;
  if (connected_) emit({.kind = MemberAction::kDisconnect, .stream = stream_});
  emit({.kind = MemberAction::kEnd, .status = why});
}

void MemberState::Begin(uint64_t run, std::string_view program, int64_t first_step, int64_t steps,
                        Emit emit) {
  if (IsOver()) return;
  proto::JobFromMember message;
  message.mutable_begin()->set_run(run);
  message.mutable_begin()->set_program(std::string(program));
  message.mutable_begin()->set_first_step(first_step);
  message.mutable_begin()->set_steps(steps);
  Send(std::move(message), emit);
}

void MemberState::AskStop(Emit emit) {
  if (IsOver()) return;
  proto::JobFromMember message;
  message.mutable_ask_stop();
  Send(std::move(message), emit);
}

void MemberState::Frozen(const StepPosition& position, Emit emit) {
  if (IsOver()) return;
  proto::JobFromMember message;
  message.mutable_frozen()->set_run(position.run);
  message.mutable_frozen()->set_steps(position.steps);
  Send(std::move(message), emit);
}

void MemberState::Report(uint64_t run, int64_t step, const double* values, size_t count,
                         Emit emit) {
  if (IsOver()) return;
  proto::JobFromMember message;
  message.mutable_report()->set_run(run);
  message.mutable_report()->set_step(step);
  message.mutable_report()->mutable_value()->Add(values, values + count);
  Send(std::move(message), emit);
}

void MemberState::Note(std::string name, std::string value, Emit emit) {
  if (IsOver() || name.size() + value.size() > kJobPieceBytes) return;
  proto::JobFromMember message;
  message.mutable_note()->set_name(std::move(name));
  message.mutable_note()->set_value(std::move(value));
  Send(std::move(message), emit);
}

void MemberState::Post(std::string key, std::string value, Emit emit) {
  if (IsOver()) return;
  ForJobPieces(value, [&](std::string piece, bool more) {
    proto::JobFromMember message;
    message.mutable_post()->set_key(key);
    message.mutable_post()->set_value(std::move(piece));
    message.mutable_post()->set_more(more);
    Send(std::move(message), emit);
  });
}

void MemberState::Fetch(const std::string& key, Emit emit) {
  if (IsOver() || !fetches_.try_emplace(key).second) return;
  proto::JobFromMember message;
  message.set_fetch(key);
  Send(std::move(message), emit);
}

void MemberState::Round(std::string name, std::string part, Emit emit) {
  if (IsOver()) return;
  CHECK(!round_.has_value()) << "round " << *round_ << " is in progress";
  ForJobPieces(part, [&](std::string piece, bool more) {
    proto::JobFromMember message;
    message.mutable_part()->set_number(rounds_);
    message.mutable_part()->set_name(name);
    message.mutable_part()->set_part(std::move(piece));
    message.mutable_part()->set_more(more);
    Send(std::move(message), emit);
  });
  round_ = std::move(name);
}

void MemberState::Fail(const absl::Status& why, JobTime now, Emit emit) {
  Listen(now);
  CHECK(!why.ok());
  if (IsOver() || !failing_.ok()) return;
  if (!IsAccepted()) return End(MakeFailure(Self(), why), emit);  // nobody knows this process yet
  // The end comes back from the coordinator, which may know an earlier cause; Tick bounds the wait.
  failing_ = why;
  failing_until_ = now_ + kFailing;
  lease_ = 0;
  proto::JobFromMember message;
  WriteError(why, message.mutable_failed());
  Send(std::move(message), emit);
}

void MemberState::Leave(Emit emit) {
  if (IsOver() || phase_ == Phase::kLeaving) return;
  phase_ = Phase::kLeaving;
  proto::JobFromMember message;
  message.mutable_leave();
  Send(std::move(message), emit);
}

std::string MemberState::WaitsFor() const {
  if (IsOver()) return "";
  if (!HasJoined()) return absl::StrCat(missing_.empty() ? "all processes" : missing_, " to join");
  if (phase_ == Phase::kLeaving) return "all processes to leave";
  if (round_.has_value()) return absl::StrCat("round ", *round_);
  if (!fetches_.empty()) return absl::StrCat("post ", fetches_.begin()->first);
  return "";
}

}  // namespace oneflow
