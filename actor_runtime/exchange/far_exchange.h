// FarExchange: a state machine for the exchanges of a group with members in other processes, as one
// process sees them, one after the other. Events go in (a member enters, a message arrives, a piece
// is done), actions come out (messages to send). It has no thread, no clock and no socket; calls
// are made one at a time. far_communicator.h drives it.
//
// The protocol of one exchange:
//   entered   sent to each other process when all members of a process have entered
//   pull      once all processes have entered: a member requests a packet of a source
//   piece     the source's process answers with the packet, straight from the entered register
//   done      sent to each other process when a process has all packets that it wants
//   abort     ends all exchanges of the group, including later ones
// An exchange is over in a process when its pieces are done, all other processes have sent done,
// and all its own payloads have been sent.
//
// Messages may arrive in any order. Each is checked against the state before it changes it: a
// message that does not belong is refused with a Status, and the state stays as it was. Messages of
// exchanges before `first` are late messages of an interrupted run; they are dropped.
//
// Invariants, with n = the exchange in progress (all before it are over):
//  1. A process has entered at most n + 1: it enters n + 1 after it is over with n, and for that it
//     needs our done of n.
//  2. A pull is one piece whose packets a member has requested: they arrive in the pull's part of
//     the member's window, or in the output. A piece is pulled once. Its pull is over when the
//     other members here that want the same result have copied it.
//  3. All accesses to a member's memory are counted: pieces that are run, packets that arrive, and
//     packets that are sent. An exchange ends or fails only when the count is zero.
//  4. Nothing is allocated after the constructor, except by an abort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "actor_runtime/exchange/communicator.h"
#include "actor_runtime/exchange/far_message.h"
#include "actor_runtime/exchange/group.h"

namespace oneflow {

// Pulls that a member may have at once if no window bounds them.
inline constexpr int kMostPulls = 16;
// Pulls at once of a member with a workspace for packets; window_bytes: ExchangeWork::WindowBytes.
inline int MostPulls(int64_t workspace_bytes, int64_t window_bytes) {
  if (window_bytes == 0) return kMostPulls;
  const int64_t fit = workspace_bytes / window_bytes;
  return static_cast<int>(fit < kMostPulls ? fit : kMostPulls);
}

// A message to send. A piece's payload consists of rows in the memory of the source: ForPayload.
struct FarAction {
  FarMessage message;
  ExchangeWork::Piece packet = {};
  const std::byte* source = nullptr;
};
// Calls fn(address, bytes) for each row of a piece's payload, in turn.
template <typename Fn>
void ForPayload(const FarAction& action, Fn fn) {
  const ExchangeWork::Piece& packet = action.packet;
  const auto bytes = static_cast<size_t>(packet.chunk.size * packet.element_bytes);
  ForRows(*packet.region, packet.chunk,
          [&](int64_t from, int64_t) { fn(action.source + from * packet.element_bytes, bytes); });
}

class FarExchange {
 public:
  // Takes the actions. It must not call the machine.
  using Emit = absl::FunctionRef<void(const FarAction&)>;

  FarExchange(Group group, const ExchangeBounds& bounds);

  // Events:
  void Enter(int member, const ExchangeEntry& entry, Emit emit);
  absl::Status Receive(const FarMessage& message, Emit emit);  // not of a piece
  // The payload of a piece: Arriving returns the memory for it, message.length bytes; Arrived
  // reports that it is there. After an abort the memory is empty: the payload is to be dropped, and
  // Arrived is not due.
  absl::StatusOr<std::span<std::byte>> Arriving(const FarMessage& message);
  void Arrived(const FarMessage& message, Emit emit);
  void Sent();  // the payload of a piece has been read
  void Abort(const absl::Status& status, Emit emit);

  // Work for any thread of the process. The thread runs it with `entries` and the packets it came
  // with, and then reports it done.
  struct Work {
    int piece = -1, member = -1, pull = -1;
    int copy = -1;  // index of a copy of the piece, which is done; -1: the piece itself
  };
  bool HasWork() const { return WorkLeft() > 0; }
  int WorkLeft() const;  // at most so much; 0: none
  bool TakeWork(Work* work);
  void Run(const Work& work) const;  // touches no state: may be called while other events go on
  void WorkDone(const Work& work, Emit emit);

  // Queries:
  int members() const { return static_cast<int>(members_.size()); }
  bool IsNear(int member) const { return group_.IsNear(member); }
  uint64_t exchanges_over() const { return over_; }
  bool IsOver(int member) const { return over_ >= members_[member].entered; }
  bool IsAtRest() const { return touching_ == 0; }
  bool HasEntered(int member, int than) const;
  const absl::Status& status() const { return status_; }

 private:
  struct Pull {
    int piece = -1;   // -1: free
    int missing = 0;  // packets that have not arrived
    bool running = false;
    bool in_output = false;
    int copies = 0;                         // copies, not yet taken, of the piece, which is done
    int copying = 0;                        // that are not done
    std::vector<char> packet_state;         // by source of the region: PacketState
    std::vector<const std::byte*> packets;  // by source of the region; null: near
  };
  enum PacketState : char { kNone, kRequested, kArriving, kArrived };
  struct MemberState {
    uint64_t entered = 0;  // exchanges
    std::span<std::byte> workspace;
    int next = 0, end = 0;   // pieces that it has not requested yet
    int64_t pull_bytes = 0;  // of workspace, for each pull
    int most_pulls = 0;      // at once
    std::vector<Pull> pulls;
  };
  struct Process {
    uint64_t entered = 0, done = 0;  // exchanges that it has said so of
    int member = -1;                 // the first of the group there; -1: none, or ourselves
  };

  // The number of the exchange in progress, as messages carry it.
  uint64_t Number() const { return first_ + over_; }
  FarMessage MakeMessage(FarMessage::Kind kind, int from, int to) const {
    return {FarMessage::kMagic, kind, group_.id, Number(), from, to};
  }
  bool AllHereEntered() const { return entered_here_ == near_; }
  bool IsUnderWay() const { return started_ && status_.ok(); }
  absl::Status Check(const FarMessage& message) const;
  absl::StatusOr<Pull*> FindPull(const FarMessage& message, size_t* source);
  std::span<std::byte> FindTarget(const FarMessage& message, const Pull& pull, size_t source);
  void Begin(Emit emit);
  void Request(int member, Emit emit);
  void PieceDone(int member, Pull* pull, Emit emit);
  void ReportDone(Emit emit);
  void FinishIfOver();
  void EmitToAll(FarMessage::Kind kind, Emit emit);

  const Group group_;
  const uint64_t first_;
  int near_ = 0, first_near_ = -1;
  std::vector<Process> processes_;    // by process
  std::vector<MemberState> members_;  // by member
  ExchangeEntries entries_;
  uint64_t over_ = 0;  // exchanges that are over here

  // The exchange in progress:
  const ExchangeWork* work_ = nullptr;
  int entered_here_ = 0;
  bool started_ = false, done_told_ = false;
  int next_near_ = 0;  // pieces of near sources alone: from here on nobody has taken any
  int pieces_done_ = 0;
  int pulling_ = 0;       // pulls that wait for packets
  int ready_ = 0;         // pulls that have all packets, and copies, that nobody has taken
  int64_t touching_ = 0;  // accesses to our memory in progress
  absl::Status status_;
};

}  // namespace oneflow
