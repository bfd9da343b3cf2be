#include "tools/oneflow/explain/headline.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/cost/host_cost.h"
#include "oneflow_core/cost/host_memory.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/axis_splits.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/print/variable_text.h"
#include "planning/simulate/model_rates.h"
#include "planning/simulate/run_figures.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/utilization.h"
#include "tools/oneflow/cli/plan_flags.h"

namespace oneflow {
namespace {

// Firings that are played, some seconds at most; a step may have many more, of which periods are
// skipped. Before the first period, 530B on 35 stages in three chunks each plays about 5,000,000.
constexpr int64_t kMostFirings = int64_t{1} << 24;

// Writes the time of a step; an error says why there is none.
absl::Status Predict(const proto::Plan& plan, const absl::StatusOr<proto::Cluster>& cluster,
                     bool proved, Report* headline) {
  const proto::Program* train = FindProgram(plan, "train");
  if (train == nullptr) {
    const auto name = [](std::string* text, const proto::Program& program) {
      absl::StrAppend(text, program.name());
    };
    return absl::NotFoundError(absl::StrCat("the plan has no program train; it has ",
                                            absl::StrJoin(plan.program(), ", ", name)));
  }
  if (!cluster.ok()) return cluster.status();
  // A refused plan is proved again for the message of the refusal.
  const absl::StatusOr<SimulatedRun> simulated = (proved ? SimulateProved : SimulateOn)(
      *cluster, plan, "train", /*steps=*/2, kSkipAfter, kMostFirings);
  if (absl::IsResourceExhausted(simulated.status())) {
    const std::vector<double> firings = FiringsPerStep(*train);
    return absl::ResourceExhaustedError(
        absl::StrFormat("a step has %.3g firings, too many to simulate here; `oneflow simulate` "
                        "tells it",
                        std::accumulate(firings.begin(), firings.end(), 0.0)));
  }
  RETURN_IF_ERROR(simulated.status());
  const double seconds = simulated->StepSeconds(), bubble = FindUtilization(*simulated).bubble;
  ASSIGN_OR_RETURN(const ModelRates rates, FindModelRates(plan, "train", *cluster, seconds));
  auto& [text, json] = *headline;
  const RunFigures figures = FindFigures(plan, "train");
  const Band band = FindBand(*cluster, figures);
  const double device_tokens_a_second = seconds > 0 ? figures.device_tokens / seconds : 0;
  const double tokens_a_second = device_tokens_a_second * static_cast<double>(figures.devices);
  json["step_seconds"] = seconds;
  json["compared"] = BandJson(band, seconds);
  absl::StrAppend(&text, "step ", TimeText(seconds), BandText(band));
  json["tokens_a_second"] = tokens_a_second;
  json["tokens_per_second_per_device"] = device_tokens_a_second;
  if (tokens_a_second > 0) {
    absl::StrAppend(&text, ", ", DigitsText(static_cast<int64_t>(tokens_a_second)), " tokens/s");
    if (figures.devices > 1) {
      absl::StrAppend(&text, " (", DigitsText(std::llround(device_tokens_a_second)), " a device)");
    }
  }
  if (rates.mfu) {
    json["mfu"] = *rates.mfu;
    absl::StrAppend(&text, ", MFU ", PercentText(*rates.mfu));
    const std::string counts = WhatCounts(rates);
    const std::string why = WhyAboveAll(*rates.mfu, rates.mfu_hidden);
    if (!counts.empty()) json["mfu_counts"] = counts;
    if (!why.empty()) json["why_above_all"] = why;
    if (!counts.empty() || !why.empty()) {
      absl::StrAppend(&text, " (", counts, counts.empty() || why.empty() ? "" : "; ", why, ")");
    }
  }
  json["bubble"] = bubble;
  absl::StrAppend(&text, ", bubble ", PercentText(bubble), ", on ", cluster->name());
  if (json.contains("assumed_of_host")) {
    absl::StrAppend(&text, "; it says nothing of the link to the host, which is taken to have ",
                    json["assumed_of_host"].get<std::string>());
  }
  return absl::OkStatus();
}

int64_t MostBytes(const proto::Plan& plan, proto::MemoryKind kind) {
  int64_t most = 0;
  for (const proto::StageMemory& memory : plan.memory()) {
    if (memory.kind() == kind) most = std::max(most, memory.arena_bytes());
  }
  return most;
}

// The memory that the device offers beside the `bytes` of the plan; "" where it is not known.
std::string OfferedText(int64_t bytes, const proto::Device& device) {
  const int64_t usable = UsableBytes(device), left = device.memory_bytes() - bytes;
  if (usable <= 0) return "";
  const std::string share = PercentText(static_cast<double>(bytes) / static_cast<double>(usable));
  std::string text =
      absl::StrCat(" of ", BytesText(device.memory_bytes()), KeptText(KeptBytes(device)), ", ",
                   share, KeptBytes(device) > 0 ? " of the rest" : "");
  if (left >= 0 && left < device.reserve_bytes()) {
    absl::StrAppend(&text, "; the plan leaves ", SizeText(static_cast<double>(left)), ", and ",
                    SizeText(static_cast<double>(device.reserve_bytes())),
                    " is what libraries take");
  }
  return text;
}

void AddHostMemory(const proto::Plan& plan, const absl::StatusOr<proto::Cluster>& cluster,
                   const char* device, Report* headline) {
  const int64_t bytes = MostBytes(plan, proto::HOST);
  if (!RestsOnHost(plan) || bytes == 0) return;
  auto& [text, json] = *headline;
  json["host_bytes_a_device"] = bytes;
  absl::StrAppend(&text, "\nmemory of the host: ", BytesText(bytes), " a ", device);
  if (!cluster.ok()) return;
  const NodeMemory node = KnowsNodes(*cluster) ? FindNodeMemory(plan, *cluster) : NodeMemory();
  if (node.devices > 0) {
    json["host_bytes_a_node"] = node.bytes;
    absl::StrAppend(&text, ", ", BytesText(node.bytes), " a node of ", node.devices);
  }
  const proto::Program* train = FindProgram(plan, "train");
  const bool computes =
      train != nullptr &&
      std::any_of(train->stream().begin(), train->stream().end(), [](const proto::Stream& stream) {
        return stream.kind() == proto::Stream::HOST_COMPUTE;
      });
  const std::string assumed = AssumedOfHost(*cluster, computes);
  if (!assumed.empty()) json["assumed_of_host"] = assumed;
}

void AddPrice(const PricedPlan& priced, Report* headline) {
  if (!priced.price) return;
  nlohmann::ordered_json& json = headline->json["price"];
  json = {{"imbalance", priced.imbalance},
          {"bytes_a_device", MostBytes(*priced.price, proto::DEVICE)}};
  if (priced.fits_up_to) json["fits_up_to"] = priced.fits_up_to->value;
  absl::StrAppend(&headline->text, ", ", PriceText(priced));
}

}  // namespace

std::string PriceText(const PricedPlan& priced) {
  const std::string text = absl::StrCat("at an imbalance of experts of ", priced.imbalance, ", ");
  if (FindImbalance(priced.plan) == 0) {
    return absl::StrCat(text, BytesText(MostBytes(priced.plan, proto::DEVICE)), " at the worst");
  }
  return absl::StrCat(
      text, "too much at the worst",
      priced.fits_up_to ? ": it fits up to " + priced.fits_up_to->Text() : std::string());
}

Report MakeHeadline(const PricedPlan& priced, const absl::StatusOr<proto::Cluster>& cluster,
                    const std::string& proof) {
  const proto::Plan& plan = priced.plan;
  const proto::Plan& price = priced.price ? *priced.price : plan;
  int64_t devices = 1;
  for (const auto& axis : plan.mesh().axis()) {
    if (__builtin_mul_overflow(devices, axis.size(), &devices)) break;
  }
  const char* const device = plan.device_kind() == proto::CUDA ? "GPU" : "device";
  const int64_t trained = ParameterCount(plan, /*trained=*/true);
  const int64_t parameters = ParameterCount(plan), bytes = MostBytes(price, proto::DEVICE);
  const proto::Device hardware = cluster.ok() ? cluster->device() : proto::Device();
  Report headline = {
      absl::StrCat(
          plan.model(), ": ", DigitsText(parameters), " parameters",
          trained == parameters ? "" : absl::StrCat(" (", DigitsText(trained), " trained)"), " on ",
          devices, " ", device, devices == 1 ? "" : "s", ", mesh ", MeshText(plan.mesh()),
          "\nmemory: ", BytesText(bytes), " a ", device),
      {{"parameters", parameters},
       {"trained_parameters", trained},
       {"devices", devices},
       {"bytes_a_device", MostBytes(plan, proto::DEVICE)},
       {"device_capacity_bytes", hardware.memory_bytes()},
       {"device_kept_bytes", KeptBytes(hardware)},
       {"cluster", cluster.ok() ? cluster->name() : ""}}};
  auto& [text, json] = headline;
  text += OfferedText(bytes, hardware);
  AddPrice(priced, &headline);
  AddHostMemory(plan, cluster, device, &headline);
  text += "\npredicted: ";
  const absl::Status predicted = Predict(price, cluster, proof == kProved, &headline);
  if (!predicted.ok()) {
    json["no_prediction"] = ToStd(predicted.message());
    absl::StrAppend(&text, "no time of a step: ", predicted.message());
  }
  absl::StrAppend(&text, "\nproof: ", proof, "\n");
  const std::vector<AxisSplits> axes = FindAxisSplits(plan);
  text += AxisSplitsText(axes);
  json["axes"] = AxisSplitsJson(axes);
  const std::string bits = BitsText(plan);
  if (!bits.empty()) {
    json["bits"] = bits;
    absl::StrAppend(&text, "bits: ", bits, "\n");
  }
  return headline;
}

}  // namespace oneflow
