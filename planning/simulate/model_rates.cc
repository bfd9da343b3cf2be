#include "planning/simulate/model_rates.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/band.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// 0 where it is unknown.
double FindPeak(const proto::Device& device, DType dtype) {
  const bool bf16 = dtype == DType::kBF16 && device.peak_flops_bf16() > 0;
  return bf16 ? device.peak_flops_bf16() : device.peak_flops();
}

// Of one firing, of all devices together: layouts have the dimensions of the full tensors. Other
// work of a fused kernel (a bias, gelu) counts as none.
CountedFlops CountFlops(const proto::Plan& plan, const proto::Program& program,
                        const proto::Actor& actor) {
  const absl::StatusOr<AttrMap> attrs = AttrsFromProto(actor.attr(), actor.name());
  const OpDef* def = attrs.ok() ? FindOpDef(actor.kernel(), *attrs) : nullptr;
  if (def == nullptr || !def->HasProducts()) return {};
  const auto dims = [&](int id) {
    const auto& of = FindRegister(plan, program, id)->layout().dim();
    return Dims(of.begin(), of.end());
  };
  LocalOp all{*attrs, {}, {}};
  for (const int id : DataInputs(plan, program, actor)) all.in.push_back(dims(id));
  for (const int id : actor.output()) all.out.push_back(dims(id));
  if (def->counted_flops) return def->counted_flops(all);
  if (!def->product) return {};
  const ProductSpec p = def->product(all);
  return {.model = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) *
                   static_cast<double>(p.n) * static_cast<double>(p.k)};
}

// A token reads as many slices of each weight and bias of experts as it chooses experts.
void CountParameters(const proto::Plan& plan, ModelRates* rates) {
  double choices = 0;
  for (const proto::Op& op : plan.graph().op()) {
    const auto find = [&](const char* name) {
      const auto found = op.attr().find(name);
      return found == op.attr().end() ? 0 : found->second.i();
    };
    rates->has_window = rates->has_window || find("window") > 0;
    choices = std::max(choices, static_cast<double>(find("choices")));
  }
  std::map<std::string, double> idle;  // by weight: elements that a token does not read
  for (const proto::Variable& variable : plan.variable()) {
    double elements = 1;
    for (const int64_t d : variable.layout().dim()) elements *= static_cast<double>(d);
    if (variable.layout().dim().empty() || elements == 0) continue;
    idle[variable.name()] =
        elements * std::max(0.0, 1 - choices / static_cast<double>(variable.layout().dim(0)));
  }
  rates->parameters = rates->active_parameters = static_cast<double>(ParameterCount(plan));
  for (const proto::Op& op : plan.graph().op()) {
    if (op.kind() != "expert_linear") continue;
    rates->active_parameters -= idle[op.input(1)];
    if (op.input_size() > 3) rates->active_parameters -= idle[op.input(3)];
  }
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
  const proto::ProgramFacts& facts = FindFacts(plan, *program);
  const std::vector<double> firings = FiringsPerStep(*program);
  Sums model, repeated, model_hidden, repeated_hidden;
  for (int a = 0; a < program->actor_size(); ++a) {
    const proto::Actor& actor = program->actor(a);
    const CountedFlops flops = CountFlops(plan, *program, actor);
    if (flops.model == 0 || firings[a] == 0) continue;
    const proto::Register& typed = *FindRegister(plan, *program, actor.input(0).register_());
    ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(typed.dtype(), typed.name()));
    const double peak = FindPeak(cluster.device(), dtype);
    const bool recomputed = FindFacts(facts, a).recomputed();
    (recomputed ? repeated : model).Add(firings[a] * flops.model, peak);
    (recomputed ? repeated_hidden : model_hidden).Add(firings[a] * flops.hidden, peak);
    repeated.Add(firings[a] * flops.recomputed, peak);
  }
  double devices = 1;
  for (const proto::Mesh::Axis& axis : plan.mesh().axis()) devices *= axis.size();
  ModelRates rates;
  CountParameters(plan, &rates);
  rates.model_flops = model.flops;
  rates.hidden_flops = model_hidden.flops;
  rates.hardware_flops = rates.model_flops + repeated.flops;
  if (step_seconds <= 0) return rates;
  rates.model_flops_a_device_second = rates.model_flops / devices / step_seconds;
  if (model.flops > 0 && model.known && repeated.known) {
    const double all = devices * step_seconds;
    rates.mfu = model.seconds / all;
    rates.hfu = (model.seconds + repeated.seconds) / all;
    rates.mfu_hidden = model_hidden.seconds / all;
    rates.hfu_hidden = (model_hidden.seconds + repeated_hidden.seconds) / all;
  }
  return rates;
}

std::string WhatCounts(const ModelRates& rates) {
  constexpr double kNotable = 0.05;
  std::vector<std::string> parts;
  const double hidden = rates.model_flops > 0 ? rates.hidden_flops / rates.model_flops : 0;
  const double mfu = rates.mfu.value_or(0);
  const bool is_said = mfu > 1 && mfu - rates.mfu_hidden <= 1;  // by WhyAboveAll
  if (!is_said && (rates.has_window || hidden >= kNotable)) {
    parts.push_back(absl::StrCat(rates.has_window ? "pairs of the window" : "t² pairs", ", ",
                                 PercentText(hidden), " of it hidden by causality"));
  }
  if (rates.active_parameters < rates.parameters) {
    parts.push_back(absl::StrCat(CountText(rates.active_parameters), " of ",
                                 CountText(rates.parameters), " parameters active"));
  }
  return absl::StrJoin(parts, "; ");
}

std::string WhyAboveAll(double utilization, double hidden) {
  if (utilization <= 1) return "";
  if (utilization - hidden <= 1) {
    return absl::StrCat(
        "above 100 % because pairs that causality hides count, as in published "
        "figures; without them ",
        PercentText(utilization - hidden));
  }
  return "above 100 % because the cluster's times of kernels are shorter than its peak allows";
}

}  // namespace oneflow
