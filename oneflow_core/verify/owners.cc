#include "oneflow_core/verify/owners.h"

#include <algorithm>
#include <utility>

#include "oneflow_core/plan/arenas.h"

namespace oneflow {
namespace {

bool TakesBytes(const NetRegister& r) { return r.writer >= 0 && r.proto->slot_bytes() > 0; }

// The byte ranges that change owners separately: each buffer where they do not drift, else all
// buffers together, because the buffer that a step begins with is not known.
std::vector<std::pair<int64_t, int64_t>> Pieces(const PlanNet& net, const NetRegister& r) {
  const proto::Register& p = *r.proto;
  if (!FillsBuffersOnce(net, r)) return {{p.offset(), BuffersEnd(p)}};
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t buffer = 0; buffer < BufferCount(p); ++buffer) {
    const int64_t begin = p.offset() + buffer * BufferStride(p);
    pieces.emplace_back(begin, begin + p.slot_bytes());
  }
  return pieces;
}

// Split points of a range of bytes: wherever a register begins or ends.
class Boundaries {
 public:
  void Add(int64_t begin, int64_t end) {
    at_.push_back(begin);
    at_.push_back(end);
  }
  // Sorts the split points; returns the number of cells. To be called before CellAt.
  int Finish() {
    std::sort(at_.begin(), at_.end());
    at_.erase(std::unique(at_.begin(), at_.end()), at_.end());
    return at_.empty() ? 0 : static_cast<int>(at_.size()) - 1;
  }
  // The cell that begins at `byte`; one past the last where the range ends there.
  int CellAt(int64_t byte) const {
    return static_cast<int>(std::lower_bound(at_.begin(), at_.end(), byte) - at_.begin());
  }

 private:
  std::vector<int64_t> at_;
};

}  // namespace

Owners::Owners(const PlanNet& net)
    : frames(FindFrames(net)), conflicts(net.registers.size()), locations(net.registers.size()) {
  for (size_t f = 0; f < frames.size(); ++f) {
    for (int reg : frames[f].conflicting) conflicts[reg].push_back(static_cast<int>(f));
  }
  AddAccessors(net);
  AddArenas(net);
  AddFrames(net);
  AddActors(net);
}

void Owners::AddAccessors(const PlanNet& net) {
  for (const NetRegister& r : net.registers) {
    first_accessor.push_back(static_cast<int>(accessors.size()));
    const auto add = [&](int actor) { accessors.push_back({actor, net.actors[actor].stream}); };
    if (r.writer >= 0) {
      add(r.writer);
    } else {
      accessors.push_back({});
    }
    for (const NetReader& reader : r.readers) add(reader.actor);
  }
  first_accessor.push_back(static_cast<int>(accessors.size()));
}

void Owners::AddArenas(const PlanNet& net) {
  std::vector<bool> member(net.registers.size(), false);
  for (const Frames& f : frames) {
    for (int reg : f.members) member[reg] = true;
  }
  const int stages = StageCount(*net.plan);
  std::vector<Boundaries> boundaries(net.plan->memory_size());
  for (const NetRegister& r : net.registers) {
    const proto::Register& p = *r.proto;
    if (!TakesBytes(r) || member[p.id()]) continue;
    for (const auto& [begin, end] : Pieces(net, r))
      boundaries[ArenaIndex(p, stages)].Add(begin, end);
  }
  std::vector<int> first_cell;
  for (Boundaries& arena : boundaries) {
    first_cell.push_back(cells);
    cells += arena.Finish();
  }
  arena_cells = cells;
  for (const NetRegister& r : net.registers) {
    const proto::Register& p = *r.proto;
    if (member[p.id()]) continue;
    const auto pieces = Pieces(net, r);
    const bool apart = pieces.size() > 1;
    locations[p.id()] = {.buffers = std::ssize(pieces),
                         .first_buffer = apart ? p.first_buffer() : 0,
                         .owner = owners,
                         .owner_step = 1,
                         .access = accesses,
                         .access_step = accessor_count(p.id())};
    owners += static_cast<int>(pieces.size());
    accesses += static_cast<int>(pieces.size()) * accessor_count(p.id());
    for (const auto& [begin, end] : pieces) {
      Cells& taken = cells_of.emplace_back();
      if (!TakesBytes(r)) continue;
      const int arena = ArenaIndex(p, stages);
      const int first = boundaries[arena].CellAt(begin);
      taken = {first_cell[arena] + first, boundaries[arena].CellAt(end) - first};
    }
  }
}

void Owners::AddFrames(const PlanNet& net) {
  for (const Frames& f : frames) {
    Block block{owners, static_cast<int>(f.members.size()), accesses, 0, cells, 0};
    Boundaries boundaries;
    for (int reg : f.members) {
      const proto::Register& p = *net.registers[reg].proto;
      boundaries.Add(p.offset() - f.begin, p.offset() - f.begin + p.slot_bytes());
      block.accesses += accessor_count(reg);
    }
    block.cells = boundaries.Finish();
    for (int reg : f.members) {
      const proto::Register& p = *net.registers[reg].proto;
      const int first = boundaries.CellAt(p.offset() - f.begin);
      cells_of.push_back(
          {cells + first, boundaries.CellAt(p.offset() - f.begin + p.slot_bytes()) - first});
      locations[reg] = {.buffers = f.buffers,
                        .first_buffer = p.first_buffer(),
                        .owner = owners++,
                        .owner_step = block.owners,
                        .access = accesses,
                        .access_step = block.accesses};
      accesses += accessor_count(reg);
    }
    for (int i = block.owners; i < block.owners * static_cast<int>(f.buffers); ++i) {
      const Cells& before = cells_of[cells_of.size() - block.owners];
      cells_of.push_back({before.first + block.cells, before.count});
    }
    const int more = static_cast<int>(f.buffers) - 1;
    owners += more * block.owners;
    accesses += more * block.accesses;
    cells += static_cast<int>(f.buffers) * block.cells;
    blocks.push_back(block);
  }
}

int64_t Owners::BufferWith(int reg, int cell) const {
  const Location& location = locations[reg];
  int64_t least = 0, most = location.buffers - 1;
  while (least < most) {
    const int64_t middle = least + (most - least + 1) / 2;
    const bool here = cells_of[location.owner + middle * location.owner_step].first <= cell;
    (here ? least : most) = here ? middle : middle - 1;
  }
  return least;
}

void Owners::AddActors(const PlanNet& net) {
  std::vector<int> member_of(net.registers.size(), -1);
  for (size_t f = 0; f < frames.size(); ++f) {
    for (int reg : frames[f].members) member_of[reg] = static_cast<int>(f);
  }
  for (int a = 0; a < static_cast<int>(net.actors.size()); ++a) {
    first_reading.push_back(static_cast<int>(readings.size()));
    first_writing.push_back(static_cast<int>(writings.size()));
    for (const NetInput& input : net.inputs_of(a)) {
      readings.push_back({input.reg, 1 + input.reader, input.fires_per_read, input.initial_fills,
                          locations[input.reg]});
    }
    for (int reg : net.outputs_of(a)) {
      const NetRegister& r = net.registers[reg];
      writings.push_back({reg, member_of[reg], r.fires_per_fill, TakesBytes(r),
                          !conflicts[reg].empty(), locations[reg]});
    }
  }
  first_reading.push_back(static_cast<int>(readings.size()));
  first_writing.push_back(static_cast<int>(writings.size()));
}

}  // namespace oneflow
