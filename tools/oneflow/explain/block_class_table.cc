#include "tools/oneflow/explain/block_class_table.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/graph/block_classes.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/print/table.h"
#include "tools/oneflow/explain/model_memory.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTera = 1e12;

// Sums over the blocks of a class.
struct ClassSums {
  double parameters = 0, kept = 0, flops = 0, seconds = 0;
};

class ClassCounter {
 public:
  ClassCounter(const proto::Plan& plan, const BlockClasses& classes)
      : plan_(plan), classes_(classes), sums_(classes.size()) {
    for (const proto::Op& op : plan.graph().op()) {
      if (op.kind() != "variable" || !op.has_block()) continue;
      double elements = 1;
      for (const proto::Shape::Dim& dim : op.shape().dim()) {
        elements *= static_cast<double>(dim.size());
      }
      Find(op.block())->parameters += elements;
    }
  }

  void AddKept(const PlanNet& net) {
    for (int stage = 0; stage < StageCount(plan_); ++stage) {
      for (const KeptRegister& kept : KeptRegisters(net, stage)) {
        Find(kept.block)->kept += static_cast<double>(kept.proto->slot_bytes());
      }
    }
  }

  // `seconds`: of a firing, by actor; empty: not known.
  void AddWork(const proto::Program& train, const std::vector<double>& seconds) {
    const proto::ProgramFacts& facts = FindFacts(plan_, train);
    const std::vector<double> firings = FiringsPerStep(train);
    for (int a = 0; a < train.actor_size(); ++a) {
      const proto::ActorFacts& fact = FindFacts(facts, a);
      ClassSums* const sums = Find(fact.has_block() ? fact.block() : -1);
      sums->flops += firings[a] * fact.flops();
      if (!seconds.empty()) sums->seconds += firings[a] * seconds[a];
    }
  }

  const std::vector<ClassSums>& sums() const { return sums_; }

 private:
  // Of what belongs to no block: sums that nothing prints.
  ClassSums* Find(int block) {
    const bool known = block >= 0 && block < std::ssize(classes_.class_of);
    return known ? &sums_[classes_.class_of[block]] : &outside_;
  }

  const proto::Plan& plan_;
  const BlockClasses& classes_;
  std::vector<ClassSums> sums_;
  ClassSums outside_;
};

}  // namespace

Report BlockClassTable(const proto::Plan& plan, const absl::StatusOr<proto::Cluster>& cluster) {
  const BlockClasses classes = FindBlockClasses(plan.graph());
  const proto::Program* const train = FindProgram(plan, "train");
  if (classes.size() < 2 || train == nullptr) return {};
  ClassCounter counter(plan, classes);
  if (const absl::StatusOr<PlanNet> net = MakePlanNet(plan, *train); net.ok()) {
    counter.AddKept(*net);
    absl::StatusOr<std::vector<double>> seconds = std::vector<double>();
    if (cluster.ok()) seconds = ActorSeconds(plan, *train, FindFacts(plan, *train), *cluster);
    counter.AddWork(*train, seconds.ok() ? *seconds : std::vector<double>());
  }
  std::vector<std::vector<std::string>> rows = {
      {"", "blocks", "parameters", "kept a micro-batch", "TFLOP a step", "time a step"}};
  Json list = Json::array();
  const std::vector<int> counts = classes.CountBlocks();
  for (int i = 0; i < classes.size(); ++i) {
    const ClassSums& sums = counter.sums()[i];
    const auto n = static_cast<double>(counts[i]);
    const int64_t parameters = std::llround(sums.parameters / n),
                  kept = std::llround(sums.kept / n);
    const double flops = sums.flops / n, seconds = sums.seconds / n;
    const std::string name = BlockClassName(i);
    rows.push_back({name, absl::StrCat(counts[i]), DigitsText(parameters),
                    SizeText(static_cast<double>(kept)), absl::StrFormat("%.4g", flops / kTera),
                    seconds > 0 ? TimeText(seconds) : "-"});
    list.push_back({{"name", name},
                    {"blocks", counts[i]},
                    {"parameters", parameters},
                    {"kept_bytes", kept},
                    {"flops", flops},
                    {"seconds", seconds}});
  }
  std::vector<Column> columns(rows[0].size(), {.right = true});
  columns[0].right = false;
  return {absl::StrCat("blocks: ", classes.PatternText(), "\n", TableText(rows, columns, 4)),
          {{"pattern", classes.PatternText()}, {"classes", std::move(list)}}};
}

}  // namespace oneflow
