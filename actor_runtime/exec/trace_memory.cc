#include "actor_runtime/exec/trace_memory.h"

#include <algorithm>
#include <optional>

#include "actor_runtime/exec/trace.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

using Curve = std::vector<std::pair<int64_t, int64_t>>;  // moment, bytes more (or fewer)

const TraceEvent* Find(const TracedFirings& firings, int32_t actor, int64_t firing) {
  const auto event = firings.find({actor, firing});
  return event == firings.end() ? nullptr : event->second;
}

int32_t FiresPerRead(const ActorSpec& reader, uint32_t port) {
  for (const ActorInput& input : reader.inputs) {
    const int64_t at = static_cast<int64_t>(port) - input.first_source;
    if (at >= 0 && at < input.n_sources) return input.fires_per_read;
  }
  return 1;
}

// The end of the last reader of a fill; nothing if it is not traced.
std::optional<int64_t> FindEnd(const ActorNet& net, const TracedFirings& firings,
                               const ActorSpec& writer, const ActorOutput& output, int64_t fill,
                               int64_t written) {
  int64_t end = written;
  for (int32_t q = output.first_reader; q < output.first_reader + output.n_readers; ++q) {
    const ActorPeer& peer = writer.readers[q];
    const int32_t reader = net.Find(static_cast<int32_t>(writer.rank), peer.actor);
    const int64_t rate = FiresPerRead(net.specs[reader], peer.port);
    const TraceEvent* last = Find(firings, reader, (fill + peer.initial_fills + 1) * rate - 1);
    if (last == nullptr) return std::nullopt;
    end = std::max(end, last->end_ns);
  }
  return end;
}

void AddFill(const ActorNet& net, const TracedFirings& firings, const TraceEvent& event,
             const ActorOutput& output, int64_t bytes, Curve* changes) {
  const int64_t rate = output.fires_per_fill;
  if (event.firing % rate != 0) return;
  changes->push_back({event.begin_ns, bytes});
  const int64_t fill = event.firing / rate;
  const TraceEvent* filled = Find(firings, event.actor, (fill + 1) * rate - 1);
  if (filled == nullptr) return;
  const std::optional<int64_t> end =
      FindEnd(net, firings, net.specs[event.actor], output, fill, filled->end_ns);
  if (end) changes->push_back({*end, -bytes});
}

// Bytes that are returned at a moment are free for fills that begin at it.
Curve Accumulated(Curve changes, int64_t known) {
  std::sort(changes.begin(), changes.end());
  Curve curve;
  int64_t bytes = 0;
  for (const auto& [time, change] : changes) {
    if (time > known) break;
    bytes += change;
    if (curve.empty() || curve.back().first != time) curve.push_back({time, 0});
    curve.back().second = bytes;
  }
  return curve;
}

}  // namespace

std::map<int32_t, Curve> TracedMemory(const proto::Plan& plan, const ActorNet& net,
                                      const TracedFirings& firings, int64_t known,
                                      proto::MemoryKind kind) {
  const proto::Program& program = plan.program(static_cast<int>(net.program_index));
  std::map<int32_t, Curve> changes;
  for (const auto& [key, event] : firings) {
    const ActorSpec& spec = net.specs[event->actor];
    const proto::Actor& actor = program.actor(static_cast<int>(spec.actor));
    for (int i = 0; i < actor.output_size(); ++i) {
      if (actor.output(i) < plan.persistent_size()) continue;
      const proto::Register* r = FindRegister(plan, program, actor.output(i));
      if (r == nullptr || r->slot_bytes() == 0 || r->memory_kind() != kind) continue;
      AddFill(net, firings, *event, spec.outputs[i], r->slot_bytes(),
              &changes[static_cast<int32_t>(spec.rank)]);
    }
  }
  for (auto& [rank, curve] : changes) curve = Accumulated(std::move(curve), known);
  return changes;
}

}  // namespace oneflow
