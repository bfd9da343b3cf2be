#include "actor_runtime/simulate/model_rates.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// 0 where it is unknown.
double FindPeak(const proto::Device& device, DType dtype) {
  const bool bf16 = dtype == DType::kBF16 && device.peak_flops_bf16() > 0;
  return bf16 ? device.peak_flops_bf16() : device.peak_flops();
}

// The FLOPs of the matrix products of one firing, of all devices together: layouts have the
// dimensions of the full tensors. Other work of a fused kernel (a bias, gelu) counts as none.
double ProductFlops(const proto::Plan& plan, const proto::Program& program,
                    const proto::Actor& actor) {
  const absl::StatusOr<AttrMap> attrs = AttrsFromProto(actor.attr(), actor.name());
  const OpDef* def = attrs.ok() ? FindOpDef(actor.kernel(), *attrs) : nullptr;
  if (def == nullptr || !def->HasProducts()) return 0;
  const auto dims = [&](int id) {
    const auto& of = FindRegister(plan, program, id)->layout().dim();
    return Dims(of.begin(), of.end());
  };
  LocalOp all{*attrs, {}, {}};
  for (const int id : DataInputs(plan, program, actor)) all.in.push_back(dims(id));
  for (const int id : actor.output()) all.out.push_back(dims(id));
  if (!def->product) return def->dense_flops ? def->dense_flops(all) : 0;
  const ProductSpec p = def->product(all);
  return 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n) *
         static_cast<double>(p.k);
}

struct Sums {
  double flops = 0, seconds = 0;  // of all devices; at the peak
  bool known = true;              // the peak

  void Add(double more, double peak) {
    flops += more;
    known = known && peak > 0;
    if (peak > 0) seconds += more / peak;
  }
};

}  // namespace

absl::StatusOr<ModelRates> FindModelRates(const proto::Plan& plan, std::string_view name,
                                          const proto::Cluster& cluster, double step_seconds) {
  ASSIGN_OR_RETURN(const proto::Program* program, FindProgramByFlag(plan, name));
  // By actor of the program. Segments are named by their phase: proto/plan.proto, Segment.
  std::vector<char> in_forward(program->actor_size(), 0);
  bool trains = false;
  for (const proto::Segment& segment : program->segment()) {
    trains = trains || segment.name().starts_with("B");
    if (!segment.name().starts_with("F")) continue;
    for (const int actor : segment.actor()) in_forward[actor] = 1;
  }
  const proto::ProgramFacts& facts = FindFacts(plan, *program);
  const std::vector<double> firings = FiringsPerStep(*program);
  Sums forward, recomputation;
  for (int a = 0; a < program->actor_size(); ++a) {
    const proto::Actor& actor = program->actor(a);
    const bool recomputed = FindFacts(facts, a).recomputed();
    if (!(in_forward[a] || recomputed)) continue;
    const double flops = firings[a] * ProductFlops(plan, *program, actor);
    if (flops == 0) continue;
    const proto::Register& typed = *FindRegister(plan, *program, actor.input(0).register_());
    ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(typed.dtype(), typed.name()));
    (recomputed ? recomputation : forward).Add(flops, FindPeak(cluster.device(), dtype));
  }
  double devices = 1;
  for (const proto::Mesh::Axis& axis : plan.mesh().axis()) devices *= axis.size();
  // The orders hold a round of steps.
  const double steps = static_cast<double>(std::max<int64_t>(1, program->steps_a_round()));
  const double passes = trains ? 3 : 1;
  ModelRates rates;
  rates.model_flops = passes * forward.flops / steps;
  rates.hardware_flops = rates.model_flops + recomputation.flops / steps;
  if (step_seconds <= 0) return rates;
  rates.model_flops_a_device_second = rates.model_flops / devices / step_seconds;
  if (forward.flops > 0 && forward.known && recomputation.known) {
    const double all = devices * step_seconds * steps;
    rates.mfu = passes * forward.seconds / all;
    rates.hfu = (passes * forward.seconds + recomputation.seconds) / all;
  }
  return rates;
}

}  // namespace oneflow
