#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/memory/buffer_rings.h"
#include "compiler/memory/frame_layout.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/memory/lower_bound.h"
#include "compiler/memory/pack.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/stop.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/cost/host_memory.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

// Addresses of the registers of a stage, by index in its lifetimes.
struct Layout {
  struct Address {
    int64_t offset = 0, buffers = 0, stride = 0, first_buffer = 0;  // as in proto::Register
  };
  std::vector<Address> addresses;
  int64_t bytes = 0;
};

// Most parts of a piece. A piece with more gets larger parts instead: packing checks every pair.
constexpr int64_t kMostParts = 8192;

ArenaPiece MakePiece(const Lifetime& life) { return {life.spans, {{0, life.bytes(), life.spans}}}; }

// Adds one frame, which a step fills once: a part for each member, or one part for all of them.
void AddFrame(const StageLifetimes& stage, const FrameLayout& frames, int64_t buffer,
              bool by_member, ArenaPiece* piece) {
  const int64_t begin = buffer * frames.bytes;
  Spans any;
  for (const FrameLayout::Member& member : frames.members) {
    const Lifetime& life = stage.registers[member.life];
    const int64_t fill = (buffer + frames.buffers - member.first_buffer) % frames.buffers;
    const Spans spans = FillSpans(life, fill, stage.length);
    if (by_member) {
      piece->parts.push_back({begin + member.offset, life.slot_bytes, spans});
    } else {
      any = UniteSpans(any, spans);
    }
  }
  if (!by_member) piece->parts.push_back({begin, frames.bytes, any});
}

// All frames of a layout as one piece. If a step fills each buffer once, each frame has its own
// lifetime. Otherwise a buffer belongs to another micro-batch in each step, so the lifetime of any
// frame is that of all.
ArenaPiece MakePiece(const StageLifetimes& stage, const FrameLayout& frames) {
  if (!frames.once || frames.buffers > kMostParts) {
    return {frames.spans, {{0, frames.buffers * frames.bytes, frames.spans}}, true};
  }
  const bool by_member = frames.buffers * std::ssize(frames.members) <= kMostParts;
  ArenaPiece piece{frames.spans};
  for (int64_t buffer = 0; buffer < frames.buffers; ++buffer) {
    AddFrame(stage, frames, buffer, by_member, &piece);
  }
  return piece;
}

using Couples = std::vector<std::pair<int, int>>;

// Pairs of single-slot registers that never hold something at the same time, as clocks of streams
// other than compute show: the compute stream learns of a completed send too late to see it.
Couples Apart(const std::vector<Lifetime>& lives) {
  std::vector<int> sent, fetched;
  for (int i = 0; i < std::ssize(lives); ++i) {
    if (lives[i].slots != 1 || lives[i].fills.empty()) continue;
    if (lives[i].sent >= 0) sent.push_back(i);
    if (!lives[i].over.empty()) fetched.push_back(i);
  }
  Couples apart;
  for (int i : fetched) {
    for (int j : sent) {
      const bool alike = i != j && lives[i].fills.size() == lives[j].fills.size();
      if (alike && !MeetInBuffer(lives[i], lives[j], 1)) apart.emplace_back(i, j);
    }
  }
  return apart;
}

// `apart`: pairs of registers, by index in the lifetimes.
Layout AssignOffsets(const StageLifetimes& stage, const Couples& apart,
                     const std::vector<FrameLayout>& frames, int64_t bound) {
  const std::vector<Lifetime>& lives = stage.registers;
  std::vector<bool> framed(lives.size(), false);
  std::vector<int> piece_of(lives.size(), -1);
  std::vector<ArenaPiece> pieces;
  for (const FrameLayout& frame : frames) {
    pieces.push_back(MakePiece(stage, frame));
    for (const FrameLayout::Member& member : frame.members) framed[member.life] = true;
  }
  for (size_t i = 0; i < lives.size(); ++i) {
    if (framed[i]) continue;
    piece_of[i] = static_cast<int>(pieces.size());
    pieces.push_back(MakePiece(lives[i]));
  }
  Couples pieces_apart;
  for (const auto& [a, b] : apart) {
    if (!framed[a] && !framed[b]) pieces_apart.emplace_back(piece_of[a], piece_of[b]);
  }
  const Packing packing = Pack(pieces, pieces_apart, bound);
  Layout layout{std::vector<Layout::Address>(lives.size()), packing.bytes};
  auto offset = packing.offsets.begin();
  for (const FrameLayout& frame : frames) {
    for (const FrameLayout::Member& member : frame.members) {
      layout.addresses[member.life] = {*offset + member.offset, frame.buffers, frame.bytes,
                                       member.first_buffer};
    }
    ++offset;
  }
  for (size_t i = 0; i < lives.size(); ++i) {
    if (!framed[i]) layout.addresses[i].offset = *offset++;
  }
  return layout;
}

// Frames are used only where they save a hundredth of the bytes: the proof finds a steady state
// only after all frames have had their turn, so many frames that save little would make it slower.
// Joins are tried only without rings, and only if the best layout so far exceeds `bound` by a
// fiftieth.
Layout BestLayout(const StageLifetimes& stage, int64_t bound) {
  const Couples apart = Apart(stage.registers);
  Layout plain = AssignOffsets(stage, apart, {}, bound);
  std::optional<Layout> best;
  std::vector<std::vector<FrameLayout>> tried(1);  // at first no frames
  const auto try_frames = [&](const std::vector<BufferRing>& rings, FrameJoin join = {}) {
    for (const bool longer : {false, true}) {
      std::vector<FrameLayout> frames = MakeFrameLayouts(stage, longer, rings, join);
      if (std::find(tried.begin(), tried.end(), frames) != tried.end()) continue;
      Layout framed = AssignOffsets(stage, apart, frames, bound);
      tried.push_back(std::move(frames));
      if (!best || framed.bytes < best->bytes) best = std::move(framed);
    }
  };
  try_frames({});
  const std::vector<BufferRing> rings = FindBufferRings(stage);
  if (!rings.empty()) {
    try_frames(rings);
  } else if (std::min(best ? best->bytes : plain.bytes, plain.bytes) > bound + bound / 50) {
    for (const FrameJoin& join : FrameJoins(stage)) try_frames({}, join);
  }
  return best && best->bytes < plain.bytes - plain.bytes / 100 ? *std::move(best)
                                                               : std::move(plain);
}

// A GPU's host arena may be empty; a CPU device has one where something is in it.
bool NeedsHostArenas(const proto::Plan& plan) {
  const auto of_host = [](const auto& registers) {
    return std::any_of(registers.begin(), registers.end(),
                       [](const proto::Register& r) { return r.memory_kind() == proto::HOST; });
  };
  return plan.device_kind() != proto::CPU || of_host(plan.persistent()) ||
         std::any_of(plan.program().begin(), plan.program().end(),
                     [&](const proto::Program& p) { return of_host(p.register_()); });
}

void AssignPersistent(int stages, proto::Plan* plan) {
  const int arenas = NeedsHostArenas(*plan) ? 2 * stages : stages;
  for (int arena = 0; arena < arenas; ++arena) {
    proto::StageMemory* memory = plan->add_memory();
    memory->set_stage(arena % stages);
    memory->set_kind(arena < stages ? proto::DEVICE : proto::HOST);
  }
  plan->mutable_facts()->mutable_lower_bound_bytes()->Resize(plan->memory_size(), 0);
  for (proto::Register& r : *plan->mutable_persistent()) {
    proto::StageMemory& memory = *plan->mutable_memory(ArenaIndex(r, stages));
    r.set_offset(memory.persistent_bytes());
    memory.set_persistent_bytes(memory.persistent_bytes() + r.slots() * r.slot_bytes());
  }
}

absl::Status AssignProgram(int stages, proto::Plan* plan, proto::Program* program,
                           const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(*plan, *program));
  const std::vector<int64_t> bound = LowerBound(net, stages);
  const std::vector<StageLifetimes> lifetimes = FindLifetimes(net, stages);
  for (int arena = 0; arena < plan->memory_size(); ++arena) {
    RETURN_IF_ERROR(CheckStop(stop));
    const StageLifetimes& stage = lifetimes[arena];
    const Layout layout = BestLayout(stage, bound[arena]);
    proto::StageMemory& memory = *plan->mutable_memory(arena);
    for (size_t i = 0; i < layout.addresses.size(); ++i) {
      const auto& [offset, buffers, stride, first_buffer] = layout.addresses[i];
      proto::Register& r =
          *program->mutable_register_(stage.registers[i].reg - plan->persistent_size());
      r.set_offset(memory.persistent_bytes() + offset);
      r.set_buffers(static_cast<int>(buffers));
      r.set_stride(stride);
      r.set_first_buffer(static_cast<int>(first_buffer));
    }
    memory.set_register_bytes(std::max(memory.register_bytes(), layout.bytes));
    int64_t* most = plan->mutable_facts()->mutable_lower_bound_bytes()->Mutable(arena);
    *most = std::max(*most, bound[arena]);
  }
  return absl::OkStatus();
}

}  // namespace

std::string LargestRegisters(const proto::Plan& plan, int stage, proto::MemoryKind kind) {
  std::vector<std::pair<int64_t, const proto::Register*>> sizes;
  std::set<int> workspaces;
  const auto add = [&](const proto::Register& r) {
    if (r.stage() != stage || r.memory_kind() != kind || workspaces.contains(r.id())) return;
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

absl::Status BoundMemory(int stages, proto::Plan* plan) {
  AssignPersistent(stages, plan);
  std::vector<int64_t> most(plan->memory_size(), 0);
  for (const proto::Program& program : plan->program()) {
    ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(*plan, program));
    const std::vector<int64_t> bound = LowerBound(net, stages);
    for (size_t arena = 0; arena < most.size(); ++arena) {
      most[arena] = std::max(most[arena], bound[arena]);
    }
  }
  for (int arena = 0; arena < plan->memory_size(); ++arena) {
    plan->mutable_facts()->set_lower_bound_bytes(
        arena, most[arena] + plan->memory(arena).persistent_bytes());
  }
  return absl::OkStatus();
}

absl::Status PlanMemory(int stages, proto::Plan* plan, const std::stop_token& stop) {
  AssignPersistent(stages, plan);
  for (int i = 0; i < plan->program_size(); ++i) {
    RETURN_IF_ERROR(AssignProgram(stages, plan, plan->mutable_program(i), stop));
  }
  for (int arena = 0; arena < plan->memory_size(); ++arena) {
    proto::StageMemory& memory = *plan->mutable_memory(arena);
    memory.set_arena_bytes(memory.persistent_bytes() + memory.register_bytes());
    int64_t* most = plan->mutable_facts()->mutable_lower_bound_bytes()->Mutable(arena);
    *most += memory.persistent_bytes();
  }
  return absl::OkStatus();
}

absl::Status CheckCapacity(const proto::Plan& plan, const proto::Device& device) {
  const int64_t capacity = UsableBytes(device);
  if (capacity <= 0) return absl::OkStatus();
  for (const proto::StageMemory& memory : plan.memory()) {
    if (memory.kind() != proto::DEVICE || memory.arena_bytes() <= capacity) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "memory of stage ", memory.stage(), ": needs ", BytesText(memory.arena_bytes()),
        ", a device has ", BytesText(device.memory_bytes()), KeptText(KeptBytes(device)), ": ",
        BytesText(memory.arena_bytes() - capacity), " too many (weights and optimizer ",
        BytesText(memory.persistent_bytes()), ", registers and workspaces ",
        BytesText(memory.register_bytes()),
        "); the largest: ", LargestRegisters(plan, memory.stage())));
  }
  return absl::OkStatus();
}

absl::Status CheckHostCapacity(const proto::Plan& plan, const proto::Cluster& cluster,
                               int64_t capacity) {
  if (capacity <= 0 || !HasHostArenas(plan)) return absl::OkStatus();
  const NodeMemory node = FindNodeMemory(plan, cluster);
  if (node.bytes <= capacity) return absl::OkStatus();
  int stage = node.first_stage;  // of which a device takes most
  for (int s = stage; s <= node.last_stage; ++s) {
    if (HostArenaBytes(plan, s) > HostArenaBytes(plan, stage)) stage = s;
  }
  const proto::StageMemory& memory = plan.memory(ArenaIndex(proto::HOST, stage, StageCount(plan)));
  return absl::ResourceExhaustedError(absl::StrCat(
      "memory of the host: node ", node.node, " needs ", BytesText(node.bytes), " for its ",
      node.devices, node.devices == 1 ? " device" : " devices", ", and may take ",
      BytesText(capacity), ": ", BytesText(node.bytes - capacity), " too many (a device of stage ",
      stage, ": weights and optimizer ", BytesText(memory.persistent_bytes()), ", registers ",
      BytesText(memory.register_bytes()),
      "); the largest: ", LargestRegisters(plan, stage, proto::HOST),
      "; offload less, of activations a smaller share as in --offload=activations:0.5, or use "
      "more nodes"));
}

}  // namespace oneflow
