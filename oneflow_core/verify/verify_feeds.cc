#include "oneflow_core/verify/verify_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/verify/checks.h"

namespace oneflow {
namespace {

absl::Status CheckBatch(const proto::Program& program, const proto::Recipe& recipe,
                        const std::string& where) {
  const std::string& name = program.name();
  const int64_t m = program.micro_batches(), size = program.micro_batch_size();
  int64_t micro_batches = 1, parts = 1;  // of the program; of the batch
  if (name == "train") micro_batches = parts = recipe.micro_batches();
  if (name == "eval") parts = recipe.micro_batches();
  const bool sized = name == "train" || name == "eval" || name == "run";
  const bool fits = m == micro_batches && parts >= 1;
  if (fits && !sized) return absl::OkStatus();
  if (fits && recipe.batch() % parts == 0 && recipe.batch() / parts == size)
    return absl::OkStatus();
  return DamagedPlan(where, absl::StrCat("has ", m, " micro-batches of ", size,
                                         " sequences, but the plan is for a batch of ",
                                         recipe.batch(), " in ", recipe.micro_batches()));
}

int64_t MirroredSlices(const proto::Actor& actor) {
  const auto found = actor.attr().find("mirrored");
  return found == actor.attr().end() ? 1 : found->second.i();
}

class FeedCheck {
 public:
  FeedCheck(const PlanNet& net, std::string where) : net_(net), where_(std::move(where)) {
    for (const proto::Op& op : net.plan->graph().op()) {
      if (op.kind() == "input") inputs_[op.name()] = &op;
    }
  }

  absl::Status Check(const proto::Actor& actor) const {
    const std::string where = absl::StrCat(where_, ", actor ", actor.name());
    const int64_t firings = net_.actors[actor.id()].firings;
    const int64_t steps = std::max<int64_t>(1, program().steps_a_round());
    // The receiver of reports has a buffer for one a step.
    const bool once = actor.kernel() == "load_counts" || actor.kernel() == "report";
    if (firings != (once ? 1 : program().micro_batches()) * steps) {
      return DamagedPlan(where, absl::StrCat("fires ", firings, " times in ", steps, " steps of ",
                                             program().micro_batches(), " micro-batches"));
    }
    if (once) return absl::OkStatus();
    const auto& dims = net_.registers[actor.output(0)].proto->layout().dim();
    for (int d = 0; d < dims.size(); ++d) {
      if (!IsBatch(actor, d) || dims[d] == program().micro_batch_size()) continue;
      return DamagedPlan(where, absl::StrCat("takes ", dims[d], " sequences, a micro-batch has ",
                                             program().micro_batch_size()));
    }
    return absl::OkStatus();
  }

 private:
  const proto::Program& program() const { return *net_.program; }

  // True if dimension d of what it puts out counts the sequences of a micro-batch.
  bool IsBatch(const proto::Actor& actor, int d) const {
    if (actor.kernel() == "load_tokens") return d == 0;
    const auto it = inputs_.find(actor.attr().at("name").s());
    return it != inputs_.end() && d < it->second->shape().dim_size() &&
           it->second->shape().dim(d).size() == 0;
  }

  const PlanNet& net_;
  const std::string where_;
  std::map<std::string, const proto::Op*> inputs_;  // of the logical graph, by name
};

}  // namespace

absl::Status VerifyFeeds(const PlanNet& net) {
  const std::string where = absl::StrCat("plan, program ", net.program->name());
  if (net.plan->has_recipe()) {
    RETURN_IF_ERROR(CheckBatch(*net.program, net.plan->recipe(), where));
  }
  const FeedCheck check(net, where);
  const proto::Actor* first = nullptr;  // that loads tokens
  std::vector<const proto::Actor*> counters;
  for (const proto::Actor& actor : net.program->actor()) {
    const bool loads = actor.kernel() == "load_tokens", counts = actor.kernel() == "load_counts";
    const bool others = actor.kernel() == "feed" || actor.kernel() == "report";
    if (!loads && !counts && !others) continue;
    RETURN_IF_ERROR(check.Check(actor));
    if (counts) counters.push_back(&actor);
    if (!loads) continue;
    if (first == nullptr) first = &actor;
    if (MirroredSlices(actor) == MirroredSlices(*first)) continue;
    return DamagedPlan(
        absl::StrCat(where, ", actor ", actor.name()),
        absl::StrCat("mirrors ", MirroredSlices(actor), " slices of a sequence, and actor ",
                     first->name(), " ", MirroredSlices(*first)));
  }
  const int64_t loaded =
      first == nullptr ? 0 : net.registers[first->output(0)].proto->layout().dim(1);
  for (const proto::Actor* counter : counters) {
    const int64_t counted = counter->attr().at("sequence").i();
    if (counted == loaded) continue;
    return DamagedPlan(
        absl::StrCat(where, ", actor ", counter->name()),
        absl::StrCat("counts labels of ", counted, " tokens, a sequence has ", loaded));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
