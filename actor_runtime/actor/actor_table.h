// ActorTable: the fixed facts of the actors of one stream, as flat arrays joined by index, which
// actor_state.h reads at every firing. It is made once, at load, from the actors' specs.
//
// An edge has an entry, a peer, at each of its ends. The rules of docs/firing.md become one rule
// here: a peer holds tokens (at a reader: fills to read; at a writer: slots free to fill), an actor
// may fire when each of its peers holds one, and a firing that ends a read or a fill takes one
// token from each peer of that port and gives one to the far end. At the start a reader holds d
// fills and a writer s - d slots.
//
// It knows no kernel and no memory, and nothing of an actor that never fires.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actor_runtime/actor/actor_spec.h"

namespace oneflow {

struct ActorTable {
  struct Actor {
    int32_t first_port = 0, end_port = 0;      // inputs, then outputs
    int32_t first_peer = 0, end_peer = 0;      // sources, then readers
    int32_t first_moving = 0, end_moving = 0;  // in ActorTable::moving
    int32_t n_sources = 0;
    uint32_t id = 0;                   // index in the program
    bool notifies_others = false;      // a peer is notified when a firing is done
    bool notifies_with_event = false;  // a peer on another stream is notified at issue
  };
  struct Port {
    int32_t rate = 1;          // k or f: firings that share a fill; 0: always full, never looked at
    int32_t slots = 1;         // s
    int32_t buffers = 1;       // fills take them in turn
    int32_t first_buffer = 0;  // buffer of firing 0
    int32_t first_peer = 0, end_peer = 0;
    bool accumulates = false;
  };
  struct Peer {
    int32_t near_peer = -1;  // the far end's entry, and its actor, in this table; -1: elsewhere
    int32_t near_actor = -1;
    int32_t port = 0;           // that it belongs to
    bool every_firing = false;  // each firing of the port ends a fill: its rate is 1
    bool with_event = false;    // the far end is on another stream and is notified at issue
    // If its tokens come with events: the ring of their stamps in ActorStates::stamps.
    int32_t first_stamp = -1, stamps = 0;
    int32_t initial = 0;  // tokens at the start; below 0: so many returns are due before the first
  };

  uint32_t program = 0, rank = 0;
  std::vector<Actor> actors;
  std::vector<Port> ports;
  std::vector<int32_t> moving;  // ports with several buffers, or several firings a fill, by actor
  std::vector<Peer> peers;
  std::vector<ActorPeer> far_ends;  // by peer: for messages
  int32_t stamps = 0;               // sum over all peers
};

// Requires specs of one device, none twice, with all peers that they notify in order among them.
ActorTable MakeActorTable(std::span<const ActorSpec* const> specs);

}  // namespace oneflow
