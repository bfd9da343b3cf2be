#include "tests/cluster/painter.h"

#include <algorithm>
#include <cstring>

namespace oneflow::cluster {
namespace {

const proto::Register& RegisterWithId(const proto::Plan& plan, const proto::Program& program,
                                      int id) {
  return id < plan.persistent_size() ? plan.persistent(id)
                                     : program.register_(id - plan.persistent_size());
}

int64_t Stride(const proto::Register& reg) {
  return reg.stride() > 0 ? reg.stride() : reg.slot_bytes();
}

int BufferCount(const proto::Register& reg) { return std::max(reg.buffers(), reg.slots()); }

// True if they may have bytes in common; conservative for interleaved buffers.
bool Overlap(const proto::Register& a, const proto::Register& b) {
  const auto end = [](const proto::Register& r) {
    return r.offset() + (BufferCount(r) - 1) * Stride(r) + r.slot_bytes();
  };
  return a.offset() < end(b) && b.offset() < end(a);
}

}  // namespace

Painter::Painter(const proto::Plan& plan, int stage, std::byte* arena) : arena_(arena) {
  for (const proto::Program& program : plan.program()) {
    std::map<int, int> readers;  // by register
    for (const proto::Actor& actor : program.actor()) {
      for (const proto::Input& input : actor.input()) ++readers[input.register_()];
    }
    Buffers& inputs = inputs_[program.name()];
    Buffers& outputs = outputs_[program.name()];
    for (const proto::Actor& actor : program.actor()) {
      if (!actor.has_exchange() || actor.stage() != stage) continue;
      const auto is_apart = [&](const proto::Register& reg, bool from_inputs) {
        bool apart = true;
        for (const proto::Input& input : actor.input()) {
          const proto::Register& other = RegisterWithId(plan, program, input.register_());
          if (from_inputs) apart = apart && !Overlap(reg, other);
        }
        for (const int id : actor.output()) {
          const proto::Register& other = RegisterWithId(plan, program, id);
          if (!from_inputs) apart = apart && !Overlap(reg, other);
        }
        return apart;
      };
      for (const proto::Input& input : actor.input()) {
        const proto::Register& reg = RegisterWithId(plan, program, input.register_());
        const bool given_back = input.register_() >= plan.persistent_size() &&
                                readers[input.register_()] == 1 && input.fires_per_read() <= 1;
        Add(reg, given_back && is_apart(reg, false), &inputs);
      }
      for (const int id : actor.output()) {
        const proto::Register& reg = RegisterWithId(plan, program, id);
        const bool anew = id >= plan.persistent_size() &&
                          reg.fill_mode() == proto::Register::FRESH && reg.fires_per_fill() <= 1;
        Add(reg, anew && is_apart(reg, true), &outputs);
      }
    }
  }
}

void Painter::Add(const proto::Register& reg, bool may_paint, Buffers* buffers) {
  for (int buffer = 0; buffer < BufferCount(reg); ++buffer) {
    const int64_t bytes = may_paint ? reg.slot_bytes() : 0;
    const auto [at, added] = buffers->emplace(reg.offset() + buffer * Stride(reg), bytes);
    if (!added) at->second = std::min(at->second, bytes);
  }
}

std::span<std::byte> Painter::Find(const std::map<std::string, Buffers>& of,
                                   const std::byte* address) const {
  const auto program = of.find(program_);
  if (program == of.end() || address == nullptr) return {};
  const auto found = program->second.find(address - arena_);
  if (found == program->second.end()) return {};
  found_ += found->second > 0 ? 1 : 0;
  return {arena_ + found->first, static_cast<size_t>(found->second)};
}

void Painter::Paint(std::span<std::byte> bytes) {
  if (!bytes.empty()) std::memset(bytes.data(), 0xff, bytes.size());
}

}  // namespace oneflow::cluster
