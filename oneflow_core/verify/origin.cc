#include "oneflow_core/verify/checks.h"

#include <algorithm>
#include <vector>

#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {

Origin FindOrigin(const PlanNet& net, int reg) {
  for (size_t moves = 0; moves <= net.actors.size(); ++moves) {
    const int writer = net.registers[reg].writer;
    if (writer < 0) break;
    const proto::Actor& actor = net.actor(writer);
    if (!actor.has_boxing()) return {writer, reg};
    if (IsFill(actor.kernel())) break;
    const std::vector<int> out = DataOutputs(*net.plan, *net.program, actor);
    const bool received = actor.exchange().has_partner();
    const std::vector<int> in = DataInputs(
        *net.plan, *net.program, received ? net.actor(actor.exchange().partner()) : actor);
    reg = in[std::find(out.begin(), out.end(), reg) - out.begin()];
  }
  return {};
}

}  // namespace oneflow
