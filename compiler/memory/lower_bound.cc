#include "compiler/memory/lower_bound.h"

#include <algorithm>
#include <limits>

#include "oneflow_core/net/marking.h"
#include "oneflow_core/plan/arenas.h"

namespace oneflow {
namespace {

// Two steps: tensors that are written ahead of the next step count, too.
constexpr int64_t kMarkedSteps = 2;

class Game {
 public:
  Game(const PlanNet& net, int stages)
      : net_(net),
        marking_(net, Meeting::kFree, kMarkedSteps),
        started_(net.registers.size(), 0),
        stages_(stages),
        now_(std::max(stages, net.plan->memory_size()), 0),
        most_(now_.size(), 0),
        by_actor_(net.actors.size(), 0),
        held_(net.registers.size(), 0) {
    for (size_t id = 0; id < net.registers.size(); ++id) Count(static_cast<int>(id));
  }

  void Play() {
    for (ReadyStreams ready(net_); !ready.empty();) {
      const int s = ready.Pop();
      bool fired = false;
      for (; !marking_.done(s) && !marking_.FindBlocker(marking_.next(s)); fired = true) Fire(s);
      if (fired) ready.Wake(s);
    }
  }

  const std::vector<int64_t>& most() const { return most_; }
  const std::vector<int64_t>& by_actor() const { return by_actor_; }

 private:
  void Fire(int stream) {
    const int actor = marking_.next(stream), partner = marking_.Partner(actor);
    Begin(actor);
    if (partner >= 0) Begin(partner);
    marking_.Fire(stream);
    End(actor);
    if (partner >= 0) End(partner);
  }

  void Begin(int actor) {
    for (int id : net_.outputs_of(actor)) {
      const int64_t per_fill = net_.registers[id].fires_per_fill;
      started_[id] = Quotient(marking_.fired(actor), per_fill) + 1;
      Count(id);
    }
    const int stage = net_.actors[actor].stage;
    by_actor_[actor] = std::max(by_actor_[actor], now_[stage]);
    for (size_t arena = stage; arena < now_.size(); arena += stages_) {
      most_[arena] = std::max(most_[arena], now_[arena]);
    }
  }

  void End(int actor) {
    for (const NetInput& input : net_.inputs_of(actor)) Count(input.reg);
    for (int id : net_.outputs_of(actor)) Count(id);
  }

  // Brings what a register holds up to date. One that is not persistent and has initial fills holds
  // no bytes (verify_types), so they are not counted.
  void Count(int id) {
    const NetRegister& r = net_.registers[id];
    if (r.persistent || r.writer < 0) return;
    int64_t returned = marking_.fills(r);  // without readers a fill is over when it is full
    if (!r.readers.empty()) returned = std::numeric_limits<int64_t>::max();
    for (const NetReader& reader : r.readers) {
      returned = std::min(returned, marking_.reads(reader));
    }
    const int64_t held = (started_[id] - returned) * r.proto->slot_bytes();
    now_[ArenaIndex(*r.proto, stages_)] += held - held_[id];
    held_[id] = held;
  }

  const PlanNet& net_;
  Marking marking_;
  std::vector<int64_t> started_;  // by register: fills that are begun
  const int stages_;
  std::vector<int64_t> now_, most_;  // by arena
  std::vector<int64_t> by_actor_;    // of its stage's first arena, the device's
  std::vector<int64_t> held_;        // by register
};

}  // namespace

std::vector<int64_t> LowerBound(const PlanNet& net, int stages) {
  Game game(net, stages);
  game.Play();
  return game.most();
}

std::vector<int64_t> HeldByActor(const PlanNet& net, int stages) {
  Game game(net, stages);
  game.Play();
  return game.by_actor();
}

}  // namespace oneflow
