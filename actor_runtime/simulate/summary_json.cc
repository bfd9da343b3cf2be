#include <nlohmann/json.hpp>
#include <optional>

#include "actor_runtime/simulate/summary.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/print/compared_text.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kJsonRows = 40;  // of the costliest actors and boxing
// Blocks of the critical path, from its end; a long run has hundreds of thousands.
constexpr size_t kPieces = 20000;

// [segment, step, number, begin, end], in a condensed run [..., blocks, busy, critical], and with
// several segments [..., {segment: seconds}], too.
Json BlockJson(const SimulationSummary::Block& block) {
  Json json = Json::array({block.segment, block.step, block.number, block.begin, block.end});
  if (block.blocks > 1 || block.critical) {
    json.insert(json.end(), {block.blocks, block.busy, block.critical});
    if (!block.parts.empty()) {
      Json parts = Json::object();
      for (const auto& [segment, seconds] : block.parts) parts[segment] = seconds;
      json.push_back(std::move(parts));
    }
  }
  return json;
}

Json StreamJson(const SimulationSummary::Stream& stream) {
  Json blocks = Json::array();
  for (const SimulationSummary::Block& block : stream.blocks) blocks.push_back(BlockJson(block));
  return {{"name", stream.name},
          {"host", stream.host},
          {"seconds_a_step", stream.seconds_a_step},
          {"blocks", std::move(blocks)}};
}

Json MemoryJson(const std::vector<LiveMemory::Point>& memory) {
  Json json = Json::array();
  for (const LiveMemory::Point& point : memory) {
    json.push_back(Json::array({point.time, point.bytes}));
  }
  return json;
}

Json DeviceJson(const SimulationSummary::Device& device) {
  Json streams = Json::array();
  for (const SimulationSummary::Stream& stream : device.streams) {
    streams.push_back(StreamJson(stream));
  }
  return {{"stage", device.stage},
          {"devices", device.devices},
          {"compute_seconds", device.time.compute},
          {"exposed_exchange_seconds", device.time.exposed},
          {"hidden_exchange_seconds", device.time.hidden},
          {"exposed_copy_seconds", device.time.exposed_copy},
          {"hidden_copy_seconds", device.time.hidden_copy},
          {"to_host_seconds", device.to_host_seconds},
          {"from_host_seconds", device.from_host_seconds},
          {"idle_seconds", device.time.idle},
          {"arena_bytes", device.arena_bytes},
          {"persistent_bytes", device.persistent_bytes},
          {"peak_register_bytes", device.peak_bytes},
          {"host_arena_bytes", device.host_arena_bytes},
          {"host_persistent_bytes", device.host_persistent_bytes},
          {"host_peak_register_bytes", device.host_peak_bytes},
          {"streams", std::move(streams)},
          {"memory", MemoryJson(device.memory)},
          {"host_memory", MemoryJson(device.host_memory)}};
}

Json ActorJson(const SimulationSummary::Actor& actor) {
  Json json = {{"name", actor.name},          {"kernel", actor.kernel},
               {"stage", actor.stage},        {"firings", actor.firings},
               {"seconds", actor.seconds},    {"seconds_a_step", actor.seconds_a_step},
               {"slack_seconds", actor.slack}};
  if (actor.boxing) {
    json["bytes_moved"] = actor.bytes_moved;
    json["why"] = actor.why;
  }
  return json;
}

// The costliest of a kind, and how many there are beside them.
struct Costliest {
  Json rows = Json::array();
  size_t left_out = 0;
};
Costliest ActorsJson(const SimulationSummary& summary, bool boxing) {
  Costliest costliest;
  for (const SimulationSummary::Actor& actor : summary.actors) {
    if (actor.boxing != boxing) continue;
    if (costliest.rows.size() < kJsonRows) {
      costliest.rows.push_back(ActorJson(actor));
    } else {
      ++costliest.left_out;
    }
  }
  return costliest;
}

Json RateJson(const std::optional<double>& rate) { return rate ? Json(*rate) : Json(); }

void AddRates(const ModelRates& rates, Json* json) {
  (*json)["model_flops"] = rates.model_flops;
  (*json)["hardware_flops"] = rates.hardware_flops;
  (*json)["model_flops_a_device_second"] = rates.model_flops_a_device_second;
  (*json)["mfu"] = RateJson(rates.mfu);
  (*json)["hfu"] = RateJson(rates.hfu);
  const std::string why = WhyAboveAll(rates.hfu.value_or(0), rates.hfu_hidden);
  if (!why.empty()) (*json)["why_above_all"] = why;
}

Json PathJson(const SimulationSummary& summary) {
  Json pieces = Json::array(), kernels = Json::object();
  const std::vector<SimulationSummary::PathPiece>& path = summary.critical_path;
  const size_t left_out = path.size() > kPieces ? path.size() - kPieces : 0;
  for (size_t i = left_out; i < path.size(); ++i) {
    Json json = BlockJson(path[i].block);
    json.insert(json.begin(), {path[i].stage, path[i].stream});
    pieces.push_back(std::move(json));
  }
  for (const auto& [kernel, seconds] : summary.critical_seconds) kernels[kernel] = seconds;
  return {{"seconds_by_kernel", std::move(kernels)},
          {"blocks", std::move(pieces)},
          {"blocks_left_out", left_out}};
}

}  // namespace

std::string SummaryJson(const SimulationSummary& summary) {
  Json stages = Json::array();
  for (const SimulationSummary::Device& device : summary.stages) {
    stages.push_back(DeviceJson(device));
  }
  Json json = {{"model", summary.model},
               {"cluster", summary.cluster},
               {"program", summary.program},
               {"devices", summary.devices},
               {"steps", summary.steps},
               {"steps_a_round", summary.steps_a_round},
               {"step_seconds", summary.step_seconds},
               {"compared", ComparedJson(summary.compared)},
               {"seconds", summary.seconds},
               {"bubble", summary.bubble},
               {"bubble_over_busy", summary.bubble_over_busy},
               {"flops_a_device_second", summary.flops_a_device_second}};
  if (summary.rates) AddRates(*summary.rates, &json);
  if (summary.imbalance) json["imbalance"] = *summary.imbalance;
  if (summary.sharing) {
    json["kernel_threads"] = summary.sharing->threads;
    json["cores"] = summary.sharing->cores;
  }
  Costliest actors = ActorsJson(summary, false), boxing = ActorsJson(summary, true);
  json["stages"] = std::move(stages);
  json["actors"] = std::move(actors.rows);
  json["actors_left_out"] = actors.left_out;
  json["boxing"] = std::move(boxing.rows);
  json["boxing_left_out"] = boxing.left_out;
  json["critical_path"] = PathJson(summary);
  for (const SimulationSummary::Repeat& repeat : summary.repeats) {
    json["repeats"].push_back(
        {{"begin", repeat.begin}, {"seconds", repeat.seconds}, {"times", repeat.times}});
  }
  if (summary.traffic) json["process_traffic"] = Json::parse(ProcessTrafficJson(*summary.traffic));
  return JsonText(json) + "\n";
}

}  // namespace oneflow
