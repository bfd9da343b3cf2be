#include "tools/foreign/read/facts_json.h"

#include <algorithm>

#include "oneflow_core/base/json_text.h"

namespace oneflow::foreign {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json ModelJson(const Facts& facts) {
  const ModelFacts& model = facts.model;
  if (!model.model) return nullptr;
  const proto::Model& m = *model.model;
  const bool exact = model.differences.empty();
  const bool gpt = m.family() == "gpt";
  Json json = {
      {"family", exact ? m.family() : "none"},
      {"nearest", m.family()},
      {"preset", exact ? TextOrNull(model.preset) : Json(nullptr)},
      {"from", model.from},
      {"layers", m.layers()},
      {"hidden", m.hidden()},
      {"heads", m.heads()},
      {"kv_groups", gpt ? m.heads() : m.groups()},
      {"head_dim", gpt ? m.hidden() / std::max<int64_t>(1, m.heads()) : m.head_dim()},
      {"ffn", gpt ? 4 * m.hidden() : m.inner()},
      {"vocab", {{"given", model.vocab_given}, {"padded", m.vocab()}, {"rule", model.vocab_rule}}},
      {"sequence", m.sequence()},
      {"tied", m.tied()},
      {"parameters", model.parameters}};
  if (m.rope_scaling().factor() > 0) {
    const proto::RopeScaling& s = m.rope_scaling();
    json["rope_scaling"] = {s.factor(), s.low(), s.high(), s.positions()};
  }
  if (m.qkv_bias()) json["qkv_bias"] = true;
  if (m.qk_norm()) json["qk_norm"] = true;
  if (m.window() > 0) json["window"] = m.window();
  if (m.experts() > 0) {
    json["experts"] = {{"count", m.experts()},
                       {"of_a_token", m.experts_per_token()},
                       {"ffn", m.inner()},
                       {"shared_ffn", m.shared_inner()},
                       {"capacity", m.capacity() > 0 ? Json(m.capacity()) : Json(nullptr)},
                       {"scores", m.scores()},
                       {"weights_normalized", m.norm_topk_prob()},
                       {"aux_loss", m.aux_loss_coeff()},
                       {"z_loss", m.z_loss_coeff()}};
  }
  json["dropout"] = {{"hidden", facts.dropout_hidden}, {"attention", facts.dropout_attention}};
  json["differences"] = JsonList(model.differences, [](const Difference& d) { return d.what; });
  json["notes"] = model.notes;
  return json;
}

Json SettingsJson(const Facts& facts) {
  constexpr std::pair<List, const char*> kNames[] = {{List::kTaken, "taken"},
                                                     {List::kDefault, "is_our_default"},
                                                     {List::kNoEffect, "no_effect_on_a_plan"},
                                                     {List::kNoEquivalent, "no_equivalent"},
                                                     {List::kLauncher, "of_the_launcher"},
                                                     {List::kUnknown, "unknown"}};
  Json json = Json::object();
  for (const auto& [list, name] : kNames) {
    Json all = Json::array();
    for (const Setting& setting : facts.settings) {
      if (setting.list != list) continue;
      Json one = {{"name", setting.name}, {"value", setting.value}, {"where", setting.where}};
      if (setting.is_switch) one.erase("value");
      if (!setting.note.empty()) one["note"] = setting.note;
      if (!setting.overrides.empty()) one["overrides"] = setting.overrides;
      all.push_back(std::move(one));
    }
    json[name] = std::move(all);
  }
  return json;
}

}  // namespace

Json FactsJson(const Facts& facts) {
  const auto decided = [&](const char* name) {
    return std::find(facts.undecided.begin(), facts.undecided.end(), name) == facts.undecided.end();
  };
  const auto degree = [&](const char* name, int64_t value) {
    return decided(name) ? Json(value) : Json(nullptr);
  };
  const DegreeFacts& d = facts.degrees;
  const auto& batch = facts.batch;
  Json json = {{"system", facts.system},
               {"together_with", facts.together_with},
               {"form", facts.form},
               {"files", facts.files},
               {"valid", facts.broken.empty()},
               {"broken", JsonList(facts.broken,
                                   [](const BrokenRule& rule) {
                                     return Json{{"rule", rule.rule},
                                                 {"numbers", rule.numbers},
                                                 {"theirs", rule.theirs},
                                                 {"hint", rule.hint},
                                                 {"where", rule.where}};
                                   })},
               {"gpus", OrNull(facts.devices)},
               {"gpus_a_node", facts.devices_a_node},
               {"gpus_from", TextOrNull(facts.devices_from)},
               {"model", ModelJson(facts)}};
  json["parallel"] = {{"tensor", degree("tensor", d.tensor)},
                      {"pipe", degree("pipe", d.pipe)},
                      {"context", degree("context", d.context)},
                      {"data", OrNull(d.data)},
                      {"expert", degree("expert", d.expert)}};
  if (d.expert > 1) {
    json["parallel"]["expert_tensor"] = d.expert_tensor;
    const int64_t ranks = d.data.value_or(0) * d.context * d.tensor;
    json["parallel"]["expert_data"] = ranks % (d.expert * d.expert_tensor) == 0 && ranks > 0
                                          ? Json(ranks / (d.expert * d.expert_tensor))
                                          : Json(nullptr);
  }
  json["batch"] = {{"global", OrNull(batch.global)},
                   {"micro", OrNull(batch.micro)},
                   {"micro_batches", OrNull(batch.micro_batches)},
                   {"tokens", batch.global && facts.sequence ? Json(*batch.global * *facts.sequence)
                                                             : Json(nullptr)}};
  const ScheduleFacts& schedule = facts.schedule;
  json["schedule"] = {
      {"name", schedule.name},
      {"chunks", schedule.chunks},
      {"stage_layers",
       schedule.stage_layers.empty() ? Json(nullptr) : Json(schedule.stage_layers)}};
  const ShardingFacts& sharding = facts.sharding;
  json["sharding"] = {{"what", sharding.what},
                      {"over", sharding.over},
                      {"ways", OrNull(sharding.ways)},
                      {"replicas", sharding.replicas},
                      {"gather", TextOrNull(sharding.gather)},
                      {"reduce", sharding.reduce}};
  if (sharding.prefetch_elements)
    json["sharding"]["prefetch_elements"] = *sharding.prefetch_elements;
  if (!sharding.note.empty()) json["sharding"]["note"] = sharding.note;
  json["recompute"] = {{"what", facts.recompute.what},
                       {"blocks", TextOrNull(facts.recompute.blocks)},
                       {"nearest_here", facts.recompute.here},
                       {"is_exact", facts.recompute.is_exact}};
  json["precision"] = {{"compute", facts.precision.compute},
                       {"master", facts.precision.master},
                       {"nearest_here", facts.precision.here},
                       {"gradients_in_bf16", facts.precision.gradients_in_bf16},
                       {"residual_f32", facts.precision.residual_f32}};
  json["sequence_parallel"] = facts.sequence_parallel;
  json["separate_documents"] = facts.separate_documents;
  const OptimizerFacts& o = facts.optimizer;
  json["optimizer"] = {{"name", o.name},
                       {"learning_rate", OrNull(o.learning_rate)},
                       {"min_learning_rate", OrNull(o.min_learning_rate)},
                       {"schedule", o.schedule},
                       {"warmup_steps", OrNull(o.warmup_steps)},
                       {"decay_steps", OrNull(o.decay_steps)},
                       {"steps", OrNull(o.steps)},
                       {"beta1", OrNull(o.beta1)},
                       {"beta2", OrNull(o.beta2)},
                       {"epsilon", OrNull(o.epsilon)},
                       {"weight_decay", OrNull(o.weight_decay)},
                       {"clip", OrNull(o.clip)}};
  const auto side = [](bool host) { return host ? "host" : "device"; };
  json["offload"] = {{"states", side(facts.offload.states)},
                     {"update_on", side(facts.offload.update)},
                     {"weights", side(facts.offload.weights)},
                     {"activations", side(facts.offload.activations)}};
  json["settings"] = SettingsJson(facts);
  json["not_read"] = facts.unread;
  json["asks"] = JsonList(facts.questions, [](const Question& question) {
    return Json{{"what", question.what}, {"flag", question.flag}};
  });
  return json;
}

}  // namespace oneflow::foreign
