#include "oneflow_core/net/byte_game.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

constexpr int64_t kUnit = 64;  // offsets and sizes of registers are multiples of it
constexpr int kNobody = -1;

// A member of an exchange.
struct Member {
  int rank = 0, actor = 0;
};

// Data that all games of a net share: the devices, and the members of exchanges.
class Board {
 public:
  explicit Board(const PlanNet& net) : net_(net), mesh_(*MeshFromProto(net.plan->mesh(), "plan")) {
    for (const NetStream& stream : net.streams) orders_.push_back(Unrolled(stream));
    for (const NetIssue& issue : net.issues) issues_.push_back(Unrolled(issue.runs));
    for (int rank = 0; rank < mesh_.devices(); ++rank) {
      members_.emplace_back();
      for (size_t a = 0; a < net.actors.size(); ++a) {
        const bool meets = net.actors[a].exchange && net.actors[a].stage == mesh_.RankToStage(rank);
        members_.back().push_back(meets ? FindMembers(rank, static_cast<int>(a))
                                        : std::vector<Member>());
      }
    }
  }

  const PlanNet& net() const { return net_; }
  const Mesh& mesh() const { return mesh_; }
  // Firings of one step.
  const std::vector<int>& order(int stream) const { return orders_[stream]; }
  const std::vector<int>& issue(int index) const { return issues_[index]; }
  // Members of the exchange that the device at `rank` fires as `actor`; none for other actors.
  const std::vector<Member>& members(int rank, int actor) const { return members_[rank][actor]; }

 private:
  std::vector<Member> FindMembers(int rank, int actor) const {
    const proto::Group& group = net_.plan->group(net_.actor(actor).exchange().group());
    Coordinate c = mesh_.RankToCoordinate(rank);
    std::vector<Member> members;
    for (const int peer : mesh_.Peers(c, {group.axis().begin(), group.axis().end()})) {
      members.push_back({peer, actor});
    }
    const int partner = net_.actors[actor].partner;
    if (partner < 0) return members;
    c[mesh_.stage_axis()] = net_.actors[partner].stage;
    members.push_back({mesh_.CoordinateToRank(c), partner});
    return members;
  }

  const PlanNet& net_;
  const Mesh mesh_;
  std::vector<std::vector<int>> orders_;                   // by stream
  std::vector<std::vector<int>> issues_;                   // by order of issue
  std::vector<std::vector<std::vector<Member>>> members_;  // by rank, actor
};

// One stream of one device.
struct Track {
  int rank = 0, stream = 0;
  int64_t at = 0;  // firings that have ended
  bool firing = false;
};

class Game {
 public:
  Game(const Board& board, int64_t steps, bool in_order, uint32_t seed)
      : board_(board), net_(board.net()), steps_(steps), in_order_(in_order), random_(seed) {
    for (int rank = 0; rank < board.mesh().devices(); ++rank) {
      const int stage = board.mesh().RankToStage(rank);
      devices_.push_back(
          {std::vector<int64_t>(net_.actors.size(), 0), std::vector<int64_t>(net_.actors.size(), 0),
           std::vector<int64_t>(net_.issues.size(), 0),
           std::vector<int64_t>(net_.registers.size(), 0),
           std::vector<int>(
               (ArenaBytes(stage, proto::DEVICE) + ArenaBytes(stage, proto::HOST)) / kUnit,
               kNobody)});
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
    std::vector<int64_t> begun;     // by actor: firings that have begun
    std::vector<int64_t> fired;     // by actor: firings that have ended
    std::vector<int64_t> issued;    // by order of issue: exchanges that have ended
    std::vector<int64_t> returned;  // by register: fills that all readers have returned
    std::vector<int> owners;        // by unit of the arenas, the device's first: register
  };

  int Below(int n) { return static_cast<int>(random_() % n); }
  int DrawPatience() { return 1 << 2 * Below(4); }

  bool Over(const Track& t) const { return t.at == steps_ * std::ssize(board_.order(t.stream)); }
  int NextActor(const Track& t) const {
    const std::vector<int>& order = board_.order(t.stream);
    return order[t.at % order.size()];
  }

  // True if the track could move at all.
  bool GoOn(Track& t, int most_moves) {
    if (!Move(t)) return false;
    for (int n = Below(most_moves); n > 0 && !Over(t) && overlap_.empty() && Move(t);) --n;
    return true;
  }

  // Begins the next firing, or ends the present one.
  bool Move(Track& t) {
    const int actor = NextActor(t);
    if (t.firing) {
      if (!MayEnd(t.rank, actor)) return false;
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
    const auto outputs = net_.outputs_of(actor);
    return IsItsTurn(rank, actor) &&
           std::all_of(inputs.begin(), inputs.end(),
                       [&](const NetInput& input) { return IsFull(rank, actor, input); }) &&
           std::all_of(outputs.begin(), outputs.end(),
                       [&](int id) { return IsFree(rank, actor, id); });
  }

  // True if all members of an exchange have begun it.
  bool MayEnd(int rank, int actor) const {
    const std::vector<Member>& members = board_.members(rank, actor);
    const int64_t n = devices_[rank].fired[actor];
    return std::all_of(members.begin(), members.end(), [&](const Member& member) {
      return devices_[member.rank].begun[member.actor] > n;
    });
  }

  // True if no other exchange is issued before it.
  bool IsItsTurn(int rank, int actor) const {
    const int index = net_.actors[actor].issue;
    if (!in_order_ || index < 0) return true;
    const std::vector<int>& issue = board_.issue(index);
    return issue[devices_[rank].issued[index] % issue.size()] == actor;
  }

  bool IsFull(int rank, int actor, const NetInput& input) const {
    const NetRegister& r = net_.registers[input.reg];
    if (r.writer < 0) return true;
    const int64_t fill = devices_[rank].fired[actor] / input.fires_per_read - input.initial_fills;
    return CountFills(rank, r) > fill;
  }

  bool IsFree(int rank, int actor, int id) const {
    const NetRegister& r = net_.registers[id];
    const int64_t n = devices_[rank].fired[actor];
    if (n % r.fires_per_fill != 0) return true;  // goes on with a fill that it has
    const int64_t before = n / r.fires_per_fill - r.slots;
    return std::all_of(r.readers.begin(), r.readers.end(), [&](const NetReader& reader) {
      return before < -reader.initial_fills || ReturnedBy(rank, reader) > before;
    });
  }

  int64_t CountFills(int rank, const NetRegister& r) const {
    return devices_[rank].fired[r.writer] / r.fires_per_fill;
  }
  int64_t ReturnedBy(int rank, const NetReader& reader) const {
    return devices_[rank].fired[reader.actor] / reader.fires_per_read - reader.initial_fills;
  }

  void Begin(int rank, int actor) {
    ++devices_[rank].begun[actor];
    const int64_t n = devices_[rank].fired[actor];
    for (int id : net_.outputs_of(actor)) {
      const int64_t per_fill = net_.registers[id].fires_per_fill;
      if (n % per_fill == 0) Take(rank, id, n / per_fill);
    }
  }

  void End(int rank, int actor) {
    ++devices_[rank].fired[actor];
    if (net_.actors[actor].issue >= 0) ++devices_[rank].issued[net_.actors[actor].issue];
    for (const NetInput& input : net_.inputs_of(actor)) Return(rank, input.reg);
    for (int id : net_.outputs_of(actor)) Return(rank, id);
  }

  // Bytes of an arena; 0 if the plan has none of this kind.
  int64_t ArenaBytes(int stage, proto::MemoryKind kind) const {
    const int arena = ArenaIndex(kind, stage, StageCount(*net_.plan));
    return arena < net_.plan->memory_size() ? net_.plan->memory(arena).arena_bytes() : 0;
  }

  // The range of bytes, in 64-byte units of the arenas, of a fill.
  std::pair<int64_t, int64_t> ByteRange(const proto::Register& r, int64_t fill) const {
    const bool pinned = r.memory_kind() == proto::HOST;
    const int64_t begin = (pinned ? ArenaBytes(r.stage(), proto::DEVICE) : 0) + r.offset() +
                          BufferIndex(r, fill) * BufferStride(r);
    return {begin / kUnit, (begin + r.slot_bytes()) / kUnit};
  }

  // Those of persistent registers are nobody else's: their types say so.
  static bool SharesBytes(const NetRegister& r) {
    return !r.persistent && r.writer >= 0 && r.proto->slot_bytes() > 0;
  }

  void Take(int rank, int id, int64_t fill) {
    if (!SharesBytes(net_.registers[id])) return;
    const proto::Register& r = *net_.registers[id].proto;
    const auto [begin, end] = ByteRange(r, fill);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int other = std::exchange(devices_[rank].owners[unit], id);
      if (other == kNobody || !overlap_.empty()) continue;
      overlap_ = absl::StrCat(r.name(), " (fill ", fill, ") takes bytes of ",
                              net_.registers[other].proto->name(), " on rank ", rank);
    }
  }

  // Gives back what no reader has still to read.
  void Return(int rank, int id) {
    const NetRegister& r = net_.registers[id];
    if (!SharesBytes(r)) return;
    int64_t over = CountFills(rank, r);
    for (const NetReader& reader : r.readers) over = std::min(over, ReturnedBy(rank, reader));
    Device& device = devices_[rank];
    for (int64_t& fill = device.returned[id]; fill < over; ++fill) {
      const auto [begin, end] = ByteRange(*r.proto, fill);
      std::fill(device.owners.begin() + begin, device.owners.begin() + end, kNobody);
    }
  }

  std::string StandsText(const Track& t) const {
    return absl::StrCat(net_.ActorName(NextActor(t)), " waits for ever on rank ", t.rank);
  }

  const Board& board_;
  const PlanNet& net_;
  const int64_t steps_;
  const bool in_order_;
  std::mt19937 random_;
  std::vector<Device> devices_;  // by rank
  std::vector<Track> ranking_;   // of those that are not over
  std::string overlap_;
};

}  // namespace

std::string FirstOverlap(const PlanNet& net, const ByteGames& games) {
  const Board board(net);
  for (int i = 0; i < games.games; ++i) {
    const bool in_order = i % 2 == 0;
    std::string overlap = Game(board, games.steps, in_order, games.seed + i).Play();
    if (!overlap.empty()) return overlap;
  }
  return "";
}

}  // namespace oneflow
