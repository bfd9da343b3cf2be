#include "training/job/coordinator.h"

#include <algorithm>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kMostNamed = 4;

// A connection that has not presented a process in this time is closed.
constexpr JobTime kPatience = 10 * kJobSecond;

std::string Seconds(JobTime t) {
  return absl::StrFormat("%.1f s", static_cast<double>(t) / kJobSecond);
}

std::string DescribeRun(uint64_t run, const std::string& program, int64_t first, int64_t steps) {
  return absl::StrCat("run ", run, ", program ", CleanText(program), ", ", steps,
                      " steps from step ", first);
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, JobTime now)
    : options_(std::move(options)),
      begun_(now),
      now_(now),
      ticked_(now),
      lease_(now + options_.silence),
      say_at_(now + kFirstWord) {
  CHECK_EQ(options_.self.process, 0);
  CHECK_GT(options_.self.processes, 0);
  processes_.resize(processes());
  parts_.resize(processes());
}

ProcessName Coordinator::FullName(int process) const {
  return {processes_[process].host, process, processes_[process].ranks};
}

void Coordinator::Listen(JobTime now) {
  if (now <= now_) return;
  clock_.Pass(now - now_, Beat());
  now_ = now;
}

void Coordinator::Send(int process, proto::JobToMember message, Emit emit) {
  const Process& to = processes_[process];
  if (to.connection.has_value()) {
    emit({.connection = *to.connection, .message = std::move(message)});
  }
}

void Coordinator::SendToAll(const proto::JobToMember& message, Emit emit) {
  for (int p = 0; p < processes(); ++p) Send(p, message, emit);
}

void Coordinator::Open(uint64_t connection, JobTime now) {
  Listen(now);
  const bool fresh = connections_.insert({connection, {.opened = now_}}).second;
  CHECK(fresh) << "connection " << connection << " is open";
  strangers_.push_back({connection, now_});
}

void Coordinator::Close(uint64_t connection, JobTime now, Emit emit) {
  Listen(now);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  const int process = found->second.process;
  connections_.erase(found);
  if (process < 0) return;
  // Also at the end: process 0 hears it once no other process is connected.
  processes_[process].connection.reset();
  if (connection != kLocalConnection) --others_there_;
  if (ending_) return TellLocal(emit);
  if (!processes_[process].noticed.ok()) return;  // it has said why, and waits for the cause
  EndByLoss(MakeFailure(FullName(process), absl::StatusCode::kUnavailable,
                        ": its connection broke: it was killed, or exited without a word"),
            emit);
}

void Coordinator::Receive(uint64_t connection, const proto::JobFromMember& message, JobTime now,
                          Emit emit) {
  Listen(now);
  const auto found = connections_.find(connection);
  if (found == connections_.end() || found->second.closing) return;
  const int p = found->second.process;
  if (p < 0) {
    if (message.has_present()) return Present(connection, message.present(), emit);
    return Refuse(connection, absl::PermissionDeniedError("refused"), false, emit);
  }
  if (ending_) return;
  // Any message shows that the process is alive, so a long value does not look like silence.
  processes_[p].heard = clock_.time();
  using Message = proto::JobFromMember;
  switch (message.kind_case()) {
    case Message::kBeat: return Beats(p, message.beat(), emit);
    case Message::kBegin: return Begin(p, message.begin(), emit);
    case Message::kAskStop:
      if (stop_ != Stop::kNone) return;
      stop_ = Stop::kAsked;
      if (AllJoined()) FreezeAll(emit);  // else with the welcome: nobody expects it before
      return;
    case Message::kFrozen: return Frozen(p, message.frozen(), emit);
    case Message::kReport:
      return emit({.kind = CoordinatorAction::kReport, .report = message.report()});
    case Message::kNote:
      return emit({.kind = CoordinatorAction::kNote, .process = p, .note = message.note()});
    case Message::kPost: return Post(p, message.post(), emit);
    case Message::kFetch: return Fetch(p, message.fetch(), emit);
    case Message::kPart: return Part(p, message.part(), emit);
    case Message::kFailed: return Fails(p, ReadError(message.failed()), emit);
    case Message::kLeave: return Leaves(p, emit);
    case Message::kPresent: return Malformed(p, "presents itself twice", emit);
    case Message::KIND_NOT_SET: break;
  }
  Malformed(p, "sends a message of no known kind", emit);
}

void Coordinator::Malformed(int process, const char* what, Emit emit) {
  End(MakeFailure(FullName(process), absl::StatusCode::kInternal, absl::StrCat(" ", what)), emit);
}

void Coordinator::Beats(int process, const proto::JobBeat& beat, Emit emit) {
  if (beat.echo() < 0 || beat.echo() > now_) {
    return Malformed(process, "answers a beat that was not sent", emit);
  }
  Process& from = processes_[process];
  // A newer beat may overtake an older one that is still in the queue (QueuePosition).
  from.echoed = std::max(from.echoed, static_cast<JobTime>(beat.echo()));
  proto::JobToMember answer;
  answer.mutable_beat()->set_sent(now_);
  answer.mutable_beat()->set_echo(beat.sent());
  Send(process, std::move(answer), emit);
}

// Runs are compared by their order in each process, not by their numbers, which may be what
// differs. A run is forgotten when all have begun it, so memory is bounded by the distance of the
// processes.
void Coordinator::Begin(int process, const proto::JobBegin& begin, Emit emit) {
  Process& from = processes_[process];
  const uint64_t index = from.runs++ - first_run_;
  if (index == runs_.size()) {
    if (runs_.size() == kMostRunsAhead) {
      return Malformed(process, "is too many runs ahead of the others", emit);
    }
    runs_.push_back({begin.run(), begin.program(), begin.first_step(), begin.steps(), process, 0});
  }
  Run& run = runs_[index];
  if (run.run != begin.run() || run.program != begin.program() ||
      run.first_step != begin.first_step() || run.steps != begin.steps()) {
    const std::string ours =
        DescribeRun(begin.run(), begin.program(), begin.first_step(), begin.steps());
    const std::string theirs = DescribeRun(run.run, run.program, run.first_step, run.steps);
    return End(MakeFailure(FullName(process), absl::StatusCode::kFailedPrecondition,
                           absl::StrCat(" begins ", ours, "; ", Name(run.by), " begins ", theirs)),
               emit);
  }
  ++run.begun;
  while (!runs_.empty() && runs_.front().begun == processes()) {
    runs_.pop_front();
    ++first_run_;
  }
}

void Coordinator::FreezeAll(Emit emit) {
  stop_ = Stop::kFreezing;
  proto::JobToMember message;
  message.mutable_freeze();
  SendToAll(message, emit);
}

void Coordinator::Frozen(int process, const proto::JobPosition& position, Emit emit) {
  Process& from = processes_[process];
  if (stop_ != Stop::kFreezing || from.frozen || position.steps() < 0) {
    return Malformed(process, "says how far it is, unasked", emit);
  }
  // The end is the greatest position: steps that a process has begun need all processes to end.
  from.frozen = true;
  ++frozen_;
  end_ = std::max(end_, StepPosition{position.run(), position.steps()});
  if (frozen_ < processes()) return;
  stop_ = Stop::kAgreed;
  proto::JobToMember message;
  message.mutable_stop_at()->set_run(end_.run);
  message.mutable_stop_at()->set_steps(end_.steps);
  SendToAll(message, emit);
}

// Values stay here and go to those who ask, before or after the post: with P processes that post
// and fetch from few others, nothing is sent to all.
void Coordinator::Post(int process, const proto::JobPost& post, Emit emit) {
  Posted& posted = posts_[post.key()];
  if (posted.complete || (posted.by >= 0 && posted.by != process)) {
    return End(MakeFailure(FullName(process), absl::StatusCode::kInternal,
                           absl::StrCat(" posts ", CleanText(post.key()), ", which ",
                                        Name(posted.by), " has posted")),
               emit);
  }
  posted.by = process;
  if (posted.value.size() + post.value().size() > kMostJobBytes) {
    return Malformed(process, "posts more than fits", emit);
  }
  posted.value += post.value();
  if (post.more()) return;
  posted.complete = true;
  for (const int asks : posted.waiting) SendValue(asks, post.key(), posted.value, emit);
  posted.waiting.clear();
}

void Coordinator::Fetch(int process, const std::string& key, Emit emit) {
  Posted& posted = posts_[key];
  if (!posted.complete) return posted.waiting.push_back(process);
  SendValue(process, key, posted.value, emit);
}

void Coordinator::SendValue(int process, const std::string& key, const std::string& value,
                            Emit emit) {
  ForJobPieces(value, [&](std::string piece, bool more) {
    proto::JobToMember message;
    message.mutable_value()->set_key(key);
    message.mutable_value()->set_value(std::move(piece));
    message.mutable_value()->set_more(more);
    Send(process, std::move(message), emit);
  });
}

void Coordinator::Part(int process, const proto::JobPart& part, Emit emit) {
  // A process begins the next round only with the answer of this one.
  Process& from = processes_[process];
  if (part.number() != rounds_ || from.parts != rounds_) {
    return Malformed(process, "sends a part of a round that is not in progress", emit);
  }
  if (!round_begun_) {
    round_begun_ = true;
    round_by_ = process;
    round_ = part.name();
  } else if (part.name() != round_) {
    return End(MakeFailure(FullName(process), absl::StatusCode::kFailedPrecondition,
                           absl::StrCat(" is in round ", CleanText(part.name()), ", ",
                                        Name(round_by_), " in round ", CleanText(round_))),
               emit);
  }
  if (parts_[process].size() + part.part().size() > kMostJobBytes) {
    return Malformed(process, "sends a part that is too long", emit);
  }
  parts_[process] += part.part();
  if (part.more()) return;
  ++from.parts;
  if (++parts_here_ < processes()) return;
  std::vector<std::string> parts(processes());
  parts.swap(parts_);
  emit({.kind = CoordinatorAction::kRound, .number = rounds_, .parts = std::move(parts)});
}

void Coordinator::AnswerRound(uint64_t number, const absl::StatusOr<std::string>& answer,
                              JobTime now, Emit emit) {
  Listen(now);
  // The attempt may have ended while process 0 made the answer.
  if (ending_ || number != rounds_ || parts_here_ < processes()) return;
  proto::JobToMember message;
  message.mutable_answer()->set_number(rounds_);
  ++rounds_;
  parts_here_ = 0;
  round_begun_ = false;
  if (!answer.ok()) {
    WriteError(answer.status(), message.mutable_answer()->mutable_error());
    return SendToAll(message, emit);
  }
  ForJobPieces(*answer, [&](std::string piece, bool more) {
    message.mutable_answer()->set_answer(std::move(piece));
    message.mutable_answer()->set_more(more);
    SendToAll(message, emit);
  });
}

void Coordinator::Leaves(int process, Emit emit) {
  if (processes_[process].left) return Malformed(process, "leaves twice", emit);
  // Connections stay until all have left, because a closed one before that is a loss.
  processes_[process].left = true;
  if (++left_ < processes()) return;
  proto::JobToMember message;
  message.mutable_farewell();
  Finish(std::move(message), emit);
}

// A process's own failure is the cause. A consequence waits for it, and the first of a process
// counts.
void Coordinator::Fails(int process, const absl::Status& why, Emit emit) {
  if (!FindCause(why).is_consequence) return End(MakeFailure(FullName(process), why), emit);
  absl::Status& noticed = processes_[process].noticed;
  if (!noticed.ok()) return;
  noticed = why;
  if (first_noticed_ < 0) {
    first_noticed_ = process;
    noticed_at_ = now_;
  }
  CheckConsequences(emit);
}

// Waits until each process that has noticed nothing has answered a later beat: its own failure
// would have come before that. A process that is silent is lost in a while.
void Coordinator::CheckConsequences(Emit emit) {
  if (ending_ || first_noticed_ < 0) return;
  for (const Process& process : processes_) {
    if (process.connection && process.noticed.ok() && process.echoed <= noticed_at_) return;
  }
  EndByLoss(ExplainConsequences(), emit);
}

// Nobody reports a failure of its own. From the first report on, each leads to the process that it
// is about, as far as one that has noticed nothing, or is not known.
absl::Status Coordinator::ExplainConsequences() const {
  int by = first_noticed_;
  const auto about = [this](int process) {
    const int of = FindCause(processes_[process].noticed).process;
    return of >= 0 && of < processes() && of != process ? of : -1;
  };
  for (int i = 0; i < processes(); ++i) {
    const int next = about(by);
    if (next < 0 || processes_[next].noticed.ok()) break;
    by = i + 1 < processes() ? next : first_noticed_;  // they report each other
  }
  const absl::Status& noticed = processes_[by].noticed;
  const int of = about(by);
  if (of < 0)
    return MakeFailure(FullName(by), noticed.code(), absl::StrCat(": ", noticed.message()));
  return MakeFailure(FullName(of), noticed.code(),
                     absl::StrCat(", as ", Name(by), " reports: ", noticed.message()));
}

// A gap since the last tick is recorded first, and ticked_ is set last, because EndByLoss asks for
// both. Silence is checked before consequences: a silent process is the cause of what others notice
// of it.
void Coordinator::Tick(JobTime now, Emit emit) {
  Listen(now);
  if (now_ - ticked_ >= LongGap()) {
    gap_ = now_ - ticked_;
    gap_until_ = now_;
  }
  while (!strangers_.empty() && strangers_.front().second + kPatience <= now_) {
    const auto found = connections_.find(strangers_.front().first);
    strangers_.pop_front();
    if (found == connections_.end() || found->second.process >= 0 || found->second.closing) {
      continue;
    }
    found->second.closing = true;
    emit({.kind = CoordinatorAction::kClose, .connection = found->first});
  }
  if (ending_) return TellLocal(emit);  // kGrace may be over
  CheckSilence(emit);
  CheckConsequences(emit);
  if (!ending_ && !AllJoined() && now_ >= begun_ + options_.join) {
    const std::string missing = Missing();
    End(absl::DeadlineExceededError(
            absl::StrCat(missing, missing.starts_with("processes") ? " have" : " has",
                         " not joined within ", Seconds(options_.join))),
        emit);
  }
  if (ending_) return;
  if (!AllJoined()) SayWhoIsMissing(emit);
  JobTime oldest = now_;
  for (const Process& process : processes_) {
    if (process.connection.value_or(kLocalConnection) == kLocalConnection) continue;
    oldest = std::min(oldest, process.echoed);
  }
  lease_ = oldest + options_.silence;
  ticked_ = now_;
}

void Coordinator::CheckSilence(Emit emit) {
  JobTime longest = 0;
  int quietest = -1;
  for (int p = 0; p < processes(); ++p) {
    if (processes_[p].connection.value_or(kLocalConnection) == kLocalConnection) continue;
    const JobTime silent = clock_.time() - processes_[p].heard;
    if (silent > longest) {
      longest = silent;
      quietest = p;
    }
  }
  if (quietest < 0 || longest < options_.silence) return;
  // A disconnected link silences all processes behind it within a beat or two.
  std::string others;
  size_t count = 0;
  for (int p = 0; p < processes(); ++p) {
    if (p == quietest || processes_[p].connection.value_or(0) == kLocalConnection) continue;
    if (clock_.time() - processes_[p].heard < longest - 2 * Beat() ||
        clock_.time() - processes_[p].heard < 3 * Beat()) {
      continue;
    }
    if (++count < kMostNamed) absl::StrAppend(&others, ", ", Name(p));
  }
  if (count >= kMostNamed) absl::StrAppend(&others, " and ", count - kMostNamed + 1, " more");
  EndByLoss(MakeFailure(FullName(quietest), absl::StatusCode::kUnavailable,
                        absl::StrCat(others, count > 0 ? " have" : " has", " been silent for ",
                                     Seconds(longest))),
            emit);
}

// If this process had been stopped, that is the cause: the others have given it up, or it has not
// heard them.
void Coordinator::EndByLoss(const absl::Status& why, Emit emit) {
  JobTime gap = now_ - ticked_;
  if (gap < LongGap() && now_ - gap_until_ < options_.silence) gap = gap_;
  if (!AllJoined() || gap < LongGap()) return End(why, emit);
  End(MakeFailure(FullName(0), absl::StatusCode::kUnavailable,
                  absl::StrCat(" was stopped, or had no processor, for ", Seconds(gap),
                               "; then: ", why.message())),
      emit);
}

void Coordinator::End(const absl::Status& why, Emit emit) {
  if (ending_) return;
  status_ = why;
  proto::JobToMember message;
  WriteError(status_, message.mutable_end());
  Finish(std::move(message), emit);
}

// The others hear it first. Process 0 exits with the coordinator when it hears it, and a broken
// connection would hide the cause from them.
void Coordinator::Finish(proto::JobToMember last, Emit emit) {
  ending_ = true;
  lease_ = 0;
  for (int p = 0; p < processes(); ++p) {
    const std::optional<uint64_t> connection = processes_[p].connection;
    if (!connection.has_value() || *connection == kLocalConnection) continue;
    Send(p, last, emit);
    emit({.kind = CoordinatorAction::kClose, .connection = *connection});
  }
  last_for_local_ = std::move(last);
  local_until_ = now_ + kGrace;
  TellLocal(emit);
}

void Coordinator::TellLocal(Emit emit) {
  if (!last_for_local_.has_value()) return;
  // A process that has not joined yet may be about to; it, too, must hear the cause.
  if ((others_there_ > 0 || !AllJoined()) && now_ < local_until_) return;
  emit({.connection = kLocalConnection, .message = std::move(*last_for_local_)});
  last_for_local_.reset();
}

}  // namespace oneflow
