#include "oneflow_core/plan/address_period.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

// 0 is more than can be counted, or nonsense.
int64_t LeastCommonMultiple(int64_t a, int64_t b) {
  int64_t multiple = 0;
  if (a <= 0 || b <= 0 || __builtin_mul_overflow(a / std::gcd(a, b), b, &multiple)) return 0;
  return multiple;
}

// How often each segment's actors fire while all streams go once through their orders.
std::vector<int64_t> FiringsOfSegments(const proto::Program& program) {
  std::vector<int64_t> firings(program.segment_size(), 0);
  for (const proto::Stream& stream : program.stream()) {
    for (const proto::OrderRun& run : stream.order()) {
      for (const int segment : run.segment()) {
        if (segment >= 0 && segment < program.segment_size()) firings[segment] += run.repeat();
      }
    }
  }
  return firings;
}

}  // namespace

AddressPeriod FindAddressPeriod(const proto::Plan& plan, const proto::Program& program) {
  const std::vector<int64_t> of_segment = FiringsOfSegments(program);
  const int64_t steps = std::max<int64_t>(1, program.steps_a_round());
  AddressPeriod period;
  for (int s = 0; s < program.segment_size(); ++s) {
    for (const int a : program.segment(s).actor()) {
      if (a < 0 || a >= program.actor_size()) continue;
      const proto::Actor& actor = program.actor(a);
      const auto add = [&](int id) {
        const proto::Register* r = FindRegister(plan, program, id);
        if (r == nullptr || r->slot_bytes() <= 0) return;
        const int64_t buffers = BufferCount(*r), fires_per_fill = r->fires_per_fill();
        if (buffers <= 0 || fires_per_fill <= 0) {
          period = {0, 0};
          return;
        }
        if (buffers == 1) return;
        // In a round; of a step, where all steps of a round are alike.
        const int64_t fills = of_segment[s] / fires_per_fill;
        const bool alike = fills % steps == 0;
        const int64_t rounds = buffers / std::gcd(buffers, alike ? fills / steps : fills);
        int64_t in_steps = rounds;
        if (!alike && __builtin_mul_overflow(rounds, steps, &in_steps)) in_steps = 0;
        period.steps = LeastCommonMultiple(period.steps, in_steps);
        const bool often = fills > steps;
        if (often) period.micro_batches = LeastCommonMultiple(period.micro_batches, buffers);
      };
      for (const int id : actor.output()) add(id);
      if (actor.has_workspace()) add(actor.workspace());
    }
  }
  return period;
}

}  // namespace oneflow
