#include "actor_runtime/actor/actor_table.h"

#include <algorithm>
#include <map>

#include <glog/logging.h>

namespace oneflow {
namespace {

int32_t Size(const auto& vector) { return static_cast<int32_t>(vector.size()); }

struct TableMaker {
  ActorTable table;
  std::map<uint32_t, int32_t> index;  // by id: index in table.actors

  void AddPeer(const ActorPeer& far_end, int32_t initial) {
    ActorTable::Peer& peer = table.peers.emplace_back();
    peer.port = Size(table.ports) - 1;
    peer.every_firing = table.ports.back().rate == 1;
    peer.initial = initial;
    peer.with_event = far_end.when == NotifyWhen::kWithEvent;
    if (peer.with_event) {
      peer.first_stamp = table.stamps;
      peer.stamps = std::max(table.ports.back().slots, initial);
      table.stamps += peer.stamps;
    }
    table.far_ends.push_back(far_end);
  }

  void AddInput(const ActorSpec& spec, const ActorInput& input) {
    ActorTable::Port& port = table.ports.emplace_back();
    port.slots = input.slots;
    port.buffers = input.buffers;
    port.first_peer = port.end_peer = Size(table.peers);
    if (input.always_full) {
      // No actor writes it in this program: the newest fill stays in the buffer of the last
      // program.
      port.rate = 0;
      port.first_buffer = input.buffers - 1;
      return;
    }
    port.rate = input.fires_per_read;
    port.first_buffer =
        (input.first_buffer + input.buffers - input.initial_fills % input.buffers) % input.buffers;
    for (int32_t p = 0; p < input.n_sources; ++p) {
      AddPeer(spec.sources[input.first_source + p], input.initial_fills);
    }
    table.ports.back().end_peer = Size(table.peers);
  }

  void AddOutput(const ActorSpec& spec, const ActorOutput& output) {
    ActorTable::Port& port = table.ports.emplace_back();
    port.slots = output.slots;
    port.buffers = output.buffers;
    port.first_buffer = output.first_buffer;
    port.rate = output.fires_per_fill;
    port.accumulates = output.mode == ActorOutput::kAccumulate;
    port.first_peer = Size(table.peers);
    for (int32_t q = 0; q < output.n_readers; ++q) {
      const ActorPeer& reader = spec.readers[output.first_reader + q];
      AddPeer(reader, output.slots - reader.initial_fills);
    }
    table.ports.back().end_peer = Size(table.peers);
  }

  void AddActor(const ActorSpec& spec) {
    CHECK(index.emplace(spec.actor, Size(table.actors)).second) << "actor " << spec.actor;
    CHECK_EQ(spec.rank, table.rank);
    ActorTable::Actor& actor = table.actors.emplace_back();
    actor.id = spec.actor;
    actor.n_sources = Size(spec.sources);
    actor.first_port = Size(table.ports);
    actor.first_peer = Size(table.peers);
    for (const ActorInput& input : spec.inputs) AddInput(spec, input);
    for (const ActorOutput& output : spec.outputs) AddOutput(spec, output);
    actor.end_port = Size(table.ports);
    actor.first_moving = Size(table.moving);
    for (int32_t p = actor.first_port; p < actor.end_port; ++p) {
      const ActorTable::Port& port = table.ports[p];
      if (port.rate > 1 || (port.rate == 1 && port.buffers > 1)) table.moving.push_back(p);
    }
    actor.end_moving = Size(table.moving);
    actor.end_peer = Size(table.peers);
  }

  // Joins the two ends of an edge within the stream. `returns`: our end is a reader's.
  void Join(ActorTable::Actor* actor, int32_t p, bool returns) {
    const ActorPeer& far_end = table.far_ends[p];
    if (far_end.when != NotifyWhen::kInOrder) {
      (far_end.when == NotifyWhen::kWithEvent ? actor->notifies_with_event
                                              : actor->notifies_others) = true;
      return;
    }
    const auto found = index.find(far_end.actor);
    CHECK(found != index.end()) << "actor " << far_end.actor << " is not on the stream";
    const ActorTable::Actor& far_actor = table.actors[found->second];
    table.peers[p].near_actor = found->second;
    table.peers[p].near_peer =
        far_actor.first_peer + (returns ? far_actor.n_sources : 0) + far_end.port;
  }
};

}  // namespace

ActorTable MakeActorTable(std::span<const ActorSpec* const> specs) {
  TableMaker maker;
  if (!specs.empty()) {
    maker.table.program = specs[0]->program;
    maker.table.rank = specs[0]->rank;
  }
  for (const ActorSpec* spec : specs) maker.AddActor(*spec);
  for (ActorTable::Actor& actor : maker.table.actors) {
    for (int32_t p = actor.first_peer; p < actor.end_peer; ++p) {
      maker.Join(&actor, p, /*returns=*/p < actor.first_peer + actor.n_sources);
    }
  }
  return std::move(maker.table);
}

}  // namespace oneflow
