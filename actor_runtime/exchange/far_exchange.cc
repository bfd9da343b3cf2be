// Why the protocol is safe. Messages between two processes may overtake each other, but each
// message of an exchange is sent because another one has arrived, and that bounds what can arrive
// when:
//   1. A process sends `entered` of exchange n + 1 after it is over with n, for which it needs our
//      `done` of n. So it is at most one exchange ahead of us.
//   2. It sends pulls after it has our `entered`. So all members here have entered when a pull
//      arrives, and their inputs may be read.
//   3. It sends `done` after all its packets have arrived. So we have answered all its pulls, and
//      no later pull of it is right.
//   4. It sends a piece because of our pull. So the piece has a place here that waits for it.
// A message that contradicts this is not of this protocol: a bug, or bytes of somebody else. It is
// refused before it changes anything, because it must not write to a tensor or end the process.
#include "actor_runtime/exchange/far_exchange.h"

#include <algorithm>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/plan/exchange_window.h"

namespace oneflow {
namespace {

absl::Status Refused(const FarMessage& m, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("a message of kind ", m.kind, " from member ",
                                                 m.from, " to member ", m.to, " of exchange ",
                                                 m.number, ": ", why));
}

}  // namespace

FarExchange::FarExchange(Group group, const ExchangeBounds& bounds)
    : group_(std::move(group)),
      first_(bounds.first),
      members_(group_.members()),
      entries_(std::max(1, bounds.tensors), group_.members()) {
  const int members = group_.members();
  for (int m = 0; m < members; ++m) {
    if (!IsNear(m)) {
      const size_t number = group_.FindProcess(m);
      if (number >= processes_.size()) processes_.resize(number + 1);
      // Messages have members for addresses, so one member stands for its process.
      Process& process = processes_[number];
      if (process.member < 0) process.member = m;
      continue;
    }
    ++near_;
    if (first_near_ < 0) first_near_ = m;
    // All memory of a step is made here: none is allocated between the first and the last step.
    members_[m].pulls.resize(kMostPulls);
    for (Pull& pull : members_[m].pulls) {
      pull.packet_state.resize(members);
      pull.packets.resize(members);
    }
  }
  CHECK_GT(near_, 0) << "no member is in this process";
}

// An abort goes also to processes that have not entered: they would enter later, and wait for us
// without end.
void FarExchange::EmitToAll(FarMessage::Kind kind, Emit emit) {
  for (const Process& process : processes_) {
    if (process.member >= 0) emit({MakeMessage(kind, first_near_, process.member)});
  }
}

void FarExchange::Enter(int member, const ExchangeEntry& entry, Emit emit) {
  const auto members = static_cast<int>(members_.size());
  MemberState& state = members_[member];
  CHECK_EQ(state.entered, over_) << "member " << member << " has entered, and is not over";
  // Also after an abort: Poll then fails this member, too.
  ++state.entered;
  if (!status_.ok()) return;
  state.workspace = entry.workspace;
  for (size_t t = 0; t < entry.in.size(); ++t) entries_.in[t * members + member] = entry.in[t];
  for (size_t t = 0; t < entry.out.size(); ++t) entries_.out[t * members + member] = entry.out[t];
  entries_.accumulate[member] = entry.accumulate ? 1 : 0;
  work_ = entry.work;
  // `entered` promises that the inputs of all members here may be read, so the last one sends it.
  if (++entered_here_ < near_) return;
  EmitToAll(FarMessage::kEntered, emit);
  Begin(emit);
}

// The exchange begins here when all processes have entered, though some sources may be readable
// earlier: no exchange is over before all members have entered it (communicator.h), so an early
// start would only need another state.
void FarExchange::Begin(Emit emit) {
  if (started_ || !AllHereEntered()) return;
  for (const Process& process : processes_) {
    if (process.member >= 0 && process.entered <= over_) return;
  }
  started_ = true;
  for (next_near_ = 0; next_near_ < work_->pieces(); ++next_near_) {
    if (work_->FarSources(work_->At(next_near_)) == 0) break;
  }
  for (int m = 0; m < std::ssize(members_); ++m) {
    if (!IsNear(m)) continue;
    MemberState& state = members_[m];
    std::tie(state.next, state.end) = work_->FindPieces(m);
    state.pull_bytes = work_->WindowBytes(m, entries_.accumulate[m] != 0);
    state.most_pulls = MostPulls(std::ssize(state.workspace), state.pull_bytes);
    CHECK_GE(state.most_pulls, 1) << "a workspace of " << state.workspace.size() << " bytes";
    Request(m, emit);
  }
  // A process that wants no packet, such as the sender of a pair, is done at once: the others wait
  // for its message all the same. Without pieces it may be over.
  ReportDone(emit);
  FinishIfOver();
}

// Requests the packets of a member's next pieces, as many as it may pull at once. Requests are for
// pieces, not for whole tensors, so that the window stays small and sums overlap with arrivals.
void FarExchange::Request(int member, Emit emit) {
  MemberState& state = members_[member];
  for (; state.next < state.end; ++state.next) {
    const ExchangeWork::Piece piece = work_->At(state.next);
    const int far = work_->FarSources(piece);
    // Without far sources it needs no message. A copy is made of another member's result.
    if (far == 0 || piece.is_copy) continue;
    const auto last = state.pulls.begin() + state.most_pulls;
    const auto free =
        std::find_if(state.pulls.begin(), last, [](const Pull& pull) { return pull.piece < 0; });
    if (free == last) return;  // Called again when a pull is over.
    Pull& pull = *free;
    pull.piece = state.next;
    pull.missing = far;
    pull.in_output = ExchangeWork::ArrivesInOutput(piece, entries_.accumulate[member] != 0);
    ++pulling_;
    // Each pull has its own part of the window: packets of the next piece may arrive while this one
    // is still summed.
    std::byte* packet = state.workspace.data() + (free - state.pulls.begin()) * state.pull_bytes;
    for (size_t s = 0; s < piece.region->sources.size(); ++s) {
      const int source = piece.region->sources[s];
      pull.packet_state[s] = kNone;
      pull.packets[s] = nullptr;
      if (IsNear(source)) continue;
      pull.packet_state[s] = kRequested;
      if (!pull.in_output) {
        pull.packets[s] = packet;
        packet += PacketBytes(piece.chunk.elements(), piece.element_bytes);
      }
      FarMessage message = MakeMessage(FarMessage::kPull, member, source);
      message.packet = work_->FindPacket(piece, source);
      emit({message});
    }
  }
}

// Reports done to the other processes once all packets are here: from then on they may overwrite
// their inputs. It does not wait for sums, which read packets from our own window.
void FarExchange::ReportDone(Emit emit) {
  if (done_told_ || pulling_ > 0) return;
  for (const MemberState& state : members_) {
    if (state.next < state.end) return;
  }
  done_told_ = true;
  EmitToAll(FarMessage::kDone, emit);
}

// The exchange is over when nobody touches memory of members here any more. That is more than that
// all others are done: a packet that has arrived there may still be the transport's here until
// Sent.
void FarExchange::FinishIfOver() {
  if (!started_ || !done_told_ || touching_ > 0 || pieces_done_ < work_->pieces()) return;
  for (const Process& process : processes_) {
    if (process.member >= 0 && process.done <= over_) return;
  }
  ++over_;
  started_ = done_told_ = false;
  entered_here_ = pieces_done_ = 0;
}

// The checks that need no state of the exchange. They come first: the others use members as
// indices.
absl::Status FarExchange::Check(const FarMessage& m) const {
  const auto members = static_cast<int32_t>(members_.size());
  if (m.communicator != group_.id) return Refused(m, "it is another communicator's");
  if (m.from < 0 || m.from >= members || IsNear(m.from)) return Refused(m, "it is not from there");
  if (m.to < 0 || m.to >= members || !IsNear(m.to)) return Refused(m, "it is not for here");
  const bool of_member = m.kind == FarMessage::kPull || m.kind == FarMessage::kPiece;
  if (!of_member &&
      (m.from != processes_[group_.FindProcess(m.from)].member || m.to != first_near_)) {
    return Refused(m, "it is between members, not processes");
  }
  if (m.kind != FarMessage::kPiece && m.length != 0) return Refused(m, "it has a payload");
  return absl::OkStatus();
}

absl::Status FarExchange::Receive(const FarMessage& m, Emit emit) {
  if (absl::Status status = Check(m); !status.ok()) return status;
  // Processes do not stop a run at the same moment. So messages of the run before, and those of
  // processes that have not heard of the abort, are late, not wrong: a refusal would end this run.
  if (m.number < first_ || !status_.ok()) return absl::OkStatus();
  Process& process = processes_[group_.FindProcess(m.from)];
  const bool present = m.number == Number() && AllHereEntered();
  switch (m.kind) {
    case FarMessage::kEntered:
      // The next one of that process, once; at most one ahead of ours (1).
      if (m.number - first_ != process.entered || m.number > Number() + 1) {
        return Refused(m, "it has said so, or cannot be there yet");
      }
      ++process.entered;
      Begin(emit);
      return absl::OkStatus();
    case FarMessage::kPull: {
      // Entries of members here are valid while the exchange is in progress (2), and that process
      // reads them until it is done (3).
      if (!present || process.done > over_) return Refused(m, "the exchange is not in progress");
      if (m.packet < 0 || m.packet >= work_->CountPackets(m.to, m.from)) {
        return Refused(m, absl::StrCat("there is no packet ", m.packet));
      }
      FarAction action;
      action.packet = work_->PacketAt(m.to, m.from, m.packet);
      action.source =
          entries_.in[action.packet.tensor * static_cast<int64_t>(members_.size()) + m.to];
      action.message = m;
      action.message.kind = FarMessage::kPiece;
      std::swap(action.message.from, action.message.to);
      action.message.length = action.packet.bytes();
      // From now on the transport reads the source's input, without a worker: a source that is in a
      // long kernel holds nobody up.
      ++touching_;
      emit(action);
      return absl::OkStatus();
    }
    case FarMessage::kDone:
      // Its sender has our `entered`; and it says so once, or we would be over while it still
      // reads.
      if (!present || process.done != over_) return Refused(m, "the exchange is not in progress");
      ++process.done;
      FinishIfOver();
      return absl::OkStatus();
    case FarMessage::kAbort:
      if (m.number > Number() + 1) return Refused(m, "it cannot be there yet");
      // A consequence: the message to the user names the process that failed first, not this one.
      Abort(MarkConsequence(group_.FindProcess(m.from),
                            absl::AbortedError(absl::StrCat("process ", group_.FindProcess(m.from),
                                                            " has ended the exchange"))),
            emit);
      return absl::OkStatus();
    default: return Refused(m, "it is no message without a payload");
  }
}

// The pull that waits for a packet, and the index of the source in its region. Packets of a source
// may overtake each other, so their number decides, not their order. The length is compared with
// our own geometry, since the payload is written without a further check.
absl::StatusOr<FarExchange::Pull*> FarExchange::FindPull(const FarMessage& m, size_t* source) {
  for (Pull& pull : members_[m.to].pulls) {
    if (pull.piece < 0) continue;
    const ExchangeWork::Piece piece = work_->At(pull.piece);
    const std::vector<int>& sources = piece.region->sources;
    const auto from = std::find(sources.begin(), sources.end(), m.from);
    if (from == sources.end()) continue;
    if (work_->FindPacket(piece, m.from) != m.packet) continue;
    if (m.length != piece.bytes()) return Refused(m, absl::StrCat("it has ", m.length, " bytes"));
    *source = from - sources.begin();
    return &pull;
  }
  return Refused(m, absl::StrCat("nobody waits for packet ", m.packet));
}

absl::StatusOr<std::span<std::byte>> FarExchange::Arriving(const FarMessage& m) {
  if (absl::Status status = Check(m); !status.ok()) return status;
  if (m.number < first_ || !status_.ok()) return std::span<std::byte>();
  if (m.kind != FarMessage::kPiece || !started_ || m.number != Number()) {
    return Refused(m, "the exchange is not in progress");
  }
  size_t source = 0;
  absl::StatusOr<Pull*> pull = FindPull(m, &source);
  if (!pull.ok()) return pull.status();
  // Counted twice, it would make the piece complete while another packet is missing.
  if ((*pull)->packet_state[source] != kRequested) return Refused(m, "it is here already");
  (*pull)->packet_state[source] = kArriving;
  ++touching_;
  return FindTarget(m, **pull, source);
}

std::span<std::byte> FarExchange::FindTarget(const FarMessage& m, const Pull& pull, size_t source) {
  const auto length = static_cast<size_t>(m.length);
  if (!pull.in_output) return {const_cast<std::byte*>(pull.packets[source]), length};
  const ExchangeWork::Piece piece = work_->At(pull.piece);
  int64_t first = -1;
  ForRows(*piece.region, piece.chunk, [&](int64_t, int64_t to) { first = first < 0 ? to : first; });
  std::byte* const out = entries_.out[piece.tensor * static_cast<int64_t>(members_.size()) + m.to];
  return {out + first * piece.element_bytes, length};
}

// The packet is here. After an abort since Arriving only the count matters: members fail when
// nobody writes to their memory any more.
void FarExchange::Arrived(const FarMessage& m, Emit emit) {
  --touching_;
  if (!status_.ok()) return;
  size_t source = 0;
  absl::StatusOr<Pull*> found = FindPull(m, &source);
  CHECK(found.ok() && (*found)->packet_state[source] == kArriving)
      << "a payload that was given no memory";
  Pull& pull = **found;
  pull.packet_state[source] = kArrived;
  if (--pull.missing > 0) return;
  --pulling_;
  // Where nothing is summed the piece is done, and no worker has to touch it.
  if (pull.in_output) {
    PieceDone(m.to, &pull, emit);
  } else {
    ++ready_;
  }
  ReportDone(emit);
  FinishIfOver();
}

// The piece is in its output. The pull is over once its copies are done, too: until then it counts
// those that are left. Then its part of the window is free, so this is when more is requested.
void FarExchange::PieceDone(int member, Pull* pull, Emit emit) {
  ++pieces_done_;
  pull->copies = pull->copying = work_->At(pull->piece).copies;
  ready_ += pull->copies;
  if (pull->copying > 0) return;
  pull->piece = -1;
  Request(member, emit);
}

void FarExchange::Sent() {
  --touching_;
  if (status_.ok()) FinishIfOver();
}

int FarExchange::WorkLeft() const {
  return IsUnderWay() ? ready_ + work_->pieces() - next_near_ : 0;
}

bool FarExchange::TakeWork(Work* work) {
  if (!HasWork()) return false;
  ++touching_;
  // Copies and complete pulls come first: once they are done, the member requests its next piece,
  // whose packets travel while workers do the pieces that need none.
  for (int m = 0; ready_ > 0 && m < std::ssize(members_); ++m) {
    for (int p = 0; p < std::ssize(members_[m].pulls); ++p) {
      Pull& pull = members_[m].pulls[p];
      if (pull.piece < 0 || pull.missing > 0 || pull.running) continue;
      if (pull.copying == 0) {
        pull.running = true;
        *work = {pull.piece, m, p};
      } else if (pull.copies > 0) {
        *work = {pull.piece, m, p, --pull.copies};
      } else {
        continue;
      }
      --ready_;
      return true;
    }
  }
  *work = {next_near_, -1, -1};
  do {
    ++next_near_;
  } while (next_near_ < work_->pieces() && work_->FarSources(work_->At(next_near_)) > 0);
  return true;
}

// Reads entries_ and packets of a pull without the caller's lock. Neither changes meanwhile: the
// exchange is not over while touching_ counts this work, and the pull is not over before WorkDone.
void FarExchange::Run(const Work& work) const {
  if (work.pull < 0) return work_->Run(work.piece, entries_);
  if (work.copy >= 0) return work_->RunCopy(work.piece, work.copy, entries_);
  work_->Run(work.piece, entries_, members_[work.member].pulls[work.pull].packets);
}

void FarExchange::WorkDone(const Work& work, Emit emit) {
  --touching_;
  if (!status_.ok()) return;
  if (work.pull < 0) {
    ++pieces_done_;
    return FinishIfOver();
  }
  Pull& pull = members_[work.member].pulls[work.pull];
  if (work.copy < 0) {
    pull.running = false;
    PieceDone(work.member, &pull, emit);
  } else {
    ++pieces_done_;
    if (--pull.copying == 0) {
      pull.piece = -1;
      Request(work.member, emit);
    }
  }
  // In this order: a request comes before the report that there are no more, and the state of the
  // exchange is needed until it is over.
  ReportDone(emit);
  FinishIfOver();
}

bool FarExchange::HasEntered(int member, int than) const {
  const auto entered = [this](int m) {
    return IsNear(m) ? members_[m].entered : processes_[group_.FindProcess(m)].entered;
  };
  return entered(member) >= entered(than);
}

// The first status counts: those that follow are mostly its consequences. Nothing else changes, so
// that accesses in progress find the state that they began with.
void FarExchange::Abort(const absl::Status& status, Emit emit) {
  if (!status_.ok()) return;
  status_ = status;
  EmitToAll(FarMessage::kAbort, emit);
}

}  // namespace oneflow
