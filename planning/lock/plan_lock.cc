#include "planning/lock/plan_lock.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/fingerprint.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/row.h"
#include "planning/simulate/cost_version.h"

namespace oneflow {
namespace {

using google::protobuf::Message;
using Json = nlohmann::ordered_json;

// Six digits, so that the last bits of another processor do not change a lock.
double RoundToSix(double number) {
  double rounded = number;
  return absl::SimpleAtod(absl::StrFormat("%.6g", number), &rounded) ? rounded : number;
}

Json WithRoundedNumbers(Json json) {
  for (auto& value : json) {
    if (value.is_number_float()) value = RoundToSix(value.get<double>());
  }
  return json;
}

// A field that is a file is known by its content.
std::string ChoiceText(const Row& row, const Message& message) {
  if (row.form == nullptr || !row.form->is_file) return FieldText(row, message);
  const auto* field = message.GetDescriptor()->FindFieldByName(std::string(row.name));
  return "file " + MessageFingerprint(message.GetReflection()->GetMessage(message, field));
}

void AddChoices(std::span<const Row> rows, const Message& message, PlanLock::Choices* choices) {
  for (const Row& row : rows) {
    if (HasField(row, message)) (*choices)[std::string(row.name)] = ChoiceText(row, message);
  }
}

// A default is left out, so that a choice of a later release leaves the fingerprints of locks.
std::string BitsFingerprint(const proto::Plan& plan, const std::string& graph) {
  std::string text = graph;
  const auto add = [&](const Row& row, const Message& message) {
    const bool in_part = row.moves != nullptr;
    const std::string value = in_part ? row.moves(plan.recipe()) : ChoiceText(row, message);
    if (!in_part && value == row.default_text) return;
    absl::StrAppend(&text, "\n", ToAbsl(row.name), "=", value);
  };
  for (const Row& row : RecipeRows()) {
    if (row.bits != Bits::kNone) add(row, plan.recipe());
  }
  for (const Row& row : OptimizerRows()) add(row, plan.optimizer());
  return TextFingerprint(text);
}

int64_t CountDevices(const proto::Plan& plan) {
  int64_t devices = 1;
  for (const auto& axis : plan.mesh().axis()) devices *= axis.size();
  return devices;
}

// "data,tensor"; "pipe" of a send and its receive.
std::string AxesOfGroup(const proto::Plan& plan, const proto::Actor& actor) {
  const proto::Group& group = plan.group(actor.exchange().group());
  if (!group.has_stages()) return GroupText(plan, actor);
  return plan.stage_axis() < 0 ? "pipe" : plan.mesh().axis(plan.stage_axis()).name();
}

std::map<std::string, int64_t> SumExchanges(const proto::Plan& plan) {
  const proto::Program* program = FindProgram(plan, "train");
  if (program == nullptr) return {};
  const proto::ProgramFacts& facts = FindFacts(plan, *program);
  const std::vector<double> firings = FiringsPerStep(*program);
  const double devices_a_stage =
      static_cast<double>(CountDevices(plan)) / std::max(1, StageCount(plan));
  std::map<std::string, double> bytes;
  for (int a = 0; a < program->actor_size(); ++a) {
    const proto::Actor& actor = program->actor(a);
    const double received = FindFacts(facts, a).bytes_moved() * firings[a] * devices_a_stage;
    if (!actor.has_boxing() || !actor.has_exchange() || received == 0) continue;
    bytes[absl::StrCat(FormName(actor), " over ", AxesOfGroup(plan, actor))] += received;
  }
  const auto steps = static_cast<double>(StepsARound(plan));
  std::map<std::string, int64_t> sums;
  for (const auto& [name, sum] : bytes) sums[name] = std::llround(sum / steps);
  return sums;
}

// What a device offers, names, and how predictions have held do not change a time.
std::string RatesFingerprint(proto::Cluster cluster) {
  cluster.clear_name();
  cluster.clear_base();
  cluster.clear_system();
  cluster.clear_between_systems();
  cluster.mutable_device()->clear_memory_bytes();
  cluster.mutable_device()->clear_reserve_bytes();
  cluster.mutable_device()->clear_kept_bytes();
  return MessageFingerprint(cluster);
}

// {"0": 17, "1-6": 15}: equal stages share a line.
Json StagesJson(const std::vector<int64_t>& bytes) {
  Json json = Json::object();
  for (size_t first = 0, next = 0; first < bytes.size(); first = next) {
    while (next < bytes.size() && bytes[next] == bytes[first]) ++next;
    json[next == first + 1 ? absl::StrCat(first) : absl::StrCat(first, "-", next - 1)] =
        bytes[first];
  }
  return json;
}

}  // namespace

std::string ChoicesFingerprint(const PlanLock::Choices& choices) {
  std::string text;
  for (const auto& [name, value] : choices) absl::StrAppend(&text, name, "=", value, "\n");
  return TextFingerprint(text);
}

PlanLock MakeLock(const LockSource& source) {
  PlanLock lock{.model = source.plan.model(),
                .graph = MessageFingerprint(source.plan.graph()),
                .devices = CountDevices(source.plan),
                .imbalance = source.imbalance,
                .compared = WithRoundedNumbers(source.compared),
                .exchanges = SumExchanges(source.priced),
                .costs = {.version = kCostVersion,
                          .cluster = source.cluster.name(),
                          .fingerprint = RatesFingerprint(source.cluster)}};
  AddChoices(RecipeRows(), source.plan.recipe(), &lock.choices);
  AddChoices(OptimizerRows(), source.plan.optimizer(), &lock.choices);
  lock.bits = BitsFingerprint(source.plan, lock.graph);
  if (source.step_seconds) lock.step_seconds = RoundToSix(*source.step_seconds);
  for (const proto::StageMemory& memory : source.plan.memory()) {
    (memory.kind() == proto::HOST ? lock.host_bytes : lock.bytes).push_back(memory.arena_bytes());
  }
  return lock;
}

std::string LockText(const PlanLock& lock) {
  Json json = {{"lock", kLockVersion},
               {"model", lock.model},
               {"graph", lock.graph},
               {"recipe", ChoicesFingerprint(lock.choices)},
               {"bits", {{"letter", "A"}, {"fingerprint", lock.bits}}},
               {"devices", lock.devices}};
  if (lock.imbalance != 0) json["imbalance"] = lock.imbalance;
  json["bytes"] = StagesJson(lock.bytes);
  if (!lock.host_bytes.empty()) json["host_bytes"] = StagesJson(lock.host_bytes);
  json["step"] = nullptr;
  if (lock.step_seconds) {
    json["step"] = {{"seconds", *lock.step_seconds}, {"compared", lock.compared}};
  }
  json["exchanges"] = lock.exchanges;
  json["costs"] = {{"version", lock.costs.version},
                   {"cluster", lock.costs.cluster},
                   {"fingerprint", lock.costs.fingerprint}};
  json["choices"] = lock.choices;
  return json.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace oneflow
