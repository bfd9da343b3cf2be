#include "oneflow_core/print/variable_text.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/print/fold.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/print/table.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;
using Registers = std::vector<const proto::Register*>;

// `unsplit`: the word for what no axis splits.
std::string LayoutsText(const proto::Plan& plan, const Registers& registers,
                        const std::string& unsplit = "replicated") {
  std::vector<std::string> texts;
  for (const proto::Register* r : registers) {
    std::vector<int> axes;
    for (const auto& split : r->layout().split()) axes.push_back(split.axis());
    const std::string of_axes = axes.empty() ? unsplit : AxesText(plan, axes);
    const bool plain = r->dtype() == proto::F32 && registers.size() == 1;
    texts.push_back(plain ? of_axes : absl::StrCat(DataTypeText(r->dtype()), " ", of_axes));
  }
  return texts.empty() ? "-" : absl::StrJoin(texts, ", ");
}

std::string StepTimesText(const proto::Plan& plan, const std::set<int>& once,
                          const std::string& how_often, const std::set<int>& each,
                          const std::string& tail = "") {
  std::vector<std::string> texts;
  if (!once.empty()) texts.push_back("once over " + AxesText(plan, once));
  if (!each.empty()) {
    texts.push_back(absl::StrCat(how_often, " over ", AxesText(plan, each), tail));
  }
  return texts.empty() ? "-" : absl::StrJoin(texts, ", ");
}

std::string HostText(const VariableLayouts& v) {
  std::vector<std::string> texts;
  if (v.host_updates) {
    texts.emplace_back("states and update");
  } else if (v.states_on_host) {
    texts.emplace_back("states in the update");
  }
  if (v.copies_a_micro_batch > 0) {
    texts.push_back(absl::StrCat("weights ", v.copies_a_micro_batch, " a micro-batch"));
  } else if (v.copied_once) {
    texts.emplace_back("weights once a step");
  }
  return texts.empty() ? "-" : absl::StrJoin(texts, ", ");
}

VariableGroup Describe(const proto::Plan& plan, const VariableLayouts& v) {
  const std::string ahead = v.ahead > 0 ? absl::StrCat(" (", v.ahead, " ahead)") : "";
  return {.name = v.variable->name(),
          .variables = {&v},
          .states = v.variable->read_only() ? "frozen" : LayoutsText(plan, v.states),
          .gradient = LayoutsText(plan, v.gradients, "full"),
          .weight = LayoutsText(plan, v.weights),
          .gathered = StepTimesText(plan, v.gathered_once,
                                    absl::StrCat(v.gathers_a_micro_batch, " a micro-batch"),
                                    v.gathered_each_micro_batch, ahead),
          .reduced =
              StepTimesText(plan, v.reduced_once, "each micro-batch", v.reduced_each_micro_batch),
          .host = HostText(v)};
}

// Of --shard and --reduce: axes that split tokens (oneflow_core/model/sharding.h).
bool IsData(const proto::Plan& plan, int axis) {
  if (axis < 0 || axis >= plan.mesh().axis_size()) return false;
  const std::string& name = plan.mesh().axis(axis).name();
  const std::string word = name.substr(0, name.find('.'));
  return word == "data" || word == "expert" || word == "context";
}

std::set<int> DataAxes(const proto::Plan& plan, const std::set<int>& axes) {
  std::set<int> data;
  std::copy_if(axes.begin(), axes.end(), std::inserter(data, data.end()),
               [&](int axis) { return IsData(plan, axis); });
  return data;
}

std::set<int> SplitAxes(const Registers& registers) {
  std::set<int> axes;
  for (const proto::Register* r : registers) {
    for (const auto& split : r->layout().split()) axes.insert(split.axis());
  }
  return axes;
}

// What decides on the order of sums, of all variables.
struct Sums {
  bool split = false;
  std::set<int> each_micro_batch;  // data axes
  bool apart = false;              // other axes, or factors of one, are summed once a step
  std::set<int> by_factors;        // axes, or factors of one, that are summed one after another
  int64_t largest = 1;             // group of devices

  Sums(const proto::Plan& plan, const VariableLayouts& v) {
    const std::set<int> states = SplitAxes(v.states), gradients = SplitAxes(v.gradients);
    split = !DataAxes(plan, states).empty() || !DataAxes(plan, gradients).empty();
    each_micro_batch = DataAxes(plan, v.reduced_each_micro_batch);
    each_micro_batch.merge(DataAxes(plan, v.sliced_each_micro_batch));
    for (const std::set<int>& axes : {v.reduced_once, v.reduced_each_micro_batch}) {
      int64_t group = 1;
      for (const int axis : axes) group *= plan.mesh().axis(axis).size();
      largest = std::max(largest, group);
      if (axes.size() > 1 && split) by_factors.insert(axes.begin(), axes.end());
    }
    apart = !DataAxes(plan, v.reduced_each_micro_batch).empty() && !v.reduced_once.empty();
  }

  void Join(const Sums& other) {
    split |= other.split;
    each_micro_batch.insert(other.each_micro_batch.begin(), other.each_micro_batch.end());
    apart |= other.apart;
    by_factors.insert(other.by_factors.begin(), other.by_factors.end());
    largest = std::max(largest, other.largest);
  }
};

// "each_micro_batch", "each_micro_batch:data.1".
std::string ReduceFlag(const proto::Plan& plan, const std::set<int>& axes) {
  bool all = true;
  for (int axis = 0; axis < plan.mesh().axis_size(); ++axis) {
    const bool reduces = IsData(plan, axis) && plan.mesh().axis(axis).size() > 1;
    all &= !reduces || axes.contains(axis);
  }
  return absl::StrCat("--reduce=each_micro_batch", all ? "" : ":" + AxesText(plan, axes));
}

Json LayoutsJson(const proto::Plan& plan, const Registers& registers) {
  return JsonList(registers, [&](const proto::Register* r) -> Json {
    Json splits = Json::object();
    for (const auto& split : r->layout().split()) {
      splits[plan.mesh().axis(split.axis()).name()] = split.dim();
    }
    return {{"dtype", DataTypeText(r->dtype())}, {"split", std::move(splits)}};
  });
}

Json AxesJson(const proto::Plan& plan, const std::set<int>& axes) {
  return JsonList(axes, [&](int axis) { return plan.mesh().axis(axis).name(); });
}

// What --shard and --reduce do to the bits.
std::string SumsBitsText(const proto::Plan& plan, const Sums& sums) {
  const std::string plain = sums.split ? "the plan without --shard" : "the plan without --reduce";
  if (!sums.by_factors.empty()) {
    return absl::StrCat("within rounding of ", plain, ": gradients are summed over ",
                        AxesText(plan, sums.by_factors), " axis by axis");
  }
  std::string text = "equal to those of " + plain;
  if (!sums.each_micro_batch.empty() && (plan.recipe().micro_batches() > 1 || sums.apart)) {
    text = absl::StrCat("gradients are reduced over ", AxesText(plan, sums.each_micro_batch),
                        " with every micro-batch, so sums have another order than once a step");
    if (sums.split) {
      absl::StrAppend(&text, "; equal to those of ", plain, " and with ",
                      ReduceFlag(plan, sums.each_micro_batch));
    }
  }
  if (plan.device_kind() == proto::CUDA && sums.largest > 2) {
    text += "; NCCL sums more than two values in its own order, so GPUs agree within rounding";
  }
  return text;
}

// What --offload and --update_on do. Copies move no bit; a host's processors and a GPU's may round
// an update differently.
std::string HostBitsText(const proto::Plan& plan, bool host_updates) {
  if (!RestsOnHost(plan)) return "";
  if (!host_updates) return "equal to those of the plan without --offload";
  if (plan.device_kind() == proto::CPU)
    return "equal to those of the plan without --update_on=host";
  return "within rounding of the plan without --update_on=host: the host's processors round "
         "updates "
         "on their own";
}

}  // namespace

std::vector<VariableGroup> GroupVariables(const proto::Plan& plan,
                                          const std::vector<VariableLayouts>& layouts) {
  std::vector<VariableGroup> groups;
  std::map<std::string, size_t> known;
  for (const VariableLayouts& v : layouts) {
    VariableGroup group = Describe(plan, v);
    const std::string key = absl::StrJoin({WithoutNumbers(group.name), group.states, group.gradient,
                                           group.weight, group.gathered, group.reduced, group.host},
                                          "\n");
    const auto [at, is_new] = known.emplace(key, groups.size());
    if (is_new) {
      groups.push_back(std::move(group));
    } else {
      groups[at->second].variables.push_back(&v);
    }
  }
  for (VariableGroup& group : groups) {
    std::vector<std::string> names;
    for (const VariableLayouts* v : group.variables) names.push_back(v->variable->name());
    group.name = Folded(names);
  }
  return groups;
}

std::string VariableTable(const proto::Plan& plan) {
  const std::vector<VariableLayouts> layouts = FindVariableLayouts(plan);
  const std::vector<VariableGroup> groups = GroupVariables(plan, layouts);
  const bool alone = std::all_of(plan.mesh().axis().begin(), plan.mesh().axis().end(),
                                 [](const auto& axis) { return axis.size() == 1; });
  const bool host = std::any_of(groups.begin(), groups.end(),
                                [](const VariableGroup& g) { return g.host != "-"; });
  if (groups.empty() || (alone && !host)) return "";
  std::vector<std::vector<std::string>> rows = {
      {"", "states", "gradient", "weight", "gathered", "reduced"}};
  if (host) rows[0].emplace_back("host");
  for (const VariableGroup& g : groups) {
    const size_t n = g.variables.size();
    rows.push_back({g.name, g.states, g.gradient, g.weight, g.gathered, g.reduced});
    if (host) rows.back().push_back(g.host);
    if (n > 1) absl::StrAppend(&rows.back().back(), "; ", n, " times");
  }
  return "variables of program train, and the axes that split them:\n" +
         TableText(rows, std::vector<Column>(rows[0].size()), 4);
}

Json VariableJson(const proto::Plan& plan, const VariableLayouts& v) {
  return {{"frozen", v.variable->read_only()},
          {"states", LayoutsJson(plan, v.states)},
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

std::string BitsText(const proto::Plan& plan) {
  Sums sums(plan, {});
  bool host_updates = false;
  for (const VariableLayouts& v : FindVariableLayouts(plan)) {
    sums.Join(Sums(plan, v));
    host_updates |= v.host_updates;
  }
  const std::string of_host = HostBitsText(plan, host_updates);
  if (!sums.split && sums.each_micro_batch.empty()) return of_host;
  const std::string of_sums = SumsBitsText(plan, sums);
  return of_host.empty() ? of_sums : absl::StrCat(of_sums, "; ", of_host);
}

}  // namespace oneflow
