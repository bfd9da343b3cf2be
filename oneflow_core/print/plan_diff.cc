#include "oneflow_core/print/plan_diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

// By what is counted and, within it, by stage.
using Numbers = std::map<std::pair<std::string, int>, double>;
using Json = nlohmann::ordered_json;

struct ProgramNumbers {
  Numbers counts, bytes;
};

ProgramNumbers CountNumbers(const proto::Plan& plan, const proto::Program& program) {
  const proto::ProgramFacts& facts = FindFacts(plan, program);
  ProgramNumbers numbers;
  const std::vector<double> firings = FiringsPerStep(program);
  for (int a = 0; a < program.actor_size(); ++a) {
    const proto::Actor& actor = program.actor(a);
    ++numbers.counts[{"actors", actor.stage()}];
    if (!actor.has_boxing()) continue;
    ++numbers.counts[{absl::StrCat("actors, ", FormName(actor)), actor.stage()}];
    numbers.bytes[{absl::StrCat("received in a step, ", FormName(actor)), actor.stage()}] +=
        FindFacts(facts, a).bytes_moved() * firings[a];
  }
  for (const proto::Register& r : program.register_()) {
    ++numbers.counts[{"registers", r.stage()}];
    numbers.counts[{"registers, slots", r.stage()}] += r.slots();
  }
  return numbers;
}

Numbers CountMemory(const proto::Plan& plan) {
  Numbers bytes;
  for (const proto::StageMemory& m : plan.memory()) {
    const bool host = m.kind() == proto::HOST;
    const std::string memory = host ? "memory of the host" : "memory";
    const char* const registers = host ? ", registers" : ", registers and workspaces";
    bytes[{memory, m.stage()}] += static_cast<double>(m.arena_bytes());
    bytes[{memory + ", weights and optimizer", m.stage()}] +=
        static_cast<double>(m.persistent_bytes());
    bytes[{memory + registers, m.stage()}] += static_cast<double>(m.register_bytes());
  }
  return bytes;
}

template <typename Map>
typename Map::mapped_type At(const Map& map, const typename Map::key_type& key) {
  const auto it = map.find(key);
  return it == map.end() ? typename Map::mapped_type() : it->second;
}

template <typename Map>
std::set<typename Map::key_type> JoinKeys(const Map& a, const Map& b) {
  std::set<typename Map::key_type> keys;
  for (const Map* side : {&a, &b}) {
    for (const auto& [key, value] : *side) keys.insert(key);
  }
  return keys;
}

void AddNumbers(const Numbers& a, const Numbers& b, const std::string& unit, PlanDiff* diff) {
  for (const auto& key : JoinKeys(a, b)) {
    AddNumber(key.first, unit, At(a, key), At(b, key), diff, key.second);
  }
}

std::vector<std::string> ActorNames(const proto::Plan& plan, const proto::Program& program) {
  std::vector<std::string> names;
  for (const proto::Actor& actor : program.actor()) {
    const std::string group = GroupText(plan, actor);
    names.push_back(absl::StrCat(actor.name(), " (", FormName(actor),
                                 group.empty() ? "" : ", group ", group, ")"));
  }
  return names;
}

std::vector<std::string> Without(const std::vector<std::string>& names,
                                 const std::vector<std::string>& others) {
  const std::set<std::string> known(others.begin(), others.end());
  std::vector<std::string> rest;
  for (const std::string& name : names) {
    if (known.count(name) == 0) rest.push_back(name);
  }
  return rest;
}

// Adds `stage` to those of an entry that says the same of the stage before; false if it does not.
bool Extends(PlanDiff::Stages* stages, int stage) {
  if (stage < 0 || stages->last != stage - 1) return false;
  stages->last = stage;
  return true;
}

void AddFact(const std::string& what, const std::string& a, const std::string& b, PlanDiff* diff,
             int stage = -1) {
  if (a == b) return;
  if (!diff->facts.empty()) {
    PlanDiff::Fact& last = diff->facts.back();
    const bool alike = last.what == what && last.a == a && last.b == b;
    if (alike && Extends(&last.stages, stage)) return;
  }
  diff->facts.push_back({what, a, b, {stage, stage}});
}

// {"order of compute", 0} -> "F×2 (B F)×2 B×2 U".
std::map<std::pair<std::string, int>, std::string> CollectOrders(const proto::Program& program) {
  std::map<std::pair<std::string, int>, std::string> orders;
  for (const proto::Stream& stream : program.stream()) {
    orders[{absl::StrCat("order of ", stream.name()), stream.stage()}] = OrderText(program, stream);
  }
  return orders;
}

// By stage, the exchanges in their order of issue: "(", "x.send", "y", ")×2".
using Issues = std::map<int, std::vector<std::string>>;

Issues CollectIssues(const proto::Program& program) {
  Issues issues;
  for (const proto::IssueOrder& issue : program.issue()) {
    std::vector<std::string>& order = issues[issue.stage()];
    for (const proto::ActorRun& run : issue.run()) {
      order.push_back("(");
      for (const int a : run.actor()) {
        order.push_back(a >= 0 && a < program.actor_size() ? program.actor(a).name() : "?");
      }
      order.push_back(absl::StrCat(")×", run.repeat()));
    }
  }
  return issues;
}

// A few words of the order from `begin` on.
std::string WordsFrom(const std::vector<std::string>& order, size_t begin) {
  const size_t end = std::min(order.size(), begin + 4);
  const std::vector<std::string> words(order.begin() + static_cast<int64_t>(begin),
                                       order.begin() + static_cast<int64_t>(end));
  return absl::StrJoin(words, " ") + (end < order.size() ? " ..." : "");
}

void AddOrders(const proto::Program& a, const proto::Program& b, PlanDiff* diff) {
  const auto of_a = CollectOrders(a), of_b = CollectOrders(b);
  for (const auto& key : JoinKeys(of_a, of_b)) {
    AddFact(key.first, At(of_a, key), At(of_b, key), diff, key.second);
  }
  const Issues issues_a = CollectIssues(a), issues_b = CollectIssues(b);
  for (const int stage : JoinKeys(issues_a, issues_b)) {
    const std::vector<std::string> in_a = At(issues_a, stage), in_b = At(issues_b, stage);
    const auto same = std::mismatch(in_a.begin(), in_a.end(), in_b.begin(), in_b.end()).first;
    const auto begin = static_cast<size_t>(same - in_a.begin());
    AddFact(absl::StrCat("order of issue, word ", begin + 1), WordsFrom(in_a, begin),
            WordsFrom(in_b, begin), diff, stage);
  }
}

// What the groups join, whatever they are called: "data,tensor", "stage 0 to 1".
std::set<std::string> ListGroups(const proto::Plan& plan) {
  std::set<std::string> groups;
  for (const proto::Group& group : plan.group()) {
    groups.insert(group.has_stages()
                      ? absl::StrCat("stage ", group.stages().from(), " to ", group.stages().to())
                      : AxesText(plan, group.axis(), ","));
  }
  return groups;
}

void AddFacts(const proto::Plan& a, const proto::Plan& b, PlanDiff* diff) {
  AddFact("model", a.model(), b.model(), diff);
  AddFact("mesh", MeshText(a.mesh()), MeshText(b.mesh()), diff);
  AddFact("groups", absl::StrJoin(ListGroups(a), "; "), absl::StrJoin(ListGroups(b), "; "), diff);
  // The mesh and the numbers of sequences and micro-batches are compared beside it.
  for (const Row* row : DifferingRows(RecipeRows(), a.recipe(), b.recipe())) {
    if (row->name == "mesh" || row->name == "batch" || row->name == "micro_batches") continue;
    AddFact(std::string(row->name), FieldText(*row, a.recipe()), FieldText(*row, b.recipe()), diff);
  }
  for (const Row* row : DifferingRows(OptimizerRows(), a.optimizer(), b.optimizer())) {
    AddFact(std::string(row->name), FieldText(*row, a.optimizer()), FieldText(*row, b.optimizer()),
            diff);
  }
  AddFact("cluster", a.cluster().name(), b.cluster().name(), diff);
  AddFact("system", a.cluster().as_system(), b.cluster().as_system(), diff);
}

Json WithStages(Json json, const PlanDiff::Stages& stages) {
  if (stages.first >= 0) {
    json["first_stage"] = stages.first;
    json["last_stage"] = stages.last;
  }
  return json;
}

}  // namespace

void AddNumber(const std::string& what, const std::string& unit, double a, double b, PlanDiff* diff,
               int stage) {
  if (a == b) return;
  if (!diff->numbers.empty()) {
    PlanDiff::Number& last = diff->numbers.back();
    const bool alike = last.what == what && last.unit == unit && last.a == a && last.b == b;
    if (alike && Extends(&last.stages, stage)) return;
  }
  diff->numbers.push_back({what, unit, a, b, {stage, stage}});
}

PlanDiff DiffPlans(const proto::Plan& a, const proto::Plan& b, const std::string& program) {
  PlanDiff diff;
  AddFacts(a, b, &diff);
  static const proto::Program kNone;
  const proto::Program* of_a = FindProgram(a, program);
  const proto::Program* of_b = FindProgram(b, program);
  if (of_a == nullptr) of_a = &kNone;
  if (of_b == nullptr) of_b = &kNone;
  AddOrders(*of_a, *of_b, &diff);
  AddNumber("capacity of a device", "bytes",
            static_cast<double>(a.cluster().device().memory_bytes()),
            static_cast<double>(b.cluster().device().memory_bytes()), &diff);
  AddNumber("launch queue", "", a.launch_queue(), b.launch_queue(), &diff);
  diff.stages_a = StageCount(a), diff.stages_b = StageCount(b);
  AddNumber("stages", "", diff.stages_a, diff.stages_b, &diff);
  AddNumber("sequences a step", "", static_cast<double>(a.recipe().batch()),
            static_cast<double>(b.recipe().batch()), &diff);
  AddNumber("micro-batches", "", static_cast<double>(of_a->micro_batches()),
            static_cast<double>(of_b->micro_batches()), &diff);
  const ProgramNumbers numbers_a = CountNumbers(a, *of_a), numbers_b = CountNumbers(b, *of_b);
  AddNumbers(numbers_a.counts, numbers_b.counts, "", &diff);
  AddNumbers(numbers_a.bytes, numbers_b.bytes, "bytes", &diff);
  AddNumber("memory of the largest device", "bytes", static_cast<double>(MostDeviceBytes(a)),
            static_cast<double>(MostDeviceBytes(b)), &diff);
  AddNumbers(CountMemory(a), CountMemory(b), "bytes", &diff);
  const std::vector<std::string> names_a = ActorNames(a, *of_a), names_b = ActorNames(b, *of_b);
  diff.only_a = Without(names_a, names_b);
  diff.only_b = Without(names_b, names_a);
  return diff;
}

Json DiffJson(const PlanDiff& diff) {
  const auto fact = [](const PlanDiff::Fact& f) {
    return WithStages({{"what", f.what}, {"a", f.a}, {"b", f.b}}, f.stages);
  };
  const auto number = [](const PlanDiff::Number& n) {
    return WithStages({{"what", n.what}, {"unit", n.unit}, {"a", n.a}, {"b", n.b}}, n.stages);
  };
  return {{"facts", JsonList(diff.facts, fact)},
          {"numbers", JsonList(diff.numbers, number)},
          {"actors_only_in_a", diff.only_a},
          {"actors_only_in_b", diff.only_b}};
}

}  // namespace oneflow
