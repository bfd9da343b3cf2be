#include "oneflow_core/print/variable_json.h"

#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

Json LayoutsJson(const proto::Plan& plan, const std::vector<const proto::Register*>& registers) {
  Json list = Json::array();
  for (const proto::Register* r : registers) {
    Json splits = Json::object();
    for (const auto& split : r->layout().split()) {
      splits[plan.mesh().axis(split.axis()).name()] = split.dim();
    }
    list.push_back({{"dtype", DataTypeText(r->dtype())}, {"split", std::move(splits)}});
  }
  return list;
}

Json AxesJson(const proto::Plan& plan, const std::set<int>& axes) {
  Json list = Json::array();
  for (const int axis : axes) list.push_back(plan.mesh().axis(axis).name());
  return list;
}

}  // namespace

Json VariableJson(const proto::Plan& plan, const VariableLayouts& v) {
  return {{"states", LayoutsJson(plan, v.states)},
          {"gradients", LayoutsJson(plan, v.gradients)},
          {"weights", LayoutsJson(plan, v.weights)},
          {"gathered",
           {{"once", AxesJson(plan, v.gathered_once)},
            {"each_micro_batch", AxesJson(plan, v.gathered_each_micro_batch)},
            {"a_micro_batch", v.gathers_a_micro_batch},
            {"ahead", v.ahead}}},
          {"reduced",
           {{"once", AxesJson(plan, v.reduced_once)},
            {"each_micro_batch", AxesJson(plan, v.reduced_each_micro_batch)}}},
          {"host",
           {{"states", v.states_on_host},
            {"weights", v.copies_a_micro_batch > 0},
            {"updates", v.host_updates},
            {"copied_once", v.copied_once},
            {"copies_a_micro_batch", v.copies_a_micro_batch}}}};
}

}  // namespace oneflow
