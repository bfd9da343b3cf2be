#include "oneflow_core/plan/byte_game.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/plan/places.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

constexpr int64_t kUnit = 64;  // offsets and sizes of registers are multiples of it
constexpr int kNobody = -1;

using Reach = std::vector<std::vector<int>>;  // by rank: ranks

// What all games of a net share: who plays, and who waits for whom.
class Board {
 public:
  explicit Board(const PlanNet& net) : net_(net), mesh_(*MeshFromProto(net.plan->mesh(), "plan")) {
    for (const NetStream& stream : net.streams) orders_.push_back(Unrolled(stream));
    for (const NetInput& input : net.inputs) {
      const NetRegister& r = net.registers[input.reg];
      sources_.push_back(ReachOf(r.proto->stage(), r.readers[input.reader].along));
    }
    for (const NetRegister& r : net.registers) {
      readers_.emplace_back();
      for (const NetReader& reader : r.readers) {
        readers_.back().push_back(ReachOf(net.actors[reader.actor].stage, reader.along));
      }
    }
  }
  Board(const Board&) = delete;  // it points into itself
  Board& operator=(const Board&) = delete;

  const PlanNet& net() const { return net_; }
  const Mesh& mesh() const { return mesh_; }
  const std::vector<int>& order(int stream) const { return orders_[stream]; }  // of one step
  // Whose registers the device at `rank` reads over input i of an actor.
  const std::vector<int>& sources(int rank, int actor, size_t i) const {
    return (*sources_[net_.first_input[actor] + i])[rank];
  }
  // Where reader k of a register reads that of the device at `rank`.
  const std::vector<int>& readers(int rank, int reg, size_t k) const {
    return (*readers_[reg][k])[rank];
  }

 private:
  // Of each device those of `stage` at its coordinate, the stage aside, and all along the axes.
  const Reach* ReachOf(int stage, const std::vector<int>& along) {
    Reach& reach = reaches_[{stage, along}];
    for (int rank = static_cast<int>(reach.size()); rank < mesh_.devices(); ++rank) {
      Coordinate c = mesh_.CoordinateOf(rank);
      if (mesh_.stage_axis() >= 0) c[mesh_.stage_axis()] = stage;
      reach.push_back(mesh_.Peers(c, along));
    }
    return &reach;
  }

  const PlanNet& net_;
  const Mesh mesh_;
  std::vector<std::vector<int>> orders_;                       // by stream
  std::map<std::pair<int, std::vector<int>>, Reach> reaches_;  // by stage and axes
  std::vector<const Reach*> sources_;                          // by input of the net
  std::vector<std::vector<const Reach*>> readers_;             // by register, its readers
};

// One stream of one device.
struct Track {
  int rank = 0, stream = 0;
  int64_t at = 0;  // firings that have ended
  bool firing = false;
};

class Game {
 public:
  Game(const Board& board, int64_t steps, uint32_t seed)
      : board_(board), net_(board.net()), steps_(steps), random_(seed) {
    for (int rank = 0; rank < board.mesh().devices(); ++rank) {
      const int stage = board.mesh().StageOf(rank);
      devices_.push_back(
          {std::vector<int64_t>(net_.actors.size(), 0),
           std::vector<int64_t>(net_.registers.size(), 0),
           std::vector<int>(net_.plan->memory(stage).arena_bytes() / kUnit, kNobody)});
      for (size_t s = 0; s < net_.streams.size(); ++s) {
        if (net_.streams[s].proto->stage() != stage || net_.streams[s].runs.empty()) continue;
        ranking_.push_back({rank, static_cast<int>(s)});
      }
    }
  }

  // The first of a random ranking that can go on does so for a while; at times it is drawn anew.
  // How long and how often is drawn for each game.
  std::string Play() {
    std::shuffle(ranking_.begin(), ranking_.end(), random_);
    const int most_moves = DrawPatience(), turns = DrawPatience();
    while (!ranking_.empty()) {
      const auto mover = std::find_if(ranking_.begin(), ranking_.end(),
                                      [&](Track& t) { return GoOn(t, most_moves); });
      if (!overlap_.empty()) return overlap_;
      if (mover == ranking_.end()) return StandsText(ranking_.front());
      if (Over(*mover)) ranking_.erase(mover);
      if (Below(turns) == 0) std::shuffle(ranking_.begin(), ranking_.end(), random_);
    }
    return "";
  }

 private:
  struct Device {
    std::vector<int64_t> fired;     // by actor: firings that have ended
    std::vector<int64_t> returned;  // by register: fills that all readers have returned
    std::vector<int> owners;        // by unit of the arena: register
  };

  int Below(int n) { return static_cast<int>(random_() % n); }
  int DrawPatience() { return 1 << 2 * Below(4); }

  bool Over(const Track& t) const { return t.at == steps_ * std::ssize(board_.order(t.stream)); }
  int NextOf(const Track& t) const {
    const std::vector<int>& order = board_.order(t.stream);
    return order[t.at % order.size()];
  }

  // Whether the track could move at all.
  bool GoOn(Track& t, int most_moves) {
    if (!Move(t)) return false;
    for (int n = Below(most_moves); n > 0 && !Over(t) && overlap_.empty() && Move(t);) --n;
    return true;
  }

  // Begins the next firing, or ends the present one.
  bool Move(Track& t) {
    const int actor = NextOf(t);
    if (t.firing) {
      End(t.rank, actor);
      ++t.at;
    } else if (MayFire(t.rank, actor)) {
      Begin(t.rank, actor);
    } else {
      return false;
    }
    t.firing = !t.firing;
    return true;
  }

  // docs/firing.md.
  bool MayFire(int rank, int actor) const {
    const auto inputs = net_.inputs_of(actor);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!IsFull(rank, actor, inputs[i], i)) return false;
    }
    const auto outputs = net_.outputs_of(actor);
    return std::all_of(outputs.begin(), outputs.end(),
                       [&](int id) { return IsFree(rank, actor, id); });
  }

  bool IsFull(int rank, int actor, const NetInput& input, size_t i) const {
    const NetRegister& r = net_.registers[input.reg];
    if (r.writer < 0) return true;
    const int64_t fill = devices_[rank].fired[actor] / input.fires_per_read - input.initial_fills;
    const std::vector<int>& sources = board_.sources(rank, actor, i);
    return std::all_of(sources.begin(), sources.end(),
                       [&](int source) { return FillsOf(source, r) > fill; });
  }

  bool IsFree(int rank, int actor, int id) const {
    const NetRegister& r = net_.registers[id];
    const int64_t n = devices_[rank].fired[actor];
    if (n % r.fires_per_fill != 0) return true;  // goes on with a fill that it has
    const int64_t before = n / r.fires_per_fill - r.slots;
    for (size_t k = 0; k < r.readers.size(); ++k) {
      if (before < -r.readers[k].initial_fills) continue;
      for (int peer : board_.readers(rank, id, k)) {
        if (ReturnedBy(peer, r.readers[k]) <= before) return false;
      }
    }
    return true;
  }

  int64_t FillsOf(int rank, const NetRegister& r) const {
    return devices_[rank].fired[r.writer] / r.fires_per_fill;
  }
  int64_t ReturnedBy(int rank, const NetReader& reader) const {
    return devices_[rank].fired[reader.actor] / reader.fires_per_read - reader.initial_fills;
  }

  void Begin(int rank, int actor) {
    const int64_t n = devices_[rank].fired[actor];
    for (int id : net_.outputs_of(actor)) {
      const int64_t per_fill = net_.registers[id].fires_per_fill;
      if (n % per_fill == 0) Take(rank, id, n / per_fill);
    }
  }

  void End(int rank, int actor) {
    ++devices_[rank].fired[actor];
    const auto inputs = net_.inputs_of(actor);
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (int source : board_.sources(rank, actor, i)) Return(source, inputs[i].reg);
    }
    for (int id : net_.outputs_of(actor)) Return(rank, id);
  }

  // The units of the arena that a fill lies in.
  std::pair<int64_t, int64_t> UnitsOf(const proto::Register& r, int64_t fill) const {
    const int64_t begin = r.offset() + PlaceOf(r, fill) * StrideOf(r);
    return {begin / kUnit, (begin + r.slot_bytes()) / kUnit};
  }

  // Those of persistent registers are nobody else's: their types say so.
  static bool SharesBytes(const NetRegister& r) {
    return !r.persistent && r.writer >= 0 && r.proto->slot_bytes() > 0;
  }

  void Take(int rank, int id, int64_t fill) {
    if (!SharesBytes(net_.registers[id])) return;
    const proto::Register& r = *net_.registers[id].proto;
    const auto [begin, end] = UnitsOf(r, fill);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int other = std::exchange(devices_[rank].owners[unit], id);
      if (other == kNobody || !overlap_.empty()) continue;
      overlap_ = absl::StrCat(r.name(), " (fill ", fill, ") takes bytes of ",
                              net_.registers[other].proto->name(), " on rank ", rank);
    }
  }

  // Gives back what no reader, on any device, has still to read.
  void Return(int rank, int id) {
    const NetRegister& r = net_.registers[id];
    if (!SharesBytes(r)) return;
    int64_t over = FillsOf(rank, r);
    for (size_t k = 0; k < r.readers.size(); ++k) {
      for (int peer : board_.readers(rank, id, k)) {
        over = std::min(over, ReturnedBy(peer, r.readers[k]));
      }
    }
    Device& device = devices_[rank];
    for (int64_t& fill = device.returned[id]; fill < over; ++fill) {
      const auto [begin, end] = UnitsOf(*r.proto, fill);
      std::fill(device.owners.begin() + begin, device.owners.begin() + end, kNobody);
    }
  }

  std::string StandsText(const Track& t) const {
    return absl::StrCat(net_.NameOf(NextOf(t)), " waits for ever on rank ", t.rank);
  }

  const Board& board_;
  const PlanNet& net_;
  const int64_t steps_;
  std::mt19937 random_;
  std::vector<Device> devices_;  // by rank
  std::vector<Track> ranking_;   // of those that are not over
  std::string overlap_;
};

}  // namespace

std::string FirstOverlap(const PlanNet& net, const ByteGames& games) {
  const Board board(net);
  for (int i = 0; i < games.games; ++i) {
    std::string overlap = Game(board, games.steps, games.seed + i).Play();
    if (!overlap.empty()) return overlap;
  }
  return "";
}

}  // namespace oneflow
