#include "oneflow_core/print/axis_splits.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/net/variable_layouts.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

using Names = std::vector<std::string>;

void AddName(const std::string& name, Names* names) {
  if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

// The names of the dimensions that an axis splits of a tensor that `op` of the graph gives.
void AddSplits(const proto::Register& r, const proto::Op& op, int axis, Names* names) {
  for (const auto& split : r.layout().split()) {
    if (split.axis() != axis) continue;
    const bool named =
        split.dim() < op.shape().dim_size() && !op.shape().dim(split.dim()).name().empty();
    AddName(named ? op.shape().dim(split.dim()).name() : absl::StrCat("dimension ", split.dim()),
            names);
  }
}

bool AnySplitOver(const std::vector<const proto::Register*>& registers, int axis) {
  return std::any_of(registers.begin(), registers.end(), [axis](const proto::Register* r) {
    const auto& splits = r->layout().split();
    return std::any_of(splits.begin(), splits.end(),
                       [axis](const auto& split) { return split.axis() == axis; });
  });
}

class SplitFinder {
 public:
  SplitFinder(const proto::Plan& plan, const proto::Program& train)
      : plan_(plan), train_(train), variables_(FindVariableLayouts(plan)) {
    for (const proto::Op& op : plan.graph().op()) {
      ops_[op.name()] = &op;
      if (op.has_block()) blocks_ = std::max(blocks_, op.block() + 1);
      // The second input of a product is its weight, if it has one.
      const OpDef* def = FindOpDef(op.kind());
      if (def == nullptr || !def->HasProducts() || op.input_size() < 2) continue;
      const auto weight = ops_.find(op.input(1));
      if (weight == ops_.end() || weight->second->kind() != "variable") continue;
      products_[op.input(1)] += op.has_block() ? 1 : 0;
      products_in_blocks_ += op.has_block() ? 1 : 0;
    }
  }

  AxisSplits Find(int axis) const {
    AxisSplits found{.axis = plan_.mesh().axis(axis).name(),
                     .devices = static_cast<int>(plan_.mesh().axis(axis).size())};
    if (axis == plan_.stage_axis()) {
      found.splits = {BlocksText()};
      return found;
    }
    for (const proto::Register& r : train_.register_()) {
      const auto op = ops_.find(r.name());
      if (op != ops_.end() && op->second->kind() == "input") {
        AddSplits(r, *op->second, axis, &found.splits);
      }
    }
    std::replace(found.splits.begin(), found.splits.end(), std::string("seq"),
                 std::string("positions"));
    AddWeights(axis, !found.splits.empty(), &found);
    return found;
  }

 private:
  // "blocks, 20 a stage", "blocks, 6 to 9 a stage".
  std::string BlocksText() const {
    std::map<int, std::set<int>> of_stage;
    const proto::ProgramFacts& facts = FindFacts(plan_, train_);
    for (const proto::Actor& actor : train_.actor()) {
      const proto::ActorFacts& fact = FindFacts(facts, actor.id());
      const OpDef* def = FindOpDef(actor.kernel());
      const bool computes = def != nullptr && def->HasProducts();
      if (computes && fact.has_block()) of_stage[actor.stage()].insert(fact.block());
    }
    size_t least = of_stage.empty() ? 0 : of_stage.begin()->second.size(), most = least;
    for (const auto& [stage, blocks] : of_stage) {
      least = std::min(least, blocks.size()), most = std::max(most, blocks.size());
    }
    return absl::StrCat("blocks, ", least, least < most ? absl::StrCat(" to ", most) : "",
                        " a stage");
  }

  void AddWeights(int axis, bool splits_inputs, AxisSplits* found) const {
    Names dims;
    bool states = false, weights = false;
    int gathers = 0;
    for (const VariableLayouts& v : variables_) {
      const bool each = v.gathered_each_micro_batch.contains(axis);
      const bool gathered = each || v.gathered_once.contains(axis);
      weights |= each;
      states |= gathered || (splits_inputs && AnySplitOver(v.states, axis));
      const auto products = products_.find(v.variable->name());
      const auto op = ops_.find(v.variable->name());
      if (products == products_.end() || op == ops_.end()) continue;
      if (gathered) {
        gathers += products->second;
        continue;
      }
      for (const proto::Register* r : v.weights) AddSplits(*r, *op->second, axis, &dims);
    }
    if (!dims.empty()) found->splits.push_back("products by " + absl::StrJoin(dims, ", "));
    if (splits_inputs && (weights || states))
      found->splits.push_back(weights ? "weights" : "states");
    found->products = blocks_ > 0 ? products_in_blocks_ / blocks_ : 0;
    if (!splits_inputs && blocks_ > 0) found->gathers = (gathers + blocks_ - 1) / blocks_;
  }

  const proto::Plan& plan_;
  const proto::Program& train_;
  const std::vector<VariableLayouts> variables_;
  std::map<std::string_view, const proto::Op*> ops_;
  std::map<std::string_view, int> products_;  // in blocks, by weight; also of weights outside
  int blocks_ = 0, products_in_blocks_ = 0;
};

}  // namespace

std::vector<AxisSplits> FindAxisSplits(const proto::Plan& plan) {
  std::vector<AxisSplits> axes;
  const proto::Program* train = FindProgram(plan, "train");
  if (train == nullptr) return axes;
  const SplitFinder finder(plan, *train);
  for (int axis = 0; axis < plan.mesh().axis_size(); ++axis) {
    if (plan.mesh().axis(axis).size() > 1) axes.push_back(finder.Find(axis));
  }
  return axes;
}

std::string AxisSplitsText(const std::vector<AxisSplits>& axes) {
  std::string text;
  for (const AxisSplits& axis : axes) {
    std::string what = absl::StrJoin(axis.splits, ", ");
    if (axis.gathers > 0) {
      absl::StrAppend(&what, what.empty() ? "" : "; ", "gathers the weights of ", axis.gathers,
                      " of ", axis.products, " products a block");
    }
    absl::StrAppend(&text, "axis ", axis.axis, "=", axis.devices, ": ",
                    what.empty() ? "no weight of a product and no input" : what, "\n");
  }
  return text;
}

nlohmann::ordered_json AxisSplitsJson(const std::vector<AxisSplits>& axes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const AxisSplits& axis : axes) {
    json.push_back({{"axis", axis.axis},
                    {"devices", axis.devices},
                    {"splits", axis.splits},
                    {"products", axis.products},
                    {"gathers", axis.gathers}});
  }
  return json;
}

}  // namespace oneflow
