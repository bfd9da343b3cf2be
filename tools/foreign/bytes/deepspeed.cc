// DeepSpeed and GPT-NeoX: ZeRO's bytes of a parameter (Rajbhandari et al. 2020, section 3) with the
// copies that DeepSpeed's estimators count.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/time_text.h"
#include "tools/foreign/bytes/systems.h"

namespace oneflow::foreign {
namespace {

// Parameters of the largest module that has weights of its own.
double LargestModule(const Setup& setup) {
  const Shape& s = setup.shape;
  const double product = static_cast<double>(s.hidden) * static_cast<double>(s.ffn);
  return std::max(static_cast<double>(s.vocab * s.hidden), product) /
         static_cast<double>(setup.tensor);
}

constexpr double kHostBuffers = 1.5;  // their additional_buffer_factor

bool OffloadsStates(const Facts& facts) { return facts.offload.states || facts.offload.update; }

void AddHostLine(const Facts& facts, const Setup& setup, const StageShare& stage,
                 SystemBytes* bytes) {
  const int64_t a_node = std::min(setup.a_node, setup.devices);
  const int64_t nodes = std::max<int64_t>(1, setup.devices / a_node);
  const double all = stage.dense + stage.expert;
  const std::string parameters = DigitsText(std::llround(all));
  if (!OffloadsStates(facts)) {
    bytes->host.push_back(
        PlainLine("weights", "weights in 16 bits",
                  absl::StrCat("2 bytes x ", parameters, " / ", nodes, " nodes x ", kHostBuffers),
                  2 * all / static_cast<double>(nodes) * kHostBuffers));
    return;
  }
  if (facts.sharding.what == "weights") {
    const double each = facts.offload.weights ? 18 : 16;
    bytes->host.push_back(PlainLine(
        "states", facts.offload.weights ? "weights and states" : "states",
        absl::StrCat(each, " bytes x ", parameters, " / ", nodes, " nodes x ", kHostBuffers),
        EstimateZero3(all, LargestModule(setup), a_node, nodes, true, facts.offload.weights).host));
    return;
  }
  bytes->host.push_back(PlainLine("states", "states",
                                  absl::StrCat("max(4 x ", a_node * nodes, " GPUs, 16) bytes x ",
                                               parameters, " x ", kHostBuffers),
                                  EstimateZero2(all, a_node, nodes, true).host));
}

std::vector<ByteLine> StateLines(const Facts& facts, const Setup& setup, const StageShare& stage) {
  const std::string& what = facts.sharding.what;
  const bool is_wide = facts.precision.compute == "f32";
  const bool weights = what == "weights", gradients = weights || what == "gradients";
  const auto line = [&](const char* kind, std::string name, double bytes, bool is_split) {
    return ParameterLine(kind, std::move(name), bytes, stage, is_split ? setup.dense_ways : 1,
                         is_split ? setup.expert_ways : 1);
  };
  const double weight = is_wide ? 4 : 2;
  // Gradients that add up in f32 are a buffer of their own; else they are cast for the update.
  const bool adds_wide = !is_wide && !facts.precision.gradients_in_bf16;
  const bool narrow_masters =
      !is_wide && facts.precision.master != "f32" && !facts.precision.master.empty();
  std::vector<ByteLine> lines;
  if (!(weights && facts.offload.weights)) {
    lines.push_back(
        line("weights", is_wide ? "weights in f32" : "weights in 16 bits", weight, weights));
  }
  const bool on_host = OffloadsStates(facts);
  const double master = is_wide || narrow_masters ? 0 : 4;
  if (weights && !on_host) {
    // ZeRO 3 splits them as they come; the estimator counts them once, as the update takes them.
    lines.push_back(line("gradients", "gradients for the update", narrow_masters ? 2 : 4, true));
  } else if (!(gradients && on_host)) {
    lines.push_back(line("gradients", is_wide ? "gradients in f32" : "gradients in 16 bits", weight,
                         gradients));
    if (adds_wide) {
      lines.push_back(line("gradients", "their sums in f32", 4, gradients));
    } else if (!on_host && master > 0) {
      lines.push_back(line("gradients", "gradients in f32, for the update", 4, what != "none"));
    }
  }
  if (!on_host) {
    lines.push_back(line("states", master > 0 ? "masters and moments in f32" : "moments",
                         master + MomentBytes(facts, narrow_masters ? 2 : 4), what != "none"));
  }
  if (weights) {
    const double largest = LargestModule(setup);
    lines.push_back(
        PlainLine("buffers", "the largest module, gathered, and its gradient",
                  absl::StrCat(2 * weight, " bytes x ", DigitsText(std::llround(largest))),
                  2 * weight * largest));
  }
  return lines;
}

}  // namespace

ZeroEstimate EstimateZero2(double parameters, int64_t a_node, int64_t nodes, bool offloads_states) {
  const auto gpus = static_cast<double>(a_node * nodes);
  if (offloads_states) {
    return {2 * parameters, parameters * std::max(4 * gpus, 16.0) * kHostBuffers};
  }
  return {2 * parameters + 18 * parameters / gpus,
          parameters * 4 * static_cast<double>(a_node) * kHostBuffers};
}

ZeroEstimate EstimateZero3(double parameters, double largest_layer, int64_t a_node, int64_t nodes,
                           bool offloads_states, bool offloads_weights) {
  const auto gpus = static_cast<double>(a_node * nodes);
  const double largest = 4 * largest_layer;
  if (!offloads_states) {
    return {largest + 18 * parameters / gpus,
            largest_layer * 4 * static_cast<double>(a_node) * kHostBuffers};
  }
  return {offloads_weights ? largest : largest + 2 * parameters / gpus,
          parameters * (offloads_weights ? 18 : 16) / static_cast<double>(nodes) * kHostBuffers};
}

SystemBytes DeepSpeedBytes(const Facts& facts, const Setup& setup) {
  SystemBytes bytes;
  const bool is_neox = facts.system == "gpt-neox";
  bytes.system = is_neox ? "GPT-NeoX" : "DeepSpeed";
  const bool is_trainer = facts.system == "accelerate" || facts.system == "hf-trainer" ||
                          std::find(facts.together_with.begin(), facts.together_with.end(),
                                    "hf-trainer") != facts.together_with.end();
  const Kernels kernels = is_trainer ? Kernels::kModels : Kernels::kFused;
  const bool offloads = OffloadsStates(facts);
  for (const StageShare& stage : setup.stages) {
    std::vector<ByteLine> lines = StateLines(facts, setup, stage);
    for (ByteLine& one : ActivationLines(setup, facts, kernels, stage)) {
      lines.push_back(std::move(one));
    }
    if (stage.is_last) {
      const char* logits =
          is_trainer ? "logits in 16 bits and f32, and their log-softmax" : "logits in f32";
      for (ByteLine& one : HeadLines(setup, facts, is_trainer ? 10 : 4, logits)) {
        lines.push_back(std::move(one));
      }
    }
    const std::string before = bytes.device;
    KeepLargest(std::move(lines), stage, &bytes);
    if (bytes.device == before || !(offloads || facts.offload.weights)) continue;
    bytes.host.clear();
    AddHostLine(facts, setup, stage, &bytes);
  }
  const StageShare& first = setup.stages.front();
  const double all = first.dense + first.expert;
  const int64_t a_node = std::min(setup.a_node, setup.devices);
  const int64_t nodes = std::max<int64_t>(1, setup.devices / a_node);
  if (facts.sharding.what == "gradients") {
    bytes.printed = {PlainLine("states", "estimate_zero2_model_states_mem_needs",
                               offloads ? "2 P" : absl::StrCat("2 P + 18 P / ", setup.devices),
                               EstimateZero2(all, a_node, nodes, offloads).device)};
  } else if (facts.sharding.what == "weights") {
    bytes.printed = {PlainLine(
        "states", "estimate_zero3_model_states_mem_needs",
        absl::StrCat("4 x the largest module", !offloads ? absl::StrCat(" + 18 P / ", setup.devices)
                                               : !facts.offload.weights
                                                   ? absl::StrCat(" + 2 P / ", setup.devices)
                                                   : ""),
        EstimateZero3(all, LargestModule(setup), a_node, nodes, offloads, facts.offload.weights)
            .device)};
  }
  bytes.sources = {
      "Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054), section 3",
      "DeepSpeed, docs/code-docs/source/memory.rst",
      "Korthikanti et al. 2022 (arXiv 2205.05198), section 4: DeepSpeed has no formula "
      "of activations"};
  bytes.leaves_out = CommonlyLeftOut();
  bytes.leaves_out.insert(bytes.leaves_out.begin(),
                          "buckets of exchanges: of 5e8 elements, up to 9 GB with overlap_comm");
  bytes.notes = setup.notes;
  if (facts.sharding.what != "none" && setup.pipe > 1) {
    bytes.notes.emplace_back("parameters are those of the stage");
  }
  return bytes;
}

}  // namespace oneflow::foreign
