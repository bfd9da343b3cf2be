#include "actor_runtime/exchange/far_exchange.h"

#include <algorithm>
#include <string>
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

FarExchange::FarExchange(FarGroup group)
    : group_(std::move(group)),
      seats_(group_.process.size()),
      entries_(std::max(1, group_.tensors), static_cast<int>(group_.process.size())) {
  const int members = static_cast<int>(group_.process.size());
  processes_.resize(*std::max_element(group_.process.begin(), group_.process.end()) + 1);
  for (int m = 0; m < members; ++m) {
    if (!IsNear(m)) {
      Process& process = processes_[group_.process[m]];
      if (process.member < 0) process.member = m;
      continue;
    }
    ++near_;
    if (first_near_ < 0) first_near_ = m;
    seats_[m].of_flight.resize(kMostFlights);
    for (Flight& flight : seats_[m].of_flight) {
      flight.state.resize(members);
      flight.packets.resize(members);
    }
  }
  CHECK_GT(near_, 0) << "no member is in this process";
}

void FarExchange::EmitToAll(FarMessage::Kind kind, Emit emit) {
  for (const Process& process : processes_) {
    if (process.member < 0) continue;
    const bool said =
        kind != FarMessage::kAbort || !group_.policy.abort_entered_only || process.entered > over_;
    if (!said) continue;
    FarMessage message;
    message.kind = kind;
    message.communicator = group_.communicator;
    message.number = Number();
    message.from = first_near_;
    message.to = process.member;
    emit({message});
  }
}

void FarExchange::Enter(int member, const ExchangeEntry& entry, Emit emit) {
  const auto members = static_cast<int>(seats_.size());
  Seat& seat = seats_[member];
  CHECK_EQ(seat.entered, over_) << "member " << member << " has entered, and is not over";
  ++seat.entered;
  if (!status_.ok()) return;
  seat.workspace = entry.workspace;
  for (size_t t = 0; t < entry.in.size(); ++t) entries_.in[t * members + member] = entry.in[t];
  for (size_t t = 0; t < entry.out.size(); ++t) entries_.out[t * members + member] = entry.out[t];
  entries_.accumulate[member] = entry.accumulate ? 1 : 0;
  work_ = entry.work;
  if (++entered_here_ < near_) return;
  EmitToAll(FarMessage::kEntered, emit);
  Begin(emit);
}

void FarExchange::Begin(Emit emit) {
  if (started_ || !AllHereEntered()) return;
  for (const Process& process : processes_) {
    if (process.member >= 0 && process.entered <= over_) return;
  }
  started_ = true;
  for (next_near_ = 0; next_near_ < work_->pieces(); ++next_near_) {
    if (work_->FarSources(work_->At(next_near_)) == 0) break;
  }
  for (int m = 0; m < std::ssize(seats_); ++m) {
    if (!IsNear(m)) continue;
    Seat& seat = seats_[m];
    std::tie(seat.next, seat.end) = work_->FindPieces(m);
    seat.flight_bytes = work_->WindowBytes(m, entries_.accumulate[m] != 0);
    seat.flights = FlightsIn(std::ssize(seat.workspace) * (group_.policy.reuse_window ? 2 : 1),
                             seat.flight_bytes);
    CHECK_GE(seat.flights, 1) << "a workspace of " << seat.workspace.size() << " bytes";
    TakeOff(m, emit);
  }
  FinishLanding(emit);
  FinishIfOver();
}

// Asks for the packets of a member's next pieces, as long as there are flights for them.
void FarExchange::TakeOff(int member, Emit emit) {
  Seat& seat = seats_[member];
  for (; seat.next < seat.end; ++seat.next) {
    const ExchangeWork::Piece piece = work_->At(seat.next);
    const int far = work_->FarSources(piece);
    if (far == 0 || piece.is_copy) continue;
    const auto last = seat.of_flight.begin() + seat.flights;
    const auto free = std::find_if(seat.of_flight.begin(), last,
                                   [](const Flight& flight) { return flight.piece < 0; });
    if (free == last) return;
    Flight& flight = *free;
    flight.piece = seat.next;
    flight.missing = far;
    flight.in_output = ExchangeWork::LandsInOutput(piece, entries_.accumulate[member] != 0);
    ++in_flight_;
    int64_t part = free - seat.of_flight.begin();
    if (group_.policy.reuse_window) part /= 2;
    std::byte* packet = seat.workspace.data() + part * seat.flight_bytes;
    for (size_t s = 0; s < piece.region->sources.size(); ++s) {
      const int source = piece.region->sources[s];
      flight.state[s] = kNone;
      flight.packets[s] = nullptr;
      if (IsNear(source)) continue;
      flight.state[s] = kAsked;
      if (!flight.in_output) {
        flight.packets[s] = packet;
        packet += PacketBytes(piece.chunk.elements(), piece.element_bytes);
      }
      FarMessage message;
      message.kind = FarMessage::kPull;
      message.communicator = group_.communicator;
      message.number = Number();
      message.from = member;
      message.to = source;
      message.packet = work_->FindPacket(piece, source);
      emit({message});
    }
    if (group_.policy.take_twice && (seat.taken_twice = !seat.taken_twice)) --seat.next;
  }
}

// Reports done to the other processes once all packets are here.
void FarExchange::FinishLanding(Emit emit) {
  if (done_told_ || (in_flight_ > 0 && !group_.policy.done_early)) return;
  for (const Seat& seat : seats_) {
    if (seat.next < seat.end) return;
  }
  done_told_ = true;
  EmitToAll(FarMessage::kDone, emit);
}

void FarExchange::FinishIfOver() {
  if (!started_ || !done_told_ || touching_ > 0 || pieces_done_ < work_->pieces()) return;
  for (const Process& process : processes_) {
    if (process.member >= 0 && process.done <= over_) return;
  }
  ++over_;
  started_ = done_told_ = false;
  entered_here_ = pieces_done_ = 0;
}

uint64_t FarExchange::ExchangeNumber(const FarMessage& m) const {
  constexpr uint64_t kInRun = 0xffffffff;
  return group_.policy.match_across_runs ? (group_.first & ~kInRun) | (m.number & kInRun)
                                         : m.number;
}

absl::Status FarExchange::Check(const FarMessage& m) const {
  const auto members = static_cast<int32_t>(seats_.size());
  if (m.communicator != group_.communicator) return Refused(m, "it is another communicator's");
  if (m.from < 0 || m.from >= members || IsNear(m.from)) return Refused(m, "it is not from there");
  if (m.to < 0 || m.to >= members || !IsNear(m.to)) return Refused(m, "it is not for here");
  const bool of_member = m.kind == FarMessage::kPull || m.kind == FarMessage::kPiece;
  if (!of_member && (m.from != processes_[group_.process[m.from]].member || m.to != first_near_)) {
    return Refused(m, "it is between members, not processes");
  }
  if (m.kind != FarMessage::kPiece && m.length != 0) return Refused(m, "it has a payload");
  return absl::OkStatus();
}

absl::Status FarExchange::Receive(const FarMessage& m, Emit emit) {
  if (absl::Status status = Check(m); !status.ok()) return status;
  const uint64_t number = ExchangeNumber(m);
  if (number < group_.first || !status_.ok()) return absl::OkStatus();
  Process& process = processes_[group_.process[m.from]];
  const bool present = number == Number() && AllHereEntered();
  switch (m.kind) {
    case FarMessage::kEntered:
      if (number - group_.first != process.entered || number > Number() + 1) {
        return Refused(m, "it has said so, or cannot be there yet");
      }
      ++process.entered;
      Begin(emit);
      return absl::OkStatus();
    case FarMessage::kPull: {
      if (!present || process.done > over_) return Refused(m, "the exchange is not in progress");
      if (m.packet < 0 || m.packet >= work_->CountPackets(m.to, m.from)) {
        return Refused(m, absl::StrCat("there is no packet ", m.packet));
      }
      FarAction action;
      action.packet = work_->PacketAt(m.to, m.from, m.packet);
      action.source =
          entries_.in[action.packet.tensor * static_cast<int64_t>(seats_.size()) + m.to];
      action.message = m;
      action.message.kind = FarMessage::kPiece;
      std::swap(action.message.from, action.message.to);
      action.message.length = action.packet.bytes();
      ++touching_;
      emit(action);
      return absl::OkStatus();
    }
    case FarMessage::kDone:
      if (!present || process.done != over_) return Refused(m, "the exchange is not in progress");
      ++process.done;
      FinishIfOver();
      return absl::OkStatus();
    case FarMessage::kAbort:
      if (number > Number() + 1) return Refused(m, "it cannot be there yet");
      Abort(MarkConsequence(group_.process[m.from],
                            absl::AbortedError(absl::StrCat("process ", group_.process[m.from],
                                                            " has ended the exchange"))),
            emit);
      return absl::OkStatus();
    default: return Refused(m, "it is no message without a payload");
  }
}

// The flight that waits for a piece, and the index of the source in its region. `state`: the state
// that the piece should have there.
absl::StatusOr<FarExchange::Flight*> FarExchange::FindFlight(const FarMessage& m, PacketState state,
                                                             size_t* source) {
  Flight* first = nullptr;
  for (Flight& flight : seats_[m.to].of_flight) {
    if (flight.piece < 0) continue;
    const ExchangeWork::Piece piece = work_->At(flight.piece);
    const std::vector<int>& sources = piece.region->sources;
    const auto from = std::find(sources.begin(), sources.end(), m.from);
    if (from == sources.end()) continue;
    if (group_.policy.ordered_links) {
      if (flight.state[from - sources.begin()] != state) continue;
      if (state == kLanding && m.length != piece.bytes()) continue;
      if (first != nullptr && first->piece < flight.piece) continue;
      first = &flight;
      *source = from - sources.begin();
      continue;
    }
    if (work_->FindPacket(piece, m.from) != m.packet) continue;
    if (m.length != piece.bytes()) return Refused(m, absl::StrCat("it has ", m.length, " bytes"));
    *source = from - sources.begin();
    return &flight;
  }
  if (first != nullptr && m.length == work_->At(first->piece).bytes()) return first;
  return Refused(m, absl::StrCat("nobody waits for packet ", m.packet));
}

absl::StatusOr<std::span<std::byte>> FarExchange::Land(const FarMessage& m) {
  if (absl::Status status = Check(m); !status.ok()) return status;
  const uint64_t number = ExchangeNumber(m);
  if (number < group_.first || !status_.ok()) return std::span<std::byte>();
  if (m.kind != FarMessage::kPiece || !started_ || number != Number()) {
    return Refused(m, "the exchange is not in progress");
  }
  size_t source = 0;
  absl::StatusOr<Flight*> flight = FindFlight(m, kAsked, &source);
  if (!flight.ok()) return flight.status();
  if ((*flight)->state[source] != kAsked) return Refused(m, "it is here already");
  (*flight)->state[source] = kLanding;
  ++touching_;
  return FindTarget(m, **flight, source);
}

std::span<std::byte> FarExchange::FindTarget(const FarMessage& m, const Flight& flight,
                                             size_t source) {
  const auto length = static_cast<size_t>(m.length);
  if (!flight.in_output) return {const_cast<std::byte*>(flight.packets[source]), length};
  const ExchangeWork::Piece piece = work_->At(flight.piece);
  int64_t first = -1;
  ForRows(*piece.region, piece.chunk, [&](int64_t, int64_t to) { first = first < 0 ? to : first; });
  std::byte* const out = entries_.out[piece.tensor * static_cast<int64_t>(seats_.size()) + m.to];
  return {out + first * piece.element_bytes, length};
}

void FarExchange::Landed(const FarMessage& m, Emit emit) {
  --touching_;
  if (!status_.ok()) return;
  size_t source = 0;
  absl::StatusOr<Flight*> found = FindFlight(m, kLanding, &source);
  CHECK(found.ok() && (*found)->state[source] == kLanding) << "a piece that was not let land";
  Flight& flight = **found;
  flight.state[source] = kHere;
  if (--flight.missing > 0) return;
  --in_flight_;
  if (flight.in_output) {
    PieceDone(m.to, &flight, emit);
  } else {
    ++ready_;
  }
  FinishLanding(emit);
  FinishIfOver();
}

// The piece is in its output. The flight is free once its copies are done, too.
void FarExchange::PieceDone(int member, Flight* flight, Emit emit) {
  ++pieces_done_;
  flight->copies = flight->copying = work_->At(flight->piece).copies;
  ready_ += flight->copies;
  if (flight->copying > 0) return;
  flight->piece = -1;
  TakeOff(member, emit);
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
  // Copies and complete flights come first, because they free a flight.
  for (int m = 0; ready_ > 0 && m < std::ssize(seats_); ++m) {
    for (int f = 0; f < std::ssize(seats_[m].of_flight); ++f) {
      Flight& flight = seats_[m].of_flight[f];
      if (flight.piece < 0 || flight.missing > 0 || flight.running) continue;
      if (flight.copying == 0) {
        flight.running = true;
        *work = {flight.piece, m, f};
      } else if (flight.copies > 0) {
        *work = {flight.piece, m, f, --flight.copies};
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

void FarExchange::Run(const Work& work) const {
  if (work.flight < 0) return work_->Run(work.piece, entries_);
  if (work.copy >= 0) return work_->RunCopy(work.piece, work.copy, entries_);
  work_->Run(work.piece, entries_, seats_[work.member].of_flight[work.flight].packets);
}

void FarExchange::WorkDone(const Work& work, Emit emit) {
  --touching_;
  if (!status_.ok()) return;
  if (work.flight < 0) {
    ++pieces_done_;
    return FinishIfOver();
  }
  Flight& flight = seats_[work.member].of_flight[work.flight];
  if (work.copy < 0) {
    flight.running = false;
    PieceDone(work.member, &flight, emit);
  } else {
    ++pieces_done_;
    if (--flight.copying == 0) {
      flight.piece = -1;
      TakeOff(work.member, emit);
    }
  }
  FinishLanding(emit);
  FinishIfOver();
}

bool FarExchange::HasEntered(int member, int than) const {
  const auto entered = [this](int m) {
    return IsNear(m) ? seats_[m].entered : processes_[group_.process[m]].entered;
  };
  return entered(member) >= entered(than);
}

void FarExchange::Abort(const absl::Status& status, Emit emit) {
  if (!status_.ok()) return;
  status_ = status;
  EmitToAll(FarMessage::kAbort, emit);
}

}  // namespace oneflow
