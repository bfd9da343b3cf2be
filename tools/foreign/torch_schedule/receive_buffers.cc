#include "tools/foreign/torch_schedule/receive_buffers.h"

#include <algorithm>

#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {

std::vector<int64_t> ReceiveBytesBeyond(const proto::Plan& plan) {
  std::vector<int64_t> bytes;
  const proto::Program* program = FindProgram(plan, "train");
  if (program == nullptr) return bytes;
  for (const proto::Stream& stream : program->stream()) {
    bytes.resize(std::max<size_t>(bytes.size(), stream.stage() + 1), 0);
  }
  const std::vector<double> firings = FiringsPerStep(*program);
  const int64_t micro_batches = program->micro_batches();
  for (const proto::Actor& actor : program->actor()) {
    // What is received once a step, as a norm, is no part of the pipeline's order.
    if (!IsReceive(actor.kernel()) || firings[actor.id()] != static_cast<double>(micro_batches)) {
      continue;
    }
    for (const int id : actor.output()) {
      const proto::Register* r = FindRegister(plan, *program, id);
      if (r == nullptr) continue;
      const int64_t kept = std::max(r->slots(), r->buffers());
      bytes[actor.stage()] += std::max<int64_t>(0, micro_batches - kept) * r->slot_bytes();
    }
  }
  return bytes;
}

}  // namespace oneflow
