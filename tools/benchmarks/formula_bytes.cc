// Reads configurations of other systems as JSON, one a line, from standard input, and prints for
// each what the formulas of its system count (tools/foreign/bytes), again one a line.
//
// Fields: system; model (a text proto); devices, sequence, micro, micro_batches, tensor, pipe,
// context, chunks, stage_layers, schedule, sharding, over, gather, reduce, recompute, recomputes,
// precision, sequence_parallel, dropout, settings (keys and values).
#include <iostream>
#include <string>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/model.h"
#include "tools/foreign/bytes/bytes.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {
namespace {

absl::StatusOr<Facts> ReadFacts(const nlohmann::json& json) {
  Facts facts;
  facts.system = json.at("system");
  proto::Model model;
  RETURN_IF_ERROR(ParseText(json.at("model").get<std::string>(), "model", "is no model", &model));
  ASSIGN_OR_RETURN(facts.model.model, CompleteModel(std::move(model)));
  facts.devices = json.at("devices").get<int64_t>();
  facts.devices_a_node = 8;
  facts.sequence = facts.model.model->sequence();
  facts.degrees.tensor = json.value("tensor", 1);
  facts.degrees.pipe = json.value("pipe", 1);
  facts.degrees.context = json.value("context", 1);
  facts.batch.micro = json.at("micro").get<int64_t>();
  facts.batch.micro_batches = json.at("micro_batches").get<int64_t>();
  facts.schedule.name = json.value("schedule", "none");
  facts.schedule.chunks = json.value("chunks", 1);
  facts.schedule.stage_layers = json.value("stage_layers", std::vector<int64_t>{});
  facts.sharding.what = json.value("sharding", "none");
  facts.sharding.over = json.value("over", std::vector<std::string>{});
  facts.sharding.gather = json.value("gather", "");
  facts.sharding.reduce = json.value("reduce", "once a step");
  facts.recompute.here = json.value("recompute", "none");
  facts.recompute.what = json.value("recomputes", "none");
  facts.precision.compute = facts.precision.here = json.value("precision", "bf16");
  facts.sequence_parallel = json.value("sequence_parallel", false);
  facts.dropout_hidden = facts.dropout_attention = json.value("dropout", 0.0);
  const nlohmann::json settings = json.value("settings", nlohmann::json::object());
  for (const auto& [key, value] : settings.items()) {
    facts.settings.push_back({.name = key, .key = key, .value = value});
  }
  CompleteDegrees({}, &facts);
  return facts;
}

int Run() {
  for (std::string line; std::getline(std::cin, line);) {
    const absl::StatusOr<Facts> facts = ReadFacts(nlohmann::json::parse(line));
    const absl::StatusOr<SystemBytes> theirs =
        facts.ok() ? TheirBytes(*facts) : absl::StatusOr<SystemBytes>(facts.status());
    if (!theirs.ok()) {
      std::cerr << theirs.status().message() << "\n";
      return 2;
    }
    std::cout << JsonText(BytesJson(*theirs, {})) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace oneflow::foreign

int main() { return oneflow::foreign::Run(); }
