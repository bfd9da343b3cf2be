#include "tools/oneflow/explain/headline.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor_runtime/simulate/model_rates.h"
#include "actor_runtime/simulate/simulate_on.h"
#include "actor_runtime/simulate/utilization.h"
#include "actor_runtime/trainer/plan_facts.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/cost/host_cost.h"
#include "oneflow_core/cost/host_memory.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/compared_text.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/print/variable_text.h"
#include "tools/oneflow/cli/load.h"

namespace oneflow {
namespace {

// Firings that are played, some seconds at most; a step may have many more, of which periods are
// skipped. Before the first period, 530B on 35 stages in three chunks each plays about 5,000,000.
constexpr int64_t kMostFirings = int64_t{1} << 24;

std::string Digits(int64_t n) {
  std::string digits = absl::StrCat(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

absl::StatusOr<Headline::Prediction> Predict(const proto::Plan& plan,
                                             const absl::StatusOr<proto::Cluster>& cluster,
                                             bool proved) {
  const proto::Program* train = FindProgram(plan, "train");
  if (train == nullptr) return absl::NotFoundError("the plan has no program train");
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
  const SimulatedRun& run = *simulated;
  Headline::Prediction prediction{run.StepSeconds(), FindCompared(*cluster),
                                  FindUtilization(run).bubble};
  ASSIGN_OR_RETURN(const ModelRates rates,
                   FindModelRates(plan, "train", *cluster, prediction.step_seconds));
  prediction.mfu = rates.mfu;
  if (rates.mfu) prediction.why_above_all = WhyAboveAll(*rates.mfu, rates.mfu_hidden);
  const absl::StatusOr<ModelFacts> facts = FactsOfModel(plan);
  if (facts.ok() && prediction.step_seconds > 0) {
    const auto steps = static_cast<double>(StepsARound(plan));
    const double sequences = static_cast<double>(train->micro_batches()) *
                             static_cast<double>(train->micro_batch_size()) / steps;
    prediction.tokens_a_second =
        sequences * static_cast<double>(facts->sequence) / prediction.step_seconds;
  }
  return prediction;
}

void AddHostMemory(const proto::Plan& plan, const absl::StatusOr<proto::Cluster>& cluster,
                   Headline* headline) {
  if (!RestsOnHost(plan)) return;
  for (const proto::StageMemory& memory : plan.memory()) {
    if (memory.kind() != proto::HOST) continue;
    headline->host_bytes_a_device = std::max(headline->host_bytes_a_device, memory.arena_bytes());
  }
  if (!cluster.ok()) return;
  const proto::Program* train = FindProgram(plan, "train");
  const bool computes =
      train != nullptr &&
      std::any_of(train->stream().begin(), train->stream().end(), [](const proto::Stream& stream) {
        return stream.kind() == proto::Stream::HOST_COMPUTE;
      });
  headline->assumed_of_host = AssumedOfHost(*cluster, computes);
  if (!KnowsNodes(*cluster)) return;
  const NodeMemory node = FindNodeMemory(plan, *cluster);
  headline->host_bytes_a_node = node.bytes;
  headline->devices_of_node = node.devices;
}

}  // namespace

Headline MakeHeadline(const proto::Plan& plan, const absl::StatusOr<proto::Cluster>& cluster,
                      const std::string& proof) {
  Headline headline{.model = plan.model(),
                    .mesh = MeshText(plan.mesh()),
                    .parameters = ParameterCount(plan),
                    .devices = 1,
                    .gpus = plan.device_kind() == proto::CUDA,
                    .proof = proof,
                    .bits = BitsText(plan)};
  for (const auto& axis : plan.mesh().axis()) {
    if (__builtin_mul_overflow(headline.devices, axis.size(), &headline.devices)) break;
  }
  headline.bytes_a_device = LargestDeviceArena(plan);
  AddHostMemory(plan, cluster, &headline);
  if (cluster.ok()) {
    headline.cluster = cluster->name();
    headline.capacity = cluster->device().memory_bytes();
  }
  const absl::StatusOr<Headline::Prediction> prediction = Predict(plan, cluster, proof == kProved);
  if (prediction.ok()) {
    headline.prediction = *prediction;
  } else {
    headline.why_none = ToStd(prediction.status().message());
  }
  return headline;
}

std::string HeadlineText(const Headline& headline) {
  const char* device = headline.gpus ? "GPU" : "device";
  std::string text =
      absl::StrCat(headline.model, ": ", Digits(headline.parameters), " parameters on ",
                   headline.devices, " ", device, headline.devices == 1 ? "" : "s", ", mesh ",
                   headline.mesh, "\nmemory: ", BytesText(headline.bytes_a_device), " a ", device);
  if (headline.capacity > 0) {
    absl::StrAppendFormat(&text, " of %s, %.1f %%", BytesText(headline.capacity),
                          100.0 * static_cast<double>(headline.bytes_a_device) /
                              static_cast<double>(headline.capacity));
  }
  if (headline.host_bytes_a_device > 0) {
    absl::StrAppend(&text, "\nmemory of the host: ", BytesText(headline.host_bytes_a_device), " a ",
                    device);
    if (headline.devices_of_node > 0) {
      absl::StrAppend(&text, ", ", BytesText(headline.host_bytes_a_node), " a node of ",
                      headline.devices_of_node);
    }
  }
  text += "\npredicted: ";
  if (headline.prediction) {
    const Headline::Prediction& p = *headline.prediction;
    absl::StrAppend(&text, "step ", TimeText(p.step_seconds), ComparedText(p.compared));
    if (p.tokens_a_second > 0) {
      absl::StrAppend(&text, ", ", Digits(static_cast<int64_t>(p.tokens_a_second)), " tokens/s");
    }
    if (p.mfu) absl::StrAppendFormat(&text, ", MFU %s", PercentText(*p.mfu));
    if (!p.why_above_all.empty()) absl::StrAppend(&text, " (", p.why_above_all, ")");
    absl::StrAppendFormat(&text, ", bubble %s, on %s", PercentText(p.bubble), headline.cluster);
    if (!headline.assumed_of_host.empty()) {
      absl::StrAppend(&text, "; it says nothing of the link to the host, which is taken to have ",
                      headline.assumed_of_host);
    }
  } else {
    text += "no time of a step: " + headline.why_none;
  }
  absl::StrAppend(&text, "\nproof: ", headline.proof, "\n");
  if (!headline.bits.empty()) absl::StrAppend(&text, "bits: ", headline.bits, "\n");
  return text;
}

std::string WithHeadline(const std::string& json, const Headline& headline) {
  using Json = nlohmann::ordered_json;
  Json member = {{"parameters", headline.parameters},
                 {"devices", headline.devices},
                 {"bytes_a_device", headline.bytes_a_device},
                 {"device_capacity_bytes", headline.capacity},
                 {"cluster", headline.cluster}};
  if (headline.host_bytes_a_device > 0) {
    member["host_bytes_a_device"] = headline.host_bytes_a_device;
  }
  if (headline.host_bytes_a_node > 0) member["host_bytes_a_node"] = headline.host_bytes_a_node;
  if (!headline.assumed_of_host.empty()) member["assumed_of_host"] = headline.assumed_of_host;
  if (headline.prediction) {
    member["step_seconds"] = headline.prediction->step_seconds;
    member["compared"] = ComparedJson(headline.prediction->compared);
    member["tokens_a_second"] = headline.prediction->tokens_a_second;
    if (headline.prediction->mfu) member["mfu"] = *headline.prediction->mfu;
    const std::string& why = headline.prediction->why_above_all;
    if (!why.empty()) member["why_above_all"] = why;
    member["bubble"] = headline.prediction->bubble;
  } else {
    member["no_prediction"] = headline.why_none;
  }
  if (!headline.bits.empty()) member["bits"] = headline.bits;
  Json all = Json::parse(json);
  all["headline"] = std::move(member);
  return JsonText(all, 1) + "\n";
}

}  // namespace oneflow
