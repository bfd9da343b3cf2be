// The join of processes: their identities are checked, and all begin together.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/job/coordinator.h"

namespace oneflow {
namespace {

constexpr int kMostMissing = 4;  // that are named

// Compares in constant time, so that the time does not reveal how many bytes agree. An empty secret
// is nobody's.
bool SameSecret(const std::string& a, const std::string& b) {
  if (b.empty()) return false;
  unsigned char difference = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i % b.size()]);
  }
  return difference == 0;
}

ProcessName NameIn(const proto::JobPresent& present) {
  return {CleanText(present.host()), present.process(), ReadRanks(present.ranks())};
}

absl::Status Refusal(const ProcessName& who, const std::string& what, const char* hint) {
  return MakeFailure(who, absl::StatusCode::kInvalidArgument, absl::StrCat(": ", what, "; ", hint));
}

}  // namespace

void Coordinator::Refuse(uint64_t connection, const absl::Status& why, bool retry, Emit emit) {
  proto::JobRefusal refusal;
  WriteError(why, refusal.mutable_error());
  refusal.set_again(retry);
  Refuse(connection, std::move(refusal), emit);
}

void Coordinator::Refuse(uint64_t connection, proto::JobRefusal refusal, Emit emit) {
  proto::JobToMember message;
  *message.mutable_refused() = std::move(refusal);
  emit({.connection = connection, .message = std::move(message)});
  connections_[connection].closing = true;
  emit({.kind = CoordinatorAction::kClose, .connection = connection});
}

Coordinator::Difference Coordinator::FindDifference(const proto::JobPresent& present) const {
  const JobIdentity& self = options_.self;
  const std::string zero = absl::StrCat("process 0 on host ", self.host);
  if (present.has_failed()) return {};  // perhaps before it knew its facts
  // Attempts of a job may have different numbers of processes.
  if (present.processes() != self.processes && present.attempt() == self.attempt) {
    return {absl::StrCat("was started as one of ", present.processes(), " processes, ", zero,
                         " as one of ", self.processes),
            "start all with the same number"};
  }
  const auto count = std::min<size_t>(self.facts.size(), present.fact_size());
  for (size_t i = 0; i < count; ++i) {
    const JoinFact& ours = self.facts[i];
    const proto::JobPresent::Fact& theirs = present.fact(i);
    if (theirs.name() != ours.name) {
      return {absl::StrCat("presents ", CleanText(theirs.name()), " where ", zero, " presents ",
                           ours.name),
              "start the same build everywhere"};
    }
    const bool open = theirs.value().empty() && present.process() != 0;
    if (!open && theirs.value() != ours.value) {
      return {absl::StrCat(ours.name, " ", CleanText(theirs.value()), ", ", zero, " has ",
                           CleanText(ours.value)),
              "start all processes with the same build, files and flags"};
    }
  }
  if (present.fact_size() != static_cast<int>(self.facts.size())) {
    return {
        absl::StrCat("presents ", present.fact_size(), " facts, ", zero, " ", self.facts.size()),
        "start the same build everywhere"};
  }
  return {};
}

// Paths of another host may lead to the same folder. Processes of an attempt may be started in
// different folders if they name none to write to; those of a later one start where these did, and
// one that has no facts is known by its folder alone.
bool Coordinator::HasOtherFolder(const proto::JobPresent& present) const {
  const JobIdentity& self = options_.self;
  const bool counts = (self.names_folder && present.names_folder()) ||
                      present.attempt() != self.attempt || present.has_failed();
  return counts && present.host() == self.host && present.folder() != self.folder;
}

void Coordinator::Present(uint64_t connection, const proto::JobPresent& present, Emit emit) {
  if (!SameSecret(present.token(), options_.self.token)) {
    return Refuse(connection, absl::PermissionDeniedError("refused"), false, emit);
  }
  const ProcessName who = NameIn(present);
  const int64_t attempt = options_.self.attempt;
  // The job is compared before the attempt: a restart of another job must not end this one.
  const Difference difference = FindDifference(present);
  const bool other_folder = HasOtherFolder(present);
  const int process = present.process();
  const bool has_joined =
      process >= 0 && process < processes() && processes_[process].connection.has_value();
  if (other_folder ||
      (!difference.what.empty() && (present.attempt() != attempt || AllJoined() || has_joined))) {
    const std::string what =
        other_folder ? absl::StrCat("folder ", CleanText(present.folder()), ", process 0 on host ",
                                    options_.self.host, " has ", CleanText(options_.self.folder))
                     : difference.what;
    proto::JobRefusal refusal;
    WriteError(absl::InvalidArgumentError(what), refusal.mutable_error());
    refusal.set_other_job(true);
    return Refuse(connection, std::move(refusal), emit);
  }
  if (present.attempt() < attempt) {
    return Refuse(connection,
                  MakeFailure(who, absl::StatusCode::kAborted,
                              absl::StrCat(" is of attempt ", present.attempt(), "; attempt ",
                                           attempt, " is under way")),
                  false, emit);
  }
  if (present.attempt() > attempt) {
    const auto why =
        absl::AbortedError(absl::StrCat("attempt ", attempt, " is over: ", DescribeProcess(who),
                                        " is of attempt ", present.attempt()));
    Refuse(connection, why, true, emit);
    // One that cannot join replaces nobody.
    if (!present.has_failed()) End(why, emit);
    return;
  }
  if (ending_) {
    return Refuse(connection, status_.ok() ? absl::AbortedError("the job has ended") : status_,
                  false, emit);
  }
  if (process < 0 || process >= std::max(processes(), present.processes())) {
    return Refuse(connection,
                  Refusal(who, absl::StrCat("there is no such process among ", present.processes()),
                          "number them from 0"),
                  false, emit);
  }
  if (present.has_failed()) {
    const absl::Status failed = MakeFailure(who, ReadError(present.failed()));
    if (connection != kLocalConnection) Refuse(connection, failed, false, emit);
    if (!AllJoined() && !processes_[process % processes()].connection) End(failed, emit);
    // The other processes start at about the same time, and should find a coordinator that tells
    // them the cause.
    if (connection == kLocalConnection) local_until_ = now_ + 3 * kGrace;
    return;
  }
  if (!difference.what.empty()) {
    const absl::Status why = Refusal(who, difference.what, difference.hint);
    Refuse(connection, why, false, emit);
    return End(why, emit);  // the attempt gathers, and cannot succeed
  }
  Process& joins = processes_[process];
  if (joins.connection.has_value()) {
    // Perhaps of another job that does not differ: the process may find its own elsewhere.
    const std::string why = absl::StrCat(": there is a process ", process, " already, on host ",
                                         joins.host, "; give each process a different index");
    return Refuse(connection, MakeFailure(who, absl::StatusCode::kAlreadyExists, why), false, emit);
  }
  connections_[connection].process = process;
  joins.connection = connection;
  joins.host = who.host;
  joins.ranks = who.ranks;
  joins.heard = clock_.time();
  joins.echoed = now_;  // it listens to us from the next message on
  if (connection != kLocalConnection) ++others_there_;
  ++joined_;
  proto::JobToMember message;
  message.mutable_accepted()->set_silence(options_.silence);
  message.mutable_accepted()->set_beat(Beat());
  message.mutable_accepted()->set_host(options_.self.host);
  WriteRanks(options_.self.ranks, message.mutable_accepted()->mutable_ranks());
  Send(process, std::move(message), emit);
  if (AllJoined()) WelcomeAll(emit);
}

std::string Coordinator::Missing() const {
  std::string list;
  const int count = processes() - joined_;
  for (int p = 0, named = 0; p < processes() && named < kMostMissing; ++p) {
    if (processes_[p].connection.has_value()) continue;
    absl::StrAppend(&list, named++ == 0 ? "" : ", ", p);
    if (static_cast<size_t>(p) < options_.hosts.size()) {
      absl::StrAppend(&list, " (host ", CleanText(options_.hosts[p]), ")");
    }
  }
  if (count > kMostMissing) absl::StrAppend(&list, " and ", count - kMostMissing, " more");
  return absl::StrCat(count == 1 ? "process " : "processes ", list);
}

void Coordinator::SayWhoIsMissing(Emit emit) {
  if (now_ < say_at_) return;
  say_at_ = now_ + say_next_;
  say_next_ *= 2;
  proto::JobToMember message;
  message.set_waits_for(Missing());
  SendToAll(message, emit);
}

void Coordinator::WelcomeAll(Emit emit) {
  std::map<std::string, int> on_host;
  std::vector<int> index(processes());
  for (int p = 0; p < processes(); ++p) index[p] = on_host[processes_[p].host]++;
  for (int p = 0; p < processes(); ++p) {
    proto::JobToMember message;
    message.mutable_welcome()->set_processes_on_host(on_host[processes_[p].host]);
    message.mutable_welcome()->set_index_on_host(index[p]);
    Send(p, std::move(message), emit);
  }
  if (stop_ == Stop::kAsked) FreezeAll(emit);
}

}  // namespace oneflow
