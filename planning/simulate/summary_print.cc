// The two printers of a SimulationSummary: JSON and text.
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/print/table.h"
#include "planning/simulate/summary.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRows = 8;       // of a table
constexpr size_t kJsonRows = 40;  // of the costliest actors and boxing
constexpr size_t kStages = 8;     // of a long list, its first and last
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
  return {{"name", stream.name},
          {"host", stream.host},
          {"seconds_a_step", stream.seconds_a_step},
          {"blocks", JsonList(stream.blocks, BlockJson)}};
}

Json PointJson(const LiveMemory::Point& point) { return Json::array({point.time, point.bytes}); }

Json DeviceJson(const SimulationSummary::Device& device) {
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
          {"streams", JsonList(device.streams, StreamJson)},
          {"memory", JsonList(device.memory, PointJson)},
          {"host_memory", JsonList(device.host_memory, PointJson)}};
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
void AddActors(const SimulationSummary& summary, const std::string& kind, Json* json) {
  Json rows = Json::array();
  size_t left_out = 0;
  for (const SimulationSummary::Actor& actor : summary.actors) {
    if (actor.boxing != (kind == "boxing")) continue;
    if (rows.size() < kJsonRows) {
      rows.push_back(ActorJson(actor));
    } else {
      ++left_out;
    }
  }
  (*json)[kind] = std::move(rows);
  (*json)[kind + "_left_out"] = left_out;
}

Json RateJson(const std::optional<double>& rate) { return rate ? Json(*rate) : Json(); }

void AddRates(const ModelRates& rates, Json* json) {
  (*json)["model_flops"] = rates.model_flops;
  (*json)["hardware_flops"] = rates.hardware_flops;
  (*json)["model_flops_a_device_second"] = rates.model_flops_a_device_second;
  (*json)["mfu"] = RateJson(rates.mfu);
  (*json)["hfu"] = RateJson(rates.hfu);
  const std::string counts = WhatCounts(rates);
  if (!counts.empty()) (*json)["mfu_counts"] = counts;
  const std::string why = WhyAboveAll(rates.hfu.value_or(0), rates.hfu_hidden);
  if (!why.empty()) (*json)["why_above_all"] = why;
}

Json PathJson(const SimulationSummary& summary) {
  Json pieces = Json::array();
  const std::vector<SimulationSummary::PathPiece>& path = summary.critical_path;
  const size_t left_out = path.size() > kPieces ? path.size() - kPieces : 0;
  for (size_t i = left_out; i < path.size(); ++i) {
    Json json = BlockJson(path[i].block);
    json.insert(json.begin(), {path[i].stage, path[i].stream});
    pieces.push_back(std::move(json));
  }
  return {{"seconds", summary.critical_step_seconds},
          {"seconds_by_kernel", summary.critical_seconds},
          {"seconds_by_kind", summary.critical_kinds},
          {"blocks", std::move(pieces)},
          {"blocks_left_out", left_out}};
}

double MiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// The parts of a step, and what is hidden beside them. Where only the host's data is copied, which
// takes next to nothing, exposed copies count as idle.
std::string PartsText(const SimulationSummary& summary, const SimulationSummary::Device& device) {
  const DeviceTime& time = device.time;
  const double step = summary.step_seconds;
  const auto part = [&](const char* what, double seconds) {
    return absl::StrCat(what, " ", TimeText(seconds), " (", PercentText(seconds / step), ")");
  };
  const bool copies = summary.moves_to_host;
  std::string text = absl::StrCat("    ", part("compute", time.compute), ", ",
                                  part("exposed exchange", time.exposed), ", ",
                                  copies ? part("exposed copy", time.exposed_copy) + ", " : "",
                                  part("idle", time.idle + (copies ? 0 : time.exposed_copy)),
                                  "; hidden exchange ", TimeText(time.hidden), "\n");
  if (!copies) return text;
  return absl::StrCat(text, "    hidden copy ", TimeText(time.hidden_copy),
                      "; the link to the host is busy ", PercentText(device.to_host_seconds / step),
                      " of a step, from it ", PercentText(device.from_host_seconds / step), "\n");
}

std::string DeviceText(const SimulationSummary& summary, const SimulationSummary::Device& device) {
  std::string text = absl::StrFormat(
      "stage %d, %d device%s: memory %.1f MiB planned, registers in use at most %.1f MiB\n",
      device.stage, device.devices, device.devices == 1 ? "" : "s", MiB(device.arena_bytes),
      MiB(device.peak_bytes));
  if (device.host_arena_bytes > 0) {
    absl::StrAppendFormat(
        &text, "    memory of the host %.1f MiB planned, registers in use at most %.1f MiB\n",
        MiB(device.host_arena_bytes), MiB(device.host_peak_bytes));
  }
  if (summary.step_seconds == 0) return text;
  text += PartsText(summary, device);
  std::string streams;
  for (const SimulationSummary::Stream& stream : device.streams) {
    if (stream.host || stream.seconds_a_step == 0) continue;
    absl::StrAppend(&streams, streams.empty() ? "    streams: " : ", ", stream.name, " ",
                    TimeText(stream.seconds_a_step));
  }
  return streams.empty() ? text : absl::StrCat(text, streams, "\n");
}

std::string DevicesText(const SimulationSummary& summary) {
  std::string text;
  const size_t n = summary.stages.size();
  for (size_t s = 0; s < n; ++s) {
    if (n > kStages && s == kStages - 1 && s < n - 1) {
      absl::StrAppend(&text, "... ", n - kStages, " stages more\n");
      s = n - 1;
    }
    text += DeviceText(summary, summary.stages[s]);
  }
  return text;
}

// Actors of one kernel that take the same time, as blocks of a model do, in one line.
struct Alike {
  const SimulationSummary::Actor* first = nullptr;
  int others = 0;
  double slack = 0;  // the least
};

std::vector<Alike> AlikeActors(const SimulationSummary& summary, bool boxing) {
  std::vector<Alike> rows;
  for (const SimulationSummary::Actor& actor : summary.actors) {
    if (actor.boxing != boxing || actor.seconds_a_step == 0) continue;
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Alike& r) {
      return r.first->kernel == actor.kernel && r.first->seconds == actor.seconds &&
             r.first->firings == actor.firings;
    });
    if (row == rows.end()) {
      if (rows.size() == kRows) continue;
      rows.push_back({&actor, 0, actor.slack});
    } else {
      ++row->others;
      row->slack = std::min(row->slack, actor.slack);
    }
  }
  return rows;
}

std::string ActorsText(const SimulationSummary& summary, bool boxing) {
  std::vector<std::vector<std::string>> rows;
  for (const Alike& row : AlikeActors(summary, boxing)) {
    const SimulationSummary::Actor& first = *row.first;
    rows.push_back(
        {row.others > 0 ? absl::StrCat(first.name, " and ", row.others, " alike") : first.name,
         first.kernel, absl::StrCat(first.firings, " x"), TimeText(first.seconds),
         "= " + TimeText(first.seconds_a_step), "slack " + TimeText(row.slack)});
  }
  if (rows.empty()) return "";
  return absl::StrCat("costliest ", boxing ? "boxing" : "actors", ", a step of a device:\n",
                      TableText(rows, {{}, {}, {.right = true}, {}, {}, {}}, 4));
}

std::string PathText(const SimulationSummary& summary) {
  std::vector<std::pair<double, std::string>> kernels;
  for (const auto& [kernel, seconds] : summary.critical_seconds) {
    kernels.push_back({seconds, kernel});
  }
  std::sort(kernels.rbegin(), kernels.rend());
  std::string text =
      absl::StrCat("critical path of a step, ", TimeText(summary.critical_step_seconds), ":");
  for (size_t i = 0; i < std::min(kRows, kernels.size()); ++i) {
    if (kernels[i].first <= 0) break;
    absl::StrAppend(&text, i == 0 ? " " : ", ", kernels[i].second, " ",
                    PercentText(kernels[i].first / summary.critical_step_seconds));
  }
  return text + "\n";
}

// Megatron-LM's figures, which count matrix products alone.
std::string RatesText(const ModelRates& rates) {
  if (rates.model_flops == 0) return "";
  std::string text = absl::StrFormat("the model's products: %.4g TFLOP/s a device",
                                     rates.model_flops_a_device_second / 1e12);
  if (!rates.mfu) return text + "\n";
  const std::string counts = WhatCounts(rates);
  absl::StrAppend(&text, ", MFU ", PercentText(*rates.mfu),
                  counts.empty() ? "" : " (" + counts + ")");
  absl::StrAppend(&text, ", HFU ", PercentText(*rates.hfu));
  const std::string why = WhyAboveAll(*rates.hfu, rates.hfu_hidden);
  return absl::StrCat(text, why.empty() ? "" : "; ", why, "\n");
}

std::string StepPartsText(const SimulationSummary& summary) {
  std::string text;
  for (const StepPart& part : summary.parts) {
    absl::StrAppend(&text, text.empty() ? "a step of a device: " : ", ", part.name, " ",
                    PercentText(part.seconds / summary.step_seconds));
  }
  return text.empty() ? text : text + "\n";
}

std::string StepsText(const SimulationSummary& summary) {
  const char* many = summary.steps == 1 ? "" : "s";
  if (summary.steps_a_round == 1) return absl::StrFormat("%d step%s", summary.steps, many);
  return absl::StrFormat("%d round%s of %d steps", summary.steps, many, summary.steps_a_round);
}

}  // namespace

std::string SummaryJson(const SimulationSummary& summary) {
  Json json = {{"model", summary.model},
               {"cluster", summary.cluster},
               {"program", summary.program},
               {"devices", summary.devices},
               {"steps", summary.steps},
               {"steps_a_round", summary.steps_a_round},
               {"step_seconds", summary.step_seconds},
               {"compared", BandJson(summary.band, summary.step_seconds)},
               {"seconds", summary.seconds},
               {"bubble", summary.bubble},
               {"bubble_over_busy", summary.bubble_over_busy},
               {"flops_a_device_second", summary.flops_a_device_second},
               {"tokens_per_second_per_device", summary.device_tokens_a_second}};
  for (const StepPart& part : summary.parts) json["step_parts"][part.name] = part.seconds;
  if (summary.rates) AddRates(*summary.rates, &json);
  if (summary.imbalance) json["imbalance"] = *summary.imbalance;
  if (summary.sharing) {
    json["kernel_threads"] = summary.sharing->threads;
    json["cores"] = summary.sharing->cores;
  }
  json["stages"] = JsonList(summary.stages, DeviceJson);
  AddActors(summary, "actors", &json);
  AddActors(summary, "boxing", &json);
  json["critical_path"] = PathJson(summary);
  for (const SimulationSummary::Repeat& repeat : summary.repeats) {
    json["repeats"].push_back(
        {{"begin", repeat.begin}, {"seconds", repeat.seconds}, {"times", repeat.times}});
  }
  if (summary.traffic) json["process_traffic"] = ProcessTrafficJson(*summary.traffic);
  return JsonText(json) + "\n";
}

std::string SummaryText(const SimulationSummary& summary) {
  std::string text = absl::StrFormat(
      "%s on %s: %d device%s, program %s, %s\n", summary.model, summary.cluster, summary.devices,
      summary.devices == 1 ? "" : "s", summary.program, StepsText(summary));
  absl::StrAppendFormat(
      &text, "a step: %s%s; bubble %s of it (%s over busy time); %.4g TFLOP/s%s a device\n",
      TimeText(summary.step_seconds), BandText(summary.band), PercentText(summary.bubble),
      PercentText(summary.bubble_over_busy), summary.flops_a_device_second / 1e12,
      summary.device_tokens_a_second > 0
          ? " and " + DigitsText(std::llround(summary.device_tokens_a_second)) + " tokens/s"
          : "");
  text += StepPartsText(summary);
  if (summary.rates) text += RatesText(*summary.rates);
  if (summary.imbalance) {
    absl::StrAppendFormat(&text, "experts: priced at an imbalance of %.4g (docs/moe.md)\n",
                          *summary.imbalance);
  }
  if (summary.sharing && summary.sharing->slowdown() > 1) {
    absl::StrAppendFormat(
        &text, "%d kernel threads share %d cores: all work is taken to last %.3g times as long\n",
        summary.sharing->threads, summary.sharing->cores, summary.sharing->slowdown());
  }
  if (summary.traffic) text += ProcessTrafficText(*summary.traffic);
  for (const SimulationSummary::Repeat& repeat : summary.repeats) {
    absl::StrAppend(&text, "from ", TimeText(repeat.begin), " on a period of ",
                    TimeText(repeat.seconds), " repeats itself exactly, ", repeat.times,
                    " times more; these are counted, not simulated\n");
  }
  return text + DevicesText(summary) + ActorsText(summary, false) + ActorsText(summary, true) +
         PathText(summary);
}

}  // namespace oneflow
