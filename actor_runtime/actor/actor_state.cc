#include "actor_runtime/actor/actor_state.h"

#include <algorithm>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Almost all rates are 1; a branch is far cheaper than a 64-bit division.
int64_t Quotient(int64_t n, int32_t by) { return by == 1 ? n : n / by; }
bool Divides(int32_t by, int64_t n) { return by == 1 || n % by == 0; }

// Fills of a port that issued firings have read, or written, to the end.
int64_t Ended(const ActorTable& table, const ActorStates& states, int32_t actor, int32_t port) {
  return Quotient(states.counts[actor].issued, table.ports[port].rate);
}

// Fills or returns that a peer has reported to us.
int64_t Received(const ActorTable& table, const ActorStates& states, int32_t actor, int32_t p) {
  const ActorTable::Peer& peer = table.peers[p];
  return states.tokens[p] - peer.initial + Ended(table, states, actor, peer.port);
}

void Give(int32_t actor, int32_t peer, ActorStates* states) {
  if (++states->tokens[peer] == 1) --states->counts[actor].waits;
}

// The next firing of a port: true if it adds to what an earlier one began.
bool Move(const ActorTable& table, int32_t p, ActorStates* states) {
  const ActorTable::Port& port = table.ports[p];
  int32_t& left = states->left[p];
  const bool continues = left > 0;
  if (!continues) {
    const int32_t next = states->buffers[p] + 1;
    states->buffers[p] = next == port.buffers ? 0 : next;
    left = port.rate;
  }
  --left;
  return continues && port.accumulates;
}

bool IsReader(const ActorTable& table, int32_t actor, int32_t peer) {
  return peer < table.actors[actor].first_peer + table.actors[actor].n_sources;
}

absl::Status Broken(const ActorTable& table, int32_t actor, int invariant, absl::string_view what,
                    int64_t index) {
  return absl::InternalError(absl::StrCat("actor ", table.actors[actor].id, " at rank ", table.rank,
                                          ": invariant ", invariant, " of actor_state broken at ",
                                          what, " ", index));
}

absl::Status CheckPeer(const ActorTable& table, const ActorStates& states, int32_t actor,
                       int32_t p) {
  const ActorTable::Peer& peer = table.peers[p];
  const ActorTable::Actor& a = table.actors[actor];
  const int32_t slots = table.ports[peer.port].slots, tokens = states.tokens[p];
  const int32_t in_progress = states.left[peer.port] > 0 ? 1 : 0;
  if (IsReader(table, actor, p)) {
    const bool holds = in_progress <= tokens && tokens <= std::max(slots, peer.initial);
    return holds ? absl::OkStatus() : Broken(table, actor, 2, "source", p - a.first_peer);
  }
  const int32_t reader = p - a.first_peer - a.n_sources;
  if (tokens > slots) return Broken(table, actor, 3, "reader", reader);
  if (tokens < in_progress + std::min(0, peer.initial)) {
    return Broken(table, actor, 4, "reader", reader);
  }
  return absl::OkStatus();
}

absl::Status CheckActor(const ActorTable& table, const ActorStates& states, int32_t actor) {
  const ActorTable::Actor& a = table.actors[actor];
  const ActorStates::Count& count = states.counts[actor];
  if (count.completed > count.issued) return Broken(table, actor, 1, "firing", count.completed);
  for (int32_t p = a.first_port; p < a.end_port; ++p) {
    const int32_t rate = table.ports[p].rate;
    const auto begun = rate == 0 ? 0 : static_cast<int32_t>(count.issued % rate);
    if (states.left[p] != (begun == 0 ? 0 : rate - begun)) {
      return Broken(table, actor, 1, "port", p - a.first_port);
    }
  }
  int32_t waits = 0;
  for (int32_t p = a.first_peer; p < a.end_peer; ++p) {
    if (absl::Status status = CheckPeer(table, states, actor, p); !status.ok()) return status;
    waits += states.tokens[p] < 1;
  }
  return waits == count.waits ? absl::OkStatus() : Broken(table, actor, 5, "waits", count.waits);
}

}  // namespace

ActorStates InitialStates(const ActorTable& table) {
  ActorStates states;
  states.counts.resize(table.actors.size());
  states.left.resize(table.ports.size());
  states.buffers.resize(table.ports.size());
  states.tokens.resize(table.peers.size());
  states.stamps.resize(table.stamps);
  Reset(table, &states);
  return states;
}

void Reset(const ActorTable& table, ActorStates* states) {
  std::fill(states->left.begin(), states->left.end(), 0);
  for (size_t p = 0; p < table.ports.size(); ++p) {
    // A fill that begins takes the next buffer.
    const ActorTable::Port& port = table.ports[p];
    states->buffers[p] = port.rate == 0 ? port.first_buffer : port.first_buffer - 1;
  }
  for (size_t p = 0; p < table.peers.size(); ++p) states->tokens[p] = table.peers[p].initial;
  for (size_t a = 0; a < table.actors.size(); ++a) {
    const auto first = states->tokens.begin() + table.actors[a].first_peer;
    const auto end = states->tokens.begin() + table.actors[a].end_peer;
    const auto waits = std::count_if(first, end, [](int32_t tokens) { return tokens < 1; });
    states->counts[a] = {0, 0, static_cast<int32_t>(waits)};
  }
}

void Receive(const ActorTable& table, const Message& message, int32_t actor, ActorStates* states,
             int64_t stamp) {
  const ActorTable::Actor& a = table.actors[actor];
  const bool filled = message.kind == Message::kFilled;
  const int32_t peer =
      a.first_peer + (filled ? 0 : a.n_sources) + static_cast<int32_t>(message.port);
  const int32_t end = filled ? a.first_peer + a.n_sources : a.end_peer;
  CHECK(message.to_rank == table.rank && message.actor == a.id && peer < end)
      << "a message for actor " << message.actor << " at rank " << message.to_rank
      << " reached actor " << a.id << " at rank " << table.rank;
  const int64_t due = Received(table, *states, actor, peer);
  CHECK(static_cast<uint64_t>(due) == message.sequence)
      << "actor " << a.id << " at rank " << table.rank << ", port " << message.port << ": message "
      << message.sequence << " where " << due << " was due";
  const ActorTable::Peer& p = table.peers[peer];
  if (p.with_event) states->stamps[p.first_stamp + due % p.stamps] = stamp;
  Give(actor, peer, states);
}

void AddNeeds(const ActorTable& table, const ActorStates& states, int32_t actor,
              std::vector<EventNeed>* needs) {
  const ActorTable::Actor& a = table.actors[actor];
  for (int32_t p = a.first_peer; p < a.end_peer; ++p) {
    const ActorTable::Peer& peer = table.peers[p];
    // A read or a fill that goes on has taken its token.
    if (!peer.with_event || states.left[peer.port] > 0) continue;
    const int64_t message = Ended(table, states, actor, peer.port) - peer.initial;
    if (message < 0) continue;  // a token of the start
    needs->push_back({p, states.stamps[peer.first_stamp + message % peer.stamps]});
  }
}

void Announce(const ActorTable& table, const ActorStates& states, int32_t actor,
              std::vector<int32_t>* sends) {
  const ActorTable::Actor& a = table.actors[actor];
  if (!a.notifies_with_event) return;
  for (int32_t p = a.first_peer; p < a.end_peer; ++p) {
    const ActorTable::Peer& peer = table.peers[p];
    if (peer.with_event && states.left[peer.port] == 0) sends->push_back(p);
  }
}

Launch Issue(const ActorTable& table, int32_t actor, ActorStates* states) {
  const ActorTable::Actor& a = table.actors[actor];
  ActorStates::Count& count = states->counts[actor];
  Launch launch{count.issued++, false, states->buffers.data() + a.first_port};
  for (int32_t m = a.first_moving; m < a.end_moving; ++m) {
    launch.accumulate |= Move(table, table.moving[m], states);
  }
  int32_t waits = 0;
  for (int32_t p = a.first_peer; p < a.end_peer; ++p) {
    const ActorTable::Peer& peer = table.peers[p];
    // Only the last firing of a read or a fill takes and gives.
    if (!peer.every_firing && states->left[peer.port] > 0) continue;
    if (--states->tokens[p] < 1) ++waits;
    if (peer.near_peer >= 0) Give(peer.near_actor, peer.near_peer, states);
  }
  count.waits = waits;
  return launch;
}

void Complete(const ActorTable& table, int32_t actor, ActorStates* states,
              std::vector<int32_t>* sends) {
  DCHECK_LT(states->counts[actor].completed, states->counts[actor].issued);
  const int64_t done = ++states->counts[actor].completed;
  const ActorTable::Actor& a = table.actors[actor];
  if (!a.notifies_others) return;
  const auto tell = [&](int32_t first, int32_t end) {
    for (int32_t p = first; p < end; ++p) {
      const ActorTable::Peer& peer = table.peers[p];
      if (peer.near_peer < 0 && !peer.with_event && Divides(table.ports[peer.port].rate, done))
        sends->push_back(p);
    }
  };
  // Readers first: they wait for work, sources for room.
  tell(a.first_peer + a.n_sources, a.end_peer);
  tell(a.first_peer, a.first_peer + a.n_sources);
}

Message MessageTo(const ActorTable& table, const ActorStates& states, int32_t actor, int32_t peer) {
  const ActorPeer& far_end = table.far_ends[peer];
  const ActorTable::Port& port = table.ports[table.peers[peer].port];
  const ActorStates::Count& count = states.counts[actor];
  const int64_t firings = table.peers[peer].with_event ? count.issued : count.completed;
  const int64_t fill = Quotient(firings, port.rate) - 1;
  Message message;
  message.program = table.program;
  message.to_rank = table.rank;
  message.actor = far_end.actor;
  message.kind = IsReader(table, actor, peer) ? Message::kReturned : Message::kFilled;
  message.port = far_end.port;
  message.slot = static_cast<uint32_t>((port.first_buffer + fill) % port.buffers);
  message.sequence = static_cast<uint64_t>(fill);
  return message;
}

bool IsDrained(const ActorTable& table, const ActorStates& states, int32_t actor) {
  const ActorTable::Actor& a = table.actors[actor];
  if (states.counts[actor].completed != states.counts[actor].issued) return false;
  for (int32_t p = a.first_port; p < a.end_port; ++p) {
    if (states.left[p] != 0) return false;
  }
  for (int32_t p = a.first_peer; p < a.end_peer; ++p) {
    if (states.tokens[p] != table.peers[p].initial) return false;
  }
  return true;
}

absl::Status CheckInvariants(const ActorTable& table, const ActorStates& states, int32_t actor) {
  absl::Status status = CheckActor(table, states, actor);
  const ActorTable::Actor& a = table.actors[actor];
  for (int32_t p = a.first_peer; status.ok() && p < a.end_peer; ++p) {
    const int32_t notified = table.peers[p].near_actor;
    if (notified >= 0) status = CheckActor(table, states, notified);
  }
  return status;
}

std::vector<FiringWait> FindWaits(const ActorTable& table, const ActorStates& states,
                                  int32_t actor) {
  std::vector<FiringWait> waits;
  const ActorTable::Actor& a = table.actors[actor];
  for (int32_t p = a.first_peer; p < a.end_peer; ++p) {
    if (states.tokens[p] >= 1) continue;
    const int64_t have = Received(table, states, actor, p);
    const ActorTable::Port& port = table.ports[table.peers[p].port];
    const int64_t next = Ended(table, states, actor, table.peers[p].port);
    const auto slot = static_cast<int32_t>((port.first_buffer + next) % port.buffers);
    waits.push_back({!IsReader(table, actor, p), p, slot, have, have + 1 - states.tokens[p]});
  }
  return waits;
}

}  // namespace oneflow
