#include "oneflow_core/verify/frames.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "oneflow_core/plan/buffers.h"

namespace oneflow {
namespace {

int64_t FillsPerStep(const PlanNet& net, const NetRegister& r) {
  return net.actors[r.writer].firings / r.fires_per_fill;
}

// Sort key: first the properties that all members of frames share, then the offset.
auto FrameKey(const PlanNet& net, const NetRegister* r) {
  const proto::Register& p = *r->proto;
  return std::tuple(std::pair(p.stage(), p.memory_kind()), BufferCount(p), BufferStride(p),
                    FillsPerStep(net, *r), p.offset(), p.id());
}

template <typename Key>
bool Alike(const Key& a, const Key& b) {
  return std::get<0>(a) == std::get<0>(b) && std::get<1>(a) == std::get<1>(b) &&
         std::get<2>(a) == std::get<2>(b) && std::get<3>(a) == std::get<3>(b);
}

std::vector<int> FindConflicting(const PlanNet& net, const Frames& frames) {
  std::vector<int> conflicting;
  for (const NetRegister& r : net.registers) {
    const proto::Register& p = *r.proto;
    if (r.persistent || p.slot_bytes() == 0) continue;
    if (p.stage() != frames.stage || p.memory_kind() != frames.memory_kind) continue;
    if (!Overlaps(p, frames.begin, frames.end())) continue;
    const auto& members = frames.members;
    if (std::find(members.begin(), members.end(), p.id()) == members.end()) {
      conflicting.push_back(p.id());
    }
  }
  return conflicting;
}

}  // namespace

bool FillsBuffersOnce(const PlanNet& net, const NetRegister& r) {
  return r.writer >= 0 && HasInterleavedBuffers(*r.proto) &&
         BufferCount(*r.proto) == FillsPerStep(net, r);
}

std::vector<Frames> FindFrames(const PlanNet& net) {
  std::vector<const NetRegister*> apart;
  for (const NetRegister& r : net.registers) {
    if (r.writer >= 0 && HasInterleavedBuffers(*r.proto) && !FillsBuffersOnce(net, r))
      apart.push_back(&r);
  }
  std::sort(apart.begin(), apart.end(), [&](const NetRegister* a, const NetRegister* b) {
    return FrameKey(net, a) < FrameKey(net, b);
  });
  std::vector<Frames> result;
  for (size_t i = 0; i < apart.size(); ++i) {
    const proto::Register& p = *apart[i]->proto;
    const bool fits = i > 0 && Alike(FrameKey(net, apart[i - 1]), FrameKey(net, apart[i])) &&
                      p.offset() + p.slot_bytes() <= result.back().begin + result.back().stride;
    if (!fits)
      result.push_back({p.stage(), p.memory_kind(), p.offset(), BufferStride(p), BufferCount(p)});
    result.back().members.push_back(p.id());
  }
  for (Frames& frames : result) frames.conflicting = FindConflicting(net, frames);
  return result;
}

}  // namespace oneflow
