#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/memory/lay_frames.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/memory/lower_bound.h"
#include "compiler/memory/pack.h"
#include "compiler/memory/place_rings.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

// Where the registers of a stage lie, by place in its lifetimes.
struct Layout {
  struct Place {
    int64_t offset = 0, places = 0, stride = 0, first_place = 0;  // as in proto::Register
  };
  std::vector<Place> places;
  int64_t bytes = 0;
};

// Of a piece. Where there are more, its parts are larger ones: packing asks of each pair.
constexpr int64_t kMostParts = 8192;

Piece PieceOf(const Lifetime& life) { return {life.spans, {{0, life.bytes(), life.spans}}}; }

// The frame of one place, which a step fills once: a part for each member, or one of all of them.
void AddFrame(const StageLifetimes& stage, const FrameLayout& frames, int64_t place, bool by_member,
              Piece* piece) {
  const int64_t begin = place * frames.bytes;
  Spans any;
  for (const FrameLayout::Member& member : frames.members) {
    const Lifetime& life = stage.registers[member.life];
    const int64_t fill = (place + frames.places - member.first_place) % frames.places;
    const Spans spans = SpansOfFill(life, fill, stage.length);
    if (by_member) {
      piece->parts.push_back({begin + member.offset, life.slot_bytes, spans});
    } else {
      any = Union(any, spans);
    }
  }
  if (!by_member) piece->parts.push_back({begin, frames.bytes, any});
}

// All frames of a layout. Where each place is filled once a step it has times of its own; else a
// place is another micro-batch's in each step.
Piece PieceOf(const StageLifetimes& stage, const FrameLayout& frames) {
  if (!frames.once || frames.places > kMostParts) {
    return {frames.spans, {{0, frames.places * frames.bytes, frames.spans}}, true};
  }
  const bool by_member = frames.places * std::ssize(frames.members) <= kMostParts;
  Piece piece{frames.spans};
  for (int64_t place = 0; place < frames.places; ++place) {
    AddFrame(stage, frames, place, by_member, &piece);
  }
  return piece;
}

// Of registers that `piece` says are pieces of one place each, those that streams other than
// compute know never to hold something at once.
std::vector<std::pair<int, int>> Apart(const std::vector<Lifetime>& lives,
                                       const std::vector<int>& piece) {
  std::map<int, size_t> place;  // of the register among `lives`
  for (size_t i = 0; i < lives.size(); ++i) {
    if (piece[i] >= 0 && lives[i].slots == 1) place.emplace(lives[i].reg, i);
  }
  std::vector<std::pair<int, int>> apart;
  for (const auto& [reg, i] : place) {
    for (const auto& [other, over] : lives[i].over) {
      const auto found = place.find(other);
      if (other == reg || found == place.end()) continue;
      const Lifetime &a = lives[i], &b = lives[found->second];
      const bool alike = !a.fills.empty() && a.fills.size() == b.fills.size();
      if (alike && !MeetInPlace(a, b, 1)) apart.emplace_back(piece[i], piece[found->second]);
    }
  }
  return apart;
}

Layout LaidOut(const StageLifetimes& stage, const std::vector<FrameLayout>& frames, int64_t bound) {
  const std::vector<Lifetime>& lives = stage.registers;
  std::vector<bool> framed(lives.size(), false);
  std::vector<int> piece_of(lives.size(), -1);
  std::vector<Piece> pieces;
  for (const FrameLayout& frame : frames) {
    pieces.push_back(PieceOf(stage, frame));
    for (const FrameLayout::Member& member : frame.members) framed[member.life] = true;
  }
  for (size_t i = 0; i < lives.size(); ++i) {
    if (framed[i]) continue;
    piece_of[i] = static_cast<int>(pieces.size());
    pieces.push_back(PieceOf(lives[i]));
  }
  const Packing packing = Pack(pieces, Apart(lives, piece_of), bound);
  Layout layout{std::vector<Layout::Place>(lives.size()), packing.bytes};
  auto offset = packing.offsets.begin();
  for (const FrameLayout& frame : frames) {
    for (const FrameLayout::Member& member : frame.members) {
      layout.places[member.life] = {*offset + member.offset, frame.places, frame.bytes,
                                    member.first_place};
    }
    ++offset;
  }
  for (size_t i = 0; i < lives.size(); ++i) {
    if (!framed[i]) layout.places[i].offset = *offset++;
  }
  return layout;
}

// With frames where they save a hundredth of the bytes. The proof sees a steady state only when all
// frames have had their turn: with many of them, which save little, it would take longer for it.
// Joins, which rings have none of, are tried where it is more than a fiftieth over `bound` without.
Layout BestLayout(const StageLifetimes& stage, int64_t bound) {
  Layout plain = LaidOut(stage, {}, bound);
  std::optional<Layout> best;
  const auto lay = [&](const std::vector<PlaceRing>& rings, FrameJoin join = {}) {
    for (const bool longer : {false, true}) {
      const std::vector<FrameLayout> frames = LayFrames(stage, longer, rings, join);
      if (frames.empty()) continue;
      Layout framed = LaidOut(stage, frames, bound);
      if (!best || framed.bytes < best->bytes) best = std::move(framed);
    }
  };
  lay({});
  const std::vector<PlaceRing> rings = FindPlaceRings(stage);
  if (!rings.empty()) {
    lay(rings);
  } else if (std::min(best ? best->bytes : plain.bytes, plain.bytes) > bound + bound / 50) {
    for (const FrameJoin& join : FrameJoins(stage)) lay({}, join);
  }
  return best && best->bytes < plain.bytes - plain.bytes / 100 ? *std::move(best)
                                                               : std::move(plain);
}

void PlacePersistent(int stages, proto::Plan* plan) {
  for (int arena = 0; arena < ArenasOf(*plan, stages); ++arena) {
    proto::StageMemory* memory = plan->add_memory();
    memory->set_stage(arena % stages);
    memory->set_kind(arena < stages ? proto::DEVICE : proto::HOST_PINNED);
  }
  plan->mutable_facts()->mutable_lower_bound_bytes()->Resize(plan->memory_size(), 0);
  for (proto::Register& r : *plan->mutable_persistent()) {
    proto::StageMemory& memory = *plan->mutable_memory(r.stage());
    r.set_offset(memory.persistent_bytes());
    memory.set_persistent_bytes(memory.persistent_bytes() + r.slots() * r.slot_bytes());
  }
}

absl::Status PlaceProgram(int stages, proto::Plan* plan, proto::Program* program) {
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(*plan, *program));
  const std::vector<int64_t> bound = LowerBound(net, stages);
  const std::vector<StageLifetimes> lifetimes = LifetimesOf(net, stages);
  for (int arena = 0; arena < ArenasOf(*plan, stages); ++arena) {
    const StageLifetimes& stage = lifetimes[arena];
    const Layout layout = BestLayout(stage, bound[arena]);
    proto::StageMemory& memory = *plan->mutable_memory(arena);
    for (size_t i = 0; i < layout.places.size(); ++i) {
      const auto& [offset, places, stride, first_place] = layout.places[i];
      proto::Register& r =
          *program->mutable_register_(stage.registers[i].reg - plan->persistent_size());
      r.set_offset(memory.persistent_bytes() + offset);
      r.set_places(static_cast<int>(places));
      r.set_stride(stride);
      r.set_first_place(static_cast<int>(first_place));
    }
    memory.set_register_bytes(std::max(memory.register_bytes(), layout.bytes));
    int64_t* most = plan->mutable_facts()->mutable_lower_bound_bytes()->Mutable(arena);
    *most = std::max(*most, bound[arena]);
  }
  return absl::OkStatus();
}

}  // namespace

std::string LargestRegisters(const proto::Plan& plan, int stage) {
  std::vector<std::pair<int64_t, const proto::Register*>> sizes;
  std::set<int> workspaces;
  const auto add = [&](const proto::Register& r) {
    if (r.stage() != stage || r.memory_kind() != proto::DEVICE || workspaces.contains(r.id())) {
      return;
    }
    sizes.emplace_back(r.slots() * r.slot_bytes(), &r);
  };
  for (const proto::Register& r : plan.persistent()) add(r);
  for (const proto::Program& program : plan.program()) {
    if (program.name() != "train" && plan.program_size() != 1) continue;
    for (const proto::Actor& actor : program.actor()) {
      if (actor.has_workspace()) workspaces.insert(actor.workspace());
    }
    for (const proto::Register& r : program.register_()) add(r);
  }
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(5, sizes.size()); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", sizes[i].second->name(), " (",
                    sizes[i].second->slots(), " x ", BytesText(sizes[i].second->slot_bytes()), ")");
  }
  return text;
}

absl::Status PlanMemory(int stages, proto::Plan* plan) {
  PlacePersistent(stages, plan);
  for (int i = 0; i < plan->program_size(); ++i) {
    RETURN_IF_ERROR(PlaceProgram(stages, plan, plan->mutable_program(i)));
  }
  for (int arena = 0; arena < ArenasOf(*plan, stages); ++arena) {
    proto::StageMemory& memory = *plan->mutable_memory(arena);
    memory.set_arena_bytes(memory.persistent_bytes() + memory.register_bytes());
    int64_t* most = plan->mutable_facts()->mutable_lower_bound_bytes()->Mutable(arena);
    *most += memory.persistent_bytes();
  }
  return absl::OkStatus();
}

absl::Status CheckCapacity(const proto::Plan& plan, int64_t capacity) {
  if (capacity <= 0) return absl::OkStatus();
  for (const proto::StageMemory& memory : plan.memory()) {
    if (memory.kind() != proto::DEVICE || memory.arena_bytes() <= capacity) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "memory of stage ", memory.stage(), ": needs ", BytesText(memory.arena_bytes()),
        ", a device has ", BytesText(capacity), ": ", BytesText(memory.arena_bytes() - capacity),
        " too many (weights and optimizer ", BytesText(memory.persistent_bytes()),
        ", registers and workspaces ", BytesText(memory.register_bytes()),
        "); the largest: ", LargestRegisters(plan, memory.stage()),
        "; use more micro-batches or --recompute=full, or split on more devices"));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
