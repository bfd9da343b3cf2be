#include "oneflow_core/verify/holders.h"

#include <algorithm>
#include <utility>

#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/places.h"

namespace oneflow {
namespace {

bool TakesBytes(const NetRegister& r) { return r.writer >= 0 && r.proto->slot_bytes() > 0; }

// The bytes that a register takes and loses at once: of each of its places, or all of them.
std::vector<std::pair<int64_t, int64_t>> Pieces(const PlanNet& net, const NetRegister& r) {
  const proto::Register& p = *r.proto;
  if (!FillsPlacesOnce(net, r)) return {{p.offset(), EndOf(p)}};
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t place = 0; place < PlacesOf(p); ++place) {
    const int64_t begin = p.offset() + place * StrideOf(p);
    pieces.emplace_back(begin, begin + p.slot_bytes());
  }
  return pieces;
}

// The bytes of registers, cut wherever one begins or ends.
class Cuts {
 public:
  void Add(int64_t begin, int64_t end) {
    at_.push_back(begin);
    at_.push_back(end);
  }
  // How many cells there are. Before the next two.
  int Finish() {
    std::sort(at_.begin(), at_.end());
    at_.erase(std::unique(at_.begin(), at_.end()), at_.end());
    return at_.empty() ? 0 : static_cast<int>(at_.size()) - 1;
  }
  // The cell that begins, or ended, there.
  int CellAt(int64_t byte) const {
    return static_cast<int>(std::lower_bound(at_.begin(), at_.end(), byte) - at_.begin());
  }

 private:
  std::vector<int64_t> at_;
};

}  // namespace

Holders::Holders(const PlanNet& net)
    : frames(FramesOf(net)), intrudes(net.registers.size()), spots(net.registers.size()) {
  for (size_t f = 0; f < frames.size(); ++f) {
    for (int reg : frames[f].intruders) intrudes[reg].push_back(static_cast<int>(f));
  }
  AddTouchers(net);
  LayArenas(net);
  LayFrames(net);
  AddActors(net);
}

void Holders::AddTouchers(const PlanNet& net) {
  for (const NetRegister& r : net.registers) {
    first_toucher.push_back(static_cast<int>(touchers.size()));
    const auto add = [&](int actor) { touchers.push_back({actor, net.actors[actor].stream}); };
    if (r.writer >= 0) {
      add(r.writer);
    } else {
      touchers.push_back({});
    }
    for (const NetReader& reader : r.readers) add(reader.actor);
  }
  first_toucher.push_back(static_cast<int>(touchers.size()));
}

void Holders::LayArenas(const PlanNet& net) {
  std::vector<bool> member(net.registers.size(), false);
  for (const Frames& f : frames) {
    for (int reg : f.members) member[reg] = true;
  }
  const int stages = StagesOf(*net.plan);
  std::vector<Cuts> cuts(net.plan->memory_size());
  for (const NetRegister& r : net.registers) {
    const proto::Register& p = *r.proto;
    if (!TakesBytes(r) || member[p.id()]) continue;
    for (const auto& [begin, end] : Pieces(net, r)) cuts[ArenaOf(p, stages)].Add(begin, end);
  }
  std::vector<int> first_cell;
  for (Cuts& arena : cuts) {
    first_cell.push_back(cells);
    cells += arena.Finish();
  }
  arena_cells = cells;
  for (const NetRegister& r : net.registers) {
    const proto::Register& p = *r.proto;
    if (member[p.id()]) continue;
    const auto pieces = Pieces(net, r);
    const bool apart = pieces.size() > 1;
    spots[p.id()] = {.places = std::ssize(pieces),
                     .first_place = apart ? p.first_place() : 0,
                     .holder = holders,
                     .holder_step = 1,
                     .access = accesses,
                     .access_step = touchers_of(p.id())};
    holders += static_cast<int>(pieces.size());
    accesses += static_cast<int>(pieces.size()) * touchers_of(p.id());
    for (const auto& [begin, end] : pieces) {
      Cells& taken = cells_of.emplace_back();
      if (!TakesBytes(r)) continue;
      const int arena = ArenaOf(p, stages);
      const int first = cuts[arena].CellAt(begin);
      taken = {first_cell[arena] + first, cuts[arena].CellAt(end) - first};
    }
  }
}

void Holders::LayFrames(const PlanNet& net) {
  for (const Frames& f : frames) {
    Block block{holders, static_cast<int>(f.members.size()), accesses, 0, cells, 0};
    Cuts cuts;
    for (int reg : f.members) {
      const proto::Register& p = *net.registers[reg].proto;
      cuts.Add(p.offset() - f.begin, p.offset() - f.begin + p.slot_bytes());
      block.accesses += touchers_of(reg);
    }
    block.cells = cuts.Finish();
    for (int reg : f.members) {
      const proto::Register& p = *net.registers[reg].proto;
      const int first = cuts.CellAt(p.offset() - f.begin);
      cells_of.push_back(
          {cells + first, cuts.CellAt(p.offset() - f.begin + p.slot_bytes()) - first});
      spots[reg] = {.places = f.places,
                    .first_place = p.first_place(),
                    .holder = holders++,
                    .holder_step = block.holders,
                    .access = accesses,
                    .access_step = block.accesses};
      accesses += touchers_of(reg);
    }
    for (int i = block.holders; i < block.holders * static_cast<int>(f.places); ++i) {
      const Cells& before = cells_of[cells_of.size() - block.holders];
      cells_of.push_back({before.first + block.cells, before.count});
    }
    const int more = static_cast<int>(f.places) - 1;
    holders += more * block.holders;
    accesses += more * block.accesses;
    cells += static_cast<int>(f.places) * block.cells;
    blocks.push_back(block);
  }
}

int64_t Holders::PlaceWith(int reg, int cell) const {
  const Spot& spot = spots[reg];
  int64_t least = 0, most = spot.places - 1;
  while (least < most) {
    const int64_t middle = least + (most - least + 1) / 2;
    const bool here = cells_of[spot.holder + middle * spot.holder_step].first <= cell;
    (here ? least : most) = here ? middle : middle - 1;
  }
  return least;
}

void Holders::AddActors(const PlanNet& net) {
  std::vector<int> member_of(net.registers.size(), -1);
  for (size_t f = 0; f < frames.size(); ++f) {
    for (int reg : frames[f].members) member_of[reg] = static_cast<int>(f);
  }
  for (int a = 0; a < static_cast<int>(net.actors.size()); ++a) {
    first_reading.push_back(static_cast<int>(readings.size()));
    first_writing.push_back(static_cast<int>(writings.size()));
    for (const NetInput& input : net.inputs_of(a)) {
      readings.push_back({input.reg, 1 + input.reader, input.fires_per_read, input.initial_fills,
                          spots[input.reg]});
    }
    for (int reg : net.outputs_of(a)) {
      const NetRegister& r = net.registers[reg];
      writings.push_back({reg, member_of[reg], r.fires_per_fill, TakesBytes(r),
                          !intrudes[reg].empty(), spots[reg]});
    }
  }
  first_reading.push_back(static_cast<int>(readings.size()));
  first_writing.push_back(static_cast<int>(writings.size()));
}

}  // namespace oneflow
